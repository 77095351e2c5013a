"""Pictures as SVG, each in two shapes: for a desk or paper, and for a phone, so that letters keep their size."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np
from numpy.typing import ArrayLike, NDArray

from uneven.report.markup import escape_text
from uneven.report.style import DASHES, SERIES
from uneven.words import shorten

Array = NDArray[np.float64]
SHAPES = {"wide": (720, 300), "narrow": (360, 260)}
LEFT, RIGHT, TOP, BOTTOM = 72, 14, 12, 42
LINE_HEIGHT = 30
DOT_HEIGHT = 22
MARKS = 10
"""Most points of a line whose values can be asked for."""

LETTER, TIP_LETTER = 6.8, 8.0
"""About how wide a letter is in a picture, and at most a bold one."""

MOST_TOLD = 4
"""Most rows whose figures are told below a picture too; with more that is a wall of text."""


@dataclass(frozen=True)
class Series:
    """A line: its name, its points and the number of its colour."""

    name: str
    x: ArrayLike
    y: ArrayLike
    colour: int = 0


@dataclass(frozen=True)
class Axis:
    """One direction of a picture: what it shows, from where to where, and whether in logarithms."""

    label: str
    low: float
    high: float
    log: bool = False

    def place(self, values: ArrayLike) -> Array:
        """Where values are between the two ends, from 0 to 1."""
        a = np.asarray(values, dtype=np.float64)
        if self.log:
            return np.asarray(np.log(a / self.low) / math.log(self.high / self.low))
        return np.asarray((a - self.low) / (self.high - self.low))

    def ticks(self) -> list[float]:
        """Round values in between."""
        return _log_ticks(self.low, self.high) if self.log else _ticks(self.low, self.high)


def choose_axis(label: str, values: ArrayLike, log: bool = False) -> Axis:
    """Axis that has room for these values.

    >>> choose_axis("step", [1, 10], log=True).place([1, 10]).round(2).tolist()
    [0.05, 0.95]
    """
    a = np.asarray(values, dtype=np.float64)
    a = a[np.isfinite(a) & ((a > 0) | (not log))]
    low, high = (float(a.min()), float(a.max())) if len(a) else (1.0, 2.0)
    if high - low <= 1e-9 * abs(high):
        low, high = (low * 0.8, high * 1.25) if log else (low - 0.5, high + 0.5)
    if log:
        margin = (high / low) ** (0.05 / 0.9)
        return Axis(label, low / margin, high * margin, True)
    margin = (high - low) * 0.05 / 0.9
    return Axis(label, low - margin, high + margin)


def _ticks(low: float, high: float) -> list[float]:
    rough = (high - low) / 4
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * m for m in (1, 2, 5, 10) if unit * m >= rough)
    return [k * step for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for multiples in ((1,), (1, 3), (1, 2, 5), tuple(range(1, 10))):
        found = [m * 10.0**k for k in decades for m in multiples if low <= m * 10.0**k <= high]
        if len(found) >= 3:
            return found[:: math.ceil(len(found) / 6)]
    return _ticks(low, high)  # so short a stretch is as good as linear


def tick_text(value: float) -> str:
    """Number on an axis.

    >>> [tick_text(x) for x in (0, 1200, 0.05, 3e-7, 2e6)]
    ['0', '1,200', '0.05', '3e-07', '2e+06']
    """
    value = 0.0 if abs(value) < 1e-300 else value
    return f"{value:,.0f}" if 1e3 <= abs(value) < 1e6 else f"{value:.6g}"


def draw_lines(
    title: str, told: str, series: Sequence[Series], x: Axis, y: Axis, reference: float | None = None
) -> str:
    """Lines over a common axis, and a level line for reference; `told` says what there is to see."""
    return _figure(title, told, lambda w, h: _lines(w, h, series, x, y, reference), draw_legend(series))


def _lines(width: int, height: int, series: Sequence[Series], x: Axis, y: Axis, reference: float | None) -> str:
    across, up = _frame(width, height)
    parts, marks = [_axes(width, height, x, y)], []
    if reference is not None:
        level = f"{up(float(y.place(reference))):.1f}"
        parts.append(f'<path class="reference" d="M{LEFT} {level}H{width - RIGHT}"/>')
    for one in series:
        px, py = across(x.place(one.x)), up(y.place(one.y))
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(px, py, strict=True) if math.isfinite(b))
        parts.append(f'<polyline class="line" {_stroke(one.colour)} points="{points}"/>')
        for k in _choose_marks(py):
            told = f"{np.asarray(one.y)[k]:.4g} at {x.label} {tick_text(float(np.asarray(one.x)[k]))}"
            dot = f'<circle cx="{px[k]:.1f}" cy="{py[k]:.1f}" r="{4 if len(px) == 1 else 3}" {_fill(one.colour)}/>'
            marks.append(_mark(one.name, told, dot, (float(px[k]), float(py[k])), width))
    return "".join([*parts, *marks])


def _choose_marks(y: Array) -> list[int]:
    """Places of a few points of a line, its ends among them, whose values a reader can ask for."""
    known = np.flatnonzero(np.isfinite(y))
    some = np.unique(np.linspace(0, len(known) - 1, min(len(known), MARKS)).round().astype(np.int64))
    return [int(k) for k in known[some]]


def _mark(name: str, value: str, drawn: str, place: tuple[float, float], width: int) -> str:
    """Part of a picture that tells its value when it is pointed at, tapped or reached by the keyboard."""
    x, y = place
    short = shorten(name, max(int((width - 8) / TIP_LETTER) - len(value) - 2, 8))
    text = escape_text(f"{short}: {value}")
    half = (len(short) + len(value) + 2) * TIP_LETTER / 2
    middle = max(min(x, width - half), half)
    tip = f'<text class="tip" x="{middle:.1f}" y="{max(y - 10, 12):.1f}" text-anchor="middle">{text}</text>'
    return f'<g class="mark" tabindex="0" role="img" aria-label="{text}">{drawn}{tip}</g>'


def draw_bars(title: str, told: str, rows: Sequence[tuple[str, float, float]], kinds: tuple[str, str]) -> str:
    """Two bars per row, both shares of one: for instance of rows and of information."""

    def draw(width: int, _: int) -> str:
        parts = []
        for k, (name, *shares) in enumerate(rows):
            top = k * 56 + 16
            parts.append(f'<text x="0" y="{top}">{escape_text(shorten(name, width // 9))}</text>')
            for i, share in enumerate(shares):
                length = max(share * (width - 60), 1.0)
                parts.append(f'<rect x="0" y="{top + 6 + 15 * i}" width="{length:.1f}" height="12" {_fill(i)}/>')
                parts.append(f'<text x="{length + 6:.1f}" y="{top + 16 + 15 * i}">{format_percent(share)}</text>')
        return "".join(parts)

    swatches = draw_legend([Series(kind, [], [], i) for i, kind in enumerate(kinds)], solid=True)
    return _figure(title, told, draw, swatches, height=len(rows) * 56 + 6, captioned=len(rows) <= MOST_TOLD)


def format_percent(share: float) -> str:
    """Share as a percentage.

    >>> [format_percent(x) for x in (0.5, 0.0423, 0.00004)]
    ['50%', '4.2%', 'below 0.1%']
    """
    if 0 < share < 0.001:
        return "below 0.1%"
    return f"{100 * share:.0f}%" if share >= 0.1 or share == 0 else f"{100 * share:.1f}%"


def draw_intervals(
    title: str, told: str, rows: Sequence[tuple[str, float | None, float]], axis: Axis, marked: str, reference: float
) -> str:
    """A row for each name with one or two points on a common axis: filled for the larger, hollow for the smaller."""

    def draw(width: int, height: int) -> str:
        left = min(190, width // 2 - 20)
        room = width - left - RIGHT

        def at(value: float) -> float:
            return round(left + room * float(np.clip(axis.place(value), 0, 1)), 1)

        parts, marks = [_grid(axis, at, width, height)], []
        parts.append(f'<path class="reference" d="M{at(reference)} 0V{height - BOTTOM}"/>')
        for k, (name, small, large) in enumerate(rows):
            y, colour = 18 + k * LINE_HEIGHT, 0 if name == marked else 7
            parts.append(f'<text x="0" y="{y + 4}">{escape_text(shorten(name, left // 7))}</text>')
            if small is not None:
                parts.append(f'<path class="line" {_stroke(colour, solid=True)} d="M{at(small)} {y}H{at(large)}"/>')
                hollow = f'r="5" style="stroke:var(--s{colour});fill:var(--paper)" stroke-width="2"'
                ring = f'<circle cx="{at(small)}" cy="{y}" {hollow}/>'
                marks.append(_mark(name, f"{small:.4g}", ring, (at(small), y), width))
            disc = f'<circle cx="{at(large)}" cy="{y}" r="6" {_fill(colour)}/>'
            marks.append(_mark(name, f"{large:.4g}", disc, (at(large), y), width))
        return "".join([*parts, *marks])

    return _figure(title, told, draw, "", height=len(rows) * LINE_HEIGHT + BOTTOM + 6)


@dataclass(frozen=True)
class Dot:
    """A value with its name and the ends of its interval."""

    name: str
    value: float
    low: float
    high: float
    colour: int = 0


def draw_dots(
    title: str,
    told: str,
    groups: Sequence[tuple[str, Sequence[Dot]]],
    axis: Axis,
    references: Sequence[tuple[str, float]] = (),
) -> str:
    """Dots with error bars on a common axis, in groups with a heading; references are labelled lines across all."""

    def draw(width: int, height: int) -> str:
        left = min(230, width // 2 - 20)
        room = width - left - RIGHT - 10

        def at(value: float) -> float:
            return round(left + room * float(np.clip(axis.place(value), 0, 1)), 1)

        parts, y = [_grid(axis, at, width, height)], 18
        for name, value in references:
            told_name = f"<title>{escape_text(name)}</title>"
            parts.append(f'<path class="reference" d="M{at(value)} 0V{height - BOTTOM}">{told_name}</path>')
        for group, members in groups:
            parts.append(
                f'<text x="0" y="{y + 4}" style="font-weight:600">{escape_text(shorten(group, left // 7))}</text>'
            )
            for dot in members:
                y += DOT_HEIGHT
                parts.append(_draw_dot(dot, at, y, (left, width)))
            y += LINE_HEIGHT
        return "".join(parts)

    rows = sum(len(members) * DOT_HEIGHT + LINE_HEIGHT for _, members in groups)
    references = sorted(references, key=lambda one: one[1])
    lined = [f"{name}: {tick_text(round(value, 3))}" for name, value in references]
    dotted = "Dotted lines, from the left" if len(lined) > 1 else "Dotted line"
    caption = f"{told} {dotted}: {'; '.join(lined)}." if lined else told
    return _figure(title, caption, draw, "", height=rows + BOTTOM)


def _draw_dot(dot: Dot, at: Callable[[float], float], y: int, ends: tuple[int, int]) -> str:
    """A dot, its error bar and its name, from the left end to the right."""
    left, width = ends
    told = f"{dot.value:.4g} ({dot.low:.4g} to {dot.high:.4g})"
    drawn = (
        f'<path class="line" {_stroke(dot.colour, solid=True)} d="M{at(dot.low)} {y}H{at(dot.high)}"/>'
        f'<circle cx="{at(dot.value)}" cy="{y}" r="5" {_fill(dot.colour)}/>'
    )
    name = f'<text x="8" y="{y + 4}">{escape_text(shorten(dot.name, left // 7 - 1))}</text>'
    return name + _mark(dot.name, told, drawn, (at(dot.value), y), width)


def _grid(axis: Axis, at: Callable[[float], float], width: int, height: int) -> str:
    base = height - BOTTOM
    parts = [f'<path class="grid" d="M{at(tick)} 0V{base}"/>' for tick in axis.ticks()]
    parts.append(_label_ticks([(at(tick), tick_text(tick)) for tick in axis.ticks()], width, base))
    middle = at(math.sqrt(axis.low * axis.high) if axis.log else (axis.low + axis.high) / 2)
    half = len(axis.label) * LETTER / 2
    middle = max(min(middle, width - half), half)
    return "".join(parts) + _place_text(middle, base + 34, escape_text(axis.label))


def _label_ticks(ticks: Sequence[tuple[float, str]], width: int, base: int) -> str:
    """Numbers below an axis, from the left: inside the picture, and only those that do not touch the one before."""
    parts, taken = [], 0.0
    for at, told in ticks:
        half = len(told) * LETTER / 2
        middle = max(min(at, width - half), half)
        if middle - half >= taken:
            parts.append(_place_text(middle, base + 16, told))
            taken = middle + half + LETTER
    return "".join(parts)


def _place_text(x: float, y: float, told: str) -> str:
    return f'<text x="{x:.1f}" y="{y}" text-anchor="middle">{told}</text>'


def _frame(width: int, height: int) -> tuple[Callable[[ArrayLike], Array], Callable[[ArrayLike], Array]]:
    def across(share: ArrayLike) -> Array:
        return np.asarray(LEFT + np.asarray(share) * (width - LEFT - RIGHT))

    def up(share: ArrayLike) -> Array:
        return np.asarray(height - BOTTOM - np.asarray(share) * (height - BOTTOM - TOP))

    return across, up


def _axes(width: int, height: int, x: Axis, y: Axis) -> str:
    across, up = _frame(width, height)
    base, parts = height - BOTTOM, []
    for tick in y.ticks():
        at = float(up(y.place(tick)))
        parts.append(f'<path class="grid" d="M{LEFT} {at:.1f}H{width - RIGHT}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{tick_text(tick)}</text>')
    parts.append(_label_ticks([(float(across(x.place(tick))), tick_text(tick)) for tick in x.ticks()], width, base))
    parts.append(f'<path class="axis" d="M{LEFT} {TOP}V{base}H{width - RIGHT}"/>')
    middle = (LEFT + width - RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{base + 34}" text-anchor="middle">{escape_text(x.label)}</text>')
    turned = f'transform="rotate(-90 12 {(TOP + base) / 2})"'
    parts.append(f'<text x="12" y="{(TOP + base) / 2}" text-anchor="middle" {turned}>{escape_text(y.label)}</text>')
    return "".join(parts)


def _figure(
    title: str,
    told: str,
    draw: Callable[[int, int], str],
    below: str,
    height: int | None = None,
    captioned: bool = True,
) -> str:
    """Both shapes of a picture, with words for those who do not see it."""
    shapes = []
    for kind, (w, usual) in SHAPES.items():
        h = usual if height is None else height
        name = f"{kind}-{crc32((title + told).encode()):08x}"
        shapes.append(
            f'<svg class="{kind}" viewBox="0 0 {w} {h}" role="group" aria-labelledby="{name}-title {name}-told">'
            f'<title id="{name}-title">{escape_text(title)}</title>'
            f'<desc id="{name}-told">{escape_text(told)}</desc>{draw(w, h)}</svg>'
        )
    caption = f"<figcaption>{escape_text(told)}</figcaption>" if captioned else ""
    return f"<figure>{''.join(shapes)}{below}{caption}</figure>"


def draw_legend(series: Sequence[Series], solid: bool = False) -> str:
    """What each colour and dash stands for."""
    items = []
    for one in series:
        line = f'<path class="line" {_stroke(one.colour, solid)} d="M1 5H31"/>'
        mark = f'<rect width="32" height="10" {_fill(one.colour)}/>' if solid else line
        items.append(f'<li><svg viewBox="0 0 32 10" aria-hidden="true">{mark}</svg>{escape_text(one.name)}</li>')
    return f'<ul class="legend">{"".join(items)}</ul>'


def _stroke(colour: int, solid: bool = False) -> str:
    dash = "none" if solid else DASHES[colour % SERIES % len(DASHES)]
    return f'style="stroke:var(--s{colour % SERIES})" stroke-dasharray="{dash}"'


def _fill(colour: int) -> str:
    return f'style="fill:var(--s{colour % SERIES})"'

"""Pictures as SVG, each in two shapes: for a desk or paper, and for a phone, so that letters keep their size."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np
from numpy.typing import ArrayLike

from uneven.report.axes import Array, Axis, tick_text
from uneven.report.markup import escape_text
from uneven.report.style import DASHES, SERIES
from uneven.words import shorten

SHAPES = {"wide": (720, 300), "narrow": (360, 260)}
LEFT, RIGHT, TOP, BOTTOM = 72, 14, 12, 42
LINE_HEIGHT = 30
INTERVAL_NAMES, DOT_NAMES = 190, 230
DOT_HEIGHT = 22
TEXT_HEIGHT, MOST_LINES = 13, 3
"""Height of a line of a name in a picture, and the most lines that a name has."""

MARKS = 10
"""Most points of a line whose values can be asked for."""

LETTER, TIP_LETTER = 6.8, 8.0
"""About how wide a letter is in a picture, and at most a bold one."""

MOST_TOLD = 4
"""Most rows whose figures are told below a picture too; with more that is a wall of text."""

SHORT = 140
"""Letters up to which a caption is no wall of text in any case."""


@dataclass(frozen=True)
class Series:
    """A line: its name, its points and the number of its colour."""

    name: str
    x: ArrayLike
    y: ArrayLike
    colour: int = 0


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
    """Two bars per row, both shares of one, whose figures can be asked for: for instance of rows and of information."""

    def draw(width: int, _: int) -> str:
        parts, marks = [], []
        for k, (name, *shares) in enumerate(rows):
            top = k * 56 + 16
            parts.append(f'<text x="0" y="{top}">{escape_text(shorten(name, width // 9))}</text>')
            for i, share in enumerate(shares):
                length, y = max(share * (width - 60), 1.0), top + 6 + 15 * i
                parts.append(f'<text x="{length + 6:.1f}" y="{y + 10}">{format_percent(share)}</text>')
                bar = f'<rect x="0" y="{y}" width="{length:.1f}" height="12" {_fill(i)}/>'
                figure = f"{100 * share:.4g}% {kinds[i].removeprefix('share ')}"
                marks.append(_mark(name, figure, bar, (length, y + 6), width))
        return "".join([*parts, *marks])

    swatches = draw_legend([Series(kind, [], [], i) for i, kind in enumerate(kinds)], solid=True)
    short = len(rows) <= MOST_TOLD or len(told) <= SHORT
    return _figure(title, told, draw, swatches, height=len(rows) * 56 + 6, captioned=short)


def format_percent(share: float) -> str:
    """Share as a percentage.

    >>> [format_percent(x) for x in (0.5, 0.0423, 0.00004)]
    ['50%', '4.2%', 'below 0.1%']
    """
    if 0 < share < 0.001:
        return "below 0.1%"
    return f"{100 * share:.0f}%" if share >= 0.1 or share == 0 else f"{100 * share:.1f}%"


def describe_interval(shares: tuple[float, float, float]) -> str:
    """A share with its interval, in percent.

    >>> describe_interval((0.95, 0.931, 0.97))
    '95.0% (93.1 to 97.0)'
    """
    value, low, high = (f"{100 * share:.1f}" for share in shares)
    return f"{value}% ({low} to {high})"


def draw_intervals(
    title: str,
    told: str,
    rows: Sequence[tuple[str, float | None, float]],
    axis: Axis,
    marked: str,
    reference: float | None,
) -> str:
    """A row for each name with one or two points on a common axis: filled for the larger, hollow for the smaller."""

    def draw(width: int, height: int) -> str:
        left = min(INTERVAL_NAMES, width // 2 - 20)
        room = width - left - RIGHT

        def at(value: float) -> float:
            return round(left + room * float(np.clip(axis.place(value), 0, 1)), 1)

        parts, marks = [_grid(axis, at, width, height)], []
        if reference is not None:
            parts.append(f'<path class="reference" d="M{at(reference)} 0V{height - BOTTOM}"/>')
        for k, (name, small, large) in enumerate(rows):
            y, colour = 18 + k * LINE_HEIGHT, 0 if name == marked else 7
            parts.append(_write_name(name, 0, y, left, most=2))
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
    """Shares as dots with error bars on a common axis, in groups with a heading; references are lines across all."""

    def draw(width: int, height: int) -> str:
        left = _leave_for_names(width)
        room = width - left - RIGHT - 10

        def at(value: float) -> float:
            return round(left + room * float(np.clip(axis.place(value), 0, 1)), 1)

        parts, y = [_grid(axis, at, width, height)], 18
        for name, value in references:
            told_name = f"<title>{escape_text(name)}</title>"
            parts.append(f'<path class="reference" d="M{at(value)} 0V{height - BOTTOM}">{told_name}</path>')
        for group, members in groups:
            parts.append(_write_name(group, 0, y, left - 8, most=2, style=' style="font-weight:600"'))
            y += DOT_HEIGHT // 2
            for dot in members:
                high = _measure_dot(dot, left)
                parts.append(_draw_dot(dot, at, y + high // 2, (left, width)))
                y += high
            y += LINE_HEIGHT - DOT_HEIGHT // 2
        return "".join(parts)

    def measure(width: int) -> int:
        dots = [dot for _, members in groups for dot in members]
        heights = sum(_measure_dot(dot, _leave_for_names(width)) for dot in dots)
        return heights + LINE_HEIGHT * len(groups) + BOTTOM

    references = sorted(references, key=lambda one: one[1])
    lined = [f"{name}: {value:.1%}" for name, value in references]
    dotted = "Dotted lines, from the left" if len(lined) > 1 else "Dotted line"
    caption = f"{told} {dotted}: {'; '.join(lined)}." if lined else told
    return _figure(title, caption, draw, "", height=measure)


def _leave_for_names(width: int) -> int:
    return min(DOT_NAMES, width // 2 - 20)


def _measure_dot(dot: Dot, left: int) -> int:
    """Height of a dot's row: more where its name has several lines."""
    return max(DOT_HEIGHT, len(_split_name(dot.name, left - 8)) * TEXT_HEIGHT + 8)


def _split_name(name: str, room: int, most: int = MOST_LINES) -> list[str]:
    """Lines of a name that fit into so many pixels; what does not fit into `most` lines is cut.

    >>> _split_name("logistic regression on 1,029 rows without privacy", 160)
    ['logistic regression on', '1,029 rows without', 'privacy']
    """
    lines = textwrap.wrap(" ".join(name.split()), room // 7)
    return lines if len(lines) <= most else [*lines[: most - 1], shorten(" ".join(lines[most - 1 :]), room // 7)]


def _write_name(name: str, x: int, y: int, room: int, most: int = MOST_LINES, style: str = "") -> str:
    """A name whose lines are around a height."""
    lines = _split_name(name, room, most)
    top = y + 4 - (len(lines) - 1) * TEXT_HEIGHT / 2
    told = (f'<tspan x="{x}" y="{top + k * TEXT_HEIGHT:g}">{escape_text(one)}</tspan>' for k, one in enumerate(lines))
    return f"<text{style}>{' '.join(told)}</text>"


def _draw_dot(dot: Dot, at: Callable[[float], float], y: int, ends: tuple[int, int]) -> str:
    """A dot, its error bar and its name, from the left end to the right."""
    left, width = ends
    told = describe_interval((dot.value, dot.low, dot.high))
    drawn = (
        f'<path class="line" {_stroke(dot.colour, solid=True)} d="M{at(dot.low)} {y}H{at(dot.high)}"/>'
        f'<circle cx="{at(dot.value)}" cy="{y}" r="5" {_fill(dot.colour)}/>'
    )
    return _write_name(dot.name, 8, y, left - 8) + _mark(dot.name, told, drawn, (at(dot.value), y), width)


def _grid(axis: Axis, at: Callable[[float], float], width: int, height: int) -> str:
    base = height - BOTTOM
    parts = [f'<path class="grid" d="M{at(tick)} 0V{base}"/>' for tick in axis.ticks()]
    parts.append(_label_ticks([(at(tick), named) for tick, named in axis.list_ticks()], width, base))
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
    for tick, named in y.list_ticks():
        at = float(up(y.place(tick)))
        parts.append(f'<path class="grid" d="M{LEFT} {at:.1f}H{width - RIGHT}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{named}</text>')
    parts.append(_label_ticks([(float(across(x.place(tick))), named) for tick, named in x.list_ticks()], width, base))
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
    height: int | Callable[[int], int] | None = None,
    captioned: bool = True,
) -> str:
    """Both shapes of a picture, with words for those who do not see it."""
    shapes = []
    for kind, (w, usual) in SHAPES.items():
        h = usual if height is None else height(w) if callable(height) else height
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

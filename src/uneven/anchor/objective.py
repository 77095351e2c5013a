"""The objective of the rows without privacy: f and its derivatives, read from the rows each time they are asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from uneven import checks
from uneven.anchor.likelihood import describe_margins
from uneven.anchor.multinomial import sum_multiples, sum_observed, sum_terms
from uneven.anchor.rows import EXACT, PublicRows, correct, join_sources
from uneven.losses import Loss
from uneven.matrices import is_sparse
from uneven.noise import Noise
from uneven.problem import Problem

Array = NDArray[np.float64]
Curvature = Literal["none", "diagonal", "full", "largest"]
"""What of the Hessian is computed: nothing, its diagonal, all of it, or all with the largest curvature of the loss."""

TOLERANCE = 1e-6
"""Promised distance of f from its minimum, relative to it."""

SMALL_ROWS, JOINED_ROWS = 5_000, 50_000
"""Sources of at most the first number of rows are read as one, where they have no more than the second together."""

ROUNDING = 1e-9
"""Error of a sum over an inverse's row, which is 0 or 1 where classes count alike."""

LEAST_FACTOR = 0.01
"""Factor of alpha that every weight has at least, where flipped labels have a likelihood: one that explains all labels
by flips has no best value."""

BLOCK_BYTES = 1 << 21
"""Size of the blocks that dense rows are read in: they fit the cache."""


def weigh_source(noise: Noise, problem: Problem) -> float:
    """Weight c of a row with this noise, relative to an exact row: C² over its gradient's second moment.

    >>> from uneven.noise import FlippedLabels
    >>> round(weigh_source(FlippedLabels(0.3), Problem(25, 1e-3, 50)), 4)  # (1-2σ)²
    0.16
    """
    return EXACT.row_energy(problem) / noise.row_energy(problem)


def measure_worth(noise: Noise, problem: Problem) -> float:
    """What a row with this noise tells where all classes are as likely, relative to an exact row.

    >>> from uneven.noise import FlippedLabels
    >>> round(measure_worth(FlippedLabels(0.3), Problem(25, 1e-3, 50)), 4)  # (1-2σ)²
    0.16
    """
    if noise.known_rate == 0.0:
        return weigh_source(noise, problem)
    exact, seen = sum_spreads(noise.confusion_of(problem.classes), np.full((1, problem.classes), 1.0 / problem.classes))
    return float(exact / seen)


@dataclass(frozen=True)
class Point:
    """f and its derivatives at some weights."""

    weights: Array
    value: float
    gradient: Array
    hessian: Array | None
    scale: float
    """What relative errors of f are relative to: |f|, or next to nothing of f(0) where that is less."""


@dataclass(frozen=True)
class Objective:
    """f, read from the rows each time it is asked for."""

    loss: Loss
    ridge: Array
    """α·p."""
    sources: tuple[tuple[PublicRows, float], ...]
    """Each with the weight c of its rows."""
    parts: tuple[_Part, ...] = ()
    """The same rows, small sources joined: a call for each of 200 workers would take longer than the sums."""
    classes: int = 2
    """K; more than two have the softmax loss, and weights W of shape (K, d), row after row."""
    width: float = 0.0
    """Of the parabola in place of a kink."""
    class_weights: tuple[float, ...] = (1.0, 1.0)
    likelihood: bool = False
    """Whether flipped labels have the likelihood of what was observed (`likelihood`), instead of the surrogate."""

    @classmethod
    def of(
        cls, problem: Problem, rows: Sequence[PublicRows], penalty: ArrayLike | None, likelihood: bool = False
    ) -> Objective:
        """Objective of a problem on these rows; `penalty` has a factor of alpha for each weight."""
        if not rows:
            raise ValueError("rows must have at least one source, got none")
        d, loss = problem.n_features, problem.loss_function
        factors = np.ones(d) if penalty is None else np.asarray(penalty, dtype=np.float64)
        if factors.shape != (d,) or not (np.isfinite(factors) & (factors >= 0)).all():
            raise ValueError(f"penalty must have {d} finite factors of at least 0, got {checks.shown(penalty)}")
        flips = any(source.flip_rate > 0 for source in rows)
        if flips and loss.odd_slope is None and not loss.multinomial:  # the softmax surrogate is convex
            raise ValueError(
                "loss must be 'logistic' with flipped labels, or another with a convex surrogate for them; got "
                f"{loss.name!r}"
            )
        if flips or not loss.bounded:
            factors = np.maximum(factors, LEAST_FACTOR if likelihood and loss.bounded else 1.0)
        refuse_uneven([one.noise for one in rows], problem.class_weights)
        weighted = tuple((source, source.part * weigh_source(source.noise, problem)) for source in rows)
        weights = problem.class_weights
        parts = _join(weighted, loss, weights) if problem.outputs == 1 else tuple(_class_part(*one) for one in weighted)
        ridge, likelihood = problem.alpha * factors, likelihood and flips
        return cls(loss, ridge, weighted, parts, problem.classes, class_weights=weights, likelihood=likelihood)

    @property
    def count(self) -> int:
        """Number of rows."""
        return sum(source.count for source, _ in self.sources)

    def sample(self, share: float) -> Objective | None:
        """f of a sample of the rows, held in memory."""
        drawn = [(source.sample(share), weight) for source, weight in self.sources]
        kept = tuple((source, weight) for source, weight in drawn if source is not None)
        parts = (
            _join(kept, self.loss, self.class_weights)
            if self.classes == 2
            else tuple(_class_part(*one) for one in kept)
        )
        return replace(self, sources=kept, parts=parts) if kept else None

    def at(self, w: Array, curvature: Curvature = "none") -> Point:
        """Read all rows once."""
        d = len(w)
        wanted = {"none": None, "diagonal": np.zeros(d)}
        sums = _Sums(np.zeros(d), wanted[curvature] if curvature in wanted else np.zeros((d, d)))
        for part in self.parts:
            if self.classes > 2:
                self._add_classes(sums, part, w, curvature)
            elif self.likelihood:
                self._add_observed(sums, part, w)
            else:
                self._add_margins(sums, part, w, curvature == "largest")
        pull, hessian = self.ridge * w, sums.hessian
        if hessian is not None:
            hessian /= sums.total
            hessian[slice(None) if curvature == "diagonal" else np.diag_indices(d)] += self.ridge
        value = sums.value / sums.total + float(pull @ w) / 2.0
        scale = max(abs(value), TOLERANCE * max(self.loss.value_at_zero, TOLERANCE))
        return Point(w, value, sums.gradient / sums.total + pull, hessian, scale)

    @property
    def flipped(self) -> bool:
        """Whether some labels are flipped."""
        return any(source.flip_rate > 0 for source, _ in self.sources)

    def along(self, w: Array, lengths: Array) -> Array:
        """What the rows say of each multiple of w, shape (5, lengths): means over the rows, each row counted once.

        The first is minus the log-likelihood of the label as observed. The next two make the expected loss of a
        multiple t where s·w is the truth, A(t) - t·B(s): A the mean of lse(tz), z the scores, and B that of
        softmax(sz)ᵀz. The last are the mean of the surrogate and of its square.
        """
        sums, levels = np.zeros((5, len(lengths))), np.log(self.class_weights)
        for source, _ in self.sources:
            confusion = source.noise.confusion_of(self.classes)
            for numbers, scores in self._scores(source, w):
                sums += sum_multiples(scores, numbers, confusion, levels, lengths)
        return sums / self.count

    def find_parts(self, w: Array) -> list[float]:
        """Part of its usual weight by which a row of each source should count, where w is the truth.

        The usual weight of flipped labels is that of p = 1/K. A row's gradient has the factor p - e_y, with a mean
        square of 1 - ‖p‖² over exact labels, and p - T⁻¹e_y over flipped ones, with Σ_j(pᵀT)_j‖T⁻¹e_j‖² - ‖p‖². The
        surer p is, the more of the second is noise.
        """
        parts, levels = [], np.log(self.class_weights)
        for source, _ in self.sources:
            spread = partial(sum_spreads, source.noise.confusion_of(self.classes))
            found = sum(
                (spread(softmax(scores - levels, axis=1)) for _, scores in self._scores(source, w)), np.zeros(2)
            )
            usual = spread(np.full((1, self.classes), 1.0 / self.classes))
            parts.append(float(found[0] / found[1] * usual[1] / usual[0]))
        return parts

    def _scores(self, source: PublicRows, w: Array) -> Iterator[tuple[NDArray[np.int64], Array]]:
        """For each block of rows: numbers of their classes as observed, and the scores of all classes."""
        two = self.classes == 2
        W = np.stack([np.zeros_like(w), w]) if two else w.reshape(self.classes, -1)
        for X, y in _blocks(source, W.shape[1], self.classes):
            yield ((y + 1.0) / 2.0 if two else y).astype(np.int64), np.asarray(X @ W.T)

    def _add_margins(self, sums: _Sums, part: _Part, w: Array, largest: bool) -> None:
        """One part's rows of two classes; `largest` takes the largest curvature of the loss for that of each row."""
        first = 0
        for X, y in _blocks(part.rows, len(w)):
            rows = slice(first, first := first + len(y))
            weight, tilt = part.weight[rows], part.tilt[rows] + part.skew[rows] * y
            unit = part.unit[rows] + part.unit_skew[rows] * y
            margins = y * (X @ w)
            losses, slopes, bends = self.loss.terms(margins, self.width)
            if largest:
                bends = np.full(len(y), self.loss.curvature if self.loss.smooth else self.loss.lipschitz / self.width)
            sums.total += float(weight.sum())
            if part.joined:
                sums.value += float(weight @ (unit * self.loss.value(margins) - tilt * margins))
            else:
                sums.value += float(weight[0] * (self._by_class(losses, unit, margins, y) - tilt @ margins))
            sums.gradient += X.T @ (weight * y * (unit * slopes - tilt))
            if sums.hessian is not None:
                _add_curvature(sums.hessian, X, weight * unit * bends)

    def _add_observed(self, sums: _Sums, part: _Part, w: Array) -> None:
        """The same with the likelihood of labels as observed: it weighs rows by itself, but alpha counts exact ones."""
        first = 0
        for X, y in _blocks(part.rows, len(w)):
            rows = slice(first, first := first + len(y))
            rate, skew, usual = part.rate[rows], part.rate_skew[rows] * y, part.weight[rows]
            values, slopes, bends = describe_margins(y * (X @ w), rate, skew)
            weight = np.where(rate > 0.0, 1.0, usual)
            sums.total += float(usual.sum())
            sums.value += float(weight @ values)
            sums.gradient += X.T @ (weight * y * slopes)
            if sums.hessian is not None:
                _add_curvature(sums.hessian, X, weight * bends)

    def _by_class(self, losses: float, unit: Array, margins: Array, y: Array) -> float:
        """Sum of u times the loss, given that of the loss, for rows of one source: u is the same within a class."""
        if self.class_weights == (1.0, 1.0):
            return losses
        found = ((unit[at][0], self.loss.terms(margins[at], self.width)[0]) for at in (y > 0, y < 0) if at.any())
        return float(sum(one * total for one, total in found))

    def _add_classes(self, sums: _Sums, part: _Part, w: Array, curvature: Curvature) -> None:
        """One part's rows of more than two classes."""
        W, weight, noise = w.reshape(self.classes, -1), float(part.weight[0]), part.rows.noise
        observed = self.likelihood and noise.known_rate > 0.0
        targets, confusion = noise.weighted_targets(self.class_weights), noise.confusion_of(self.classes)
        for X, y in _blocks(part.rows, W.shape[1], self.classes):
            kind: Curvature = "full" if curvature == "largest" else curvature
            sums.total += weight * len(y)
            if observed:
                losses, slopes, bends = sum_observed(W, X, confusion, y.astype(np.int64), kind)
            else:
                losses, slopes, bends = sum_terms(W, X, targets[y.astype(np.int64)], kind)
            counted = 1.0 if observed else weight
            sums.value += counted * losses
            sums.gradient += counted * slopes
            if sums.hessian is not None and bends is not None:
                sums.hessian += counted * bends


@dataclass
class _Sums:
    """Sums over rows while they are read."""

    gradient: Array
    hessian: Array | None
    value: float = 0.0
    total: float = 0.0


def sum_spreads(confusion: Array, p: Array) -> Array:
    """Sums over rows with class probabilities p of 1 - ‖p‖² and of Σ_j(pᵀT)_j‖T⁻¹e_j‖² - ‖p‖².

    >>> sum_spreads(np.array([[0.9, 0.1], [0.1, 0.9]]), np.array([[0.5, 0.5]])).round(5).tolist()  # ½ over (1-2σ)²
    [0.5, 0.78125]
    """
    squares = np.square(np.linalg.inv(confusion)).sum(axis=1)
    own = np.square(p).sum(axis=1)
    return np.array([(1.0 - own).sum(), (p @ confusion @ squares - own).sum()])


def refuse_uneven(noises: Iterable[Noise], class_weights: Sequence[float]) -> None:
    """Refuse class weights so uneven that, with labels flipped, some rows' surrogate is not convex."""
    if len(class_weights) > 2:
        counted = (float(noise.weighted_targets(class_weights).sum(axis=1).min()) for noise in noises)
        least = min(counted, default=0.0)
        if least < -ROUNDING:
            raise ValueError(
                "class_weight must be more even where labels are flipped, or no answer is safe: rows observed as one "
                f"of the classes must count at least 0, got {least:.2g}"
            )
        return
    for a, b in ((noise.known_rate + noise.skew, noise.known_rate - noise.skew) for noise in noises):
        ratio = class_weights[1] / class_weights[0]
        if not a <= ratio * (1.0 - b) or not ratio * b <= 1.0 - a:
            most = f"{(1.0 - a) / b:.4g}" if b else "any number"
            raise ValueError(
                f"class_weight must weigh positive against negative rows between {a / (1.0 - b):.4g} and {most} where "
                f"{a:.0%} and {b:.0%} of their labels are flipped, or no answer is safe; got {ratio:.4g}"
            )


@dataclass(frozen=True)
class _Part:
    """Rows of one source or of several, each with its weight and its surrogate u·ℓ(m) - t·m (`rows.correct`)."""

    rows: PublicRows
    weight: Array
    unit: Array
    unit_skew: Array
    tilt: Array
    skew: Array
    """What is added to the tilt t of a positive label, and taken from that of a negative one; `unit_skew` to u."""
    rate: Array
    rate_skew: Array
    """Flip rates: their mean, and half the difference of those of a positive and a negative label."""
    joined: bool = False


def _class_part(rows: PublicRows, weight: float) -> _Part:
    """One source of more than two classes."""
    none = np.zeros(1)
    return _Part(rows, np.array([weight]), none, none, none, none, none, none)


def _join(sources: Sequence[tuple[PublicRows, float]], loss: Loss, classes: tuple[float, ...]) -> tuple[_Part, ...]:
    """Parts to read: small sources as one, in memory, if they are many and small together."""
    small = [one for one in sources if one[0].count <= SMALL_ROWS]
    if not loss.smooth or len(small) < 2 or sum(source.count for source, _ in small) > JOINED_ROWS:
        return tuple(_part([one], loss, classes) for one in sources)
    large = [one for one in sources if one[0].count > SMALL_ROWS]
    return (*(_part([one], loss, classes) for one in large), _part(small, loss, classes))


def _part(sources: Sequence[tuple[PublicRows, float]], loss: Loss, classes: tuple[float, ...]) -> _Part:
    counts = [source.count for source, _ in sources]
    columns = np.array([[weight, *_middles(source, loss, classes)] for source, weight in sources])
    if len(sources) == 1:  # as many rows as there may be: no array of their number
        weight, unit, bend, tilt, skew, rate, half = (np.broadcast_to(value, (counts[0],)) for value in columns[0])
        return _Part(sources[0][0], weight, unit, bend, tilt, skew, rate, half)
    rows = join_sources([source for source, _ in sources])
    if rows.count != sum(counts):
        _refuse_count(rows.count, sum(counts))
    weight, unit, bend, tilt, skew, rate, half = np.repeat(columns, counts, axis=0).T
    return _Part(rows, weight, unit, bend, tilt, skew, rate, half, joined=True)


def _middles(source: PublicRows, loss: Loss, classes: tuple[float, ...]) -> list[float]:
    """u, t and flip rate of a source: the mean of the two labels' and half the difference, of each."""
    rates = source.flip_rate, source.flip_skew
    (u, t), (v, s) = (correct(*rates, sign, classes, loss.odd_slope) for sign in (1.0, -1.0))
    return [(u + v) / 2.0, (u - v) / 2.0, (t + s) / 2.0, (t - s) / 2.0, *rates]


def _blocks(source: PublicRows, d: int, classes: int = 2) -> Iterator[tuple[Any, Array]]:
    """Rows in blocks of float64 that fit the cache; a dense block is overwritten by the next."""
    step, seen = max(64, BLOCK_BYTES // (8 * d)), 0
    buffer: Array | None = None
    for X, y in source.pieces():
        labels = np.asarray(y, dtype=np.float64)
        if X.ndim != 2 or X.shape != (len(labels), d):
            raise ValueError(f"X must have shape ({len(labels)}, {d}), a row for each label, got {X.shape}")
        if not (np.abs(labels) == 1.0 if classes == 2 else np.isin(labels, np.arange(classes))).all():
            accepted = "-1 and 1" if classes == 2 else f"0 to {classes - 1}"
            raise ValueError(f"y must hold the labels {accepted} only, got others")
        seen += len(labels)
        if seen > source.count:
            _refuse_count(seen, source.count)
        if is_sparse(X):
            yield X, labels
            continue
        buffer = np.empty((step, d)) if buffer is None else buffer
        for start in range(0, len(labels), step):
            part = X[start : start + step]
            buffer[: len(part)] = part
            yield buffer[: len(part)], labels[start : start + step]
    if seen != source.count:
        _refuse_count(seen, source.count)


def _refuse_count(seen: int, count: int) -> NoReturn:
    raise ValueError(f"count must be the number of rows in pieces, {seen}, got {count}")


def _add_curvature(hessian: Array, X: Any, bends: Array) -> None:
    """Add Xᵀ·diag(bends)·X, or its diagonal; a dense X is overwritten."""
    if hessian.ndim == 1:
        hessian += X.multiply(X).T @ bends if is_sparse(X) else bends @ X**2
    elif is_sparse(X):
        scaled = X.multiply(np.sqrt(bends)[:, None]).tocsr()
        hessian += (scaled.T @ scaled).toarray()
    else:
        X *= np.sqrt(bends)[:, None]
        hessian += X.T @ X

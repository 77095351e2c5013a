"""Public rows: they may be read any number of times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from uneven import checks
from uneven.draws import make_public_generator
from uneven.matrices import is_sparse
from uneven.noise import Exact, Noise

EXACT = Exact()

WRONG_ROWS = 0.5
"""Rows that are counted as classified wrongly beside those seen, however well those are classified."""


MOST_COPIES = 5
"""Rows that may be copies of one, on average, unless each has as many; where more agree, they are drawn from few
possible ones, as where columns describe a shop or a clinic, and rows to predict for will be too."""

COMPARED_ROWS = 300
"""Different rows that the probability of agreeing by chance is computed from; of more, the first."""


def find_copies(X: Any, y: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each row the number of the first that it is a copy of, and how many are.

    Rows that agree in everything are copies unless chance explains them (`can_coincide`), as it does where all columns
    are categories or counts, or they are too many (`MOST_COPIES`). Two labels of the same features are no copies
    either: whoever copies rows copies their labels too.

    >>> X = np.array([[1.27], [2.35], [1.27], [3.04]])
    >>> first, count = find_copies(X, np.array([1.0, 1.0, 1.0, -1.0]))
    >>> first.tolist(), count.tolist()
    ([0, 1, 0, 3], [2, 1, 2, 1])
    >>> find_copies(X, np.array([1.0, 1.0, -1.0, -1.0]))[1].tolist()
    [1, 1, 1, 1]
    """
    rng, n = make_public_generator("copies"), X.shape[0]
    products = np.asarray(X @ rng.standard_normal(X.shape[1]))
    different, first, place, counts = np.unique(products, return_index=True, return_inverse=True, return_counts=True)
    labels = np.asarray(y)
    agree = bool((labels == labels[first[place]]).all())
    if len(different) == n or not agree or _are_drawn(counts[counts > 1]):
        return np.arange(n), np.ones(n, dtype=np.int64)
    if can_coincide(X[np.sort(first)[:COMPARED_ROWS]], n):
        return np.arange(n), np.ones(n, dtype=np.int64)
    return first[place], counts[place]


def _are_drawn(counts: NDArray[np.int64]) -> bool:
    """Whether so many rows agree with each other as where each is drawn from few: many, and their numbers vary."""
    return bool(counts.mean() > MOST_COPIES and counts.var() > counts.mean() / 4.0)


def can_coincide(X: Any, n: int) -> bool:
    """Whether two of n rows are expected to agree by chance, going by these different ones: n²/2·Π_j q_j ≥ 1.

    q_j is the probability that two rows agree in column j, as if columns were independent. Where they are not, rows
    agree more often still.

    >>> can_coincide(np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0]]), n=10), can_coincide(np.eye(3) * 0.3, n=2)
    (True, False)
    """
    rows, d = X.shape
    if rows < 2:
        return False
    entries = sparse.coo_array(X)
    order = np.lexsort((entries.data, entries.coords[1]))
    columns, values = entries.coords[1][order], entries.data[order]
    starts = np.flatnonzero(np.append(True, (np.diff(columns) > 0) | (np.diff(values) != 0)))
    equal = np.diff(np.append(starts, len(values)))
    zero = rows - np.bincount(columns, minlength=d)
    pairs = np.bincount(columns[starts], equal * (equal - 1), minlength=d) if len(values) else np.zeros(d)
    return bool(n * (n - 1) / 2.0 * np.prod((pairs + zero * (zero - 1)) / (rows * (rows - 1))) >= 1.0)


def correct(
    rate: Any, skew: Any, y: Any, class_weights: tuple[float, ...], odd_slope: float | None = 1.0
) -> tuple[Any, Any]:
    """u and t of a row's surrogate u·ℓ(m) - t·m: its mean over flips is c_y·ℓ(m) of the true label y.

    With flip rates ρ₊ and ρ₋ and ℓ(-m) = ℓ(m) + k·m, k the `odd_slope`, the surrogate
    ((1-ρ₋y)c_yℓ(m) - ρ_yc₋yℓ(-m))/(1-ρ₊-ρ₋) has u = ((1-ρ₋y)c_y - ρ_yc₋y)/(1-ρ₊-ρ₋) and t = kρ_yc₋y/(1-ρ₊-ρ₋).
    For exact rows they are c_y and 0, whatever the loss.

    >>> correct(0.25, 0.0, 1.0, (1.0, 1.0))
    (1.0, 0.5)
    """
    negative, positive = class_weights
    unit, own, k = 1.0 / (1.0 - 2.0 * rate), rate + skew * y, odd_slope or 0.0
    if class_weights == (1.0, 1.0):
        return np.ones_like(own) if np.ndim(own) else 1.0, k * unit * own
    mine, other = np.where(y > 0, positive, negative), np.where(y > 0, negative, positive)
    return unit * ((1.0 - rate + skew * y) * mine - own * other), k * unit * own * other


@dataclass(frozen=True)
class PublicRows:
    """Rows of one source without privacy, which can be read again and again.

    Parameters
    ----------
    pieces : callable
        Returns a fresh iterator of pieces (X, y): X of shape (n, d), dense or CSR, labels -1 and 1.
    count : int
        Rows in all pieces together.
    noise : Exact, FlippedLabels or AdditiveNoise
    part : float
        Part of its usual weight that a row counts by (`Objective.find_parts`).

    Examples
    --------
    >>> PublicRows.from_arrays([[0.5], [0.25]], [1, -1]).count
    2
    """

    pieces: Callable[[], Iterable[tuple[Any, Any]]] = field(repr=False)
    count: int
    noise: Noise = EXACT
    part: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", checks.whole("count", self.count))
        if self.noise.private:
            raise ValueError(f"noise must promise no privacy: private rows are read once; got {self.noise!r}")

    @classmethod
    def from_arrays(cls, X: Any, y: ArrayLike, noise: Noise | None = None, part: float = 1.0) -> PublicRows:
        """Rows in memory."""
        features, labels = (X.tocsr() if is_sparse(X) else np.asarray(X)), np.asarray(y, dtype=np.float64)
        return cls(lambda: [(features, labels)], len(labels), noise or EXACT, part)

    @property
    def flip_rate(self) -> float:
        """σ, the share of labels that are flipped."""
        return self.noise.known_rate

    @property
    def flip_skew(self) -> float:
        """(a-b)/2, where positive labels are flipped at a and negative ones at b."""
        return self.noise.skew

    def sample(self, share: float, seed: int = 0) -> PublicRows | None:
        """About this share of the rows, in memory, the same however they are cut into pieces; None if it has none."""
        rng, kept = make_public_generator("sample of rows", seed), []
        for X, y in self.pieces():
            keep = np.flatnonzero(rng.random(len(y)) < share)
            kept.append((X[keep], np.asarray(y, dtype=np.float64)[keep]))
        X, labels = _stack(kept)
        return PublicRows.from_arrays(X, labels, self.noise, self.part) if len(labels) else None


def join_sources(sources: Sequence[PublicRows]) -> PublicRows:
    """All rows of several sources in memory, in order, as exact ones."""
    pieces = [piece for source in sources for piece in source.pieces()]
    return PublicRows.from_arrays(*_stack(pieces))


def _stack(pieces: Sequence[tuple[Any, Any]]) -> tuple[Any, Any]:
    stack = sparse.vstack if is_sparse(pieces[0][0]) else np.concatenate
    return stack([X for X, _ in pieces]), np.concatenate([y for _, y in pieces])

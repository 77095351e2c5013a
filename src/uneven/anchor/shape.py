"""In which coordinates, and clipped to what norm, private rows release their gradients.

The noise of a release is isotropic in the coordinates z = A⁻¹x/r of the release. AAᵀ = M = H^½(H^{-½}SₓH^{-½})^½H^½
minimises tr(H⁻¹M)·tr(M⁻¹Sₓ), noise times length; r makes a chosen quantile of the public gradients as long as the clip.
Longer gradients are clipped by capping the slope, so a row's margin, and so the model, is unchanged. Which of a
few such coordinates to use is decided by the expected excess, where the rows are enough to tell: rare columns make
shaping lose, and then it is not used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from uneven.anchor.belief import Anchor, count_effective
from uneven.anchor.clock import Coordinates, expected_excess
from uneven.anchor.diagonals import add_diagonal, change_basis, invert, multiply, sum_products, turn_rows
from uneven.problem import PRIVATE_CLIP

Array = NDArray[np.float64]

CLIP = PRIVATE_CLIP

RIDGE = 0.1
"""Ridge of Sₓ, relative to its mean eigenvalue."""

MANY_ROWS, FOLDS = 20, 5
"""Rows a feature above which the rows' own lengths are those of fresh rows; below, the folds that lengths are from."""

QUANTILES = (1.0, 0.97, 0.9)
"""Quantiles of the public gradients' lengths that are tried as the clip."""


@dataclass(frozen=True)
class Shape:
    """Coordinates z = matrix·x before they are turned, and the rows' lengths there as fresh rows would have them."""

    matrix: Array
    inverse: Array
    norm: float
    lengths: Array

    @classmethod
    def of(cls, matrix: Array, X: Array) -> Shape:
        """Shape of a matrix, with the lengths of these rows themselves."""
        lengths = np.linalg.norm(turn_rows(X, matrix), axis=1)
        norm = float(matrix.max() if matrix.ndim == 1 else np.linalg.eigvalsh(matrix @ matrix.T)[-1] ** 0.5)
        return cls(matrix, invert(matrix), norm, lengths)

    def times(self, factor: float) -> Shape:
        """Shape of a multiple of the matrix."""
        return Shape(self.matrix * factor, self.inverse / factor, self.norm * factor, self.lengths * factor)


def find_shaping_matrix(second_moment: Array, hessian: Array, ridge: float = RIDGE) -> Array:
    """A⁻¹, a root of M⁻¹: M = H^½(H^{-½}SₓH^{-½})^½H^½ = L(L⁻¹SₓL⁻ᵀ)^½Lᵀ for any LLᵀ = H.

    So A⁻¹ = e^{-¼}UᵀL⁻¹, U and e the eigenvectors and eigenvalues of L⁻¹SₓL⁻ᵀ. The ridge adds that multiple of Sₓ's
    mean eigenvalue to Sₓ.

    >>> shape = find_shaping_matrix(np.diag([16.0, 1.0]), np.eye(2), 0.0)
    >>> (shape.T @ shape).round(6).tolist()
    [[0.25, 0.0], [0.0, 1.0]]
    """
    d = len(hessian)
    inverse = solve_triangular(np.linalg.cholesky(hessian), np.eye(d), lower=True)
    values, U = np.linalg.eigh(
        change_basis(inverse, add_diagonal(second_moment, np.full(d, ridge * np.trace(second_moment) / d)))
    )
    return np.asarray((U * np.maximum(values, 1e-300) ** -0.25).T @ inverse)


def make_coordinates(anchor: Anchor, shape: Shape) -> Coordinates:
    """Coordinates z = Qᵀ·shape·x in which the curvature of the loss with gradients clipped to `CLIP` is diagonal."""
    n, slopes = len(anchor.y), anchor.slopes
    cap = CLIP / np.maximum(shape.lengths, 1e-300)
    over = slopes >= cap
    if 2 * over.sum() > n:
        clipped = add_diagonal(anchor.curvature(~over), anchor.ridge)
    else:  # few rows are clipped, and theirs is the smaller sum
        clipped = anchor.hessian - anchor.curvature(over)
    curvature, T, back = change_basis(shape.matrix, clipped), shape.matrix, shape.inverse
    if not anchor.diagonal:
        curvature, Q = np.linalg.eigh(curvature)
        T, back = Q.T @ T, back @ Q
    taken = turn_rows(((slopes - cap) * anchor.y)[over, None] * anchor.X[over], T)
    shift, variance = describe_clipping(taken, n, anchor.knows_curvature)
    steepest = anchor.loss.curvature * max(1.0, float(shape.lengths.max()) ** 2) + anchor.alpha * shape.norm**2
    return Coordinates(
        transform=T,
        curvature=curvature,
        hessian=keep_hessian(change_basis(T, anchor.hessian), anchor.knows_curvature),
        start=multiply(back.T, anchor.weights),
        covariance=change_basis(back.T, anchor.covariance),
        clip_shift=shift,
        clip_variance=variance,
        activity=float(np.minimum(slopes / cap, 1.0).mean()),
        clip=CLIP,
        ridge=anchor.ridge,
        longest_step=2.0 / steepest,
        back=back,
    )


def keep_hessian(hessian: Array, known: bool) -> Array:
    """H as it is, or its diagonal alone where rows are too few to know it: then more information means less excess.

    With what they say of the rest, to learn one coordinate alone can seem to do harm.
    """
    return hessian if known or hessian.ndim == 1 else np.diag(hessian.diagonal())


def describe_clipping(taken: Array, rows: int, known: bool) -> tuple[Array, Array]:
    """Mean and variance of the clipping bias over `rows` gradients; 0 for those not listed.

    Rows that are too few to know the curvature do not know what clipping takes either: one or two of them decide. It is
    0 then, give or take what they say.
    """
    shift = taken.sum(axis=0) / rows
    variance = np.maximum((taken**2).sum(axis=0) / rows - shift**2, 0.0) / rows
    return (shift, variance) if known else (np.zeros_like(shift), variance + shift**2)


def find_plain_coordinates(anchor: Anchor) -> Coordinates:
    """Rows as they are, gradients clipped to ½: a rotation only."""
    found = make_coordinates(anchor, _as_they_are(anchor))
    squares = (turn_rows(anchor.X, found.transform) * anchor.slopes[:, None]) ** 2
    return replace(found, freedom=count_effective(squares))


def list_coordinates(anchor: Anchor) -> tuple[Coordinates, ...]:
    """Rows as they are, and shaped, each clipped at a few quantiles."""
    return (find_plain_coordinates(anchor), *_shaped(anchor))


def choose_coordinates(possible: Iterable[Coordinates], information: Callable[[float], float]) -> Coordinates:
    """Coordinates with the least expected excess.

    Parameters
    ----------
    possible : iterable of Coordinates
        As `list_coordinates` lists them.
    information : callable
        Clock τ that all private rows bring at a given activity: Σ_k n_k·d/energy_k(activity).
    """

    def excess(coordinates: Coordinates) -> float:
        return expected_excess(coordinates, information(coordinates.activity))

    return min(possible, key=excess)


def _shaped(anchor: Anchor) -> Iterator[Coordinates]:
    if anchor.diagonal or not anchor.knows_curvature:
        return
    for shape in (_make_shape(anchor), _as_they_are(anchor)):
        for bound in np.quantile(anchor.slopes * shape.lengths, QUANTILES).tolist():
            if bound:  # not where most rows have no slope at all
                yield make_coordinates(anchor, shape.times(CLIP / bound))


def _as_they_are(anchor: Anchor) -> Shape:
    d = anchor.X.shape[1]
    return Shape.of(np.ones(d) if anchor.diagonal else np.eye(d), anchor.X)


def _make_shape(anchor: Anchor) -> Shape:
    """A⁻¹ of all rows, with lengths of fresh rows: where rows are few, under the A⁻¹ of others."""
    n, d = anchor.X.shape
    fold = np.random.default_rng(0).permutation(n) % (1 if n >= MANY_ROWS * d else FOLDS)
    bends = anchor.bends
    members = [np.flatnonzero(fold == k) for k in range(fold.max() + 1)]
    parts = [np.stack([X.T @ X, sum_products(X, bends[rows])]) for rows in members for X in (anchor.X[rows],)]
    total, lengths = sum(parts, np.zeros((2, d, d))), np.empty(n)

    def matrix_of(sums: Array, rows: int) -> Array:
        return find_shaping_matrix(sums[0] / rows, add_diagonal(sums[1] / rows, anchor.ridge))

    matrix = matrix_of(total, n)
    if len(parts) == 1:
        return Shape.of(matrix, anchor.X)
    for rows, part in zip(members, parts, strict=True):
        lengths[rows] = np.linalg.norm(turn_rows(anchor.X[rows], matrix_of(total - part, n - len(rows))), axis=1)
    return replace(Shape.of(matrix, anchor.X), lengths=lengths)

"""In which coordinates, and clipped to what norm, private rows release their gradients.

The noise of a release is isotropic in the coordinates z = A⁻¹x/r of the release. AAᵀ = M = H^½(H^{-½}SₓH^{-½})^½H^½
minimises tr(H⁻¹M)·tr(M⁻¹Sₓ), noise times length; r makes a chosen quantile of the public gradients as long as the clip.
Longer ones are clipped by their slope, so the margin of a row, and with it the model, stays as it is. Which of a
few such coordinates to use is decided by the expected excess, where the rows are enough to tell: rare columns make
shaping lose, and then it is not used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from uneven.anchor.clock import Coordinates, expected_excess
from uneven.anchor.uncertainty import Anchor

Array = NDArray[np.float64]

CLIP = 0.5
RIDGES = (0.01, 0.1, 1.0)
"""Ridges of Sₓ that are tried, relative to its mean eigenvalue."""

MANY_ROWS, FOLDS = 20, 5
"""Rows a feature above which the rows' own lengths are those of fresh rows; below, the folds that lengths are from."""

QUANTILES = (1.0, 0.97, 0.9)
"""Quantiles of the public gradients' lengths that are tried as the clip."""


def shaping_matrix(second_moment: Array, hessian: Array) -> Array:
    """A⁻¹, a root of M⁻¹: M = H^½(H^{-½}SₓH^{-½})^½H^½ = L(L⁻¹SₓL⁻ᵀ)^½Lᵀ for any LLᵀ = H, so A⁻¹ = e^{-¼}UᵀL⁻¹.

    U and e are the eigenvectors and eigenvalues of L⁻¹SₓL⁻ᵀ.

    >>> shape = shaping_matrix(np.diag([16.0, 1.0]), np.eye(2))
    >>> (shape.T @ shape).round(6).tolist()
    [[0.25, 0.0], [0.0, 1.0]]
    """
    L = np.linalg.cholesky(hessian)
    half = solve_triangular(L, second_moment, lower=True)
    values, U = np.linalg.eigh(solve_triangular(L, half.T, lower=True))
    spread = U * np.maximum(values, 1e-300) ** -0.25
    return np.asarray(solve_triangular(L.T, spread, lower=False).T)


def make_coordinates(anchor: Anchor, shape: Array, clip: float = CLIP, lengths: Array | None = None) -> Coordinates:
    """Coordinates z = Qᵀ·shape·x in which the curvature of the clipped loss is diagonal.

    Parameters
    ----------
    anchor : Anchor
    shape : array of shape (d, d)
        A⁻¹/r; the identity leaves rows as they are.
    clip : float
        C, the norm that gradients in these coordinates are clipped to.
    lengths : array of shape (n,) or None
        Lengths of the rows in these coordinates as fresh rows would have them; None for those of the rows themselves.
    """
    lengths, slopes = _lengths(anchor.X, shape) if lengths is None else lengths, anchor.slopes
    cap = clip / np.maximum(lengths, 1e-300)
    taken = (np.maximum(slopes - cap, 0.0) * anchor.y)[:, None] * anchor.X
    clipped = anchor.curvature(slopes < cap) + np.diag(anchor.ridge)
    curvature, Q = np.linalg.eigh(shape @ clipped @ shape.T)
    T = Q.T @ shape
    back = np.linalg.inv(T)
    steepest = 0.25 * max(1.0, float(lengths.max()) ** 2) + anchor.alpha * float(np.linalg.norm(T, 2)) ** 2
    return Coordinates(
        transform=T,
        curvature=curvature,
        hessian=T @ anchor.hessian @ T.T,
        start=back.T @ anchor.weights,
        covariance=back.T @ anchor.covariance @ back,
        clip_shift=T @ taken.mean(axis=0),
        clip_variance=(taken @ T.T).var(axis=0) / len(taken),
        activity=float(np.minimum(slopes / cap, 1.0).mean()),
        clip=clip,
        ridge=anchor.ridge,
        longest_step=2.0 / steepest,
    )


def plain_coordinates(anchor: Anchor) -> Coordinates:
    """Rows as they are, gradients clipped to ½: a rotation only."""
    found = make_coordinates(anchor, np.eye(len(anchor.weights)))
    squares = (anchor.X @ found.transform.T * anchor.slopes[:, None]) ** 2
    return replace(found, freedom=squares.sum(axis=0) ** 2 / np.maximum((squares**2).sum(axis=0), 1e-300))


def possible_coordinates(anchor: Anchor) -> tuple[Coordinates, ...]:
    """Rows as they are, and a few shapes."""
    return (plain_coordinates(anchor), *_shaped(anchor))


def choose_coordinates(possible: Iterable[Coordinates], information: Callable[[float], float]) -> Coordinates:
    """Coordinates with the least expected excess.

    Parameters
    ----------
    possible : iterable of Coordinates
        As `possible_coordinates` lists them.
    information : callable
        Clock τ that all private rows bring at a given activity: Σ_k n_k·d/energy_k(activity).
    """

    def excess(coordinates: Coordinates) -> float:
        return expected_excess(coordinates, information(coordinates.activity))

    return min(possible, key=excess)


def _shaped(anchor: Anchor) -> Iterator[Coordinates]:
    if not anchor.knows_curvature:
        return
    d = anchor.X.shape[1]
    shapes = [_shape_and_lengths(anchor, ridge) for ridge in RIDGES] + [(np.eye(d), _lengths(anchor.X, np.eye(d)))]
    for shape, lengths in shapes:
        for bound in np.quantile(anchor.slopes * lengths, QUANTILES):
            yield make_coordinates(anchor, shape * CLIP / bound, lengths=lengths * CLIP / bound)


def _shape_and_lengths(anchor: Anchor, ridge: float) -> tuple[Array, Array]:
    """A⁻¹ of all rows, and the rows' lengths: where they are few, under the A⁻¹ of others, as fresh rows have them."""
    n, d = anchor.X.shape
    weights = anchor.slopes * (1.0 - anchor.slopes)

    def shape_of(rows: Any) -> Array:
        X = anchor.X[rows]
        moment, hessian = X.T @ X / len(X), (X.T * weights[rows]) @ X / len(X) + np.diag(anchor.ridge)
        return shaping_matrix(moment + ridge * np.trace(moment) / d * np.eye(d), hessian)

    shape = shape_of(slice(None))
    if n >= MANY_ROWS * d:
        return shape, _lengths(anchor.X, shape)
    lengths, fold = np.empty(n), np.random.default_rng(0).permutation(n) % FOLDS
    for k in range(FOLDS):
        lengths[fold == k] = _lengths(anchor.X[fold == k], shape_of(fold != k))
    return shape, lengths


def _lengths(X: Array, shape: Array) -> Array:
    return np.asarray(np.linalg.norm(X @ shape.T, axis=1))

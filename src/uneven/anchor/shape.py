"""In which coordinates, and clipped to what norm, private rows release their gradients.

The noise of a release is isotropic in the coordinates z = A⁻¹x/r of the release. AAᵀ = M = H^½(H^{-½}SₓH^{-½})^½H^½
minimises tr(H⁻¹M)·tr(M⁻¹Sₓ), noise times length; r makes a chosen quantile of the public gradients as long as the clip.
Longer ones are clipped by their slope, so the margin of a row, and with it the model, stays as it is. Which of a
few such coordinates to use is decided by the expected excess, where the rows are enough to tell: rare columns make
shaping lose, and then it is not used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from uneven.anchor.clock import Coordinates, expected_excess
from uneven.anchor.uncertainty import Anchor

Array = NDArray[np.float64]

CLIP = 0.5
RIDGES = (0.01, 0.1, 1.0)
"""Ridges of Sₓ that are tried, relative to its mean eigenvalue."""

QUANTILES = (1.0, 0.97, 0.9)
"""Quantiles of the public gradients' lengths that are tried as the clip."""


def shaping_matrix(second_moment: Array, hessian: Array) -> Array:
    """A⁻¹, the inverse root of M = H^½(H^{-½}SₓH^{-½})^½H^½.

    >>> shaping_matrix(np.diag([16.0, 1.0]), np.eye(2)).round(6).tolist()
    [[0.5, 0.0], [0.0, 1.0]]
    """
    root, inverse = power(hessian, 0.5), power(hessian, -0.5)
    return power(root @ power(inverse @ second_moment @ inverse, 0.5) @ root, -0.5)


def power(matrix: Array, exponent: float) -> Array:
    """Power of a symmetric matrix with positive eigenvalues."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2.0)
    return np.asarray((vectors * np.maximum(values, 1e-300) ** exponent) @ vectors.T)


def make_coordinates(anchor: Anchor, shape: Array, clip: float = CLIP) -> Coordinates:
    """Coordinates z = Qᵀ·shape·x in which the curvature of the clipped loss is diagonal.

    Parameters
    ----------
    anchor : Anchor
    shape : array of shape (d, d)
        A⁻¹/r; the identity leaves rows as they are.
    clip : float
        C, the norm that gradients in these coordinates are clipped to.
    """
    lengths, slopes = np.linalg.norm(anchor.X @ shape.T, axis=1), anchor.slopes
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
        activity=float(np.minimum(slopes / cap, 1.0).mean()),
        clip=clip,
        ridge=anchor.ridge,
        longest_step=2.0 / steepest,
    )


def plain_coordinates(anchor: Anchor) -> Coordinates:
    """Rows as they are, gradients clipped to ½: a rotation only."""
    return make_coordinates(anchor, np.eye(len(anchor.weights)))


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
    n, d = anchor.X.shape
    if not anchor.knows_curvature:
        return
    moment, eye = anchor.X.T @ anchor.X / n, np.eye(d)
    for ridge in RIDGES:
        inverse = shaping_matrix(moment + ridge * np.trace(moment) / d * eye, anchor.hessian)
        for shape in (inverse,) if ridge < RIDGES[-1] else (inverse, eye):
            lengths = anchor.slopes * np.linalg.norm(anchor.X @ shape.T, axis=1)
            for bound in np.quantile(lengths, QUANTILES):
                yield make_coordinates(anchor, shape * CLIP / bound)

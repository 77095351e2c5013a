"""What public rows say, without the rows: all that private sources are added to.

The coordinates that private rows may be released in are made of the public rows once. Adding a source moves the start
and its covariance, and those alone: w and V are placed anew in the same frames.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from uneven.anchor.clock import Coordinates
from uneven.anchor.shape import possible_coordinates
from uneven.anchor.uncertainty import Anchor

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Summary:
    """An anchor without its rows.

    Attributes
    ----------
    weights, covariance : arrays of shape (d,) and (d, d)
        The answer so far, and of its error.
    alpha : float
        L2 strength of the objective.
    knows_curvature : bool
        Whether the rows are enough to build on their curvature.
    frames : tuple of Coordinates
        Those that private rows may be released in: rows as they are first.
    """

    weights: Array
    covariance: Array
    alpha: float
    knows_curvature: bool
    frames: tuple[Coordinates, ...]

    def moved(self, weights: Array, covariance: Array) -> Summary:
        """The same frames with another start."""
        return replace(self, weights=weights, covariance=covariance)

    @property
    def plain(self) -> Coordinates:
        """Rows as they are, at the start."""
        return self._place(self.frames[0])

    @property
    def possible(self) -> tuple[Coordinates, ...]:
        """Rows as they are, and a few shapes, at the start."""
        return tuple(map(self._place, self.frames))

    def _place(self, frame: Coordinates) -> Coordinates:
        back = np.linalg.inv(frame.transform)
        return replace(frame, start=back.T @ self.weights, covariance=back.T @ self.covariance @ back)


def summarize(anchor: Anchor) -> Summary:
    """Summary of an anchor."""
    frames = possible_coordinates(anchor)
    return Summary(anchor.weights, anchor.covariance, anchor.alpha, anchor.knows_curvature, frames)

"""What public rows say, without the rows: all that private sources are added to.

The coordinates that private rows may be released in are made of the public rows once. Adding a source moves the start
and its covariance, and those alone: w and V are expressed in the same frames again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from uneven.anchor.belief import Anchor
from uneven.anchor.classes import ClassAnchor, list_frames
from uneven.anchor.clock import Coordinates

Array = NDArray[np.float64]


@dataclass(frozen=True)
class OneClass:
    """Public rows of one class: how many there are, whether it is the positive one, and the intercept's feature."""

    rows: int
    positive: bool
    constant: float


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
    takes_long_step : bool
        Whether they are enough for one long step by it.
    frames : tuple of Coordinates
        Those that private rows may be released in: rows as they are first.
    unlimited : array of shape (d, d) or None
        The covariance before it was limited for steps that are few (`limit_steps`); None where it was not.
    one_class : OneClass or None
        Of public rows of one class, before a private row has told its own; None for others.
    """

    weights: Array
    covariance: Array
    alpha: float
    knows_curvature: bool
    takes_long_step: bool
    frames: tuple[Coordinates, ...]
    unlimited: Array | None = None
    one_class: OneClass | None = None

    def moved(self, weights: Array, covariance: Array, unlimited: Array | None = None) -> Summary:
        """The same frames with another start."""
        return replace(self, weights=weights, covariance=covariance, unlimited=unlimited, one_class=None)

    @property
    def plain(self) -> Coordinates:
        """Rows as they are, at the start."""
        return self.frames[0].moved(self.weights, self.covariance, self.unlimited)

    @property
    def possible(self) -> tuple[Coordinates, ...]:
        """Rows as they are, and shaped, at the start."""
        return tuple(frame.moved(self.weights, self.covariance, self.unlimited) for frame in self.frames)


def summarize(anchor: Anchor | ClassAnchor, frames: tuple[Coordinates, ...] | None = None) -> Summary:
    """Summary of an anchor; `frames` are its `list_frames`, where they are known."""
    frames = list_frames(anchor) if frames is None else frames
    known = anchor.knows_curvature, anchor.takes_long_step
    found = Summary(anchor.weights, anchor.covariance, anchor.alpha, *known, frames, anchor.unlimited)
    return replace(found, one_class=_find_one_class(anchor))


def _find_one_class(anchor: Anchor | ClassAnchor) -> OneClass | None:
    """The class of the public rows, if there is one of two, and an intercept to predict it by."""
    if not isinstance(anchor, Anchor) or anchor.alone is None or not anchor.alone.weights.any() or anchor.weights.any():
        return None
    return OneClass(len(anchor.X), bool(anchor.alone.y[0] > 0.0), float(anchor.X[0, -1]))

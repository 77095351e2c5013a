"""Accuracy on rows that a site keeps aside: one randomised bit per row, of which only the number is sent."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from uneven.engine import make_generator
from uneven.noise import LabelPrivacy
from uneven.training import Rows, choose_classes, compute_scores

Array = NDArray[np.float64]


def count_said(
    rows: Rows, coef: Array, intercept: float, bound: float, classes: NDArray[Any], epsilon: float, seed: int | None
) -> int:
    """How many rows say that they are classified correctly, each bit flipped with probability 1/(1 + e^ε)."""
    rng, said = make_generator(seed, 0, "evaluation", "noise"), 0
    for piece in rows.pieces(checked=False):
        scores = compute_scores(piece.X, coef[None], np.array([intercept]), bound)
        correct = choose_classes(scores, classes) == piece.y
        said += int((LabelPrivacy(epsilon).corrupt(np.where(correct, 1.0, -1.0), rng) > 0).sum())
    return said

"""Inputs that a release should hide: pairs of gradients, in units of the norm C that they are bounded by."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from uneven.noise.base import Array


class Pair(NamedTuple):
    """Two inputs of norm at most 1, and what they are in words."""

    words: str
    one: Array
    other: Array


def pairs_in(n_features: int) -> list[Pair]:
    """Pairs in that dimension: opposite, full and nothing, across, short.

    Opposite unit vectors are as far apart as two inputs can be. They are tried along an axis and along the diagonal: a
    mechanism that treats coordinates one by one (Laplace noise on each, after an L2 clip) is at its worst there.

    >>> [pair.words for pair in pairs_in(1)]
    ['opposite', 'one and nothing', 'one and its half', 'opposite and short']
    """
    axis = np.eye(n_features)[0]
    found = [Pair("opposite", axis, -axis)]
    if n_features > 1:
        diagonal = np.full(n_features, n_features**-0.5)
        found += [
            Pair("opposite on the diagonal", diagonal, -diagonal),
            Pair("at right angles", axis, np.eye(n_features)[1]),
        ]
    return [
        *found,
        Pair("one and nothing", axis, np.zeros(n_features)),
        Pair("one and its half", axis, axis / 2.0),
        Pair("opposite and short", axis / 2.0, -axis / 2.0),
    ]

"""Labels that are private are randomised once, before any step: however often rows are read, it is one release."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from uneven.engine.plans import PlanLike
from uneven.engine.randomness import repeat_generator
from uneven.engine.streams import Rows, Stream
from uneven.noise import LabelPrivacy


def randomise_labels(plan: PlanLike, rows: Mapping[str, Rows], seed: int | None) -> dict[str, Rows]:
    """Rows with the labels of each source of `LabelPrivacy` as it releases them."""
    noises = {source.name: source.noise for source in plan.sources}
    released = dict(rows)
    for name, source in rows.items():
        if isinstance(noise := noises[name].protection, LabelPrivacy):
            draw = repeat_generator(seed, 0, name, "labels")
            if isinstance(source, Stream):
                pieces = _Randomised(source.pieces, noise, draw)
                once = isinstance(source.pieces, Iterator)
                released[name] = replace(source, pieces=iter(pieces) if once else pieces)
            else:
                released[name] = replace(source, y=noise.corrupt(source.y, draw()))
    return released


@dataclass(frozen=True)
class _Randomised:
    """Pieces with labels randomised, in the same way each time they are read."""

    pieces: Iterable[tuple[Any, Any]]
    noise: LabelPrivacy
    draw: Callable[[], np.random.Generator]

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        rng = self.draw()
        for X, y in self.pieces:
            yield X, self.noise.corrupt(y, rng)

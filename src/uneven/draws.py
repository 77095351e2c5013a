"""Random numbers for what looks at public rows only: which are sampled, and the like."""

from __future__ import annotations

import hashlib

import numpy as np


def make_public_generator(purpose: str, seed: int = 0) -> np.random.Generator:
    """The same numbers on every machine for a purpose, and other ones than a user's own ``default_rng(0)`` gives.

    Rows that a user has flipped where ``default_rng(0).random(n) < 0.1`` would otherwise be those that are sampled.

    >>> ours, users = make_public_generator("sample").random(1000), np.random.default_rng(0).random(1000)
    >>> bool(abs(np.corrcoef(ours, users)[0, 1]) < 0.1)
    True
    """
    key = np.frombuffer(hashlib.sha256(purpose.encode()).digest()[:16], dtype=np.uint32)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=tuple(map(int, key))))

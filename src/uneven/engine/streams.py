"""Randomness: independent streams for each run and source, and none that can be guessed unless a seed is given."""

from __future__ import annotations

import secrets

import numpy as np
from randomgen import AESCounter

from uneven import checks

_PURPOSES = ("order", "noise")


def generator(seed: int | None, run: int, source: int, purpose: str) -> np.random.Generator:
    """Generator of one run's, one source's, one purpose's random numbers.

    With a seed they are reproducible, on any number of threads: that is for simulations. Without one they come from
    AES in counter mode under a fresh key from the operating system, because the noise *is* the privacy.

    >>> generator(7, run=0, source=1, purpose="noise").integers(100, size=3).tolist()
    [0, 55, 61]
    """
    if seed is None:
        return np.random.Generator(AESCounter(key=secrets.randbits(128)))
    key = (run, source, _PURPOSES.index(purpose))
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=key)))


def checked_seed(seed: object) -> int | None:
    """Seed that can be used: None or a whole number."""
    return None if seed is None else checks.whole("seed", seed, least=0)

"""Randomness: independent streams for each run and source, unpredictable unless a seed is given."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable

import numpy as np
from randomgen import AESCounter

from uneven import checks

_PURPOSES = ("order", "noise", "labels", "kept order", "kept noise", "class order", "class noise")


def make_generator(seed: int | None, run: int, source: str, purpose: str) -> np.random.Generator:
    """Generator of one run's, one source's, one purpose's random numbers; a source is known by its name.

    With a seed they are reproducible, on any number of threads: that is for simulations. Without one they come from
    AES in counter mode under a fresh key from the operating system, because the noise *is* the privacy.

    >>> make_generator(7, run=0, source="clinic", purpose="noise").integers(100, size=3).tolist()
    [74, 71, 11]
    """
    if seed is None:
        return np.random.Generator(AESCounter(key=secrets.randbits(128)))
    name = np.frombuffer(hashlib.sha256(source.encode()).digest()[:16], dtype=np.uint32)
    key = (run, *map(int, name), _PURPOSES.index(purpose))
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=key)))


def repeat_generator(seed: int | None, run: int, source: str, purpose: str) -> Callable[[], np.random.Generator]:
    """Function whose generators all give the same numbers: what is read twice must be randomised alike.

    >>> draw = repeat_generator(None, run=0, source="clinic", purpose="labels")
    >>> bool((draw().random(3) == draw().random(3)).all())
    True
    """
    if seed is not None:
        return lambda: make_generator(seed, run, source, purpose)
    key = secrets.randbits(128)
    return lambda: np.random.Generator(AESCounter(key=key))


def check_seed(seed: object) -> int | None:
    """Seed that can be used: None or a whole number."""
    return None if seed is None else checks.whole("seed", seed, least=0)

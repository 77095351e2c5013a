"""Many audits at once: every mechanism, ε and dimension, drawn in every way there is."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from typing import NamedTuple

from uneven import checks
from uneven.audit.auditing import LEAST_DRAWS, Audit, audit
from uneven.audit.drawing import Releases, draw_by_engine
from uneven.noise import MECHANISMS, LocalPrivacy, Noise, SitePrivacy
from uneven.problem import Problem

SLOWER = 20
"""A release by direction or of a batch is an interpreted loop: it gets this much fewer draws."""

AUDITED = (*MECHANISMS, SitePrivacy.kind)
"""Mechanisms that are audited by name."""

Bar = Callable[[str, float], AbstractContextManager[Callable[[float], None]]]
"""Makes a progress bar of a title and a total; it is called with each finished part of the total."""


class Line(NamedTuple):
    """One audit to do."""

    noise: Releases
    n_features: int
    drawn_by: str
    draws: int


def audit_all(
    mechanisms: Sequence[str] = AUDITED,
    epsilons: Sequence[float] = (1.0, 3.0),
    dimensions: Sequence[int] = (1, 2, 25),
    *,
    clip: float | None = None,
    draws: int = 1_000_000,
    confidence: float = 0.99,
    seed: int | None = None,
    progress: Bar | None = None,
) -> list[Audit]:
    """Audit every mechanism at every ε and dimension, as a site releases rows and as the engine does.

    Parameters
    ----------
    mechanisms : list of str
        ``"quiet"``, ``"privunit"``, ``"l2-laplace"``, ``"site-privacy"``, or ``"module:Class"`` for another, called
        with ε.
    epsilons, dimensions : list of float, list of int
    clip : float or None
        Norm that gradients are bounded by; 1 if None.
    draws : int
        Releases for each audit; a twentieth where a release is interpreted row by row.
    confidence : float
        That no bound in the list exceeds its true ε: the audits share the chance of error equally.
    seed : int or None
        None draws as a private run does, from the operating system's randomness.
    progress : callable or None
        Makes a progress bar of a title and a total; None shows none.

    Returns
    -------
    list of Audit
    """
    checks.whole("draws", draws, least=LEAST_DRAWS)
    lines = [
        line
        for mechanism in mechanisms
        for epsilon in epsilons
        for d in dimensions
        for line in _list_lines(_make_mechanism(mechanism, epsilon), checks.whole("dimension", d), clip, draws)
    ]
    if not lines:
        raise ValueError("mechanisms, epsilons and dimensions must not be empty; one is")
    each = 1.0 - (1.0 - checks.within("confidence", confidence, 0.5, 1.0)) / len(lines)

    def work(line: Line) -> Audit:
        noise, d, drawn_by, count = line
        return audit(noise, d, clip=clip, draws=count, confidence=each, drawn_by=drawn_by, seed=seed)

    with progress("Audit", len(lines)) if progress else nullcontext(lambda _: None) as tick:
        return _run_all(work, lines, tick)


def _run_all(work: Callable[[Line], Audit], lines: Sequence[Line], tick: Callable[[float], None]) -> list[Audit]:
    """Do all lines on all cores; an error or Ctrl-C drops those that have not begun."""
    pool = ThreadPoolExecutor(os.cpu_count())
    try:
        futures = [pool.submit(work, line) for line in lines]
        for future in as_completed(futures):
            future.result()
            tick(1.0)
        return [future.result() for future in futures]
    finally:
        pool.shutdown(cancel_futures=True)


def _make_mechanism(mechanism: str, epsilon: float) -> Releases:
    """Mechanism by its name, at that ε."""
    module, _, name = str(mechanism).partition(":")
    if not name:
        checks.one_of("mechanism", mechanism, (*AUDITED, "module:Class"))
        return SitePrivacy(epsilon) if mechanism == SitePrivacy.kind else LocalPrivacy(epsilon, mechanism)
    if "" not in sys.path:
        sys.path.insert(0, "")  # a module in the current folder, as for python -m
    try:
        made: Releases = getattr(import_module(module), name)(epsilon)
    except Exception as error:  # whatever goes wrong in another's code
        accepted = f"{', '.join(AUDITED)} or a module:Class that takes epsilon"
        why = f"{type(error).__name__}: {error}" if module else "it names no module"
        raise ValueError(f"mechanism must be {accepted}, got {mechanism!r} ({why})") from error
    return made


def _list_lines(noise: Releases, d: int, clip: float | None, draws: int) -> Iterator[Line]:
    interpreted = isinstance(noise, SitePrivacy) or (isinstance(noise, LocalPrivacy) and noise.by_direction)
    yield Line(noise, d, "release", max(LEAST_DRAWS, draws // SLOWER) if interpreted else draws)
    if isinstance(noise, Noise) and draw_by_engine(noise, Problem(d, 1e-3, 1, clip=clip)) is not None:
        yield Line(noise, d, "engine", draws)
        if noise.once_a_batch:
            yield Line(noise, d, "measure", draws)

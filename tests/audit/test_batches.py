"""Flaws of the compiled loop that a batch of one row of one source, with two classes, does not show."""

import inspect
import math

import numpy as np
import pytest

from uneven import LocalPrivacy, Problem
from uneven.audit import audit, drawing
from uneven.engine import kernels

PLACE = "if sources[k, MEAN] == 0.0"


def plant(monkeypatch, flaw):
    """Let `kernels.release` send raw gradients where the flaw says, interpreted, with all that calls it."""
    source = inspect.getsource(kernels.release.py_func)
    assert source.count(PLACE) == 1
    for name in ("advance", "add_noisy"):
        monkeypatch.setattr(kernels, name, getattr(kernels, name).py_func)
    monkeypatch.setitem(drawing.LOOPS, "engine", drawing.LOOPS["engine"].py_func)
    monkeypatch.setattr(kernels, "release", None)
    exec(source[source.index("def ") :].replace(PLACE, f"{PLACE} or {flaw}"), vars(kernels))


@pytest.mark.parametrize(
    ("flaw", "where"),
    [
        ("stop - start > 1", ("in a batch of two", "beside a row without privacy")),
        ("group.shape[0] > 0", ("beside a row without privacy",)),
        ("spec.outputs > 1", ("among three classes",)),
    ],
)
def test_raw_gradients_in_some_batches_are_found(monkeypatch, flaw, where):
    plant(monkeypatch, flaw)
    found = audit(LocalPrivacy(3.0), 1, draws=6_000, drawn_by="engine", seed=0)
    assert found.violated
    assert found.pair.endswith(where)


def test_without_a_flaw_none_is_found(monkeypatch):
    plant(monkeypatch, "False")
    assert not audit(LocalPrivacy(3.0), 1, draws=6_000, drawn_by="engine", seed=0).violated


@pytest.mark.parametrize(("drawn_by", "clip"), [("engine", 0.5), ("engine", None), ("measure", 0.5)])
@pytest.mark.parametrize("mechanism", ["l2-laplace", "privunit", "quiet"])
def test_every_way_releases_what_it_is_given(mechanism, drawn_by, clip):
    """The mean of releases is the input, in units of C, within five standard errors; and not 0.9 of it."""
    problem, rng = Problem(3, 1e-3, 1, clip=clip), np.random.default_rng(0)
    ways = drawing.draw_by_engine_in_all_ways(LocalPrivacy(6.0, mechanism), problem, drawn_by)
    assert len(ways) == 4
    for draw in ways.values():
        for v in ([0.0, 1.0, 0.0], [0.3, 0.0, -0.4], [0.0, 0.0, 0.0]):
            z = draw(np.array(v), 40_000, rng)
            error = z.std(axis=0) / math.sqrt(len(z))
            assert (np.abs(z.mean(axis=0) - v) < 5 * error).all()
            assert np.abs(z.mean(axis=0) - 0.9 * np.array(v)).max() > 5 * error.max() or max(v) < 1.0

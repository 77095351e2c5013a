"""Bad input: a ValueError of one line that names the argument, the value and what is accepted."""

import math

import numpy as np
import pytest

import uneven

NAN, INF = math.nan, math.inf
ONE = [uneven.Source("a", 10)]


def plan(sources=ONE, n_features=3, **options):
    return uneven.plan(sources, n_features, **options)


CASES = {
    "epsilon zero": (lambda: uneven.LocalPrivacy(0), "epsilon must be a positive finite number, got 0"),
    "epsilon negative": (lambda: uneven.LocalPrivacy(-1.5), "epsilon must be a positive finite number, got -1.5"),
    "epsilon nan": (lambda: uneven.LocalPrivacy(NAN), "epsilon must be a positive finite number, got nan"),
    "epsilon inf": (lambda: uneven.LocalPrivacy(INF), "epsilon must be a positive finite number, got inf"),
    "epsilon text": (lambda: uneven.LocalPrivacy("2"), "epsilon must be a positive finite number, got '2'"),
    "epsilon bool": (lambda: uneven.LocalPrivacy(True), "epsilon must be a positive finite number, got True"),
    "mechanism": (
        lambda: uneven.LocalPrivacy(1, "gauss"),
        "mechanism must be one of 'quiet', 'privunit', 'l2-laplace'; got 'gauss'",
    ),
    "rate one": (lambda: uneven.FlippedLabels(1.0), "rate must be a number in [0, 1), got 1.0"),
    "rate negative": (lambda: uneven.FlippedLabels(-0.1), "rate must be a number in [0, 1), got -0.1"),
    "rate nan": (lambda: uneven.FlippedLabels(NAN), "rate must be a number in [0, 1), got nan"),
    "rate text": (
        lambda: uneven.FlippedLabels("low"),
        "rate must be a number in [0, 1), two, a matrix or 'estimate', got 'low'",
    ),
    "variance negative": (
        lambda: uneven.AdditiveNoise(-1),
        "variance must be zero or a positive finite number, got -1",
    ),
    "variance inf": (lambda: uneven.AdditiveNoise(INF), "variance must be zero or a positive finite number, got inf"),
    "alpha zero": (lambda: plan(alpha=0), "alpha must be a positive finite number, got 0"),
    "alpha negative": (lambda: plan(alpha=-1e-3), "alpha must be a positive finite number, got -0.001"),
    "alpha nan": (lambda: plan(alpha=NAN), "alpha must be a positive finite number, got nan"),
    "alpha inf": (lambda: plan(alpha=INF), "alpha must be a positive finite number, got inf"),
    "no sources": (lambda: plan([]), "sources must hold at least one uneven.Source, got none"),
    "sources not a list": (lambda: plan(3), "sources must be a list of uneven.Source, got 3"),
    "a source alone": (lambda: plan(ONE[0]), "sources must be a list of uneven.Source, got Source("),
    "not a source": (lambda: plan(["a"]), "sources must hold uneven.Source objects only, got 'a'"),
    "duplicate names": (lambda: plan([*ONE, *ONE]), "sources must have names that differ, got 'a' twice"),
    "no name": (lambda: uneven.Source("", 10), "name must be a non-empty string, got ''"),
    "name not text": (lambda: uneven.Source(None, 10), "name must be a non-empty string, got None"),
    "zero rows": (lambda: uneven.Source("a", 0), "rows of source 'a' must be a whole number of at least 1, got 0"),
    "negative rows": (
        lambda: uneven.Source("a", -5),
        "rows of source 'a' must be a whole number of at least 1, got -5",
    ),
    "part of a row": (
        lambda: uneven.Source("a", 1.5),
        "rows of source 'a' must be a whole number of at least 1, got 1.5",
    ),
    "nan rows": (lambda: uneven.Source("a", NAN), "rows of source 'a' must be a whole number of at least 1, got nan"),
    "noise class": (lambda: uneven.Source("a", 5, uneven.Exact), "noise of source 'a' must be a noise such as"),
    "price": (lambda: uneven.Source("a", 5, price=-1), "price of source 'a' must be zero or a positive finite number"),
    "n_features": (lambda: plan(n_features=0), "n_features must be a whole number of at least 1, got 0"),
    "n_features float": (lambda: plan(n_features=2.0), "n_features must be a whole number of at least 1, got 2.0"),
    "batch_size": (lambda: plan(batch_size=0), "batch_size must be a whole number of at least 1, got 0"),
    "loss": (lambda: plan(loss="squared"), "loss must be one of 'logistic', 'hinge', 'linear'; got 'squared'"),
    "strategy": (
        lambda: plan(strategy="magic"),
        "strategy must be one of 'precision', 'averaged', 'anytime', 'two-rates',",
    ),
    "moments": (lambda: plan(moments="middle"), "moments must be one of 'auto', 'upper', 'lower', 'variance'; got"),
    "radius": (lambda: plan(radius=3), "radius must be one of 'tight', 'paper'; got 3"),
    "clip zero": (lambda: plan(clip=0), "clip must be a positive finite number, got 0"),
    "clip nan": (lambda: plan(clip=NAN), "clip must be a positive finite number, got nan"),
    "lower of exact": (lambda: plan(moments="lower"), "source 'a' (Exact()) has a lower moment of 0"),
    "an array for a number": (lambda: plan(n_features=np.eye(30)), "n_features must be a whole number of at least 1"),
    "an array for a noise": (lambda: uneven.Source("a", 5, np.eye(9)), "noise of source 'a' must be a noise such as"),
    "epsilon beyond floats": (
        lambda: uneven.LocalPrivacy(10**400),
        "epsilon must be a positive finite number, got 1000",
    ),
    "epsilon too small": (lambda: uneven.LocalPrivacy(1e-100), "epsilon must be between 1e-06 and 1e+06, got 1e-100"),
    "alpha too small": (lambda: plan(alpha=1e-160), "alpha must be between 1e-18 and 1e+18, got 1e-160"),
    "clip too small": (lambda: plan(clip=1e-200), "clip must be between 1e-06 and 1e+06, got 1e-200"),
    "variance too large": (lambda: uneven.AdditiveNoise(1e200), "variance must be at most 1e+12, got 1e+200"),
    "moments of no rows": (
        lambda: uneven.Exact().second_moment(uneven.Problem(3, 0.1, 5), rows=0),
        "rows must be a whole number of at least 1, got 0",
    ),
    "variance of hinge": (
        lambda: plan(loss="hinge", moments="variance"),
        "moments must be 'auto', 'upper' or 'lower' with the loss 'hinge'",
    ),
    "variance of averaged": (
        lambda: plan(strategy="averaged", moments="variance"),
        "moments must be 'auto', 'upper' or 'lower' with strategy 'averaged'",
    ),
}


@pytest.mark.parametrize(("call", "message"), CASES.values(), ids=CASES)
def test_one_line_that_names_the_argument(call, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the message is checked in full below)
        call()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_whole_numbers_of_numpy_are_whole_numbers():
    source = uneven.Source("a", np.int64(10), uneven.LocalPrivacy(np.float32(1)))
    assert type(source.rows) is int
    assert uneven.plan([source], np.int32(3), np.float64(0.1)).steps == 1

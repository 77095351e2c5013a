"""Arithmetic with 60 digits for code that is written for floats, and draws that can be used again."""

import math
from decimal import Decimal, getcontext, localcontext
from types import SimpleNamespace

import numpy as np

DIGITS = 60


class Exact:
    """A number with 60 digits that mixes with floats, which it takes as they are stored."""

    def __init__(self, value):
        self.value = value.value if isinstance(value, Exact) else Decimal(value)

    def __float__(self):
        return float(self.value)

    def __neg__(self):
        return Exact(-self.value)

    def __abs__(self):
        return Exact(abs(self.value))

    def __repr__(self):
        return f"Exact({self.value})"


def _add_operators():
    def operator(name):
        def apply(self, other):
            if isinstance(other, np.ndarray):
                return NotImplemented
            with localcontext(prec=DIGITS):
                return Exact(getattr(self.value, name)(Exact(_plain(other)).value))

        return apply

    def comparison(name):
        return lambda self, other: getattr(self.value, name)(Exact(_plain(other)).value)

    for name in ("add", "sub", "mul", "truediv", "pow"):
        for way in (f"__{name}__", f"__r{name}__"):
            setattr(Exact, way, operator(way))
    for name in ("__lt__", "__le__", "__gt__", "__ge__", "__eq__"):
        setattr(Exact, name, comparison(name))


def _plain(value):
    return value if isinstance(value, Exact) else float(value)


_add_operators()


def _of(function):
    """A function of decimals as one of exact numbers."""

    def apply(x):
        with localcontext(prec=DIGITS + 10):
            return Exact(function(Exact(x).value))

    return apply


def _series(x, first):
    """Terms of sin (from x) or cos (from 1), alternating: each is the last times -x²/(k(k + 1))."""
    total = term = x if first else Decimal(1)
    k = 2 if first else 1
    while abs(term) > Decimal(10) ** -getcontext().prec * abs(total):
        term *= -x * x / (k * (k + 1))
        total, k = total + term, k + 2
    return total


def _acos(x):
    """By Newton's method for sin(y/2) = √((1 - x)/2), from the float's answer."""
    goal, half = ((1 - x) / 2).sqrt(), Decimal(math.asin(math.sqrt(float((1 - x) / 2))))
    for _ in range(4):
        half -= (_series(half, True) - goal) / _series(half, False)
    return 2 * half


def _log1p(x):
    return (1 + x).ln() if abs(x) > Decimal(10) ** -30 else x - x * x / 2


def _expm1(x):
    return x.exp() - 1 if abs(x) > Decimal(10) ** -30 else x + x * x / 2


exact_math = SimpleNamespace(
    sqrt=_of(lambda x: x.sqrt()),
    exp=_of(lambda x: x.exp()),
    log=_of(lambda x: x.ln()),
    log1p=_of(_log1p),
    expm1=_of(_expm1),
    sin=_of(lambda x: _series(x, True)),
    cos=_of(lambda x: _series(x, False)),
    acos=_of(_acos),
)
"""What stands for the module `math`."""


def exact(array):
    """Its numbers as exact ones."""
    return np.array([Exact(float(x)) for x in array], dtype=object)


EXTREME = {
    "random": (0.0, 2.0**-53, 2.0**-40, 2.0**-27, 1e-6, 1e-3, 0.5, 1 - 2.0**-27, 1 - 2.0**-53),
    "standard_normal": (0.0, 2.0**-52, -1e-9, 1e-3, -8.0),
    "standard_exponential": (1e-12, 1e-6, 8.0, 40.0),
}
"""Numbers that a generator gives rarely."""


class Kept:
    """A generator whose numbers are kept, and given again as exact ones.

    A share of them is extreme; gamma numbers are `stretch` times too large.
    """

    def __init__(self, rng, extreme=0.0, stretch=1.0):
        self._rng, self._extreme, self._stretch, self._kept, self._again = rng, extreme, stretch, [], None

    def again(self):
        """Start over: from now on the kept numbers, which must be asked for in the same order."""
        self._again = iter(self._kept)
        return self

    def _draw(self, kind, *arguments):
        if self._again is not None:
            was, value = next(self._again)
            assert was == kind
            return Exact(value)
        if self._extreme and kind in EXTREME and self._rng.random() < self._extreme:
            value = float(self._rng.choice(EXTREME[kind]))
        else:
            value = getattr(self._rng, kind)(*arguments)
        if kind == "standard_gamma":
            value *= self._stretch
        self._kept.append((kind, value))
        return value

    def random(self):
        return self._draw("random")

    def standard_normal(self, size=None):
        if size is None:
            return self._draw("standard_normal")
        return np.array([self._draw("standard_normal") for _ in range(int(np.prod(size)))]).reshape(size)

    def standard_exponential(self):
        return self._draw("standard_exponential")

    def standard_gamma(self, shape):
        return self._draw("standard_gamma", shape)

    def gamma(self, shape, scale, size):
        return scale * np.array([self._draw("standard_gamma", shape) for _ in range(int(np.prod(size)))]).reshape(size)

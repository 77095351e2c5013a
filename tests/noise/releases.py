"""Releases by direction for the tests, by the compiled functions and not rounded; and exact shares of caps."""

import math
from fractions import Fraction

import numpy as np
from numba import njit

from uneven.engine.kernels import add_from_cap, add_uniform, choose, walk
from uneven.noise.directions import SILENT, UNIFORM


@njit
def _release(out, how, norm, row, rng):
    height, share, base, own, fill, mean = how
    scratch = np.empty(out.shape[1])
    for i in range(out.shape[0]):
        way = choose(norm, base, own, fill, rng)
        if way == UNIFORM:
            add_uniform(out[i], walk(out.shape[1], 0.0, 1.0 / mean, rng), scratch, rng)
        elif way != SILENT:
            add_from_cap(out[i], row, 1.0 / 0.7, 1.0 / mean, height, share, scratch, rng)


def compiled_releases(how, d, n, norm=1.0, seed=0):
    """Releases of the vector of that norm along the first axis."""
    out, row = np.zeros((n, d)), np.zeros(d)
    row[0] = 0.7  # only its direction counts
    _release(out, tuple(how), float(norm), row, np.random.default_rng(seed))
    return out


@njit
def _sum(total, rows, ways, how, rng):
    height, share, _, _, _, mean = how
    scratch, radius = np.empty(total.shape[0]), 0.0
    for i in range(rows.shape[0]):
        if ways[i] == UNIFORM:
            radius = walk(total.shape[0], radius, 1.0 / mean, rng)
        elif ways[i] != SILENT:
            unit = 1.0 / np.sqrt((rows[i] ** 2).sum())
            add_from_cap(total, rows[i], unit, 1.0 / mean, height, share, scratch, rng)
    add_uniform(total, radius, scratch, rng)


def compiled_sum(how, rows, ways, seed):
    """Sum of releases of the rows, each in the given way."""
    total = np.zeros(rows.shape[1])
    _sum(total, rows, np.asarray(ways), tuple(how), np.random.default_rng(seed))
    return total


def exact_share(d, depth):
    """q in an odd dimension: Beta(a, a) of whole a is a binomial sum, here of fractions."""
    n, x = d - 2, Fraction(depth) / 2
    up, whole = x.numerator, x.denominator
    terms = (math.comb(n, j) * up**j * (whole - up) ** (n - j) for j in range((d - 1) // 2, n + 1))
    return Fraction(sum(terms), whole**n)

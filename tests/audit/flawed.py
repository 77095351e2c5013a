"""Mechanisms with a flaw, for the audit to find."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

from uneven.noise import LocalPrivacy, SitePrivacy
from uneven.noise.privacy import draw_l2_laplace


@dataclass(frozen=True)
class TooLittle:
    """The paper's mechanism with noise scaled too low, so that its true ε is ε/scale."""

    epsilon_per_row: float
    scale: float = 0.8

    def release(self, gradients, bound, rng):
        rows, d = gradients.shape
        return gradients + self.scale * bound * draw_l2_laplace(rows, d, self.epsilon_per_row, rng)


@dataclass(frozen=True)
class EachCoordinate:
    """Laplace noise on each coordinate, scaled as if an L2 clip bounded the L1 norm."""

    epsilon_per_row: float

    def release(self, gradients, bound, rng):
        return gradients + rng.laplace(scale=2.0 * bound / self.epsilon_per_row, size=gradients.shape)


@dataclass(frozen=True)
class TellsNothing:
    """Perfectly private whatever it states: the input does not enter."""

    epsilon_per_row: float

    def release(self, gradients, bound, rng):
        return rng.standard_normal(gradients.shape)


@dataclass(frozen=True)
class Silent:
    """The paper's mechanism, but a gradient of 0 is sent as it is."""

    epsilon_per_row: float

    def release(self, gradients, bound, rng):
        rows, d = gradients.shape
        noisy = gradients + bound * draw_l2_laplace(rows, d, self.epsilon_per_row, rng)
        return np.where(np.linalg.norm(gradients, axis=1, keepdims=True) == 0, 0.0, noisy)


@dataclass(frozen=True)
class SilentTooOften(LocalPrivacy):
    """quiet, but directions that come whatever the row come 10% too seldom: more silence for short rows."""

    def calibration(self, n_features):
        how = super().calibration(n_features)
        return how._replace(base=0.9 * how.base, own=how.own + 0.1 * how.base)


@dataclass(frozen=True)
class ShortRowsSpeak(LocalPrivacy):
    """quiet, but silence is forgotten for short rows: what they leave of their cap goes to the whole sphere."""

    def release(self, gradients, bound, rng):
        short = np.linalg.norm(gradients, axis=1, keepdims=True) < 0.6 * bound
        released, (rows, d) = super().release(gradients, bound, rng), gradients.shape
        direction = rng.standard_normal((rows, d))
        direction *= bound / self.calibration(d).mean / np.linalg.norm(direction, axis=1, keepdims=True)
        return np.where(short & ~released.any(axis=1, keepdims=True), direction, released)


@dataclass(frozen=True)
class Unclipped:
    """The paper's mechanism with noise for half of the bound."""

    epsilon_per_row: float

    def release(self, gradients, bound, rng):
        rows, d = gradients.shape
        return gradients + min(bound, 0.5) * draw_l2_laplace(rows, d, self.epsilon_per_row, rng)


class Exhausted:
    """Sends the input as it is so many times, then tells nothing: only fresh draws show that it does not."""

    epsilon_per_row = 1e-3

    def __init__(self, times):
        self.left = times

    def release(self, gradients, bound, rng):
        self.left -= len(gradients)
        return gradients.copy() if self.left >= 0 else rng.standard_normal(gradients.shape)


@dataclass(frozen=True)
class NotFinite:
    """The paper's mechanism, but a gradient of at most some length is sent as a value that is not finite."""

    epsilon_per_row: float
    value: float = np.nan
    longest: float = 0.6

    def release(self, gradients, bound, rng):
        rows, d = gradients.shape
        noisy = gradients + bound * draw_l2_laplace(rows, d, self.epsilon_per_row, rng)
        short = np.linalg.norm(gradients, axis=1) <= self.longest * bound
        return np.where(short[:, None], self.value, noisy)


@dataclass(frozen=True)
class InfiniteOrNaN:
    """Never finite: infinite for a gradient of full length, NaN for any other."""

    epsilon_per_row: float

    def release(self, gradients, bound, rng):
        full = np.linalg.norm(gradients, axis=1, keepdims=True) > 0.9 * bound
        return np.where(full, np.inf, np.nan) * np.ones_like(gradients)


@dataclass(frozen=True)
class RarelyNaN:
    """NaN in the last coordinate of one release in a hundred, of a gradient with a positive first one only."""

    epsilon_per_row: float

    def release(self, gradients, bound, rng):
        released = rng.standard_normal(gradients.shape)
        released[(gradients[:, 0] > 0) & (rng.random(len(gradients)) < 0.01), -1] = np.nan
        return released


@dataclass(frozen=True)
class AlwaysNaN:
    """Perfectly private and of no use."""

    epsilon_per_row: float

    def release(self, gradients, bound, rng):
        return np.full(gradients.shape, np.nan)


@dataclass(frozen=True)
class WrongShape:
    """Releases one number for each row instead of a row."""

    epsilon_per_row: float

    def release(self, gradients, bound, rng):
        return rng.standard_normal(len(gradients))


@dataclass(frozen=True)
class Words:
    """Releases words."""

    epsilon_per_row: float

    def release(self, gradients, bound, rng):
        return [["much"] * gradients.shape[1]] * len(gradients)


class Unmade:
    """Cannot be made."""

    def __init__(self, epsilon):
        raise KeyError("settings")


@dataclass(frozen=True)
class Unreleased:
    """Can be made, but releases nothing."""

    epsilon_per_row: float

    def release(self, gradients, bound, rng):
        return {}["noise"]


@dataclass(frozen=True)
class HalfTheSensitivity(SitePrivacy):
    """Site privacy with noise for a sensitivity of C: adding a row moves the sum by that, but replacing one by 2C."""

    def spread(self, rows, n_features, bound, rng):
        return super().spread(rows, n_features, bound / 2.0, rng)

    def coefficients(self, problem):
        once = super().coefficients(problem)
        return once._replace(batch_gamma=once.batch_gamma / 4.0)


def order_with_one_row_twice(labels):
    """The first row is in two batches."""
    return np.array([0, 1, 0, 2, 3, 4])[: len(labels)]


def order_by_label(labels):
    """Batches of rows of one label, as far as there are: replacing one row moves others."""
    return np.argsort(labels, kind="stable")


def _permuted(order):
    """Flawed copy of what splits rows in memory."""

    def split(source, size, _rng):
        numbers = order(source.y)
        for start in range(0, len(numbers), size):
            part = numbers[start : start + size]
            yield source.X[part], source.y[part], part

    return split


def _shuffled(order):
    """Flawed copy of what splits a stream."""

    def split(blocks, size, _batch_size, rng):
        whole = [*blocks]
        X, y = (np.concatenate([getattr(block, key) for block in whole]) for key in "Xy")
        return _permuted(order)(SimpleNamespace(X=X, y=y), size, rng)

    return split

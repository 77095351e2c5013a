"""Small data for the engine's tests, and a noise that the compiled loops do not know."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import uneven


def rows(n, d, seed=0, dtype=np.float32):
    """Rows in the unit ball and labels that a plane separates with some mistakes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True) * rng.uniform(1.001, 3, size=(n, 1))
    y = np.where(X @ rng.normal(size=d) + 0.2 * rng.normal(size=n) > 0, 1.0, -1.0)
    return X.astype(dtype), y


def two_sources(noise_a, noise_b, n_a=130, n_b=270, d=4):
    """Two described sources and their rows."""
    X, y = rows(n_a + n_b, d)
    sources = [uneven.Source("a", n_a, noise_a), uneven.Source("b", n_b, noise_b)]
    return sources, {"a": (X[:n_a], y[:n_a]), "b": (X[n_a:], y[n_a:])}


@dataclass(frozen=True)
class Rounded(uneven.Noise):
    """A noise the compiled loops do not know: each coordinate rounded at random to a multiple of a third."""

    kind: ClassVar[str] = "rounded"

    def row_energy(self, problem):
        return problem.gradient_norm**2 + problem.n_features / 36

    def release(self, gradients, bound, rng):
        return np.floor(3 * gradients + rng.random(gradients.shape)) / 3

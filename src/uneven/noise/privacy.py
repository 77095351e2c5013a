"""Local differential privacy: a row leaves its owner only as a noisy gradient."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import betaincinv

from uneven import checks
from uneven.noise import grid, privunit, quiet
from uneven.noise.base import Array, Coefficients, Noise
from uneven.noise.directions import CAP, SHORT, SILENT, TINY, UNIFORM, add_from_cap, add_uniform, choose, walk
from uneven.noise.privunit import Calibration
from uneven.problem import Problem
from uneven.theory import laplace_energy

MECHANISMS = ("quiet", "privunit", "l2-laplace")

REACH = 32.0
"""Noise of l2-laplace is longer than so many times its root mean square with probability below 2⁻⁶⁰."""


class Default(float):
    """A default value; the same number as a plain float was stated by someone, and stays as it is."""


class Activity(NamedTuple):
    """Mean of ‖g‖/C over rows: as planned, as the share of silent rows tells it, and a 95% interval for it.

    >>> print(Activity(0.5, 0.123, 0.05, 0.21))
    0.123 (0.050 to 0.210; planned: 0.5)
    """

    planned: float
    found: float
    low: float
    high: float

    def __str__(self) -> str:
        digits = min(max(1 - math.floor(math.log10(max(self.high - self.low, 1e-6) / 4.0)), 2), 6)
        found, low, high = (f"{value:.{digits}f}" for value in (self.found, self.low, self.high))
        return f"{found} ({low} to {high}; planned: {self.planned:g})"


@dataclass(frozen=True)
class LocalPrivacy(Noise):
    """Each row's gradient is released once, with ε-local differential privacy.

    Parameters
    ----------
    epsilon : float
        Privacy of one release of one row.
    mechanism : {"quiet", "privunit", "l2-laplace"}
        ``"privunit"`` releases a random vector of fixed length, more often one near the gradient's direction.
        ``"quiet"`` may also release nothing, which it does more often for a short gradient: less noise at the same ε.
        ``"l2-laplace"`` is the paper's: add Z with density proportional to exp(-(ε/2)‖z‖/C).
    activity : float
        For ``"quiet"``: the mean of ‖g‖/C over rows that is planned for, from 1e-6 to 1. It must not be computed from
        private rows; what an earlier run found (`find_activity`) was computed from releases, and may be used. It
        decides how much noise there is, never how private it is. Where silence is of no use, such as at an activity of
        1 or an ε below about 1.4 at an activity of 0.5, quiet is privunit. Where K > 2 classes are learned and none is
        stated, √(2 - 2/K)/2 is planned for: gradients of zero weights are longer in that proportion. A stated activity
        is used as it is, 0.5 too.

    Notes
    -----
    Formal guarantee. For any two rows (x, y), (x', y') whose gradients have norm at most C, the probabilities of any
    release differ by a factor of at most e^ε; ``docs/theory.md`` has the proofs, for real numbers and for floats:
    releases are rounded to a public grid, and noise is calibrated for ε less what that costs. It assumes a source of
    random numbers nobody can predict, whose normal and gamma numbers are exact but for rounding (the tail of a draw
    that 53 bits cannot reach, of probability below (d + 9)·2⁻⁵⁰ a row, is a δ), a bound C and an activity that do not
    depend on the data, and one release per row: k releases cost kε. A gradient longer than C is refused, not released.

    Moments. The upper second moment holds for any rows, the lower one too. The variance, which the precision schedule
    uses, is that of rows whose mean of ‖g‖/C is at most `activity`; for the other mechanisms that is every row.

    Examples
    --------
    >>> problem = Problem(n_features=25, alpha=1e-3, batch_size=50, radius="paper")
    >>> LocalPrivacy(epsilon=10.0, mechanism="l2-laplace").second_moment(problem)
    (0.52, 4.52)
    >>> [round(moment, 3) for moment in LocalPrivacy(epsilon=10.0, mechanism="privunit").second_moment(problem)]
    [0.037, 4.037]
    >>> [round(LocalPrivacy(10.0, name).variance_bound(problem), 3) for name in ("privunit", "quiet")]
    [0.057, 0.03]
    """

    kind: ClassVar[str] = "local-privacy"
    level: ClassVar[str | None] = "epsilon"
    epsilon: float
    mechanism: str = "quiet"
    activity: float = Default(0.5)

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", checks.moderate("epsilon", self.epsilon))
        checks.one_of("mechanism", self.mechanism, MECHANISMS)
        if not isinstance(self.activity, Default):
            object.__setattr__(self, "activity", checks.between("activity", self.activity, 1e-6, 1.0))
        self.check_interval()

    def describe(self) -> str:
        """ε and the mechanism."""
        return f"private, ε = {self.epsilon:g} ({self.mechanism})"

    def describe_release(self) -> str:
        """The mechanism, and ε."""
        return f"{self.mechanism}, ε = {self.epsilon:g} per release"

    @property
    def epsilon_per_row(self) -> float:
        """ε."""
        return self.epsilon

    @property
    def promise(self) -> str:
        """From whom a row is protected."""
        return "Local privacy protects a row from everyone except the machine that reads it."

    def observed_among(self, classes: int) -> LocalPrivacy:
        """The same with the activity that is planned for so many classes; a stated one stays."""
        if classes == 2 or self.mechanism != "quiet" or not isinstance(self.activity, Default):
            return self
        return replace(self, activity=min(1.0, self.activity * math.sqrt(2.0 - 2.0 / classes)))

    @property
    def by_direction(self) -> bool:
        """Whether a row is released as a direction, or not at all; else noise is added to it."""
        return self.mechanism != "l2-laplace"

    def row_energy(self, problem: Problem) -> float:
        """Energy of a row of full length: no row has more."""
        d, square = problem.n_features, problem.gradient_norm**2
        if self.by_direction:
            return square * self.observed_among(problem.classes).calibration(d).energy(1.0)
        return square * (1.0 + laplace_energy(d, self.epsilon))

    def planned_energy(self, problem: Problem) -> float:
        """Energy of rows of the planned activity; at least that of the same rows without privacy as planned, C²."""
        if self.by_direction:
            planned = self.observed_among(problem.classes)
            energy = planned.calibration(problem.n_features).energy(planned.activity)
            return problem.gradient_norm**2 * max(1.0, energy)
        return self.row_energy(problem)

    def added_energy(self, problem: Problem) -> float:
        """Least energy beyond the row's own: that of a row of full length or of no length (it is concave between)."""
        d, square = problem.n_features, problem.gradient_norm**2
        if self.by_direction:
            how = self.observed_among(problem.classes).calibration(d)
            return square * min(how.energy(1.0) - 1.0, how.energy(0.0))
        return square * laplace_energy(d, self.epsilon)

    def calibration(self, n_features: int) -> Calibration:
        """How a direction is drawn; ε less what rounding costs."""
        epsilon = self._calibrated_epsilon(n_features)
        if self.mechanism == "quiet":
            return quiet.calibrated(n_features, epsilon, self.activity)
        return privunit.calibrated(n_features, epsilon)

    def find_activity(self, n_features: int, silent: int, released: int) -> Activity | None:
        """Mean of ‖g‖/C that the share of silent rows speaks for: post-processing, so it costs no privacy.

        A row of length ρC is silent with probability 1 - υ - ρκ, so a share s of silent rows says ρ = (1 - s - υ)/κ.
        The interval is that of Clopper and Pearson for s, which holds for any number of rows (and for rows of any
        lengths: their count of silent ones varies less than a binomial number of the same mean).

        Parameters
        ----------
        n_features : int
            Dimension of the gradients.
        silent, released : int
            How many rows were silent, and how many were released in all, silent ones among them: a run's
            ``state.silent`` and ``state.released``.

        Returns
        -------
        Activity or None
            None if this mechanism is never silent, or no row was released.

        Examples
        --------
        >>> print(LocalPrivacy(10.0).find_activity(25, silent=700, released=1000))
        0.268 (0.238 to 0.299; planned: 0.5)
        """
        return pool_activity(n_features, [(self, silent, released)])

    def release(self, gradients: Array, bound: float, rng: np.random.Generator) -> Array:
        """Each row with its own draw: what a site that releases rows one by one must do. A silent row is 0."""
        refuse_longer(gradients, bound)
        rows, d = gradients.shape
        cell = grid.width(self.grid(d, bound), 1)
        if not self.by_direction:
            noisy = gradients + bound * draw_l2_laplace(rows, d, self._calibrated_epsilon(d), rng)
            return np.asarray(grid.round_rows(noisy, cell, rng))
        released, spoke = np.zeros((rows, d)), np.zeros(rows, dtype=bool)
        for i, g in enumerate(gradients):
            sum_of_one = Releases(released[i])
            if sum_of_one.add(self, g, bound, rng) != SILENT:
                sum_of_one.finish(rng)
                spoke[i] = True
        released[spoke] = grid.round_rows(released[spoke], cell, rng)
        return released

    def release_sum(self, gradients: Array, bound: float, rng: np.random.Generator) -> Array:
        """Sum of the rows, drawn with the law of the sum of m ≥ 1 releases and rounded once."""
        refuse_longer(gradients, bound)
        rows, d = checks.whole("rows of gradients", len(gradients)), gradients.shape[1]
        if self.by_direction:
            released = Releases(np.zeros(d))
            for g in gradients:
                released.add(self, g, bound, rng)
            total = released.finish(rng)
        else:
            total = super().release_sum(gradients, bound, rng)
        grid.round_to_grid(total, grid.width(self.grid(d, bound), rows), rng)
        return total

    @property
    def is_mixture(self) -> bool:
        """l2-laplace is; a release by direction is not."""
        return not self.by_direction

    def spread(self, rows: int, n_features: int, bound: float, rng: np.random.Generator) -> float:
        """l2-laplace: W' ~ Gamma(m(d+1)/2, 8C²/ε²), and the sum of m vectors is √W'·N(0, I), exactly.

        One vector is √W·N(0, I) with W ~ Gamma((d+1)/2, 8/ε²), because ∫ w^{-1/2} e^{-r²/2w - a²w/2} dw is
        proportional to e^{-ar}, a = ε/2. Gammas of one scale add, and so do independent normals given their
        scales.
        """
        if not self.is_mixture:
            return super().spread(rows, n_features, bound, rng)
        return self._gamma_scale(n_features, bound) * float(rng.standard_gamma(rows * (n_features + 1) / 2.0))

    def coefficients(self, problem: Problem) -> Coefficients:
        """The calibration, or 8C²/ε² for l2-laplace; and the grid."""
        if (planned := self.observed_among(problem.classes)) != self:
            return planned.coefficients(problem)
        d, bound = problem.n_features, problem.gradient_norm
        if self.by_direction:
            return Coefficients(0.0, 0.0, 0.0, *self.calibration(d), self.grid(d, bound))
        return Coefficients(gamma=self._gamma_scale(d, bound), grid=self.grid(d, bound))

    def grid(self, n_features: int, bound: float) -> float:
        """Width of a cell for one row; `grid.width` has that of a sum."""
        if self.by_direction:
            length = 1.0 / self.calibration(n_features).mean
        else:
            length = math.sqrt(1.0 + laplace_energy(n_features, self.epsilon))
        return grid.fineness(n_features, self.epsilon, self._reach) * bound * length / math.sqrt(n_features)

    def to_dict(self) -> dict[str, Any]:
        """Plain values; the activity only if it was stated."""
        values = super().to_dict()
        if isinstance(self.activity, Default):
            del values["activity"]
        return values

    @property
    def _reach(self) -> float:
        return 1.0 if self.by_direction else REACH

    def _calibrated_epsilon(self, n_features: int) -> float:
        return self.epsilon - grid.slack(n_features, self.epsilon, self._reach)

    def _gamma_scale(self, n_features: int, bound: float) -> float:
        return 8.0 * (bound / self._calibrated_epsilon(n_features)) ** 2


def pool_activity(n_features: int, counts: Sequence[tuple[LocalPrivacy, int, int]]) -> Activity | None:
    """Activity of rows of several noises together, each with its silent and its released rows (see `find_activity`).

    A row of noise i is heard with probability υ_i + ρκ_i, so the share of rows that are heard, less the mean of υ over
    rows, is the mean of ρκ: over the mean of κ it is the mean of ρ, rows weighted by their κ.
    Noises that are never silent are left out.
    """
    able = [
        (noise, how, quiet_rows, rows)
        for noise, quiet_rows, rows in counts
        if noise.by_direction and rows > 0 and not (how := noise.calibration(n_features)).fill
    ]
    if not able:
        return None
    silent, released = sum(quiet_rows for _, _, quiet_rows, _ in able), sum(rows for *_, rows in able)
    base = sum(how.base * rows for _, how, _, rows in able) / released
    own = sum(how.own * rows for _, how, _, rows in able) / released
    planned = sum(float(noise.activity) * how.own * rows for noise, how, _, rows in able) / released / own
    heard = released - silent
    low = betaincinv(heard, silent + 1, 0.025) if heard else 0.0
    high = betaincinv(heard + 1, silent, 0.975) if silent else 1.0
    found = [min(max((share - base) / own, 0.0), 1.0) for share in (heard / released, low, high)]
    return Activity(round(planned, 12), *map(float, found))


class Releases:
    """A sum of rows released by direction, not rounded yet."""

    def __init__(self, total: Array) -> None:
        self.total, self.radius, self._scratch = total, 0.0, np.empty(len(total))

    def add(self, noise: LocalPrivacy, gradient: Array, bound: float, rng: np.random.Generator) -> int:
        """Release one gradient of norm at most `bound` into the sum; returns which way (`directions.choose`)."""
        length, how = float(np.linalg.norm(gradient)), noise.calibration(len(gradient))
        norm = min(length / bound, 1.0) if length > TINY else 0.0
        way, step = choose(norm, how.base, how.own, how.fill, rng), bound / how.mean
        if way == UNIFORM:
            self.radius = walk(len(gradient), self.radius, step, rng)
        elif way == CAP:
            add_from_cap(self.total, gradient, 1.0 / length, step, how.height, how.share, self._scratch, rng)
        return way

    def finish(self, rng: np.random.Generator) -> Array:
        """The sum, with the directions from the whole sphere in it."""
        add_uniform(self.total, self.radius, self._scratch, rng)
        return self.total


def draw_l2_laplace(rows: int, n_features: int, epsilon: float, rng: np.random.Generator) -> Array:
    """Draw rows with density proportional to exp(-(ε/2)‖z‖), each by radius and direction.

    ‖Z‖ ~ Gamma(shape d, scale 2/ε), and the direction is uniform on the sphere.
    """
    direction = rng.standard_normal((rows, n_features))
    while (short := (direction**2).mean(axis=1) < SHORT).any():
        direction[short] = rng.standard_normal((int(short.sum()), n_features))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    return np.asarray(rng.gamma(n_features, 2.0 / epsilon, size=(rows, 1)) * direction)


def refuse_longer(gradients: Array, bound: float) -> None:
    """Refuse gradients longer than the bound that their privacy rests on, and a bound that floats cannot work with."""
    checks.positive("bound", bound, 1e-100, 1e100)
    with np.errstate(over="ignore"):
        longest = float(np.linalg.norm(gradients, axis=1).max(initial=0.0))
    if not longest <= bound * (1 + 1e-12):
        raise ValueError(
            f"gradients must have norm at most {bound:g}, the bound their privacy rests on; one is longer "
            "(or not a number), and nothing was released"
        )

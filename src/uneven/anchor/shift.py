"""Does a private source agree with the anchor? Measured from its first releases, which is free: post-processing.

The first rows answer at w₀ without moving it. In coordinates with curvature h their mean gradient has

    E ḡ_j² = s² + h_j²(v_j + min(t²/h_j, m)),

s² its known variance and v the anchor's. t²/h is the variance between sources (random effects, as in meta-analysis), at
most m: each direction then adds the same, ½t², to the expected excess. Optima of real sources are apart where little
curves, and next to equal in the few directions that decide most labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import chdtri, fdtrc  # scipy.stats has them too, and takes a second to import

from uneven.anchor.clock import Coordinates, absorb
from uneven.anchor.diagonals import add_diagonal, multiply
from uneven.theory import theorem_d_mismatch
from uneven.words import FEW, name_few

Array = NDArray[np.float64]

MEASURED_SHARE, LOST_SHARE = 0.1, 0.02
"""Share of a private source's rows that measure; where the measurement cannot also be a step, so that they are lost."""

LEVEL, ACT = 0.01, 0.001
"""Probability below which a source is said to differ, and below which steps allow for it.

To allow for a difference that chance made costs several times the excess; differences of real sources, where noise does
not hide them, are far less likely than either."""

GRID, DROP = 200, 1.0
"""Values of t² tried; and the fall of twice the log likelihood that bounds it from below with 84%: one standard error.

The likelihood can have two peaks, far apart, and 95% would often reach down to the lower one."""

BETWEEN = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Powers of α among the curvatures that are tried where it is not known: 0 for what public rows say, 1 for α alone."""


@dataclass(frozen=True)
class Disagreement:
    """How far a private source is from the anchor.

    Attributes
    ----------
    statistic : float
        Σ_j ḡ_j²/(s² + h_j²v_j): chi-squared with d degrees of freedom where the source agrees. Where v_j rests on few
        rows, the square is first taken down to that of a normal variable as unlikely as it is, and the sum is d times F
        with d and as many degrees of freedom as rows are left, as Hotelling's T² is.
    p_value : float
        Probability of as large a statistic where the source agrees; 1 where it was not measured (`UNMEASURED`).
    variance : float
        t², h times the variance between sources: the smallest that the likelihood allows with 84%, since the likeliest
        is far too large where noise is. 0 where no plausible t² explains the statistic better than chance.
    """

    statistic: float
    p_value: float
    variance: float

    @property
    def found(self) -> bool:
        """Whether noise alone is an unlikely explanation."""
        return self.p_value < LEVEL

    @property
    def matters(self) -> bool:
        """Whether it is clear, and an optimum at a plausible distance explains it better: then steps allow for it."""
        return self.p_value < ACT and self.variance > 0.0

    def describe(self, name: str) -> str:
        """One sentence for the fit's output.

        >>> Disagreement(120.0, 1e-6, 2.0).describe("clinic")
        "'clinic' disagrees with the public rows by more than noise explains (p = 1e-06)"
        """
        if self.p_value == 1.0:
            return f"too little is known to tell whether {name!r} agrees with the public rows"
        if not self.found:
            return f"{name!r}: no clear disagreement with the public rows (p = {self.p_value:.2g})"
        if self.p_value >= ACT:
            return f"{name!r} may disagree with the public rows (p = {self.p_value:.1g}), not clearly enough to act on"
        used = "" if self.matters else ", in a way that another optimum would not explain: no allowance is made for it"
        return f"{name!r} disagrees with the public rows by more than noise explains (p = {self.p_value:.1g}){used}"


UNMEASURED = Disagreement(0.0, 1.0, 0.0)
"""Where the source has too few rows to tell, or the anchor says nothing to agree with."""


def describe_disagreements(found: Mapping[str, Disagreement]) -> list[str]:
    """One sentence for each source, and one for all that agree; of many, one for all of them: some are by chance.

    >>> describe_disagreements({name: Disagreement(9.0, p, 0.0) for name, p in {"a": 0.5, "b": 0.2}.items()})
    ["'a', 'b': no clear disagreement with the public rows (p = 0.2 or more)"]
    >>> describe_disagreements({f"clinic {k}": Disagreement(9.0, 0.05 * k, 0.0) for k in range(20)})
    ["1 of 20 private sources disagrees with the public rows by more than noise explains (p < 0.001, 0.02 by chan...
    """
    if len(found) <= FEW:
        agree = {name: one for name, one in found.items() if not one.found and one.p_value < 1.0}
        least = min((one.p_value for one in agree.values()), default=1.0)
        both = f"{name_few(list(agree))}: no clear disagreement with the public rows (p = {least:.2g} or more)"
        apart = [one.describe(name) for name, one in found.items() if name not in agree]
        return [*apart, both] if len(agree) > 1 else [one.describe(name) for name, one in found.items()]
    names = [name for name, one in found.items() if one.p_value < ACT]
    told = f"{len(names)} of {len(found)} private sources {'disagrees' if len(names) == 1 else 'disagree'}"
    chance = f"(p < {ACT:g}, {ACT * len(found):.2g} by chance)"
    return [
        f"{told} with the public rows by more than noise explains {chance}{f': {name_few(names)}' if names else ''}"
    ]


def measure_shift(
    gradient: Array,
    clock: float | Array,
    curvature: Array,
    variance: Array,
    largest: float,
    freedom: Array | None = None,
) -> Disagreement:
    """Test whether a mean gradient at the start fits the anchor, and estimate t².

    Parameters
    ----------
    gradient : array of shape (d,)
        ḡ, the L2 term included.
    clock : float or array of shape (d,)
        Its precision 1/s².
    curvature, variance : arrays of shape (d,)
        h and v.
    largest : float
        m, the largest variance of one direction that is plausible (`limit_shift`).
    freedom : array of shape (d,) or None
        Rows that v rests on in each direction (`Coordinates`); None for v as known. Each ḡ_j²/(s² + h_j²v_j) is then F
        with so many degrees of freedom (Satterthwaite), and taken at the chi-squared value of the same probability.

    Examples
    --------
    >>> g, ones = np.full(400, 3.0), np.ones(400)
    >>> round(measure_shift(g, 1.0, ones, ones, largest=100.0).variance, 1)  # 3² = 1 + 1·(1 + t²) at the likeliest
    6.4
    """
    squares, expected, d = gradient**2, 1.0 / clock + curvature**2 * variance, len(gradient)
    together = 1e9
    if freedom is not None:
        known = np.maximum(curvature**2 * variance, 1e-9 * expected)  # by the rows; 0 where all of it is noise
        degrees = np.maximum(freedom, 1.0) * (expected / known) ** 2
        squares = chdtri(1.0, np.maximum(fdtrc(1.0, np.minimum(degrees, 1e9), squares / expected), 1e-300)) * expected
        usual = float(np.median(degrees))
        together = max(usual - d + 1.0, usual / 2.0)  # a rare column has few rows, but not few in all
    statistic = float((squares / expected).sum())

    def loss(shift: Any) -> Any:
        """-2·log likelihood of t², up to a constant."""
        total = expected + curvature * np.minimum(shift, curvature * largest)
        return (np.log(total) + squares / total).sum(axis=-1)

    grid = np.append(0.0, np.geomspace(1e-6, 1.0, GRID) * largest * curvature.max())
    losses = loss(grid[:, None])
    allowed = losses.min() + DROP
    first = int(np.argmax(losses <= allowed))
    lower = 0.0 if first == 0 else float(brentq(lambda shift: loss(shift) - allowed, grid[first - 1], grid[first]))
    return Disagreement(statistic, float(fdtrc(d, min(together, 1e9), statistic / d)), lower)


def measure_square(coordinates: Coordinates) -> float:
    """E‖w*‖²/d, the anchor's uncertainty included."""
    u = coordinates.start
    return float((u @ u + coordinates.variance.sum()) / len(u))


def limit_shift(coordinates: Coordinates) -> float:
    """4·E‖w*‖²/d: another optimum as long as the anchor's is at most twice that length away."""
    return 4.0 * measure_square(coordinates)


def allow_shift(coordinates: Coordinates, gradient: Array, disagreement: Disagreement) -> Coordinates:
    """Coordinates for a source that disagrees: a multiple of the start u₀, and v + min(t²/h, E‖w*‖²/d) for v.

    1 - ḡᵀu₀/u₀ᵀHu₀, from 0 to 1, is the multiple that the source's own gradient ḡ asks for. Another optimum as long as
    the anchor's is no further than its length from the best multiple of u₀, 0 being one of them. A larger t² is found
    where the source curves more than the public rows: ḡ is longer then at the same distance.
    """
    u = coordinates.start
    bend = float(u @ multiply(coordinates.hessian, u))
    factor = float(np.clip(1.0 - gradient @ u / bend, 0.0, 1.0)) if bend > 0.0 else 1.0
    added = np.minimum(disagreement.variance / coordinates.curvature, measure_square(coordinates))
    wider, doubted = add_diagonal(coordinates.covariance, added), coordinates.unlimited
    unlimited = None if doubted is None else add_diagonal(doubted, added)
    return replace(coordinates, start=factor * u, covariance=wider, unlimited=unlimited)


def doubt_curvature(coordinates: Coordinates, clock: float) -> Coordinates:
    """Coordinates with steps for a curvature between h and α, where public rows do not know how the source curves.

    Their distribution is another, or they are too few. α is the least curvature there is, and h what is known
    elsewhere; the truth may be either, or h^{1-q}α^q between them. Steps for too high a curvature are too short, those
    for too low a one are noisy. Those are taken whose regret is the smallest: the expected excess over that of steps
    made for the true curvature, where that difference is largest.

    Parameters
    ----------
    coordinates : Coordinates
    clock : float
        Clock τ that the source's rows bring.
    """
    h, v = coordinates.curvature, coordinates.variance
    least = coordinates.ridge.max() * (coordinates.transform**2).reshape(len(h), -1).sum(axis=1)
    possible = [h ** (1.0 - q) * np.minimum(h, least) ** q for q in BETWEEN]
    excesses = np.array(
        [[true @ theorem_d_mismatch(v, steps, clock, v, true) for true in possible] for steps in possible]
    )
    regrets = (excesses - excesses.min(axis=0)).max(axis=1)
    return replace(coordinates, curvature=possible[int(regrets.argmin())])


def react(coordinates: Coordinates, gradient: Array, clock: float, step: bool) -> tuple[Coordinates, Disagreement]:
    """Measure, then allow for the shift; or, if the source agrees and `step` is true, use the measurement as one step.

    Parameters
    ----------
    coordinates : Coordinates
        Of rows as they are (`find_plain_coordinates`): a shape learned from other rows could clip the rows of a source
        that disagrees out of recognition.
    gradient : array of shape (d,)
        Mean of the clipped gradients. What clipping takes from them is known from the public rows, at the start, where
        they are measured: it is not a disagreement.
    clock : float
        Precision of the releases' mean.
    step : bool
        Whether the curvature is known well enough for one long step: `Anchor.takes_long_step`.
    """
    if not coordinates.start.any():
        return coordinates, UNMEASURED
    gradient = gradient - coordinates.clip_shift
    precision = 1.0 / (1.0 / clock + coordinates.clip_variance)
    found = measure_shift(
        gradient,
        precision,
        coordinates.curvature,
        coordinates.doubted,
        limit_shift(coordinates),
        coordinates.freedom,
    )
    if found.matters:
        return allow_shift(coordinates, gradient, found), found
    return (absorb(coordinates, gradient, precision) if step else coordinates), found

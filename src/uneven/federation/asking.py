"""Ask the sites without privacy for the anchor: one alone, or all of them for sums and the largest for the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uneven import checks
from uneven.anchor import (
    TOLERANCE,
    Curvature,
    Point,
    doubt_start,
    join_sandwich,
    limit_covariance,
    limit_excess,
    limit_steps,
    run_newton,
    search_strength,
    use_one_thread,
    weigh_source,
)
from uneven.federation.calls import Ask, reading
from uneven.federation.jobs import Job
from uneven.federation.messages import matrix_to_text
from uneven.federation.policy import Refused
from uneven.federation.sums import read_sums
from uneven.noise import Exact, FlippedLabels, Noise
from uneven.problem import Problem
from uneven.training import find_carried_share, free_intercept, group_pieces, weigh_penalty

Array = NDArray[np.float64]


class SiteFailed(Exception):  # noqa: N818 (it says what happened)
    """A site is left out of the anchor: its name, and why."""


@dataclass(frozen=True)
class SitesObjective:
    """f of the rows of several sites, asked for each time.

    Attributes
    ----------
    ask : Ask
    request : mapping
        What every request has.
    problem : Problem
    noises : mapping of str to Noise
    rows : mapping of str to int
    ridge : array of shape (d,)
        L2 strength of each weight.
    """

    ask: Ask
    request: Mapping[str, Any]
    problem: Problem
    noises: Mapping[str, Noise]
    rows: Mapping[str, int]
    ridge: Array

    @property
    def shares(self) -> dict[str, float]:
        """What a row of each site counts beside the mean of all."""
        worth = {name: weigh_source(noise, self.problem) for name, noise in self.noises.items()}
        mean = sum(worth[name] * self.rows[name] for name in worth) / sum(self.rows.values())
        return {name: one / mean for name, one in worth.items()}

    def at(self, w: Array, curvature: Curvature = "none") -> Point:
        """Ask every site for its sums at w."""
        found = self._gather({"weights": w.tolist(), "reach": None, "curvature": curvature != "none"})
        share = {name: one * self.rows[name] / sum(self.rows.values()) for name, one in self.shares.items()}
        value = sum(share[name] * one["value"] for name, one in found.items()) + float(self.ridge @ w**2) / 2.0
        gradient = sum((share[name] * one["gradient"] for name, one in found.items()), self.ridge * w)
        hessian = None
        if curvature != "none":
            hessian = sum((share[name] * one["hessian"] for name, one in found.items()), np.diag(self.ridge))
        scale = max(abs(value), TOLERANCE * self.problem.loss_function.value_at_zero)
        return Point(w, value, gradient, hessian, scale)

    def left_out(self, w: Array) -> tuple[float, Array, Array, Array]:
        """Leave-one-out loss at w, and S, fourth powers and H there, of all rows."""
        hessian, count = self.at(w, "full").hessian, sum(self.rows.values())
        assert hessian is not None
        reach = np.linalg.inv(hessian) / count
        found = self._gather({"weights": w.tolist(), "reach": matrix_to_text(reach), "curvature": True})
        share = {name: self.rows[name] / count for name in found}
        loss = sum(share[name] * one["value"] for name, one in found.items())
        keys = ("squares", "fourths", "hessian")
        S, fourths, H = (np.sum([share[name] * one[key] for name, one in found.items()], axis=0) for key in keys)
        return loss, S, fourths, H

    def _gather(self, asked: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        return {name: self._ask(name, {**asked, "share": share}) for name, share in self.shares.items()}

    def _ask(self, name: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        request = {**self.request, **asked, "problem": self.problem.to_dict(), "noise": self.noises[name].to_dict()}
        try:
            reply = self.ask(name, request)
            with reading(name):
                return read_sums(reply, len(self.ridge), asked["reach"] is not None, bool(asked["curvature"]))
        except (Refused, OSError) as reason:
            raise SiteFailed(name, str(reason)) from None


def refuse_noises(noises: Mapping[str, Noise]) -> None:
    """Refuse sites whose rows have no leave-one-out estimate."""
    for name, noise in noises.items():
        if not isinstance(noise, Exact | FlippedLabels):
            raise ValueError(
                f"noise of {name!r} must be exact or flipped labels to be an anchor beside others, got {noise.kind!r}"
            )


def learn_together(
    objective: SitesObjective, factors: Sequence[float], chosen: float | None
) -> tuple[Array, Array, float]:
    """Start of the rows of all sites together, its covariance and what part of its excess is likely: `fit_anchor`'s.

    Parameters
    ----------
    objective : SitesObjective
        Its ridge is set here.
    factors : array of shape (d,)
        Factors of alpha, one a weight.
    chosen : float or None
        L2 strength that was chosen for these rows alone; None if alpha was stated.
    """
    flipped = any(noise.known_rate > 0 for noise in objective.noises.values())
    own = np.maximum(factors, 1.0 if flipped else 0.0)
    alpha, count = objective.problem.alpha, sum(objective.rows.values())

    def look(strength: float, start: Array | None) -> tuple[Array, float, tuple[float, Array, Array, Array]]:
        f = replace(objective, ridge=strength * own)
        weights = run_newton(f, np.zeros(len(own)) if start is None else start).point.weights
        found = f.left_out(weights)
        return weights, found[0], found

    with use_one_thread():
        strength, weights, (loss, S, fourths, H), size = search_strength(alpha, own, chosen, look)
        hessian, nothing = H + np.diag(alpha * own), float(objective.problem.loss_function.value_at_zero)
        covariance, likely = join_sandwich(S, fourths, H, count, weights, strength * own, alpha * own, size)
        covariance = told = limit_covariance(covariance, size, own)
        if loss >= nothing:
            weights, covariance = np.zeros_like(weights), doubt_start(weights, covariance)
        return weights, *limit_excess(covariance, hessian, nothing, told, likely)


def ask_anchor(job: Job, ask: Ask, lead: str, public: Sequence[str]) -> dict[str, Any]:
    """What the sites without privacy say, as the site `lead` puts it."""
    common = {key: value for key, value in job.common().items() if key != "private"}
    settings, sources = job.settings, [source.to_dict() for source in job.sources]
    request = {"kind": "anchor", **common, "sources": sources, "settings": asdict(settings), "start": None}
    ask.tell(lead, "asked to learn its rows", 0, 0)
    if len(public) == 1:
        return ask(lead, request)
    refuse_noises({name: job.noises[name] for name in public})
    alpha = None
    if isinstance(settings.alpha, str):
        with reading(lead):
            alpha = checks.positive("alpha", ask(lead, request)["alpha"], 1e-18, 1e18)
        settings = replace(settings, alpha=alpha)
    problem = replace(job.problem, clip=None)
    rows = {source.name: source.rows for source in job.sources}
    chosen = None
    if alpha is not None:
        problem = replace(problem, alpha=job.scale.alpha(alpha))
        chosen = problem.alpha / find_carried_share(group_pieces(rows, job.noises), problem, public)
    factors = weigh_penalty(problem, job.scale.intercept)
    for name in public:
        ask.tell(name, "asked for sums over its rows", 0, 0)
    noises, counts = {name: job.noises[name] for name in public}, {name: rows[name] for name in public}
    objective = SitesObjective(ask, {"kind": "sums", **common}, problem, noises, counts, factors)
    weights, covariance, likely = learn_together(objective, factors.tolist(), chosen)
    unlimited = None
    if any(noise.once_a_batch for noise in job.noises.values()):
        unlimited, (covariance, likely) = matrix_to_text(covariance), limit_steps(covariance, likely)
    start = {"weights": weights.tolist(), "covariance": matrix_to_text(covariance), "unlimited": unlimited}
    start["likely"] = likely
    reply = ask(lead, {**request, "settings": asdict(settings), "start": start})
    with reading(lead):
        if not reply["anchored"]["order"]:  # no private site is used: the answer is that of the public rows alone
            alone = _solve_alone(objective, weights, job.scale.intercept)
            reply = {**reply, "summary": {**reply["summary"], "weights": alone.tolist()}}
    return reply if alpha is None else {**reply, "alpha": alpha}


def _solve_alone(objective: SitesObjective, start: Array, intercept: bool) -> Array:
    """Answer of the sites' rows by themselves, whose intercept is free, as a local fit has it."""
    factors = free_intercept(objective.problem, intercept)
    if any(noise.known_rate > 0 for noise in objective.noises.values()):
        factors = np.maximum(factors, 1.0)
    with use_one_thread():
        return run_newton(replace(objective, ridge=objective.problem.alpha * factors), start).point.weights

"""From described sources to a plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from uneven import checks
from uneven.planner import picture, text
from uneven.planner.anchored import Anchored, Verdict, read_verdicts
from uneven.planner.guarantees import (
    bound_excess,
    bound_late_average,
    complete_bound,
    evaluate_bound,
    find_caveats,
    find_conditions,
    warn_no_better,
    warn_unprotected,
)
from uneven.planner.outcomes import CLIPPED_CLASSES, mark_converged, predict_without, void_bound
from uneven.planner.prediction import KEEPS, STARTS, expect_scale, leave_out_kept, predict_excess
from uneven.planner.promises import OtherPromise, list_other_promises
from uneven.planner.segments import (
    Segment,
    Sizes,
    compute_exchange_rates,
    compute_step_sizes,
    read_stated_sizes,
    segment_to_dict,
    split_into_batches,
)
from uneven.planner.sensitivity import Change, find_changes
from uneven.planner.shares import ALL
from uneven.planner.sizes import choose_sizes, list_other_sizes
from uneven.planner.source import Source, check_sources, refuse_private_rms
from uneven.planner.strategies import ANCHORED, STRATEGIES, THEOREM_D, Draft, Strategy, Theorem, get_strategy
from uneven.problem import Problem
from uneven.schedules import Rate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMAT = 1
"""Version of `Plan.to_dict`."""


@dataclass(frozen=True)
class Plan:
    """In which order to use the sources, how far to step on each, and what that guarantees. Made by `uneven.plan`.

    Attributes
    ----------
    problem : Problem
        What is minimised.
    sources : tuple of Source
        As given.
    strategy : str
        How order and steps were chosen.
    moments : str
        Moments used: "upper", "lower" or "variance".
    segments : tuple of Segment
        Stretches of the run, in order of use.
    bound : float
        Bound on E‖w - w*‖² of the last iterate, by `theorem` (of the average, for Theorem B). For step sizes c/t the
        leading term, as in the paper, or the recursion step by step if that is larger.
    excess_bound : float or None
        What the bound says about E f(w) - f*; None for a loss with a kink.
    guarantee : Theorem
        What the bound rests on.
    worths : tuple of (str, float)
        Worth of one row of each source, in rows of the cleanest; `exchange` has them as a dict.
    caveats : tuple of str
        What a reader of the bound should know.
    converged : tuple of str
        Sources without privacy that a fit learned to convergence before any step.
    anchored : Anchored or None
        What the strategy "anchored" decided from the rows of those.
    void : str
        Why there is no bound, where rows were used more than once or the like; the bound is then infinite.
    kept, tellers : int
        One row in so many takes no step but learns the length of the weights; one of those tells its class. 0: none.
    judged : tuple of (str, Verdict)
        Verdicts on sources whose labels alone are private: they are learned with the rows without privacy.
    """

    problem: Problem
    sources: tuple[Source, ...]
    strategy: str
    moments: str
    segments: tuple[Segment, ...]
    bound: float
    excess_bound: float | None
    guarantee: Theorem
    worths: tuple[tuple[str, float], ...]
    caveats: tuple[str, ...]
    converged: tuple[str, ...] = ()
    anchored: Anchored | None = None
    void: str = ""
    kept: int = 0
    tellers: int = 0
    judged: tuple[tuple[str, Verdict], ...] = ()

    @property
    def theorem(self) -> str:
        """Name of the theorem that the bound rests on."""
        return self.guarantee.name

    @property
    def average(self) -> str:
        """Which iterate is the answer of a run: "last", "late" or "steps"."""
        return get_strategy(self.strategy).average

    @property
    def order(self) -> list[str]:
        """Names of the sources used, in order of use."""
        stepped = [name for segment in self.segments for name in segment.sources]
        return [*(name for name in self.converged if name not in stepped), *stepped]

    @property
    def verdicts(self) -> dict[str, Verdict]:
        """What each private source is expected to add, with and without it, and whether that is worth its ε."""
        return dict((*self.judged, *(() if self.anchored is None else self.anchored.verdicts)))

    @property
    def batch_sizes(self) -> dict[str, int]:
        """Rows per step of each source used."""
        return {name: segment.batch_size for segment in self.segments for name in segment.sources}

    @property
    def predicted_excess(self) -> float | None:
        """E f(w) - f*, predicted for a typical objective (`prediction`); None if there is no prediction."""
        return self.anchored.excess if self.anchored else predict_excess(self.problem, self.segments, self.kept)

    @property
    def expected_scale(self) -> float:
        """Expected best scaling factor for the final weights; 1 leaves them unchanged."""
        return 1.0 if self.anchored is not None else expect_scale(self.problem, self.segments)

    def predict_without(self) -> dict[str, tuple[float, float]]:
        """Predicted excess with all sources, and without each, by numbers of rows and noise; empty of public rows."""
        return predict_without(self, make_plan)

    def other_sizes(self) -> dict[str, dict[int, float]]:
        """For each source with a batch size of its own: predicted excess, else bound, at this and other sizes."""
        if self.anchored is not None or not self.problem.own_batches:
            return {}
        return list_other_sizes(*self._list_inputs())

    def other_promises(self) -> dict[str, OtherPromise]:
        """For each private source in use: the other promise of privacy at the same ε, and what it would bring."""
        return dict(self.anchored.other_promises) if self.anchored else list_other_promises(*self._list_inputs())

    def _list_inputs(self) -> tuple[Any, ...]:
        return self.sources, self.problem, get_strategy(self.strategy), self.moments, self.batch_sizes, self.kept

    @property
    def rates(self) -> dict[str, float] | None:
        """Learning rate c of each source used, for step sizes c/t; None for other schedules."""
        found = [(one.sources, one.schedule.rate) for one in self.segments if isinstance(one.schedule, Rate)]
        return {name: rate for names, rate in found for name in names} or None

    @property
    def exchange(self) -> dict[str, float]:
        """Worth of one row of each source, in rows of the cleanest."""
        return dict(self.worths)

    @property
    def steps(self) -> int:
        """Number of steps T."""
        return sum(segment.steps for segment in self.segments)

    @property
    def shuffled(self) -> bool:
        """Whether several sources are shuffled together rather than used one after the other."""
        return get_strategy(self.strategy).shuffles and len(self.sources) > 1

    def step_moments(self) -> NDArray[np.float64]:
        """γ_t² of every step, shape (T,)."""
        return np.concatenate([np.empty(0), *(segment.moments() for segment in self.segments)])

    def step_sizes(self) -> NDArray[np.float64]:
        """η_t of every step, shape (T,)."""
        return np.concatenate([np.empty(0), *compute_step_sizes(self.segments)])

    @property
    def answer_bound(self) -> float | None:
        """Bound on E‖w - w*‖² of what a fit returns: of the late average where that is the answer; None for none."""
        if self.void or (self.converged and self.anchored is None):
            return None
        if self.average != "late" or self.anchored is not None:
            return self.bound
        private = any(source.noise.protects_features for source in self.sources)
        return bound_late_average(self.problem, self.segments, self.bound, private)

    def evaluated_bound(self) -> float | None:
        """Bound on E‖w - w*‖² with the recursion behind the theorem evaluated step by step.

        Exact for this number of steps, short batches included, with none of the closed form's slack: the figure to
        compare strategies by. It starts from ‖w₁ - w*‖ ≤ R; with variances, from the diameter 2R at the first step
        from which no step is longer than 2/(L + λ). None for an average of iterates, which has no recursion.
        """
        none = self.guarantee.iterate == "average" or self.anchored is not None or self.void
        return None if none else evaluate_bound(self.problem, self.segments, self.moments)

    def sensitivity(self) -> list[Change]:
        """What would change if a stated ε, flip rate or variance were off.

        Each level is tried at half and at twice its value, or at the ends of its `interval` where one is stated; all
        others stay. `regret` says what it costs to weigh rows as stated although the level is another.

        Returns
        -------
        list of Change
            Two for each level: order, exchange rates and excess of the right plan there, made anew, and the regret. For
            an anchored plan they are interpolated at its batch sizes, since its rows are not looked at again.

        Examples
        --------
        >>> import uneven
        >>> expert, crowd = uneven.Source("expert", 900), uneven.Source("crowd", 9000, uneven.FlippedLabels(0.2))
        >>> low, high = uneven.plan([expert, crowd], n_features=5).sensitivity()
        >>> low.actual, high.actual, round(low.exchange["crowd"], 2), round(high.exchange["crowd"], 2)
        (0.1, 0.4, 0.64, 0.04)
        >>> low.order == high.order == ["crowd", "expert"]
        True
        """
        return find_changes(self, make_plan)

    def alternatives(self) -> dict[str, Plan]:
        """Plan of every strategy for the same sources and problem, this one among them.

        Each has its usual moments, or those that this plan was asked for where its guarantee holds with them.
        """
        usual = get_strategy(self.strategy).usual_moments(self.problem)
        plans = {}
        for name, strategy in STRATEGIES.items():
            keep = self.moments != usual and (self.moments != "variance" or strategy.accepts_variance)
            moments = self.moments if keep else "auto"
            plans[name] = self if name == self.strategy else make_plan(self.sources, self.problem, name, moments)
        return plans if self.anchored is None else {self.strategy: self, **plans}

    def summary(self) -> str:
        """Plan in words and a table, for a terminal."""
        return text.summarize(self, self.alternatives())

    def __str__(self) -> str:
        return self.summary()

    def plot(self) -> Figure:
        """Two charts: step sizes over time, coloured by source; and every strategy's bound side by side."""
        return picture.draw_plan(self, self.alternatives())

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain values that JSON can hold; `from_dict` reads them back."""
        return {
            "format": FORMAT,
            "problem": self.problem.to_dict(),
            "sources": [source.to_dict() for source in self.sources],
            "strategy": self.strategy,
            "moments": self.moments,
            "segments": [segment_to_dict(segment) for segment in self.segments],
            "order": self.order,
            "rates": self.rates,
            "bound": None if self.void else self.bound,
            "excess_bound": self.excess_bound,
            "theorem": self.theorem,
            "exchange": self.exchange,
            "caveats": list(self.caveats),
            **({"void": self.void} if self.void else {}),
            **{name: value for name in ("kept", "tellers") if (value := getattr(self, name))},
            **({"judged": {name: one.to_dict() for name, one in self.judged}} if self.judged else {}),
            **({"converged": list(self.converged)} if self.converged else {}),
            **({} if self.anchored is None else {"anchored": self.anchored.to_dict()}),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Plan:
        """Plan that `to_dict` described: planned again from its inputs, and refused if anything differs."""
        if not isinstance(values, Mapping) or values.get("format") != FORMAT:
            found = values.get("format") if isinstance(values, Mapping) else values
            raise ValueError(f"format of a plan must be {FORMAT}, got {checks.shown(found)}")
        checks.needed_keys("a plan", values, ("problem", "sources", "strategy", "moments"))
        problem = Problem.from_dict(values["problem"])
        if not isinstance(values["sources"], list | tuple):
            raise ValueError(f"sources of a plan must be a list, got {checks.shown(values['sources'])}")
        sources = [Source.from_dict(source) for source in values["sources"]]
        if values["strategy"] == ANCHORED.name:
            again = make_anchored_plan(sources, problem, Anchored.from_dict(values.get("anchored")))
        else:
            sizes = read_stated_sizes(values.get("segments"), problem)
            kept, tellers = (checks.whole(key, values.get(key, 0), least=0) for key in ("kept", "tellers"))
            again = make_plan(sources, problem, values["strategy"], values["moments"], sizes, kept, tellers)
            if values.get("converged"):
                again = mark_converged(again)
            if values.get("void"):
                again = void_bound(again, checks.text("void", values["void"]))
        again = replace(again, judged=read_verdicts("judged of a plan", values.get("judged", {})))
        expected = again.to_dict()
        checks.only_keys("a plan", values, tuple(expected))
        checks.needed_keys("a plan", values, tuple(expected))
        figures = [key for key in expected if key != "caveats"]  # words, which another version may choose otherwise
        if different := [key for key in figures if not checks.almost_equal(values[key], expected[key])]:
            got = checks.shown(values[different[0]])
            raise ValueError(f"{different[0]} of a plan must follow from its sources and problem, got {got}")
        return again


def make_plan(
    sources: Iterable[Source],
    problem: Problem,
    strategy: str = "precision",
    moments: str = "auto",
    sizes: Sizes | None = None,
    kept: int = 0,
    tellers: int = 0,
) -> Plan:
    """Plan a run on these sources for a problem; `uneven.plan` with keywords is the same.

    Parameters
    ----------
    sources, problem, strategy, moments
        As in `uneven.plan`.
    sizes : dict of str to int, or None
        Batch sizes of sources that have one of their own; None chooses them, where the problem asks for that.
    kept, tellers : int
        One row in so many takes no step, and one of those in so many tells its class (`Plan`).

    Returns
    -------
    Plan

    Examples
    --------
    >>> make_plan([Source("clinic", 6000)], Problem(n_features=25, alpha=1e-3, batch_size=50)).steps
    120
    """
    checks.one_of("strategy", strategy, STRATEGIES)
    described, chosen = check_sources(sources), get_strategy(strategy)
    refuse_private_rms(described, problem)
    which = chosen.resolve_moments(moments, problem)
    stepped = leave_out_kept(described, kept)
    own = choose_sizes(stepped, problem, chosen, which) if sizes is None else sizes
    draft = chosen.drafter(which)(problem, split_into_batches(stepped, problem, which, own))
    made = finish_plan(described, problem, chosen, which, draft, own)
    if kept:
        return replace(void_bound(made, STARTS if tellers == ALL else KEEPS), kept=kept, tellers=tellers)
    clipped = problem.outputs > 1 and problem.gradient_norm < problem.loss_function.lipschitz
    return void_bound(made, CLIPPED_CLASSES) if clipped else made


def finish_plan(
    sources: Sequence[Source], problem: Problem, strategy: Strategy, moments: str, draft: Draft, sizes: Sizes | None
) -> Plan:
    """Plan that a draft becomes, with its bounds completed and its caveats."""
    batches = split_into_batches(sources, problem, moments, sizes)
    draft = complete_bound(problem, draft, moments)
    return Plan(
        problem=problem,
        sources=tuple(sources),
        strategy=strategy.name,
        moments=moments,
        segments=draft.segments,
        bound=float(draft.bound),
        excess_bound=bound_excess(problem, draft),
        guarantee=draft.theorem,
        worths=tuple(compute_exchange_rates(batches).items()),
        caveats=(
            *warn_unprotected(sources),
            *find_caveats(problem, strategy, batches, draft, moments),
            *warn_no_better(sources, problem, draft.segments),
            *find_conditions(sources, problem, moments),
        ),
    )


def make_anchored_plan(sources: Iterable[Source], problem: Problem, decided: Anchored) -> Plan:
    """Plan of the strategy "anchored", from what was decided by looking at public rows.

    Its bound and excess bound are expectations of Theorem D, which is exact for a quadratic objective.
    """
    described = check_sources(sources)
    return Plan(
        problem=problem,
        sources=described,
        strategy=ANCHORED.name,
        moments="variance",
        segments=decided.segments(described, problem),
        bound=decided.distance,
        excess_bound=decided.excess,
        guarantee=THEOREM_D,
        worths=decided.worths,
        caveats=(*warn_unprotected(described), *decided.caveats),
        converged=decided.converged,
        anchored=decided,
    )

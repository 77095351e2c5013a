"""The two trust models side by side: from whom a row is protected, and the result expected of each at the same ε."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from uneven import checks
from uneven.noise import NOISES, swap_promise
from uneven.planner.prediction import leave_out_kept
from uneven.planner.segments import Sizes
from uneven.planner.sizes import choose_sizes, draft_with, measure
from uneven.planner.source import Source
from uneven.planner.strategies import Strategy
from uneven.problem import Problem

SINGLE = 2
"""Sources up to which each has a sentence of its own."""

CLEAR = 0.9
"""Part of the excess (or bound) now that the other promise must reach to be told of."""


@dataclass(frozen=True)
class OtherPromise:
    """What the other promise at the same ε would bring, for one source.

    Attributes
    ----------
    kind : {"local-privacy", "site-privacy"}
        The other promise.
    batch_size : int
        Rows per step of the source under it.
    now, then : float
        Predicted excess with the promise as it is and with the other, all else the same; a bound where there is no
        prediction.
    """

    kind: str
    batch_size: int
    now: float
    then: float

    @classmethod
    def from_dict(cls, values: Any) -> OtherPromise:
        """What its `vars` were."""
        values = checks.table("a promise", values, tuple(cls.__dataclass_fields__))
        kind = checks.one_of("kind of a promise", values["kind"], NOISES)
        figures = (checks.not_negative(f"{key} of a promise", values[key]) for key in ("now", "then"))
        return cls(kind, checks.whole("batch_size of a promise", values["batch_size"]), *figures)


def list_other_promises(
    sources: Sequence[Source], problem: Problem, strategy: Strategy, moments: str, sizes: Sizes, kept: int = 0
) -> dict[str, OtherPromise]:
    """For each private source in use (in `sizes`): the other promise at the same ε, and what it would bring.

    One row in `kept` takes no step under either.
    """
    found, free, sources = {}, replace(problem, own_batches=True), leave_out_kept(sources, kept)
    now = measure(problem, draft_with(sources, problem, strategy, moments, sizes), kept)
    for source in sources:
        if source.name in sizes and (noise := swap_promise(source.noise)) is not None:
            swapped = [replace(one, noise=noise) if one is source else one for one in sources]
            others = {name: size for name, size in sizes.items() if name != source.name}
            own = choose_sizes(swapped, free, strategy, moments, others)
            then = measure(problem, draft_with(swapped, problem, strategy, moments, own), kept)
            found[source.name] = OtherPromise(
                noise.protection.kind, own.get(source.name, problem.batch_size), now, then
            )
    return found


def list_promises(sources: Sequence[Source], others: Mapping[str, OtherPromise]) -> dict[str, dict[str, Any]]:
    """For each private source in use, as plain values: from whom its rows are protected, and the other promise."""
    noises = {source.name: source.noise for source in sources}
    return {
        name: {"kind": noises[name].protection.kind, "promise": noises[name].promise, "other": vars(other)}
        for name, other in others.items()
    }


def describe_promises(sources: Sequence[Source], others: Mapping[str, OtherPromise], predicted: bool) -> list[str]:
    """One sentence for each promise that was made, and one on sources where the other is clearly better."""
    lines = list(dict.fromkeys(source.noise.promise for source in sources if source.noise.promise is not None))
    what = "predicted excess" if predicted else "bound"
    told = {name: one for name, one in others.items() if one.then <= CLEAR * one.now}
    if len(told) > SINGLE:
        name, one = min(told.items(), key=lambda pair: pair[1].then)
        kind = one.kind.replace("-", " ").capitalize()
        helped = f"{what} {one.then:.2g} instead of {one.now:.2g}"
        return [*lines, f"{kind} would help most at {name!r}: {helped}, at the same ε and alpha."]
    for name, other in told.items():
        named, then, now = other.kind.replace("-", " "), f"{other.then:.2g}", f"{other.now:.2g}"
        rows = f"{other.batch_size:,} rows per step"
        lines.append(
            f"With {named} for {name!r} instead, at the same ε and alpha and with {rows}, the {what} would be {then} "
            f"instead of {now}."
        )
    return lines

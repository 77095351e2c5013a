"""The strategy "anchored": public sources first, to convergence; then what private ones are expected to add."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from uneven import checks
from uneven.planner.promises import OtherPromise
from uneven.planner.segments import Segment, split_into_batches
from uneven.planner.source import Source
from uneven.problem import Problem
from uneven.schedules import MatrixClock
from uneven.words import FEW, name_few

Interval = tuple[float, float, float]
LEFT_OUT = "no"
VERDICTS = ("worth it", "little", LEFT_OUT)
EACH = 3
"""Verdicts up to which each has a sentence of its own."""

LEAST_GAIN = 0.005
"""Gain in accuracy below which a source that is worth it is said to help the probabilities alone."""

LATER = ("sizes", "other_promises")
"""Fields that plans from before them do not have."""

GAINED = "That is for {} probabilities: accuracy gains less than half a percentage point. "


@dataclass(frozen=True)
class Verdict:
    """What one private source is expected to add, together with those that bring no more; known before ε is spent.

    Many small sources may be worth it together where each alone is not: so they are judged, and left out, together.

    Attributes
    ----------
    excess, excess_without : float
        Expected f(w) - f(w*) with all sources that are used, or with all where this one is not; and without this one
        and all that bring no more.
    accuracy, accuracy_without : (float, float, float)
        Expected share of rows classified correctly, and the ends of its 95% interval.
    word : {"worth it", "little", "no"}
        "no" where they are left out.
    others : int
        How many others bring no more than this one.
    """

    excess: float
    excess_without: float
    accuracy: Interval
    accuracy_without: Interval
    word: str
    others: int = 0

    @property
    def use(self) -> bool:
        """Whether the source is to be used."""
        return self.word != LEFT_OUT

    @property
    def gains_probabilities(self) -> bool:
        """Whether it is worth it for the predicted probabilities alone: accuracy gains less than half a point."""
        return self.word == VERDICTS[0] and self.accuracy[0] - self.accuracy_without[0] < LEAST_GAIN

    def describe(self, name: str, others: int | None = None) -> str:
        """The verdict in words; `others` is how many of the others are used.

        >>> Verdict(0.002, 0.011, (0.95, 0.93, 0.97), (0.94, 0.92, 0.96), "worth it").describe("clinic")
        "'clinic': worth it. Expected excess objective 0.002 with it, 0.011 without; accuracy 95.0% (93.0% to 97.0%)...
        """
        count = self.others if others is None else others
        if not count:
            return f"{name!r}: {self._tell('it')}"
        rest = "one smaller source" if count == 1 else f"{count:,} smaller sources"
        return f"{name!r} and {rest} together: {self._tell('them')}"

    def _tell(self, what: str) -> str:
        value, low, high = (f"{100 * share:.1f}%" for share in self.accuracy)
        gained = GAINED.format("its" if what == "it" else "their") if self.gains_probabilities else ""
        return (
            f"{self.word}. {gained}Expected excess objective {self.excess:.2g} with {what}, "
            f"{self.excess_without:.2g} without; accuracy {value} ({low} to {high}) with {what}, "
            f"{100 * self.accuracy_without[0]:.1f}% without."
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values that `from_dict` reads: without `others` where there are none, as plans were before it."""
        return {key: value for key, value in asdict(self).items() if key != "others" or value}

    @classmethod
    def from_dict(cls, values: Any) -> Verdict:
        """Verdict of plain values."""
        keys = tuple(cls.__dataclass_fields__)
        values = checks.table("a verdict", values, keys, [key for key in keys if key != "others"])
        shares = {
            key: tuple(checks.within(f"{key} of a verdict", one, 0.0, 1.0 + 1e-9) for one in values[key])
            for key in ("accuracy", "accuracy_without")
        }
        excess = {key: checks.not_negative(f"{key} of a verdict", values[key]) for key in ("excess", "excess_without")}
        others = checks.whole("others of a verdict", values.get("others", 0), least=0)
        word = checks.one_of("word of a verdict", values["word"], VERDICTS)
        return cls(**excess, **shares, word=word, others=others)  # type: ignore[arg-type]


def read_verdicts(what: str, values: Any) -> tuple[tuple[str, Verdict], ...]:
    """Verdicts by name, of plain values."""
    if not isinstance(values, Mapping):
        raise ValueError(f"{what} must be a mapping, got {checks.shown(values)}")
    return tuple((name, Verdict.from_dict(one)) for name, one in values.items())


def describe_verdicts(verdicts: Mapping[str, Verdict]) -> list[str]:
    """One sentence for each, together with the smaller ones that are used too; of many, one for all that are used.

    Of some, all verdicts stand in one line before it.

    >>> some = [Verdict(0.1, 0.2, (0.9, 0.8, 1.0), (0.8, 0.7, 0.9), word, k) for k, word in enumerate(VERDICTS)]
    >>> describe_verdicts(dict(zip("abcd", [*some, some[0]])))[0]
    "Worth it: 'a', 'd'. Little: 'b'. No: 'c'."
    >>> one = Verdict(0.002, 0.011, (0.95, 0.93, 0.97), (0.94, 0.92, 0.96), "worth it", others=19)
    >>> [told] = describe_verdicts({f"clinic {k}": one for k in range(20)})
    >>> told[:76]
    '20 private sources together: worth it. Expected excess objective 0.002 with '
    """
    used = {name: one for name, one in verdicts.items() if one.use}
    if len(verdicts) > FEW and len(used) != 1:
        return [_tell_together(used or verdicts)]
    if len(verdicts) > EACH and len(used) != 1:
        return [_list_verdicts(verdicts), _tell_together(used or verdicts)]
    shown = used if len(verdicts) > FEW else verdicts
    return [one.describe(name, _count_smaller(one, used if name in used else verdicts)) for name, one in shown.items()]


def _tell_together(verdicts: Mapping[str, Verdict]) -> str:
    """What is expected of all of these, by the verdict on the one that is judged with all others."""
    together = max(verdicts.values(), key=lambda verdict: verdict.others)
    return f"{len(verdicts)} private sources together: {together._tell('them')}"


def _list_verdicts(verdicts: Mapping[str, Verdict]) -> str:
    """Sources by their verdict, in one line."""
    groups = {word: [name for name, one in verdicts.items() if one.word == word] for word in VERDICTS}
    return " ".join(f"{word.capitalize()}: {name_few(names)}." for word, names in groups.items() if names)


def _count_smaller(verdict: Verdict, among: Mapping[str, Verdict]) -> int:
    """How many others of these were judged together with it."""
    return sum(other.others <= verdict.others for other in among.values()) - 1


def _tell_left_out(names: Sequence[str]) -> list[str]:
    """Sentence on sources that are left out, if there are any.

    >>> _tell_left_out(["a", "b"])
    ["'a', 'b' are left out and not charged: together they are not expected to help."]
    """
    if len(names) == 1:
        return [f"{names[0]!r} is left out and not charged: it is not expected to help."]
    told = f"{name_few(names)} are left out and not charged: together they are not expected to help."
    return [told] if names else []


@dataclass(frozen=True)
class Anchored:
    """What was decided from the public rows, as plain numbers.

    Attributes
    ----------
    converged : tuple of str
        Sources without privacy, learned to convergence.
    order : tuple of str
        Private sources used after them.
    clock : MatrixClock
        Step sizes of the private stage, in coordinates that the public rows chose.
    excess_start, excess : float
        Expected f(w) - f(w*) of the public rows alone, and with the private sources.
    distance : float
        Expected ‖w - w*‖².
    worths : tuple of (str, float)
        What one row of each source adds, in rows of the most valuable.
    verdicts : tuple of (str, Verdict)
        One for each private source.
    sizes : tuple of (str, int)
        Batch sizes of private sources that have one of their own.
    other_promises : tuple of (str, OtherPromise)
        What the other promise of privacy would bring, for each private source in use.
    """

    converged: tuple[str, ...]
    order: tuple[str, ...]
    clock: MatrixClock
    excess_start: float
    excess: float
    distance: float
    worths: tuple[tuple[str, float], ...]
    verdicts: tuple[tuple[str, Verdict], ...]
    sizes: tuple[tuple[str, int], ...] = ()
    other_promises: tuple[tuple[str, OtherPromise], ...] = ()

    @property
    def caveats(self) -> tuple[str, ...]:
        """What the figures are, and which sources are left out."""
        out = [name for name, _ in self.verdicts if name not in self.order]
        return (
            "Theorem D is exact for a quadratic objective; for this one the figures are estimates, not guarantees.",
            *_tell_left_out(out),
        )

    def segments(self, sources: Sequence[Source], problem: Problem) -> tuple[Segment, ...]:
        """Stretches of the private stage, in order of use."""
        by_name = {source.name: source for source in sources}
        batches = split_into_batches([by_name[name] for name in self.order], problem, "variance", dict(self.sizes))
        return tuple(Segment(**vars(one), schedule=self.clock) for one in batches)

    def to_dict(self) -> dict[str, Any]:
        """Plain values that `from_dict` reads."""
        values = {key: value for key, value in asdict(self).items() if key not in LATER}
        values["clock"] = {key: list(one) if isinstance(one, tuple) else one for key, one in values["clock"].items()}
        tables = {"worths": dict(self.worths), "verdicts": {name: one.to_dict() for name, one in self.verdicts}}
        tables |= {
            "sizes": dict(self.sizes),
            "other_promises": {name: asdict(one) for name, one in self.other_promises},
        }
        return {**values, **{key: table for key, table in tables.items() if table or key not in LATER}}

    @classmethod
    def from_dict(cls, values: Any) -> Anchored:
        """What `to_dict` described; refused if it does not fit."""
        keys = tuple(cls.__dataclass_fields__)
        values = checks.table("anchored of a plan", values, keys, [key for key in keys if key not in LATER])
        clock = values["clock"]
        pair = {key: tuple(_not_negative(key, one) for one in clock[key]) for key in ("variance", "curvature")}
        numbers = {key: checks.not_negative(key, values[key]) for key in ("excess_start", "excess", "distance")}
        return cls(
            converged=tuple(checks.text("converged", name) for name in values["converged"]),
            order=tuple(checks.text("order", name) for name in values["order"]),
            clock=MatrixClock(**pair, longest=checks.positive("longest", clock["longest"])),
            **numbers,
            worths=tuple((name, checks.not_negative("worths", one)) for name, one in values["worths"].items()),
            verdicts=read_verdicts("verdicts of a plan", values["verdicts"]),
            sizes=tuple((name, checks.whole("sizes", one)) for name, one in values.get("sizes", {}).items()),
            other_promises=tuple(
                (name, OtherPromise.from_dict(one)) for name, one in values.get("other_promises", {}).items()
            ),
        )


def _not_negative(key: str, value: Any) -> float:
    """The number, or 0 where it is less by rounding, as older files have it."""
    return 0.0 if isinstance(value, float) and -1e-9 < value < 0.0 else checks.not_negative(key, value)

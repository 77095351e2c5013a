"""What no fit can do with these sources, classes and settings; a plan or a valuation asks it before rows are read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from numpy.typing import NDArray

from uneven.io import located
from uneven.losses import get_loss
from uneven.matrices import refuse_sparse_steps
from uneven.noise import FlippedLabels, Noise
from uneven.planner import get_strategy
from uneven.schedules import refuse_late
from uneven.settings import Settings
from uneven.training import line_search
from uneven.training.labels import list_targets, read_weights, uses_softmax

EVERYONE_PRIVATE = (
    "class_weight must be None or a dict of public weights where every source is private: 'balanced' would count "
    "private labels; got 'balanced'"
)


def refuse_impossible(
    noises: Mapping[str, Noise],
    settings: Settings,
    classes: NDArray[Any],
    sparse: bool = False,
    validation: bool = False,
) -> None:
    """Refuse what no fit of all these sources can do, before anything is charged; a plan refuses it in the same words.

    Parameters
    ----------
    noises : dict of str to Noise
        Of each source, as declared.
    settings : Settings
    classes : array
        Those that the labels have.
    sparse : bool
        Whether rows are sparse.
    validation : bool
        Whether there are, or may be, rows to compare the runs of a line search on beside those of the sources.
    """
    private = [noise for noise in noises.values() if noise.private]
    protected = any(noise.protects_features for noise in private)
    refuse_sketch(settings, protected)
    sparse = sparse and not (protected and settings.sketch is not None)  # a sketch is dense
    if settings.line_search and not all(noise.protects_features for noise in private):
        raise ValueError(f"line_search must be 0 where labels are private, got {settings.line_search}")
    refuse_unanchored(noises, settings.loss)
    refuse_unfit(noises, settings, classes, sparse)
    problems = len(list_targets(classes, settings))
    seen = {name: noise.observed_among(len(classes)) for name, noise in noises.items()}
    if settings.line_search:
        line_search.refuse_line_search(seen, settings, problems, validation)
    refuse_anchored(settings, explain_no_anchor(settings, seen, problems, sparse))
    _refuse_averages(settings, shuffled=get_strategy(settings.stepping).shuffles and len(noises) > 1)
    if sparse:
        _refuse_sparse_steps(seen, settings, problems == 1 and len(classes) > 2)


def refuse_anchored(settings: Settings, why: str | None, what: str = "rows") -> None:
    """Refuse the strategy where it is asked for and there is a reason why these rows, or sites, cannot be anchored."""
    if settings.needs_anchor and why is not None:
        raise ValueError(f"strategy must be another than 'anchored' for these {what}: {why}; got 'anchored'")


def explain_no_anchor(settings: Settings, noises: Mapping[str, Noise], problems: int, sparse: bool) -> str | None:
    """In words why rows of these sources, as observed, cannot be anchored; None if they can."""
    private = [noise.private for noise in noises.values()]
    if not any(private) or all(private):
        return "it needs sources with privacy and sources without"
    return explain_no_start(settings, noises, problems, sparse)


def explain_no_start(settings: Settings, noises: Mapping[str, Noise], problems: int, sparse: bool) -> str | None:
    """In words why nothing can be expected of these rows without privacy; None if it can."""
    loss = get_loss(settings.loss)
    if not (loss.smooth and loss.curvature and loss.bounded) or problems > 1 or sparse:
        return "it needs a smooth loss such as 'logistic', one problem for all classes and dense rows"
    if not loss.probabilistic and any(one.known_rate for one in noises.values() if not one.private):
        return "it needs the logistic loss, or another with probabilities, where labels are flipped"
    if settings.steps_asked is not None:
        return f"{settings.steps_asked} asks for other steps"
    return None


def _refuse_averages(settings: Settings, shuffled: bool) -> None:
    """Refuse estimated moments and late averages where the clock's end is unknown, or sources are shuffled together."""
    if settings.estimate and shuffled:
        raise ValueError("moments must not be 'estimated' where sources are shuffled together; got 'estimated'")
    refuse_late(settings.average, is_end_known=not (settings.estimate or shuffled))


def _refuse_sparse_steps(noises: Mapping[str, Noise], settings: Settings, joint: bool) -> None:
    """Refuse sparse rows where steps would fill or shuffle them; `joint` says that one problem has several classes."""
    if settings.left_open and settings.steps_asked is None:
        return
    if get_strategy(settings.stepping).shuffles and len(noises) > 1:
        raise ValueError(f"rows must be dense to be shuffled together, as strategy {settings.strategy!r} does")
    refuse_sparse_steps(joint, {name: noise for name, noise in noises.items() if noise.protection.fixed_energy})


def refuse_unfit(noises: Mapping[str, Noise], settings: Settings, classes: NDArray[Any], sparse: bool = False) -> None:
    """Refuse what cannot be done with rows of these sources, whatever others there are."""
    _refuse_one_by_one(noises, settings, len(classes))
    _refuse_classes(noises, settings, classes)
    if sparse and any(noise.protects_features for noise in noises.values()):
        raise ValueError("rows must be dense where a source is private, since noise fills every column; or give sketch")


def find_cost(noise: Noise, times: int) -> float:
    """ε that a row released so often costs: private labels are randomised once, however often they are used."""
    return (times if noise.protects_features else 1) * (noise.epsilon_per_row or 0.0)


def refuse_costs(costs: Iterable[tuple[str, float]], budget: float | None) -> None:
    """Refuse a budget below what a row of some source would spend; `costs` have each source's name and that ε."""
    for name, cost in costs:
        if budget is not None and cost > budget * (1 + 1e-9):
            raise ValueError(f"budget must be at least {cost:g}, what a row of {name!r} would spend, got {budget!r}")


def refuse_sketch(settings: Settings, private: bool) -> None:
    """Refuse a width where no features are private."""
    if isinstance(settings.sketch, int) and not private:
        raise ValueError(f"sketch must be None or 'auto' where no source's features are private, got {settings.sketch}")


def find_unknown(noises: Mapping[str, Noise]) -> list[str]:
    """Sources whose flip rate is to be estimated."""
    return [name for name, noise in noises.items() if isinstance(noise, FlippedLabels) and noise.unknown]


def find_anchors(noises: Mapping[str, Noise]) -> dict[str, Noise]:
    """Sources that anchor such an estimate."""
    missing = find_unknown(noises)
    return {name: one for name, one in noises.items() if name not in missing and not one.private}


def refuse_unanchored(noises: Mapping[str, Noise], loss: str) -> None:
    """Refuse where nothing tells flipped labels from a flipped model."""
    missing = find_unknown(noises)
    if missing and not find_anchors(noises):
        raise ValueError(
            f"noise must have a source with a known flip rate and without privacy, to anchor the estimate of "
            f"{missing[0]!r}; got {', '.join(map(repr, noises))}"
        )
    if missing and not get_loss(loss).probabilistic:
        raise ValueError(f"loss must be 'logistic' to estimate flip rates: they need probabilities; got {loss!r}")


def _refuse_one_by_one(noises: Mapping[str, Noise], settings: Settings, classes: int) -> None:
    """Refuse private rows and confusion matrices where classes are learned one by one, and rates for other classes."""
    one_by_one = classes > 2 and not uses_softmax(settings, classes)
    if one_by_one and any(noise.private for noise in noises.values()):
        got = f"loss {settings.loss!r}" if settings.multi_class == "softmax" else repr(settings.multi_class)
        raise ValueError(
            "multi_class must be 'softmax', with the logistic loss, for more than two classes where a source is "
            f"private: one-vs-rest would release every row once per class; got {got}"
        )
    if classes > 2 and find_unknown(noises):
        raise ValueError(f"labels must be of two classes to estimate flip rates, got {classes}")
    for name, one in noises.items():
        labels = getattr(one, "labels", one)
        if isinstance(labels, FlippedLabels) and not labels.unknown:
            with located(f"source {name!r}"):
                labels.refuse_classes(classes)
                if one_by_one:
                    labels.against_rest(classes)


def _refuse_classes(noises: Mapping[str, Noise], settings: Settings, classes: NDArray[Any]) -> None:
    """Refuse class weights and a threshold that these classes and sources cannot have."""
    read_weights(settings, classes)
    if settings.class_weight == "balanced" and all(noise.protects_features for noise in noises.values()):
        raise ValueError(EVERYONE_PRIVATE)
    if settings.threshold is not None and len(classes) != 2:
        raise ValueError(
            f"threshold must be None for more than two classes, got {settings.threshold} and {len(classes)}"
        )


def uses_solver(settings: Settings, noises: Iterable[Noise]) -> bool:
    """Whether rows without privacy of these noises are given to the solver, for alpha or for the weights."""
    asks = isinstance(settings.alpha, str) or settings.steps_asked is None
    return settings.public_first and asks and not lacks_surrogate(settings, noises)


def lacks_surrogate(settings: Settings, noises: Iterable[Noise]) -> bool:
    """Whether labels are flipped and the loss has no convex surrogate for them, which the solver needs."""
    return get_loss(settings.loss).odd_slope is None and any(noise.known_rate > 0 for noise in noises)

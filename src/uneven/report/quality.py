"""How well a model does where that may be looked at: beside others, its probabilities, the classes it confuses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from uneven.report import charts, markup
from uneven.report.axes import Axis
from uneven.report.charts import Series
from uneven.words import shorten

if TYPE_CHECKING:
    from uneven.training import Bin, Measure, Scores


def show_measures(found: Sequence[Measure]) -> str:
    """Accuracy, AUC and objective on rows that may be looked at."""
    if not found:
        text = (
            "Not measured: on private rows that would be another release. 'uneven fit --test FILE' measures on others."
        )
        return markup.make_section("How well it does", markup.make_paragraph(text))
    cells = [
        (one.which, f"{one.rows:,}", f"{one.accuracy:.1%}", *("" if x is None else f"{x:.4f}" for x in pair))
        for one in found
        for pair in [(one.auc, one.objective)]
    ]
    header = ["on", "rows", "accuracy", "AUC", "objective"]
    figures = markup.make_table("Accuracy, AUC and objective", header, cells, {1, 2, 3, 4}, stacked=True)
    return markup.make_section("How well it does", figures, *map(_compare, found))


def show_details(found: Sequence[Measure], classes: Sequence[Any]) -> str:
    """Calibration and confusion on rows that the model has not seen; empty without any."""
    return "".join(_calibration(one, classes) + _confusion(one, classes) for one in select_unseen(found))


def select_unseen(found: Sequence[Measure]) -> list[Measure]:
    """Measures on rows that the model was not learned from."""
    return [one for one in found if not one.learned_from]


def find_gap(bins: Sequence[Bin]) -> float:
    """Mean distance between predicted and observed shares, over rows: the expected calibration error."""
    return sum(one.rows * abs(one.predicted - one.observed.value) for one in bins) / sum(one.rows for one in bins)


def _calibration(measure: Measure, classes: Sequence[Any]) -> str:
    bins = measure.compared.bins
    if not bins:
        return ""
    what = f"class {shorten(str(classes[1]), 24)!r}" if len(classes) == 2 else "the predicted class"
    told = (
        f"Rows in ten bins by the predicted probability of {what}. On the diagonal, predictions match what happened. "
        f"Mean distance from it: {100 * find_gap(bins):.1f} percentage points."
    )
    series = [
        Series("this model", [one.predicted for one in bins], [one.observed.value for one in bins]),
        Series("as predicted", [0.0, 1.0], [0.0, 1.0], 7),
    ]
    x, y = Axis("predicted probability", 0.0, 1.0), Axis("observed share", 0.0, 1.0)
    cells = [
        (f"{one.predicted:.3f}", f"{one.rows:,}", f"{one.observed.value:.3f}", f"{low:.3f} to {high:.3f}")
        for one in bins
        for _, low, high in [one.observed]
    ]
    header = ["mean predicted probability", "rows", "observed share", "95% interval"]
    return markup.make_section(
        "Are its probabilities right?",
        charts.draw_lines("Observed shares by predicted probability", told, series, x, y),
        markup.make_table(f"Calibration on {measure.which}", header, cells, {1, 2, 3}),
    )


def _confusion(measure: Measure, classes: Sequence[Any]) -> str:
    names = [shorten(str(one), 24) for one in classes]
    cells = [
        (name, *(f"{count:,}" for count in counts), f"{counts[k] / sum(counts):.1%}" if sum(counts) else "no rows")
        for k, (name, counts) in enumerate(zip(names, measure.compared.confusion, strict=True))
    ]
    header = ["true class", *(f"predicted {name}" for name in names), "classified correctly"]
    numbers = set(range(1, len(header)))
    return markup.make_section(
        "Which classes does it confuse?", markup.make_table(f"Confusion on {measure.which}", header, cells, numbers)
    )


def record_measures(found: Sequence[Measure], classes: Sequence[Any]) -> dict[str, list[dict[str, Any]]]:
    """Everything shown here as records, by the name of the table."""
    if not found:
        return {}
    tables = {"measures": [_record_scores(one, scores) for one in found for scores in _list_scores(one)]}
    for one in select_unseen(found):
        bins = [
            {"which": one.which, "rows": b.rows, "predicted": b.predicted, **b.observed._asdict()}
            for b in one.compared.bins
        ]
        tables.setdefault("calibration", []).extend(bins)
        counts = [
            {"which": one.which, "true": str(true), "predicted": str(told), "rows": count}
            for true, row in zip(classes, one.compared.confusion, strict=True)
            for told, count in zip(classes, row, strict=True)
        ]
        tables.setdefault("confusion", []).extend(counts)
    return {name: records for name, records in tables.items() if records}


def _list_scores(measure: Measure) -> list[Scores]:
    return [measure.compared.scores, *measure.compared.others]


def _record_scores(measure: Measure, scores: Scores) -> dict[str, Any]:
    """A classifier on some rows: each score with the ends of its interval, and the model's objective."""
    own = scores is measure.compared.scores
    record: dict[str, Any] = {"which": measure.which, "rows": measure.rows, "classifier": scores.name}
    for what in ("accuracy", "auc", "log_loss"):
        ends = getattr(scores, what) or (None, None, None)
        record |= dict(zip((what, f"{what}_low", f"{what}_high"), ends, strict=True))
    return {**record, "objective": measure.objective if own else None}


def _compare(measure: Measure) -> str:
    """The model beside what else could have been done, on the same rows."""
    cells = [
        (
            one.name,
            charts.describe_interval(one.accuracy),
            *("" if score is None else f"{score.value:.3f} ({score.low:.3f} to {score.high:.3f})" for score in shown),
        )
        for one in _list_scores(measure)
        for shown in [(one.auc, one.log_loss)]
    ]
    header = ["classifier", "accuracy", "AUC", "log-loss"]
    table = markup.make_table(f"On {measure.which}, with 95% intervals", header, cells, {1, 2, 3}, {0}, stacked=True)
    return table + (markup.make_bullets(measure.compared.words) if measure.compared.words else "")

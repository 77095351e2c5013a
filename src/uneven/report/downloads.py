"""The numbers of a report as files inside the page: CSV and JSON, without a script."""

from __future__ import annotations

import csv
import io
import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from uneven import __version__
from uneven.planner import Plan, choose_shown_changes, tabulate_changes
from uneven.report import markup, words
from uneven.report.tiles import Cost
from uneven.report.worth import SMALLER, list_excesses

if TYPE_CHECKING:
    from uneven.engine import Path as Recorded

Array = NDArray[np.float64]

Records = Sequence[Mapping[str, Any]]


def describe_sources(plan: Plan, cost: Cost) -> list[dict[str, Any]]:
    """One record for each source: what it is, how it is used, what it is worth and what it costs."""
    shares, order = words.share_information(plan), plan.order
    pairs, records = list_excesses(plan), []
    for source in plan.sources:
        name, verdict, pair = source.name, plan.verdicts.get(source.name), pairs.get(source.name)
        records.append(
            {
                "source": name,
                "rows": source.rows,
                "noise": source.noise.describe(),
                "position": order.index(name) + 1 if name in order else None,
                "worth_of_a_row": plan.exchange[name],
                "share_of_information": shares[name][1] if name in shares else None,
                "epsilon_before": cost.before.get(name, 0.0) if name in cost.after else None,
                "epsilon_after": cost.after.get(name),
                "epsilon_left": cost.left(name) if name in cost.after else None,
                "verdict": None if verdict is None else verdict.word,
                "excess": None if pair is None else pair[0],
                "excess_without": None if pair is None else pair[1],
                "without": None if pair is None else SMALLER if verdict is not None and verdict.others else "it",
                **{
                    f"{key}{end}": None if verdict is None else getattr(verdict, key)[k]
                    for key in ("accuracy", "accuracy_without")
                    for k, end in enumerate(("", "_low", "_high"))
                },
            }
        )
    return records


def describe_strategies(plan: Plan) -> list[dict[str, Any]]:
    """One record for each strategy: its order and its bounds."""
    return [
        {
            "strategy": name,
            "this_plan": name == plan.strategy,
            "order": " ".join(map(json.dumps, other.order)),
            "bound": other.bound,
            "evaluated_bound": other.evaluated_bound(),
        }
        for name, other in plan.alternatives().items()
    ]


def describe_path(recorded: Recorded, values: Array, what: str) -> list[dict[str, Any]]:
    """One record for each point of a path: its step, the source in use and the value that is shown."""
    points = zip(recorded.source, recorded.step.tolist(), values.tolist(), strict=True)
    return [{"source": name, "step": step, what.replace(" ", "_"): value} for name, step, value in points]


def describe_levels(plan: Plan) -> list[dict[str, Any]]:
    """One record for each level of noise that might be off, where a report shows them: columns are named as there."""
    header, *rows = tabulate_changes(plan)
    changes = choose_shown_changes(plan) if rows else []
    exact = [(", ".join(one.order), one.exchange[one.source], one.excess, one.regret - 1.0) for one in changes]
    return [dict(zip(header, (*row[:4], *figures), strict=True)) for row, figures in zip(rows, exact, strict=True)]


def make_downloads(plan: Plan | None, tables: Mapping[str, Records], command: str) -> str:
    """Links to each table as CSV, and to everything as JSON."""
    planned = {} if plan is None else {"plan": plan.to_dict()}
    whole = {"uneven": __version__, "command": command, **tables, **planned}
    links = [_link(f"{name}.csv", "text/csv", _write_csv(records)) for name, records in tables.items() if records]
    links.append(_link("report.json", "application/json", _write_json(whole)))
    return markup.make_section("The numbers", f"<p>To download: {', '.join(links)}.</p>")


def _write_csv(records: Records) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(records[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()


def _write_json(values: Any) -> str:
    """JSON without infinity and NaN, which JSON does not have."""
    finite = json.loads(json.dumps(values), parse_constant=lambda _: None)
    return json.dumps(finite, indent=1, ensure_ascii=False)


def _link(name: str, kind: str, text: str) -> str:
    data = b64encode(text.encode()).decode()
    return f'<a download="{markup.escape_text(name)}" href="data:{kind};base64,{data}">{markup.escape_text(name)}</a>'

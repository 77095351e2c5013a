"""The privacy statement of a run: one page, filled in from what was done."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from uneven import __version__
from uneven.ledger import Ledger
from uneven.noise import Noise
from uneven.planner import describe_promises
from uneven.report.words import describe_odds
from uneven.training import name_trusted
from uneven.words import read_clock

if TYPE_CHECKING:
    from uneven.training import FileFit

SIMULATION = (
    "**This was a simulation.** The noise came from a seed, so it can be repeated and taken away: the run protects "
    "nobody, and every ε below is in truth infinite."
)

PROMISE = (
    "**What ε promises.** Take any private row, and replace it by any other. The probability of anything that this run "
    "released changes by a factor of at most e^ε. So whoever sees the model, and knows all other rows, can change the "
    "odds of any guess about the row by at most that factor. It is a promise for each row: "
    "somebody with five rows has five times the ε. For labels-only protection read "
    "*label* for *row*: the features are not protected."
)

OPEN = (
    "**What is public**: the names and number of rows of the sources, each row's ε, the classes, the columns and their "
    "stated ranges, every setting, and this statement. **What is not covered**: several rows of one person, anything "
    "computed from private rows outside this run (ranges, imputation, choice of columns, scores), the time that the "
    "run took, and the memory and files of the machine that held the rows."
)


class Spending(NamedTuple):
    """A source of a fit, and the most ε that one of the rows in it had spent before the run and has after it."""

    name: str
    rows: int
    noise: Noise
    before: float
    after: float


def list_spending(trained: FileFit) -> list[Spending]:
    """What a fit spent, source by source."""
    groups, noises = trained.trained.groups, {s.name: s.noise for s in trained.plan.sources}
    spent = trained.trained.spending
    return [
        Spending(name, count, noises.get(name, groups.noises[name]), *spent.get(name, (0.0, 0.0)))
        for name, count in groups.row_counts.items()
    ]


def find_strictest_budget(budget: float | None, ledger: Ledger | None) -> float | None:
    """The smaller of a run's budget and its ledger's; None without one."""
    both = (budget, None if ledger is None else ledger.stored_budget)
    return min((one for one in both if one is not None), default=None)


def write_statement(trained: FileFit, model: Path, ledger: Ledger | None, budget: float | None = None) -> str:
    """Statement of a fit, as Markdown.

    Parameters
    ----------
    trained : FileFit
    model : Path
        File that the model was written to.
    ledger : Ledger or None
    budget : float or None
        The most that a row was allowed to have spent, besides the ledger's.

    Returns
    -------
    str
    """
    table = ["| source | rows | protection | mechanism | ε before | ε after |", "|---|---|---|---|---|---|"]
    spending = list_spending(trained)
    for one in spending:
        epsilons = (f"{one.before:g}", f"{one.after:g}") if one.noise.private else ("", "")
        cells = (
            _escape(one.name),
            f"{one.rows:,}",
            _protection(one.noise),
            one.noise.protection.describe_release(),
            *epsilons,
        )
        table.append(f"| {' | '.join(cells)} |")
    used = ", ".join(map(_escape, trained.plan.order))
    unused = [_escape(one.name) for one in spending if one.name not in trained.plan.order]
    sources = [source for source in trained.plan.sources if source.name in trained.plan.order]
    promised = [*describe_promises(sources, {}, True), *name_trusted(trained.plan)]
    lines = [
        "# Privacy statement",
        f"Written by uneven {__version__} on {read_clock():%Y-%m-%d %H:%M} UTC, from the run itself.",
        *([SIMULATION] if trained.simulated else []),
        "\n".join(table),
        f"Learned from: {used}." + (f" Left out, and not charged: {', '.join(unused)}." if unused else ""),
        f"ε is that of the row of this run that has spent the most, {_recorded(ledger, budget)}.",
        f"The model is {_escape(model.name)}, SHA-256 {hashlib.sha256(model.read_bytes()).hexdigest()}.",
        PROMISE,
        *_tell_odds(spending),
        *([f"**From whom.** {_escape(' '.join(promised))}"] if promised else []),
        OPEN,
        "**To verify**: `uneven audit` measures the mechanisms; the digest says whether a ledger is the one charged.",
    ]
    return "\n\n".join(lines) + "\n"


def _tell_odds(spending: Sequence[Spending]) -> list[str]:
    """What the ε of this run means, in odds."""
    private = [one for one in spending if one.noise.private]
    outside = all(one.noise.once_a_batch for one in private)
    return [describe_odds([one.after for one in private], outside)] if private else []


def _escape(text: str) -> str:
    r"""Text that cannot end a cell of a table, or be taken for markup.

    >>> print(_escape("clinic | 7"))
    clinic \| 7
    """
    return re.sub(r"([\\`*\[\]<>|])", r"\\\1", " ".join(text.split()))


def _recorded(ledger: Ledger | None, budget: float | None) -> str:
    budget = find_strictest_budget(budget, ledger)
    limit = "no budget was set" if budget is None else f"the budget was {budget:g}"
    if ledger is None:
        return f"counted for this run alone: no ledger was charged; {limit}"
    place = "in memory" if ledger.path is None else _escape(ledger.path.name)
    digest = f"Digest of the ledger after the run: {ledger.digest()}"
    return f"by the ledger {place}, charged before any row was used; {limit}. {digest}"


def _protection(noise: Noise) -> str:
    if not noise.private:
        return "none"
    if not noise.protects_features:
        return "label only: FEATURES NOT PROTECTED"
    return "features and label, outside the site" if noise.once_a_batch else "features and label"

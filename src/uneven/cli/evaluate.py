"""``uneven evaluate``: how well a model does on rows kept aside, private ones too."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from uneven.cli import terminal

if TYPE_CHECKING:
    from uneven.columns import Encoder
    from uneven.evaluation import Estimate, Evaluation
    from uneven.io import Table


def command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model that 'uneven fit' wrote.")],
    rows: Annotated[
        Path | None, typer.Argument(metavar="ROWS", help="A file of labelled rows that the model was not learned from.")
    ] = None,
    epsilon: Annotated[float | None, typer.Option(help="What each private row is charged for its one answer.")] = None,
    public: Annotated[bool, typer.Option("--public", help="The rows are not private: measure exactly.")] = False,
    label: Annotated[
        str | None, typer.Option(help="Column of the labels; if not given, the one column that is not a feature.")
    ] = None,
    ledger: Annotated[
        Path | None, typer.Option(help="Ledger that the rows are charged to before they answer; created if missing.")
    ] = None,
    budget: Annotated[
        float | None, typer.Option(help="Limit on the total epsilon of each row, earlier runs included.")
    ] = None,
    source: Annotated[str, typer.Option(help="Name that the ledger has for these rows.")] = "evaluation",
    id_column: Annotated[str | None, typer.Option("--id", help="Column by which the ledger knows the rows.")] = None,
    auc: Annotated[bool, typer.Option("--auc", help="Use every second row to estimate AUC.")] = False,
    confidence: Annotated[float, typer.Option(help="Confidence level of each interval.")] = 0.95,
    seed: Annotated[
        int | None, typer.Option(help="For simulations: answers that can be repeated protect nobody.")
    ] = None,
    kit: Annotated[
        Path | None, typer.Option(help="Instead of ROWS: the server's kit, to ask sites about rows they keep aside.")
    ] = None,
    job: Annotated[str, typer.Option(help="With --kit: name of the job, for the sites' policies.")] = "uneven",
    patience: Annotated[float, typer.Option(help="With --kit: seconds to wait for a site that is away.")] = 60.0,
    json: terminal.Json = False,
) -> None:
    """Estimate accuracy and AUC on rows kept aside. A score on private rows is a release, so it costs epsilon.

    Each private row answers once: one bit, correct or not, flipped with probability 1/(1 + e^epsilon). With --auc every
    second row tells its label and whether its score is above a public threshold instead, one of four answers.

    [bold]Example:[/] uneven evaluate model.json kept.csv --epsilon 1 --ledger ledger.db
    """
    if (rows is None) == (kit is None):
        raise ValueError(f"ROWS must be given, or --kit to ask sites; got {'neither' if rows is None else 'both'}")
    if (epsilon is None) != public:
        raise ValueError(
            "--epsilon must be given for private rows, or --public for rows that are not; got "
            + ("neither" if epsilon is None else "both")
        )
    terminal.refuse_numbers(seed, patience)
    if kit is not None:
        _ask_sites(model, kit, epsilon, job, patience, confidence, json)
        return
    assert rows is not None
    terminal.refuse_output("--ledger", ledger)
    terminal.refuse_overwriting({"--ledger": ledger}, {"the model": model, "the file of rows": rows})
    asked = {"epsilon": epsilon, "budget": budget, "source": source, "auc": auc, "confidence": confidence, "seed": seed}
    found = _evaluate_file(model, rows, label, id_column, ledger, asked)
    if json:
        terminal.print_json({**found.to_dict(), "ledger": ledger})
    else:
        terminal.say(_words(found, ledger))


def _evaluate_file(
    model: Path, rows: Path, label: str | None, id_column: str | None, ledger: Path | None, asked: dict[str, Any]
) -> Evaluation:
    """Evaluation on the rows of a file; `asked` has the arguments of `uneven.evaluate` as typed."""
    from uneven.columns import attach_cells
    from uneven.estimator import UnevenClassifier
    from uneven.evaluation import evaluate
    from uneven.redaction import redacted
    from uneven.training import load_model, open_rows

    fitted = load_model(model)
    accounts = None if asked["epsilon"] is None else terminal.open_ledger(ledger, asked["budget"])
    with redacted(fitted.settings.redact):
        table, features = open_rows(fitted, rows)
        X, y, said = _read(table, features, label, id_column, fitted.encoder)
        ids = None if id_column is None else said[id_column]
        if accounts is not None and ids is None:
            known = X if fitted.encoder is None else attach_cells(X, {name: said[name] for name in features})
            ids = accounts.fingerprint(known, fitted.feature_names)
        classifier = UnevenClassifier.from_model(replace(fitted, feature_names=None))  # X is an array
        return evaluate(classifier, X, y, ledger=accounts, row_id=ids, **asked)


def _ask_sites(
    model: Path, kit: Path, epsilon: float | None, job: str, patience: float, confidence: float, json: bool
) -> None:
    """Accuracy over the sites of a federation."""
    from dataclasses import asdict

    from uneven.federation import Ask, Kit, evaluate_sites, open_server
    from uneven.training import load_model

    if epsilon is None:
        raise ValueError("--epsilon must be given with --kit: sites answer by randomised bits; got --public")
    fitted = load_model(model)
    if fitted.plan is None:
        raise ValueError(f"{model} must have the plan it was learned by, whose sources are the sites; got none")
    names = [source.name for source in fitted.plan.sources]
    with open_server(Kit(kit)) as call:
        found = evaluate_sites(fitted, Ask(call, patience), names, epsilon, job, confidence)
    if json:
        terminal.print_json(asdict(found))
        return
    terminal.say(f"Accuracy {_interval(found.accuracy, confidence)}.")
    for site, one in found.sites.items():
        terminal.say(f"  {site!r}: {_interval(one, confidence)}")
    for site, reason in found.left_out.items():
        terminal.say(f"Left out: {site!r}: {reason}.")
    spent = f"ε = {epsilon:g} for each row kept aside, charged at the sites"
    terminal.say(f"Privacy spent: {spent}. One bit is released per row.")


def _read(
    table: Table, features: tuple[str, ...], label: str | None, id_column: str | None, encoder: Encoder | None
) -> tuple[Any, Any, dict[str, Any]]:
    """Rows and labels of a table, and columns as they are written."""
    import numpy as np

    left = [name for name in table.columns if name not in features and name != id_column]
    if label is None and len(left) == 1:
        label = left[0]
    if label is None:
        found = f"{terminal.join_quoted(left)} beside the features" if left else "no column beside the features"
        ids = "; --id names a column of ids" if id_column is None and len(left) > 1 else ""
        raise ValueError(f"--label must name the column of labels; {table.path} has {found}{ids}")
    columns = [] if id_column is None else [id_column]
    parts = list(table.read(label, features, columns, encoder=encoder))
    X, y = (np.concatenate([part[k] for part in parts]) for k in (0, 1))
    return X, y, {name: np.concatenate([said[name] for _, _, said in parts]) for name in parts[0][2]}


def _words(found: Evaluation, ledger: Path | None) -> list[str]:
    lines = [f"Accuracy {_interval(found.accuracy, found.confidence)}."]
    if found.auc is not None:
        lines.append(f"AUC {_interval(found.auc, found.confidence)}.")
    if found.epsilon is None:
        return [*lines, "The rows are public: measured exactly, and nothing was charged."]
    kept = f"charged in {ledger} before they answered" if ledger else "and no ledger keeps account of it"
    lines.append(f"Privacy spent: ε = {found.epsilon:g} for each row, {kept}. One randomised answer of each row.")
    if found.simulated:
        lines.append("A simulation: with a seed the answers can be undone, so they protect nobody.")
    return lines


def _interval(one: Estimate, confidence: float) -> str:
    """Estimate and interval in words; an unbiased estimate of few rows can lie outside [0, 1], where no share is."""
    value = min(max(one.value, 0.0), 1.0)
    return f"{value:.4f}, {100 * confidence:g}% interval {one.low:.4f} to {one.high:.4f} ({one.rows:,} rows)"

"""``uneven fit``: a model from a sources.toml."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from uneven.checks import join_words
from uneven.cli import saving, terminal

if TYPE_CHECKING:
    from uneven.io import SourcesFile
    from uneven.ledger import Ledger
    from uneven.training import FileFit, Measure, Scores

PATH_POINTS = 80


def command(
    sources: terminal.SourcesPath,
    output: Annotated[Path, typer.Option("--output", "-o", help="File for the model.")] = Path("model.json"),
    report: Annotated[Path | None, typer.Option(help="File for an HTML report.")] = None,
    strategy: terminal.Strategy = None,
    test: Annotated[Path | None, typer.Option(help="Rows without privacy to measure on; never learned from.")] = None,
    validation: Annotated[
        Path | None, typer.Option(help="Rows without privacy to compare the runs of a line search on.")
    ] = None,
    ledger: Annotated[
        Path | None,
        typer.Option(help="Ledger that private rows are charged to before use; the first charge creates it."),
    ] = None,
    budget: Annotated[
        float | None, typer.Option(help="Limit on the total epsilon of each row, earlier runs included.")
    ] = None,
    statement: Annotated[
        Path | None, typer.Option(help="Write a privacy statement of the run, one page of Markdown, into this.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="For simulations: noise that can be repeated protects nobody.")
    ] = None,
    json: terminal.Json = False,
) -> None:
    """Learn a classifier from the files of a sources.toml, whatever their size.

    Files are read once to check them, and large ones again to learn: once where rows are private, and until the model
    has converged where they are not. Private rows are charged in between. The sources.toml can have every setting of
    the classifier but its seed, and columns for a row's id, epsilon and flip rate.
    Noise of kind "label-privacy" protects labels only: features of such rows are used as they are.

    Two kinds of privacy, at the same epsilon: "local-privacy" protects a row from everyone except the machine that
    reads it; "site-privacy" protects it from everyone outside its site. Here this machine reads all rows.

    [bold]Example:[/] uneven fit sources.toml -o model.json --report report.html
    """
    from uneven import checks
    from uneven.io import read_sources

    terminal.refuse_output("--output", output, terminal.MODEL)
    terminal.refuse_output("--report", report, terminal.PAGE)
    terminal.refuse_output("--statement", statement, terminal.STATEMENT)
    terminal.refuse_output("--ledger", ledger)
    file = read_sources(sources)
    terminal.refuse_overwriting(
        {"--ledger": ledger, "--output": output, "--report": report, "--statement": statement},
        {**terminal.list_files(file), "the test file": test, "the validation file": validation},
    )
    file = terminal.use_strategy(file, strategy)
    if budget is not None:
        checks.positive("--budget", budget)
    terminal.announce(f"Learning from {terminal.join_quoted(entry.name for entry in file.sources)}")
    written = {"model": output, "report": report, "ledger": ledger, "statement": statement}
    trained = _fit(file, written, budget, seed, (test, validation))
    _warn(trained)
    if json:
        terminal.print_json({**_facts(trained), **written})
    else:
        terminal.say(_words(trained, written))


def _fit(
    file: SourcesFile,
    written: Mapping[str, Path | None],
    budget: float | None,
    seed: int | None,
    aside: tuple[Path | None, Path | None],
) -> FileFit:
    """Learn, and write the model, the report and the statement; `aside` are the files to test on and to validate by."""
    from uneven.io import open_table
    from uneven.training import train_files

    output, report, statement = (written[key] for key in ("model", "report", "statement"))
    assert output is not None
    tables = (None if path is None else open_table(path, n_features=file.n_features) for path in aside)
    test, validation = tables
    limit = file.settings.budget if budget is None else budget
    accounts = terminal.open_ledger(written["ledger"], limit)
    with saving.open_files(output, file.n_features, report, statement) as outputs:  # before anything is charged
        trained = train_files(
            file,
            seed=seed,
            ledger=accounts,
            budget=budget,
            test=test,
            validation=validation,
            record=0 if report is None else PATH_POINTS,
            bar=terminal.show_bar,
        )
        saving.write_model(outputs[output], trained.model)
        if report is not None:
            made = partial(_make_report, trained, file, accounts, limit)
            saving.write_report(outputs[report], trained.model, output, made)
        if statement is not None:
            state = _make_statement(trained, output, accounts, limit)
            saving.write_report(outputs[statement], trained.model, output, lambda: state)
    return trained


def _make_report(trained: FileFit, file: SourcesFile, ledger: Ledger | None, budget: float | None) -> str:
    from uneven.report import find_strictest_budget, fit_report

    text = file.path.read_text(encoding="utf-8-sig")
    typed = terminal.read_command_line(hide_seed=trained.model.simulated)
    book = "" if ledger is None or ledger.path is None else ledger.path.name
    return fit_report(trained, shlex.join(typed), text, find_strictest_budget(budget, ledger), book)


def _make_statement(trained: FileFit, model: Path, ledger: Ledger | None, budget: float | None) -> str:
    from uneven.report import write_statement

    return write_statement(trained, model, ledger, budget)


def _warn(trained: FileFit) -> None:
    """Say once how many rows of which sources were shrunk."""
    from uneven.checks import join_words

    rows, found = trained.trained.groups.row_counts, trained.trained.too_long
    some = "some" if trained.model.settings.redact else ""
    counted = [f"{some or f'{count:,} of {rows[name]:,}'} rows of {name!r}" for name, count in found.items()]
    if counted:
        terminal.note(
            f"{join_words(counted)} are longer than row_norm = {trained.scale.row_norm:g} and were shrunk to it; "
            "row_norm in the sources file is a public bound on the rows' norm"
        )


def _facts(trained: FileFit) -> dict[str, Any]:
    from dataclasses import asdict

    from uneven.planner import list_promises

    model, plan = trained.model, trained.plan
    return {
        "classes": model.classes,
        "n_features": model.n_features,
        "row_norm": trained.scale.row_norm,
        "strategy": plan.strategy,
        "order": plan.order,
        "rows": {source.name: source.rows for source in plan.sources},
        "steps": plan.steps,
        "bound": plan.answer_bound,
        "void": plan.void,
        "alpha": model.alpha,
        "converged": list(plan.converged),
        "verdicts": {name: asdict(verdict) for name, verdict in plan.verdicts.items()},
        "notes": list(trained.trained.notes),
        "batch_sizes": plan.batch_sizes,
        "promises": list_promises(plan.sources, plan.other_promises()),
        "activity": {name: one._asdict() for name, one in trained.trained.activity.items()},
        "exchange": plan.exchange,
        "privacy_spent": model.privacy_spent,
        "simulated": trained.simulated,
        "measures": [asdict(one) for one in trained.measures],
    }


def _words(trained: FileFit, written: dict[str, Path | None]) -> list[str]:
    """The result in plain words, a line each."""
    from uneven.planner import tell_verdicts
    from uneven.report import doubt_expected, tell_protection, tell_training
    from uneven.words import format_count

    model = trained.model
    lines = [
        tell_protection(trained),
        *tell_training(trained),
        f"It predicts {_join_classes(model.classes.tolist())} from {format_count(model.n_features, 'feature')}"
        f"{' and an intercept' if trained.scale.intercept else ''}, with alpha = {model.alpha:.3g}; "
        f"{_scale(trained)}.",
        *tell_verdicts(trained.plan),
        *(f"Note: {note}" for note in trained.trained.notes),
        *trained.describe_activity(),
    ]
    lines += _privacy(trained, written["ledger"])
    tested = [one for one in trained.measures if not one.learned_from]
    lines += [line for one in tested or trained.measures for line in _measured(one, trained)]
    lines += [f"Note: {caveat}" for caveat in doubt_expected(trained.plan, trained.measures)]
    if not trained.measures:
        lines.append(
            "Accuracy is not measured: that would reveal something about private rows. --test FILE measures on rows "
            "that are not private, and 'uneven evaluate' on private ones, at a cost in epsilon."
        )
    assert written["model"] is not None
    return [*lines, *saving.tell_files(written["model"], written["report"])]


def _join_classes(classes: list[object]) -> str:
    return " or ".join(map(repr, classes)) if len(classes) == 2 else f"one of {terminal.join_quoted(classes)}"


def _scale(trained: FileFit) -> str:
    scale = trained.scale
    norm = f"{scale.row_norm:.6g}"
    if trained.model.columns is not None and scale.row_norm >= 1.0:
        return "by the description of its columns no row has a norm above 1"
    if scale.norms == "rms":
        return f"rows were scaled by their root-mean-square norm, {norm}"
    return f"rows with a norm above {norm} are shrunk to it"


def _privacy(trained: FileFit, ledger: Path | None) -> list[str]:
    from uneven.planner import describe_privacy
    from uneven.report import describe_odds

    spent = trained.model.privacy_spent
    if not spent:
        return []
    shown = {name: "∞" if epsilon == float("inf") else f"{epsilon:g}" for name, epsilon in spent.items()}
    each = join_words([f"ε = {epsilon} for each row of {name!r}" for name, epsilon in shown.items()])
    recorded = f", charged in {ledger} before the rows were used; earlier charges are included"
    lines = [f"Privacy spent: {each}{recorded if ledger else '; no ledger keeps account of it'}."]
    once = [s.noise.once_a_batch for s in trained.plan.sources if s.name in spent]
    lines += [describe_odds(spent.values(), outside=all(once))]
    lines += describe_privacy(trained.plan)
    if trained.simulated:
        lines.append("A simulation: with a seed the noise can be repeated, so this model protects nobody.")
    return lines


def _measured(measure: Measure, trained: FileFit) -> list[str]:
    """How the model does on some rows, beside what else could have been done."""
    from uneven.report import explain_learned_rows
    from uneven.words import format_count

    compared = measure.compared
    objective = "" if measure.objective is None else f"; objective {measure.objective:.4f}"
    lines = [f"On {measure.which}: {_scores(compared.scores)}{objective} ({format_count(measure.rows)})."]
    if measure.learned_from:
        which = _explain_rows_measured(measure, trained)
        lines.append(f"  These are {which}. --test FILE measures on rows that were not learned from.")
    lines += [f"  For comparison, {other.name}: {_scores(other)}." for other in compared.others]
    lines += [f"  {word}" for word in compared.words]
    return [*lines, f"  {explain_learned_rows(trained)}"] if measure.learned_from else lines


def _explain_rows_measured(measure: Measure, trained: FileFit) -> str:
    """How many of the rows learned from were measured on, and why those."""
    groups = trained.trained.groups
    rows = groups.row_counts
    total = sum(rows[name] for name in trained.plan.order)
    if measure.rows == total:
        return f"all {total:,} of them"
    whose = sum(rows[name] for name in trained.trained.sampled)
    why = "" if whose == total else "those without privacy, because a measure on the others would be a release"
    thin = "" if measure.rows == whose else f"evenly spaced among {whose:,}, which are enough"
    return f"{measure.rows:,} of {total:,}: {', '.join(filter(None, (why, thin)))}"


def _scores(scores: Scores) -> str:
    named = {"accuracy": scores.accuracy, "AUC": scores.auc, "log-loss": scores.log_loss}
    return ", ".join(
        f"{name} {one.value:.4f}" + (f" ({one.low:.4f} to {one.high:.4f})" if one.low < one.high else "")
        for name, one in named.items()
        if one is not None
    )

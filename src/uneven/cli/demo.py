"""``uneven demo``: every strategy on the sample that comes with the package."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from uneven.cli import terminal

if TYPE_CHECKING:
    from uneven.experiments import Compared, Demo, Entry
    from uneven.planner import Plan

INTRODUCTION = """\
Two sites share 50,000 rows of Covertype: does lodgepole pine grow on a patch of forest?
'station' has a tenth of the rows and allows a privacy loss of ε = 10 per row; 'survey' has the rest and allows ε = 1.
Which rows first, how far to step, what is a row of each worth?
"""

WRITTEN = ("report.html", "sources.toml", "station.parquet", "survey.parquet", "test.parquet")


def command(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the report and the rows.")] = Path(
        "uneven-demo"
    ),
    runs: Annotated[int, typer.Option(min=2, help="Runs of each strategy.")] = 10,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulation.")] = 0,
    json: terminal.Json = False,
) -> None:
    """Plan, run every strategy, compare and write a report, on data that comes with the package.

    Needs no network and no files. It is a simulation: noise from a seed protects nobody, but shows what it costs.

    [bold]Example:[/] uneven demo -o demo
    """
    from uneven.io import refuse_folder, write_text_atomically

    refuse_folder(output)
    for path in [output / name for name in WRITTEN] if output.exists() else [output]:
        terminal.refuse_output("--output", path)
    _refuse_files_of_others(output)
    if not json:
        terminal.say(INTRODUCTION.splitlines())
        sys.stdout.flush()
    terminal.announce("Planning", piped=not json)
    from uneven.experiments import run_demo, write_files  # now only: they wait for the compiler
    from uneven.report import demo_report

    planned, compared = (None, None) if json else (_print_plan, _print_strategies)
    demo = run_demo(runs, seed, terminal.show_bar, planned, compared)
    terminal.announce("Writing the report and the rows", piped=not json)
    output.mkdir(exist_ok=True)
    sources = write_files(output, seed)
    again = shlex.join(["uneven", "demo", "-o", str(output), "--runs", str(runs), "--seed", str(seed)])
    write_text_atomically(output / "report.html", demo_report(demo, again, sources.read_text(encoding="utf-8")))
    if json:
        terminal.print_json({**_collect_facts(demo), "report": output / "report.html", "sources": sources})
    else:
        _print(demo, output)


def _refuse_files_of_others(folder: Path) -> None:
    """Refuse a folder whose files the demo would replace, unless an earlier demo wrote them."""
    found = [name for name in WRITTEN if (folder / name).exists()]
    report = folder / "report.html"
    if found and not (report.exists() and b"the demo of uneven</title>" in report.read_bytes()):
        kept = terminal.join_quoted(found)
        raise ValueError(f"--output must be a new folder or that of an earlier demo, got {str(folder)!r}, with {kept}")


def _print_plan(plan: Plan) -> None:
    """What will be done, before the runs, which take a while."""
    from uneven.report import explain

    terminal.make_console().print("\nThe plan", style="bold")
    terminal.say(f"  {line}" for line in explain(plan))
    typer.echo("")
    sys.stdout.flush()
    terminal.announce("Running every strategy", piped=True)


def _print_strategies(found: Compared) -> None:
    """How the strategies that matter do, before the rest is run."""
    terminal.make_console().print(_tabulate(found))
    terminal.say(_explain(found))
    typer.echo("")
    sys.stdout.flush()
    terminal.announce("Running it with some public rows", piped=True)


def _print(demo: Demo, folder: Path) -> None:
    _print_public(demo)
    typer.echo("")
    terminal.say(f"The report is in {folder / 'report.html'}: open it in a browser. To try next:")
    for what, typed in _suggest_commands(folder):
        typer.echo(f"  # {what}\n  {typed}")


def _choose_shown(found: Compared) -> list[Entry]:
    """The default, the paper's best, and the cleanest source alone by the same mechanism as the default."""
    ours = found.entries[0]
    alone = [one for one in found.entries if one.mechanism == ours.mechanism and len(one.plan.order) == 1]
    return [ours, *alone, found.best_of_paper()]


def _tabulate(demo: Compared) -> Any:
    from uneven.experiments import format_mean

    title = f"{demo.runs} simulated runs each: mean ± standard error"
    rows: list[tuple[str, ...]] = [
        (
            one.strategy,
            _describe_mechanism(one),
            format_mean(one.accuracy),
            f"{one.auc.mean():.3f}",
            f"{one.objective.mean():.3f}",
        )
        for one in _choose_shown(demo)
    ]
    others = {"no noise at all": demo.optimum, "always majority class": demo.majority}
    for name, (accuracy, objective, area) in others.items():
        rows.append((name, "none", f"{accuracy:.3f}", f"{area:.3f}", f"{objective:.3f}"))
    return terminal.make_table(title, ["strategy", "mechanism", "test accuracy", "AUC", "objective"], rows)


def _print_public(demo: Demo) -> None:
    from uneven.experiments import describe_public_rows, format_mean

    public, console = demo.public, terminal.make_console()
    rows = [(way, format_mean(shares), format_mean(public.auc[way])) for way, shares in public.accuracy.items()]
    title = f"If {public.rows:,} of the rows were public: mean ± standard error"
    console.print(terminal.make_table(title, ["learned from", "test accuracy", "AUC"], rows))
    terminal.say(describe_public_rows(public))


def _describe_mechanism(one: Entry) -> str:
    clip = one.plan.problem.clip
    return one.mechanism if clip is None else f"{one.mechanism} clip {clip:g}"


def _explain(demo: Compared) -> list[str]:
    from uneven.schedules import LATE_AVERAGE

    ours, theirs = demo.entries[0], demo.best_of_paper()
    return [
        f"The first line is uneven's default, {ours.strategy} with the mechanism {ours.mechanism}: test accuracy "
        f"{ours.accuracy.mean():.3f}, where no noise at all would reach {demo.optimum[0]:.3f}. It runs without the "
        "intercept that 'uneven fit' adds.",
        f"The paper's strategy with the lowest objective here, '{theirs.strategy}' with its own mechanism and rates by "
        f"its formulas, reaches {theirs.accuracy.mean():.3f}. No row spends more than its site allows.",
        "'quiet' runs use our limit on the weights, 'l2-laplace' runs the paper's. The answer of precision is "
        f"{LATE_AVERAGE}; its bound is for the last iterate.",
        "The objective is the logistic loss with its L2 term on the training rows: only a simulation may look at it. "
        f"The report has all {len(demo.entries)} rows of this table.",
    ]


def _suggest_commands(folder: Path) -> list[tuple[str, str]]:
    names = ("sources.toml", "model.json", "test.parquet", "predictions.csv")
    sources, model, test, predictions = (shlex.quote(str(folder / name)) for name in names)
    return [
        ("the plan with an intercept, and every other strategy's bound", f"uneven plan {sources}"),
        ("change an epsilon in the file first, then learn", f"uneven fit {sources} -o {model} --test {test}"),
        ("labels and probabilities", f"uneven predict {model} {test} -o {predictions}"),
        ("start on files of your own", "uneven init YOUR_FILES"),
    ]


def _collect_facts(demo: Demo) -> dict[str, Any]:
    return {
        "simulated": True,
        "runs": demo.runs,
        "seed": demo.seed,
        "rows": demo.rows,
        "test_rows": demo.test_rows,
        "plan": demo.plan.to_dict(),
        "strategies": [
            {
                "strategy": one.strategy,
                "mechanism": one.mechanism,
                "radius": one.plan.problem.radius,
                "clip": one.plan.problem.clip,
                "bound": one.plan.bound,
                "accuracy": one.accuracy,
                "auc": one.auc,
                "objective": one.objective,
            }
            for one in demo.entries
        ],
        "public_rows": {
            "rows": demo.public.rows,
            "accuracy": dict(demo.public.accuracy),
            "auc": dict(demo.public.auc),
            "verdicts": {name: one.word for name, one in demo.public.verdicts.items()},
            "privacy_spent": dict(demo.public.spent),
        },
        "optimum": dict(zip(("accuracy", "objective", "auc"), demo.optimum, strict=True)),
        "majority": dict(zip(("accuracy", "objective", "auc"), demo.majority, strict=True)),
    }

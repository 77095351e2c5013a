"""``uneven federate``: the plan of a sources.toml, run where the rows are."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from uneven.checks import join_words
from uneven.cli import saving, terminal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from uneven.federation import Federated, Tell
    from uneven.io import SourcesFile
    from uneven.planner import Plan


def command(
    sources: terminal.SourcesPath,
    kit: Annotated[Path | None, typer.Option(help="The server's kit.")] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="File for the model.")] = Path("model.json"),
    mode: Annotated[
        str, typer.Option(help="relay: each site runs its own steps; oracle: sites answer gradients, step by step.")
    ] = "relay",
    job: Annotated[str, typer.Option(help="Name of the job, for the sites' policies.")] = "uneven",
    work: Annotated[Path | None, typer.Option(help="Folder for the job's progress; else OUTPUT.job.")] = None,
    patience: Annotated[float, typer.Option(help="Seconds to wait for a site that is away.")] = 60.0,
    provision: Annotated[
        Path | None, typer.Option(help="Make kits with certificates in this folder, and stop.")
    ] = None,
    address: Annotated[str, typer.Option(help="With --provision: where sites reach the server.")] = "127.0.0.1:8102",
    rehearse: Annotated[
        bool, typer.Option("--rehearse", help="Start a process for each source on this machine, from its data.")
    ] = False,
    seed: Annotated[
        int | None, typer.Option(help="With --rehearse: noise that can be repeated protects nobody.")
    ] = None,
    json: terminal.Json = False,
) -> None:
    """Learn a classifier from sites that keep their rows: the model travels, the rows stay.

    Sources are named after their sites and need no data here. An interrupted job continues when it is run again. A
    site that does not return is left out, and the result says so.

    [bold]Example:[/] uneven federate sources.toml --rehearse
    """
    from uneven.io import read_sources

    terminal.refuse_output("--output", output, terminal.MODEL)
    _refuse_ways({"--kit": kit, "--provision": provision, "--rehearse": rehearse or None})
    if seed is not None and not rehearse:
        raise ValueError("--seed must be left out without --rehearse: sites draw their own noise")
    terminal.refuse_numbers(seed, patience)
    file = read_sources(sources)
    terminal.refuse_overwriting({"--output": output}, terminal.list_files(file))
    if provision is not None:
        _provision(file, provision, address)
        return
    _announce(file, rehearse)
    from uneven.federation import Ask, federate
    from uneven.training import save_model

    place = output.with_suffix(".job") if work is None else work
    opened: AbstractContextManager[tuple[Callable[[str, str], str], Path]]
    opened = _rehearsed(file, seed) if rehearse else _connected(kit, place)
    with opened as (call, folder):
        terminal.announce(f"Asking {terminal.join_quoted(one.name for one in file.sources)} what they hold", piped=True)
        show = (lambda _: None) if json else _show_plan
        done = federate(file, Ask(call, patience, _teller()), folder, job, mode, show)
    save_model(done.model, output)
    if json:
        terminal.print_json({**_facts(done), "model": output, "rehearsed": rehearse})
    else:
        terminal.say(_words(done, output, rehearse))


def _announce(file: SourcesFile, rehearse: bool) -> None:
    from uneven.words import format_count

    count = format_count(len(file.sources), "site")
    terminal.announce(f"Starting {count}" if rehearse else f"Looking for {count}", piped=True)


def _provision(file: SourcesFile, folder: Path, address: str) -> None:
    from uneven.federation import AUTHORITY, make_kits
    from uneven.io import refuse_folder

    refuse_folder(folder)
    made = make_kits(folder, [entry.name for entry in file.sources], address)
    terminal.say(f"Made {len(made)} kits in {folder}: {terminal.join_quoted([one.name for one in made])}.")
    terminal.say(f"Send each site its own folder, by a way you trust; {folder / AUTHORITY} and the server's stay here.")
    terminal.say(f"Next, at a site: uneven site init KIT --data ROWS --like {file.path.name}, then uneven site run KIT")


@contextmanager
def _connected(kit: Path | None, folder: Path) -> Iterator[tuple[Callable[[str, str], str], Path]]:
    from uneven.federation import Kit, open_server

    assert kit is not None
    with open_server(Kit(kit)) as call:
        yield call, folder


@contextmanager
def _rehearsed(file: SourcesFile, seed: int | None) -> Iterator[tuple[Callable[[str, str], str], Path]]:
    import tempfile

    from uneven.federation import SERVER, Kit, make_sites, open_server, run_sites

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        make_sites(file, folder, seed)
        call = stack.enter_context(open_server(Kit(folder / SERVER)))
        yield stack.enter_context(run_sites(folder, [entry.name for entry in file.sources], call)), folder / "job"


def _refuse_ways(ways: Mapping[str, object]) -> None:
    """Refuse more than one of the ways to reach sites, or none."""
    given = [name for name, one in ways.items() if one is not None]
    if len(given) != 1:
        got = join_words(given) if given else "none"
        raise ValueError(f"one of --kit, --provision and --rehearse must be given; got {got}")


def _show_plan(plan: Plan) -> None:
    """What each site is expected to bring, before it is asked."""
    from uneven.planner import tell_verdicts

    for name in plan.order:
        worth = f"{plan.exchange[name]:.3g}"
        terminal.say(f"{name!r}: one row is worth {worth} row{'s' * (worth != '1')} of the cleanest site.")
    terminal.say(tell_verdicts(plan))


def _teller() -> Tell:
    """Tell of each site what it does, with a line for every tenth of its rows."""
    told: dict[str, int] = {}

    def tell(site: str, what: str, done: int, of: int) -> None:
        tenth = 10 * done // of if of else 0
        if what != "at work" or tenth > told.get(site, 0):
            told[site] = tenth
            terminal.note(f"{site}: {what}" + (f", {done:,} of {of:,} rows" if of else ""))

    return tell


def _facts(done: Federated) -> dict[str, Any]:
    return {
        "used": list(done.used),
        "left_out": dict(done.left_out),
        "steps": done.state.step,
        "rows": {source.name: source.rows for source in done.plan.sources},
        "order": done.plan.order,
        "bound": done.plan.bound,
        "privacy_spent": done.model.privacy_spent,
        "notes": list(done.notes),
        "simulated": done.simulated,
    }


def _words(done: Federated, output: Path, rehearsed: bool) -> list[str]:
    from uneven.planner import describe_promises, describe_steps_taken
    from uneven.words import format_count

    rows = {source.name: source.rows for source in done.plan.sources}
    said = {name: f"{format_count(rows[name])} of {name!r}" for name in done.used}
    said |= {name: f"{said[name]} (to convergence)" for name in done.plan.converged}
    steps = format_count(done.state.step, "step") if done.left_out else describe_steps_taken(done.plan, done.state.step)
    lines = [f"Learned from {', then '.join(said.values())}, each at its site: {steps}."]
    lines += [f"Note: {note}" for note in done.notes]
    if skipped := [name for name in rows if name not in done.plan.order]:
        lines.append(f"Not asked and not charged, as not expected to help: {terminal.join_quoted(skipped)}.")
    lines += [f"Left out: {name!r}: {reason}." for name, reason in done.left_out.items()]
    if done.left_out:
        lines.append("The bound in the plan is for all of its sites; without those left out it does not hold.")
    if spent := done.model.privacy_spent:
        each = join_words([f"ε = {epsilon:g} for each row of {name!r}" for name, epsilon in spent.items()])
        lines.append(f"Privacy spent: {each}, charged at the sites before the rows were used.")
        lines += describe_promises([source for source in done.plan.sources if source.name in spent], {}, True)
    if rehearsed:
        lines.append("A rehearsal: its ledgers are not kept, so no row's true budget was charged.")
    if done.simulated:
        lines.append("A simulation: with a seed the noise can be repeated, so this model protects nobody.")
    return [*lines, *saving.tell_files(output)]

"""``uneven site``: the rows of one site, which stay there."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from uneven.cli import manual, terminal

app = typer.Typer(
    help="Take part in a federation with rows that stay where they are.", no_args_is_help=True, cls=manual.Group
)

KitPath = Annotated[Path, typer.Argument(metavar="KIT", help="The site's kit; 'uneven federate --provision' makes it.")]


@app.command("init", cls=manual.Command)
def init(
    kit: KitPath,
    data: Annotated[Path, typer.Option(help="File with the site's rows.")],
    like: Annotated[
        Path | None,
        typer.Option(help="The federation's sources.toml: label, columns, row_norm and epsilon from there."),
    ] = None,
    label: Annotated[str | None, typer.Option(help="Column of the labels.")] = None,
    features: Annotated[
        str | None, typer.Option(help="Columns that may be learned from, with commas; else all others.")
    ] = None,
    classes: Annotated[str | None, typer.Option(help="The two labels, in order: a public statement; else 0,1.")] = None,
    row_norm: Annotated[float | None, typer.Option(help="Public bound on the norm of rows; else 1.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="The most that one release of a row may cost.")] = None,
    budget: Annotated[float | None, typer.Option(help="The most that a row may spend in all; else epsilon.")] = None,
    identity: Annotated[str | None, typer.Option("--id", help="Column by which the ledger knows the rows.")] = None,
    kept: Annotated[Path | None, typer.Option(help="File with rows never learned from, for 'uneven evaluate'.")] = None,
    jobs: Annotated[str, typer.Option(help="Names of the jobs that are allowed, with commas.")] = "*",
    public: Annotated[bool, typer.Option("--public", help="The rows are not protected.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing policy.")] = False,
) -> None:
    """Write the site's policy into its kit and check the rows against it.

    The policy is the site's: a plan that asks for more is refused. Open the file afterwards and read it.

    [bold]Example:[/] uneven site init clinic --data rows.csv --like sources.toml --budget 2
    """
    from uneven.federation import Kit, policy_to_text
    from uneven.io import write_text_atomically

    file, name = kit / "site.toml", Kit(kit).name
    if file.exists() and not force:
        raise FileExistsError(f"{file} must not be there yet, got a policy; --force writes over it")
    values = {} if like is None else _take_over(like, name)
    given = {"label": label, "row_norm": row_norm, "epsilon": epsilon, "id": identity}
    values |= {key: value for key, value in given.items() if value is not None}
    if public == (values.get("epsilon") is not None):
        got = "both" if public else "neither"
        raise ValueError(f"--epsilon must be given, or --public for rows that are not protected; got {got}")
    if features is not None or not {"columns", "features"} & set(values):
        values["features"] = _find_features(data, values.get("label"), features, identity)
    values |= {
        "name": name,
        "data": str(data.absolute()),
        "classes": values.get("classes", [0, 1]) if classes is None else _read_classes(classes),
        "row_norm": values.get("row_norm", 1.0),
        "private": not public,
        "budget": values.get("epsilon") if budget is None else budget,
        "kept": None if kept is None else str(kept.absolute()),
        "jobs": jobs.split(","),
        "modes": ["relay", "oracle"],
    }
    kit.chmod(0o700)  # however it was copied here
    (kit / "key.pem").chmod(0o600)
    write_text_atomically(file, policy_to_text(values))
    _describe_site(kit, file)


def _describe_site(kit: Path, file: Path) -> None:
    """Check the rows against the policy in this file, and say what it promises."""
    from uneven.noise import LocalPrivacy, SitePrivacy
    from uneven.words import format_count

    site = _open(kit)
    site.close()
    rows, policy = format_count(site.scan.rows), site.policy
    terminal.say(f"Wrote {file} for {rows} of {policy.name!r}. Read it: whatever a server asks, it decides.")
    for noise in (LocalPrivacy(1.0), SitePrivacy(1.0)) if policy.private else ():
        if noise.kind in policy.noises:
            terminal.say(noise.promise)
    if policy.private and policy.id is None:
        terminal.note("rows are known by their content; with --id, a refusal would reveal nothing about their values")
    if long := sum(site.scan.count_long(site.policy.row_norm).values()):
        terminal.note(f"{long:,} rows are longer than row_norm = {policy.row_norm:g} and will be shrunk to it")
    terminal.say(f"Next: uneven site run {shlex.quote(str(kit))}")


@app.command("run", cls=manual.Command)
def run(kit: KitPath) -> None:
    """Answer the server's requests, as far as the policy allows, until interrupted.

    Every private row is charged in the site's ledger before it is used. The process may be stopped or killed at any
    moment: started again, it goes on, and no row is released twice.

    [bold]Example:[/] uneven site run clinic
    """
    import logging
    import threading

    from uneven.federation import Kit, open_site
    from uneven.words import format_count

    logging.basicConfig(format="%(asctime)s %(message)s")
    logging.getLogger("uneven.site").setLevel(logging.INFO)
    own = Kit(kit)
    site = _open(kit)
    if own.name != site.policy.name:
        raise ValueError(f"name in {kit / 'site.toml'} must be {own.name!r}, as in the kit; got {site.policy.name!r}")
    with open_site(own, site.answer):
        terminal.say(f"{own.name!r} answers {own.address} for {format_count(site.scan.rows)}. Ctrl-C stops it.")
        threading.Event().wait()


def _open(kit: Path) -> Any:
    from uneven.federation import Site, read_policy

    return Site(read_policy(kit / "site.toml"))


def _take_over(like: Path, name: str) -> dict[str, Any]:
    """What a sources.toml says of this site, for the site's people to read and change."""
    from uneven.federation import describe_features
    from uneven.io import read_sources

    file = read_sources(like)
    entry = next((one for one in file.sources if one.name == name), None)
    if entry is None:
        raise ValueError(f"{like} must have a source {name!r}, as the kit has it; got none")
    norm = file.settings.row_norm
    values = {"label": file.label, **describe_features(file), "row_norm": 1.0 if isinstance(norm, str) else float(norm)}
    values["classes"] = None if file.settings.classes is None else list(file.settings.classes)
    if entry.noise is not None and entry.noise.protects_features:
        values |= {"epsilon": entry.noise.epsilon_per_row, "noises": [entry.noise.protection.kind]}
    return {key: value for key, value in values.items() if value is not None}


def _find_features(data: Path, label: Any, features: str | None, identity: str | None) -> list[str]:
    from uneven.io import open_table

    _, columns = open_table(data).select(label, None if features is None else features.split(","))
    return [column for column in columns if column != identity]


def _read_classes(text: str) -> list[Any]:
    """Labels as a policy has them: whole numbers where all are.

    >>> _read_classes("-1,1"), _read_classes("no,yes")
    ([-1, 1], ['no', 'yes'])
    """
    words = text.split(",")
    try:
        return [int(word) for word in words]
    except ValueError:
        return list(words)

"""``uneven audit``: an empirical lower bound on each mechanism's ε."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from uneven.cli import terminal

if TYPE_CHECKING:
    from uneven.audit import Audit

MEANING = (
    "All lower bounds hold together, at 99%. An audit finds flaws, it does not prove privacy: a bound above ε is a "
    "violation, one below it says only that these inputs and events did not show more."
)
COLUMNS = ("mechanism, drawn by", "d", "ε", "lower bound", "share", "verdict", "seconds")


def command(
    draws: Annotated[int, typer.Option(help="Releases to draw for each line; more tighten the bound.")] = 1_000_000,
    epsilon: Annotated[list[float] | None, typer.Option(help="Stated epsilon; may be repeated. [1 and 3]")] = None,
    dimension: Annotated[list[int] | None, typer.Option(help="Dimension; may be repeated. [1, 2 and 25]")] = None,
    mechanism: Annotated[
        list[str] | None,
        typer.Option(
            help="quiet, privunit, l2-laplace, site-privacy, or your own as module:Class, called with epsilon; may be "
            "repeated."
        ),
    ] = None,
    clip: Annotated[float | None, typer.Option(help="Norm that gradients are bounded by. [1]")] = None,
    seed: Annotated[int | None, typer.Option(help="Draw the same again; without it, fresh randomness.")] = None,
    json: terminal.Json = False,
) -> None:
    """Audit the private mechanisms: a lower bound on epsilon from millions of releases.

    The audit releases two inputs many times and tries to tell them apart: how well that works bounds epsilon from
    below. It uses the code that sites and runs use. For site-privacy the inputs are batches that differ in one row.
    Exits with 1 if a bound is above the stated epsilon.

    [bold]Example:[/] uneven audit --mechanism privunit --dimension 25 --epsilon 3
    """
    from uneven.audit import AUDITED, audit_all

    found = audit_all(
        mechanisms=mechanism or AUDITED,
        epsilons=epsilon or (1.0, 3.0),
        dimensions=dimension or (1, 2, 25),
        clip=clip,
        draws=draws,
        seed=seed,
        progress=terminal.show_bar,
    )
    if json:
        terminal.print_json({"meaning": MEANING, "audits": [one.to_dict() for one in found]})
    else:
        console = terminal.make_console()
        console.print(terminal.make_table("Audit: a lower bound on epsilon", COLUMNS, map(_cells, found)))
        terminal.say(MEANING)
    if any(one.violated for one in found):
        raise typer.Exit(1)


def _cells(one: Audit) -> tuple[str, ...]:
    return (
        f"{one.mechanism}, {one.drawn_by}",
        str(one.n_features),
        f"{one.epsilon:g}",
        f"{one.bound:.3f}",
        f"{one.share:.0%}",
        one.verdict,
        f"{one.seconds:.1f}",
    )

"""``uneven studio``: the web planner."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    sources: Annotated[
        Path | None, typer.Argument(metavar="SOURCES", help="A sources.toml to begin with.", show_default=False)
    ] = None,
    port: Annotated[int, typer.Option(help="Port to listen on.", min=1, max=65535)] = 8501,
    address: Annotated[
        str, typer.Option(help="Address to listen on; by default only this machine can reach it.")
    ] = "127.0.0.1",
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
) -> None:
    r"""Plan in the browser: edit a table of sources and see at once what the plan becomes.

    Needs the extra: pip install 'uneven\[studio]'. Sends nothing anywhere. Ctrl-C ends it.

    [bold]Example:[/] uneven studio sources.toml --port 8600
    """
    from uneven.studio import refuse_missing_extra, serve

    refuse_missing_extra()
    if sources is not None:
        from uneven.io import read_sources

        read_sources(sources)
    serve(address, port, sources, browser=browser)

"""The command line: one module per command, which parses, calls and prints.

app        all commands, and how errors are reported
terminal   what every command shares: the console, ``--json``, progress bars
"""

from uneven.cli.app import main

__all__ = ["main"]

"""The command line: one module a command, each of which parses, calls and prints.

app        the commands together, and what becomes of errors
terminal   what every command shares: the console, ``--json``, progress
"""

from uneven.cli.app import main

__all__ = ["main"]

"""Front doors of rooms that are slow to import: a name's module is imported when the name is asked for."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any


def open_lazily(room: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a room, from the imports below its ``if TYPE_CHECKING``.

    So each name stands once, where readers and type checkers look for it, and no command waits for what it does not
    use.
    """
    package = sys.modules[room]
    statements = ast.walk(ast.parse(package.__loader__.get_source(room)))  # type: ignore[union-attr]
    homes = {
        name.name: one.module
        for one in statements
        if isinstance(one, ast.ImportFrom) and one.module is not None and one.module.startswith(f"{room}.")
        for name in one.names
    }

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        value = getattr(import_module(homes[name]), name)
        setattr(package, name, value)  # next time it is there
        return value

    return load, lambda: sorted({*vars(package), *homes}), sorted(homes)

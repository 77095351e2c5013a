"""How long modules and functions may be: each is to be read in one sitting."""

import ast
import tomllib
from pathlib import Path

import pytest

SOURCES = sorted((Path(__file__).parents[1] / "src" / "uneven").rglob("*.py"))
MODULE_LINES, FUNCTION_LINES = 400, 50


def count_lines(function):
    """Lines of a function without its docstring."""
    said = function.body[0].end_lineno - function.body[0].lineno + 1 if ast.get_docstring(function) is not None else 0
    return function.end_lineno - function.lineno + 1 - said


def only_assigns(function):
    """Whether it is a constructor that scikit-learn asks for: one parameter and one assignment for each setting."""
    return function.name == "__init__" and all(isinstance(one, ast.Assign) for one in function.body)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: "/".join(path.parts[-2:]))
def test_modules_and_functions_are_short(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MODULE_LINES
    functions = [one for one in ast.walk(ast.parse(text)) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
    long = {one.name: count_lines(one) for one in functions if not only_assigns(one)}
    assert {name: lines for name, lines in long.items() if lines > FUNCTION_LINES} == {}


def test_every_room_has_an_order_that_names_all_its_modules():
    rules = tomllib.loads((SOURCES[0].parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
        "importlinter"
    ]
    rooms = {
        f"uneven.{path.parent.name}" for path in SOURCES if path.name == "__init__.py" and path.parts[-3] == "uneven"
    }
    ordered = {room for contract in rules["contracts"] if contract["exhaustive"] for room in contract["containers"]}
    assert ordered == {"uneven", *rooms}
    assert not [contract["name"] for contract in rules["contracts"] if "ignore_imports" in contract]

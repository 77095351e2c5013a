"""How long modules and functions may be, each to be read in one sitting; and how rooms are entered."""

import ast
import importlib
import tomllib
from pathlib import Path

import pytest

from uneven.planner import STRATEGIES

ROOT = Path(__file__).parents[1] / "src" / "uneven"
SOURCES = sorted(ROOT.rglob("*.py"))
ROOMS = {path.parent.name for path in ROOT.glob("*/__init__.py")}
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
    rules = tomllib.loads((ROOT.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    ordered = {room for contract in rules["contracts"] if contract["exhaustive"] for room in contract["containers"]}
    assert ordered == {"uneven", *(f"uneven.{room}" for room in ROOMS)}
    assert not [contract["name"] for contract in rules["contracts"] if "ignore_imports" in contract]


def list_imported_rooms(tree):
    """Rooms and modules beside them that a piece of code imports from."""
    for one in ast.walk(tree):
        if isinstance(one, ast.ImportFrom) and (one.module or "").split(".")[0] == "uneven":
            yield from [one.module.split(".")[1]] if "." in one.module else [alias.name for alias in one.names]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: "/".join(path.parts[-2:]))
def test_annotations_point_the_same_way_as_imports(path):
    """`lint-imports` leaves out what only type checkers import; rooms do not know those above in that way either."""
    rules = tomllib.loads((ROOT.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    height = {room: -k for k, line in enumerate(rules["contracts"][0]["layers"]) for room in line.split(" | ")}
    own = path.parent.name if path.parent != ROOT else path.stem
    if own != "__init__":
        found = set(list_imported_rooms(ast.parse(path.read_text(encoding="utf-8")))) & set(height) - {own}
        assert {room for room in found if height[room] >= height[own]} == set()


PAST_THE_DOOR = {
    # The compiled loops are made from the source of these functions: the front door has no compiled ones.
    ("engine/kernels.py", "noise.directions"),
    ("engine/kernels.py", "noise.grid"),
    # An audit draws by the very code that a run is made of, which nobody else should call.
    ("audit/drawing.py", "engine.codes"),
    ("audit/drawing.py", "engine.kernels"),
    ("audit/drawing.py", "engine.matrix"),
    # Functions named as their modules: mypy takes them for these in the package's own front door.
    ("__init__.py", "engine.objective"),
    ("__init__.py", "engine.sweep"),
}
"""Modules that another room imports past the front door of theirs, each for a reason."""


def find_past_the_door(path):
    """Modules of other rooms that a file imports from without asking at their front doors."""
    for one in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        inside = f"{one.module}." if isinstance(one, ast.ImportFrom) else ""
        names = one.names if isinstance(one, ast.Import | ast.ImportFrom) else ()
        for package, room, name, *deeper in ([*f"{inside}{alias.name}".split("."), "", ""][:4] for alias in names):
            other = package == "uneven" and room in ROOMS - {path.parent.name} and name
            if other and (any(deeper) or name not in importlib.import_module(f"uneven.{room}").__all__):
                yield str(path.relative_to(ROOT)), f"{room}.{name}"


def test_rooms_are_entered_by_their_front_doors():
    found = {one for path in SOURCES for one in find_past_the_door(path)}
    assert found == PAST_THE_DOOR


@pytest.mark.parametrize("room", ["federation", "training", "valuation"])
def test_a_front_door_that_opens_lazily_offers_no_name_that_a_module_has(room):
    """Importing the module would put it in the name's place."""
    front = importlib.import_module(f"uneven.{room}")
    assert set(front.__all__) <= set(dir(front))
    assert not set(front.__all__) & {path.stem for path in (ROOT / room).glob("*.py")}
    with pytest.raises(AttributeError, match=f"module 'uneven.{room}' has no attribute 'nothing'"):
        front.nothing  # noqa: B018


def test_no_name_of_a_strategy_or_theorem_decides():
    """What is done hangs on what a `Strategy`, `Theorem` or `Settings` says of itself, not on how it is called."""
    names = {*STRATEGIES, "anchored"}
    for path in SOURCES:
        compared = (
            one for one in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(one, ast.Compare)
        )
        words = {part.value for one in compared for part in ast.walk(one) if isinstance(part, ast.Constant)}
        found = {word for word in words if word in names or str(word).startswith("Theorem")}
        assert not found, f"{path} compares with {found}"

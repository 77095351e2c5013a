"""Functions are named by what they do: a public function of a module begins with a verb."""

import ast
import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
ROOT = REPOSITORY / "src" / "uneven"

FORMULAS = {"theory", "noise", "losses", "softmax"}
"""Rooms of formulas, whose functions are named after what they compute, as in the paper."""

ADVERBIAL = {"checks", "redaction", "refusals"}
"""Modules whose functions complete a sentence: ``checks.positive(...)``, ``with located(...)``."""

KINDS = re.compile(r"(is|has|can|was|uses|as|with|from)_|.*_(to|from)_(dict|text)$|(command|main)$")
"""Questions, conversions, copies with a change, and what a shell or a page calls."""

OTHERS = {"budget", "downloading", "reading", "all_or_nothing"}
"""A command of the shell, two context managers and a decorator."""

# To name a function by a verb that is not here, add it.
WORDS = """
absorb accumulate add advance agree allow announce answer apply ask attach audit average begin boot bound build
buy change charge check choose clamp compare complete compute connect continue converge convert copy correct
count cut deal decide declare decode descend describe digest divide doubt draft draw dump edit encode escape estimate
evaluate expect explain export extend factorise federate find finish fit fold format free get give group guess
hash hold identify init invert iterate jackknife join judge keep know label learn leave limit list load make
mark measure mix move multiply name normalise note number open parse plan predict prepare print project propose
randomise rank react read recognise record refuse release repair repeat reproduce resolve restore resume run save say
scale scan search segment select serve settle share shorten show sign simulate solve sort split spread square
standardise start state store stream sum summarise summarize sweep tabulate take tell thin tick trace train turn
update use validate value void warn weigh wrap write
"""
VERBS = set(WORDS.split())


def list_functions():
    """Public functions of modules that are to begin with a verb, with their files."""
    for path in sorted(ROOT.rglob("*.py")):
        place = path.relative_to(ROOT)
        if not {place.parts[0].removesuffix(".py"), path.stem} & (FORMULAS | ADVERBIAL):
            for one in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(one, ast.FunctionDef) and not one.name.startswith("_"):
                    yield str(place), one.name


@pytest.fixture(scope="module")
def documented():
    """Names that users call: those of the package, and of the API pages."""
    pages = [path.read_text(encoding="utf-8") for path in (REPOSITORY / "docs" / "api").glob("*.md")]
    return set(re.findall(r"\w+", " ".join([*pages, (ROOT / "__init__.py").read_text(encoding="utf-8")])))


def test_public_functions_are_verbs(documented):
    found = {(place, name) for place, name in list_functions() if name not in documented | OTHERS}
    assert {
        (place, name) for place, name in found if name.split("_")[0] not in VERBS and not KINDS.match(name)
    } == set()


def test_no_verb_is_listed_that_no_function_has():
    assert VERBS - {name.split("_")[0] for _, name in list_functions()} == set()

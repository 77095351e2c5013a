"""What the studio begins with, by the names of `uneven.plan`; and sources as rows of its table."""

from dataclasses import replace

import uneven
from uneven.io import sources_to_text
from uneven.planner import STRATEGIES
from uneven.problem import Problem
from uneven.settings import NAMES, Settings
from uneven.studio.document import Document
from uneven.training import keep_rows
from uneven.training.strength import choose_private_alpha, choose_private_clip

SETTINGS = {
    "n_features": 54,
    "alpha": 1e-3,
    "batch_size": 50,
    "loss": "logistic",
    "strategy": "precision",
    "moments": "auto",
    "radius": "tight",
    "clip": STRATEGIES["precision"].private_clip,
}


def plan_as_fit(sources, **changes):
    """Plan of these sources as a fit runs it: with the rows that it keeps."""
    asked = Settings(**{name: value for name, value in changes.items() if name in NAMES})
    return keep_rows(plan_steps(sources, **changes), asked)


def plan_steps(sources, **changes):
    """The same by steps alone, with the alpha and the clip that a fit chooses, unless they are stated."""
    stated = {**SETTINGS, **changes}
    keys = ("n_features", "alpha", "batch_size", "loss", "radius", "clip")
    settings = Settings(loss=stated["loss"], strategy=changes.get("strategy", "auto"))
    problem = Problem(**{key: stated[key] for key in keys})
    if "alpha" not in changes:
        stated["alpha"] = choose_private_alpha(settings, sources, problem, problem.alpha)
    if "clip" not in changes:
        stated["clip"] = choose_private_clip(settings, sources, replace(problem, alpha=stated["alpha"]))
    return uneven.plan(sources, **stated)


def as_rows(sources):
    """Rows that someone typed: they have no place in the file yet."""
    return [{**row, "place": None} for row in Document(sources_to_text(sources, n_features=2)).rows]

"""What the studio begins with, by the names of `uneven.plan`; and sources as rows of its table."""

from uneven.io import sources_to_text
from uneven.planner import STRATEGIES
from uneven.studio.document import Document

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


def as_rows(sources):
    """Rows that someone typed: they have no place in the file yet."""
    return [{**row, "place": None} for row in Document(sources_to_text(sources, n_features=2)).rows]

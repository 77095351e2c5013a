
from __future__ import annotations
def choose_sizes(sources, problem, strategy, moments):
    return {}

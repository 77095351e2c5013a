"""Run plans over rows.

reference   the specification: a plain NumPy loop
kernels     the compiled loop over dense rows
sparse      the compiled loop over sparse rows
plans       what the engine needs to know of a plan
state       what a run carries from one stretch of rows to the next
rows        arrays, memory maps and streams as chunks in random order
randomness  independent generators for each run and source
run         `fit`: one plan, one pass
sweep       `sweep`: many plans over one data set
norms       squared norms of rows
objective   f(w) for many w
optimum     w* itself, and how many rows are on the right side of a plane
progress    a progress bar
"""

from uneven.engine.norms import squared_norms
from uneven.engine.objective import objective
from uneven.engine.optimum import accuracy, optimum
from uneven.engine.plans import tasks_of
from uneven.engine.randomness import generator
from uneven.engine.rows import Chunk, Stream, checked_chunk, from_record_batches, limit_of
from uneven.engine.run import Fit, Path, advance, fit
from uneven.engine.state import Average, State, Task, initial_state
from uneven.engine.sweep import Sweep, sweep

__all__ = [
    "Average",
    "Chunk",
    "Fit",
    "Path",
    "State",
    "Stream",
    "Sweep",
    "Task",
    "accuracy",
    "advance",
    "checked_chunk",
    "fit",
    "from_record_batches",
    "generator",
    "initial_state",
    "limit_of",
    "objective",
    "optimum",
    "squared_norms",
    "sweep",
    "tasks_of",
]

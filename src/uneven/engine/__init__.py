"""Run plans over rows.

backend     the seam: what a backend promises, and `advance`, which checks and calls one
reference   the specification, a backend: a plain NumPy loop
compiled    the default backend, which picks one of the next two
codes       tasks and states as numbers, for the compiled loops
kernels     the compiled loop over dense rows
matrix      the same with a step size per coordinate
sparse      the compiled loop over sparse rows
plans       what the engine needs to know of a plan
state       what a run carries from one chunk of rows to the next
streams     what rows come from: arrays, memory maps, streams, record batches
chunks      rows in random order, as chunks
rows        the checks of rows
randomness  independent generators for each run and source
run         `fit`: one plan, one pass
sweep       `sweep`: many plans over one data set
norms       squared norms of rows, and rows scaled
objective   f(w) for many w
optimum     w* itself, and the accuracy and AUC of weights
"""

from uneven.engine.backend import BACKENDS, Backend, advance
from uneven.engine.chunks import chunks as iterate_chunks
from uneven.engine.compiled import advance as compiled_advance
from uneven.engine.compiled import measure_gradient
from uneven.engine.norms import scale_rows, squared_norms
from uneven.engine.objective import objective, surrogate_objective
from uneven.engine.optimum import accuracy, auc, optimum
from uneven.engine.plans import tasks_of
from uneven.engine.randomness import checked_seed, generator, repeated
from uneven.engine.reference import step_moment, take_step
from uneven.engine.rows import NO_GROUP, Chunk, checked_chunk, limit_of
from uneven.engine.run import Fit, Path, fit
from uneven.engine.state import Average, State, Task, initial_state
from uneven.engine.streams import Selected, Stream, checked_rows, from_record_batches
from uneven.engine.sweep import Sweep, sweep

__all__ = [
    "BACKENDS",
    "NO_GROUP",
    "Average",
    "Backend",
    "Chunk",
    "Fit",
    "Path",
    "Selected",
    "State",
    "Stream",
    "Sweep",
    "Task",
    "accuracy",
    "advance",
    "auc",
    "checked_chunk",
    "checked_rows",
    "checked_seed",
    "compiled_advance",
    "fit",
    "from_record_batches",
    "generator",
    "initial_state",
    "iterate_chunks",
    "limit_of",
    "measure_gradient",
    "objective",
    "optimum",
    "repeated",
    "scale_rows",
    "squared_norms",
    "step_moment",
    "surrogate_objective",
    "sweep",
    "take_step",
    "tasks_of",
]

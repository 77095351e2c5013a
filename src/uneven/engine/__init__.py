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
from uneven.engine.chunks import iterate_chunks
from uneven.engine.compiled import advance as compiled_advance
from uneven.engine.compiled import measure_gradient
from uneven.engine.norms import measure_squared_norms, scale_rows
from uneven.engine.objective import objective, surrogate_objective
from uneven.engine.optimum import find_optimum, measure_accuracy, measure_auc
from uneven.engine.plans import tasks_of
from uneven.engine.randomness import check_seed, make_generator, repeat_generator
from uneven.engine.reference import find_step_moment, take_step
from uneven.engine.rows import NO_GROUP, Chunk, checked_chunk, find_limit
from uneven.engine.run import Fit, Path, fit
from uneven.engine.state import Average, State, Task, initial_state
from uneven.engine.streams import Selected, Stream, check_rows, from_record_batches
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
    "advance",
    "check_rows",
    "check_seed",
    "checked_chunk",
    "compiled_advance",
    "find_limit",
    "find_optimum",
    "find_step_moment",
    "fit",
    "from_record_batches",
    "initial_state",
    "iterate_chunks",
    "make_generator",
    "measure_accuracy",
    "measure_auc",
    "measure_gradient",
    "measure_squared_norms",
    "objective",
    "repeat_generator",
    "scale_rows",
    "surrogate_objective",
    "sweep",
    "take_step",
    "tasks_of",
]

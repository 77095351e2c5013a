"""A process that has imported what commands need, and becomes ``python -m uneven`` in a fork for each line it reads.

A line in is JSON: arguments, folder, environment, files for standard output and standard error. Lines out are the
fork's process id, and its exit code when it ends.
"""

import gc
import json
import os
import runpy
import sys
import tempfile
import traceback
from importlib import import_module
from pathlib import Path

PRELOADED = ("audit", "cli", "experiments.demo", "io", "report", "training.scoring", "valuation")


def preload():
    """Import rooms, and fit a few rows: the compiled loops are then loaded from Numba's cache, or put there."""
    for room in PRELOADED:
        import_module(f"uneven.{room}")
    import_module("matplotlib.backends.backend_agg")
    from uneven.io import read_sources
    from uneven.training.files import train_files

    kinds = ('"exact" }', '"flipped-labels", rate = 0.1 }', '"local-privacy", epsilon = 1.0 }')
    with tempfile.TemporaryDirectory() as place:
        Path(place, "rows.csv").write_text("a,b,y\n" + "0.5,0.25,1\n0.25,0.5,0\n" * 100)
        for kind in kinds:
            source = f'[[source]]\nname = "a"\ndata = "rows.csv"\nnoise = {{ kind = {kind}\n'
            Path(place, "sources.toml").write_text(f'label = "y"\nrow_norm = 1.0\n{source}')
            train_files(read_sources(Path(place, "sources.toml")), seed=0)


def serve():
    """Fork for each line, until there are no more."""
    gc.freeze()  # what is there already is no garbage: looking through it would copy all of it into each fork
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _end(become(**json.loads(line)))
        print(child, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def become(arguments, cwd, environment, out, err):
    """Take the place of a Python started for the command; returns its exit code."""
    for number, path, mode in ((0, os.devnull, os.O_RDONLY), (1, out, os.O_WRONLY), (2, err, os.O_WRONLY)):
        os.dup2(os.open(path, mode), number)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    sys.path[0] = cwd
    sys.argv[1:] = arguments
    try:
        runpy.run_module("uneven", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        return end.code
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _end(code):
    """End without taking the imported modules apart, which takes two seconds."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    preload()
    serve()

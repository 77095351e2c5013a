"""Sites and a server as processes that can be killed at any moment. They talk over sockets, a connection a message."""

import json
import os
import random
import signal
import socket
import time
from contextlib import suppress

import numpy as np
from sites import FEATURES, make_rows

from uneven.federation import calls
from uneven.federation.calls import Ask
from uneven.federation.policy import policy_to_text, read_policy
from uneven.federation.server import federate
from uneven.federation.site import Site
from uneven.io import read_sources, write_text_atomically

EPSILON = {"east": 2.0, "north": 4.0, "west": 1.0}
JOBS = 3


def dawdling(work):
    """The same work with a pause before it and after it: time to be killed in between."""

    def slow(*args, **kwargs):
        time.sleep(random.uniform(0.0, 0.01))
        done = work(*args, **kwargs)
        time.sleep(random.uniform(0.0, 0.01))
        return done

    return slow


def make_files(root, rows, public=()):
    """Folders of the sites, with noise that cannot be repeated: a second release would differ from the first."""
    names = [f"x{i}" for i in range(len(FEATURES))]
    head = f'use = "all"\nfeatures = {json.dumps(names)}\nalpha = 0.01\nbatch_size = 20\nrow_norm = 1.0\nlabel = "y"\n'
    for name, epsilon in EPSILON.items():
        (root / name).mkdir()
        X, y = make_rows(name, rows)
        np.savez(root / name / "rows.npz", X=X, y=y)
        values = {"name": name, "data": "rows.npz", "features": names, "classes": [0, 1], "epsilon": epsilon}
        values |= {"private": False, "epsilon": None} if name in public else {"budget": JOBS * epsilon}
        (root / name / "site.toml").write_text(policy_to_text(values))
        noise = '{ kind = "exact" }' if name in public else f'{{ kind = "local-privacy", epsilon = {epsilon} }}'
        head += f'[[source]]\nname = "{name}"\nrows = {rows}\nnoise = {noise}\n'
    (root / "sources.toml").write_text(head)


def forked(work):
    """A child process that does some work and ends."""
    child = os.fork()
    if child == 0:
        random.seed()
        code = 1
        try:
            work()
            code = 0
        except BaseException as error:
            os.write(2, f"{error!r}\n".encode())
        finally:
            os._exit(code)
    return child


def run_site(folder):
    """Answer until killed. What is about to be sent is written down first: then nothing was sent that is not there."""
    for _ in range(200):  # the process before may hold the folder for a moment more
        with suppress(ValueError):
            site = Site(read_policy(folder / "site.toml"))
            break
        time.sleep(0.005)
    site.ledger.charge_all = dawdling(site.ledger.charge_all)
    for step in ("enter", "keep", "reserve", "keep_step"):
        setattr(site.releases, step, dawdling(getattr(site.releases, step)))
    sent = os.open(folder / "sent", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    (folder / "socket").unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "socket"))
        listener.listen()
        while True:
            connection, _ = listener.accept()
            with connection, suppress(ConnectionError), connection.makefile("rw") as stream:
                text = stream.readline()
                if not text.endswith("\n"):
                    continue  # the server died before it had asked
                reply = site.answer(text.rstrip("\n"))
                os.write(sent, (json.dumps([text.rstrip("\n"), reply]) + "\n").encode())
                stream.write(reply + "\n")


def call_in(root):
    def call(site, text):
        with socket.socket(socket.AF_UNIX) as one:
            one.settimeout(10.0)
            one.connect(str(root / site / "socket"))
            with one.makefile("rw") as stream:
                stream.write(text + "\n")
                stream.flush()
                reply = stream.readline()
        if not reply.endswith("\n"):
            raise ConnectionResetError(site)
        return reply

    return call


def run_server(root, job, mode):
    """Run the job, or go on with it."""
    calls.PAUSES = (0.005, 0.02)
    done = federate(read_sources(root / "sources.toml"), Ask(dawdling(call_in(root)), 30.0), root / job, mode=mode)
    result = {"coef": done.model.coef.tolist(), "used": done.used, "left_out": dict(done.left_out)}
    write_text_atomically(root / job / "result.json", json.dumps(result))


def kill(child):
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)

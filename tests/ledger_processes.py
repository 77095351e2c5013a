"""The processes of test_ledger.py, as a script: they charge first, and note what they release afterwards."""

import os
import random
import sys
import threading
import time
import types
from pathlib import Path

EPSILON = 0.1


def ledger_module():
    """`uneven.ledger` without the rest of uneven, which takes a hundred times as long to import."""
    package = types.ModuleType("uneven")
    package.__path__ = [str(Path(__file__).parents[1] / "src" / "uneven")]
    sys.modules["uneven"] = package
    from uneven import ledger

    return ledger


def note(file, *words):
    """One line that is on the disk when this returns."""
    os.write(file, (" ".join(map(str, words)) + "\n").encode())
    os.fsync(file)


def contest(path, folder, seed, attempts):
    """Several processes want the same few rows at the same moment: which rows, the clock says."""
    module = ledger_module()
    ledger = module.Ledger(path, budget=2 * EPSILON)
    ledger.spent("site")
    print("ready", flush=True)
    sys.stdin.readline()
    child = os.fork()  # a ledger that was used before may be used on both sides of a fork
    for i in range(40):
        module.Ledger(Path(folder) / f"new-{i}.db").charge("site", [i], EPSILON)  # all of them make it, at once
    rng = random.Random(2 * int(seed) + (child == 0))
    file = os.open(Path(folder) / f"released-{os.getpid()}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for _ in range(int(attempts)):
        first = int(time.monotonic() * 200)
        rows = rng.sample(range(first, first + 5), rng.randint(1, 3))
        try:
            ledger.charge("site", rows, EPSILON)
        except module.BudgetExceeded:
            continue
        note(file, *rows)
    if child == 0:
        os._exit(0)
    sys.exit(os.waitpid(child, 0)[1])


def lives(path, folder):
    """For each number on stdin one process that works until it is killed, forked to save the imports."""
    module = ledger_module()
    for life in map(int, sys.stdin):
        child = os.fork()
        if child == 0:
            live(module, path, Path(folder), life)
        print(child, flush=True)
        print(os.waitpid(child, 0)[1], flush=True)


def live(module, path, folder, life):
    rng = random.Random(life)
    file = os.open(folder / "released", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    module.Ledger(folder / f"new-{life}.db")  # a kill may also land here
    ledger = module.Ledger(path, budget=5 * EPSILON)
    while True:
        wide, rows = rng.random() < 0.15, rng.sample(range(10 * life, 10 * life + 40), 4)
        try:
            if wide:
                ledger.charge_all([(source, range(500), EPSILON / 1_000) for source in ("wide", "far")])
            else:
                ledger.charge("site", rows, EPSILON)
        except module.BudgetExceeded:
            continue
        if rng.random() < 0.3:
            time.sleep(0.003)  # so that some kills land between the charge and the release
        note(file, *(["wide"] if wide else rows))


def forks(path):
    """Forks while another thread charges; and a fork of a ledger in memory."""
    module = ledger_module()
    ledger, done = module.Ledger(path), threading.Event()

    def work():
        while not done.is_set():
            ledger.charge("parent", [0], EPSILON)

    thread = threading.Thread(target=work)
    thread.start()
    statuses = []
    for row in range(10):
        child = os.fork()
        if child == 0:
            ledger.charge("children", [row], EPSILON)
            os._exit(0)
        statuses.append(os.waitpid(child, 0)[1])
    done.set()
    thread.join()
    print(statuses == [0] * 10, flush=True)
    book = module.Ledger()
    if os.fork() == 0:
        tell(lambda: book.charge("a", [0], EPSILON))
        os._exit(0)
    os.wait()


def powerless(path):
    """A user who may read the file but not write it."""
    module = ledger_module()
    if os.geteuid() == 0:
        os.setuid(65534)
    tell(lambda: module.Ledger(path).charge("a", [0], EPSILON))


def tell(call):
    try:
        call()
    except (OSError, ValueError) as reason:
        print(type(reason).__name__, reason, flush=True)


if __name__ == "__main__":
    {"contest": contest, "lives": lives, "forks": forks, "powerless": powerless}[sys.argv[1]](*sys.argv[2:])

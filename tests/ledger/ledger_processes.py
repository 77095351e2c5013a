"""The processes of test_ledger.py, as a script: they charge first, and note what they release afterwards."""

import os
import random
import sys
import threading
import time
import types
import warnings
from pathlib import Path

EPSILON = 0.1


def ledger_module():
    """`uneven.ledger` without the rest of uneven, which takes a hundred times as long to import."""
    package = types.ModuleType("uneven")
    package.__path__ = [str(Path(__file__).parents[2] / "src" / "uneven")]
    sys.modules["uneven"] = package
    from uneven import ledger

    warnings.simplefilter("ignore")  # ledgers without budgets

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
    for row in range(1, 11):
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
    Path("/").as_uri()  # from Python 3.13 on it imports what it needs now, and this user may not be able to read that
    if os.geteuid() == 0:
        os.setuid(65534)
    tell(lambda: module.Ledger(path).charge("a", [0], EPSILON))


def tell(call):
    try:
        call()
    except (OSError, ValueError) as reason:
        print(type(reason).__name__, reason, flush=True)


if __name__ == "__main__":
    {"contest": contest, "forks": forks, "powerless": powerless}[sys.argv[1]](*sys.argv[2:])

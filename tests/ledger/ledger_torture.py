"""Kill writers of one ledger at random moments, six at once, and look at what is left: `make torture`.

Each writer charges first and notes what it releases afterwards. At all times, for every row: noted ≤ spent ≤ budget.
"""

import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from ledger_processes import EPSILON, ledger_module

WRITERS, BUDGET, ROUNDING = 6, 5 * EPSILON, 1e-9


def write(module, folder, life):
    """Charge and note, until killed. Rows are of a window that moves with the clock, so that writers meet."""
    rng = random.Random(life)
    file = os.open(folder / "noted", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    if rng.random() < 0.3:
        begin_another(module, folder, life)
    ledger = module.Ledger(folder / "book.db")
    while True:
        first = int(time.monotonic() * 40)
        rows = rng.sample(range(first, first + 30), 4)
        try:
            if rng.random() < 0.5:
                ledger.charge("site", rows, EPSILON)
            else:  # the same rows under two names: one transaction
                ledger.charge_all([("site", rows[:2], EPSILON), (f"other-{life % 3}", rows[2:], EPSILON)])
        except module.BudgetExceeded:
            continue
        if rng.random() < 0.2:
            time.sleep(0.002)  # so that some kills land between the charge and the note
        os.write(file, (" ".join(map(str, rows)) + "\n").encode())


def begin_another(module, folder, life):
    """A first charge of a new ledger, which several make at once: of its row each writer is the only one."""
    path = folder / f"new-{int(time.monotonic() * 20)}.db"
    module.Ledger(path, budget=BUDGET).charge("site", [life], EPSILON)
    with open(folder / f"noted-{path.name}", "a") as file:
        file.write(f"{life}\n")


def spawn(module, folder, life):
    child = os.fork()
    if child == 0:
        try:
            write(module, folder, life)
        finally:
            os._exit(1)  # a writer ends by SIGKILL, or something is wrong
    return child


def noted(folder, name="noted"):
    file = folder / name
    return Counter(map(int, file.read_text().split())) if file.exists() else Counter()


def verify(module, path, released):
    """Rows charged in vain; refuses a row beyond its budget, one that was noted and not charged, and a broken file."""
    ledger = module.Ledger(path)
    assert ledger.check() == [], ledger.check()
    spent = Counter()
    for _, row, epsilon in ledger.entries():
        spent[int(row)] += epsilon
    assert all(epsilon <= BUDGET * (1 + ROUNDING) for epsilon in spent.values()), "a row beyond its budget"
    lost = [row for row, times in released.items() if times * EPSILON > spent[row] * (1 + ROUNDING)]
    assert not lost, f"charges that were acknowledged and lost: {lost[:5]}"
    return round(sum(spent.values()) / EPSILON) - sum(released.values())


def copy_at_once(module, folder, children):
    """All writers stopped in the middle of whatever they do, the file and its log as they are are another ledger."""
    for child in children:
        os.kill(child, signal.SIGSTOP)
    copy = Path(tempfile.mkdtemp(dir=folder))
    for name in ("book.db", "book.db-wal"):
        if (folder / name).exists():
            shutil.copyfile(folder / name, copy / name)
    released = noted(folder)
    for child in children:
        os.kill(child, signal.SIGCONT)
    verify(module, copy / "book.db", released)
    shutil.rmtree(copy)


def torture(folder, kills, seed=0):
    """Facts of a run with so many kills."""
    module, rng = ledger_module(), random.Random(seed)
    module.Ledger(folder / "book.db", budget=BUDGET).make()
    children, copies = [spawn(module, folder, life) for life in range(WRITERS)], 0
    try:
        for life in range(WRITERS, WRITERS + kills):
            time.sleep(rng.uniform(0.0, 0.006))
            victim = rng.randrange(WRITERS)
            os.kill(children[victim], signal.SIGKILL)
            assert os.waitpid(children[victim], 0)[1] == signal.SIGKILL, "a writer ended by itself"
            children[victim] = spawn(module, folder, life)
            if life % 25 == 0:
                copy_at_once(module, folder, children)
                copies += 1
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    released = noted(folder)
    in_vain = verify(module, folder / "book.db", released)
    made = sorted(folder.glob("new-*.db"))
    for path in made:
        verify(module, path, noted(folder, f"noted-{path.name}"))
    assert in_vain <= 4 * (kills + WRITERS), "more was lost than the charges that kills interrupted"
    return {"kills": kills, "released": sum(released.values()), "in vain": in_vain, "copies": copies, "made": len(made)}


if __name__ == "__main__":
    count = int(sys.argv[1])
    with tempfile.TemporaryDirectory(dir=sys.argv[2] if len(sys.argv) > 2 else None) as scratch:
        print(json.dumps(torture(Path(scratch), count)))

"""Feed mutated files to every reader, `sources.toml`, model and ledger: `make fuzz`.

Each is read, or refused in one line by ValueError or OSError: no other exception, no hang, no crash, nothing written.
"""

import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent / "io"))
from written import FORMATS, rows, write

import uneven
from uneven.io import open_table, read_sources
from uneven.training import model_file

HANG = 20  # seconds
TOKENS = [b"", b"0", b"-1", b"1e999", b"nan", b"null", b"[]", b"{}", b'"', b"\x00", b"\xff" * 8, b"9" * 30, b",", b"\n"]
TOKENS += [b"=", b"true", b"'", b"inf", b"-0", b"\xef\xbb\xbf", b"#", b"[[source]]", b"..", b"1:", b"\x80\x00\x00\x00"]
TOML = """label = "y"
alpha = 0.01
classes = [0, 1]
clip = 0.5
[columns]
x0 = { range = [-3, 3] }
x1 = { range = [-3, 3], missing = ["?"] }
[[source]]
name = "a"
data = "rows.csv"
noise = { kind = "local-privacy", epsilon = 1.0 }
[[source]]
name = "b"
rows = 7
noise = { kind = "flipped-labels", rate = [0.1, 0.2] }
price = 1
"""


def mutate(data, rng):
    """A few random edits."""
    made = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 4, 16])):
        at, length = rng.randrange(len(made) + 1), rng.choice([1, 1, 2, 4, 8, 64])
        edit = rng.randrange(6)
        if edit == 0 and made:
            made[at % len(made)] ^= 1 << rng.randrange(8)
        elif edit == 1:
            del made[at : at + length]
        elif edit == 2:
            made[at:at] = rng.choice(TOKENS)
        elif edit == 3:
            made[at : at + length] = rng.choice(TOKENS)
        elif edit == 4:
            other = rng.randrange(len(made) + 1)
            made[at:at] = made[other : other + length]
        elif rng.random() < 0.3:
            del made[at:]
    return bytes(made)


def read_table(path, label):
    open_table(path).arrays(label)


def read_toml(path, _label):
    read_sources(path).described()


def read_model(path, _label):
    model_file.load_model(path)


def read_ledger(path, _label):
    ledger = uneven.Ledger(path)
    ledger.check()
    ledger.summary()
    ledger.digest()
    ledger.charge("new", [10_000], 0.5)
    assert ledger.spent("new").get(10_000, 0.0) >= 0.5


def make_targets(folder):
    """Name, bytes, file name, label and reader of everything that is read."""
    X, y = rows(40)
    found = {}
    for form in FORMATS:
        path, label = write(folder, form, X, y)
        found[form] = (path.read_bytes(), path.name, label, read_table)
    found["sources.toml"] = (TOML.encode(), "sources.toml", None, read_toml)
    noise = {"a": uneven.Exact(), "b": uneven.LocalPrivacy(1.0)}
    clf = uneven.UnevenClassifier(noise, row_norm=4.0, alpha=0.01)
    clf.fit(X, y, source=np.repeat(["a", "b"], 20)).save(folder / "model.json")
    found["model"] = ((folder / "model.json").read_bytes(), "model.json", None, read_model)
    ledger = uneven.Ledger(folder / "book.db", budget=3.0)
    ledger.charge_all([("a", range(300), 1.0), ("b", range(200, 400), 0.5)])
    found["ledger"] = ((folder / "book.db").read_bytes(), "book.db", None, read_ledger)
    for name, (data, file, label, read) in found.items():  # what is refused as it is tells nothing when it is mutated
        (folder / file).write_bytes(data)
        assert attempt(folder / file, label, read) == "read", name
    return found


def attempt(path, label, read):
    """What became of one file: "read", "refused", or what went wrong."""
    before = sorted(os.listdir(path.parent))
    signal.alarm(HANG)
    try:
        read(path, label)
        return "read"
    except (ValueError, OSError) as refusal:
        message, left = str(refusal), sorted(os.listdir(path.parent))
        if "\n" in message or len(message) > 1000:
            return f"refused in more than a line: {message[:300]!r}"
        extra = [name for name in left if name not in before and not name.endswith(("-wal", "-shm"))]
        return f"left behind: {extra}" if extra else "refused"
    except BaseException as error:
        return "".join(traceback.format_exception(error)[-2:])
    finally:
        signal.alarm(0)


class Hang(BaseException):
    """Not to be taken for a refusal."""


def hang(*_):
    raise Hang


def work(folder, targets, seed, count, seconds, report):
    """Try so many files, for so long at most."""
    signal.signal(signal.SIGALRM, hang)
    warnings.simplefilter("ignore")
    rng, end, tally, wrong = random.Random(seed), time.monotonic() + seconds, Counter(), []
    for _ in range(count):
        if time.monotonic() > end or len(wrong) > 5:
            break
        name = rng.choice(list(targets))
        data, file, label, read = targets[name]
        path = folder / file
        (folder / "case").write_bytes(made := mutate(data, rng))  # kept if the process dies
        path.write_bytes(made)
        found = attempt(path, label, read)
        tally[f"{name}: {found}" if found in ("read", "refused") else "wrong"] += 1
        if found not in ("read", "refused"):
            wrong.append(f"{name}: {found}\n{made[:2000]!r}")
        path.write_bytes(data)
        for end_of_name in ("-wal", "-shm"):
            Path(f"{path}{end_of_name}").unlink(missing_ok=True)
    report.write_text(json.dumps({"tally": tally, "wrong": wrong}))


def main(count, seconds=1e9, workers=2, seed=0):
    """Facts of a run by several processes."""
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    total, wrong = Counter(), []
    with tempfile.TemporaryDirectory(dir=place) as scratch:
        children = []
        for k in range(workers):
            (folder := Path(scratch) / str(k)).mkdir()
            targets = make_targets(folder)
            report = Path(scratch) / f"report-{k}"
            if (child := os.fork()) == 0:
                work(folder, targets, (seed, k).__repr__(), count // workers, seconds, report)
                os._exit(0)
            children.append((child, folder, report))
        for child, folder, report in children:
            status = os.waitpid(child, 0)[1]
            if status or not report.exists():
                wrong.append(f"a process died with {status}: {(folder / 'case').read_bytes()[:2000]!r}")
                continue
            facts = json.loads(report.read_text())
            total.update(facts["tally"])
            wrong += facts["wrong"]
    return {"files": sum(total.values()), "tally": dict(sorted(total.items())), "wrong": wrong}


if __name__ == "__main__":
    facts = main(*(float(word) if "." in word else int(word) for word in sys.argv[1:]))
    print(json.dumps(facts["tally"], indent=1), f"\n{facts['files']} files, {len(facts['wrong'])} wrong")
    print("\n".join(facts["wrong"][:5]))
    sys.exit(bool(facts["wrong"]))

"""Three sites with rows of their own, as folders with a policy file, and the sources.toml that describes them."""

import json

import numpy as np

import uneven
from uneven.engine import initial_state, tasks_of
from uneven.federation.messages import state_to_dict, task_to_dict
from uneven.federation.policy import read_policy
from uneven.federation.site import Site
from uneven.io import read_sources
from uneven.training.files import train_files

FEATURES = ["a", "b", "c", "d"]
EPSILON = {"east": 2.0, "north": 4.0, "west": 1.0}
ROWS = {"east": 260, "north": 333, "west": 140}
D = len(FEATURES) + 1
DIRECTION = np.array([1.0, -0.5, 0.25, 0.0])


def make_rows(name, rows, seed=0):
    rng = np.random.default_rng([seed, *name.encode()])
    X = rng.normal(size=(rows, len(FEATURES)))
    X *= rng.uniform(0.2, 1.1, (rows, 1)) / np.linalg.norm(X, axis=1, keepdims=True)  # some are longer than 1
    y = (X @ DIRECTION + 0.1 * rng.normal(size=rows) > 0).astype(int)
    return X, y


def write_rows(path, X, y):
    lines = [",".join([*map(repr, x.tolist()), str(label)]) for x, label in zip(X, y, strict=True)]
    path.write_text("\n".join([",".join([*FEATURES, "y"]), *lines]) + "\n")


def make_folders(root, seed=7, rows=ROWS, top=None, public=(), **more):
    """A folder per site, with its rows and its policy; and sources.toml with and without the data."""
    open_policy = {"private": False, "epsilon": None, "budget": None}
    for name, count in rows.items():
        folder = root / name
        folder.mkdir(exist_ok=True)
        write_rows(folder / "rows.csv", *make_rows(name, count))
        (folder / "site.toml").write_text(
            policy_text(name, seed=seed, **more | (open_policy if name in public else {}))
        )
    for file, data in (("local.toml", True), ("sources.toml", False)):
        (root / file).write_text(sources_text(rows, data, public, **(top or {})))


def policy_text(name, **more):
    values = {"name": name, "data": "rows.csv", "label": "y", "features": FEATURES, "classes": [0, 1]}
    values |= {"epsilon": EPSILON[name], "budget": EPSILON[name], **more}
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items() if value is not None)


def sources_text(rows, data, public=(), batch_size=20, **more):
    top = {"label": "y", "features": FEATURES, "alpha": 0.01, "batch_size": batch_size, "row_norm": 1.0, **more}
    lines = [f"{key} = {json.dumps(value)}" for key, value in top.items()]
    for name, count in rows.items():
        where = f'data = "{name}/rows.csv"' if data else f"rows = {count}"
        private = f'{{ kind = "local-privacy", epsilon = {EPSILON[name]} }}'
        noise = '{ kind = "exact" }' if name in public else private
        lines += ["[[source]]", f'name = "{name}"', where, f"noise = {noise}"]
    return "\n".join(lines) + "\n"


def train_locally(root, seed=7):
    """A fit on one machine to compare with."""
    return train_files(read_sources(root / "local.toml"), seed=seed)


class Network:
    """Sites in this process; every message that crosses is kept."""

    def __init__(self, root, names=ROWS):
        self.sites = {name: Site(read_policy(root / name / "site.toml")) for name in names}
        self.messages = []

    def call(self, site, text):
        if site not in self.sites:
            raise TimeoutError(site)
        while '"working"' in (reply := self.sites[site].answer(text)):
            pass
        self.messages.append((site, text, reply))
        return reply

    def ask(self, site, **message):
        return json.loads(self.call(site, json.dumps(message)))

    def close(self):
        for site in self.sites.values():
            site.close()


def request(kind="relay", number=0, job="j", noise=None, state=None, **more):
    """A request that the site 'east' accepts."""
    noise = uneven.LocalPrivacy(EPSILON["east"]) if noise is None else noise
    plan = uneven.plan([uneven.Source("east", ROWS["east"], noise)], D, alpha=0.01, batch_size=20, clip=0.5)
    values = {"kind": kind, "job": job, "name": "study", "number": number, "features": FEATURES, "classes": [0, 1]}
    values |= {
        "columns": None,
        "row_norm": 1.0,
        "intercept": True,
        "private": True,
        "task": task_to_dict(tasks_of(plan)[0]),
    }
    if kind == "relay":
        values["state"] = state_to_dict(initial_state(D) if state is None else state)
    return values | more


def step(number=0, at=0, weights=(0.0,) * D, **more):
    return {"kind": "step", "job": "j", "number": number, "step": at, "weights": list(weights), **more}


def spent(network):
    return set(network.sites["east"].ledger.spent("east").values())

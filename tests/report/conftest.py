"""Reports of each kind, with names that try to break out of the page."""

import numpy as np
import pytest

import uneven
from uneven.experiments import run_demo
from uneven.io import SourceEntry, read_sources, write_sources
from uneven.report import demo_report, fit_report, plan_report
from uneven.training.files import train

NASTY = "<script>alert('x')</script>\"&' </svg><img src=x onerror=alert(1)> " + "verylongname" * 8
COMMAND = "uneven plan '</code><script>alert(2)</script>.toml'"


def planned(strategy="precision", **options):
    sources = [
        uneven.Source(NASTY, 900, uneven.LocalPrivacy(2.0), price=0.1),
        uneven.Source("crowd", 3000, uneven.FlippedLabels(0.2)),
        uneven.Source("expert", 120),
    ]
    return uneven.plan(sources, 7, strategy=strategy, **options)


def fitted(folder, seed, epsilon):
    rng = np.random.default_rng(0)
    noises = {NASTY: uneven.LocalPrivacy(epsilon), "b": uneven.LocalPrivacy(1.0)}
    entries = []
    for k, (name, noise) in enumerate(noises.items()):
        X = rng.normal(size=(500, 4)) / 4
        rows = np.column_stack([X, X[:, 0] > 0])
        np.savetxt(folder / f"{k}.csv", rows, delimiter=",", header="p,q,<b>r</b>,s,y", comments="")
        entries.append(SourceEntry(uneven.Source(name, 500, noise), folder / f"{k}.csv"))
    write_sources(folder / "sources.toml", entries, label="y")
    return train(read_sources(folder / "sources.toml"), seed=seed, record=30)


@pytest.fixture(scope="session")
def reports(tmp_path_factory):
    """HTML of a report of every kind."""
    folder = tmp_path_factory.mktemp("fits")
    text = f"# {NASTY}"
    made = {
        f"plan-{name}": plan_report(plan, COMMAND, text)
        for name in uneven.planner.STRATEGIES
        for plan in [planned(name)]
    }
    made["plan-hinge"] = plan_report(planned(loss="hinge", moments="upper"), COMMAND)
    made["plan-one"] = plan_report(uneven.plan([uneven.Source("alone", 7)], 3), COMMAND)
    made["fit-private"] = fit_report(fitted(folder, None, 2.0), COMMAND, text)
    made["fit-simulated"] = fit_report(fitted(folder, 3, 2.0), COMMAND, text)
    made["demo"] = demo_report(run_demo(runs=2), COMMAND, text)
    return made

"""Reports of each kind."""

import sys
from pathlib import Path

import pytest

import uneven
from uneven.experiments import run_demo
from uneven.report import demo_report, fit_report, plan_report

sys.path.insert(0, str(Path(__file__).parent))

from reported import COMMAND, NASTY, fitted, fitted_beside_public, planned


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
    ledger = uneven.Ledger(budget=8.0)
    fitted(folder, None, 2.0, ledger)
    again = fitted(folder, None, 2.0, ledger)
    made["fit-private-again"] = fit_report(again, COMMAND, text, 8.0)
    made["fit-simulated"] = fit_report(fitted(folder, 3, 2.0), COMMAND, text)
    some = fitted_beside_public(folder, clinic=uneven.LocalPrivacy(8.0), survey=uneven.LocalPrivacy(0.01))
    made["fit-anchored"] = fit_report(some, COMMAND, text)
    made["fit-converged"] = fit_report(fitted_beside_public(folder), COMMAND, text)
    made["demo"] = demo_report(run_demo(runs=2), COMMAND, text)
    return made

"""What private rows are charged: by hand, for each kind of row, and all of it or nothing."""

import math

import numpy as np
import pytest

import uneven
from uneven import BudgetExceeded, Exact, LabelPrivacy, Ledger, LocalPrivacy
from uneven.training.charging import Account, Bill
from uneven.training.grouping import group_pieces

ROWS = {"clinic": 3, "survey": 2, "open": 4, "left": 5}
NOISES = {"clinic": LocalPrivacy(0.5), "survey": LabelPrivacy(1.0), "open": Exact(), "left": LocalPrivacy(2.0)}
IDS = np.arange(14)


def make_bill(times=1, used=("clinic", "survey", "open"), ids=IDS, **more):
    return Bill(group_pieces(ROWS, NOISES), ids, None, times, used, **more)


def test_rows_cost_each_release_and_labels_one():
    assert make_bill(times=3).costs == {"clinic": 1.5, "survey": 1.0}
    assert make_bill(used=()).costs == {}


def test_a_ledger_has_the_private_rows_in_use_and_no_others():
    ledger, account = Ledger(), Account()
    account.start(ledger)
    account.charge(make_bill(times=2))
    assert set(ledger.sources()) == {"clinic", "survey"}
    assert ledger.spent("clinic") == dict.fromkeys(range(3), 1.0)
    assert ledger.spent("survey") == dict.fromkeys(range(3, 5), 1.0)
    assert account.spent == {"clinic": 1.0, "survey": 1.0}
    assert account.changes == {"clinic": (0.0, 1.0), "survey": (0.0, 1.0), "left": (0.0, 0.0)}


def test_all_sources_are_charged_or_none():
    ledger, account = Ledger(), Account()
    ledger.charge("survey", IDS[3:4], 1.5)  # one row of the second source has too little left
    account.start(ledger)
    with pytest.raises(BudgetExceeded):
        account.charge(make_bill(budget=2.0))
    assert ledger.sources() == {"survey": 1}
    assert ledger.spent("survey") == {3: 1.5}
    assert account.spent == {}


def test_rows_that_cannot_be_told_apart_add_up_over_calls():
    """Any later row may be an earlier one; a call that is refused adds nothing."""
    account = Account()
    for spent in (0.5, 1.0):
        account.start(None)
        account.charge(make_bill(used=("clinic",), ids=None, budget=1.2))
        assert account.spent == {"clinic": spent}
    account.start(None)
    with pytest.raises(BudgetExceeded, match=r"they may have spent 1 in earlier fits of this model and need 0\.5"):
        account.charge(make_bill(used=("clinic",), ids=None, budget=1.2))
    assert account.spent == {"clinic": 1.0}


def test_one_call_beyond_the_budget_is_refused_by_what_it_costs():
    with pytest.raises(ValueError, match="budget must be at least 2, what a row of 'clinic' would spend, got 1"):
        Account().charge(make_bill(times=4, budget=1.0))


def test_noise_from_a_seed_is_charged_and_promises_nothing():
    ledger, account = Ledger(), Account()
    account.start(ledger)
    account.charge(make_bill(used=("clinic",), simulated=True))
    assert account.spent == {"clinic": math.inf}
    assert ledger.spent("clinic") == dict.fromkeys(range(3), 0.5)


def test_an_id_twice_among_private_rows_is_refused():
    twice = np.array([0, 1, 0, *range(3, 14)])
    with pytest.raises(
        ValueError, match=r"row_id .* must be distinct among the private rows of '.*', got 0 more than once"
    ):
        Account().charge(make_bill(ids=twice))


def test_a_budget_below_what_a_row_tells_is_refused_by_the_name_of_its_source():
    X, y = np.full((4, 1), 0.5), np.array([0, 1, 0, 1])
    clf = uneven.UnevenClassifier(budget=1.0, row_norm=1.0, classes=[0, 1], random_state=0)
    with pytest.raises(ValueError, match=r"budget must be at least 2, what a row of 'q' would spend, got 1\.0$"):
        clf.fit(X, y, source=["q"] * 4, epsilon=[1.0, 2.0, 1.0, 2.0])


def test_a_budget_counts_what_a_ledger_knows_and_what_it_does_not():
    """0.5 in a fit without a ledger, 0.8 in the ledger and 0.5 now are more than 1.5; no two of them are."""
    for known, refused in ((0.8, True), (0.4, False)):
        ledger, account = Ledger(), Account()
        account.start(None)
        account.charge(make_bill(used=("clinic",), ids=None, budget=1.5))
        ledger.charge("clinic", IDS[:1], known)
        account.start(ledger)
        if refused:
            with pytest.raises(BudgetExceeded):
                account.charge(make_bill(used=("clinic",), budget=1.5))
            assert ledger.spent("clinic") == {0: known}
        else:
            account.charge(make_bill(used=("clinic",), budget=1.5))
            assert account.spent == {"clinic": pytest.approx(1.4)}


def test_another_ledger_counts_on_top_of_the_one_before():
    """It does not know what the first one was charged, and its rows may be the same."""
    account = Account()
    for ledger, spent in ((Ledger(), 0.5), (Ledger(), 1.0)):
        account.start(ledger)
        account.charge(make_bill(used=("clinic",)))
        assert account.spent == {"clinic": spent}
        assert set(ledger.spent("clinic").values()) == {0.5}

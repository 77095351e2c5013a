"""Sources whose labels alone are private: a plan that is the one a fit runs, and a verdict on each."""

import math

import numpy as np
import pytest
from tests.training.test_ahead import draw_rows, write

from uneven import Exact, LabelPrivacy, LocalPrivacy, UnevenClassifier
from uneven.io import read_sources
from uneven.planner import Plan
from uneven.training.ahead import plan_ahead
from uneven.training.files import train_files
from uneven.valuation import value_file

NOISES = {
    "exact": '{ kind = "exact" }',
    "labels": '{ kind = "label-privacy", epsilon = 1.0 }',
    "more": '{ kind = "label-privacy", epsilon = 0.5 }',
    "rows": '{ kind = "local-privacy", epsilon = 4.0 }',
}
COUNTS = {"exact": 150, "labels": 4000, "more": 1000, "rows": 3000}


def read(tmp_path, names):
    """Sources of these names, each with a file of its own."""
    rng, lines = np.random.default_rng(0), ['label = "label"', "row_norm = 1.0"]
    for name in names:
        write(tmp_path / f"{name}.csv", *draw_rows(COUNTS[name], rng))
        lines += ["[[source]]", f'name = "{name}"', f'data = "{name}.csv"', f"noise = {NOISES[name]}"]
    (tmp_path / "sources.toml").write_text("\n".join(lines))
    return read_sources(tmp_path / "sources.toml")


@pytest.mark.parametrize(
    "names", [("labels",), ("labels", "exact"), ("rows", "labels", "exact"), ("exact", "labels", "more")]
)
def test_the_plan_is_the_one_that_a_fit_runs(tmp_path, names):
    file = read(tmp_path, names)
    planned, note = plan_ahead(file)
    ran = train_files(file, seed=0).plan
    for what in ("strategy", "converged", "order", "steps", "batch_sizes"):
        assert getattr(planned, what) == getattr(ran, what), what
    assert planned.summary().split(",")[0] == ran.summary().split(",")[0]
    assert {name: one.word for name, one in planned.verdicts.items()} == {
        name: one.word for name, one in ran.verdicts.items()
    }
    private = [name for name in names if name != "exact"] if "exact" in names else []
    assert sorted(planned.verdicts) == sorted(ran.verdicts) == sorted(private)
    assert "randomises" in note
    assert private or "there is no verdict, since all sources are private" in note


def test_a_verdict_counts_labels_by_what_they_are_worth():
    """A label released at ε is worth tanh²(ε/2) exact ones, and the excess falls like one over the rows."""
    X, y = draw_rows(4200)
    source = np.where(np.arange(4200) < 200, "exact", np.where(np.arange(4200) < 1200, "few", "many"))
    noise = {"exact": Exact(), "few": LabelPrivacy(1.0), "many": LabelPrivacy(2.0)}
    plan = UnevenClassifier(noise, row_norm=1.0, random_state=0).fit(X, y, source=source).plan_
    few, many = 1000 * math.tanh(0.5) ** 2, 3000 * math.tanh(1.0) ** 2
    verdicts = plan.verdicts
    assert verdicts["few"].excess / verdicts["few"].excess_without == pytest.approx((200 + many) / (200 + few + many))
    assert verdicts["many"].excess / verdicts["many"].excess_without == pytest.approx(200 / (200 + few + many))
    assert (verdicts["few"].others, verdicts["many"].others) == (0, 1)
    assert (verdicts["few"].word, verdicts["many"].word) == ("little", "worth it")
    assert Plan.from_dict(plan.to_dict()).verdicts == verdicts


def test_labels_that_are_worth_it_help():
    """Beside 60 exact rows: the log-loss on new rows is below that without them, and by about what was expected."""
    (X, y), seeds, found = draw_rows(4000, np.random.default_rng(9)), 12, []
    for seed in range(seeds):
        own, labels = draw_rows(2060, np.random.default_rng(seed))
        source = np.where(np.arange(2060) < 60, "exact", "labels")
        noise = {"exact": Exact(), "labels": LabelPrivacy(1.5)}
        both = UnevenClassifier(noise, row_norm=1.0, random_state=seed).fit(own, labels, source=source)
        alone = UnevenClassifier({"exact": Exact()}, row_norm=1.0).fit(own[:60], labels[:60])
        verdict = both.plan_.verdicts["labels"]
        assert verdict.word == "worth it"
        loss = [-np.log(one.predict_proba(X)[np.arange(len(y)), y]).mean() for one in (alone, both)]
        found.append((loss[0] - loss[1], verdict.excess_without - verdict.excess))
    measured, expected = np.array(found).T
    error = measured.std(ddof=1) / math.sqrt(seeds)
    assert measured.mean() > 3 * error
    assert 0.5 * (measured.mean() - 2 * error) < expected.mean() < 3 * (measured.mean() + 2 * error)


def test_the_verdict_on_other_private_rows_starts_from_the_labels(tmp_path):
    plan, _ = plan_ahead(read(tmp_path, ("exact", "labels", "rows")))
    labels, rows = plan.verdicts["labels"], plan.verdicts["rows"]
    assert rows.excess_without == pytest.approx(labels.excess, rel=1e-6)
    assert rows.accuracy_without == pytest.approx(labels.accuracy)
    told = [line for line in plan.summary().splitlines() if line.startswith(("'labels'", "'rows'"))]
    assert [line.split(":")[0] for line in told] == ["'labels'", "'rows'"]


def test_no_verdict_without_rows_that_may_be_looked_at():
    X, y = draw_rows(800)
    source = np.where(np.arange(800) < 400, "labels", "rows")
    noise = {"labels": LabelPrivacy(1.0), "rows": LocalPrivacy(4.0)}
    plan = UnevenClassifier(noise, row_norm=1.0, random_state=0).fit(X, y, source=source).plan_
    assert "labels" not in plan.verdicts


def test_no_excess_of_a_single_pass_beside_a_verdict(tmp_path):
    """What is learned to convergence has the verdict's excess; that of a pass by steps would be another."""
    plan, _ = plan_ahead(read(tmp_path, ("exact", "labels")))
    said = " ".join(plan.summary().split())
    assert "If the epsilon of 'labels' were 0.5 or 2 instead of 1: the order stays, a row of it is worth" in said
    assert "the excess is" not in said


@pytest.mark.parametrize("names", [("exact", "labels"), ("exact", "labels", "rows")])
def test_a_valuation_expects_what_the_plan_expects(tmp_path, names):
    """The excess with all that is owned, and a label's worth of tanh²(ε/2) exact ones; the noise as declared."""
    file = read(tmp_path, names)
    plan, _ = plan_ahead(file)
    found = value_file(file)
    last = plan.verdicts[names[-1]]
    assert found.bound == pytest.approx(last.excess, rel=1e-6)
    worths = {worth.name: worth for worth in found.worths}
    assert worths["labels"].exchange / worths["exact"].exchange == pytest.approx(math.tanh(0.5) ** 2, rel=1e-6)
    assert worths["labels"].noise == LabelPrivacy(1.0)

"""Sites through both doors: the same ledger and charge, the batch size, the anchor, and who is told what."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import log_loss

import uneven
from uneven import Exact, Ledger, LocalPrivacy, SitePrivacy, UnevenClassifier
from uneven.anchor.clock import compute_capped_excess, expected_excess
from uneven.anchor.shape import find_plain_coordinates
from uneven.anchor.uncertainty import fit_anchor
from uneven.engine import checked_chunk
from uneven.io import read_sources
from uneven.planner import Plan
from uneven.report.account import tell_protection
from uneven.report.statement import write_statement
from uneven.training import adding, save_model
from uneven.training.files import train_files

D = 3


def rows(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, (X[:, 0] + 0.3 * rng.normal(size=n) > 0).astype(int)


def fitted(noise, counts=(400, 4_000), seed=1, **settings):
    parts = [rows(n, k) for k, n in enumerate(counts)]
    X, y = (np.concatenate(part) for part in zip(*parts, strict=True))
    clf = UnevenClassifier(dict(zip("ab", noise, strict=True)), row_norm=1.0, random_state=seed, **settings)
    return clf.fit(X, y, source=np.repeat(["a", "b"], counts))


def write_files(folder, kind, extra=""):
    text = f'label = "y"\nrow_norm = 1.0\n{extra}'
    for k, (name, n, epsilon) in enumerate((("a", 400, 4.0), ("b", 4_000, 2.0))):
        X, y = rows(n, k)
        np.savetxt(folder / f"{name}.csv", np.column_stack([X, y]), delimiter=",", header="u,v,w,y", comments="")
        text += f'[[source]]\nname = "{name}"\ndata = "{name}.csv"\n'
        text += f'noise = {{ kind = "{kind}", epsilon = {epsilon} }}\n'
    (folder / "sources.toml").write_text(text)
    return read_sources(folder / "sources.toml")


@pytest.mark.parametrize("batch_size", ["auto", 70])
def test_both_doors_plan_charge_and_learn_alike(tmp_path, batch_size):
    extra = "" if batch_size == "auto" else f"batch_size = {batch_size}\n"
    file = train_files(write_files(tmp_path, "site-privacy", extra), seed=1)
    clf = fitted((SitePrivacy(4.0), SitePrivacy(2.0)), batch_size=batch_size)
    assert clf.plan_.batch_sizes == file.plan.batch_sizes
    assert set(clf.plan_.batch_sizes.values()) == {70} if batch_size == 70 else clf.plan_.batch_sizes["b"] != 50
    np.testing.assert_allclose(clf.coef_, file.model.coef, rtol=1e-6)
    assert any("This machine read the rows of 'a', 'b'" in note for note in clf.notes_)
    assert clf.notes_ == file.trained.notes


def test_charge_is_that_of_local_privacy_and_a_refusal_charges_nothing(tmp_path):
    for kind in ("site-privacy", "local-privacy"):
        (tmp_path / kind).mkdir()
        ledger = Ledger(tmp_path / kind / "ledger.db")
        file = write_files(tmp_path / kind, kind, "budget = 5.0\n")
        train_files(file, ledger=ledger)
        assert {name: ledger.max_spent(name) for name in ledger.sources()} == {"a": 4.0, "b": 2.0}
        with pytest.raises(uneven.BudgetExceeded):
            train_files(file, ledger=ledger)
        assert ledger.max_spent("b") == 2.0


def test_statement_and_report_tell_the_promises_apart(tmp_path):
    trained = train_files(write_files(tmp_path, "site-privacy"))
    save_model(trained.model, tmp_path / "model.json")
    text = write_statement(trained, tmp_path / "model.json", None)
    assert "| features and label, outside the site | l2-laplace once per batch, ε = 2 per release |" in text
    assert "Site privacy protects a row from everyone outside its site" in text
    assert "instead" not in text  # a statement is about what was done
    assert "This machine read the rows of 'a', 'b'" in text
    assert "Local privacy protects" not in text


def test_this_machine_is_named_for_all_private_rows_that_it_read(tmp_path):
    """Rows with local privacy too, where they are read here: their promise does not hold against this machine."""
    write_files(tmp_path, "site-privacy")
    text = (tmp_path / "sources.toml").read_text().replace("site-privacy", "local-privacy", 1)
    (tmp_path / "sources.toml").write_text(text)
    trained = train_files(read_sources(tmp_path / "sources.toml"))
    save_model(trained.model, tmp_path / "model.json")
    said = write_statement(trained, tmp_path / "model.json", None)
    assert "This machine read the rows of 'a', 'b' and is trusted with them" in said
    assert "from everyone except the machine that reads it" in said
    headline = tell_protection(trained)
    assert "'a' at ε = 4 and 'b' at ε = 2 (outside its site)" in headline


def test_less_noise_at_the_same_epsilon():
    """8 runs each: the site's weights are nearer to those without noise, by far."""
    exact = fitted((Exact(), Exact()), alpha=1e-2).coef_[0]
    gaps = {
        kind: np.mean([np.linalg.norm(fitted(noise, seed=s, alpha=1e-2).coef_[0] - exact) for s in range(8)])
        for kind, noise in {
            "site": (SitePrivacy(1.0), SitePrivacy(0.3)),
            "local": (LocalPrivacy(1.0), LocalPrivacy(0.3)),
        }.items()
    }
    assert gaps["site"] < 0.7 * gaps["local"]


def test_partial_fit_needs_a_number():
    (X, y), ids = rows(200, 0), np.arange(200)
    clf = UnevenClassifier(SitePrivacy(3.0), row_norm=1.0, random_state=0)
    with pytest.raises(ValueError, match="batch_size must be a number for partial_fit with site privacy"):
        clf.partial_fit(X, y, row_id=ids)
    clf = UnevenClassifier(SitePrivacy(3.0), row_norm=1.0, random_state=0, batch_size=40)
    assert clf.partial_fit(X, y, row_id=ids).partial_fit(X, y, row_id=ids + 200).coef_.shape == (1, D)
    assert any("and is trusted with them" in note for note in clf.notes_)
    clf = UnevenClassifier(SitePrivacy(3.0), row_norm=1.0, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="give batch_size a number"):
        clf.partial_fit(X, y, row_id=ids)


@pytest.mark.parametrize("size", ["auto", 70])
def test_passes_are_planned_as_they_are_run(size):
    """No batch is larger than the source, and each pass ends with a short one: the clock is that of the run."""
    (X, y), passes = rows(300, 0), 5
    clf = UnevenClassifier(SitePrivacy(0.05), row_norm=1.0, passes=passes, batch_size=size, random_state=0).fit(X, y)
    plan, (chosen,) = clf.plan_, clf.plan_.batch_sizes.values()
    assert chosen <= 300 if size == "auto" else chosen == size
    signs, Z = 2.0 * y - 1.0, np.pad(X, ((0, 0), (0, plan.problem.n_features - D)))
    state = uneven.fit(plan, {plan.order[0]: (Z, signs)}, seed=0, passes=passes).state
    assert (state.step, plan.steps) == (len(plan.step_moments()), passes * -(-300 // chosen))
    assert state.clock == pytest.approx(sum(1.0 / plan.step_moments()))
    assert state.clock == pytest.approx(plan.segments[0].precision)
    assert "5 passes, each row 5 times" in plan.summary()
    assert Plan.from_dict(plan.to_dict()) == plan
    with pytest.raises(ValueError, match="must be those of all 5 passes together, got 301"):
        uneven.Source("a", 301, passes=5)


@pytest.mark.parametrize("count", [1, 4, 9])
def test_a_site_of_few_rows_joins_the_anchor(count):
    clf = fitted((SitePrivacy(1.0), Exact()), counts=(count, 60), alpha=1e-2, use="all")
    assert clf.plan_.batch_sizes["a"] <= count
    assert np.isfinite(clf.coef_).all()


def test_rows_that_measure_the_site_take_no_step(monkeypatch):
    """Added to an anchor, each row of a site is released once, in the measurement or in a step."""
    used, turned = [], adding._turned

    def recording(chunk, *rest):
        used.append(np.array(chunk.X[:, :D]))
        return turned(chunk, *rest)

    monkeypatch.setattr(adding, "_turned", recording)
    fitted((Exact(), SitePrivacy(1.0)), counts=(60, 6_000), alpha=1e-2, use="all", fit_intercept=False)
    assert len(used) > 1
    np.testing.assert_allclose(np.sort(np.concatenate(used)[:, 0]), np.sort(rows(6_000, 1)[0][:, 0]), rtol=1e-5)


def test_rows_in_other_coordinates_are_clipped_by_their_length_there():
    """Gradients of norm at most C are what the noise is made for: a row that became longer is known to be."""
    X, y = rows(50, 0)
    coordinates = find_plain_coordinates(fit_anchor(X, 2.0 * y - 1.0, alpha=0.05))
    longer = replace(coordinates, transform=3.0 * coordinates.transform)
    chunk = checked_chunk(("a",), X, 2.0 * y - 1.0, np.arange(50))
    turned = adding._turned(chunk, longer.transform, "a")
    np.testing.assert_allclose(turned.squares, np.square(X @ longer.transform.T).sum(axis=1), rtol=1e-5)
    assert turned.squares.min() > 2.0


def test_sites_join_the_anchor():
    """Public rows and a site: a verdict, a batch size of its own, the other promise, and a plan that can be stored."""
    clf = fitted((Exact(), SitePrivacy(1.0)), counts=(60, 6_000), alpha=1e-2)
    plan = clf.plan_
    assert plan.strategy == "anchored"
    assert plan.batch_sizes["b"] > 50
    assert plan.verdicts["b"].word == "worth it"
    other = plan.other_promises()["b"]
    assert other.kind == "local-privacy"
    assert other.then > other.now == plan.anchored.excess
    assert Plan.from_dict(plan.to_dict()) == plan
    assert any("'b': no clear disagreement with the public rows" in note for note in clf.notes_)
    assert any("This machine read the rows of 'b'" in note for note in clf.notes_)
    local = fitted((Exact(), LocalPrivacy(1.0)), counts=(60, 6_000), alpha=1e-2).plan_
    assert local.anchored.excess > plan.anchored.excess
    assert local.other_promises()["b"].then == pytest.approx(plan.anchored.excess, rel=1e-6)


def test_capped_excess_is_theorem_d_where_no_step_is_too_long():
    X, y = rows(300, 0)
    coordinates = find_plain_coordinates(fit_anchor(X, 2.0 * y - 1.0, alpha=0.05))
    clock = 1e3
    diagonal = np.diag(coordinates.covariance)
    free = replace(coordinates, longest_step=np.inf, covariance=np.diag(diagonal), clip_shift=0.0 * diagonal)
    for steps in (1, 10, 200):
        assert compute_capped_excess(free, clock / steps, steps) == pytest.approx(
            expected_excess(free, clock), rel=1e-9
        )
    tight = replace(free, longest_step=1e-3)
    assert compute_capped_excess(tight, clock / 10, 10) > 1.01 * expected_excess(free, clock)
    error, h = diagonal, tight.curvature
    for step in range(1, 11):  # σ² = 10/clock, step after step
        eta = np.minimum(clock / 10 / (1 / (diagonal * h) + h * step * clock / 10), 1e-3)
        error = (1 - eta * h) ** 2 * error + eta**2 * 10 / clock
    assert compute_capped_excess(tight, clock / 10, 10) == pytest.approx(np.diag(tight.hessian) @ error / 2, rel=1e-9)


def test_what_is_said_of_accuracy_holds_beside_few_public_rows():
    """Four public rows a column, 50,000 at a site: with two it was said to be 0.17 more than it is."""
    off = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X, w = rng.normal(size=(55_200, 50)), rng.normal(size=50) / 4
        y = (X @ w + rng.logistic(size=len(X)) > 0).astype(int)
        rows, source = slice(0, 50_200), np.where(np.arange(50_200) < 200, "open", "site")
        noise = {"open": Exact(), "site": SitePrivacy(3.0)}
        clf = UnevenClassifier(noise, row_norm=12.0, random_state=seed).fit(X[rows], y[rows], source=source)
        off.append(clf.plan_.verdicts["site"].accuracy[0] - clf.score(X[50_200:], y[50_200:]))
    assert abs(np.mean(off)) < 3 * 0.033 / 2  # the leave-one-out accuracy of 200 rows has a standard error of 0.033


def test_a_start_of_few_rows_is_doubted_less_where_steps_are_few():
    """At most three times the excess that is likely of it: the same public rows, beside both kinds of privacy."""
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(50_060, 30)) / 30**0.5, 2.0 * rng.normal(size=30)
    y, source = (X @ w + rng.logistic(size=len(X)) > 0).astype(int), np.where(np.arange(50_060) < 60, "open", "other")
    site, local = (
        UnevenClassifier({"open": Exact(), "other": noise}, row_norm=3.0, alpha=1e-4, random_state=0, use="all")
        .fit(X, y, source=source)
        .plan_.verdicts["other"]
        .excess_without
        for noise in (SitePrivacy(3.0), LocalPrivacy(3.0))
    )
    assert site < 0.9 * local


@pytest.mark.filterwarnings("ignore:.*")
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_rows_of_one_distribution_are_not_said_to_disagree_where_steps_are_few(epsilon):
    """20 public rows in 8 columns, and the test promises 0.1%: two or more alarms in 30 fits have a chance of 0.04%."""
    found = 0
    for seed in range(30):
        rng = np.random.default_rng(5_000 + seed)
        X, w = rng.normal(size=(10_020, 8)), rng.normal(size=8)
        y = (X @ (2.0 * w / np.linalg.norm(w)) + 1.0 + rng.logistic(size=len(X)) > 0).astype(int)
        noise, source = (
            {"open": Exact(), "site": SitePrivacy(epsilon)},
            np.where(np.arange(len(X)) < 20, "open", "site"),
        )
        longest = float(np.quantile(np.linalg.norm(X[:20], axis=1), 0.99))
        clf = UnevenClassifier(noise, row_norm=longest, random_state=seed, classes=[0, 1]).fit(X, y, source=source)
        found += any("disagrees" in note for note in clf.notes_)
    assert found < 2


@pytest.mark.filterwarnings("ignore:.*")
@pytest.mark.parametrize("sites", [1, 20])
def test_a_few_public_rows_beside_many_sites_are_hardly_worse_than_the_private_rows_alone(sites):
    """Sites of 250 rows: where a whole batch measured whether a site agrees, most of them had no row left to step.

    Log-loss on fresh rows, over six draws.
    """
    losses = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X, w = rng.normal(size=(10_015, 8)), rng.normal(size=8)
        y = (X @ (2.0 * w / np.linalg.norm(w)) + 1.0 + rng.logistic(size=len(X)) > 0).astype(int)
        rows, names = slice(0, 5_015), [f"site {k}" for k in range(sites)]
        source = np.array(["open"] * 15 + [names[k % sites] for k in range(5_000)])
        longest = float(np.quantile(np.linalg.norm(X[:15], axis=1), 0.99))
        private, settings = dict.fromkeys(names, SitePrivacy(1.0)), {"random_state": seed, "classes": [0, 1]}
        both = UnevenClassifier({"open": Exact(), **private}, row_norm=longest, **settings)
        alone = UnevenClassifier(private, row_norm=longest, **settings)
        both.fit(X[rows], y[rows], source=source), alone.fit(X[15:5_015], y[15:5_015], source=source[15:])
        losses.append([log_loss(y[5_015:], one.predict_proba(X[5_015:])) for one in (both, alone)])
    ours, theirs = np.mean(losses, axis=0)
    assert ours < theirs + 0.015

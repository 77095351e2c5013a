"""What data is worth is said of the very fit that `uneven fit` would run."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tests.training.test_ahead import draw_file
from tests.training.test_doors import LABELS, draw_case, write_files

import uneven
from uneven.anchor import choose_alpha
from uneven.io import read_sources
from uneven.planner import make_plan
from uneven.training import convergence, read_scale
from uneven.training.files import train_files
from uneven.valuation import value_file

pytestmark = pytest.mark.filterwarnings("ignore:.*were shrunk")


@pytest.mark.parametrize("seed", [*range(40), 57, 59, 73, 87])
def test_random_files_are_valued_for_the_fit_that_is_run(tmp_path, seed):
    """Problem, strategy and moments are those of the fit's plan; so is the bound, or else it is said why not."""
    file = draw_file(tmp_path, seed)
    found, ran = value_file(file, more=1), train_files(file, seed=seed).plan
    assert found.problem == ran.problem
    if ran.anchored is not None:
        assert found.theorem == "Theorem D"
        assert found.bound == pytest.approx(ran.anchored.excess, rel=1e-9)
        return
    assert (found.strategy, found.moments) == (ran.strategy, ran.moments)
    once = make_plan(found.owned, found.problem, ran.strategy, ran.moments)
    assert ran.bound == once.bound or any(ran.void in caveat for caveat in found.caveats)
    if found.anchored:  # a prediction, where no theorem covers the plan or it chose the batch sizes
        assert once.void or any(source.noise.once_a_batch for source in found.owned)
        assert found.bound == once.predicted_excess
    else:
        assert (found.theorem, found.bound) == (once.theorem, min(once.bound, once.problem.ball**2))
    assert any("learns these rows to convergence" in caveat for caveat in found.caveats) == bool(ran.converged)


def write_rates(folder, rest, settings, offer=""):
    """Rows of a crowd with flip rates of their own, and a second half of another noise, or of the crowd too."""
    rng = np.random.default_rng(0)
    X = 4 * rng.normal(size=(1200, 3))
    y = np.where(X[:, 0] + rng.logistic(size=1200) > 0, "ill", "well")
    source = np.where((np.arange(1200) < 600) & (rest is not None), "clinic", "crowd")
    rate = np.where(source == "crowd", rng.choice([0.05, 0.3], 1200), np.nan)
    settings = {"classes": ["ill", "well"], "row_norm": 20.0, **settings}
    write_files(folder, X, y, source, {} if rest is None else {"clinic": rest}, settings, own=(rate, "flip_rate"))
    path = folder / "sources.toml"
    path.write_text(f'features = ["x0", "x1", "x2"]\n{path.read_text()}{offer}')
    return read_sources(path)


@pytest.mark.parametrize("rest", [None, uneven.Exact(), uneven.LocalPrivacy(4.0)])
@pytest.mark.parametrize("settings", [{}, {"use": "all"}, {"strategy": "precision"}, {"row_norm": "auto"}])
def test_rows_with_flip_rates_of_their_own_are_valued_for_the_fit_that_is_run(tmp_path, rest, settings):
    file = write_rates(tmp_path, rest, settings)
    found, ran = value_file(file, more=1), train_files(file, seed=0).plan
    assert found.problem == ran.problem
    if ran.anchored is not None:
        assert found.bound == pytest.approx(ran.anchored.excess, rel=1e-9)


def test_rows_with_flip_rates_of_their_own_are_read_beside_an_offer(tmp_path):
    """An offer has no file to read from; the levels of the owned rows are read all the same, and alpha is theirs."""
    alone = value_file(write_rates(tmp_path, None, {}))
    file = write_rates(tmp_path, None, {}, OFFERS.partition('[[source]]\nname = "survey"')[0])
    found = value_file(file)
    assert found.problem.alpha == pytest.approx(alone.problem.alpha, rel=1 / 1200)  # the offer counts one row
    assert replace(found.problem, alpha=alone.problem.alpha) == alone.problem
    assert [one.noise for one in found.owned] == [one.noise for one in alone.owned]


@pytest.mark.parametrize("setting", ["alpha", "loss", "strategy", "class_weight", "clip", "passes", "moments"])
def test_each_setting_of_a_fit_changes_its_valuation(tmp_path, setting):
    X, y, _, _, _ = draw_case(1)
    y = np.where(X[:, 0] > 0, "ill", "well")
    noise = {"b": uneven.LocalPrivacy(2.0), "a": uneven.FlippedLabels(0.2)}
    usual = {"row_norm": 9.0, "strategy": "precision", "classes": ["ill", "well"], "alpha": 0.01}
    other = {"alpha": 0.02, "loss": "linear", "strategy": "two-rates", "class_weight": {"ill": 2.0}, "clip": 0.2}
    other |= {"passes": 2, "moments": "upper"}
    source = np.where(np.arange(len(y)) < len(y) // 2, "b", "a")
    found = []
    for k, settings in enumerate((usual, {**usual, setting: other[setting]})):
        (tmp_path / str(k)).mkdir()
        found.append(value_file(write_files(tmp_path / str(k), X, y, source, noise, settings)))
    if setting == "passes":
        assert "each row is used 2 times" in found[1].caveats[0]
    else:
        assert found[0].bound != found[1].bound


OFFERS = (
    '[[source]]\nname = "panel"\nrows = 10_000\nprice = 0.01\nnoise = { kind = "flipped-labels", rate = 0.3 }\n'
    '[[source]]\nname = "survey"\nrows = 10_000\nprice = 0.01\nnoise = { kind = "local-privacy", epsilon = 4.0 }\n'
)


@pytest.mark.parametrize("strategy", ["auto", "precision", "arbitrary", "clean-only"])
def test_rows_on_offer_are_not_read(tmp_path, monkeypatch, strategy):
    """The problem is that of the owned rows; alpha is chosen on them alone, beside sources that only have a price."""
    X, y, _, _, _ = draw_case(1)
    y = np.where(X[:, 0] + np.random.default_rng(0).normal(size=len(y)) > 0, "ill", "well")
    settings = {"row_norm": 9.0, "strategy": strategy, "classes": ["ill", "well"]}
    write_files(tmp_path, X, y, np.full(len(y), "mine"), {"mine": uneven.Exact()}, settings)
    path = tmp_path / "sources.toml"
    path.write_text(path.read_text() + OFFERS)
    seen = []
    choose = lambda problem, rows, *rest, **named: (seen.extend(rows), choose_alpha(problem, rows, *rest, **named))[1]  # noqa: E731
    monkeypatch.setattr(convergence, "choose_alpha", choose)
    found = value_file(read_sources(path), budget=100.0)
    assert [rows.count for rows in seen] == ([len(y)] if strategy == "auto" else [])
    assert found.anchored == (strategy == "auto")
    assert found.problem.n_features == X.shape[1] + 1
    scale = read_scale(9.0, True, True)
    usual = scale.alpha(scale.usual_alpha("auto"))
    assert usual == pytest.approx(1e-3 / (1 + 0.25**2), rel=1e-5)
    assert found.problem.alpha == usual or (strategy == "auto" and found.problem.alpha < usual)
    assert found.bound <= found.bound_before
    if strategy in (
        "arbitrary",
        "clean-only",
    ):  # noisier rows than those owned: to mix them in costs, or brings nothing
        assert found.purchases == ()


def test_private_labels_are_valued_without_being_read(tmp_path):
    X, y, _, _, _ = draw_case(1)
    noise, source = {"b": LABELS[0], "a": uneven.Exact()}, np.where(np.arange(len(y)) < 90, "b", "a")
    settings = {"row_norm": 9.0, "classes": np.unique(y).tolist()}
    before = value_file(write_files(tmp_path, X, y, source, noise, settings))
    others = np.where(source == "b", y[0], y)
    assert value_file(write_files(tmp_path, X, others, source, noise, settings)) == before


def test_flip_rates_are_estimated_from_owned_rows(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 3))
    truth = np.where(X[:, 0] > 0, 1, 0)
    crowd = np.arange(3000) >= 1500
    y = np.where(crowd & (rng.random(3000) < 0.2), 1 - truth, truth)
    noise = {"expert": uneven.Exact(), "crowd": uneven.FlippedLabels("estimate")}
    found = value_file(write_files(tmp_path, X, y, np.where(crowd, "crowd", "expert"), noise, {}))
    (rate,) = [worth.noise.rate for worth in found.worths if worth.name == "crowd"]
    assert rate == pytest.approx(0.2, abs=4 * (0.2 * 0.8 / 1500) ** 0.5)


def test_sites_are_valued_at_the_batch_sizes_of_the_fit(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (3000, 3))
    y = np.where(rng.random(3000) < 1 / (1 + np.exp(-X @ [5.0, -4.0, 0.0])), 1, 0)
    noise = {"site": uneven.SitePrivacy(1.0), "mine": uneven.Exact()}
    source = np.where(np.arange(3000) < 2900, "site", "mine")
    file = write_files(tmp_path, X, y, source, noise, {"row_norm": 1.0, "use": "all"})
    ran = train_files(file, seed=0).plan
    assert ran.batch_sizes["site"] != 50
    assert value_file(file).bound == pytest.approx(ran.anchored.excess, rel=1e-9)


@pytest.mark.slow
def test_more_exact_rows_are_worth_what_a_fit_with_them_gains(tmp_path):
    """All rows without privacy, and 900 more for sale: the excess of fits with 300 and 1,200, over 20 draws.

    The expected excess is within 4 standard errors of the mean that fresh rows show, and a quarter of it: V₀ errs on
    the large side.
    """
    truth, alpha, figures = np.array([12.0, -8.0, 4.0]), 1e-3, []

    def draw(n, rng):
        X = rng.uniform(-0.5, 0.5, (n, 3))
        return X, np.where(rng.random(n) < 1 / (1 + np.exp(-X @ truth)), 1, -1)

    def fit(X, y):
        return uneven.UnevenClassifier(alpha=alpha, row_norm=1.0, fit_intercept=False).fit(X, y)

    X, y = draw(100_000, np.random.default_rng(99))

    def objective(clf):
        w = clf.coef_[0]
        return np.logaddexp(0, -y * (X @ w)).mean() + alpha / 2 * w @ w

    best = objective(fit(X, y))
    head = f'label = "y"\nrow_norm = 1.0\nfit_intercept = false\nalpha = {alpha}\n'
    exact = 'noise = { kind = "exact" }\n'
    offer = f'[[source]]\nname = "more"\nrows = 900\nprice = 1.0\n{exact}'
    (tmp_path / "sources.toml").write_text(f'{head}[[source]]\nname = "mine"\ndata = "mine.csv"\n{exact}{offer}')
    for seed in range(20):
        rows, labels = draw(1_200, np.random.default_rng(seed))
        pd.DataFrame(rows[:300]).assign(y=labels[:300]).to_csv(tmp_path / "mine.csv", index=False)
        found = value_file(read_sources(tmp_path / "sources.toml"), budget=900.0)
        few, many = (objective(fit(rows[:n], labels[:n])) - best for n in (300, 1_200))
        figures.append([found.bound_before, few, found.bound, many])
    assert [(one.source, one.rows) for one in found.purchases] == [("more", 900)]
    for expected, refitted in np.array(figures).T.reshape(2, 2, -1):
        error = refitted.std(ddof=1) / 20**0.5
        assert abs(expected.mean() - refitted.mean()) < 4 * error + 0.25 * refitted.mean()


def value_beside(folder, offer, rows=500):
    """The valuation of exact rows in a file whose scale comes from them, beside an offer of some noise."""
    X, y, _, _, _ = draw_case(1)
    y = np.where(X[:, 0] + np.random.default_rng(0).normal(size=len(y)) > 0, 1, 0)
    write_files(folder, X, y, np.full(len(y), "mine"), {"mine": uneven.Exact()}, {})
    path = folder / "sources.toml"
    sold = f'[[source]]\nname = "sold"\nrows = {rows}\nprice = 0.1\nnoise = {offer}\n'
    path.write_text(path.read_text() + (sold if offer else ""))
    return value_file(read_sources(path), budget=10.0)


EXACT, FLIPPED = '{ kind = "exact" }', '{ kind = "flipped-labels", rate = 0.3 }'


@pytest.mark.parametrize("offer", [EXACT, FLIPPED])
def test_rows_without_privacy_on_offer_leave_the_scale_to_the_owned_ones(tmp_path, offer):
    """Where no row is private the scale is that of the rows, and only owned ones are read."""
    alone, beside = (value_beside(tmp_path, one).problem for one in ("", offer))
    assert (beside.norms, beside.eigenvalue, beside.n_features) == (alone.norms, alone.eigenvalue, alone.n_features)
    assert beside.norms == "rms"


@pytest.mark.parametrize("offer", [EXACT, FLIPPED, '{ kind = "local-privacy", epsilon = 2.0 }'])
def test_the_problem_does_not_depend_on_how_many_rows_are_on_offer(tmp_path, offer):
    """Alpha is that of the rows that are owned, and of one row on offer."""
    few, many = (value_beside(tmp_path, offer, rows).problem for rows in (1, 50_000))
    assert few == many


def test_a_flip_rate_on_offer_is_not_estimated(tmp_path):
    with pytest.raises(ValueError, match=r"source 'sold': rate must be a number for rows on offer.*; got 'estimate'"):
        value_beside(tmp_path, '{ kind = "flipped-labels", rate = "estimate" }')

"""What is known before any ε is spent: plans and anchors from the rows without privacy alone."""

import numpy as np
import pytest
from tests.training.test_doors import LABELS, draw_case, write_files, write_shared

import uneven
from uneven.io import read_sources
from uneven.report import sections
from uneven.training.ahead import plan_ahead, value_ahead
from uneven.training.files import train_files
from uneven.training.scaling import read_scale
from uneven.valuation import value_file

PRIVATE = '[[source]]\nname = "private"\nnoise = { kind = "local-privacy", epsilon = 3.0 }\n'
PUBLIC = '[[source]]\nname = "public"\nnoise = { kind = "exact" }\n'


def draw_rows(n, rng=None):
    rng = np.random.default_rng(0) if rng is None else rng
    X = rng.uniform(-0.5, 0.5, (n, 3))
    return X, np.where(rng.random(n) < 1 / (1 + np.exp(-X @ [5.0, -4.0, 0.0])), 1, 0)


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return *draw_rows(3000, rng), np.where(rng.random(3000) < 0.1, "public", "private")


def write(path, X, y, names=None):
    head = "a,b,c,label" + ("" if names is None else ",who")
    lines = [",".join(f"{x:.6f}" for x in row) + f",{label}" for row, label in zip(X, y, strict=True)]
    lines = lines if names is None else [f"{line},{name}" for line, name in zip(lines, names, strict=True)]
    path.write_text("\n".join([head, *lines]) + "\n")


@pytest.fixture
def shared(tmp_path, rows):
    write(tmp_path / "all.csv", *rows)
    head = 'label = "label"\nrow_norm = 1.0\ndata = "all.csv"\nsource_column = "who"\n'
    (tmp_path / "sources.toml").write_text(head + PRIVATE + PUBLIC)
    return tmp_path / "sources.toml"


def test_sources_that_share_a_file_are_planned_as_they_are_fitted(shared):
    file = read_sources(shared)
    planned, note = plan_ahead(file)
    ran = train_files(file, seed=0).plan
    assert planned.strategy == ran.strategy == "anchored"
    assert note.startswith("planned as 'uneven fit' runs it")
    for one, other in zip(planned.verdicts.values(), ran.verdicts.values(), strict=True):
        assert one.word == other.word
        assert (one.excess, one.excess_without) == pytest.approx((other.excess, other.excess_without), rel=1e-6)


@pytest.mark.parametrize("alpha", ['"auto"', "0.003"])
def test_one_file_has_one_alpha(shared, alpha):
    """That of rows and class weights as given, which is what the file takes."""
    top = f"alpha = {alpha}\nclasses = [0, 1]\nclass_weight = {{ 0 = 1.0, 1 = 30.0 }}\n"
    shared.write_text(top + shared.read_text().replace("row_norm = 1.0", "row_norm = 3.0"))
    file = read_sources(shared)
    fitted, planned, valued = train_files(file, seed=0), plan_ahead(file)[0], value_file(file)
    shown = f"alpha = {fitted.model.alpha:.3g},"
    for text in (planned.summary(), fitted.plan.summary(), valued.summary()):
        assert shown in text
    assert f"L2 strength {fitted.model.alpha:.3g}, " in sections.show_sources(planned)
    assert planned.verdicts["private"].excess == pytest.approx(fitted.plan.verdicts["private"].excess, rel=1e-6)
    assert valued.bound == pytest.approx(planned.anchored.excess, rel=1e-6)


def test_no_value_of_a_private_row_changes_the_plan(shared, rows):
    before = plan_ahead(read_sources(shared))[0]
    X, y, names = rows
    private = names == "private"
    write(shared.parent / "all.csv", np.where(private[:, None], -X, X), np.where(private, 1, y), names)
    assert plan_ahead(read_sources(shared))[0] == before


def test_rows_that_are_not_owned_do_not_anchor(tmp_path, rows):
    write(tmp_path / "rows.csv", *rows[:2])
    path = tmp_path / "sources.toml"
    mine, sold = ('data = "rows.csv"\n' + one for one in ("", "price = 1.0\n"))
    private = PRIVATE + "rows = 500\nprice = 0.1\n"
    path.write_text('label = "label"\nrow_norm = 1.0\n' + PUBLIC + mine + private)
    ahead = value_ahead(read_sources(path))
    assert (len(ahead.anchor.y), ahead.problem.n_features) == (3000, 4)
    path.write_text('label = "label"\nrow_norm = 1.0\n' + PUBLIC + sold + private)
    assert value_ahead(read_sources(path)).anchor is None
    path.write_text('label = "label"\nrow_norm = 1.0\n' + PUBLIC + sold)
    ahead = value_ahead(read_sources(path))
    assert ahead.anchor is None
    assert ahead.notes[0].startswith("Valued by steps alone (sources with a price count as not owned")
    assert "as 'uneven fit' runs it" not in ahead.notes[0]


def draw_file(folder, seed):
    """Random files, or one that all sources share; without private labels, which a fit releases before it plans."""
    X, y, source, noise, settings = draw_case(seed)
    noise = {name: uneven.LocalPrivacy(2.0) if one in LABELS else one for name, one in noise.items()}
    write = write_shared if seed % 3 == 0 else write_files
    return write(folder, X, y, source, noise, settings)


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.filterwarnings("ignore:.*were shrunk")
def test_the_plan_of_random_files_is_the_one_that_a_fit_runs(tmp_path, seed):
    """No private row has to be read for it: their number, what is stated and the rows without privacy are enough."""
    file = draw_file(tmp_path, seed)
    planned, ran = plan_ahead(file)[0], train_files(file, seed=seed).plan
    np.testing.assert_array_equal(planned.step_sizes(), ran.step_sizes())
    assert planned == ran


@pytest.mark.parametrize("kind", ["epsilon", "flip_rate"])
@pytest.mark.parametrize("public", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_rows_that_tell_their_own_noise_are_planned_as_they_are_fitted(tmp_path, kind, public, seed):
    """Beside exact rows and beside private ones, in a file for each source."""
    rng = np.random.default_rng(seed)
    X, y = rng.uniform(-0.5, 0.5, (900, 3)), rng.integers(0, 2, 900)
    source = np.repeat(["z", "b"], [300, 600])
    levels = np.where(source == "b", rng.choice([0.4, 3.0, 0.2] if kind == "epsilon" else [0.0, 0.1, 0.3], 900), np.nan)
    noise = {"z": uneven.Exact() if public else uneven.LocalPrivacy(1.0)}
    settings = {"row_norm": 1.0, "classes": [0, 1]}
    file = write_files(tmp_path, X, y, source, noise, settings, own=(levels, kind))
    planned, note = plan_ahead(file)
    ran = train_files(file, seed=seed).plan
    assert planned == ran
    assert len(planned.sources) == 4
    assert "exact" not in note


@pytest.mark.parametrize("kind", ["epsilon", "flip_rate"])
def test_rows_of_a_shared_file_that_tell_their_own_noise_are_planned_as_they_are_fitted(tmp_path, rows, kind):
    X, y, names = rows
    levels = np.random.default_rng(0).choice([0.1, 0.3], len(y))
    lines = [
        ",".join(map(str, [*x, label, who, level])) for x, label, who, level in zip(X, y, names, levels, strict=True)
    ]
    (tmp_path / "all.csv").write_text("\n".join(["a,b,c,label,who,own", *lines]) + "\n")
    head = 'label = "label"\nrow_norm = 1.0\ndata = "all.csv"\nsource_column = "who"\nclasses = [0, 1]\n'
    told, other = (("private", PUBLIC), ("public", PRIVATE))[kind == "flip_rate"]
    (tmp_path / "sources.toml").write_text(head + f'[[source]]\nname = "{told}"\n{kind} = "own"\n' + other)
    file = read_sources(tmp_path / "sources.toml")
    assert plan_ahead(file)[0] == train_files(file, seed=0).plan


@pytest.mark.parametrize("public", [True, False])
def test_activity_of_three_private_classes_is_planned_as_it_is_run(tmp_path, public):
    """Gradients of K classes are √(2 - 2/K) times as long as those of two: an activity of .577 for K = 3, not of .5."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-0.5, 0.5, (400, 3)), rng.choice(["a", "b", "c"], 400)
    noise = {"z": uneven.LocalPrivacy(3.0), "b": uneven.Exact() if public else uneven.LocalPrivacy(1.0)}
    settings = {"row_norm": 1.0, "classes": ["a", "b", "c"], "use": "all"}
    file = write_files(tmp_path, X, y, np.repeat(["z", "b"], 200), noise, settings)
    planned, ran = plan_ahead(file)[0], train_files(file, seed=0).plan
    assert [one.noise.activity for one in planned.sources if one.noise.private] == pytest.approx(
        [0.5 * (2 - 2 / 3) ** 0.5] * (2 - public)
    )
    assert planned == ran


@pytest.mark.parametrize("only", [0, 1])
def test_public_rows_of_one_class_are_planned_as_they_are_fitted(tmp_path, rows, only):
    """Private labels that are 0 and 1, or -1 and 1, need no stated classes; the plan reads none of them."""
    X, y, names = rows
    y = np.where(names == "public", only, y)
    noise = {"public": uneven.Exact(), "private": uneven.LocalPrivacy(3.0)}
    file = write_files(tmp_path, X, y, names, noise, {"row_norm": 1.0})
    planned, ran = plan_ahead(file)[0], train_files(file, seed=0).plan
    assert planned == ran
    assert value_ahead(file).problem == ran.problem


def test_private_labels_are_planned_by_the_steps_that_a_fit_runs(tmp_path):
    X, y, _, _, _ = draw_case(0)
    noise = {"b": uneven.LabelPrivacy(2.0), "a": uneven.FlippedLabels(0.2)}
    settings = {"row_norm": 9.0, "strategy": "precision", "classes": np.unique(y).tolist()}
    file = write_files(tmp_path, X, y, np.where(np.arange(len(y)) < 50, "b", "a"), noise, settings)
    planned, note = plan_ahead(file)
    assert planned == train_files(file, seed=0).plan
    assert note.startswith("planned as 'uneven fit' runs it")


def test_class_weights_count_where_no_rows_are_read(tmp_path):
    """They are divided by the largest, and alpha with them, as in a fit (`scale_problem`)."""
    path = tmp_path / "sources.toml"
    path.write_text("n_features = 2\nalpha = 0.01\nclass_weight = { 0 = 1.0, 1 = 4.0 }\n" + PUBLIC + "rows = 100\n")
    problem = plan_ahead(read_sources(path))[0].problem
    assert (problem.class_weights, problem.alpha) == ((0.25, 1.0), 0.0025)


@pytest.mark.parametrize("kind", ["epsilon", "flip_rate"])
@pytest.mark.parametrize("setting", [{"sketch": 2}, {"class_weight": "balanced"}])
def test_rows_that_all_tell_their_own_noise_are_planned_or_refused_as_they_are_fitted(tmp_path, kind, setting):
    """A sketch needs private rows, and balanced weights others: what rows tell decides, not what sources declare."""
    rng = np.random.default_rng(0)
    X, y, levels = rng.uniform(-0.5, 0.5, (300, 3)), rng.integers(0, 2, 300), rng.choice([0.1, 0.3], 300)
    settings = {"row_norm": 1.0, "classes": [0, 1], **setting}
    file = write_files(tmp_path, X, y, np.full(300, "b"), {}, settings, own=(levels, kind))
    if (kind == "epsilon") == ("sketch" in setting):
        assert plan_ahead(file)[0] == train_files(file, seed=0).plan
        return
    for look in (plan_ahead, lambda one: train_files(one, seed=0), value_ahead):
        with pytest.raises(ValueError, match=f"{next(iter(setting))} must be None or"):
            look(file)


def test_a_sketch_is_not_refused_where_the_file_of_private_rows_is_not_there(tmp_path):
    path = tmp_path / "sources.toml"
    path.write_text('n_features = 9\nrow_norm = 1.0\nsketch = 2\n[[source]]\nname = "b"\nrows = 500\nepsilon = "own"\n')
    assert plan_ahead(read_sources(path))[1].startswith("planned as if rows with noise levels of their own were exact")


@pytest.mark.parametrize("head", ["", "row_norm = 1.0\n"])
@pytest.mark.parametrize(("more", "said"), [("", True), ('strategy = "precision"\n', False), ("passes = 2\n", False)])
def test_a_plan_without_files_says_that_a_fit_learns_public_rows_to_convergence(tmp_path, head, more, said):
    """With the files it is another plan, but where steps are asked for."""
    path = tmp_path / "sources.toml"
    path.write_text("n_features = 3\n" + head + more + PUBLIC + "rows = 300\n" + PRIVATE + "rows = 2000\n")
    file = read_sources(path)
    plan, note = plan_ahead(file)
    assert plan.strategy == "precision"
    assert note.startswith("planned by steps alone, since no rows were read") == said
    assert ("for rows in the unit ball" in note.lower()) == (not head)
    assert ("as 'uneven fit' runs it" in note) == (bool(head) and not said)
    assert any(one.startswith("Planned by steps alone, since no rows") for one in value_ahead(file).notes) == said


def test_a_plan_of_private_rows_without_files_is_the_one_that_a_fit_runs(tmp_path):
    path = tmp_path / "sources.toml"
    path.write_text("n_features = 3\nrow_norm = 1.0\n" + PRIVATE + "rows = 2000\n")
    assert plan_ahead(read_sources(path))[1].startswith("planned as 'uneven fit' runs it")


def find_refusal(look, file):
    with pytest.raises(ValueError, match=r"budget must be at least") as refused:
        look(file)
    return str(refused.value).split(": ")[-1]


BUDGETS = {
    "private alone": ({"b": uneven.LocalPrivacy(2.0)}, {}, "at least 2, what a row of 'b' would spend, got 1.0"),
    "two passes": ({"b": uneven.LocalPrivacy(0.8)}, {"passes": 2}, "at least 1.6, what a row of 'b'"),
    "anchored": ({"b": uneven.LocalPrivacy(2.0), "a": uneven.Exact()}, {"use": "all"}, "at least 2, what a row of 'b'"),
    "by steps": (
        {"b": uneven.LocalPrivacy(2.0), "a": uneven.Exact()},
        {"strategy": "precision"},
        "at least 2, what a row of 'b'",
    ),
    "private labels": ({"b": uneven.LabelPrivacy(2.0), "a": uneven.Exact()}, {}, "at least 2, what a row of 'b'"),
    "left out, beside private labels": (
        {"b": uneven.LabelPrivacy(0.5), "a": uneven.LocalPrivacy(3.0)},
        {"strategy": "clean-only"},
        "at least 3, what a row of 'a'",
    ),
}


@pytest.mark.parametrize("case", BUDGETS)
def test_a_budget_that_a_fit_refuses_is_refused_by_plan_and_valuation_in_the_same_words(tmp_path, case):
    noise, settings, words = BUDGETS[case]
    X, y = draw_rows(400)
    settings = {"row_norm": 1.0, "classes": [0, 1], "budget": 1.0, **settings}
    file = write_files(tmp_path, X, y, np.resize(list(noise), 400), noise, settings)
    said = {find_refusal(look, file) for look in (plan_ahead, value_ahead, lambda one: train_files(one, seed=0))}
    assert len(said) == 1
    assert words in said.pop()


@pytest.mark.parametrize("public", [True, False])
def test_a_budget_below_what_rows_tell_is_refused_by_the_name_of_their_source(tmp_path, public):
    X, y = draw_rows(400)
    source, levels = np.resize(["b", "a"], 400), np.resize([2.0, np.nan, 0.5, np.nan], 400)
    noise = {"a": uneven.Exact() if public else uneven.LocalPrivacy(0.5)}
    settings = {"row_norm": 1.0, "classes": [0, 1], "budget": 1.0, "use": "all"}
    file = write_files(tmp_path, X, y, source, noise, settings, own=(levels, "epsilon"))
    said = [find_refusal(look, file) for look in (plan_ahead, value_ahead, lambda one: train_files(one, seed=0))]
    assert said == ["budget must be at least 2, what a row of 'b' would spend, got 1.0"] * 3


def test_a_budget_that_only_a_source_left_out_would_exceed_is_planned_and_fitted(tmp_path):
    X, y = draw_rows(400)
    noise = {"b": uneven.LocalPrivacy(2.0), "a": uneven.Exact()}
    settings = {"row_norm": 1.0, "classes": [0, 1], "budget": 1.0, "strategy": "clean-only"}
    file = write_files(tmp_path, X, y, np.resize(["b", "a"], 400), noise, settings)
    assert plan_ahead(file)[0] == train_files(file, seed=0).plan
    assert value_ahead(file).sources


def test_rows_on_offer_that_no_fit_may_use_are_refused(tmp_path):
    X, y = draw_rows(300)
    write(tmp_path / "rows.csv", X, y)
    path = tmp_path / "sources.toml"
    head, offer = 'label = "label"\nrow_norm = 1.0\nbudget = 2.0\n', PRIVATE + "rows = 500\nprice = 0.1\n"
    path.write_text(head + PUBLIC + 'data = "rows.csv"\n' + offer)
    said = [find_refusal(look, read_sources(path)) for look in (plan_ahead, value_ahead)]
    assert said == ["budget must be at least 3, what a row of 'private' would spend, got 2.0"] * 2


def test_balanced_weights_that_hang_on_private_labels_are_said_not_to_be_planned_for(tmp_path):
    X, y = draw_rows(600)
    y = np.where(np.arange(600) % 5 == 0, y, 0)
    noise = {"c": uneven.LabelPrivacy(2.0), "b": uneven.LocalPrivacy(2.0), "a": uneven.Exact()}
    settings = {"row_norm": 1.0, "classes": [0, 1], "strategy": "precision", "class_weight": "balanced"}
    file = write_files(tmp_path, X, y, np.resize(["c", "b", "a"], 600), noise, settings)
    planned, note = plan_ahead(file)
    assert planned.problem.class_weights == (1.0, 1.0)
    assert train_files(file, seed=0).plan.problem.class_weights != (1.0, 1.0)
    assert note.startswith("planned with equal class weights")
    assert "as 'uneven fit' runs it" not in note
    assert value_ahead(file).notes[0].startswith("Class weights are balanced by the classes of the rows without")


def test_alpha_is_that_of_the_owned_rows_however_many_are_on_offer(tmp_path):
    """And it is said that a fit chooses it again: private rows make it smaller."""
    X, y = draw_rows(300)
    write(tmp_path / "rows.csv", X, y)
    path, owned = tmp_path / "sources.toml", PUBLIC + 'data = "rows.csv"\n'
    found = []
    for rows in (2, 10**6):
        path.write_text('label = "label"\nrow_norm = 1.0\n' + owned + PRIVATE + f"rows = {rows}\nprice = 0.1\n")
        found.append(value_ahead(read_sources(path)))
    assert found[0].problem == found[1].problem
    alpha = found[1].problem.alpha * read_scale(1.0, intercept=True, private=True).factor ** 2
    assert found[1].notes == (
        f"All figures are for alpha = {alpha:.4g}, chosen by the owned rows without privacy. 'uneven fit' chooses it "
        "again for the rows that it uses.",
    )
    assert found[1].anchor is not None
    path.write_text('label = "label"\nrow_norm = 1.0\nalpha = 0.01\n' + owned + PRIVATE + "rows = 9\nprice = 0.1\n")
    assert value_ahead(read_sources(path)).notes == ()

"""A plan refuses what a fit would, in the same words and before any row is charged; and it refuses nothing else."""

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file
from tests.training.test_doors import draw_case, write_files

import uneven
from uneven.io import format_value, open_table, read_sources
from uneven.schedules import AVERAGES
from uneven.settings import PUBLIC_FIRST
from uneven.training.ahead import ESTIMATED, plan_ahead, value_ahead
from uneven.training.files import train_files

EXACT, FLIPPED, ADDED = uneven.Exact(), uneven.FlippedLabels(0.2), uneven.AdditiveNoise(1.0)
LOCAL, LABELS = uneven.LocalPrivacy(2.0), uneven.LabelPrivacy(1.0)
SEARCH = {"strategy": "two-rates", "line_search": 2}
APART = "strategy must be another than 'anchored' for these rows: it needs sources with privacy and sources without; "

REFUSED = {
    "anchored, all private": ([LOCAL, LOCAL], {"strategy": "anchored"}, APART),
    "anchored, private labels": ([LABELS, EXACT], {"strategy": "anchored"}, APART),
    "anchored by steps": ([LOCAL, EXACT], {"strategy": "anchored", "passes": 2}, "passes asks for other steps"),
    "late estimates": ([LOCAL, LOCAL], {"moments": "estimated", "average": "late"}, "average must be 'growing'"),
    "late labels": ([LABELS, EXACT], {"moments": "estimated", "average": "late"}, "average must be 'growing'"),
    "late, shuffled": ([LOCAL, LABELS], {"strategy": "arbitrary", "average": "late"}, "average must be 'growing'"),
    "estimated, shuffled": (
        [LABELS, EXACT],
        {"strategy": "arbitrary", "moments": "estimated"},
        "moments must not be 'estimated' where sources are shuffled together",
    ),
    "search of three": ([LOCAL, EXACT, EXACT], SEARCH | {"budget": 9.0}, "line_search needs strategy='two-rates' and"),
    "search of all": ([LOCAL, EXACT], {"line_search": 2, "budget": 9.0}, "and two sources, got 'precision' and 2"),
    "search without budget": ([LOCAL, EXACT], SEARCH, "would release every private row 2 times"),
}


def find_refusal(look, file):
    """What is said where it is refused, without the file's name; else nothing."""
    try:
        look(file)
    except ValueError as error:
        return str(error).removeprefix(f"{file.path}: ")
    return ""


def find_fit_refusal(file, **more):
    """The same for a fit, which has charged nothing if it was refused."""
    ledger = uneven.Ledger()
    said = find_refusal(lambda one: train_files(one, seed=0, ledger=ledger, **more), file)
    assert not (said and ledger.sources())
    return said


def draw_rows(n=300, classes=(0, 1)):
    rng = np.random.default_rng(0)
    return rng.uniform(-0.5, 0.5, (n, 3)), rng.choice(classes, n)


def write(folder, noises, settings, y=None):
    X, drawn = draw_rows()
    names = [f"s{k}" for k in range(len(noises))]
    noise = dict(zip(names, noises, strict=True))
    return write_files(folder, X, drawn if y is None else y, np.resize(names, len(X)), noise, settings)


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_fit_refuses_a_plan_and_a_valuation_refuse(tmp_path, case):
    noises, settings, words = REFUSED[case]
    file = write(tmp_path, noises, {"row_norm": 1.0, "classes": [0, 1], **settings})
    said = find_fit_refusal(file)
    assert words in said
    assert find_refusal(plan_ahead, file) == find_refusal(value_ahead, file) == said


def test_a_line_search_over_the_levels_of_rows_is_refused_by_both(tmp_path):
    X, y = draw_rows()
    levels = np.resize([0.5, 1.0, 2.0], len(y))
    settings = {"row_norm": 1.0, "classes": [0, 1], "budget": 9.0, **SEARCH}
    file = write_files(tmp_path, X, y, np.full(len(y), "a"), {}, settings, own=(levels, "epsilon"))
    said = find_fit_refusal(file)
    assert said == "line_search needs strategy='two-rates' and two sources, got 'two-rates' and 3"
    assert find_refusal(plan_ahead, file) == said


def test_a_plan_says_that_a_line_search_of_private_rows_needs_others_to_compare_on(tmp_path):
    """A fit may get them, so the plan is not refused; without them the fit is."""
    file = write(tmp_path, [LOCAL, LOCAL], {"row_norm": 1.0, "classes": [0, 1], "budget": 9.0, **SEARCH})
    assert plan_ahead(file)[1].endswith("compares them on rows without privacy, which --validation must give it")
    assert "pass validation=(X, y)" in find_fit_refusal(file)
    (tmp_path / "aside.csv").write_text("x0,x1,x2,y\n0.1,0.2,0.3,1\n0.1,-0.2,0.3,0\n")
    assert find_fit_refusal(file, validation=open_table(tmp_path / "aside.csv")) == ""


def test_a_line_search_beside_rows_whose_flip_rate_is_estimated_is_planned_and_fitted(tmp_path):
    noises = [uneven.FlippedLabels("estimate"), EXACT]
    file = write(tmp_path, noises, {"row_norm": 1.0, "classes": [0, 1], **SEARCH})
    assert find_refusal(plan_ahead, file) == find_fit_refusal(file) == ""


@pytest.mark.parametrize("noises", [[LOCAL], [LOCAL, EXACT], [LABELS, EXACT], [LABELS, LOCAL]])
@pytest.mark.parametrize("classes", [None, ["no", "yes"]])
def test_text_labels_must_be_stated_where_rows_are_private(tmp_path, noises, classes):
    file = write(tmp_path, noises, {"row_norm": 1.0, "classes": classes}, draw_rows(classes=("no", "yes"))[1])
    said = find_fit_refusal(file)
    assert said.startswith("classes must be given where a source is private") == (classes is None)
    assert find_refusal(plan_ahead, file) == said


def test_public_labels_other_than_the_usual_must_be_stated_beside_private_rows(tmp_path):
    """Numbers that are not 0 and 1: the plan sees them in the rows without privacy."""
    file = write(tmp_path, [LOCAL, EXACT], {"row_norm": 1.0}, draw_rows(classes=(3, 7))[1])
    said = find_fit_refusal(file)
    assert said.startswith("classes must be given")
    assert find_refusal(plan_ahead, file) == said


SPARSE = {
    "private": ([LOCAL, EXACT], {}, "rows must be dense where a source is private"),
    "all private": ([LOCAL, LOCAL], {}, "rows must be dense where a source is private"),
    "added": ([EXACT, ADDED], {"strategy": "precision"}, "fills every coordinate"),
    "added and flipped": ([ADDED & FLIPPED, EXACT], {"passes": 2}, "fills every coordinate"),
    "added, beside private labels": ([LABELS, ADDED], {"strategy": "precision"}, "fills every coordinate"),
    "added, with a sketch for none": ([EXACT, ADDED], {"passes": 2, "sketch": "auto"}, "fills every coordinate"),
    "shuffled": ([EXACT, FLIPPED], {"strategy": "arbitrary"}, "rows must be dense to be shuffled together"),
    "private labels, shuffled": ([LABELS, EXACT], {"strategy": "arbitrary"}, "rows must be dense to be shuffled"),
    "more classes": ([EXACT, EXACT], {"passes": 2, "classes": [0, 1, 2]}, "multi_class must be 'one-vs-rest' for"),
    "learned to convergence": ([EXACT, ADDED], {}, ""),
    "by steps": ([EXACT, FLIPPED], {"strategy": "precision"}, ""),
    "sketched": ([LOCAL, EXACT], {"sketch": 2}, ""),
}


@pytest.mark.parametrize("case", SPARSE)
def test_sparse_rows_that_a_fit_refuses_are_refused_by_a_plan(tmp_path, case):
    noises, settings, words = SPARSE[case]
    settings = {"row_norm": 1.0, "n_features": 3, "classes": [0, 1], **settings}
    X, y = draw_rows(classes=settings["classes"])
    lines = [f"{key} = {format_value(value)}" for key, value in settings.items()]
    for k, noise in enumerate(noises):
        dump_svmlight_file(X[k::2], y[k::2], str(tmp_path / f"{k}.svm"), zero_based=False)
        lines += ["[[source]]", f'name = "s{k}"', f'data = "{k}.svm"', f"noise = {format_value(noise.to_dict())}"]
    (tmp_path / "sources.toml").write_text("\n".join(lines) + "\n")
    file = read_sources(tmp_path / "sources.toml")
    said = find_fit_refusal(file)
    assert words in said
    assert bool(said) == bool(words)
    assert find_refusal(plan_ahead, file) == said


def draw_any(folder, seed):
    """A random file whose settings may not go together."""
    rng = np.random.default_rng(seed)
    X, y, source, noise, settings = draw_case(seed)
    if rng.random() < 0.5:
        settings |= {"strategy": str(rng.choice([*PUBLIC_FIRST, "arbitrary", "precision", "two-rates"]))}
    if rng.random() < 0.4:
        settings |= {"average": str(rng.choice(AVERAGES)), "moments": str(rng.choice(["auto", "estimated"]))}
    if rng.random() < 0.2:
        settings |= {"line_search": 2, "sketch": None}
    if rng.random() < 0.2:
        settings |= {"classes": None}
    if rng.random() < 0.3:
        settings |= {"budget": 1.0}
    if rng.random() < 0.2:
        noise |= {next(iter(noise)): uneven.FlippedLabels("estimate")}
    return write_files(folder, X, y, source, noise, settings)


@pytest.mark.parametrize("seed", range(400, 480))
@pytest.mark.filterwarnings("ignore:.*were shrunk")
def test_of_random_files_a_plan_refuses_those_that_a_fit_refuses(tmp_path, seed):
    """But those of a line search that lacks rows to compare on: they may come with the fit."""
    file = draw_any(tmp_path, seed)
    said = find_fit_refusal(file)
    if "pass validation=(X, y)" not in said:
        assert find_refusal(plan_ahead, file) == said


@pytest.mark.slow
def test_random_files_are_refused_for_many_reasons(tmp_path):
    found = {find_refusal(plan_ahead, draw_any(tmp_path, seed))[:25] for seed in range(400, 480)}
    assert len(found) > 7
    assert "" in found


def test_a_rate_to_be_estimated_beside_private_labels_is_planned_with_a_caveat(tmp_path):
    """A fit estimates it, with the labels as released; a plan reads none of them."""
    file = write(tmp_path, [LABELS, EXACT, uneven.FlippedLabels("estimate")], {"row_norm": 1.0, "classes": [0, 1]})
    plan, note = plan_ahead(file)
    assert ESTIMATED[1:] in note
    assert find_fit_refusal(file) == ""
    assert [one.noise for one in plan.sources] == [LABELS, EXACT, EXACT]


@pytest.mark.parametrize("alpha", [0.0013, 0.011, 0.07, "auto"])
@pytest.mark.parametrize("norm", [3.0, 7.0])
def test_alpha_is_planned_to_the_last_bit(tmp_path, alpha, norm):
    file = write(tmp_path, [LOCAL, uneven.LocalPrivacy(0.7)], {"row_norm": norm, "classes": [0, 1], "alpha": alpha})
    assert plan_ahead(file)[0] == train_files(file, seed=0).plan

"""What a fit refuses, a plan and a valuation refuse in the same line: with rows that they may read, and without any."""

import numpy as np
import pytest

from uneven.io import read_sources
from uneven.training.ahead import plan_ahead, value_ahead
from uneven.training.files import train_files

PRIVATE = '{ kind = "local-privacy", epsilon = 3.0 }'
SITE = '{ kind = "site-privacy", epsilon = 3.0 }'
LABELS = '{ kind = "label-privacy", epsilon = 3.0 }'
THREE = "classes = [0, 1, 2]\n"
MATRIX = '{ kind = "flipped-labels", rate = [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]] }'


def flips(rate, then=""):
    one = f'{{ kind = "flipped-labels", rate = {rate} }}'
    return f"[{one}, {then}]" if then else one


CASES = [
    ("sketch = 40\n", 2, PRIVATE, "sketch must be at most 6, the number of columns, got 40"),
    (
        "sketch = 3\n",
        2,
        '{ kind = "exact" }',
        "sketch must be None or 'auto' where no source's features are private, got 3",
    ),
    ("sketch = 3\n", 2, LABELS, "sketch must be None or 'auto' where no source's features are private, got 3"),
    ("", 2, flips(0.6), "source 'a': rate must be below 1/2 for 2 classes, or labels carry no information; got 0.6"),
    (
        "",
        2,
        flips(0.6, PRIVATE),
        "source 'a': rate must be below 1/2 for 2 classes, or labels carry no information; got 0.6",
    ),
    (
        THREE,
        3,
        flips(0.7, PRIVATE),
        "source 'a': rate must be below 2/3 for 3 classes, or labels carry no information; got 0.7",
    ),
    (THREE, 3, flips("[0.1, 0.2]"), "source 'a': rate must be one number or a matrix for 3 classes, got two rates"),
    ("", 2, MATRIX, "source 'a': rate must be one number or a matrix for 2 classes, got a matrix for 3 classes"),
    (
        THREE + 'multi_class = "one-vs-rest"\n',
        3,
        MATRIX,
        "rate must be one number for multi_class='one-vs-rest', got a mat",
    ),
    ("", 2, flips('"estimate"'), "noise must have a source with a known flip rate and without privacy"),
    (THREE + 'multi_class = "one-vs-rest"\n', 3, PRIVATE, "would release every row once per class; got 'one-vs-rest'"),
    (THREE + 'multi_class = "one-vs-rest"\n', 3, SITE, "would release every row once per class; got 'one-vs-rest'"),
    (THREE + 'loss = "hinge"\n', 3, PRIVATE, "one-vs-rest would release every row once per class; got loss 'hinge'"),
    (THREE + "threshold = 0.3\n", 3, PRIVATE, "threshold must be None for more than two classes, got 0.3 and 3"),
    (THREE + "threshold = 0.3\n", 3, '{ kind = "exact" }', "threshold must be None for more than two classes"),
    ('class_weight = "balanced"\n', 2, PRIVATE, "'balanced' would count private labels; got 'balanced'"),
    ("class_weight = { 0 = 1, 7 = 2 }\n", 2, PRIVATE, "class_weight must name the classes '0', '1'; got '7'"),
    (THREE + "class_weight = { 5 = 2 }\n", 3, PRIVATE, "class_weight must name the classes '0', '1', '2'; got '5'"),
    ("line_search = 3\n", 2, LABELS, "line_search must be 0 where labels are private, got 3"),
]


@pytest.mark.parametrize(("settings", "classes", "noise", "words"), CASES)
def test_fits_plans_and_valuations_refuse_alike(tmp_path, settings, classes, noise, words):
    X = np.random.default_rng(0).normal(size=(60, 6))
    np.savez(tmp_path / "rows.npz", X=X, y=np.arange(60) % classes)

    def write(name, head, rows):
        (tmp_path / name).write_text(f'{head}[[source]]\nname = "a"\n{rows}\nnoise = {noise}\n')
        return read_sources(tmp_path / name)

    read = write("rows.toml", settings, 'data = "rows.npz"')
    described = write("described.toml", settings + "n_features = 6\n", "rows = 60")
    asked = [
        lambda: train_files(read),
        *(lambda f=f, file=file: f(file) for f in (plan_ahead, value_ahead) for file in (read, described)),
    ]
    lines = []
    for ask in asked:
        with pytest.raises(ValueError) as refused:  # noqa: PT011 (its words are below)
            ask()
        lines.append(str(refused.value))
    assert words in lines[0]
    assert "\n" not in lines[0]
    assert all(line.endswith(lines[0]) for line in lines)


def test_weights_of_classes_that_are_not_stated_may_be_of_any_public_ones(tmp_path):
    """Without privacy labels may be anything, and a plan that reads none cannot know better."""
    source = '[[source]]\nname = "a"\nrows = 60\nnoise = { kind = "exact" }\n'
    (tmp_path / "sources.toml").write_text("n_features = 6\nclass_weight = { 0 = 1, 7 = 2 }\n" + source)
    plan, _ = plan_ahead(read_sources(tmp_path / "sources.toml"))
    assert plan.problem.class_weights == (0.5, 1.0)

"""``uneven value`` as a process of its own."""

import json
from pathlib import Path

import numpy as np
import pytest
from commands import uneven

SETTINGS = "alpha = 0.01\nn_features = 25\n"
CLINIC = '[[source]]\nname = "clinic"\nrows = 6000\nnoise = { kind = "local-privacy", epsilon = 10 }\n'
SURVEY = '[[source]]\nname = "survey"\nrows = 1_000_000_000\nnoise = { kind = "local-privacy", epsilon = 1 }\n'
TABLE = "prices = [{ epsilon = 1, price = 0.02 }, { epsilon = 3, price = 0.05 }]\n"


@pytest.fixture
def sources(tmp_path):
    path = tmp_path / "sources.toml"
    path.write_text(SETTINGS + CLINIC + "price = 0.5\n" + SURVEY + TABLE)
    return path


def run(*arguments):
    return uneven("value", *arguments, environment={"MPLBACKEND": "Agg"})


def test_what_to_buy(sources, tmp_path):
    done = run(sources, "--budget", "1000", "--plot", tmp_path / "value.png")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "Buy 20,000 rows of 'survey (ε = 3)' for 1,000.00" in done.stdout
    assert "Buy none of 'clinic'" in done.stdout
    assert (tmp_path / "value.png").stat().st_size > 10_000


def test_a_plot_has_exactly_the_name_it_was_given(sources, tmp_path):
    (tmp_path / "v.png").write_text("mine")
    done = run(sources, "--plot", tmp_path / "v")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "v").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "v.png").read_text() == "mine"


@pytest.mark.parametrize(
    ("plot", "words"), [("charts", "must be a file to write, got a folder"), ("nowhere/v.png", "which does not")]
)
def test_a_plot_that_cannot_be_written_is_refused(plot, words, sources, tmp_path):
    (tmp_path / "charts").mkdir()
    done = run(sources, "--plot", tmp_path / plot)
    assert done.returncode == 2
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["charts", "sources.toml"]


def test_a_plot_that_fails_leaves_what_was_there(tmp_path):
    from uneven.cli.terminal import write_figure

    class Interrupted:
        def savefig(self, path, **options):
            Path(path).write_text("half of")
            raise OSError("the disk is full")

    (tmp_path / "v.png").write_text("mine")
    with pytest.raises(OSError, match="full"):
        write_figure(Interrupted(), tmp_path / "v.png")
    assert [path.name for path in tmp_path.iterdir()] == ["v.png"]
    assert (tmp_path / "v.png").read_text() == "mine"


def test_json_is_the_valuation(sources):
    import uneven

    done = run(sources, "--budget", "1000", "--json")
    assert done.returncode == 0, done.stderr
    described = [
        uneven.Source("clinic", 6_000, uneven.LocalPrivacy(10), 0.5),
        uneven.Source("survey", 10**9, uneven.LocalPrivacy(1)),
    ]
    prices = {"survey": {1: 0.02, 3: 0.05}}
    found = uneven.value(described, 25, 0.01, clip=0.5, budget=1_000, prices=prices)  # as a fit would clip
    said = json.loads(done.stdout)
    assert said["caveats"].pop(0).startswith("Planned for rows in the unit ball, without an intercept; 'uneven fit'")
    assert said == json.loads(json.dumps(found.to_dict()))


def test_without_a_budget(sources):
    done = run(sources, "--more", "500")
    assert done.returncode == 0, done.stderr
    assert "The next 500 rows" in done.stdout
    plain = json.loads(run(sources, "--json").stdout)
    assert plain["worths"][0]["next_precision"] is None  # nothing is owned: no share of it


@pytest.mark.parametrize(
    ("text", "arguments", "words"),
    [
        (None, ("--budget", "1"), "does not exist"),
        (SETTINGS + CLINIC, ("--budget", "-1"), "uneven: --budget must be zero or a positive finite number, got -1.0"),
        (SETTINGS + CLINIC, ("--budget", "lots"), "--budget"),
        (SETTINGS + CLINIC, ("--more", "0"), "uneven: --more must be a whole number of at least 1, got 0"),
        (SETTINGS + CLINIC, ("--budget", "1", "--plot", "picture.abc"), "abc"),
        (SETTINGS + CLINIC + "price = -1\n", (), "source 'clinic': price must be zero or a positive"),
        (SETTINGS + CLINIC + "price = 1\n" + TABLE, (), "price must be left out where there are prices"),
        (SETTINGS + CLINIC + "prices = 3\n", (), "prices must be a list such as"),
        (SETTINGS + CLINIC + "prices = [{ epsilon = 1 }]\n", (), "prices must be a list such as"),
        (SETTINGS + CLINIC + "prices = [{ epsilon = 0, price = 1 }]\n", (), "epsilon in prices must be a positive"),
        (SETTINGS + CLINIC + "prices = [{ epsilon = 1, price = 'a' }]\n", (), "price in prices must be"),
        (
            SETTINGS + CLINIC + "prices = [{ epsilon = 1, price = 1 }, { epsilon = 1.0, price = 2 }]\n", (),
            "prices must have each epsilon once, got 1 twice",
        ),
        (
            SETTINGS + '[[source]]\nname = "all"\nrows = 5\nnoise = { kind = "exact" }\n' + TABLE, (),
            "prices must be left out where noise is not local privacy alone, got noise 'exact'",
        ),
        (
            SETTINGS + '[[source]]\nname = "all"\nrows = 5\nnoise = [{ kind = "flipped-labels", rate = 0.1 }, '
            '{ kind = "local-privacy", epsilon = 2 }]\n' + TABLE, (),
            "got noise 'private, ε = 2 (quiet), and 10% of labels flipped'",
        ),
        ('moments = "lower"\n' + SETTINGS + '[[source]]\nname = "all"\nrows = 5\nnoise = { kind = "exact" }\n', (),
         "lower moments need noise that is certain to be present"),
    ],
)  # fmt: skip
def test_bad_input_exits_with_2(text, arguments, words, tmp_path):
    path = tmp_path / "sources.toml"
    if text is not None:
        path.write_text(text)
    done = run(path, *arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_help_has_an_example():
    done = run("--help")
    assert done.returncode == 0
    assert "uneven value sources.toml --budget 1000" in " ".join(done.stdout.split())


def test_owned_public_rows_that_can_be_read_say_what_rows_are_worth(tmp_path):
    """'vague' is so noisy that a fit would leave it out: it is not bought, whatever it costs."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (200, 2))
    y = np.where(rng.random(200) < 1 / (1 + np.exp(-5 * X[:, 0])), 1, 0)
    np.savetxt(tmp_path / "mine.csv", np.column_stack([X, y]), "%.6f", ",", header="a,b,label", comments="")
    mine = 'label = "label"\nrow_norm = 1.0\n[[source]]\nname = "mine"\ndata = "mine.csv"\nnoise = { kind = "exact" }\n'
    vague = '[[source]]\nname = "vague"\nrows = 500\nnoise = { kind = "local-privacy", epsilon = 0.1 }\nprice = 0.001\n'
    (tmp_path / "sources.toml").write_text(mine + vague)
    done = run(tmp_path / "sources.toml", "--budget", "100", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["theorem"] == "Theorem D"
    assert found["purchases"] == []
    assert found["declined"] == ["vague"]
    assert found["bound"] == found["bound_before"]

"""``uneven plan`` where noise is only ranked, or only roughly known."""

import json

import pytest
from commands import uneven

HEAD = 'n_features = 5\n[[source]]\nname = "expert"\nrows = 900\n{}\n[[source]]\nname = "crowd"\nrows = 9000\n{}\n'


def write(folder, expert, crowd):
    (folder / "sources.toml").write_text(HEAD.format(expert, crowd))
    return folder / "sources.toml"


def test_ranks_give_an_order_and_say_what_is_not_known(tmp_path):
    path = write(tmp_path, "rank = 1", "rank = 2")
    said = " ".join(uneven("plan", path).stdout.split())
    assert "Use 'crowd', then 'expert'" in said
    assert "Not known from ranks: Step sizes" in said
    facts = json.loads(uneven("plan", path, "--json").stdout)
    assert facts["order"] == ["crowd", "expert"]
    assert len(facts["unknown"]) == 4


@pytest.mark.parametrize(
    ("command", "lines", "message"),
    [
        ("fit", ("rank = 1", "rank = 2"), "source 'expert': rank is for 'uneven plan' alone; state noise"),
        ("plan", ("rank = 1", ""), "rank must be given for all sources and noise for none, or the reverse"),
        ("plan", ("rank = 0", "rank = 1"), "rank must be a whole number of at least 1, got 0"),
        ("plan", ('noise = { kind = "exact" }', "rank = 1"), "rank must be given for all sources and noise for none"),
    ],
)
def test_bad_ranks_are_refused_in_one_line(tmp_path, command, lines, message):
    done = uneven(command, write(tmp_path, *lines))
    assert done.returncode == 2
    assert message in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_an_interval_is_read_and_shown(tmp_path):
    noise = 'noise = { kind = "flipped-labels", rate = 0.2, interval = [0.1, 0.3] }'
    path = write(tmp_path, 'noise = { kind = "exact" }', noise)
    assert "If the rate of 'crowd' were 0.1 or 0.3 instead of 0.2" in " ".join(uneven("plan", path).stdout.split())
    low, high = json.loads(uneven("plan", path, "--json").stdout)["sensitivity"]
    assert (low["actual"], high["actual"]) == (0.1, 0.3)
    assert uneven("plan", path, "--report", tmp_path / "plan.html").returncode == 0
    assert "If the noise is only roughly known" in (tmp_path / "plan.html").read_text()

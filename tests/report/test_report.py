"""A report is one sound HTML file: escaped, headed in order, readable without seeing, referring to nothing outside."""

import csv
import io
import json
import re
from base64 import b64decode, b64encode
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

import uneven
from uneven.crowd import Worker
from uneven.intervals import find_share_interval
from uneven.report import charts, crowd_report, markup, plan_report, style, tiles
from uneven.report.axes import Axis, choose_axis
from uneven.report.charts import Dot
from uneven.report.crowds import draw_shares
from uneven.training.quality import Comparison, Scores

VOID = {"meta", "link", "img", "br"}
KINDS = ["plan-precision", "plan-two-rates", "plan-arbitrary", "plan-one", "fit-private", "fit-simulated", "demo"]
FILES = ("data:text/csv;base64,", "data:application/json;base64,")
PUBLIC = ["fit-anchored", "fit-converged"]


class Page(HTMLParser):
    """What is in a page; tags that do not match are an error."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.open, self.text, self.headings = [], [], [], []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("h1", "h2", "h3"):
            self.headings.append((int(self.open[-1][1]), data))
        if "style" not in self.open:
            self.text.append(data)


@pytest.fixture(params=[*KINDS, *PUBLIC])
def page(request, reports):
    return Page(reports[request.param])


def test_headings_are_in_order(page):
    levels = [level for level, _ in page.headings]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b <= a + 1 for a, b in pairwise(levels))


def test_one_step_is_one(reports):
    assert "1 step," in " ".join(Page(reports["plan-one"]).text)


def test_paper_is_light():
    """Dark colours are for screens only."""
    assert re.findall(r"@media [^{]*dark[^{]*", style.CSS) == ["@media screen and (prefers-color-scheme: dark) "]


def test_what_the_bound_is_of(reports):
    """The clock's answer is an average, its bound of the last iterate; every bound is with this plan's clip.

    A plan that keeps rows has none.
    """
    average, clip = "the average of late iterates", "All have gradients clipped to 0.5"
    for kind in KINDS:
        text = " ".join(Page(reports[kind]).text)
        assert (average in text) == (kind not in ("plan-two-rates", "plan-arbitrary", "fit-private", "fit-simulated"))
        assert (clip in text) == (not kind.startswith("plan"))
    assert "No row of data spends more than its site allows." in reports["demo"]


def test_every_question_has_a_section(reports):
    always = {"The answer in short", "The plan", "Step sizes", "What each source contributes", "Exchange rates"}
    for kind in KINDS:
        headings = {text for _, text in Page(reports[kind]).headings}
        assert always | {"Caveats", "How to repeat it"} <= headings
        assert ("The path" in headings) == (not kind.startswith("plan"))
        assert ("Privacy spent" if kind.startswith("fit") else "Privacy") in headings


def test_a_demo_would_spend(reports):
    """It is a simulation: nobody's privacy was spent."""
    text = " ".join(Page(reports["demo"]).text)
    assert "Each row of 'station' would spend ε = 10." in text
    assert "has spent" not in text
    assert "The first two differ in their strategy too" in text  # not in their sources alone


def compared():
    shares = [find_share_interval(count, 100) for count in (90, 60)]
    own, majority = (
        Scores(name, share, None, None)
        for name, share in zip(("this model", "the majority class, 1"), shares, strict=True)
    )
    return Comparison(own, (majority,), ())


def test_a_crowd_has_five_tiles():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 60)
    right = rng.random((9, 60)) < np.linspace(0.5, 0.95, 9)[:, None]
    answers = {
        "task": np.tile(np.arange(60), 9),
        "worker": np.repeat([f"w{k}" for k in range(9)], 60),
        "label": np.where(right, truth, 1 - truth).ravel(),
    }
    html = crowd_report(uneven.from_answers(answers), "uneven crowd answers.csv", compared())
    headings = [text for _, text in Page(html).headings]
    assert len(re.findall('class="card tile', html)) == 5
    assert "What does it cost in privacy?" in headings
    named = re.search('<p class="answer">(.*?)</p>', html)[1].split(", ")
    assert named == [one["worker"] for one in json.loads(downloaded(html))["workers"]][:3]
    assert "w8" in named
    assert re.search(r"1 exact label = [\d.]+ answers", html)
    assert "Accuracy of the classifier on the test tasks: 90.0% (82.4 to 95.1); the majority class, 1: 60.0% (" in html
    assert len(re.findall("card tile wide-tile", html)) == 1  # so that no place is left empty
    assert len(json.loads(downloaded(html))["workers"]) == 9


def test_the_chart_of_a_crowd_has_shares_of_answers_and_of_their_worth():
    workers = tuple(Worker(f"w{k}", labels, {}, 0.1, worth) for k, (labels, worth) in enumerate([(60, 0.5), (40, 0.0)]))
    crowd = SimpleNamespace(workers=workers)
    wide = draw_shares(crowd).split("</svg>")[0]
    assert re.findall(r">([\d.]+%)</text>", wide) == ["60%", "100%", "40%", "0%"]
    assert re.findall(r'class="mark" tabindex="0" role="img" aria-label="([^"]*)"', wide) == [
        "w0: 60% of all answers",
        "w0: 100% of the worth of all answers",
        "w1: 40% of all answers",
        "w1: 0% of the worth of all answers",
    ]
    useless = SimpleNamespace(workers=tuple(replace(one, worth=0.0) for one in workers))
    assert draw_shares(useless) == ""


def test_numbers_below_an_axis_do_not_touch():
    axis = choose_axis("bound", [3e4, 3e6], log=True)
    drawn = charts.draw_intervals("t", "d", [("a", 3e4, 3e6)], axis, "", 1e5).split("</svg>")
    for svg, (width, height) in zip(drawn, charts.SHAPES.values(), strict=False):
        base = height if "<polyline" in svg else charts.LINE_HEIGHT + 6
        told = re.findall(rf'<text x="([\d.]+)" y="{base + 16}" text-anchor="middle">([^<]*)<', svg)
        assert len(told) >= 2
        ends = [(float(x) - 3.4 * len(text), float(x) + 3.4 * len(text)) for x, text in told]
        assert ends[0][0] >= -0.1
        assert ends[-1][1] <= width + 0.1
        assert all(a[1] < b[0] for a, b in pairwise(ends))


def test_values_can_be_reached_by_the_keyboard(page):
    marks = [one for tag, one in page.tags if tag == "g" and one.get("class") == "mark"]
    assert marks
    unlike = [one for one in marks if one["tabindex"] != "0" or not re.search(r": [\d.,e+-]+", one["aria-label"])]
    assert not unlike


def test_five_questions_come_first_and_the_theory_is_folded(reports):
    for kind, html in reports.items():
        headings = [text for _, text in Page(html).headings]
        assert tuple(headings[2:7]) == tiles.QUESTIONS, kind
        assert html.index("<details>") < html.index("<h2>The plan</h2>") < html.index("</details>")


def test_the_numbers_can_be_downloaded(reports):
    """The files in the page have one record for each source, with what the tiles say."""
    for kind, html in reports.items():
        files = {
            name: b64decode(data).decode() for name, data in re.findall(r'download="([^"]+)" href="[^,]+,([^"]*)', html)
        }
        whole = json.loads(files["report.json"])
        records = list(csv.DictReader(io.StringIO(files["sources.csv"])))
        assert [one["source"] for one in records] == [one["name"] for one in whole["plan"]["sources"]], kind
        for text, record in zip(records, whole["sources"], strict=True):
            assert (
                float(text["worth_of_a_row"]) == whole["plan"]["exchange"][text["source"]] == record["worth_of_a_row"]
            )
    spent = {one["source"]: one["epsilon_after"] for one in json.loads(downloaded(reports["fit-private"]))["sources"]}
    assert sorted(spent.values()) == [1.0, 2.0]


def downloaded(html):
    return b64decode(re.search(r'download="report.json" href="[^,]+,([^"]*)', html)[1])


def test_the_cost_is_before_after_and_left(reports):
    text = re.sub(r"<[^>]+>", " ", reports["fit-private-again"])
    assert re.search(r"What each row has spent .* b 1 2 6 In odds: at ε = 2, .* at ε = 4,", " ".join(text.split()))
    assert "become at most 5.5 to 1." in text
    assert "no budget" in re.sub(r"<[^>]+>", " ", reports["fit-private"])


def test_what_was_not_run_by_steps_has_no_step_sizes_and_no_bounds(reports):
    for kind in PUBLIC:
        page = Page(reports[kind])
        headings, text = {heading for _, heading in page.headings}, " ".join(page.text)
        assert {"The answer in short", "How it was learned", "The plan", "Exchange rates", "Caveats"} <= headings
        assert not {"What it promises", "Every strategy side by side", "The path"} & headings
        assert ("Step sizes" in headings) == (kind == "fit-anchored")
        assert "Learned to convergence" in text
        assert "is at most" not in text
        assert "last iterate" not in text


def test_nothing_comes_from_outside_and_nothing_runs_but_the_copy_buttons(page):
    names = [tag for tag, _ in page.tags]
    assert names.count("script") == 1
    hashed = b64encode(sha256(markup.COPY.encode()).digest()).decode()
    (policy,) = [one["content"] for _, one in page.tags if one.get("http-equiv") == "Content-Security-Policy"]
    assert policy == f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{hashed}'"
    assert markup.COPY in page.text
    assert not set(names) & {"iframe", "object", "embed", "form", "img", "base"}
    for _, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on")]
        for name in ("src", "href"):
            value = attributes.get(name, "data:,")
            assert value == "data:," or (value.startswith(FILES) and attributes["download"])
    assert "url(" not in style.CSS
    assert "@import" not in style.CSS


def test_pictures_and_tables_can_be_heard(page):
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    for tag, attributes in page.tags:
        if tag == "svg":
            told = attributes.get("aria-labelledby", "").split()
            assert attributes.get("aria-hidden") == "true" or (told and set(told) <= set(ids))
        if tag == "th":
            assert attributes["scope"] in ("col", "row")
        if tag == "html":
            assert attributes["lang"] == "en"
    assert sum(tag == "table" for tag, _ in page.tags) == sum(tag == "caption" for tag, _ in page.tags)


def test_names_are_shown_as_they_are(reports):
    text = "".join(Page(reports["plan-precision"]).text)
    assert "<script>alert('x')</script>\"&' </svg><img src=x onerror=alert(1)>" in text
    assert "uneven plan '</code><script>alert(2)</script>.toml'" in text


def test_a_private_fit_keeps_its_secrets(reports):
    text = "".join(Page(reports["fit-private"]).text)
    assert "Not measured" in text
    assert "Objective on" not in text
    assert "The objective is not shown" in text
    assert "Each row of 'b' has spent ε = 1." in text
    simulated = "".join(Page(reports["fit-simulated"]).text)
    assert "Objective on rows learned from" in simulated
    assert "A simulation: the noise came from a seed and can be repeated, so this protects nobody." in simulated


def luminance(colour):
    """Relative luminance of WCAG 2.2."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b):
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_names_beside_dots_are_whole_and_do_not_overlap():
    name = "logistic regression on 1,029 rows without privacy"
    dots = [Dot(f"{name} {k}", 0.5, 0.4, 0.6) for k in range(3)]
    html = charts.draw_dots("Accuracy", "", [("measured on a-rather-long-file-name.csv", dots)], Axis("accuracy", 0, 1))
    shapes = re.findall(r"<svg.*?</svg>", html)
    assert len(shapes) == 2
    for shape in shapes:
        lines = re.findall(r'<tspan x="\d+" y="([\d.]+)">([^<]*)', shape)
        assert "…" not in " ".join(told for _, told in lines)
        assert re.search(r'<text style="font-weight:600"><tspan[^>]*>measured on', shape)
        assert " ".join(told for _, told in lines).count(name) == 3
        assert all(float(below) - float(above) >= 12 for (above, _), (below, _) in pairwise(lines))


def test_a_reference_far_away_is_told_and_not_drawn():
    """Else the axis reaches to it, and all sources are in one place."""
    many = [uneven.Source(f"s{k}", 5_000, uneven.LocalPrivacy(8.0)) for k in range(8)]
    near = [uneven.Source(f"s{k}", 60, uneven.LocalPrivacy(1.0)) for k in range(2)]
    far, close = (plan_report(uneven.plan(some, 5), "uneven plan") for some in (many, near))
    assert "Not drawn: predicting nothing" in far
    assert "Dotted: predicting nothing" in close
    for html, lines in ((far, 0), (close, 1)):
        (figure,) = re.findall(r"<figure>(?:(?!</figure>).)*predicting nothing(?:(?!</figure>).)*</figure>", html)
        assert figure.count('class="reference"') == 2 * lines  # in both shapes


def test_a_short_last_batch_is_not_in_the_chart_of_steps():
    """Its step is shorter because its rows are fewer: drawn, it would look like a drop of the schedule."""
    plan = uneven.plan([uneven.Source("clinic", 1_010, uneven.LocalPrivacy(4.0))], 3)
    assert plan.step_sizes()[-1] < 0.5 * plan.step_sizes()[-2]
    html = plan_report(plan, "uneven plan")
    figure = html[html.index("<h2>Step sizes</h2>") :].split("</figure>")[0]
    told = [float(value) for value in re.findall(r'aria-label="1,010 rows of clinic: ([\d.]+) at step', figure)]
    assert min(told) == pytest.approx(plan.step_sizes()[-2], rel=1e-3)


def test_ten_sources_read_well():
    """A short answer, a table row for each, no caption with all figures, and no colour twice."""
    noises = [uneven.LocalPrivacy(0.5 + k) for k in range(10)]
    sources = [uneven.Source(f"site {k}", 1000, noise) for k, noise in enumerate(noises)]
    html = plan_report(uneven.plan(sources, 5), "uneven plan sources.toml")
    assert re.search(r'<p class="answer">site 0 first, site 9 last</p>', html)
    assert max(map(len, re.findall(r"<figcaption>(.*?)</figcaption>", html.split("<details>")[0])), default=0) < 200
    assert (
        len(set(re.findall(r"stroke:var\(--(s\d+)\)", html.split("Step sizes over the run")[1].split("</svg>")[0])))
        == 10
    )
    for colours in style.CSS.split("prefers-color-scheme: dark"):
        assert len(dict.fromkeys(re.findall(r"--s\d+: (#\w{6})", colours))) == style.SERIES


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_contrast(scheme):
    colours = dict(re.findall(r"--(\w+): (#\w{6})", style.CSS.split("prefers-color-scheme: dark")[scheme]))
    for ground in ("paper", "card"):
        assert all(contrast(colours[name], colours[ground]) >= 4.5 for name in ("ink", "muted", "link"))
        assert all(contrast(colours[f"s{k}"], colours[ground]) >= 3.0 for k in range(style.SERIES))


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize(("low", "high"), [(0.1, 0.2), (1e-6, 1e6), (3, 3), (1, 1.001), (2e5, 9e5)])
def test_axes_have_room_and_round_ticks(low, high, log):
    axis = choose_axis("x", [low, high], log)
    assert 0 < axis.place(low) <= axis.place(high) < 1
    ticks = axis.ticks()
    assert 2 <= len(ticks) <= 9
    assert all(0 <= axis.place(tick) <= 1 for tick in ticks)
    assert ticks == sorted(set(ticks))


def test_points_are_where_their_values_are():
    series = [charts.Series("a", [0, 10], [1, 3])]
    picture = charts.draw_lines("t", "d", series, Axis("x", 0, 10), Axis("y", 1, 3))
    wide, height = charts.SHAPES["wide"]
    points = re.search(r'points="([^"]*)"', picture)[1]
    assert points == f"{charts.LEFT}.0,{height - charts.BOTTOM}.0 {wide - charts.RIGHT}.0,{charts.TOP}.0"


def test_the_cost_says_where_only_labels_are_protected():
    sources = [
        uneven.Source("labels", 500, uneven.LabelPrivacy(1.0)),
        uneven.Source("rows", 500, uneven.LocalPrivacy(1)),
    ]
    told = {len(some): plan_report(uneven.plan(some, 3), "uneven plan") for some in (sources, sources[1:])}
    said = "Of labels only the labels are protected, the features are not."
    assert (said in told[2], said in told[1]) == (True, False)

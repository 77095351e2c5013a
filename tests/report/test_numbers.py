"""The numbers of a report are those of its plan: every strategy's and every source's own."""

import csv
import io
import math
import re
from base64 import b64decode
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pytest
from reported import COMMAND, fitted, fitted_beside_public, planned

import uneven
from uneven.intervals import Interval
from uneven.io import SourceEntry, open_table, read_sources, write_sources
from uneven.report import doubt_expected, fit_report, plan_report, tiles
from uneven.training.files import train_files

VERDICTS = "Expected excess objective and accuracy (95% interval), before any ε was spent"
DIGITS = 1e-3  # numbers are shown with four digits
FEW_DIGITS = 5e-3  # with three: those of one choice, and excess figures beside each other


class Tables(HTMLParser):
    """Body rows of each table, by its caption."""

    def __init__(self, html):
        super().__init__()
        self.found, self.caption, self.tag = {}, "", ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tag = tag
        if tag == "caption":
            self.caption = ""
        if tag == "span":
            self.tag = "caption"
        if tag == "tr":
            self.found.setdefault(self.caption, []).append([])
        if tag in ("td", "th"):
            self.found[self.caption][-1].append("")

    def handle_endtag(self, tag):
        self.tag = ""

    def handle_data(self, data):
        if self.tag == "caption":
            self.caption += data
        if self.tag in ("td", "th"):
            self.found[self.caption][-1][-1] += data

    def rows(self, caption):
        return {row[0]: row[1:] for row in self.found[caption][1:]}


def value(text):
    return float(text.replace(",", ""))


def text_of(html):
    return re.sub(r"<[^>]*>", "", html).replace("&#x27;", "'")


@pytest.fixture(params=["precision", "two-rates", "averaged", "arbitrary"])
def made(request):
    plan = planned(request.param)
    return plan, plan_report(plan, COMMAND)


def test_every_strategy_has_its_own_bounds(made):
    plan, html = made
    shown = Tables(html).rows("Bounds")
    others = plan.alternatives()
    assert [name.removesuffix(" (this plan)") for name in shown] == list(others)
    assert [name for name in shown if name.endswith(" (this plan)")] == [f"{plan.strategy} (this plan)"]
    for (order, bound, evaluated), other in zip(shown.values(), others.values(), strict=True):
        named = other.order if len(other.order) <= 3 else [other.order[0], "...", other.order[-1]]
        assert order == ("all together" if other.shuffled else ", ".join(named))
        assert value(bound) == pytest.approx(other.bound, rel=DIGITS)
        own = other.evaluated_bound()
        assert evaluated == "" if own is None else value(evaluated) == pytest.approx(own, rel=DIGITS)
    assert len({cells[2] for cells in shown.values()}) > 3  # they differ, so that a mistake shows


def test_the_chart_of_bounds_is_to_scale(made):
    """Filled points give the log axis; hollow ones must lie on it at each strategy's evaluated bound."""
    plan, html = made
    chart = next(svg for svg in re.findall(r"<svg.*?</svg>", html) if "Bound of every strategy" in svg)
    points = re.findall(r'<circle cx="([\d.]+)" cy="(\d+)" r="([56])"', chart)
    filled, hollow = ({int(y): float(x) for x, y, r in points if r == size} for size in "65")
    others = list(plan.alternatives().values())
    evaluated = [other.evaluated_bound() for other in others]
    large = np.log([max(other.bound, own or 0.0) for other, own in zip(others, evaluated, strict=True)])
    slope, start = np.polyfit(large, [filled[y] for y in sorted(filled)], 1)
    expected = [start + slope * math.log(own) for own in evaluated if own is not None]
    assert [hollow[y] for y in sorted(hollow)] == pytest.approx(expected, abs=0.2)  # a tenth of a pixel, rounded


def test_the_promise_is_the_plan_s(made):
    plan, html = made
    promised = re.search(r"iterate is at most ([\d.,e+-]+), by", text_of(html))
    assert value(promised[1]) == pytest.approx(plan.bound, rel=DIGITS)


def test_every_source_has_its_own_rows_and_epsilon(made):
    plan, html = made
    shown = Tables(html).rows("Sources as described")
    assert list(shown) == [source.name for source in plan.sources]
    for source in plan.sources:
        rows, noise, price = shown[source.name]
        assert value(rows) == source.rows
        epsilon = re.search(r"ε = ([\d.]+)", noise)
        assert (epsilon and float(epsilon[1])) == source.noise.epsilon_per_row
        assert price == ("" if source.price is None else f"{source.price:g}")
    spent = re.findall(r"would spend ε = ([\d.]+)\.", text_of(html))
    used = [source.noise.epsilon_per_row for source in plan.sources if source.name in plan.order]
    assert [float(one) for one in spent] == [epsilon for epsilon in used if epsilon is not None]


def test_every_source_has_its_own_exchange_rate(made):
    plan, html = made
    shown = Tables(html).rows("What a row is worth")
    rows = {source.name: source.rows for source in plan.sources}
    assert set(shown) == set(plan.exchange)
    for name, worth in plan.exchange.items():
        expected = [worth, 1 / worth, rows[name] * worth]
        assert [value(cell) for cell in shown[name]] == pytest.approx(expected, rel=DIGITS)


def test_shares_of_information_are_rows_times_exchange_rates():
    plan = planned("precision")
    told = re.findall(r"has ([\d.]+)% of the rows and brings ([\d.]+)% of the information", plan_report(plan, COMMAND))
    rows = {source.name: source.rows for source in plan.sources}
    worth = {name: rows[name] * plan.exchange[name] for name in plan.order}
    for name, (share, information) in zip(plan.order, told[: len(plan.order)], strict=True):
        assert float(share) == pytest.approx(100 * rows[name] / sum(rows.values()), abs=0.5)
        assert float(information) == pytest.approx(100 * worth[name] / sum(worth.values()), abs=0.5)


def test_first_and_last_steps_are_the_plan_s():
    plan = planned("two-rates")
    shown, eta, start = Tables(plan_report(plan, COMMAND)).found["Order of use"][1:], plan.step_sizes(), 0
    for (_, name, first, last), segment in zip(shown, plan.segments, strict=True):
        full = segment.rows // segment.batch_size
        assert name == segment.sources[0]
        expected = [eta[start], eta[start + full - 1]]
        assert [value(first), value(last)] == pytest.approx(expected, rel=DIGITS)
        start += segment.steps


def test_a_fit_shows_what_was_spent_and_measured(tmp_path):
    trained = fitted(tmp_path, 3, 2.0)
    html = fit_report(trained, COMMAND)
    assert text_of(html).count("has spent ε = ∞.") == 2  # a simulation protects nobody
    private = fitted(tmp_path, None, 2.0)
    spent = re.findall(r"has spent ε = ([\d.]+)\.", text_of(fit_report(private, COMMAND)))
    assert [float(one) for one in spent] == list(private.model.privacy_spent.values()) == [2.0, 1.0]
    found = trained.trained.activity
    assert found
    assert all(str(one) in text_of(html) for one in found.values())
    shown = Tables(html).rows("Accuracy, AUC and objective")
    for one in trained.measures:
        rows, accuracy, area, objective = shown[one.which]
        assert value(rows) == one.rows
        assert float(accuracy.rstrip("%")) == pytest.approx(100 * one.accuracy, abs=0.051)
        assert float(area) == pytest.approx(one.auc, abs=5.1e-5)
        assert (
            objective == "" if one.objective is None else float(objective) == pytest.approx(one.objective, abs=5.1e-5)
        )


@pytest.fixture(scope="module")
def anchored(tmp_path_factory):
    noises = {"clinic": uneven.LocalPrivacy(8.0), "survey": uneven.LocalPrivacy(0.01)}
    trained = fitted_beside_public(tmp_path_factory.mktemp("anchored"), **noises)
    return trained, fit_report(trained, COMMAND)


def test_every_private_source_has_its_own_verdict(anchored):
    trained, html = anchored
    shown = Tables(html).rows(VERDICTS)
    verdicts = trained.plan.verdicts
    assert list(shown) == list(verdicts) == ["clinic", "survey"]
    starred = any(word.endswith("*") for word, *_ in shown.values())
    assert ("* Worth it for its probabilities: accuracy gains less than half a percentage point." in html) == starred
    for name, (word, excess, without, change, *accuracies) in shown.items():
        one = verdicts[name]
        assert float(change.rstrip("%")) == pytest.approx(100 * (one.excess / one.excess_without - 1), abs=0.51)
        hardly = one.accuracy[0] - one.accuracy_without[0] < 0.005
        assert word == (f"{one.word}*" if one.word == "worth it" and hardly else one.word)
        assert [value(excess), value(without)] == pytest.approx([one.excess, one.excess_without], rel=FEW_DIGITS)
        for cell, shares in zip(accuracies, (one.accuracy, one.accuracy_without), strict=True):
            if cell == "the same":
                assert round(one.accuracy[0], 3) == pytest.approx(round(one.accuracy_without[0], 3), abs=1e-9)
                continue
            figures = [float(figure) for figure in re.findall(r"[\d.]+", cell)]
            assert figures == pytest.approx([100 * share for share in shares], abs=0.051)
    assert len({one.word for one in verdicts.values()}) == 2  # they differ, so that a mistake shows


def answer_about_worth(html):
    tile = html[html.index(f"<h3>{tiles.WORTH}</h3>") :]
    return unescape(re.match(r'<h3>[^<]*</h3><p class="answer">(.*?)</p>', tile)[1])


def test_whether_sources_are_worth_using_is_answered_in_a_few_words(anchored):
    trained, html = anchored
    words = {name: one.word for name, one in trained.plan.verdicts.items()}
    told = dict(part.split(": ") for part in answer_about_worth(html).split("; "))
    assert {name: word for word, names in told.items() for name in names.split(", ")} == words
    assert "Worth it: the excess with it is up to 0.8 of that without it. Little: up to 0.97. No: more than" in html
    alone = replace(trained.plan.verdicts["clinic"], accuracy=(0.8, 0.7, 0.9), accuracy_without=(0.791, 0.7, 0.9))
    plan = replace(trained.plan, anchored=replace(trained.plan.anchored, verdicts=(("clinic", alone),)))
    shown = answer_about_worth(plan_report(plan, COMMAND))
    assert shown == f"clinic: {words['clinic']}: accuracy 80.0% with it, 79.1% without"


def test_a_source_that_is_used_against_its_verdict_is_not_called_left_out(anchored):
    plan = anchored[0].plan
    used = replace(plan.verdicts["clinic"], word="no")
    told = plan_report(replace(plan, anchored=replace(plan.anchored, verdicts=(("clinic", used),))), COMMAND)
    assert "No: more than that; it is used all the same" in told
    assert "is left out and not charged. " not in told.split("<h3>What is a row worth?")[0]


def test_which_of_private_sources_help_is_answered_without_calling_it_a_verdict():
    pairs = {"many": 50_000, "some": 5_000, "few": 50}
    plan = uneven.plan([uneven.Source(name, rows, uneven.LocalPrivacy(4.0)) for name, rows in pairs.items()], 5)
    ratios = {name: now / without for name, (now, without) in plan.predict_without().items()}
    assert ratios["many"] <= 0.8 < ratios["some"] <= 0.97 < ratios["few"]
    assert answer_about_worth(plan_report(plan, COMMAND)) == "helps clearly: many; a little: some; hardly: few"
    many = uneven.plan([uneven.Source(f"s{k}", 900, uneven.LocalPrivacy(4.0)) for k in range(13)], 5)
    assert answer_about_worth(plan_report(many, COMMAND)) == "no verdict"


def test_the_download_says_what_an_excess_is_without(anchored):
    trained, html = anchored
    content = re.search(r'download="sources.csv" href="[^,]+,([^"]*)', html)[1]
    records = {one["source"]: one for one in csv.DictReader(io.StringIO(b64decode(content).decode()))}
    for name, one in trained.plan.verdicts.items():
        assert records[name]["without"] == ("it and the smaller ones" if one.others else "it")
    assert {one.others for one in trained.plan.verdicts.values()} == {0, 1}


def test_without_a_source_says_that_the_smaller_ones_are_left_out_too(anchored):
    """Where one is judged alone, nothing is said of others."""
    trained, html = anchored
    assert {one.others for one in trained.plan.verdicts.values()} == {0, 1}
    for told in (
        "excess without it and the smaller ones",
        "Filled: without it and the smaller ones. Hollow: with all.",
    ):
        assert told in html
    assert "excess without it<" not in html
    alone = replace(trained.plan.verdicts["clinic"], others=0)
    plan = replace(trained.plan, anchored=replace(trained.plan.anchored, verdicts=(("clinic", alone),)))
    shown = plan_report(plan, COMMAND)
    assert "excess without it<" in shown
    assert "smaller ones" not in shown


def test_page_and_summary_expect_the_same_without_private_rows(anchored):
    """Rows with private labels are no rows without privacy: what they add is a figure of its own."""
    plan = anchored[0].plan
    label = replace(plan.verdicts["clinic"], excess_without=0.7531, word="worth it")
    judged = replace(plan, judged=(("labels", label),))
    told = f"0.75 from the rows without privacy alone, {plan.anchored.excess_start:.2g} with those with private labels"
    assert told in " ".join(judged.summary().split())
    page = text_of(plan_report(judged, COMMAND))
    assert "from the rows without privacy alone, 0.7531." in page
    assert "0.7531 from the rows without privacy alone" in page
    assert "private labels" not in plan.summary()


def test_accuracies_that_look_alike_are_said_to_be(anchored):
    """The excess beside them says what the verdict rests on."""
    plan = anchored[0].plan
    own = dict(plan.anchored.verdicts)
    alike = replace(own["clinic"], accuracy=(0.7971, 0.75, 0.84), accuracy_without=(0.7969, 0.75, 0.84))
    changed = replace(plan, anchored=replace(plan.anchored, verdicts=(("clinic", alike),)))
    (cells,) = Tables(plan_report(changed, COMMAND)).rows(VERDICTS).values()
    assert cells[-2:] == ["79.7% (75.0 to 84.0)", "the same"]
    differ = replace(alike, accuracy_without=(0.78, 0.75, 0.84))
    changed = replace(plan, anchored=replace(plan.anchored, verdicts=(("clinic", differ),)))
    (cells,) = Tables(plan_report(changed, COMMAND)).rows(VERDICTS).values()
    assert cells[-1] == "78.0% (75.0 to 84.0)"


def test_private_sources_alone_have_a_predicted_excess_with_and_without_each():
    sources = [uneven.Source(f"s{e}", 9000, uneven.LocalPrivacy(e)) for e in (2.0, 4.0, 9.0)]
    plan = uneven.plan(sources, 20)
    html = plan_report(plan, COMMAND)
    shown = Tables(html).rows("What each source adds")
    for name, (used, _, excess, without, change) in shown.items():
        rest = uneven.plan([one for one in sources if one.name != name], 20)
        assert used == "yes"
        assert value(excess) == pytest.approx(plan.predicted_excess, rel=DIGITS)
        assert value(without) == pytest.approx(rest.predicted_excess, rel=DIGITS)
        assert change.startswith("-")
    assert "No verdict: estimating accuracy needs public rows." in text_of(html)
    assert "share of the information" in text_of(plan_report(planned("averaged"), COMMAND))


def test_what_a_fit_warns_about_is_among_the_caveats_without_counts(tmp_path):
    """Some rows are too long, some are copies: how many is for their owner only."""
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(393, 4)) / 9, np.full((7, 4), 0.9)])
    rows = np.column_stack([X, np.arange(400) % 2])
    np.savetxt(tmp_path / "0.csv", rows, delimiter=",", header="p,q,r,s,y", comments="")
    entry = SourceEntry.of(uneven.Source("long", 400, uneven.LocalPrivacy(2.0)), tmp_path / "0.csv")
    for redact in (False, True):
        write_sources(tmp_path / "sources.toml", [entry], label="y", row_norm=1.0, redact=redact)
        with pytest.warns(uneven.CopiesWarning):
            trained = train_files(read_sources(tmp_path / "sources.toml"))
        caveats = text_of(fit_report(trained, COMMAND).split("<h2>Caveats</h2>")[1].split("</section>")[0])
        shrunk = "Some rows of 'long' are longer than row_norm = 1 and were shrunk to it" in caveats
        copied = "Some private rows are exact copies of others." in caveats
        assert shrunk == copied == (not redact)
        assert ("is not said here, because redact is set" in caveats) == redact
        assert not re.search(r"\b[5-7] (of|rows|private)\b", caveats)
    assert "exact copies of others" not in fit_report(fitted(tmp_path, 3, 2.0), COMMAND)


@pytest.mark.parametrize(("measured", "doubted"), [((0.6, 0.55, 0.65), True), ((0.76, 0.71, 0.8), False)])
def test_a_measure_that_the_expected_interval_excludes_is_doubted(anchored, measured, doubted):
    trained = anchored[0]
    verdict = replace(trained.plan.verdicts["clinic"], accuracy=(0.8, 0.75, 0.84), word="worth it", others=0)
    plan = replace(trained.plan, anchored=replace(trained.plan.anchored, verdicts=(("clinic", verdict),)))
    measure = trained.measures[0]
    scores = replace(measure.compared.scores, accuracy=Interval(*measured))
    seen = replace(measure, which="t.csv", learned_from=False, compared=replace(measure.compared, scores=scores))
    told = doubt_expected(plan, [seen])
    assert bool(told) == doubted
    model = replace(trained.model, plan=plan)
    html = fit_report(replace(trained, trained=replace(trained.trained, model=model), measures=(seen,)), COMMAND)
    assert ("and the intervals do not overlap" in html.split("<h2>Caveats</h2>")[1]) == doubted
    if doubted:
        assert told[0].startswith("Accuracy on t.csv is 60.0% (55.0 to 65.0), but 80.0% (75.0 to 84.0) was expected")
    assert doubt_expected(plan, [replace(seen, learned_from=True)]) == []
    assert doubt_expected(planned(), [seen]) == []


def test_measures_are_downloaded_with_intervals_and_baselines(anchored):
    trained, html = anchored
    content = re.search(r'download="measures.csv" href="[^,]+,([^"]*)', html)[1]
    records = list(csv.DictReader(io.StringIO(b64decode(content).decode())))
    scores = [one for found in trained.measures for one in (found.compared.scores, *found.compared.others)]
    assert len(scores) > len(trained.measures)
    assert [one["classifier"] for one in records] == [one.name for one in scores]
    for record, one in zip(records, scores, strict=True):
        ends = [float(record[key]) for key in ("accuracy", "accuracy_low", "accuracy_high")]
        assert ends == pytest.approx(one.accuracy)
        assert float(record["log_loss"]) == pytest.approx(one.log_loss.value)


def test_measured_accuracy_is_drawn_beside_the_majority_class(anchored):
    trained, html = anchored
    beside = trained.measures[0].compared.others
    caption = next(one for one in re.findall(r"<figcaption>(.*?)</figcaption>", html) if "Dotted line" in one)
    assert "the majority class" in caption
    assert all(f"{one.accuracy.value:.1%}" in caption for one in beside)


def test_what_is_left_out_spends_nothing(anchored):
    trained, html = anchored
    assert list(trained.model.privacy_spent) == ["clinic"]
    assert re.findall(r"Each row of '(\w+)' has spent", text_of(html)) == ["clinic"]


def test_what_was_chosen_and_found_on_the_way_is_told(anchored, tmp_path):
    trained, html = anchored
    alpha = re.search(r"L2 strength alpha = ([\d.e-]+), for rows as given: chosen by cross-validation", text_of(html))
    assert float(alpha[1]) == pytest.approx(trained.model.alpha, rel=FEW_DIGITS)
    assert trained.trained.notes
    harmful, doubt, *notes = trained.trained.notes  # labels that were never flipped, at a stated rate of 0.1
    assert harmful.endswith("held-out rows with true labels are predicted better without it. use='all' uses it.")
    assert doubt.startswith("The flip rate stated for")
    assert "The flip rate stated for" in text_of(html)
    assert harmful.rpartition("verylongname")[2] in text_of(html)  # the name is cut
    assert notes
    assert all(note in text_of(html) for note in notes)
    private = fitted(tmp_path, 3, 2.0)
    assert f"alpha = {private.model.alpha:.4g}, for rows as given: the default" in text_of(fit_report(private, COMMAND))
    told = replace(private, trained=replace(private.trained, model=replace(private.model, alpha=0.00025)))
    assert "alpha = 0.00025, for rows as given: predicted to do better" in text_of(fit_report(told, COMMAND))


def test_lower_moments_promise_nothing():
    plan = uneven.plan([uneven.Source("a", 500, uneven.LocalPrivacy(1))], 3, moments="lower")
    html = text_of(plan_report(plan, COMMAND))
    shown = re.search(r"The formula gives ([\d.,e+-]+) for the mean", html)
    assert value(shown[1]) == pytest.approx(plan.bound, rel=DIGITS)
    assert "is at most" not in html.split("What is proved")[1].split("Every strategy")[0]


def test_calibration_and_confusion_are_of_rows_that_were_not_learned_from(tmp_path):
    """They are in the page and among its files only where a test set is given, and add up to its rows."""
    without = fitted_beside_public(tmp_path)
    file = read_sources(tmp_path / "sources.toml")
    X = np.random.default_rng(9).normal(size=(500, 4)) / 4
    fresh = np.column_stack([X, X[:, 0] + X[:, 1] > 0])
    np.savetxt(tmp_path / "test.csv", fresh, delimiter=",", header="p,q,<b>r</b>,s,y", comments="")
    trained = train_files(file, seed=3, test=open_table(tmp_path / "test.csv"))
    html, tables = fit_report(trained, COMMAND), Tables(fit_report(trained, COMMAND)).found
    _, *bins = next(rows for caption, rows in tables.items() if caption.startswith("Calibration on "))
    _, *confusion = next(rows for caption, rows in tables.items() if caption.startswith("Confusion on "))
    assert sum(int(cells[1]) for cells in bins) == 500
    assert sum(int(cell) for cells in confusion for cell in cells[1:-1]) == 500
    right = sum(int(cells[k + 1]) for k, cells in enumerate(confusion))
    assert right / 500 == pytest.approx(trained.measures[-1].accuracy, abs=1e-9)
    assert 'download="calibration.csv"' in html
    assert 'download="confusion.csv"' in html
    assert "Calibration on" not in fit_report(without, COMMAND)


def test_tile_counts_rows_in_rows_of_the_cleanest():
    """Of 25% flipped labels a row tells (1 - 2·0.25)² = ¼ of an exact one."""
    sources = [uneven.Source("a", rows=1000), uneven.Source("b", rows=500, noise=uneven.FlippedLabels(0.25))]
    plan = uneven.plan(sources, n_features=3)
    assert tiles._total(plan, "b", "a") == "The 500 rows of b count for 125 of a."

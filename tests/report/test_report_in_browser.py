"""Reports in a real Chromium: no word on the console, no request, nothing wider than the screen, light and dark."""

import csv
import io
import json

import numpy as np
import pytest

import uneven
from uneven.report import crowd_report, plan_report

pytestmark = pytest.mark.slow

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

KINDS = ["plan-precision", "plan-arbitrary", "fit-private", "fit-simulated", "fit-anchored", "demo"]


@pytest.fixture
def shown(browser, reports, tmp_path):
    """Open a report; whatever it says, asks for or fails at is kept."""
    contexts = []

    def show(kind, width, scheme="light", media="screen"):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        page, heard = context.new_page(), []
        page.on("console", lambda message: heard.append(message.text))
        page.on("pageerror", lambda error: heard.append(str(error)))
        page.on("dialog", lambda dialog: heard.append(dialog.message))
        page.on("request", lambda request: heard.append(request.url))
        page.emulate_media(media=media)
        path = tmp_path / f"{kind}.html"
        path.write_text(reports[kind], encoding="utf-8")
        page.goto(path.as_uri())
        assert heard == [path.as_uri()]  # the page itself, and nothing more
        if media == "screen":
            for folded in page.locator("summary").all():  # the theory, and the sources file where there is one
                folded.click()
        return page

    yield show
    for context in contexts:
        context.close()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("width", "shape"), [(1280, "wide"), (390, "narrow")])
def test_fits_the_screen(shown, kind, width, shape):
    page = shown(kind, width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for one in ("wide", "narrow"):
        pictures = page.locator(f"figure > svg.{one}")
        assert pictures.count() >= (2 if kind == "fit-anchored" else 3)
        assert all(picture.is_visible() == (one == shape) for picture in pictures.all())
    sizes = page.evaluate(
        "[...document.querySelectorAll('figure > svg')].filter(s => s.getClientRects().length)"
        ".map(s => 12 * s.getBoundingClientRect().width / s.viewBox.baseVal.width)"
    )
    assert min(sizes) >= 11  # letters in pictures, in pixels


def find_letters_outside(page):
    """Texts that reach beyond their picture, those that a pointer brings up among them."""
    page.add_style_tag(content="svg .tip { display: block }")
    return page.evaluate(
        """[...document.querySelectorAll('figure > svg')].filter(s => s.getClientRects().length).flatMap(s => {
            const box = s.getBoundingClientRect();
            return [...s.querySelectorAll('text')].filter(t => {
                const own = t.getBoundingClientRect();
                return own.left < box.left - 1 || own.right > box.right + 1 || own.bottom > box.bottom + 1;
            }).map(t => t.textContent);
        })"""
    )


@pytest.mark.parametrize("kind", ["plan-precision", "fit-simulated", "fit-anchored", "demo"])
@pytest.mark.parametrize("width", [1280, 390])
def test_letters_stay_inside_pictures(shown, kind, width):
    page = shown(kind, width)
    assert find_letters_outside(page) == []


@pytest.mark.parametrize(("width", "shape"), [(1280, "wide"), (390, "narrow")])
def test_bars_of_a_crowd_tell_their_figures(shown, reports, monkeypatch, width, shape):
    workers = [f"{'worker ' * 9}{k}" for k in range(3)]
    answers = {"task": [0, 1, 2, 3] * 3, "worker": np.repeat(workers, 4), "label": [0, 1, 0, 1] * 2 + [0, 1, 0, 0]}
    monkeypatch.setitem(reports, "crowd", crowd_report(uneven.from_answers(answers), "uneven crowd answers.csv"))
    page = shown("crowd", width)
    bar = page.locator(f"svg.{shape} .mark").first
    assert not bar.locator(".tip").is_visible()
    bar.locator("rect").hover(force=True)
    assert bar.locator(".tip").is_visible()
    assert bar.locator(".tip").text_content().endswith(": 33.33% of all answers")
    assert find_letters_outside(page) == []


@pytest.mark.parametrize("kind", KINDS)
def test_stacked_tables_fit_a_phone(shown, kind):
    """Verdicts, scores with their intervals and levels of noise are read without scrolling sideways."""
    page = shown(kind, 390)
    boxes = page.locator(".scroll:has(table.stacked)")
    assert boxes.count() >= (2 if kind.startswith("plan") else 1)
    assert boxes.evaluate_all("all => all.every(box => box.scrollWidth <= box.clientWidth + 1)")


def test_ten_sources_take_a_line_each_on_a_phone(shown, reports, monkeypatch):
    """Every column is there, a phone scrolls to some of them; and no number is broken."""
    sources = [uneven.Source(f"clinic {k}", 5_000, uneven.LocalPrivacy(1.0 + k)) for k in range(10)]
    monkeypatch.setitem(reports, "many", plan_report(uneven.plan(sources, 20), "uneven plan sources.toml"))
    headers = "all => all.filter(one => one.getClientRects().length).map(one => one.textContent)"
    seen = {}
    for width in (1280, 390):
        tile = shown("many", width).locator(".wide-tile")
        seen[width] = tile.locator("thead th").evaluate_all(headers)
        scrolls = tile.locator(".scroll").evaluate("box => box.scrollWidth > box.clientWidth + 1")
        assert scrolls == (width == 390)
        lines = "all => all.map(one => { const r = document.createRange(); r.selectNodeContents(one); return r; })"
        broken = f"({lines})(all).filter(r => new Set([...r.getClientRects()].map(b => b.top)).size > 1).length"
        assert tile.page.locator(".tile td.number").evaluate_all(f"all => {broken}") == 0
        assert tile.locator("p.narrow").is_visible() == (width == 390)
        heights = tile.locator("tbody tr").evaluate_all("all => all.map(one => one.getBoundingClientRect().height)")
        assert len(heights) == 10
        assert max(heights) < 60
    assert seen[390] == seen[1280]
    assert len(seen[1280]) == 6


@pytest.mark.parametrize("kind", ["fit-simulated", "fit-anchored"])
def test_lines_of_names_do_not_overlap(shown, kind):
    page = shown(kind, 390)
    overlapping = page.evaluate(
        """[...document.querySelectorAll('svg.narrow')].filter(s => s.getClientRects().length).flatMap(s => {
            const lines = [...s.querySelectorAll('tspan')].map(t => [t.getBoundingClientRect(), t.textContent]);
            return lines.filter(([own], k) => lines.some(([other], i) =>
                i < k && own.top < other.bottom - 4 && other.top < own.bottom - 4
                && own.left < other.right && other.left < own.right)).map(([, told]) => told);
        })"""
    )
    assert overlapping == []


def test_light_and_dark(shown):
    ground = "getComputedStyle(document.body).backgroundColor"
    assert shown("fit-simulated", 1280, "light").evaluate(ground) == "rgb(255, 255, 255)"
    assert shown("fit-simulated", 1280, "dark").evaluate(ground) == "rgb(20, 24, 29)"


def test_prints(shown):
    page = shown("demo", 794, media="print")
    assert page.evaluate("document.documentElement.scrollWidth") <= 794
    assert len(page.pdf()) > 20_000


def test_what_a_screen_reader_is_told(shown):
    page = shown("demo", 390)
    assert page.get_by_role("heading", level=1).count() == 1
    for name in ("Bound of every strategy", "Step sizes over the run", "Share of rows and of information"):
        assert page.get_by_role("group", name=name).count() == 1  # the other shape is hidden from it too
    assert page.get_by_role("row", name="precision (quiet)").count() == 1
    assert (
        page.get_by_role("columnheader", name="test accuracy").count() == 2
    )  # of the strategies, and with public rows


QUESTIONS = [
    "Which source first?",
    "How far to step?",
    "Is each source worth using?",
    "What is a row worth?",
    "What does it cost in privacy?",
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_five_tiles_are_shown_first(shown, kind, scheme):
    page = shown(kind, 1280, scheme)
    assert [tile.inner_text().splitlines()[0] for tile in page.locator(".tile").all()] == QUESTIONS
    lowest_tile = max(tile.bounding_box()["y"] for tile in page.locator(".tile").all())
    assert lowest_tile < page.locator("figure").first.bounding_box()["y"]


@pytest.mark.parametrize("kind", KINDS)
def test_pointing_at_a_mark_shows_its_value(shown, kind):
    page = shown(kind, 1280)
    tips = page.locator("svg.wide .mark .tip")
    assert not any(tip.is_visible() for tip in tips.all())
    page.locator("svg.wide .mark").first.hover(force=True)  # two marks in one place are drawn one over the other
    (said,) = [tip.text_content() for tip in tips.all() if tip.is_visible()]
    assert any(letter.isdigit() for letter in said)


@pytest.mark.parametrize("kind", KINDS)
def test_every_download_has_its_rows(shown, kind, tmp_path):
    page = shown(kind, 1280)
    links = page.locator("a[download]").all()
    assert {"sources.csv", "report.json"} <= {link.inner_text() for link in links}
    for link in links:
        with page.expect_download() as started:
            link.click()
        started.value.save_as(tmp_path / "saved")
        text = (tmp_path / "saved").read_text(encoding="utf-8")
        if link.inner_text().endswith(".json"):
            assert json.loads(text)["plan"]["sources"]
        else:
            header, *rows = csv.reader(io.StringIO(text))
            assert rows
            assert all(len(row) == len(header) for row in rows)


def test_five_tiles_hover_and_download(shown, tmp_path):
    page = shown("fit-anchored", 390)
    assert page.locator(".tile").count() == 5
    assert all(tile.is_visible() for tile in page.locator(".tile").all())
    assert page.evaluate(
        "[...document.querySelectorAll('.tile .scroll')].every(box => box.scrollWidth <= box.clientWidth + 1)"
    )
    mark = page.locator("svg.narrow .mark").first
    assert not mark.locator(".tip").is_visible()
    mark.focus()
    assert mark.locator(".tip").is_visible()
    assert mark.locator(".tip").text_content().startswith("clinic: ")
    page.context.grant_permissions(["clipboard-read"])
    page.get_by_role("button", name="Copy table").first.click()
    assert page.evaluate("navigator.clipboard.readText()").startswith("private source\tverdict\texcess with all")
    with page.expect_download() as started:
        page.get_by_role("link", name="sources.csv").click()
    started.value.save_as(tmp_path / "sources.csv")
    assert (tmp_path / "sources.csv").read_text(encoding="utf-8").count("clinic") == 1


def test_names_are_text(shown):
    page = shown("plan-precision", 1280)
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 1  # the copy buttons'
    assert page.get_by_text("</svg><img src=x onerror=alert(1)>").first.is_visible()

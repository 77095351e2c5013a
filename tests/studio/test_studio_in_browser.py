"""The studio in a real Chromium: type into the table, watch the plan change, save and open a file, run the simulation.

Any error in the console fails the test, and so does any request that leaves loopback.
"""

import re
from urllib.parse import urlsplit

import pytest
from hospitals import SETTINGS, plan_as_fit
from own_epsilons import OWN_EPSILON, write_own_epsilons
from served import served

import uneven
from uneven.io import read_sources, sources_to_text
from uneven.planner import text
from uneven.studio import table
from uneven.training.ahead import plan_ahead

pytestmark = pytest.mark.slow

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
PATIENCE = 60_000
playwright.expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with served(cwd=tmp_path_factory.mktemp("studio")) as (_, address):
        yield address


@pytest.fixture
def opened(browser, url):
    """Open the page at a size; at the end, nothing must have gone wrong and nothing must have left the machine."""
    contexts, wrong = [], []

    def watch(request):
        if urlsplit(request.url).scheme not in ("data", "blob") and urlsplit(request.url).hostname != "127.0.0.1":
            wrong.append(f"request to {request.url}")

    def note(message):
        if message.type == "error":
            wrong.append(f"console: {message.text}")

    def open_page(size=DESKTOP, scheme="light"):
        context = browser.new_context(viewport=size, color_scheme=scheme, accept_downloads=True)
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        context.on("request", watch)
        context.on("console", note)
        context.on("weberror", lambda error: wrong.append(f"page: {error.error}"))
        page = context.new_page()
        page.on("websocket", watch)
        page.goto(url)
        settled(page)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert wrong == []


def settled(page):
    """Wait until the page has run to its end and nothing is under way."""
    page.get_by_text("The plan as plain values").wait_for()
    playwright.expect(page.locator('[data-testid="stApp"]')).to_have_attribute("data-test-script-state", "notRunning")


def type_into(page, column, row, value):
    """Type into a cell of the table: to the first cell by a click, on from there by arrow keys.

    A click right after one elsewhere may only give the table its focus: then a second one selects the cell.
    """
    grid = page.locator('[data-testid="stDataFrame"] .dvn-scroller').first
    overlay = page.locator("#portal").get_by_role("textbox").or_(page.locator("#portal input")).first
    for patience in (4_000, 4_000, 4_000, 4_000, PATIENCE):
        grid.scroll_into_view_if_needed()
        grid.click(position={"x": 70, "y": 35 + 17})
        for key, times in (("ArrowDown", row), ("ArrowRight", table.COLUMNS.index(column)), ("Enter", 1)):
            for _ in range(times):
                page.keyboard.press(key)
        try:
            overlay.wait_for(timeout=patience)
            break
        except playwright.TimeoutError:
            continue
    overlay.fill(str(value))
    page.keyboard.press("Enter")


def type_until(page, column, row, value, shown):
    """The same, again if it was lost: a table that is just being drawn anew forgets what is typed into the old one."""
    for _ in range(4):
        settled(page)
        type_into(page, column, row, value)
        try:
            page.get_by_text(shown).wait_for(timeout=8_000)
            return
        except playwright.TimeoutError:
            page.keyboard.press("Escape")
    playwright.expect(page.get_by_text(shown)).to_be_visible()


def promise(sources, **settings):
    planned = plan_as_fit(sources, **settings)
    return text.describe_use(planned)[-1].rstrip(".")


def test_typing_into_the_table_changes_the_plan(opened):
    page = opened()
    playwright.expect(page.get_by_text(promise(table.HOSPITALS))).to_be_visible()
    clinic, region = table.HOSPITALS
    more = [clinic, uneven.Source("region", 900_000, region.noise)]
    type_until(page, "rows", 1, 900_000, promise(more))
    worse = [uneven.Source("clinic", 50_000, uneven.LocalPrivacy(2)), more[1]]
    type_until(page, "level", 0, 2, promise(worse))
    type_until(page, "name", 0, "hospice", "Use 'region', then 'hospice': one pass")


def test_a_setting_changes_the_plan(opened):
    page = opened()
    alpha = page.get_by_label("L2 strength λ (alpha)")
    alpha.fill("0.02")
    alpha.press("Enter")
    playwright.expect(page.get_by_text(promise(table.HOSPITALS, alpha=0.02))).to_be_visible()


def test_a_bad_cell_is_one_line_and_the_rest_stays(opened):
    page = opened()
    type_into(page, "level", 1, -1)
    alert = page.get_by_text("Row 2: epsilon must be a positive finite number, got -1")
    playwright.expect(alert).to_be_visible()
    playwright.expect(page.get_by_text("Use 'clinic' alone")).to_be_visible()
    type_into(page, "level", 1, 1)
    playwright.expect(alert).to_be_hidden()
    playwright.expect(page.get_by_text("Use 'region', then 'clinic'")).to_be_visible()


def test_a_file_is_saved_and_opened(opened, tmp_path):
    page = opened()
    clinic, region = table.HOSPITALS
    changed = [uneven.Source("clinic", 60_000, clinic.noise), region]
    type_until(page, "rows", 0, 60_000, promise(changed))
    settled(page)
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as sources.toml").click()
    saved = tmp_path / download.value.suggested_filename
    download.value.save_as(saved)
    assert saved.name == "sources.toml"
    assert plan_ahead(read_sources(saved))[0] == plan_as_fit(changed)

    fresh = opened()
    fresh.locator('input[type="file"]').set_input_files(saved)
    playwright.expect(fresh.get_by_text(promise(changed))).to_be_visible()
    fresh.locator('input[type="file"]').set_input_files(
        {"name": "bad.toml", "mimeType": "application/toml", "buffer": b"alpha = = 1"}
    )
    playwright.expect(fresh.get_by_text("bad.toml, line 1:")).to_be_visible()
    playwright.expect(fresh.get_by_text(promise(changed))).to_be_visible()


def test_a_file_takes_the_place_of_what_was_typed(opened):
    """Even one that says what the page began with; and then the table can be typed into again."""
    page = opened()
    clinic, region = table.HOSPITALS
    for rows in (77_000, 6_000):
        typed = [uneven.Source("clinic", rows, clinic.noise), region]
        type_until(page, "rows", 0, rows, promise(typed))
        settled(page)
        content = sources_to_text(table.HOSPITALS, n_features=SETTINGS["n_features"]).encode()
        page.locator('input[type="file"]').set_input_files(
            {"name": f"{rows}.toml", "mimeType": "application/toml", "buffer": content}
        )
        playwright.expect(page.get_by_text(promise(table.HOSPITALS))).to_be_visible()
        settled(page)


FILE = """\
# Two hospitals. Nothing here may get lost.
label = "ill"  # the diagnosis
classes = ["no", "yes"]
row_norm = 2.5

[columns]  # public
age = { range = [0, 120] }
"blood type" = { values = ["a", "b"] }

# the near one
[[source]]
name = "near"
data = "near.csv"  # of the registry
rows = 5000
id = "patient"
noise = { kind = "local-privacy", epsilon = 3.0, activity = 0.25 }
prices = [{ epsilon = 1, price = 0.02 }, { epsilon = 3, price = 0.1 }]

[[source]]
name = "far"
rows = 90_000
noise = { kind = "local-privacy", epsilon = 1.0 }
"""


def download(page, name, folder):
    settled(page)
    with page.expect_download() as started:
        page.get_by_role("button", name=name).click()
    started.value.save_as(folder / started.value.suggested_filename)
    return (folder / started.value.suggested_filename).read_text(encoding="utf-8")


def test_a_round_trip_loses_nothing(opened, tmp_path):
    """Opened and saved it is the same file; with a cell changed, that alone is another; and so after a reload."""
    page = opened()
    content = {"name": "mine.toml", "mimeType": "application/toml", "buffer": FILE.encode()}
    page.locator('input[type="file"]').set_input_files(content)
    playwright.expect(page.get_by_text("Kept as they are: label, classes, columns, data, id, prices")).to_be_visible()
    assert download(page, "Save as sources.toml", tmp_path) == FILE
    type_into(page, "rows", 1, 80_000)
    playwright.expect(page.get_by_text(re.compile("80,000")).first).to_be_attached()
    changed = FILE.replace("90_000", "80000")
    assert download(page, "Save as sources.toml", tmp_path) == changed
    page.reload()
    settled(page)
    assert download(page, "Save as sources.toml", tmp_path) == changed


def test_rows_that_tell_their_epsilon_and_several_noises(browser, tmp_path):
    """Such a file opens, is costed by the price of the source, and is saved as it was."""
    path = write_own_epsilons(tmp_path)
    with served(path.name, cwd=tmp_path) as (_, address):
        page = browser.new_page(viewport=DESKTOP)
        page.goto(address)
        settled(page)
        row = page.get_by_role("row").filter(has_text=re.compile(r"consented \(ε = 1\).*%.*5,000"))
        playwright.expect(row.first).to_be_visible()
        playwright.expect(page.get_by_text("200 at ε = 1; 1,000 at ε = 3")).to_be_visible()
        assert download(page, "Save as sources.toml", tmp_path) == OWN_EPSILON
        page.close()


def test_the_report_and_the_worth_of_each_source(opened, tmp_path):
    page = opened()
    playwright.expect(page.get_by_role("heading", name="Is each source worth using?")).to_be_visible()
    playwright.expect(page.get_by_role("cell", name="yes").first).to_be_visible()
    report = download(page, "Download the report", tmp_path)
    assert report.startswith("<!DOCTYPE html>")
    assert "Is each source worth using?" in report
    assert "clinic" in report


def test_the_simulation_runs(opened):
    page = opened()
    runs = page.get_by_label("Runs", exact=True)
    runs.fill("2")
    runs.press("Enter")
    page.get_by_role("button", name="Run a small simulation").click()
    note = page.get_by_text("2 runs; each used 2,000 of clinic, 17,999 of region")
    playwright.expect(note).to_be_visible(timeout=240_000)
    picture = page.get_by_role("img", name=re.compile("measured and predicted"))
    playwright.expect(picture).to_be_visible()
    assert picture.evaluate("image => image.naturalWidth") > 500
    playwright.expect(page.get_by_text(re.compile("±")).first).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_it_fits_the_screen(opened, size, scheme):
    """Nothing sticks out sideways, and every picture says what it is."""
    page = opened(size, scheme)
    main = page.locator('[data-testid="stMain"]')
    assert main.evaluate("part => part.scrollWidth - part.clientWidth") <= 0
    assert page.get_by_role("heading", level=1).count() == 1
    for picture in page.locator('[data-testid="stMain"] img').all():
        assert len(picture.get_attribute("alt")) > 20
        assert picture.bounding_box()["width"] <= size["width"]
    shade = main.evaluate("part => getComputedStyle(part.closest('.stApp')).backgroundColor")
    assert (max(map(int, re.findall(r"\d+", shade)[:3])) < 100) == (scheme == "dark")

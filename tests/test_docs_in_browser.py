"""How the documentation's tables look on a phone: those of words are stacked, those of numbers scroll."""

from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

STATIC = Path(__file__).parents[1] / "docs" / "_static"
TABLE = """<table class="docutils" id="{}">
<thead><tr><th>key</th><th>meaning, \\(M\\)</th><th>left out</th></tr></thead>
<tbody><tr><td><p>{}</p></td><td><p>{}</p></td><td><p>{}</p></td></tr></tbody></table>"""
WORDS = ("alpha", "strength of the penalty: larger values keep the weights of a model shorter", "")
NUMBERS = ("0.1", "0.2", "0.3")


@pytest.fixture
def shown(browser, tmp_path):
    contexts = []

    def show(width):
        context = browser.new_context(viewport={"width": width, "height": 900})
        contexts.append(context)
        page = context.new_page()
        tables = TABLE.format("words", *WORDS) + TABLE.format("numbers", *NUMBERS)
        parts = [f"<style>{(STATIC / 'wide.css').read_text()}</style>", tables]
        parts.append(f"<script>{(STATIC / 'tables.js').read_text()}</script>")
        path = tmp_path / "page.html"
        path.write_text("<!doctype html><meta charset=utf-8><body>" + "".join(parts), encoding="utf-8")
        page.goto(path.as_uri())
        return page

    yield show
    for context in contexts:
        context.close()


def test_words_are_stacked_on_a_phone_alone(shown):
    page = shown(390)
    rows = page.locator("#words tr:visible")
    assert rows.count() == 1  # without the header
    first, second, third = rows.locator("td").all()
    assert first.bounding_box()["y"] + first.bounding_box()["height"] <= second.bounding_box()["y"] + 1
    assert not third.is_visible()  # nothing to say, so no header for it either
    assert second.evaluate("cell => getComputedStyle(cell, '::before').content") == '"meaning, M: "'  # formulas too
    assert page.locator("#numbers thead").is_visible()
    assert shown(1280).locator("#words thead").is_visible()


def test_pages_use_the_script():
    assert "tables.js" in (STATIC.parent / "conf.py").read_text(encoding="utf-8")

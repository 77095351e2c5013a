"""Make docs/report.png, the picture of a report in the README: ``make pictures``.

A plan for 300 public rows and 20,000 private ones of the sample of Covertype; its report in a browser; the top of that.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from playwright.sync_api import sync_playwright

from uneven.datasets import load_covertype_sample

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SIZE = {"width": 1000, "height": 1400}
MARGIN = 16
SOURCES = """\
label = "spruce"
row_norm = 1.0
[[source]]
name = "open"
data = "open.csv"
noise = { kind = "exact" }
[[source]]
name = "clients"
data = "clients.csv"
noise = { kind = "local-privacy", epsilon = 3.0 }
"""


def write_report(folder: Path) -> Path:
    """Files, and the report that ``uneven plan`` writes on them."""
    data = load_covertype_sample()
    for name, rows in (("open", slice(300)), ("clients", slice(300, 20_300))):
        table = np.column_stack([data.X[rows], data.y[rows] > 0])
        header = ",".join([*(f"c{k}" for k in range(data.X.shape[1])), "spruce"])
        np.savetxt(folder / f"{name}.csv", table, "%.6g", ",", header=header, comments="")
    (folder / "sources.toml").write_text(SOURCES, encoding="utf-8")
    command = f"{sys.executable} -m uneven plan sources.toml --report plan.html"
    subprocess.run(shlex.split(command), cwd=folder, check=True, capture_output=True)
    return folder / "plan.html"


def main() -> None:
    """Write the picture."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE, color_scheme="light")
        page.goto(write_report(Path(folder)).as_uri())
        shown = page.locator("section").nth(1).bounding_box()  # the answers are the first section, the chart the second
        size = {**SIZE, "height": shown["y"] + shown["height"] + MARGIN}
        page.screenshot(path=Path(__file__).with_name("report.png"), full_page=True, clip={"x": 0, "y": 0, **size})


if __name__ == "__main__":
    main()

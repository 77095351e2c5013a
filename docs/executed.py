"""Sphinx step: runs the Python blocks of a page, in order, and puts what they print, return and draw below each.

``python docs/executed.py README.md`` does the same to a file that is not built: it rewrites its blocks of ``output``,
and the lines of the demo that the README quotes.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
MADE = HERE / "_generated"
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text output\n.*?^```\n)?", flags=re.M | re.S)
MOST_LINES, MOST_LETTERS = 40, 2_000


def run_page(text: str) -> list[tuple[str, dict[str, bytes]]]:
    """What each block says, and the pictures that it wrote, by name."""
    names: dict[str, Any] = {"__name__": "__main__"}
    found, before, seen = [], Path.cwd(), set[str]()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for block in BLOCK.findall(text):
                said = run_block(block, names)
                made = {path.name: path.read_bytes() for path in sorted(Path().glob("*.png")) if path.name not in seen}
                seen |= set(made)
                found.append((said, made))
        finally:
            os.chdir(before)
    return found


def run_block(block: str, names: dict[str, Any]) -> str:
    """What a block prints; and the value of each line that is an expression, as a notebook shows it."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(io.StringIO()):
        for node in ast.parse(block).body:
            if isinstance(node, ast.Expr):
                value = eval(compile(ast.Expression(node.value), "<page>", "eval", dont_inherit=True), names)
                if value is not None and not re.search(r"<matplotlib|Text\(|<\w+Container", shown := repr(value)):
                    print(_shortened(shown))
            else:
                exec(compile(ast.Module([node], []), "<page>", "exec", dont_inherit=True), names)
    lines = said.getvalue().rstrip().splitlines()
    return "\n".join(lines if len(lines) <= MOST_LINES else [*lines[:MOST_LINES], "..."])


def _shortened(text: str) -> str:
    return text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]} ..."


def below(said: str, pictures: dict[str, str]) -> str:
    """Output as Markdown."""
    shown = f"\n```text\n{said}\n```\n" if said else ""
    alts = {name: name.removesuffix(".png").replace("-", " ").capitalize() for name in pictures}
    return shown + "".join(f"\n![{alts[name]}]({place})\n" for name, place in pictures.items())


def _run_once(page: str, text: str, code: str) -> list[tuple[str, dict[str, str]]]:
    """Results of a page, from the last build if neither the page nor the package has changed since."""
    key = hashlib.sha256((code + text).encode()).hexdigest()
    stem = page.replace("/", "-")
    kept = MADE / f"{stem}.json"
    if kept.exists() and (old := json.loads(kept.read_text("utf-8")))["key"] == key:
        return [(said, made) for said, made in old["found"]]
    found = []
    for said, made in run_page(text):
        for name, content in made.items():
            (MADE / f"{stem}-{name}").write_bytes(content)
        found.append((said, {name: f"/_generated/{stem}-{name}" for name in made}))
    kept.write_text(json.dumps({"key": key, "found": found}), encoding="utf-8")
    return found


def _run_all(app: Any) -> None:
    """Run every page before any is read: the gallery shows pictures that other pages make."""
    MADE.mkdir(exist_ok=True)
    package = sorted((HERE.parent / "src").rglob("*.py"))
    code = hashlib.sha256(b"".join(path.read_bytes() for path in package)).hexdigest()
    app.executed = {}
    for path in sorted([*HERE.glob("*.md"), *HERE.glob("gallery/*.md")]):
        page, text = path.relative_to(HERE).with_suffix("").as_posix(), path.read_text("utf-8")
        if BLOCK.search(text):
            app.executed[page] = _run_once(page, text, code)


def _insert(app: Any, page: str, source: list[str]) -> None:
    found = iter(app.executed.get(page, []))
    source[0] = BLOCK.sub(lambda block: block.group() + below(*next(found)), source[0])


def setup(app: Any) -> dict[str, bool]:
    """What Sphinx calls."""
    app.connect("builder-inited", _run_all)
    app.connect("source-read", _insert)
    return {"parallel_read_safe": True}


def rewrite(path: Path) -> str:
    """Text of a page with each block's output below it, in blocks marked as such."""
    text = path.read_text("utf-8")
    found = iter(run_page(text))

    def one(block: re.Match[str]) -> str:
        said, _ = next(found)
        return f"```python\n{block[1]}```\n" + (f"\n```text output\n{said}\n```\n" if said else "")

    return BLOCK.sub(one, text)


def quote_demo(text: str) -> str:
    """Text with the lines of the demo that it quotes, in its first block of text, as the demo prints them now."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "uneven", "demo", "-o", "demo"]
        run = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, encoding="utf-8")
    printed = {tuple(re.split(r"\s{2,}", line.strip())[:2]): line.rstrip() for line in run.stdout.splitlines()}

    def one(block: re.Match[str]) -> str:
        lines = [printed[tuple(re.split(r"\s{2,}", line.strip())[:2])] for line in block[1].splitlines()]
        return "```text\n" + "\n".join(lines) + "\n```\n"

    return re.sub(r"^```text\n(.*?)^```\n", one, text, count=1, flags=re.M | re.S)


if __name__ == "__main__":
    for given in map(Path, sys.argv[1:]):
        given.write_text(rewrite(given), encoding="utf-8")
        if given.name == "README.md":
            given.write_text(quote_demo(given.read_text("utf-8")), encoding="utf-8")

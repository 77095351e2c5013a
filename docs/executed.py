"""Sphinx step: runs the blocks of a page, in order, and puts what they print, return and draw below each.

Blocks of a page share one scratch folder, which holds the small files of ``docs/files.py``. A word after ``console``
says what is done with a block: ``quiet`` is run, and its output is not shown; ``recorded`` needs a full data set, so
its output is taken from ``docs/results/console``, which ``make recorded`` writes; ``not-run`` installs something,
starts a server or takes long. A block ``toml sources.toml`` is written to that file. Commands in a comment
``<!-- run ... -->`` are run unseen.

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
import shlex
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from files import write_files

HERE = Path(__file__).parent
MADE = HERE / "_generated"
RECORDS = HERE / "results" / "console"
BLOCK = re.compile(
    r"^(?:```(?P<kind>python|console|toml(?= \S))(?P<how>[^\n]*)\n(?P<code>.*?)^```\n(?:\n```text output\n.*?^```\n)?"
    r"|<!-- run\n(?P<unseen>.*?)^-->\n)",
    flags=re.M | re.S,
)
HOW = ("", "quiet", "recorded", "not-run")
MOST_LINES, MOST_LETTERS, WIDTH = 60, 2_000, 100
Found = tuple[str, dict[str, bytes]]


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """Work in an empty folder for a while."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield Path(folder)
        finally:
            os.chdir(before)


def run_page(text: str, page: str = "") -> list[Found]:
    """What each block says, and the pictures that it wrote, by name."""
    names: dict[str, Any] = {"__name__": "__main__"}
    found, seen = [], set[str]()
    with scratch() as folder:
        if "```console" in text:
            write_files(folder)
        for block in BLOCK.finditer(text):
            said = run_one(block, names, page)
            made = {path.name: path.read_bytes() for path in sorted(Path().glob("*.png")) if path.name not in seen}
            seen |= set(made)
            found.append((said, made))
    return found


def run_one(block: re.Match[str], names: dict[str, Any], page: str) -> str:
    """What is to be shown below a block."""
    if block["kind"] == "python":
        return run_block(block["code"], names)
    if block["unseen"] is not None:
        run_commands(block["unseen"])
        return ""
    how = block["how"].strip()
    if block["kind"] == "toml":
        Path(how).write_text(block["code"], encoding="utf-8")
        return ""
    if how not in HOW:
        raise ValueError(f"{page}: a console block must be one of {HOW}, got {how!r}")
    if how == "recorded":
        return read_record(page, block["code"])
    said = "" if how == "not-run" else run_commands(block["code"])
    return "" if how == "quiet" else said


def run_commands(code: str) -> str:
    """What the commands print, on standard output and standard error; a command that fails stops the build."""
    said = []
    for line in code.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["uneven"] and "--rehearse" not in words:  # its transport starts once in a process
            said.append(run_uneven(words[1:]))
        elif words:
            command = re.sub(r"^uneven ", f"{shlex.quote(sys.executable)} -m uneven ", line)
            run = subprocess.run(["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True)
            said.append(run.stdout.decode())
    return fold("\n".join(text.strip("\n") for text in said if text))


def run_uneven(arguments: list[str]) -> str:
    """What a command of ``uneven`` prints, run in this process, which has loaded everything."""
    import uneven.cli

    said = io.StringIO()
    shown = contextlib.redirect_stdout(said), contextlib.redirect_stderr(said)
    usual = (
        mock.patch.dict(os.environ, COLUMNS="100", NO_COLOR="1"),
        mock.patch.object(sys, "argv", ["uneven", *arguments]),
    )
    with shown[0], shown[1], usual[0], usual[1]:
        try:
            uneven.cli.main(arguments)
        except SystemExit as end:
            if end.code:
                raise RuntimeError(f"uneven {shlex.join(arguments)}: {said.getvalue()}") from None
    return said.getvalue()


def fold(text: str) -> str:
    """Lines broken between words, and only so many of them."""
    lines = [
        part
        for line in text.splitlines()
        for part in (textwrap.wrap(line, WIDTH, subsequent_indent="  ") if len(line) > WIDTH else [line.rstrip()])
    ]
    return "\n".join(lines if len(lines) <= MOST_LINES else [*lines[:MOST_LINES], "..."])


def read_record(page: str, code: str) -> str:
    """Output of a block that needs a full data set, as it was recorded."""
    path = RECORDS / f"{page}.md"
    kept = path.read_text("utf-8") if path.exists() else ""
    for known, said in re.findall(r"^```console\n(.*?)^```\n\n```text\n(.*?)^```\n", kept, flags=re.M | re.S):
        if known == code:
            return str(said.rstrip("\n"))
    raise ValueError(f"{path.name} has no output of this block, run 'make recorded':\n{code}")


def record(path: Path, data: Path) -> None:
    """Run the blocks of a page that need a full data set, and keep what they print."""
    blocks = [block["code"] for block in BLOCK.finditer(path.read_text("utf-8")) if block["how"] == " recorded"]
    with scratch() as folder:
        for file in (data / "bank").iterdir():
            (folder / file.name).symlink_to(file)
        parts = [f"```console\n{code}```\n\n```text\n{run_commands(code)}\n```\n" for code in blocks]
    kept = RECORDS / f"{path.stem}.md"
    kept.parent.mkdir(exist_ok=True)
    kept.write_text(f"Written by `make recorded`.\n\n{''.join(parts)}", encoding="utf-8")


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
    return fold(said.getvalue().rstrip())


def _shortened(text: str) -> str:
    return text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]} ..."


def below(said: str, pictures: dict[str, str]) -> str:
    """Output as Markdown."""
    shown = f"\n```text\n{said}\n```\n" if said else ""
    alts = {name: name.removesuffix(".png").replace("-", " ").capitalize() for name in pictures}
    return shown + "".join(f"\n![{alts[name]}]({place})\n" for name, place in pictures.items())


def _run_once(page: str, text: str, code: str) -> tuple[list[tuple[str, dict[str, str]]], bool]:
    """Results of a page, and whether it was run: not if neither it nor the package has changed since the last build."""
    key = hashlib.sha256((code + text).encode()).hexdigest()
    stem = page.replace("/", "-")
    kept = MADE / f"{stem}.json"
    if kept.exists() and (old := json.loads(kept.read_text("utf-8")))["key"] == key:
        return [(said, made) for said, made in old["found"]], False
    found = []
    for said, made in run_page(text, page):
        for name, content in made.items():
            (MADE / f"{stem}-{name}").write_bytes(content)
        found.append((said, {name: f"/_generated/{stem}-{name}" for name in made}))
    kept.write_text(json.dumps({"key": key, "found": found}), encoding="utf-8")
    return found, True


def _run_all(app: Any) -> None:
    """Run every page before any is read: the gallery shows pictures that other pages make."""
    MADE.mkdir(exist_ok=True)
    package = sorted([*(HERE.parent / "src").rglob("*.py"), *HERE.glob("*.py"), *RECORDS.glob("*.md")])
    code = hashlib.sha256(b"".join(path.read_bytes() for path in package)).hexdigest()
    app.executed, app.run_again = {}, []
    for path in sorted([*HERE.glob("*.md"), *HERE.glob("gallery/*.md")]):
        page, text = path.relative_to(HERE).with_suffix("").as_posix(), path.read_text("utf-8")
        if BLOCK.search(text):
            app.executed[page], again = _run_once(page, text, code)
            app.run_again += [page] * again


def _list_outdated(app: Any, *_: Any) -> list[str]:
    """Pages to be read again though their text is as it was: what their blocks print may have changed."""
    return list(app.run_again)


def _insert(app: Any, page: str, source: list[str]) -> None:
    found = iter(app.executed.get(page, []))
    source[0] = BLOCK.sub(lambda block: block.group() + below(*next(found)), source[0])


def setup(app: Any) -> dict[str, bool]:
    """What Sphinx calls."""
    app.connect("builder-inited", _run_all)
    app.connect("env-get-outdated", _list_outdated)
    app.connect("source-read", _insert)
    return {"parallel_read_safe": True}


def rewrite(path: Path) -> str:
    """Text of a page with each block's output below it, in blocks marked as such."""
    text = path.read_text("utf-8")
    found = iter(run_page(text))

    def one(block: re.Match[str]) -> str:
        said, _ = next(found)
        if block["unseen"] is not None:
            return block.group()
        shown = f"\n```text output\n{said}\n```\n" if said else ""
        return f"```{block['kind']}{block['how']}\n{block['code']}```\n{shown}"

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
    if sys.argv[1] == "--record":
        for given in map(Path, sys.argv[2:]):
            record(given, Path(os.environ["UNEVEN_DATA"]))
        sys.exit()
    for given in map(Path, sys.argv[1:]):
        given.write_text(rewrite(given), encoding="utf-8")
        if given.name == "README.md":
            given.write_text(quote_demo(given.read_text("utf-8")), encoding="utf-8")

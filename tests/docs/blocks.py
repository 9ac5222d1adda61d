"""The examples of the documents: fenced blocks that say in an HTML comment, which no reader sees, how they are run.

The line before a block is `<!-- test: SESSION [serve | prints | file=NAME] -->`. Blocks of one document and session
run in their order, in one empty folder: a `python` or `sh` block runs to its end and must succeed; `serve` starts a
server that stays until the session ends; `prints` is what the block before printed, with `...` for what changes;
`file=NAME` is written there. Blocks without the comment are shown, not run.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/README.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]

_MARKED = re.compile(r"^<!-- test: (\S+)(?: (\S+))? -->\n```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


class Block(NamedTuple):
    """One marked block: where it stands, its session, how it is run ("" is to its end), its language and text."""

    document: Path
    line: int
    session: str
    how: str
    language: str
    text: str


def blocks(document: Path) -> Iterator[Block]:
    """Yield the marked blocks of a document in order."""
    text = document.read_text(encoding="utf-8")
    for found in _MARKED.finditer(text):
        line = text.count("\n", 0, found.start()) + 2
        yield Block(document, line, found[1], found[2] or "", found[3], found[4])


def sessions() -> dict[str, list[Block]]:
    """Return the marked blocks of all documents by `DOCUMENT:SESSION`."""
    found: dict[str, list[Block]] = {}
    for document in DOCUMENTS:
        for block in blocks(document):
            found.setdefault(f"{document.relative_to(ROOT)}:{block.session}", []).append(block)
    return found


def links(document: Path) -> Iterator[str]:
    """Yield where the links of a document lead, code left out."""
    yield from _LINK.findall(_FENCED.sub("", document.read_text(encoding="utf-8")))


def anchors(document: Path) -> set[str]:
    """Return the anchors of a document's headings, as GitHub makes them."""
    text = _FENCED.sub("", document.read_text(encoding="utf-8"))
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in _HEADING.findall(text))
    return {heading.strip().replace(" ", "-") for heading in plain}


def rows(document: Path, heading: str) -> list[list[str]]:
    """Return the cells of every table row below a heading, down to the next one; no header rows, no rulers."""
    text = document.read_text(encoding="utf-8")
    section = re.split(r"^#+ ", text.partition(f"# {heading}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    head = {number - 1 for number, line in enumerate(lines) if set(line) <= set("|- ")}
    kept = [line for n, line in enumerate(lines) if n not in head and n - 1 not in head]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in kept]

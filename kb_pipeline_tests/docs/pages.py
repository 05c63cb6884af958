"""The project's Markdown pages, taken apart for the tests that hold them against the code."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

_FENCE = re.compile(r"^( *)```(.*)$")


@dataclass(frozen=True)
class Block:
    """A fenced block: the words after its fence (``sh``, ``sh tested``, ``json rows.jsonl``), and what is inside."""

    info: str
    text: str


def blocks(page: Path) -> list[Block]:
    """Fenced blocks of a page, in order."""
    found: list[Block] = []
    info, lines = "", None
    for line in page.read_text("utf-8").splitlines():
        fence = _FENCE.match(line)
        if fence is None:
            if lines is not None:
                lines.append(line)
        elif lines is None:
            info, lines = fence[2].strip(), []
        else:
            found.append(Block(info, "\n".join(lines) + "\n"))
            lines = None
    assert lines is None, f"{page} has a fence that is never closed"
    return found


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    kept, inside = [], False
    for line in page.read_text("utf-8").splitlines():
        if _FENCE.match(line):
            inside = not inside
        elif not inside:
            kept.append(line)
    return "\n".join(kept)


def spans(page: Path) -> list[str]:
    """Code spans outside of fenced blocks."""
    return re.findall(r"`([^`\n]+)`", prose(page))


def shell_lines(page: Path) -> list[str]:
    """Command lines of a page: lines of shell blocks, and code spans that begin like one."""
    lines = [line for block in blocks(page) if block.info.split()[:1] == ["sh"] for line in block.text.splitlines()]
    lines += [span for span in spans(page) if re.match(r"(kb|make) [a-z]", span)]
    return [line for line in lines if line.strip()]


def tables(page: Path) -> list[list[list[str]]]:
    """Tables outside of fenced blocks: rows of cells, the head first, without the line of dashes."""
    found: list[list[list[str]]] = []
    rows: list[list[str]] = []
    for line in [*prose(page).splitlines(), ""]:
        if line.startswith("|"):
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))]
            if not all(set(cell) <= {"-", ":"} and cell for cell in cells):
                rows.append(cells)
        elif rows:
            found.append(rows)
            rows = []
    return found


def table(page: Path, head: str) -> list[list[str]]:
    """Rows of the one table whose first head is ``head``, without the head."""
    (found,) = [rows for rows in tables(page) if rows[0][0] == head]
    return found[1:]


def codes(cell: str) -> list[str]:
    """Code spans of a cell."""
    return re.findall(r"`([^`]+)`", cell)


def anchors(page: Path) -> set[str]:
    """Anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}

"""KILT's Wikipedia pages by title: their section headings label the structuring task.

    extract(Path("kilt_knowledgesource.json"), titles, Path("out/data/pages.jsonl"), tell)
    read_pages(Path("out/data/pages.jsonl"))                {"Paul Simon": Document(...), ...}

The file has 35 GiB, a page a line. It is read once; the wanted pages are kept in a file of their own.
"""

import json
import re
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from harness.config.schema import digest
from harness.datasets.archives import opened
from harness.datasets.files import Broken, parse_line
from harness.datasets.html_pages import wiki_text
from harness.errors import DataError
from harness.storage.files import write_atomic
from harness.storage.json_lines import json_line, read_lines
from harness.types import Document
from harness_training.example_files import HEAD, is_made_from

_TITLE = re.compile(rb'"wikipedia_title":\s*("(?:[^"\\]|\\.)*")')
_EVERY = 500_000  # lines between two reports


def fold_title(title: str) -> str:
    """The form in which titles are compared: without quotes around them, single spaces."""
    return " ".join(title.split()).strip('"')


def extract(path: Path, titles: Collection[str], out: Path, tell: Callable[[str], None]) -> None:
    """Write the pages with these titles to `out`, unless it has them.

    Raises DataError for a file without pages, UserError where `out` was made from other titles, SaveError.
    """
    wanted = {fold_title(title) for title in titles if title.strip()}
    about = {"source": path.name, "bytes": path.stat().st_size, "titles": digest(sorted(wanted))[:16]}
    if is_made_from(out, about):
        return
    lines, known = [json_line({"id": HEAD, **about})], 0
    with opened(path) as stream:
        for number, line in enumerate(stream, start=1):
            match = _TITLE.search(line)
            known += match is not None
            if match is not None and fold_title(json.loads(match[1])) in wanted:
                row = parse_line(line.strip())
                if isinstance(row, Broken):
                    raise DataError(path.name, number, None, row.problem)
                lines.append(json_line(_parse_page(row)))
            if number % _EVERY == 0:
                tell(f"pages: {number:,} read, {len(lines) - 1:,} of {len(wanted):,} titles have one")
    if not known:
        raise DataError(path.name, None, None, "has no pages of KILT's Wikipedia (rows with wikipedia_title and text)")
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(out, b"".join(lines))
    tell(f"pages: {len(lines) - 1:,} of {len(wanted):,} titles have a page with KILT's headings")


def _parse_page(row: dict[str, Any]) -> dict[str, str]:
    """A page of KILT's file as id, title and text: the title, then the paragraphs with headings of sections."""
    title, text = str(row["wikipedia_title"]), row.get("text") or []
    paragraphs = text.get("paragraph", []) if isinstance(text, dict) else text  # the hub's copy, or KILT's file
    text = f"{title}\n{wiki_text(paragraphs, title)}"
    return {"id": str(row.get("wikipedia_id", title)), "title": title, "text": text}


def read_pages(out: Path) -> dict[str, Document]:
    """The pages of a file that `extract` wrote, by folded title."""
    rows = (row for row in read_lines(out, "id") if row["id"] != HEAD)
    return {fold_title(row["title"]): Document(row["id"], row["text"], row["title"]) for row in rows}

"""The documents of a question: those its row brings, and those a file of retrieved documents has for it.

    in a row     ctxs, docs, paragraphs, documents, retrieval_result, output.retrieval_result: a list of entries;
                 entity_pages with their wiki_context (TriviaQA's columns)
    in a file    {"question": [entries]} (LongRefiner), or a row a question, {"question": "..", "docs": [entries]}
    in a folder  TriviaQA's evidence, a text a page, named by EntityPages[].Filename; or rows {"Filename", "text"}

An entry is {"title", "text"} or {"contents": "Title\\nText"}, and may have an id and a mark that it holds the answer's
evidence (isgold, is_supporting). A page that two questions have is one document, named after its text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.datasets.files import Broken, first_key, kind_of, read_rows, whole
from harness.datasets.rows import RowError, line_of, made_id, records, told
from harness.errors import DataError
from harness.types import Document, Passage

__all__ = ["LISTS", "Store", "found_in", "open_store"]

LISTS = ("ctxs", "docs", "paragraphs", "documents", "retrieval_result")
_IDS = ("id", "docid", "doc_id", "pid", "passage_id", "wikipedia_id")
_MARKS = ("isgold", "is_supporting")
_ASKED = ("id", "question", "query", "input")
_ROW_KEYS = (*_ASKED, "Filename", "text", "output", "answer", "answers", "golden_answers", "sample_id")

Entry = tuple[Document, bool]


def _entry(value: Any, name: str) -> Entry:
    """A document, and whether it is marked as holding the evidence."""
    if isinstance(value, str):
        value = {"contents": value}
    if not isinstance(value, dict):
        raise RowError(name, f"should be an object, is {told(value)}")
    title = value.get("title") or ""
    key = next((k for k in ("contents", "text", "wiki_context") if value.get(k) is not None), None)
    if key is None:
        raise RowError(f"{name}.text", "is missing (it may also be called contents)")
    for field_name, text in (("title", title), (key, value[key])):
        if not isinstance(text, str):
            raise RowError(f"{name}.{field_name}", f"should be a string, is {told(text)}")
    text = value[key]
    if not text.strip():
        raise RowError(f"{name}.{key}", "is empty")
    if key == "contents":
        title = title or text.partition("\n")[0].strip('"')
    elif title:
        text = f"{title}\n{text}"
    given = next((value[k] for k in _IDS if isinstance(value.get(k), (str, int)) and str(value[k]).strip()), "doc")
    document = Document(made_id(str(given), text, 8), text, title, (Passage(title, 0, len(text)),))
    return document, any(value.get(mark) is True for mark in _MARKS)


def _entries(value: Any, name: str) -> list[Entry]:
    value = records(value, name)
    if not isinstance(value, list):
        raise RowError(name, f"should be a list, is {told(value)}")
    return [_entry(entry, f"{name}[{at}]") for at, entry in enumerate(value)]


def found_in(raw: Mapping[str, Any]) -> list[Entry] | None:
    """The documents a row brings itself, best first; None where it has no field for them. Raises RowError."""
    for name in LISTS:
        if raw.get(name) is not None:
            return _entries(raw[name], name)
    output = raw.get("output")
    if isinstance(output, dict) and output.get("retrieval_result") is not None:
        return _entries(output["retrieval_result"], "output.retrieval_result")
    pages = records(raw["entity_pages"], "entity_pages") if raw.get("entity_pages") is not None else []
    if isinstance(pages, list) and any(isinstance(p, dict) and p.get("wiki_context") for p in pages):
        kept = [p for p in pages if isinstance(p, dict) and p.get("wiki_context")]
        return _entries(kept, "entity_pages")
    return None


@dataclass
class Store:
    """Documents kept apart from the questions: by question or id, by file name, or as texts in a folder."""

    name: str
    by_question: dict[str, Any] = field(default_factory=dict)
    pages: dict[str, str] = field(default_factory=dict)
    folder: Path | None = None

    def find(self, raw: Mapping[str, Any], *keys: str) -> list[Entry] | None:
        """The documents of a question by one of its keys, or by its row's EntityPages. Raises RowError."""
        for key in keys:
            if (given := self.by_question.get(_folded(key))) is not None:
                return _entries(given, f"{self.name}: documents of '{key}'")
        named = raw.get("EntityPages")
        if not isinstance(named, list):
            return None
        found = []
        for at, page in enumerate(named):
            where = f"EntityPages[{at}]"
            file, title = (page.get(k) if isinstance(page, dict) else None for k in ("Filename", "Title"))
            if not isinstance(file, str) or not file:
                raise RowError(f"{where}.Filename", "is missing")
            text = self._page(file)
            if text is not None:
                title = title if isinstance(title, str) else ""
                found.append(_entry({"title": title, "text": text, "id": Path(file).stem}, where))
        return found or None

    def _page(self, file: str) -> str | None:
        if self.folder is None:
            return self.pages.get(file)
        path = self.folder / file
        inside = path.resolve().is_relative_to(self.folder.resolve())
        try:
            return path.read_text(encoding="utf-8") if inside and path.is_file() else None
        except (OSError, UnicodeDecodeError) as error:
            raise RowError("EntityPages", f"the page {file} cannot be read ({error})") from None


def _folded(key: str) -> str:
    return " ".join(key.split())


def open_store(place: str) -> Store:
    """What `dataset.documents` names: a file of retrieved documents, or a folder of pages. Raises DataError."""
    path = Path(place).expanduser()
    if path.is_dir():
        return Store(path.name, folder=path)
    if not path.is_file() or kind_of(path) is None:
        why = "no such file or folder" if not path.exists() else "not a data file by its name (.json, .jsonl, .parquet)"
        raise DataError(place, None, None, f"{why}; dataset.documents names the retrieved documents")
    store = Store(path.name)
    lines = path.name.lower().endswith((".jsonl", ".jsonl.gz"))
    if not lines and first_key(path) not in (None, *_ROW_KEYS, *LISTS):
        for question, documents in whole(path).items():
            store.by_question[_folded(question)] = documents
        return store
    _fill(store, path)
    return store


def _fill(store: Store, path: Path) -> None:
    """Rows of documents, by question or by file name."""
    for place, row in read_rows(path):
        if isinstance(row, Broken):
            raise place.error(None, row.problem)
        if isinstance(row.get("Filename"), str):
            if not isinstance(row.get("text"), str):
                raise place.error("text", "should be the text of the page")
            store.pages[row["Filename"]] = row["text"]
            continue
        listed = _listed(row)
        keys = [row[k] for k in _ASKED if isinstance(row.get(k), (str, int))]
        if listed is None or not keys:
            raise place.error(None, f"a row needs an id or a question, and one of {', '.join(LISTS)}")
        line_of(listed)
        for key in keys:
            store.by_question[_folded(str(key))] = listed
    if not store.by_question and not store.pages:
        raise DataError(store.name, None, None, "the file has no rows")


def _listed(row: Mapping[str, Any]) -> Any:
    output = row.get("output")
    places: Iterable[Any] = (
        *(row.get(name) for name in LISTS),
        output.get("retrieval_result") if isinstance(output, dict) else None,
    )
    return next((value for value in places if value is not None), None)

"""The documents of a question: those its row brings, and those that files of retrieved documents
have for it.

    in a row     ctxs, docs, paragraphs, documents, retrieval_result, output.retrieval_result: a list of entries;
                 entity_pages with their wiki_context (TriviaQA's columns)
    in a file    {"question": [entries]} (LongRefiner), or a row a question, {"question": "..", "docs": [entries]}
    in a folder  TriviaQA's evidence, a text a page, named by EntityPages[].Filename; or rows {"Filename", "text"}
    by page id   KILT's knowledge source, {"wikipedia_id", "wikipedia_title", "text": [paragraphs]}, beside rows or a
                 file whose entries are ids alone, {"wikipedia_id": "290"}; KILT's retrievers write
                 those as the provenance of an output

An entry is {"title", "text"}, {"contents": "Title\\nText"} or a KILT page, and may have an id and a
mark that it holds the answer's evidence (isgold, is_supporting). A page that two questions have is
one document, named after its text. The provenance in a row of questions is gold and never read.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.datasets.archives import opened
from harness.datasets.files import (
    file_kind,
    first_key,
    json_value,
    parse_each,
    parse_line,
    read_rows,
)
from harness.datasets.kilt_text import wiki_text
from harness.datasets.row_places import RowPlace, Rows
from harness.datasets.rows import (
    RowError,
    canonical_line,
    made_id,
    normalise_space,
    records_from_columns,
    type_name,
)
from harness.errors import DataError
from harness.types import Document, Passage

LISTS = ("ctxs", "docs", "paragraphs", "documents", "retrieval_result")
_IDS = ("id", "docid", "doc_id", "pid", "passage_id", "wikipedia_id")
_SUPPORT_KEYS = ("isgold", "is_supporting")
_QUESTION_KEYS = ("id", "_id", "question", "query", "input")
_TEXT_KEYS = ("contents", "text", "wiki_context")
_PAGE_IDS = ("wikipedia_id", "id", "docid", "doc_id")
_PAGE_KEYS = ("_id", "kilt_id", "wikipedia_id", "wikipedia_title")
_PAGE_ID = re.compile(rb'"wikipedia_id":\s*"?(\d+)')
_ROW_KEYS = (
    *_QUESTION_KEYS,
    "Filename",
    "text",
    "output",
    "answer",
    "answers",
    "golden_answers",
    "sample_id",
)

Entry = tuple[Document, bool]  # a document, and whether it is marked as evidence for the answer


def _parse_entry(value: Any, name: str) -> Entry:
    """Parse an entry: (document, is it marked as evidence). name: its place in the row, "ctxs[0]".
    Raises RowError."""
    if isinstance(value, str):
        value = {"contents": value}
    if not isinstance(value, dict):
        raise RowError(name, f"should be an object, is {type_name(value)}")
    title = value.get("title") or value.get("wikipedia_title") or ""
    key = next((k for k in _TEXT_KEYS if value.get(k) is not None), None)
    if key is None:
        raise RowError(f"{name}.text", "is missing (it may also be called contents)")
    text = value[key]
    if isinstance(text, dict):  # the hub's copy of KILT's pages
        text = text.get("paragraph")
    if (
        isinstance(text, list)
        and isinstance(title, str)
        and all(isinstance(part, str) for part in text)
    ):
        text = wiki_text(text, title)
    for field_name, part in (("title", title), (key, text)):
        if not isinstance(part, str):
            raise RowError(f"{name}.{field_name}", f"should be a string, is {type_name(part)}")
    if not text.strip():
        raise RowError(f"{name}.{key}", "is empty")
    if key == "contents":
        title = title or text.partition("\n")[0].strip('"')
    elif title:
        text = f"{title}\n{text}"
    entry_id = next(
        (value[k] for k in _IDS if isinstance(value.get(k), (str, int)) and str(value[k]).strip()),
        "doc",
    )
    document = Document(
        made_id(str(entry_id), text, 8), text, title, (Passage(title, 0, len(text)),)
    )
    return document, any(value.get(mark) is True for mark in _SUPPORT_KEYS)


def _parse_entries(value: Any, name: str) -> list[Entry]:
    """Parse a list of documents, or its columns. name: the list in messages ("ctxs"). Raises
    RowError."""
    value = records_from_columns(value, name)
    if not isinstance(value, list):
        raise RowError(name, f"should be a list, is {type_name(value)}")
    return [_parse_entry(entry, f"{name}[{i}]") for i, entry in enumerate(value)]


def documents_in_row(raw: Mapping[str, Any]) -> list[Entry] | None:
    """The documents in a row, best first; None where it has no field for them. Raises RowError."""
    name, listed = _document_list(raw)
    if listed is not None:
        return _parse_entries(listed, name)
    pages = records_from_columns(raw.get("entity_pages"), "entity_pages")
    kept = (
        [p for p in pages if isinstance(p, dict) and p.get("wiki_context")]
        if isinstance(pages, list)
        else []
    )
    return _parse_entries(kept, "entity_pages") if kept else None


@dataclass
class DocumentStore:
    """Documents kept apart from the questions: lists by question, pages by file name or id, or a
    folder of pages."""

    name: str
    by_question: dict[str, Any] = field(
        default_factory=dict
    )  # text or id of a question -> its list of entries
    pages: dict[str, str] = field(default_factory=dict)  # file name -> text (TriviaQA)
    folder: Path | None = None  # of texts, one file a page
    sources: list[Path] = field(default_factory=list)  # files of KILT's pages, read by `read_pages`
    articles: dict[str, Any] = field(
        default_factory=dict
    )  # page id -> KILT page, of those that entries name

    def add(self, row: dict[str, Any]) -> None:
        """Add a row of a file: a question with its documents, or a page with its file name. Raises
        RowError."""
        if isinstance(row.get("Filename"), str):
            if not isinstance(row.get("text"), str):
                raise RowError("text", "should be the text of the page")
            self.pages[row["Filename"]] = row["text"]
            return
        listed = _document_list(row)[1] or _provenance(row)
        keys = [row[k] for k in _QUESTION_KEYS if isinstance(row.get(k), (str, int))]
        if listed is None or not keys:
            raise RowError(None, f"a row needs an id or a question, and one of {', '.join(LISTS)}")
        canonical_line(listed)  # raises RowError for what no file can hold
        for key in keys:
            self.by_question[normalise_space(str(key))] = listed

    def read_pages(self, rows: Iterable[Any]) -> None:
        """Read the pages that entries name by id: entries of this store or, if it has none, those
        in `rows`."""
        lists = self.by_question.values() or [
            _document_list(row)[1] for row in rows if isinstance(row, Mapping)
        ]
        pages = {
            page
            for listed in lists
            if isinstance(listed, list)
            for entry in listed
            if (page := _page_id(entry))
        }
        for path in self.sources:
            for row in parse_each(_read_page_rows(path, pages), dict):
                if str(row.get("wikipedia_id")) in pages:
                    self.articles[str(row["wikipedia_id"])] = row

    def _entries_with_pages(self, listed: Any, name: str) -> list[Entry]:
        """Parse a list of entries; a page id stands for its page. name: the list in messages.
        Raises RowError."""
        if not self.sources or not isinstance(listed, list):
            return _parse_entries(listed, name)
        for i, entry in enumerate(listed):
            if (page := _page_id(entry)) and page not in self.articles:
                raise RowError(f"{name}[{i}]", f"the page {page} is not in {self.name}")
        return _parse_entries([self.articles.get(_page_id(entry), entry) for entry in listed], name)

    def find(self, raw: Mapping[str, Any], *keys: str) -> list[Entry] | None:
        """Documents stored under one of `keys` (id, text), or named by the row `raw`; None without.
        Raises RowError."""
        for key in keys:
            if (entries := self.by_question.get(normalise_space(key))) is not None:
                return self._entries_with_pages(entries, f"{self.name}: documents of '{key}'")
        if self.sources and not self.by_question:
            _, listed = _document_list(raw)
            return (
                None
                if listed is None
                else self._entries_with_pages(listed, "the retrieved documents")
            )
        pages = raw.get("EntityPages")
        if not isinstance(pages, list):
            return None
        documents = []
        for i, page in enumerate(pages):
            field = f"EntityPages[{i}]"
            file, title = (
                page.get(k) if isinstance(page, dict) else None for k in ("Filename", "Title")
            )
            if not isinstance(file, str) or not file:
                raise RowError(f"{field}.Filename", "is missing")
            text = self._page_text(file)
            if text is not None:
                title = title if isinstance(title, str) else ""
                documents.append(
                    _parse_entry({"title": title, "text": text, "id": Path(file).stem}, field)
                )
        return documents or None

    def _page_text(self, file: str) -> str | None:
        """The text of the page in `file`; None if it is not there. Raises RowError if it cannot be
        read."""
        if self.folder is None:
            return self.pages.get(file)
        path = self.folder / file
        inside = path.resolve().is_relative_to(self.folder.resolve())
        try:
            return path.read_bytes().decode() if inside and path.is_file() else None
        except (OSError, ValueError) as error:
            raise RowError("EntityPages", f"the page {file} cannot be read ({error})") from None


def _page_id(entry: Any) -> str:
    """The page id of an entry that names a page instead of holding a text; "" for any other."""
    if not isinstance(entry, Mapping) or any(entry.get(key) is not None for key in _TEXT_KEYS):
        return ""
    return next(
        (
            str(entry[k])
            for k in _PAGE_IDS
            if isinstance(entry.get(k), (str, int)) and str(entry[k])
        ),
        "",
    )


def _read_page_rows(path: Path, pages: Iterable[str]) -> Rows:
    """Yield the rows of a file of pages; JSON lines without an id of `pages` are not parsed: the
    file has 35 GiB."""
    if file_kind(path) != "json":
        yield from read_rows(path)
        return
    ids = {page.encode() for page in pages}
    with opened(path) as stream:
        for number, line in enumerate(stream, start=1):
            if not ids.isdisjoint(_PAGE_ID.findall(line)):
                yield RowPlace(path.name, line=number), parse_line(line.strip())


def open_store(places: str | Sequence[str]) -> DocumentStore:
    """Open the files of documents and of pages, or the one folder of pages, at the paths `places`.
    Raises DataError."""
    places = [places] if isinstance(places, str) else places
    if len(places) == 1:
        return _open_place(places[0])
    opened_stores = [_open_place(place) for place in places]
    store = DocumentStore(" and ".join(part.name for part in opened_stores))
    for place, part in zip(places, opened_stores, strict=True):
        if part.folder is not None:
            raise DataError(
                place, None, None, "a folder of pages stands alone in dataset.documents"
            )
        store.by_question |= part.by_question
        store.pages |= part.pages
        store.sources += part.sources
    return store


def _open_place(place: str) -> DocumentStore:
    """Open one file or folder of documents. place: its path. Raises DataError for a missing or
    unusable one."""
    path = Path(place).expanduser()
    if path.is_dir():
        return DocumentStore(path.name, folder=path)
    if not path.is_file() or file_kind(path) is None:
        why = (
            "no such file or folder"
            if not path.exists()
            else "not a data file by its name (.json, .jsonl, .parquet)"
        )
        raise DataError(
            place, None, None, f"{why}; dataset.documents names the retrieved documents"
        )
    if file_kind(path) != "json" or first_key(path) in _PAGE_KEYS:
        row = next((row for _, row in read_rows(path)), None)
        if (
            isinstance(row, dict)
            and "wikipedia_title" in row
            and isinstance(row.get("text"), (list, dict))
        ):
            return DocumentStore(
                path.name, sources=[path]
            )  # pages of KILT's knowledge source, by its first row
    store = DocumentStore(path.name)
    lines = path.name.lower().endswith((".jsonl", ".jsonl.gz"))
    if not lines and first_key(path) not in (None, *_ROW_KEYS, *LISTS):
        for question, documents in json_value(path).items():
            store.by_question[normalise_space(question)] = documents
        return store
    for _ in parse_each(read_rows(path), store.add):
        pass
    if not store.by_question and not store.pages:
        raise DataError(store.name, None, None, "the file has no rows")
    return store


def _document_list(row: Mapping[str, Any]) -> tuple[str, Any]:
    """Return (field name, list) for the first field that may hold a list of documents; (..., None)
    without one."""
    output = row.get("output")
    inner = output.get("retrieval_result") if isinstance(output, dict) else None
    named = ((name, row[name]) for name in LISTS if row.get(name) is not None)
    return next(named, ("output.retrieval_result", inner))


def _provenance(row: Mapping[str, Any]) -> list[Any] | None:
    """The documents that a KILT retriever found for a question: its outputs' first provenance; None
    without one."""
    outputs = row["output"] if isinstance(row.get("output"), list) else []
    first = next(
        (
            entry["provenance"]
            for entry in outputs
            if isinstance(entry, dict) and entry.get("provenance")
        ),
        None,
    )
    return first if isinstance(first, list) else None

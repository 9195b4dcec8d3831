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
from typing import NamedTuple

from harness.datasets.archives import opened
from harness.datasets.files import (
    file_kind,
    parse_each,
    parse_line,
    read_first_key,
    read_json_object,
    read_rows,
)
from harness.datasets.kilt_text import wiki_text
from harness.datasets.raw_rows import RawRow
from harness.datasets.row_places import RowPlace, Rows
from harness.datasets.rows import (
    RowError,
    canonical_line,
    id_from_text,
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


class Entry(NamedTuple):
    """A retrieved document, and whether it is marked as evidence for the answer."""

    document: Document
    is_evidence: bool


def _entry_title(value: RawRow) -> object:
    """The title of an entry, under "title" or "wikipedia_title"; "" without one."""
    return value.get("title") or value.get("wikipedia_title") or ""


def _text_key(value: RawRow, name: str) -> str:
    """The first of the keys "contents", "text" and "wiki_context" that an entry has.

    Args:
        value: The entry, an object.
        name: Its place in the row, "ctxs[0]", for the error.

    Raises:
        RowError: It has none of them.
    """
    for key in _TEXT_KEYS:
        if value.get(key) is not None:
            return key
    raise RowError(f"{name}.text", "is missing (it may also be called contents)")


def _joined_paragraphs(text: object, title: object) -> object:
    r"""The text of a KILT page, whose paragraphs are a list; any other value is returned as it is.

    (["Ada\n", "She wrote."], "Ada") -> "She wrote."

    Args:
        text: A list of paragraphs, or {"paragraph": list} as in the hub's copy of KILT.
        title: The title of the page.
    """
    if isinstance(text, dict):  # the hub's copy of KILT's pages
        text = text.get("paragraph")
    if not isinstance(text, list) or not isinstance(title, str):
        return text
    if not all(isinstance(part, str) for part in text):
        return text
    return wiki_text(text, title)


def _as_text(value: object, name: str) -> str:
    """Return a value that is a string. Raises RowError for the field `name` if it is not."""
    if not isinstance(value, str):
        raise RowError(name, f"should be a string, is {type_name(value)}")
    return value


def _given_id(value: Mapping[str, object], keys: Sequence[str]) -> str:
    """The id under the first of `keys` that holds a string or a number that is not blank.

    ({"id": "", "pid": 7}, ("id", "pid")) -> "7"; "" where no key holds one.
    """
    for key in keys:
        given = value.get(key)
        if isinstance(given, str | int) and str(given).strip():
            return str(given)
    return ""


def _parse_entry(value: object, name: str) -> Entry:
    """Parse a retrieved document.

        {"id": 7, "title": "Ada", "text": "She wrote.", "isgold": true}
            -> Entry(Document("7-..", "Ada\nShe wrote.", ...), is_evidence=True)

    Args:
        value: The entry; a text alone is its contents.
        name: Its place in the row, "ctxs[0]", for messages.

    Raises:
        RowError: It is malformed or empty.
    """
    if isinstance(value, str):
        value = {"contents": value}
    if not isinstance(value, dict):
        raise RowError(name, f"should be an object, is {type_name(value)}")
    given_title = _entry_title(value)
    key = _text_key(value, name)
    given_text = _joined_paragraphs(value[key], given_title)
    title = _as_text(given_title, f"{name}.title")
    text = _as_text(given_text, f"{name}.{key}")
    if not text.strip():
        raise RowError(f"{name}.{key}", "is empty")
    if key == "contents":
        title = title or text.partition("\n")[0].strip('"')
    elif title:
        text = f"{title}\n{text}"
    document_id = id_from_text(_given_id(value, _IDS) or "doc", text, 8)
    document = Document(document_id, text, title, (Passage(title, 0, len(text)),))
    return Entry(document, any(value.get(mark) is True for mark in _SUPPORT_KEYS))


def _parse_entries(value: object, name: str) -> list[Entry]:
    """Parse a list of retrieved documents.

    Args:
        value: The list, or its columns: {"title": [...], "text": [...]}.
        name: The field that holds it, "ctxs", for messages.

    Raises:
        RowError: It is no list, or an entry is malformed.
    """
    value = records_from_columns(value, name)
    if not isinstance(value, list):
        raise RowError(name, f"should be a list, is {type_name(value)}")
    return [_parse_entry(entry, f"{name}[{i}]") for i, entry in enumerate(value)]


def documents_in_row(raw: RawRow) -> list[Entry] | None:
    """The documents that a row of questions brings, best first; None where it has no field for
    them.

    They stand under "ctxs", "docs" and the like, or in TriviaQA's "entity_pages". Raises RowError
    for an entry that is malformed.
    """
    name, listed = _document_list(raw)
    if listed is not None:
        return _parse_entries(listed, name)
    pages = records_from_columns(raw.get("entity_pages"), "entity_pages")
    if not isinstance(pages, list):
        return None
    with_text = [page for page in pages if isinstance(page, dict) and page.get("wiki_context")]
    if not with_text:
        return None
    return _parse_entries(with_text, "entity_pages")


@dataclass
class DocumentStore:
    """Documents in files of their own: lists by question, pages by file name or id, or a folder of
    pages."""

    name: str
    # Text or id of a question -> its list of entries.
    by_question: dict[str, object] = field(default_factory=dict)
    # File name -> text (TriviaQA).
    pages: dict[str, str] = field(default_factory=dict)
    # A folder of texts, one file a page.
    folder: Path | None = None
    # Files of KILT's pages, read by `read_pages`.
    sources: list[Path] = field(default_factory=list)
    # Page id -> KILT page, of those that entries name.
    articles: dict[str, object] = field(default_factory=dict)

    def add(self, row: RawRow) -> None:
        """Add a row of a file to this store: the documents of a question, or a page with its file
        name.

        The documents are kept under each id and text of the question that the row has. Raises
        RowError for a row that is neither.
        """
        file = row.get("Filename")
        if isinstance(file, str):
            text = row.get("text")
            if not isinstance(text, str):
                raise RowError("text", "should be the text of the page")
            self.pages[file] = text
            return
        _, listed = _document_list(row)
        listed = listed or _provenance(row)
        keys = [row[key] for key in _QUESTION_KEYS if isinstance(row.get(key), str | int)]
        if listed is None or not keys:
            raise RowError(None, f"a row needs an id or a question, and one of {', '.join(LISTS)}")
        canonical_line(listed)  # raises RowError for what no file can hold
        for key in keys:
            self.by_question[normalise_space(str(key))] = listed

    def read_pages(self, rows: Iterable[object]) -> None:
        """Read the pages that entries name by their id, from the files `sources` into `articles`.

        Args:
            rows: The rows of questions; their entries count if this store has no lists of its own.
        """
        lists = list(self.by_question.values())
        if not lists:
            lists = [_document_list(row)[1] for row in rows if isinstance(row, Mapping)]
        pages = _named_pages(lists)
        for path in self.sources:
            for row in parse_each(_read_page_rows(path, pages), dict):
                page = str(row.get("wikipedia_id"))
                if page in pages:
                    self.articles[page] = row

    def _entries_with_pages(self, listed: object, name: str) -> list[Entry]:
        """Parse a list of entries; one that only names a page by its id is replaced by that page.

        Args:
            listed: The list of entries.
            name: The name of the list, for messages.

        Raises:
            RowError: An entry is malformed, or its page was not read.
        """
        if not self.sources or not isinstance(listed, list):
            return _parse_entries(listed, name)
        entries = []
        for number, entry in enumerate(listed):
            page = _page_id(entry)
            if page and page not in self.articles:
                raise RowError(f"{name}[{number}]", f"the page {page} is not in {self.name}")
            entries.append(self.articles.get(page, entry))
        return _parse_entries(entries, name)

    def find(self, raw: RawRow, *keys: str) -> list[Entry] | None:
        """The documents that this store has for a question, best first; None where it has none.

        Args:
            raw: The row of the question, which may name pages.
            *keys: The question's id and its text: the lists of this store are looked up by each.

        Raises:
            RowError: An entry is malformed, or its page is not there.
        """
        for key in keys:
            entries = self.by_question.get(normalise_space(key))
            if entries is not None:
                return self._entries_with_pages(entries, f"{self.name}: documents of '{key}'")
        if self.sources and not self.by_question:
            _, listed = _document_list(raw)
            if listed is None:
                return None
            return self._entries_with_pages(listed, "the retrieved documents")
        pages = raw.get("EntityPages")
        if not isinstance(pages, list):
            return None
        return self._entity_pages(pages) or None

    def _entity_pages(self, pages: Sequence[object]) -> list[Entry]:
        """The pages of TriviaQA that this store has, in the order in which the row names them.

        Args:
            pages: [{"Filename": "Ada.txt", "Title": "Ada"}, ...], the row's EntityPages.

        Raises:
            RowError: An element has no file name.
        """
        entries = []
        for number, page in enumerate(pages):
            place = f"EntityPages[{number}]"
            if not isinstance(page, dict):
                page = {}
            file = page.get("Filename")
            title = page.get("Title")
            if not isinstance(file, str) or not file:
                raise RowError(f"{place}.Filename", "is missing")
            if not isinstance(title, str):
                title = ""
            text = self._page_text(file)
            if text is not None:
                entry = {"title": title, "text": text, "id": Path(file).stem}
                entries.append(_parse_entry(entry, place))
        return entries

    def _page_text(self, file: str) -> str | None:
        """The text of the page with the file name `file`; None if this store has no such page.

        Raises RowError if the file is there and cannot be read.
        """
        if self.folder is None:
            return self.pages.get(file)
        path = self.folder / file
        is_inside = path.resolve().is_relative_to(self.folder.resolve())
        try:
            if not is_inside or not path.is_file():
                return None
            return path.read_bytes().decode()
        except (OSError, ValueError) as error:
            raise RowError("EntityPages", f"the page {file} cannot be read ({error})") from None


def _named_pages(lists: Iterable[object]) -> set[str]:
    """The ids of all pages that entries name instead of holding a text.

    [[{"wikipedia_id": "290"}, {"text": "Ada ..."}]] -> {"290"}

    Args:
        lists: Lists of entries; what is no list is passed over.
    """
    pages: set[str] = set()
    for listed in lists:
        if isinstance(listed, list):
            pages.update(map(_page_id, listed))
    return pages - {""}


def _page_id(entry: object) -> str:
    """The page id of an entry that names a page instead of holding a text; "" for any other entry.

    {"wikipedia_id": "290"} -> "290"; {"wikipedia_id": "290", "text": "Ada ..."} -> ""
    """
    if not isinstance(entry, Mapping):
        return ""
    if any(entry.get(key) is not None for key in _TEXT_KEYS):
        return ""
    return _given_id(entry, _PAGE_IDS)


def _read_page_rows(path: Path, pages: Iterable[str]) -> Rows:
    """Yield (place, row) for the rows of a file of KILT pages, at least for those of the given
    pages.

    Lines of JSON that have none of the ids are left out unparsed: KILT's file has 35 GiB.

    Args:
        path: The file.
        pages: The ids of the pages that are needed.
    """
    if file_kind(path) != "json":
        yield from read_rows(path)
        return
    ids = {page.encode() for page in pages}
    with opened(path) as stream:
        for number, line in enumerate(stream, start=1):
            if not ids.isdisjoint(_PAGE_ID.findall(line)):
                yield RowPlace(path.name, line=number), parse_line(line.strip())


def open_store(places: str | Sequence[str]) -> DocumentStore:
    """Open the places of retrieved documents as one store.

    Args:
        places: The paths of files of documents and of pages, or of one folder of pages.

    Raises:
        DataError: A place is missing or cannot be used.
    """
    if isinstance(places, str):
        return _open_place(places)
    if len(places) == 1:
        return _open_place(places[0])
    parts = [_open_place(place) for place in places]
    store = DocumentStore(" and ".join(part.name for part in parts))
    for place, part in zip(places, parts, strict=True):
        if part.folder is not None:
            problem = "a folder of pages stands alone in dataset.documents"
            raise DataError(place, None, None, problem)
        store.by_question |= part.by_question
        store.pages |= part.pages
        store.sources += part.sources
    return store


def _open_place(place: str) -> DocumentStore:
    """Open one file or folder of retrieved documents; a file of lists or pages by name is read
    whole.

    KILT's pages are not read here, as they are many: the store only notes their file.

    Args:
        place: The path.

    Raises:
        DataError: It is missing, or nothing in it can be used.
    """
    path = Path(place).expanduser()
    if path.is_dir():
        return DocumentStore(path.name, folder=path)
    if not path.is_file() or file_kind(path) is None:
        why = "not a data file by its name (.json, .jsonl, .parquet)"
        if not path.exists():
            why = "no such file or folder"
        problem = f"{why}; dataset.documents names the retrieved documents"
        raise DataError(place, None, None, problem)
    if _holds_kilt_pages(path):
        return DocumentStore(path.name, sources=[path])
    store = DocumentStore(path.name)
    if _is_object_by_question(path):
        for question, documents in read_json_object(path).items():
            store.by_question[normalise_space(question)] = documents
        return store
    for _ in parse_each(read_rows(path), store.add):
        pass
    if not store.by_question and not store.pages:
        raise DataError(store.name, None, None, "the file has no rows")
    return store


def _holds_kilt_pages(path: Path) -> bool:
    """Whether the first row of a file is a page of KILT's knowledge source.

    Such a row has "wikipedia_title" and its paragraphs as "text".
    """
    if file_kind(path) == "json" and read_first_key(path) not in _PAGE_KEYS:
        return False
    _, row = next(read_rows(path), (None, None))
    if not isinstance(row, dict) or "wikipedia_title" not in row:
        return False
    return isinstance(row.get("text"), list | dict)


def _is_object_by_question(path: Path) -> bool:
    """Whether a file is one JSON object {question: [documents]}, as its first key is none of a
    row's.
    """
    if path.name.lower().endswith((".jsonl", ".jsonl.gz")):
        return False
    return read_first_key(path) not in (None, *_ROW_KEYS, *LISTS)


def _document_list(row: Mapping[str, object]) -> tuple[str, object]:
    """The name and the value of the first field of a row that may hold a list of documents.

    {"docs": [...]} -> ("docs", [...]); the value is None where the row has no such field.
    """
    for name in LISTS:
        if row.get(name) is not None:
            return name, row[name]
    output = row.get("output")
    if not isinstance(output, dict):
        return "output.retrieval_result", None
    return "output.retrieval_result", output.get("retrieval_result")


def _provenance(row: RawRow) -> list[object] | None:
    """The list of documents in a KILT retriever's row: the first provenance among its outputs.

    {"output": [{"provenance": [{"wikipedia_id": "290"}]}]} -> [{"wikipedia_id": "290"}]; None
    without one.
    """
    outputs = row.get("output")
    if not isinstance(outputs, list):
        return None
    for output in outputs:
        if isinstance(output, dict) and output.get("provenance"):
            first = output["provenance"]
            return first if isinstance(first, list) else None
    return None

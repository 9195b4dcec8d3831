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
    id_from_text,
    normalise_space,
    records_from_columns,
    refuse_half_characters,
    type_name,
)
from harness.errors import DataError
from harness.types import Document, Passage

LIST_KEYS = ("ctxs", "docs", "paragraphs", "documents", "retrieval_result")
_ID_KEYS = ("id", "docid", "doc_id", "pid", "passage_id", "wikipedia_id")
_SUPPORT_KEYS = ("isgold", "is_supporting")
_QUESTION_KEYS = ("id", "_id", "question", "query", "input")
_TEXT_KEYS = ("contents", "text", "wiki_context")
_PAGE_ID_KEYS = ("wikipedia_id", "id", "docid", "doc_id")
_KILT_PAGE_KEYS = ("_id", "kilt_id", "wikipedia_id", "wikipedia_title")
_KILT_PAGE_ID = re.compile(rb'"wikipedia_id":\s*"?(\d+)')
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


class _NamedList(NamedTuple):
    """What a row has in the field for its documents.

    Attributes:
        field: The name of the field, "docs".
        value: What stands there, a list of entries or not; None where the row has no such field.
    """

    field: str
    value: object


def _title_in_entry(raw_entry: RawRow) -> object:
    """The title of an entry, under "title" or "wikipedia_title"; "" without one."""
    return raw_entry.get("title") or raw_entry.get("wikipedia_title") or ""


def _text_key_in_entry(raw_entry: RawRow, field: str) -> str:
    """The first of the keys "contents", "text" and "wiki_context" that an entry has.

    Args:
        raw_entry: The entry, an object.
        field: Its place in the row, "ctxs[0]", for the error.

    Raises:
        RowError: It has none of them.
    """
    for key in _TEXT_KEYS:
        if raw_entry.get(key) is not None:
            return key
    raise RowError(f"{field}.text", "is missing (it may also be called contents)")


def _join_kilt_paragraphs(text: object, title: object) -> object:
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
    if not all(isinstance(paragraph, str) for paragraph in text):
        return text
    return wiki_text(text, title)


def _require_string(value: object, field: str) -> str:
    """Return a value that is a string. Raises RowError, with the name of its field, if it is not."""
    if not isinstance(value, str):
        raise RowError(field, f"should be a string, is {type_name(value)}")
    return value


def _id_in_entry(raw_entry: Mapping[str, object], id_keys: Sequence[str]) -> str:
    """The id under the first of some keys that holds a string or a number that is not blank.

    ({"id": "", "pid": 7}, ("id", "pid")) -> "7"; "" where no key holds one.
    """
    for key in id_keys:
        value = raw_entry.get(key)
        if isinstance(value, str | int) and str(value).strip():
            return str(value)
    return ""


def _parse_entry(raw_entry: object, field: str) -> Entry:
    """Parse a retrieved document.

        {"id": 7, "title": "Ada", "text": "She wrote.", "isgold": true}
            -> Entry(Document("7-..", "Ada\nShe wrote.", ...), is_evidence=True)

    Args:
        raw_entry: The entry; a text alone is its contents.
        field: Its place in the row, "ctxs[0]", for messages.

    Raises:
        RowError: It is malformed or empty.
    """
    if isinstance(raw_entry, str):
        raw_entry = {"contents": raw_entry}
    if not isinstance(raw_entry, dict):
        raise RowError(field, f"should be an object, is {type_name(raw_entry)}")
    title_in_entry = _title_in_entry(raw_entry)
    text_key = _text_key_in_entry(raw_entry, field)
    text_in_entry = _join_kilt_paragraphs(raw_entry[text_key], title_in_entry)
    title = _require_string(title_in_entry, f"{field}.title")
    text = _require_string(text_in_entry, f"{field}.{text_key}")
    if not text.strip():
        raise RowError(f"{field}.{text_key}", "is empty")
    has_title_as_first_line = text_key == "contents"
    if has_title_as_first_line:
        title = title or text.partition("\n")[0].strip('"')
    elif title:
        text = f"{title}\n{text}"
    id_prefix = _id_in_entry(raw_entry, _ID_KEYS) or "doc"
    document_id = id_from_text(id_prefix, text, digits=8)
    document = Document(document_id, text, title, (Passage(title, 0, len(text)),))
    is_evidence = any(raw_entry.get(key) is True for key in _SUPPORT_KEYS)
    return Entry(document, is_evidence)


def _parse_entries(value: object, field: str) -> list[Entry]:
    """Parse a list of retrieved documents.

    Args:
        value: The list, or its columns: {"title": [...], "text": [...]}.
        field: The field that holds it, "ctxs", for messages.

    Raises:
        RowError: It is no list, or an entry is malformed.
    """
    raw_entries = records_from_columns(value, field)
    if not isinstance(raw_entries, list):
        raise RowError(field, f"should be a list, is {type_name(raw_entries)}")
    return [_parse_entry(entry, f"{field}[{i}]") for i, entry in enumerate(raw_entries)]


def documents_in_row(raw: RawRow) -> list[Entry] | None:
    """The documents that a row of questions brings, best first; None where it has no field for
    them.

    They stand under "ctxs", "docs" and the like, or in TriviaQA's "entity_pages". Raises RowError
    for an entry that is malformed.
    """
    documents = _document_list(raw)
    if documents.value is not None:
        return _parse_entries(documents.value, documents.field)
    pages = records_from_columns(raw.get("entity_pages"), "entity_pages")
    if not isinstance(pages, list):
        return None
    dict_pages = [page for page in pages if isinstance(page, dict)]
    pages_with_text = [page for page in dict_pages if page.get("wiki_context")]
    if not pages_with_text:
        return None
    return _parse_entries(pages_with_text, "entity_pages")


@dataclass
class DocumentStore:
    """Documents in files of their own: lists by question, pages by file name or id, or a folder of
    pages.

    Attributes:
        name: The names of the files or of the folder, for messages.
        documents_by_question: Text or id of a question -> its list of entries, as the file has it.
        page_text_by_file: TriviaQA's pages: name of the page's file -> its text.
        folder: TriviaQA's pages as a folder of texts, one file a page; None for none.
        kilt_files: Files of KILT's pages, which `read_kilt_pages` reads.
        kilt_page_by_id: Page id -> row of the page, of the pages that entries name.
    """

    name: str
    documents_by_question: dict[str, object] = field(default_factory=dict)
    page_text_by_file: dict[str, str] = field(default_factory=dict)
    folder: Path | None = None
    kilt_files: list[Path] = field(default_factory=list)
    kilt_page_by_id: dict[str, object] = field(default_factory=dict)

    def add_row(self, row: RawRow) -> None:
        """Add a row of a file to this store: the documents of a question, or a page with its file
        name.

        The documents are kept under each id and text of the question that the row has. Raises
        RowError for a row that is neither.
        """
        page_file = row.get("Filename")
        if isinstance(page_file, str):
            page_text = row.get("text")
            if not isinstance(page_text, str):
                raise RowError("text", "should be the text of the page")
            self.page_text_by_file[page_file] = page_text
            return
        documents = _document_list(row).value or _kilt_provenance(row)
        ids_and_texts = [row[key] for key in _QUESTION_KEYS if isinstance(row.get(key), str | int)]
        if documents is None or not ids_and_texts:
            known = ", ".join(LIST_KEYS)
            raise RowError(None, f"a row needs an id or a question, and one of {known}")
        refuse_half_characters(documents)
        for id_or_text in ids_and_texts:
            self.documents_by_question[normalise_space(str(id_or_text))] = documents

    def read_kilt_pages(self, rows: Iterable[object]) -> None:
        """Read the pages that entries name by their id, from `kilt_files` into `kilt_page_by_id`.

        Args:
            rows: The rows of questions; their entries count if this store has no lists of its own.
        """
        lists_of_entries = list(self.documents_by_question.values())
        if not lists_of_entries:
            mappings = [row for row in rows if isinstance(row, Mapping)]
            lists_of_entries = [_document_list(row).value for row in mappings]
        needed_ids = _page_ids_in_lists(lists_of_entries)
        for path in self.kilt_files:
            for page in parse_each(_read_kilt_rows(path, needed_ids), dict):
                page_id = str(page.get("wikipedia_id"))
                if page_id in needed_ids:
                    self.kilt_page_by_id[page_id] = page

    def _parse_entries_with_pages(self, value: object, field: str) -> list[Entry]:
        """Parse a list of entries; one that only names a page by its id is replaced by that page.

        Args:
            value: The list of entries.
            field: The name of the list, for messages.

        Raises:
            RowError: An entry is malformed, or its page was not read.
        """
        if not self.kilt_files or not isinstance(value, list):
            return _parse_entries(value, field)
        raw_entries = []
        for number, raw_entry in enumerate(value):
            page_id = _page_id_in_entry(raw_entry)
            if page_id and page_id not in self.kilt_page_by_id:
                problem = f"the page {page_id} is not in {self.name}"
                raise RowError(f"{field}[{number}]", problem)
            raw_entries.append(self.kilt_page_by_id.get(page_id, raw_entry))
        return _parse_entries(raw_entries, field)

    def find(self, raw: RawRow, question_id: str, question_text: str) -> list[Entry] | None:
        """The documents that this store has for a question, best first; None where it has none.

        Args:
            raw: The row of the question, which may name pages.
            question_id: The question's id, by which the lists of this store are looked up first.
            question_text: The question's words, by which they are looked up then.

        Raises:
            RowError: An entry is malformed, or its page is not there.
        """
        for id_or_text in (question_id, question_text):
            value = self.documents_by_question.get(normalise_space(id_or_text))
            if value is not None:
                field = f"{self.name}: documents of '{id_or_text}'"
                return self._parse_entries_with_pages(value, field)
        has_only_kilt_pages = bool(self.kilt_files) and not self.documents_by_question
        if has_only_kilt_pages:
            documents = _document_list(raw)
            if documents.value is None:
                return None
            return self._parse_entries_with_pages(documents.value, "the retrieved documents")
        trivia_pages = raw.get("EntityPages")
        if not isinstance(trivia_pages, list):
            return None
        return self._find_trivia_pages(trivia_pages) or None

    def _find_trivia_pages(self, named_pages: Sequence[object]) -> list[Entry]:
        """The pages of TriviaQA that this store has, in the order in which the row names them.

        Args:
            named_pages: [{"Filename": "Ada.txt", "Title": "Ada"}, ...], the row's EntityPages.

        Raises:
            RowError: An element has no file name.
        """
        entries = []
        for number, page in enumerate(named_pages):
            field = f"EntityPages[{number}]"
            if not isinstance(page, dict):
                page = {}
            file_name = page.get("Filename")
            title = page.get("Title")
            if not isinstance(file_name, str) or not file_name:
                raise RowError(f"{field}.Filename", "is missing")
            if not isinstance(title, str):
                title = ""
            text = self._read_trivia_page(file_name)
            if text is not None:
                raw_entry = {"title": title, "text": text, "id": Path(file_name).stem}
                entries.append(_parse_entry(raw_entry, field))
        return entries

    def _read_trivia_page(self, file_name: str) -> str | None:
        """The text of the page with a file name; None if this store has no such page.

        Raises RowError if the file is there and cannot be read.
        """
        if self.folder is None:
            return self.page_text_by_file.get(file_name)
        path = self.folder / file_name
        is_inside_folder = path.resolve().is_relative_to(self.folder.resolve())
        try:
            if not is_inside_folder or not path.is_file():
                return None
            return path.read_bytes().decode()
        except (OSError, ValueError) as error:
            problem = f"the page {file_name} cannot be read ({error})"
            raise RowError("EntityPages", problem) from None


def _page_ids_in_lists(lists_of_entries: Iterable[object]) -> set[str]:
    """The ids of all pages that entries name instead of holding a text.

    [[{"wikipedia_id": "290"}, {"text": "Ada ..."}]] -> {"290"}

    Args:
        lists_of_entries: Lists of entries; what is no list is passed over.
    """
    page_ids: set[str] = set()
    for raw_entries in lists_of_entries:
        if isinstance(raw_entries, list):
            page_ids.update(map(_page_id_in_entry, raw_entries))
    return page_ids - {""}


def _page_id_in_entry(raw_entry: object) -> str:
    """The page id of an entry that names a page instead of holding a text; "" for any other entry.

    {"wikipedia_id": "290"} -> "290"; {"wikipedia_id": "290", "text": "Ada ..."} -> ""
    """
    if not isinstance(raw_entry, Mapping):
        return ""
    has_text = any(raw_entry.get(key) is not None for key in _TEXT_KEYS)
    if has_text:
        return ""
    return _id_in_entry(raw_entry, _PAGE_ID_KEYS)


def _read_kilt_rows(path: Path, page_ids: Iterable[str]) -> Rows:
    """Yield (place, row) for the rows of a file of KILT pages, at least for those of the given
    pages.

    Lines of JSON that have none of the ids are left out unparsed: KILT's file has 35 GiB.

    Args:
        path: The file.
        page_ids: The ids of the pages that are needed.
    """
    if file_kind(path) != "json":
        yield from read_rows(path)
        return
    needed_ids = {page_id.encode() for page_id in page_ids}
    with opened(path) as stream:
        for number, line in enumerate(stream, start=1):
            ids_in_line = _KILT_PAGE_ID.findall(line)
            if not needed_ids.isdisjoint(ids_in_line):
                yield RowPlace(path.name, line=number), parse_line(line.strip())


def open_store(paths: str | Sequence[str]) -> DocumentStore:
    """Open files of retrieved documents, or a folder of pages, as one store.

    Files of documents are read whole; of files of KILT's pages only the path is noted.

    Args:
        paths: The paths of files of documents and of pages, or of one folder of pages.

    Raises:
        DataError: A path is missing or cannot be used.
    """
    if isinstance(paths, str):
        return _open_path(paths)
    if len(paths) == 1:
        return _open_path(paths[0])
    stores = [_open_path(path) for path in paths]
    merged = DocumentStore(" and ".join(store.name for store in stores))
    for path, store in zip(paths, stores, strict=True):
        if store.folder is not None:
            problem = "a folder of pages stands alone in dataset.documents"
            raise DataError.of_file(path, problem)
        merged.documents_by_question |= store.documents_by_question
        merged.page_text_by_file |= store.page_text_by_file
        merged.kilt_files += store.kilt_files
    return merged


def _open_path(path_text: str) -> DocumentStore:
    """Open one file or folder of retrieved documents; a file of lists or pages by name is read
    whole.

    KILT's pages are not read here, as they are many: the store only notes their file.

    Raises DataError for a path that is missing, or where nothing can be used.
    """
    path = Path(path_text).expanduser()
    if path.is_dir():
        return DocumentStore(path.name, folder=path)
    if not path.is_file() or file_kind(path) is None:
        why = "not a data file by its name (.json, .jsonl, .parquet)"
        if not path.exists():
            why = "no such file or folder"
        problem = f"{why}; dataset.documents names the retrieved documents"
        raise DataError.of_file(path_text, problem)
    if _holds_kilt_pages(path):
        return DocumentStore(path.name, kilt_files=[path])
    store = DocumentStore(path.name)
    if _is_object_by_question(path):
        for question, documents in read_json_object(path).items():
            store.documents_by_question[normalise_space(question)] = documents
        return store
    for _ in parse_each(read_rows(path), store.add_row):
        pass  # each row is added as it is parsed
    if not store.documents_by_question and not store.page_text_by_file:
        raise DataError.of_file(store.name, "the file has no rows")
    return store


def _holds_kilt_pages(path: Path) -> bool:
    """Whether the first row of a file is a page of KILT's knowledge source.

    Such a row has "wikipedia_title" and its paragraphs as "text".
    """
    if file_kind(path) == "json" and read_first_key(path) not in _KILT_PAGE_KEYS:
        return False
    _, first_row = next(read_rows(path), (None, None))
    if not isinstance(first_row, dict) or "wikipedia_title" not in first_row:
        return False
    return isinstance(first_row.get("text"), list | dict)


def _is_object_by_question(path: Path) -> bool:
    """Whether a file is one JSON object {question: [documents]}: it is no file of JSON lines, and
    its first key is none that a row could begin with.
    """
    is_json_lines = path.name.lower().endswith((".jsonl", ".jsonl.gz"))
    if is_json_lines:
        return False
    first_key = read_first_key(path)
    return first_key is not None and first_key not in (*_ROW_KEYS, *LIST_KEYS)


def _document_list(row: Mapping[str, object]) -> _NamedList:
    """The first field of a row that may hold a list of documents.

    {"docs": [...]} -> _NamedList("docs", [...])
    """
    for key in LIST_KEYS:
        if row.get(key) is not None:
            return _NamedList(key, row[key])
    retrieval_result = None
    output = row.get("output")
    if isinstance(output, dict):
        retrieval_result = output.get("retrieval_result")
    return _NamedList("output.retrieval_result", retrieval_result)


def _kilt_provenance(row: RawRow) -> list[object] | None:
    """The list of documents in a KILT retriever's row: the first provenance among its outputs.

    {"output": [{"provenance": [{"wikipedia_id": "290"}]}]} -> [{"wikipedia_id": "290"}]; None
    without one.
    """
    outputs = row.get("output")
    if not isinstance(outputs, list):
        return None
    for output in outputs:
        if isinstance(output, dict) and output.get("provenance"):
            first_provenance = output["provenance"]
            if isinstance(first_provenance, list):
                return first_provenance
            return None
    return None

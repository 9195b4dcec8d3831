"""Check the rows of a data set one by one and hash them all."""

import hashlib
from collections import Counter
from typing import NamedTuple

from harness.datasets.base import Dataset
from harness.datasets.find_files import Source
from harness.datasets.formats import RowParser
from harness.datasets.question_kinds import count_kinds
from harness.datasets.raw_rows import RawRow
from harness.datasets.row_places import BrokenRow, RowPlace, Rows
from harness.datasets.rows import (
    Group,
    Retrieved,
    Row,
    RowError,
    Skip,
    canonical_line,
    example_and_document,
)
from harness.errors import DataError
from harness.types import Document, Example


class CheckedQuestions(NamedTuple):
    """Questions whose rows were checked, and their documents by id."""

    examples: list[Example]
    documents: dict[str, Document]


class _BadRow(NamedTuple):
    """A row that cannot be used: where it stands, and what is wrong with it."""

    place: RowPlace
    error: RowError


class RowChecker:
    """Checks the rows of a data set one by one: counts them and hashes them all.

    Attributes:
        fingerprint: The sha256 of all rows and documents as used.
        place_by_id: Id of each row or question that can be used -> where it stands.
        skipped: Reason -> the number of rows left out on purpose, up to the limit.
        n_rows: The number of all rows.
        n_bad_rows: How many of them cannot be used.
        kind_counts: ("hops", "2") -> the number of questions.
        first_bad_row: The first row that cannot be used; None for none.
    """

    def __init__(self, parser: RowParser) -> None:
        """Begin with no rows; the parser turns a raw row into a question, or several on one
        document.
        """
        self.parser = parser
        self.fingerprint = hashlib.sha256(b"rows 1\n")
        self.place_by_id: dict[str, RowPlace] = {}
        self.skipped: Counter[str] = Counter()
        self.n_rows = 0
        self.n_bad_rows = 0
        self.kind_counts: Counter[tuple[str, str]] = Counter()
        self.first_bad_row: _BadRow | None = None
        self._hash_by_document_id: dict[str, bytes] = {}  # of documents that rows share

    def check_rows(self, rows: Rows, limit: int | None) -> CheckedQuestions:
        """Parse and hash all rows, and return the first questions with their documents.

        A bad row is counted, and no question after the first one is returned: its error is raised
        by `make_dataset`.

        Args:
            rows: The rows with their places.
            limit: How many questions are returned; None: all.
        """
        examples: list[Example] = []
        documents: dict[str, Document] = {}
        for place, raw in rows:
            self.n_rows += 1
            try:
                parsed = self._parse_and_hash(place, raw)
            except RowError as error:
                self.n_bad_rows += 1
                if self.first_bad_row is None:
                    self.first_bad_row = _BadRow(place, error)
                continue
            if isinstance(parsed, Skip):
                # Counted only up to the last question that is returned.
                if limit is None or len(examples) < limit:
                    self.skipped[parsed.reason] += 1
                continue
            self.kind_counts.update(count_kinds(parsed.examples))
            examples_within_limit = parsed.examples
            if limit is not None:
                examples_within_limit = parsed.examples[: limit - len(examples)]
            if examples_within_limit and self.first_bad_row is None:
                examples += examples_within_limit
                for document in parsed.documents:
                    documents.setdefault(document.id, document)
        return CheckedQuestions(examples, documents)

    def _parse_and_hash(self, place: RowPlace, raw: RawRow | BrokenRow) -> Group | Retrieved | Skip:
        """Parse a row, add it to the fingerprint, and note the ids of its questions and documents.

        Args:
            place: Where the row stands.
            raw: The row.

        Returns:
            Its questions and documents, or why it is left out.

        Raises:
            RowError: The row is bad, its id is taken, or its document has another text in an
                earlier row.
        """
        if isinstance(raw, BrokenRow):
            raise RowError(None, raw.problem)
        row = self.parser(raw)
        if isinstance(row, Skip):
            return row
        if isinstance(row, Row):
            example, document = example_and_document(row)
            line = canonical_line([example, document])
            self._note_id(row.id, place, field="id")
            self.fingerprint.update(line + b"\n")
            return Group(document, (example,))
        for document in row.documents:
            self._hash_shared_document(document)
        for example in row.examples:
            line = canonical_line(example)
            self._note_id(example.question.id, place, field="question id")
            self.fingerprint.update(line + b"\n")
        return row

    def _hash_shared_document(self, document: Document) -> None:
        """Add a document to the fingerprint, also where an earlier row has added it.

        Raises RowError where an earlier row has another document of the same id.
        """
        digest = hashlib.sha256(canonical_line(document)).digest()
        digest_in_first_row = self._hash_by_document_id.setdefault(document.id, digest)
        if digest != digest_in_first_row:
            raise RowError(None, f"the document '{document.id}' has another text in an earlier row")
        self.fingerprint.update(digest)

    def _note_id(self, row_id: str, place: RowPlace, field: str) -> None:
        """Note where the row, or the question, with an id stands.

        Args:
            row_id: The id.
            place: Where the row stands.
            field: The field that holds the id, for the error.

        Raises:
            RowError: An earlier row has that id.
        """
        earlier_place = self.place_by_id.get(row_id)
        if earlier_place is not None:
            problem = f"'{row_id}' is also the id of the row at {earlier_place}; ids must differ"
            raise RowError(field, problem)
        self.place_by_id[row_id] = place

    def _refuse_bad_rows(self, source: str) -> None:
        """Raise DataError for the first bad row, or where no row can be used.

        Args:
            source: The name of the rows' source, for the error.
        """
        if self.first_bad_row is not None:
            place, error = self.first_bad_row
            raise place.error(error.field, f"{error.problem}{self._advice_on_bad_rows()}")
        if not self.n_rows:
            raise DataError.of_file(source, "the file has no rows")
        if not self.place_by_id:
            reasons = ", ".join(f"{count} {reason}" for reason, count in self.skipped.items())
            problem = f"no row can be used: {reasons or 'they ask no question'}"
            raise DataError.of_file(source, problem)

    def _advice_on_bad_rows(self) -> str:
        """The end of the sentence on the first bad row: how many more there are, and what to do."""
        n_others = self.n_bad_rows - 1
        if not n_others:
            return "; mend or remove the row"
        noun = "rows"
        if n_others == 1:
            noun = "row"
        others = f" (and {n_others} more bad {noun})"
        if self.n_bad_rows < self.n_rows:
            return f"{others}; mend or remove the row"
        return (
            f"{others}; no row can be used: see that --data is a file of that data set, and that "
            "its parser is right"
        )

    def make_dataset(
        self,
        name: str,
        source: Source,
        source_suffix: str,
        questions: CheckedQuestions,
        notes: tuple[str, ...] = (),
    ) -> Dataset:
        """Make the data set of the checked questions.

        Args:
            name: The data set's name.
            source: Where the rows are from.
            source_suffix: Ends the source's name: " with pages.jsonl".
            questions: The questions with their documents.
            notes: Sentences about the source, printed as warnings.

        Raises:
            DataError: A row is bad (the first one is named), or no row can be used.
        """
        self._refuse_bad_rows(source.name)
        return Dataset(
            name=name,
            examples=tuple(questions.examples),
            documents=questions.documents,
            fingerprint=self.fingerprint.hexdigest(),
            source=source.name + source_suffix,
            revision=source.revision,
            skipped=dict(self.skipped),
            n_all_questions=len(self.place_by_id),  # every question has an id of its own
            kind_counts=self.kind_counts,
            notes=notes,
        )

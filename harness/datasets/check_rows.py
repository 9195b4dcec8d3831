"""Check the rows of a data set one by one and hash them all."""

import hashlib
from collections import Counter

from harness.datasets.base import Dataset
from harness.datasets.find_files import Source
from harness.datasets.formats import RowParser
from harness.datasets.question_kinds import count_kinds
from harness.datasets.raw_rows import RawRow
from harness.datasets.row_places import BrokenRow, RowPlace, Rows
from harness.datasets.rows import Group, Retrieved, Row, RowError, Skip, example_and_document, canonical_line
from harness.errors import DataError
from harness.types import Document, Example


class RowChecker:
    """Checks the rows of a data set one by one: keeps counts, ids, a hash of all rows and the first
    bad row."""

    def __init__(self, parser: RowParser) -> None:
        """Begin with no rows; the parser turns a raw row into a question, or several on one
        document.
        """
        self.parser = parser
        self.hash = hashlib.sha256(b"rows 1\n")
        self.places: dict[str, RowPlace] = {}  # id of a row or question -> where it stands
        self.skipped: Counter[str] = Counter()  # reason -> rows left out, up to the limit
        self.rows = self.bad = 0
        self.kinds: Counter[tuple[str, str]] = Counter()  # ("hops", "2") -> questions
        self.first_error: tuple[RowPlace, RowError] | None = None  # bad row
        self._documents: dict[str, bytes] = {}  # id -> sha256, of documents that rows share

    def check_rows(
        self, rows: Rows, limit: int | None
    ) -> tuple[list[Example], dict[str, Document]]:
        """Check all rows; a bad one is counted, and `dataset` raises its error.

        Args:
            rows: The rows with their places.
            limit: How many questions are returned; None: all.

        Returns:
            The questions, and their documents by id.
        """
        examples: list[Example] = []
        documents: dict[str, Document] = {}
        for place, raw in rows:
            self.rows += 1
            try:
                parsed = self._check(place, raw)
            except RowError as error:
                self.bad += 1
                self.first_error = self.first_error or (place, error)
                continue
            if isinstance(parsed, Skip):
                # A row after the last question is not left out.
                if limit is None or len(examples) < limit:
                    self.skipped[parsed.reason] += 1
                continue
            self.kinds.update(count_kinds(parsed.examples))
            within_limit = parsed.examples
            if limit is not None:
                within_limit = within_limit[: limit - len(examples)]
            if within_limit and not self.first_error:
                examples += within_limit
                for document in parsed.documents:
                    documents.setdefault(document.id, document)
        return examples, documents

    def _check(self, place: RowPlace, raw: RawRow | BrokenRow) -> Group | Retrieved | Skip:
        """Parse a row, and add it to the fingerprint.

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
            self._add_to_hash(place, "id", row.id, canonical_line([example, document]))
            return Group(document, (example,))
        for document in row.documents:  # must be the same in all its rows; each adds it to the hash
            digest = hashlib.sha256(canonical_line(document)).digest()
            if self._documents.setdefault(document.id, digest) != digest:
                raise RowError(
                    None, f"the document '{document.id}' has another text in an earlier row"
                )
            self.hash.update(digest)
        for example in row.examples:
            self._add_to_hash(place, "question id", example.question.id, canonical_line(example))
        return row

    def _add_to_hash(self, place: RowPlace, field: str, key: str, line: bytes) -> None:
        """Add a row to the fingerprint, and note where it stands.

        Args:
            place: Where the row stands.
            field: The field that holds its id, for the error.
            key: Its id.
            line: The row as JSON.

        Raises:
            RowError: An earlier row has that id.
        """
        earlier = self.places.get(key)
        if earlier is not None:
            raise RowError(
                field, f"'{key}' is also the id of the row at {earlier}; ids must differ"
            )
        self.places[key] = place
        self.hash.update(line + b"\n")

    def _refuse_bad_rows(self, source: str) -> None:
        """Raise DataError for the first bad row, or where no row can be used.

        Args:
            source: The name of the rows' source, for the error.
        """
        if self.first_error is not None:
            place, error = self.first_error
            raise place.error(error.field, f"{error.problem}{self._advice()}")
        if not self.rows:
            raise DataError(source, None, None, "the file has no rows")
        if not self.places:
            reasons = ", ".join(f"{n} {reason}" for reason, n in self.skipped.items())
            problem = f"no row can be used: {reasons or 'they ask no question'}"
            raise DataError(source, None, None, problem)

    def _advice(self) -> str:
        """The end of the sentence on the first bad row: how many more there are, and what to do."""
        more = self.bad - 1
        if not more:
            return "; mend or remove the row"
        noun = "rows"
        if more == 1:
            noun = "row"
        others = f" (and {more} more bad {noun})"
        if self.bad < self.rows:
            return f"{others}; mend or remove the row"
        return (
            f"{others}; no row can be used: see that --data is a file of that data set, and that "
            "its parser is right"
        )

    def dataset(
        self,
        name: str,
        source: Source,
        source_suffix: str,
        examples: list[Example],
        documents: dict[str, Document],
        notes: tuple[str, ...] = (),
    ) -> Dataset:
        """Make the data set of the checked questions.

        Args:
            name: The data set's name.
            source: Where the rows are from.
            source_suffix: Ends the source's name: " with pages.jsonl".
            examples: The questions.
            documents: Their documents, by id.
            notes: Sentences about the source, printed as warnings.

        Raises:
            DataError: A row is bad (the first one is named), or no row can be used.
        """
        self._refuse_bad_rows(source.name)
        return Dataset(
            name=name,
            examples=tuple(examples),
            documents=documents,
            fingerprint=self.hash.hexdigest(),
            source=source.name + source_suffix,
            revision=source.revision,
            skipped=dict(self.skipped),
            rows=len(self.places),
            kinds=self.kinds,
            notes=notes,
        )

"""The rows of a file of questions that someone brings, whatever wrote it.

    q.csv     Question;Answer                        -> {"question": "How long?", "answer": "two years"}
    q.yaml    - {question: How many?, answer: 7}     -> {"question": "How many?", "answer": "7"}
    ragas     {"user_input": .., "reference": ..}, SQuAD's articles, and BEIR's queries with their qrels
    others    with the names of their columns: --columns question=input,answer=expected_output

Values are text as the file has it: 7.50 stays "7.50". Names of columns are read without regard to
case, and the separator of a table is the one that divides its header into the most columns.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import yaml

from harness.datasets.files import TEXT_JSON, as_row, read_json_value, read_rows, read_text_file
from harness.datasets.folder_keys import FIELDS, GROUND_TRUTH, RAGAS, UnreadKeys, find_unread_keys
from harness.datasets.raw_rows import RawRow
from harness.datasets.row_places import BrokenRow, RowPlace, Rows
from harness.datasets.rows import RowError, type_name
from harness.datasets.tables import read_table_of_any_separator
from harness.errors import ConfigError, DataError
from harness.storage.yaml_text import YAMLProblem, parse_yaml

SUFFIXES = (".jsonl", ".json", ".csv", ".tsv", ".yaml", ".yml", ".parquet")
_ANSWER_KEYS = ("answer", "answers", "golden_answers", "possible_answers", "annotations", "Answer")
_QUESTION_KEYS = ("question", "Question", "ambiguous_question")
# What other tools call the two, for the sentence that proposes --columns.
_LIKELY_QUESTION_COLUMNS = ("input", "query", "user_input", "prompt", "problem", "question_text")
_LIKELY_ANSWER_COLUMNS = (
    "answer",
    "expected_output",
    "ideal",
    "expected",
    "target",
    "reference",
    "label",
)


@dataclass(frozen=True, slots=True)
class QuestionFile:
    """A file of questions.

    Attributes:
        rows: Its rows, which are read when they are iterated.
        unread_keys: The keys that are not read, of the rows iterated so far.
        guessed_encoding: Its encoding where that was guessed, else "".
    """

    rows: Rows
    unread_keys: UnreadKeys
    guessed_encoding: str = ""


def parse_columns(text: str) -> dict[str, str]:
    """Parse "question=user_input,answer=reference" -> {"question": "user_input", "answer":
    "reference"}.

    Raises ConfigError for a part of another form, or a name that is not ours.
    """
    column_by_field = {}
    for pair in filter(None, map(str.strip, text.split(","))):
        field, equals_sign, column = pair.partition("=")
        is_pair = bool(equals_sign) and bool(column)
        if not is_pair or field not in FIELDS:
            known = ", ".join(FIELDS)
            sentence = f"should be NAME=COLUMN,..., with the names {known}; is '{pair}'"
            raise ConfigError([f"dataset.columns: {sentence}"])
        column_by_field[field] = column
    return column_by_field


def read_questions(path: Path, column_by_field: Mapping[str, str]) -> QuestionFile:
    """Open a file of questions: JSON, JSON lines, a table or YAML. Its rows are read when the
    result is iterated, and get the field names that are read here; queries of BEIR also get the
    pages that are relevant for them.

    Args:
        path: The file; also compressed by gzip.
        column_by_field: A field that is read here, "question" -> the file's column for it.

    Raises:
        DataError: The file is of another kind, or no text; its rows raise it too.
    """
    suffix = PurePosixPath(path.name.lower().removesuffix(".gz")).suffix
    if suffix not in SUFFIXES:
        kinds = ", ".join(SUFFIXES)
        raise DataError.of_file(path.name, f"questions are read from {kinds} files")
    guessed_encoding = ""
    if suffix in (".csv", ".tsv", ".yaml", ".yml"):
        decoded = read_text_file(path)
        guessed_encoding = decoded.guessed_encoding
        rows = _table_or_yaml_rows(path.name, decoded.text, suffix)
    elif suffix == ".json":
        rows = _json_rows(path)
    else:
        rows = read_rows(path, decoder=TEXT_JSON)
    rows_with_gold_pages = _with_gold_pages_of_beir(rows, path)
    unread_keys = UnreadKeys()
    rows_with_our_names = _with_our_names(rows_with_gold_pages, column_by_field, unread_keys)
    return QuestionFile(rows_with_our_names, unread_keys, guessed_encoding)


def _table_or_yaml_rows(file_name: str, text: str, suffix: str) -> Rows:
    """The rows of a table or of a YAML list, each with its place.

    Args:
        file_name: The file, for messages.
        text: Its text.
        suffix: ".csv", ".tsv", ".yaml" or ".yml".

    Raises:
        DataError: The text is of another form; rows raise it too.
    """
    if suffix in (".csv", ".tsv"):
        return read_table_of_any_separator(file_name, text)
    return _rows_of_list(file_name, _parse_yaml_file(file_name, text))


def _parse_yaml_file(file_name: str, text: str) -> object:
    """The value of a YAML text, whose scalars stay text: "- yes" -> ["yes"]. Raises DataError."""
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        return parse_yaml(text, loader)
    except YAMLProblem as problem:
        raise DataError(
            file_name, line=problem.line, field=None, problem=f"not YAML ({problem})"
        ) from None


def _json_rows(path: Path) -> Rows:
    """The rows of a .json file: a list, an object with a list at "data", one question, or JSON
    lines.
    """
    try:
        value = read_json_value(path, TEXT_JSON)
    except DataError:
        return read_rows(path, decoder=TEXT_JSON)  # says what is wrong, where it is no JSON lines
    is_one_question = isinstance(value, dict) and _has_question(value)
    if is_one_question:
        value = [value]
    return _rows_of_list(path.name, value)


def _rows_of_list(file_name: str, value: object) -> Rows:
    """Yield (place, row) for a list of rows, or the list at "data" of an object.

    Args:
        file_name: The file, for messages.
        value: The parsed file.

    Raises:
        DataError: It holds no list.
    """
    rows = value
    if isinstance(value, dict):
        rows = value.get("data")
    if not isinstance(rows, list):
        problem = f"should be a list of questions, is {type_name(value)}"
        if isinstance(value, dict):
            problem += f" with {', '.join(map(str, value))[:200]}"
        raise DataError.of_file(file_name, f"{problem}; write a list with question and answer")
    for number, row in enumerate(rows, start=1):
        yield RowPlace(file_name, row=number), as_row(row)


def _with_our_names(
    rows: Rows, column_by_field: Mapping[str, str], unread_keys: UnreadKeys
) -> Rows:
    """Yield the rows with the field names that are read here, "question" and "answer", and text
    values.

    {"user_input": "How many?", "reference": 7} -> {"question": "How many?", "answer": "7", ..}. An
    article of SQuAD becomes its questions.

    Args:
        rows: The rows of the file.
        column_by_field: A field that is read here -> the file's column for it.
        unread_keys: Gets the keys that are not read; changed.
    """
    for place, row in rows:
        if isinstance(row, BrokenRow):
            yield place, row
            continue
        for question in _squad_questions(row):
            yield place, _row_with_our_names(question, column_by_field, unread_keys)


def _row_with_our_names(
    row: RawRow, column_by_field: Mapping[str, str], unread_keys: UnreadKeys
) -> RawRow | BrokenRow:
    """A row with the field names that are read here and text values; a BrokenRow for one with a
    mistake.

    Args:
        row: The row as the file has it.
        column_by_field: A field that is read here -> the file's column for it; {} to go by the
            spellings of other tools.
        unread_keys: Gets the keys of the row that are not read; changed.
    """
    try:
        renamed = _with_fields_renamed(row, column_by_field)
        reads_names_of_ragas = not column_by_field
        keys = find_unread_keys(renamed, reads_names_of_ragas=reads_names_of_ragas)
        unread_keys.add_question(keys)
        return _with_text_values(_without_input(renamed))
    except RowError as error:
        if error.field:
            return BrokenRow(f"column '{error.field}' {error.problem}")
        return BrokenRow(error.problem)


def _squad_questions(row: RawRow) -> Iterator[RawRow]:
    """Yield the questions of an article of SQuAD; any other row is yielded itself.

    {"paragraphs": [{"qas": [q1, q2]}]} -> q1, q2
    """
    paragraphs = row.get("paragraphs")
    if not isinstance(paragraphs, list) or "question" in row:
        yield row
        return
    for paragraph in paragraphs:
        if isinstance(paragraph, dict):
            yield from paragraph.get("qas", ())


def _with_fields_renamed(row: RawRow, column_by_field: Mapping[str, str]) -> RawRow:
    """The row with the field names that are read here in place of those of ragas and other tools,
    or of the user's own columns.

    {"user_input": "Who?", "reference": "Ada"} -> also "question": "Who?", "answer": "Ada";
    "Question" is read as "question". Where a row has a "ground_truth", that is its answer, and its
    "answer" that of a model.

    Args:
        row: The row as the file has it.
        column_by_field: A field that is read here -> the file's column for it; {} to go by the
            spellings of other tools.

    Raises:
        RowError: No column holds the question, or none the answer while one looks like it.
    """
    if column_by_field:
        return _with_columns_renamed(row, column_by_field)
    row = _with_fields_in_small_letters(row)
    if "question" not in row:
        for ragas_key, field in RAGAS.items():
            if ragas_key in row:
                row[field] = row[ragas_key]
    for key in GROUND_TRUTH:
        if key in row:
            row = {**row, "answer": None, "answers": row[key]}
    if not _has_question(row):
        raise RowError(None, _problem_without_question(row))
    _refuse_answer_of_other_name(row)
    return row


def _with_columns_renamed(row: RawRow, column_by_field: Mapping[str, str]) -> RawRow:
    """The row with the columns that the user named renamed to the fields that are read here.

    ({"q": "Who?", "n": 1}, {"question": "q"}) -> {"n": 1, "question": "Who?"}

    Args:
        row: The row as the file has it.
        column_by_field: A field that is read here -> the file's column for it.

    Raises:
        RowError: The row lacks one of these columns.
    """
    named_columns = column_by_field.values()
    renamed = {column: value for column, value in row.items() if column not in named_columns}
    for field, column in column_by_field.items():
        if column not in row:
            raise RowError(column, f"is not there; the row has {_column_names(row)}")
        renamed[field] = row[column]
    return renamed


def _refuse_answer_of_other_name(row: RawRow) -> None:
    """Raise RowError if a row has no answer, but a column that looks like one,
    "expected_output".
    """
    has_answer = not row.keys().isdisjoint((*_ANSWER_KEYS, *GROUND_TRUTH))
    if has_answer or _is_kilt(row):
        return
    column = _likely_answer_column(row)
    if column is not None:
        raise RowError(
            "answer", f"is not there, but '{column}' is; name it: --columns answer={column}"
        )


def _without_input(row: RawRow) -> RawRow:
    """The row without "input" where it has a question, as that would make it a row of KILT."""
    if "question" not in row or _is_kilt(row):
        return row
    return {key: value for key, value in row.items() if key != "input"}


def _with_fields_in_small_letters(row: RawRow) -> RawRow:
    """A copy of the row with the names of our fields in small letters: {"Question": ..} ->
    {"question": ..}.

    TriviaQA's rows, whose "Answer" is an object, keep theirs.
    """
    if isinstance(row.get("Answer"), dict):
        return dict(row)
    renamed: RawRow = {}
    for key, value in row.items():
        new_key = key
        if isinstance(key, str):
            folded = key.strip().casefold()
            if folded in FIELDS and folded not in row:
                new_key = folded
        renamed[new_key] = value
    return renamed


def _has_question(row: RawRow) -> bool:
    """Whether a row holds a question: under "question" or the like, or as KILT's "input"."""
    has_question_key = not row.keys().isdisjoint(_QUESTION_KEYS)
    return has_question_key or _is_kilt(row)


def _is_kilt(row: RawRow) -> bool:
    """Whether a row is one of KILT: it has a list "output" beside a text "input"."""
    return isinstance(row.get("input"), str) and isinstance(row.get("output"), list)


def _problem_without_question(row: RawRow) -> str:
    """Say what is wrong with a row without a question, and which option would name its columns."""
    problem = f"has no column 'question'; its columns are {_column_names(row)}"
    if isinstance(row.get("input"), list):
        return f"{problem}; 'input' is a list of messages: write its question as text"
    question_column = _likely_question_column(row)
    if question_column is not None:
        answer_column = _likely_answer_column(row) or "COLUMN"
        option = f"--columns question={question_column},answer={answer_column}"
        return f"{problem}; name them: {option}"
    if "pred" in row or "prediction" in row:
        return f"{problem}; answers of a run are read by `harness import`"
    return f"{problem}; name them: --columns question=COLUMN,answer=COLUMN"


def _likely_question_column(row: RawRow) -> str | None:
    """The column that other tools put the question into; None where there is none."""
    for column in _LIKELY_QUESTION_COLUMNS:
        if isinstance(row.get(column), str):
            return column
    return None


def _likely_answer_column(row: RawRow) -> str | None:
    """The column that other tools put the answer into; None where there is none."""
    for column in _LIKELY_ANSWER_COLUMNS:
        if column in row:
            return column
    return None


def _column_names(row: RawRow) -> str:
    """The first twelve names of the row's columns, for messages: "input, ideal and 3 more"."""
    names = list(map(str, row))
    listed = ", ".join(names[:12])[:300]
    if len(names) > 12:
        listed += f" and {len(names) - 12} more"
    return listed


def _with_text_values(row: RawRow) -> RawRow:
    """The row with text in place of numbers, true and false, in the fields that are read.

    {"answer": 7.5} -> {"answer": "7.5"}; SQuAD's answers, objects with a "text", become a list of
    these texts.
    """
    row_of_texts = dict(row)
    answers = row.get("answers")
    if isinstance(answers, dict) and "text" in answers:  # the hub's copy of SQuAD
        row_of_texts["answers"] = answers["text"]
    elif isinstance(answers, list) and any(isinstance(entry, dict) for entry in answers):
        row_of_texts["answers"] = list(dict.fromkeys(map(_squad_answer_text, answers)))
    for key, value in row_of_texts.items():
        if key in FIELDS:
            row_of_texts[key] = _as_text(value)
    return row_of_texts


def _squad_answer_text(entry: object) -> object:
    """The text of one of SQuAD's answers: {"text": "Ada", "answer_start": 3} -> "Ada".

    Another value is returned as it is.
    """
    if isinstance(entry, dict):
        return entry.get("text")
    return entry


def _as_text(value: object) -> object:
    """A number, true or false as the text that JSON has for it: 7 -> "7", [true] -> ["true"].

    Of a list each entry; any other value is returned as it is.
    """
    if isinstance(value, list):
        return [_as_text(entry) for entry in value]
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    return value


def _with_gold_pages_of_beir(rows: Rows, path: Path) -> Rows:
    """Yield the rows of a file; a query of BEIR becomes a question with the pages relevant for it.

    A query that the split's table of relevance does not have is left out. The table is read at the
    first query.

    Args:
        rows: The rows of the file.
        path: The file, beside which the folder "qrels" is.
    """
    relevant_pages: dict[str, list[str]] | None = None
    for place, row in rows:
        if isinstance(row, BrokenRow) or not _is_beir_query(row):
            yield place, row
            continue
        if relevant_pages is None:
            relevant_pages = _read_relevant_pages(path)
        query_id = row["_id"]
        if query_id in relevant_pages:
            yield place, _question_of_beir_query(row, relevant_pages[query_id])


def _is_beir_query(row: RawRow) -> bool:
    """Whether a row is a query of BEIR, {"_id", "text"}."""
    return "_id" in row and isinstance(row.get("text"), str) and "question" not in row


def _question_of_beir_query(query: RawRow, page_ids: list[str]) -> RawRow:
    """The question of a BEIR query, with its answer where the metadata has one, as in HotpotQA.

    Args:
        query: The query, {"_id", "text", "metadata"}.
        page_ids: The ids of its relevant pages.
    """
    answer = query.get("answer")
    metadata = query.get("metadata")
    if "answer" not in query and isinstance(metadata, dict):
        answer = metadata.get("answer")
    return {
        "id": query["_id"],
        "question": query["text"],
        "answer": answer,
        "gold_pages": page_ids,
    }


def _read_relevant_pages(queries: Path) -> dict[str, list[str]]:
    """Map the id of each BEIR query to the ids of its relevant pages.

    They are read from qrels/test.tsv beside the queries, or from the only table there; rows with
    the score 0 are left out.

    Args:
        queries: The file of queries.

    Raises:
        DataError: There is no such table, or it has other columns.
    """
    tables = sorted((queries.parent / "qrels").glob("*.tsv"))
    test_tables = [table for table in tables if table.stem == "test"]
    if not test_tables and len(tables) != 1:
        found = ", ".join(table.name for table in tables) or "none"
        problem = f"BEIR's queries need qrels/test.tsv, or one table in qrels; there is {found}"
        raise DataError.of_file(queries.name, problem)
    table = (test_tables or tables)[0]
    relevant_pages: dict[str, list[str]] = {}
    for place, row in read_rows(table):
        if isinstance(row, BrokenRow):
            raise place.error(field=None, problem=row.problem)
        query_id = row.get("query-id")
        page_id = row.get("corpus-id")
        if not isinstance(query_id, str) or not isinstance(page_id, str):
            problem = "should have the columns query-id, corpus-id, score"
            raise place.error(field=None, problem=problem)
        if row.get("score") != "0":
            relevant_pages.setdefault(query_id, []).append(page_id)
    return relevant_pages

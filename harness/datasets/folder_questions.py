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
from harness.datasets.folder_keys import FIELDS, GROUND_TRUTH, RAGAS, UnreadKeys, unread_keys
from harness.datasets.raw_rows import RawRow
from harness.datasets.row_places import BrokenRow, RowPlace, Rows
from harness.datasets.rows import RowError, type_name
from harness.datasets.tables import read_table_of_any_separator
from harness.errors import ConfigError, DataError
from harness.storage.yaml_text import YAMLProblem, parse_yaml

SUFFIXES = (".jsonl", ".json", ".csv", ".tsv", ".yaml", ".yml", ".parquet")
_ANSWERS = ("answer", "answers", "golden_answers", "possible_answers", "annotations", "Answer")
_QUESTIONS = ("question", "Question", "ambiguous_question")
# What other tools call the two, for the sentence that proposes --columns.
_LIKELY_QUESTIONS = ("input", "query", "user_input", "prompt", "problem", "question_text")
_LIKELY_ANSWERS = ("answer", "expected_output", "ideal", "expected", "target", "reference", "label")


@dataclass(frozen=True, slots=True)
class QuestionFile:
    """The rows of a file; assumed: its encoding where that was guessed, else "". unread: the keys
    that are not read, of the rows read so far."""

    rows: Rows
    unread: UnreadKeys
    assumed: str = ""


def parse_columns(text: str) -> dict[str, str]:
    """Parse "question=user_input,answer=reference" -> {"question": "user_input", "answer":
    "reference"}.

    Raises ConfigError for a part of another form, or a name that is not ours.
    """
    columns = {}
    for part in filter(None, map(str.strip, text.split(","))):
        ours, equals, theirs = part.partition("=")
        if not equals or ours not in FIELDS or not theirs:
            known = ", ".join(FIELDS)
            sentence = f"should be NAME=COLUMN,..., with the names {known}; is '{part}'"
            raise ConfigError([f"dataset.columns: {sentence}"])
        columns[ours] = theirs
    return columns


def read_questions(path: Path, columns: Mapping[str, str]) -> QuestionFile:
    """Open a file of questions; its rows are read when the result is iterated.

    Args:
        path: The file; also compressed by gzip.
        columns: Name of a field that is read here, "question" -> the file's column for it.

    Raises:
        DataError: The file is of another kind, or no text; its rows raise it too.
    """
    name = PurePosixPath(path.name.lower().removesuffix(".gz"))
    if name.suffix not in SUFFIXES:
        kinds = ", ".join(SUFFIXES)
        raise DataError(path.name, None, None, f"questions are read from {kinds} files")
    assumed = ""
    if name.suffix in (".csv", ".tsv", ".yaml", ".yml"):
        decoded = read_text_file(path)
        assumed = decoded.guessed_encoding
        rows = _text_rows(path.name, decoded.text, name.suffix)
    elif name.suffix == ".json":
        rows = _json_rows(path)
    else:
        rows = read_rows(path, decoder=TEXT_JSON)
    unread = UnreadKeys()
    return QuestionFile(_with_our_names(_with_qrels(rows, path), columns, unread), unread, assumed)


def _text_rows(name: str, text: str, suffix: str) -> Rows:
    """The rows of a table or of a YAML list, each with its place.

    Args:
        name: The file, for messages.
        text: Its text.
        suffix: ".csv", ".tsv", ".yaml" or ".yml".

    Raises:
        DataError: The text is of another form; rows raise it too.
    """
    if suffix in (".csv", ".tsv"):
        return read_table_of_any_separator(name, text)
    return _listed_rows(name, _yaml_value(name, text))


def _yaml_value(name: str, text: str) -> object:
    """The value of a YAML text, whose scalars stay text: "- yes" -> ["yes"]. Raises DataError."""
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        return parse_yaml(text, loader)
    except YAMLProblem as problem:
        raise DataError(name, problem.line, None, f"not YAML ({problem})") from None


def _json_rows(path: Path) -> Rows:
    """The rows of a .json file: a list, an object with a list at "data", one question, or JSON
    lines.
    """
    try:
        value = read_json_value(path, TEXT_JSON)
    except DataError:
        return read_rows(path, decoder=TEXT_JSON)  # says what is wrong, where it is no JSON lines
    if isinstance(value, dict) and _found_question(value):
        value = [value]
    return _listed_rows(path.name, value)


def _listed_rows(name: str, value: object) -> Rows:
    """Yield (place, row) for a list of rows, or the list at "data" of an object.

    Args:
        name: The file, for messages.
        value: The parsed file.

    Raises:
        DataError: It holds no list.
    """
    listed = value
    if isinstance(value, dict):
        listed = value.get("data")
    if not isinstance(listed, list):
        problem = f"should be a list of questions, is {type_name(value)}"
        if isinstance(value, dict):
            problem += f" with {', '.join(map(str, value))[:200]}"
        raise DataError(name, None, None, f"{problem}; write a list with question and answer")
    for number, row in enumerate(listed, start=1):
        yield RowPlace(name, row=number), as_row(row)


def _with_our_names(rows: Rows, columns: Mapping[str, str], unread: UnreadKeys) -> Rows:
    """Yield the rows with the field names that are read here, "question" and "answer", and text
    values.

    {"user_input": "How many?", "reference": 7} -> {"question": "How many?", "answer": "7", ..}. An
    article of SQuAD becomes its questions.

    Args:
        rows: The rows of the file.
        columns: Name of a field that is read here -> the file's column for it.
        unread: Gets the keys that are not read; changed.
    """
    for place, row in rows:
        if isinstance(row, BrokenRow):
            yield place, row
            continue
        for question in _squad_questions(row):
            yield place, _our_row(question, columns, unread)


def _our_row(row: RawRow, columns: Mapping[str, str], unread: UnreadKeys) -> RawRow | BrokenRow:
    """A row with the field names that are read here and text values; a BrokenRow for one with a
    mistake.

    Args:
        row: The row as the file has it.
        columns: Name of a field that is read here -> the file's column for it.
        unread: Gets the keys of the row that are not read; changed.
    """
    try:
        renamed = _renamed(row, columns)
        unread.add(unread_keys(renamed, other_tools=not columns))
        return _as_texts(_without_input(renamed))
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


def _renamed(row: RawRow, columns: Mapping[str, str]) -> RawRow:
    """The row with the field names that are read here in place of those of ragas and other tools.

    {"user_input": "Who?", "reference": "Ada"} -> also "question": "Who?", "answer": "Ada"

    Args:
        row: The row as the file has it.
        columns: Name of a field that is read here -> the file's column for it; {} to go by the
            spellings of other tools.

    Raises:
        RowError: No column holds the question, or none the answer while one looks like it.
    """
    if columns:
        return _with_named_columns(row, columns)
    row = _lower_case_names(row)
    if "question" not in row:
        for theirs, ours in RAGAS.items():
            if theirs in row:
                row[ours] = row[theirs]
    for name in GROUND_TRUTH:
        if name in row:
            row = {**row, "answer": None, "answers": row[name]}
    if not _found_question(row):
        raise RowError(None, _no_question(row))
    _refuse_other_answer(row)
    return row


def _with_named_columns(row: RawRow, columns: Mapping[str, str]) -> RawRow:
    """The row with the columns that the user named renamed to the fields that are read here.

    ({"q": "Who?", "n": 1}, {"question": "q"}) -> {"n": 1, "question": "Who?"}

    Args:
        row: The row as the file has it.
        columns: Name of a field that is read here -> the file's column for it.

    Raises:
        RowError: The row lacks one of these columns.
    """
    renamed = {name: value for name, value in row.items() if name not in columns.values()}
    for ours, theirs in columns.items():
        if theirs not in row:
            raise RowError(theirs, f"is not there; the row has {_names(row)}")
        renamed[ours] = row[theirs]
    return renamed


def _refuse_other_answer(row: RawRow) -> None:
    """Raise RowError if a row has no answer, but a column that looks like one,
    "expected_output".
    """
    if not row.keys().isdisjoint((*_ANSWERS, *GROUND_TRUTH)) or _is_kilt(row):
        return
    likely = _likely_answer(row)
    if likely is not None:
        raise RowError(
            "answer", f"is not there, but '{likely}' is; name it: --columns answer={likely}"
        )


def _without_input(row: RawRow) -> RawRow:
    """The row without "input" where it has a question, as that would make it a row of KILT."""
    if "question" not in row or _is_kilt(row):
        return row
    return {name: value for name, value in row.items() if name != "input"}


def _lower_case_names(row: RawRow) -> RawRow:
    """A copy of the row with the names of our fields in small letters: {"Question": ..} ->
    {"question": ..}.

    TriviaQA's rows, whose "Answer" is an object, keep theirs.
    """
    if isinstance(row.get("Answer"), dict):
        return dict(row)
    renamed: RawRow = {}
    for name, value in row.items():
        ours = name
        if isinstance(name, str):
            folded = name.strip().casefold()
            if folded in FIELDS and folded not in row:
                ours = folded
        renamed[ours] = value
    return renamed


def _found_question(row: RawRow) -> bool:
    """Whether a row holds a question: under "question" or the like, or as KILT's "input"."""
    return _is_kilt(row) or not row.keys().isdisjoint(_QUESTIONS)


def _is_kilt(row: RawRow) -> bool:
    """Whether a row is one of KILT: it has a list "output" beside a text "input"."""
    return isinstance(row.get("input"), str) and isinstance(row.get("output"), list)


def _no_question(row: RawRow) -> str:
    """Say what is wrong with a row without a question, and which option would name its columns."""
    problem = f"has no column 'question'; its columns are {_names(row)}"
    if isinstance(row.get("input"), list):
        return f"{problem}; 'input' is a list of messages: write its question as text"
    question = _likely_question(row)
    if question is not None:
        answer = _likely_answer(row) or "COLUMN"
        return f"{problem}; name them: --columns question={question},answer={answer}"
    if "pred" in row or "prediction" in row:
        return f"{problem}; answers of a run are read by `harness import`"
    return f"{problem}; name them: --columns question=COLUMN,answer=COLUMN"


def _likely_question(row: RawRow) -> str | None:
    """The column that other tools put the question into; None where there is none."""
    for name in _LIKELY_QUESTIONS:
        if isinstance(row.get(name), str):
            return name
    return None


def _likely_answer(row: RawRow) -> str | None:
    """The column that other tools put the answer into; None where there is none."""
    for name in _LIKELY_ANSWERS:
        if name in row:
            return name
    return None


def _names(row: RawRow) -> str:
    """The first twelve names of the row's columns, for messages: "input, ideal and 3 more"."""
    names = list(map(str, row))
    listed = ", ".join(names[:12])[:300]
    if len(names) > 12:
        listed += f" and {len(names) - 12} more"
    return listed


def _as_texts(row: RawRow) -> RawRow:
    """The row with text in place of numbers, true and false, in the fields that are read.

    {"answer": 7.5} -> {"answer": "7.5"}; SQuAD's answers, objects with a "text", become a list of
    these texts.
    """
    texts = dict(row)
    answers = row.get("answers")
    if isinstance(answers, dict) and "text" in answers:  # the hub's copy of SQuAD
        texts["answers"] = answers["text"]
    elif isinstance(answers, list) and any(isinstance(entry, dict) for entry in answers):
        texts["answers"] = list(dict.fromkeys(map(_answer_text, answers)))
    for name, value in texts.items():
        if name in FIELDS:
            texts[name] = _as_text(value)
    return texts


def _answer_text(entry: object) -> object:
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


def _with_qrels(rows: Rows, path: Path) -> Rows:
    """Yield the rows of a file; a query of BEIR becomes a question with the pages relevant for it.

    A query that the split's table of relevance does not have is left out.

    Args:
        rows: The rows of the file.
        path: The file, beside which the folder "qrels" is.
    """
    relevant: dict[str, list[str]] | None = None
    for place, row in rows:
        if isinstance(row, BrokenRow) or not _is_beir_query(row):
            yield place, row
            continue
        if relevant is None:
            relevant = _read_qrels(path)
        if row["_id"] in relevant:
            yield place, _beir_question(row, relevant[row["_id"]])


def _is_beir_query(row: RawRow) -> bool:
    """Whether a row is a query of BEIR, {"_id", "text"}."""
    return "_id" in row and isinstance(row.get("text"), str) and "question" not in row


def _beir_question(row: RawRow, pages: list[str]) -> RawRow:
    """The question of a BEIR query, with its answer where the metadata has one, as in HotpotQA.

    Args:
        row: The query, {"_id", "text", "metadata"}.
        pages: The ids of its relevant pages.
    """
    answer = row.get("answer")
    metadata = row.get("metadata")
    if "answer" not in row and isinstance(metadata, dict):
        answer = metadata.get("answer")
    return {"id": row["_id"], "question": row["text"], "answer": answer, "gold_pages": pages}


def _read_qrels(queries: Path) -> dict[str, list[str]]:
    """Map the id of each BEIR query to the ids of its relevant pages.

    They are read from qrels/test.tsv beside the queries, or from the only table there; rows with
    the score 0 are left out.

    Args:
        queries: The file of queries.

    Raises:
        DataError: There is no such table, or it has other columns.
    """
    tables = sorted((queries.parent / "qrels").glob("*.tsv"))
    test = [table for table in tables if table.stem == "test"]
    if not test and len(tables) != 1:
        found = ", ".join(table.name for table in tables) or "none"
        problem = f"BEIR's queries need qrels/test.tsv, or one table in qrels; there is {found}"
        raise DataError(queries.name, None, None, problem)
    relevant: dict[str, list[str]] = {}
    for place, row in read_rows((test or tables)[0]):
        if isinstance(row, BrokenRow):
            raise place.error(None, row.problem)
        query = row.get("query-id")
        page = row.get("corpus-id")
        if not isinstance(query, str) or not isinstance(page, str):
            raise place.error(None, "should have the columns query-id, corpus-id, score")
        if row.get("score") != "0":
            relevant.setdefault(query, []).append(page)
    return relevant

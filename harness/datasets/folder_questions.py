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

from harness.datasets.files import TEXT_JSON, as_row, json_value, read_rows, read_text_file
from harness.datasets.folder_keys import FIELDS, GROUND_TRUTH, RAGAS, UnreadKeys, unread_keys
from harness.datasets.raw_rows import RawRow
from harness.datasets.row_places import BrokenRow, RowPlace, Rows
from harness.datasets.rows import RowError, type_name
from harness.datasets.tables import sniffed_table
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
    """{"question": "user_input"} of "question=user_input". Raises ConfigError."""
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
    """Open a file of questions.

    Args:
        path: The file; also compressed by gzip.
        columns: Our names -> the columns that stand for them.

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
        assumed = decoded.assumed
        rows = _text_rows(path.name, decoded.text, name.suffix)
    elif name.suffix == ".json":
        rows = _json_rows(path)
    else:
        rows = read_rows(path, decoder=TEXT_JSON)
    unread = UnreadKeys()
    return QuestionFile(_with_our_names(_with_qrels(rows, path), columns, unread), unread, assumed)


def _text_rows(name: str, text: str, suffix: str) -> Rows:
    """The rows of a table or of a YAML list. Raises DataError."""
    if suffix in (".csv", ".tsv"):
        return sniffed_table(name, text)
    return _listed_rows(name, _yaml_value(name, text))


def _yaml_value(name: str, text: str) -> object:
    """The value of a YAML text, whose scalars stay text: `yes` is "yes". Raises DataError."""
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        return parse_yaml(text, loader)
    except YAMLProblem as problem:
        raise DataError(name, problem.line, None, f"not YAML ({problem})") from None


def _json_rows(path: Path) -> Rows:
    """The rows of a .json file: a list, an object with a list at "data", or JSON lines."""
    try:
        value = json_value(path, TEXT_JSON)
    except DataError:
        return read_rows(path, decoder=TEXT_JSON)  # says what is wrong, where it is no JSON lines
    if isinstance(value, dict) and _found_question(value):
        value = [value]
    return _listed_rows(path.name, value)


def _listed_rows(name: str, value: object) -> Rows:
    """The rows of a value: a list, or an object with a list at "data". Raises DataError."""
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
    """The rows with our names and text for values; an article of SQuAD becomes its questions.

    Args:
        rows: The rows of the file.
        columns: Our names -> the columns that stand for them.
        unread: Gets the keys that are not read.
    """
    for place, row in rows:
        if isinstance(row, BrokenRow):
            yield place, row
            continue
        for question in _squad_questions(row):
            yield place, _our_row(question, columns, unread)


def _our_row(row: RawRow, columns: Mapping[str, str], unread: UnreadKeys) -> RawRow | BrokenRow:
    """A row with our names and text for values, or what is wrong with it.

    Args:
        row: The row as the file has it.
        columns: Our names -> the columns that stand for them.
        unread: A list to which the keys that nothing reads are added.
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
    """The questions of an article of SQuAD; any other row itself."""
    paragraphs = row.get("paragraphs")
    if not isinstance(paragraphs, list) or "question" in row:
        yield row
        return
    for paragraph in paragraphs:
        if isinstance(paragraph, dict):
            yield from paragraph.get("qas", ())


def _renamed(row: RawRow, columns: Mapping[str, str]) -> RawRow:
    """The row with our names in place of those of `columns`, ragas and other spellings. Raises
    RowError where no column holds the question."""
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
    """The row with our names in place of those of `columns`. Raises RowError for one that it
    lacks."""
    renamed = {name: value for name, value in row.items() if name not in columns.values()}
    for ours, theirs in columns.items():
        if theirs not in row:
            raise RowError(theirs, f"is not there; the row has {_names(row)}")
        renamed[ours] = row[theirs]
    return renamed


def _refuse_other_answer(row: RawRow) -> None:
    """Raise RowError for a row without an answer that has a column which looks like one."""
    if not row.keys().isdisjoint((*_ANSWERS, *GROUND_TRUTH)) or _is_kilt(row):
        return
    likely = _likely_answer(row)
    if likely is not None:
        raise RowError(
            "answer", f"is not there, but '{likely}' is; name it: --columns answer={likely}"
        )


def _without_input(row: RawRow) -> RawRow:
    """The row without "input" beside a question, which would make it one of KILT."""
    if "question" not in row or _is_kilt(row):
        return row
    return {name: value for name, value in row.items() if name != "input"}


def _lower_case_names(row: RawRow) -> RawRow:
    """A copy of the row with "Question" as "question"; TriviaQA's rows, which are written so,
    stay."""
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
    """Whether a row holds a question in one of the forms that are read."""
    return _is_kilt(row) or not row.keys().isdisjoint(_QUESTIONS)


def _is_kilt(row: RawRow) -> bool:
    """Whether a row is one of KILT, which has an output beside its input."""
    return isinstance(row.get("input"), str) and isinstance(row.get("output"), list)


def _no_question(row: RawRow) -> str:
    """What is wrong with a row without a question, and what to do."""
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
    """The first twelve names of the row's columns, and how many more there are."""
    names = list(map(str, row))
    listed = ", ".join(names[:12])[:300]
    if len(names) > 12:
        listed += f" and {len(names) - 12} more"
    return listed


def _as_texts(row: RawRow) -> RawRow:
    """The row with text in place of numbers and of true and false, and SQuAD's answers as a list
    of texts."""
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
    """The text of one of SQuAD's answers, {"text", "answer_start"}; another value as it is."""
    if isinstance(entry, dict):
        return entry.get("text")
    return entry


def _as_text(value: object) -> object:
    """A number, true or false as the text that JSON has for it; of a list each entry."""
    if isinstance(value, list):
        return [_as_text(entry) for entry in value]
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    return value


def _with_qrels(rows: Rows, path: Path) -> Rows:
    """The rows; a query of BEIR gets its relevant pages, and stays where the split has it."""
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
    return "_id" in row and isinstance(row.get("text"), str) and "question" not in row


def _beir_question(row: RawRow, pages: list[str]) -> RawRow:
    """A question of a query; HotpotQA's queries have their answer among the metadata, others
    none."""
    answer = row.get("answer")
    metadata = row.get("metadata")
    if "answer" not in row and isinstance(metadata, dict):
        answer = metadata.get("answer")
    return {"id": row["_id"], "question": row["text"], "answer": answer, "gold_pages": pages}


def _read_qrels(queries: Path) -> dict[str, list[str]]:
    """Query -> ids of its relevant pages, of qrels/test.tsv beside the queries, or the only table
    there. Raises DataError."""
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

"""Files of questions that people have, through the installed command."""

import gzip
import json

import pytest

from harness.storage.run_folder import read_run

NUMBERS = [{"question": "How many?", "answer": "7", "document": "a"}]


@pytest.fixture
def ask(here, tmp_path):
    """Run the questions of a file about a page; returns what ended, and the records."""

    def run(name, content, *more, files=()):
        (tmp_path / "wiki").mkdir(exist_ok=True)
        (tmp_path / "wiki/a.md").write_text("# Cost\nIt costs 7 euro.")
        (tmp_path / "script.yaml").write_text('{"window": 100000, "replies": [{"reply": "7"}]}')
        for other, text in dict(files).items():
            (tmp_path / other).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / other).write_text(text)
        data = content.encode() if isinstance(content, str) else content
        (tmp_path / name).write_bytes(data)
        words = f"run -m full-context --documents wiki --questions {name} --model scripted"
        words += " --set model.script=script.yaml --mlflow off --out out"
        ended = here(*words.split(), *more)
        runs = list((tmp_path / "out").glob("*/*/run.yaml"))
        return ended, list(read_run(runs[0].parent).records) if runs else []

    return run


def golds(records):
    return [(record.question, *record.gold["answers"]) for record in records]


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


BIG = "word " * 30_000
READ = {
    "a field of 150,000 characters": (
        "q.csv",
        f"question,answer,x\nWho?,Ann,{BIG}\n",
        ("Who?", "Ann"),
    ),
    "the same in TSV": ("q.tsv", f"question\tanswer\tx\nWho?\tAnn\t{BIG}\n", ("Who?", "Ann")),
    "UTF-16": ("q.csv", "question,answer\nWho?,Zoë\n".encode("utf-16"), ("Who?", "Zoë")),
    "a comma in quotes": (
        "q.csv",
        'question,answer\nWho?,"Smith, John"\n',
        ("Who?", "Smith, John"),
    ),
    "semicolons": ("q.csv", "question;answer\nHow much?;7,50\n", ("How much?", "7,50")),
    "names in capitals": ("q.csv", "Question,Answer\nWho?,Ann\n", ("Who?", "Ann")),
    "names in capitals in JSON": (
        "q.jsonl",
        lines({"Question": "Who?", "Answer": "Ann"}),
        ("Who?", "Ann"),
    ),
    "a number": ("q.jsonl", '{"question": "How many?", "answer": 7}\n', ("How many?", "7")),
    "a number as it stands": (
        "q.json",
        '[{"question": "How many?", "answer": 7.50}]',
        ("How many?", "7.50"),
    ),
    "numbers": (
        "q.jsonl",
        '{"question": "How many?", "answers": [7, 8]}\n',
        ("How many?", "7", "8"),
    ),
    "true": ("q.jsonl", '{"question": "Is it?", "answer": true}\n', ("Is it?", "true")),
    "yes in YAML": ("q.yaml", "- question: Is it?\n  answer: yes\n", ("Is it?", "yes")),
    "a date in YAML": (
        "q.yaml",
        "- {question: When?, answer: 2024-05-01}\n",
        ("When?", "2024-05-01"),
    ),
    "ragas": (
        "q.jsonl",
        lines({"user_input": "Who?", "response": "Bob", "reference": "Ann"}),
        ("Who?", "Ann"),
    ),
    "ragas before 0.2": (
        "q.jsonl",
        lines({"question": "Who?", "answer": "Bob", "ground_truth": "Ann"}),
        ("Who?", "Ann"),
    ),
    "SQuAD": (
        "q.json",
        json.dumps(
            {
                "version": "1",
                "data": [
                    {
                        "title": "A",
                        "paragraphs": [
                            {
                                "context": "C",
                                "qas": [
                                    {
                                        "id": "1",
                                        "question": "Who?",
                                        "answers": [
                                            {"text": "Ann", "answer_start": 0},
                                            {"text": "Ann", "answer_start": 0},
                                        ],
                                    }
                                ],
                            }
                        ],
                    }
                ],
            }
        ),
        ("Who?", "Ann"),
    ),
    "SQuAD of the hub": (
        "q.jsonl",
        lines(
            {
                "id": "1",
                "context": "C",
                "question": "Who?",
                "answers": {"text": ["Ann"], "answer_start": [0]},
            }
        ),
        ("Who?", "Ann"),
    ),
    "gzip without its name": (
        "q.jsonl",
        gzip.compress(lines(*NUMBERS).encode()),
        ("How many?", "7"),
    ),
    "gzip with its name": (
        "q.csv.gz",
        gzip.compress(b"question,answer\nWho?,Ann\n"),
        ("Who?", "Ann"),
    ),
    # Variations of the kind.
    "tabs in a .csv": ("q.csv", "question\tanswer\nWho?\tSmith, John\n", ("Who?", "Smith, John")),
    "a line break in quotes": (
        "q.csv",
        'question,answer\n"Who\nis it?",Ann\n',
        ("Who\nis it?", "Ann"),
    ),
    "rows of nothing but separators": (
        "q.csv",
        "question;answer\n;\nWho?;Ann\n;\n",
        ("Who?", "Ann"),
    ),
    "spaces around names": ("q.csv", " Question , ANSWER \nWho?,Ann\n", ("Who?", "Ann")),
    "one question that is no list": (
        "q.json",
        '{"question": "Who?",\n "answer": "Ann"}',
        ("Who?", "Ann"),
    ),
    "JSON lines called .json": (
        "q.json",
        lines({"question": "Who?", "answer": "Ann"}),
        ("Who?", "Ann"),
    ),
}


@pytest.mark.parametrize(("name", "content", "gold"), READ.values(), ids=READ)
def test_questions_are_read_as_they_are_written(ask, name, content, gold):
    ended, records = ask(name, content)
    assert golds(records) == [gold], ended.stderr


@pytest.mark.parametrize(
    ("name", "text"),
    [("q.csv", "question,answer\nWho?,Zoë\n"), ("q.yaml", "- {question: Who?, answer: Zoë}\n")],
)
def test_the_encoding_of_questions_that_was_guessed_is_noted(ask, name, text):
    ended, records = ask(name, text.encode("latin-1"))
    assert golds(records) == [("Who?", "Zoë")]
    assert f"{name} is not UTF-8 and was read as cp1252" in ended.stderr


REFUSED = {
    "a comma without quotes": (
        "q.csv",
        "question,answer\nWho?,Smith, John\n",
        "q.csv, line 2: has not the 2 columns of the header, but 3; a value with a ',' in it",
    ),
    "a row too short": (
        "q.csv",
        "question,answer,document\nA?,b,a\nWho?,Ann\n",
        "q.csv, line 3: has not the 3 columns of the header, but 2",
    ),
    "the same in TSV": (
        "q.tsv",
        "question\tanswer\nWho?\tSmith\tJohn\n",
        "q.tsv, line 2: has not the 2 columns of the header, but 3; a value with a tab",
    ),
    "other columns": (
        "q.csv",
        "user,gold\nWho?,Ann\n",
        "q.csv, line 2: has no column 'question'; its columns are user, gold; name them: --columns question=COLUMN",
    ),
    "deepeval": (
        "q.json",
        '[{"input": "Who?", "actual_output": "Bob", "expected_output": "Ann"}]',
        "columns are input, actual_output, expected_output; name them: --columns question=input,answer=expected_output",
    ),
    "promptfoo": (
        "q.yaml",
        "prompts: [a]\nproviders: [b]\ntests: [{vars: {q: Who?}}]\n",
        "should be a list of questions, is an object with prompts, providers, tests",
    ),
    "OpenAI evals": (
        "q.jsonl",
        lines({"input": [{"role": "user", "content": "Who?"}], "ideal": "Ann"}),
        "its columns are input, ideal; 'input' is a list of messages: write its question as text",
    ),
    "LongBench pred": (
        "q.jsonl",
        lines({"pred": "Bob", "answers": ["Ann"], "all_classes": None, "length": 3}),
        "its columns are pred, answers, all_classes, length; answers of a run are read by `harness import`",
    ),
    "HELMET output": (
        "q.json",
        json.dumps(
            {
                "args": {},
                "data": [
                    {"output": "Bob", "parsed_output": "Bob", "query": "Who?", "answer": ["Ann"]}
                ],
            }
        ),
        "its columns are output, parsed_output, query, answer; name them: --columns question=query,answer=answer",
    ),
    "a TREC run": (
        "q.trec",
        "1 Q0 d1 1 2.5 bm25\n",
        "q.trec: questions are read from .jsonl, .json, .csv, .tsv, .yaml, .yml, .parquet files",
    ),
    # Variations of the kind.
    "quotes that do not end": (
        "q.csv",
        'question,answer\nWho?,"Ann\nWhere?,Turin\n',
        "q.csv, line 3: not a table (unexpected end of data)",
    ),
    "one name twice": (
        "q.csv",
        "question,answer,answer\nWho?,Ann,Bob\n",
        "q.csv, line 1: two columns are called 'answer'",
    ),
    "no header": (
        "q.csv",
        "Who?,Ann\nWhere?,Turin\n",
        "has no column 'question'; its columns are Who?, Ann",
    ),
    "no text": ("q.csv", b"\x89PNG\x00\x01", "q.csv: not text; save the file as UTF-8"),
    "a spreadsheet": ("q.xlsx", b"PK", "q.xlsx: questions are read from .jsonl"),
}


@pytest.mark.parametrize(("name", "content", "problem"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_question_is_refused_with_its_place_and_what_to_do(ask, name, content, problem):
    ended, records = ask(name, content)
    assert problem in ended.stderr
    assert (ended.returncode, records) == (2, [])
    assert "Traceback" not in ended.stderr


def test_columns_are_named(ask):
    row = {"user": "Who?", "gold": 7, "page": "a", "answer": "not this"}
    columns = "question=user,answer=gold,document=page"
    ended, records = ask("q.jsonl", lines(row), "--columns", columns)
    assert golds(records) == [("Who?", "7")], ended.stderr
    assert records[0].document_ids == ["a"]


@pytest.mark.parametrize(
    ("row", "columns"),
    [
        ({"input": "Who?", "expected_output": "Ann"}, "question=input,answer=expected_output"),
        ({"query": "Who?", "input": "x", "answer": "Ann"}, "question=query"),
        ({"question": "Who?", "input": "x", "answer": "Ann"}, ""),
    ],
)
def test_a_column_called_input_makes_no_row_of_kilt(ask, row, columns):
    more = ("--columns", columns) if columns else ()
    ended, records = ask("q.jsonl", lines(row), *more)
    assert golds(records) == [("Who?", "Ann")], ended.stderr


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        (
            "question=user,answer=gone",
            "q.jsonl, line 1: column 'gone' is not there; the row has user",
        ),
        ("query=user", "should be NAME=COLUMN,..., with the names question, answer, answers"),
        ("question", "is 'question'"),
    ],
)
def test_columns_that_cannot_be_are_refused(ask, columns, problem):
    ended, _ = ask("q.jsonl", lines({"user": "Who?"}), "--columns", columns)
    assert problem in ended.checked(2).stderr


CORPUS = lines(
    {"_id": "d1", "title": "Mill", "text": "Ann built it."}, {"_id": "d2", "text": "Bob."}
)
QUERIES = lines(
    {"_id": "1", "text": "Who?", "metadata": {"answer": "Ann"}}, {"_id": "2", "text": "train?"}
)
QRELS = "query-id\tcorpus-id\tscore\n1\td1\t1\n1\td2\t0\n"


def test_queries_of_beir_are_asked_about_its_corpus_with_its_qrels(ask):
    files = {"wiki/corpus.jsonl": CORPUS, "qrels/test.tsv": QRELS, "qrels/dev.tsv": QRELS}
    ended, records = ask("queries.jsonl", QUERIES, files=files)
    assert golds(records) == [("Who?", "Ann")], ended.stderr
    (mark,) = records[0].gold["supporting"]
    text = records[0].shown[0]["text"]
    assert text[mark["start"] : mark["end"]] == "Mill\nAnn built it."


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({}, "BEIR's queries need qrels/test.tsv, or one table in qrels; there is none"),
        ({"qrels/a.tsv": QRELS, "qrels/b.tsv": QRELS}, "there is a.tsv, b.tsv"),
        ({"qrels/test.tsv": "a\tb\n1\t2\n"}, "should have the columns query-id, corpus-id, score"),
    ],
)
def test_qrels_that_are_not_there_are_named(ask, files, problem):
    ended, _ = ask("queries.jsonl", QUERIES, files=files)
    assert problem in ended.checked(2).stderr


def test_queries_without_answers_are_scored_by_their_pages_alone(ask):
    rows = lines({"_id": "1", "text": "Who?"})
    qrels = QRELS.replace("d1", "a")
    ended, records = ask("queries.jsonl", rows, files={"qrels/test.tsv": qrels})
    assert "no question has an accepted answer" in ended.checked().stderr
    assert sorted(records[0].scores) == ["evidence_hit", "evidence_mrr", "evidence_pages"]


def test_an_impossible_question_of_squad_is_one_to_decline(ask):
    impossible = {"question": "Why?", "answers": [], "is_impossible": True}
    _, records = ask("q.jsonl", lines(impossible, {"question": "Who?", "answer": "Ann"}))
    assert records[0].scores == {"right": 0.0, "abstention.declines": 0.0}


@pytest.mark.parametrize(("more", "asked"), [((), 2), (("--allow-left-out",), 1)])
def test_questions_about_unread_pages_count_unless_they_may_be_left_out(ask, more, asked):
    rows = lines(
        {"question": "A?", "answer": "7"}, {"question": "B?", "answer": "8", "gold_pages": "b.png"}
    )
    ended, records = ask("q.jsonl", rows, *more, files={"wiki/b.png": "8"})
    assert len(records) == asked
    mean = sum(record.scores["flashrag.em"] for record in records) / len(records)
    assert mean == 1 / asked
    assert ("1 left out by the loader" in ended.stdout) == (asked == 1)

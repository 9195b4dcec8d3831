"""Row checks: every mistake is a DataError that names file, place and field; good rows become spans
that hold."""

import hashlib
import json

import pytest

from harness.datasets import load, twowiki
from harness.datasets.hotpotqa import parse_row as parse_hotpot
from harness.datasets.musique import parse_row as parse_musique
from harness.datasets.rows import Row, RowError, example_and_document
from harness.errors import DataError
from harness.scorers import score
from tests.datasets.support import check_mistake, config, hotpot, musique, write_lines


def _drop(key):
    return lambda row: row.pop(key)


def _set(key, value):
    return lambda row: row.__setitem__(key, value)


def _paragraph(number, **fields):
    return lambda row: row["paragraphs"][number].update(fields)


def _step(**fields):
    return lambda row: row["question_decomposition"][0].update(fields)


STEP = "question_decomposition[0]"
MUSIQUE_MISTAKES = [
    (_drop("id"), "id", "is missing"),
    (_drop("paragraphs"), "paragraphs", "is missing"),
    (_drop("answer"), "answer", "the row has no answer"),
    (_set("answer", None), "answer", "the row has no answer"),
    (_set("answer", 1974), "answer", "should be a string, is a number"),
    (_set("answer_aliases", "x"), "answer_aliases", "should be a list, is a string"),
    (_set("answer_aliases", ["x", None]), "answer_aliases[1]", "should be a string, is null"),
    (_set("answerable", "no"), "answerable", "should be true or false, is a string"),
    (_set("id", ""), "id", "is empty"),
    (_set("question", " \n"), "question", "is empty"),
    (
        lambda row: row.update(paragraphs=[], question_decomposition=[]),
        None,
        "the document is empty",
    ),
    (_set("paragraphs", [{"idx": 0}]), "paragraphs[0].title", "is missing"),
    (
        _set("paragraphs", {"idx": [0, 1], "title": ["a"]}),
        "paragraphs",
        "differ in length (idx 2, title 1)",
    ),
    (
        _paragraph(2, is_supporting=1),
        "paragraphs[2].is_supporting",
        "should be true or false, is a number",
    ),
    (_paragraph(2, idx=True), "paragraphs[2].idx", "should be a whole number, is true"),
    (_paragraph(2, idx=1), "paragraphs", "idx 1 is used twice"),
    (_paragraph(1, title="", paragraph_text=" "), None, "paragraph 1 has neither title nor text"),
    (_paragraph(1, title="half \ud800"), None, "half a character (\\ud800)"),
    (
        lambda row: [p.update(paragraph_text="") for p in row["paragraphs"]],
        None,
        "document is empty: no paragraph has",
    ),
    (
        _step(paragraph_support_idx=3),
        f"{STEP}.paragraph_support_idx",
        "3 is not the idx of one of the paragraphs",
    ),
]

HOTPOT_MISTAKES = [
    (_drop("context"), "context", "is missing"),
    (_set("_id", 5), "id", "should be a string, is a number"),
    (_set("id", "other"), "_id", "differ"),
    (
        _set("supporting_facts", [["Z", 0]]),
        "supporting_facts[0]",
        "'Z' is not the title of one of the paragraphs",
    ),
    (
        _set("supporting_facts", [["A", -1]]),
        "supporting_facts[0]",
        "sentence number -1 is negative",
    ),
    (_set("supporting_facts", [["A", "0"]]), "supporting_facts[0][1]", "is a string"),
    (_set("supporting_facts", [["A"]]), "supporting_facts[0][1]", "is missing"),
    (_set("supporting_facts", {"title": ["A"]}), "supporting_facts[0].sent_id", "is missing"),
    (
        _set("supporting_facts", {"title": ["A"], "sent_id": []}),
        "supporting_facts",
        "title 1, sent_id 0",
    ),
    (_set("context", [["A", "text"]]), "context[0][1]", "should be a list, is a string"),
    (_set("context", [["A", [""]], ["B", ["", " "]]]), None, "the document is empty"),
]


MISTAKES = [
    *((musique, "musique", *mistake) for mistake in MUSIQUE_MISTAKES),
    *((hotpot, "hotpotqa", *mistake) for mistake in HOTPOT_MISTAKES),
]


@pytest.mark.parametrize(("row", "family", "change", "field", "problem"), MISTAKES)
def test_a_mistake_is_named(tmp_path, row, family, change, field, problem):
    bad = row(2)
    change(bad)
    check_mistake(tmp_path, [row(1), bad, row(3)], field, problem, config(family))


def test_musique_row_as_used():
    row = parse_musique(musique(1, extra_field="left alone", answer_aliases=["", "Velmark", " "]))
    assert isinstance(row, Row)
    assert row.answers == ("Ada Velmark", "Velmark"), "a blank alias is no answer"
    assert row.extra["answer_aliases"] == ["", "Velmark", " "], (
        "the official scorer gets them as they are"
    )
    assert row.supporting == (1,)
    assert row.extra["supporting_paragraphs"] == [1]
    assert row.extra["question_decomposition"] == musique(1)["question_decomposition"]
    assert (row.extra["hops"], row.extra["type"]) == (1, "2hop")


def test_a_question_of_musique_full_is_asked_with_and_without_what_it_needs(tmp_path):
    path = write_lines(
        tmp_path / "r.jsonl", [musique(1), musique(1, answerable=False, answer=None)]
    )
    first, second = load(config("musique-full", data=str(path))).examples
    assert [first.question.id, second.question.id] == ["2hop__1", "2hop__1~unanswerable"]
    assert (first.gold.answers, second.gold.answers) == (
        ("Ada Velmark", "Velmark"),
        ("unanswerable",),
    )
    assert [e.gold.extra["declined"] for e in (first, second)] == [False, True]
    assert (len(first.gold.supporting), second.gold.supporting) == (1, ())
    scored = [
        score(
            "musique.answer_f1.answerable", "Ada", e.gold.answers, declined=e.gold.extra["declined"]
        )
        for e in (first, second)
    ]
    assert scored == [pytest.approx(2 / 3), None]
    nameless = {key: value for key, value in musique(2, answerable=False).items() if key != "id"}
    check_mistake(tmp_path, [musique(1), nameless], "id", "is missing", config("musique-full"))


def test_musique_indices_follow_idx_not_position(tmp_path):
    row = musique(1)
    row["paragraphs"] = [row["paragraphs"][i] for i in (2, 0, 1)]
    data = load(config(data=str(write_lines(tmp_path / "r.jsonl", [row]))))
    support = data.examples[0].gold.supporting[0]
    document = data.documents["2hop__1"]
    assert document.text[support.start : support.end] == "Mill 1\nText 1 of row 1."
    assert data.examples[0].gold.extra["supporting_paragraphs"] == [1]
    assert document.text.startswith("Mill 2\n")


def test_musique_columns_equal_records():
    row = musique(1)
    for key in ("paragraphs", "question_decomposition"):
        row[key] = {name: [entry[name] for entry in row[key]] for name in row[key][0]}
    assert parse_musique(row) == parse_musique(musique(1))


def test_hotpot_row_as_used(tmp_path):
    data = load(config("hotpotqa", data=str(write_lines(tmp_path / "r.jsonl", [hotpot(1)]))))
    example, document = data.examples[0], data.documents["h1"]
    assert document.text == "A\nA is old.\n\nC\nC burned. Then not.\n\nB\nB. B is new."
    assert [document.text[s.start : s.end] for s in example.gold.supporting] == [
        "A\nA is old.",
        "B\nB. B is new.",
    ]
    assert example.question.document_ids == ("h1",)
    extra = example.gold.extra
    assert extra["supporting_facts"] == [["A", 0], ["B", 1]]
    assert (extra["type"], extra["level"], extra["hops"]) == ("comparison", "hard", 2)
    assert extra["supporting_paragraphs"] == [0, 2]


def test_hotpot_id_is_made_from_the_question_when_there_is_none():
    row = hotpot(1)
    del row["_id"]
    wanted = "hotpotqa-" + hashlib.sha256(row["question"].encode()).hexdigest()[:12]
    assert parse_hotpot(row).id == wanted


def test_sentence_number_past_the_end_is_kept_and_named():
    row = parse_hotpot(hotpot(1, supporting_facts=[["A", 9], ["B", 0]]))
    assert row.extra["facts_past_the_end"] == [["A", 9]]
    assert row.supporting == (0, 2)
    assert "facts_past_the_end" not in parse_hotpot(hotpot(1)).extra


def test_unanswerable_rows_are_counted_even_when_they_share_an_id(tmp_path):
    # MuSiQue-Full lists every question twice under one id, once without its evidence.
    rows = [
        musique(1),
        musique(1, answerable=False),
        musique(2, answerable=False, answer=None),
        musique(3),
    ]
    data = load(config(data=str(write_lines(tmp_path / "r.jsonl", rows))))
    assert [e.question.id for e in data.examples] == ["2hop__1", "2hop__3"]
    assert data.skipped == {"unanswerable (answerable is false)": 2}


SOME_BAD = [musique(1), musique(2, answer=""), "{", musique(4, id=3), musique(5)]


@pytest.mark.parametrize(
    ("family", "rows", "sentence"),
    [
        ("musique", [musique(1, answerable=False)], "no row can be used: 1 unanswerable"),
        (
            "musique",
            [musique(1), musique(2, answerable=False, paragraphs=3)],
            "line 2, field 'paragraphs'",
        ),
        # The file of another data set is told from one with bad rows.
        (
            "hotpotqa",
            [musique(1), musique(2)],
            r"line 1, .* \(and 1 more bad row\); no row can be used: see that",
        ),
        (
            "musique",
            SOME_BAD,
            r"line 2, field 'answer': .*\(and 2 more bad rows\); mend or remove the row$",
        ),
    ],
    ids=[
        "all unanswerable",
        "unanswerable and malformed",
        "of another data set",
        "further bad rows",
    ],
)
def test_rows_that_stop_the_load(tmp_path, family, rows, sentence):
    path = write_lines(tmp_path / "r.jsonl", rows)
    with pytest.raises(DataError, match=sentence):
        load(config(family, data=str(path)))


@pytest.mark.parametrize("number", [2, -1, "0"])
def test_a_supporting_paragraph_that_is_not_there_is_refused(number):
    with pytest.raises(RowError, match=f"{number!r} is no paragraph's number, 0 to 1"):
        example_and_document(Row("q", "Who?", (("A", "one"), ("B", "two")), ("Ann",), (0, number)))


TRIPLES = [["Mill A", "opened", "1902"], ["Ann", "country", "Une"]]


def triples(*names):
    """The triples as objects with these keys."""
    return [dict(zip(names, triple, strict=True)) for triple in TRIPLES]


OBJECTS = triples("subject", "relation", "object")
COLUMNS = {
    key: [triple[n] for triple in TRIPLES] for n, key in enumerate(("fact", "relation", "entity"))
}


@pytest.mark.parametrize(
    "evidences",
    [
        TRIPLES,
        OBJECTS,
        COLUMNS,
        json.dumps(OBJECTS),
        json.dumps(COLUMNS),
        [json.dumps(triple) for triple in TRIPLES],
        [{"id": 7, **triple} for triple in triples("head", "predicate", "tail")],
        str([tuple(triple) for triple in TRIPLES]),
        [["Mill A", "opened", 1902], TRIPLES[1]],
    ],
)
def test_evidences_of_2wikimultihopqa_in_each_form_of_its_copies(evidences):
    assert twowiki.parse_row(hotpot(evidences=evidences)).extra["evidences"] == TRIPLES

"""RULER's tasks: the length that is asked for, answers where they are marked, mistakes named."""

import functools
import itertools
import json
import re
from collections import Counter
from pathlib import Path
from typing import get_args

import pocket
import pytest

from harness.config import presets
from harness.config.layers import Choices
from harness.config.resolve import resolve_dataset, resolve_model
from harness.config.schema import DatasetConfig
from harness.datasets import answer_prefix, load
from harness.datasets.ruler import Task as RulerTask
from harness.errors import ConfigError, DataError
from harness.llm.backend import load_model
from harness.llm.scripted import Rule
from harness.method import Task
from harness.scorers import score
from harness.types import Question
from methods.kv_eviction import BoundedCache
from methods.long_context import FullContext
from methods.reading import Reading, ask
from tests.llm.endpoints import loaded
from tests.llm.loopback import Loopback, completion
from tests.methods.conftest import FakeTools

TASKS = get_args(RulerTask)
NIAH = [task for task in TASKS if task.startswith("niah")]


@functools.cache
def made(task, **options):
    values = {
        key: value
        for _, layer in presets.read("datasets", f"ruler/{task}")
        for key, value in layer.items()
    }
    given = {"task": task, "tokens": 4096, "questions": 2, **options}
    return load(DatasetConfig.model_validate({**values, "options": given}))


def text_of(data, at=0):
    return data.documents[data.examples[at].question.document_ids[0]].text


@pytest.mark.parametrize("task", TASKS)
def test_a_text_fills_the_length_and_depends_on_the_seed_alone(task):
    data = made(task)
    assert all(
        3600 * 4 < len(data.examples[at].question.example + text_of(data, at)) < 4096 * 4
        for at in range(2)
    )
    assert made.__wrapped__(task).fingerprint == data.fingerprint != made(task, seed=1).fingerprint
    assert text_of(data, 0) != text_of(data, 1)


@pytest.mark.parametrize("task", NIAH)
def test_needles_stand_where_they_are_marked(task):
    data = made(task, questions=10)
    for example in data.examples:
        text = data.documents[example.question.document_ids[0]].text
        marked = [text[mark.start : mark.end] for mark in example.gold.supporting]
        assert len(marked) == len(example.gold.answers)
        for answer in example.gold.answers:
            (needle,) = [piece for piece in marked if piece.endswith(f" is: {answer}.")]
            assert needle.split(" for ")[1].split(" is: ")[0] in example.question.text
            assert text.count(answer) == 1


def test_variables_form_one_chain():
    (example, _), text = (data := made("vt")).examples, text_of(data)
    names = example.gold.answers
    lines = [line for line in text.split("\n") if line.startswith("VAR ")]
    assert lines[1:] == [f"VAR {b} = VAR {a}" for a, b in itertools.pairwise(names)]
    assert f"VAR {names[0]} = " in lines[0]
    assert lines[0].rpartition(" ")[2] in example.question.text


@pytest.mark.parametrize(
    ("task", "begins"),
    [
        (
            "vt",
            (
                "According to the chain(s) of variable assignment in the text above, 5 variables are "
                "assigned the value "
            ),
        ),
        ("cwe", "The top 10 words that appear most often in the list are:"),
        ("niah_single_1", "The special magic number for "),
        ("niah_multivalue", "The special magic numbers for "),
        ("qa_2", ""),
    ],
)
def test_a_reply_goes_on_behind_the_authors_answer_prefix(task, begins):
    data, tools = made(task, tokens=1536), FakeTools()
    question, documents = data.examples[0].question, [*data.documents.values()][:1]
    assert question.begins.startswith(begins)
    assert bool(question.begins) == bool(begins)
    tools.reader = load_model(resolve_model(Choices(model="pocket-llama")).value)
    tools.reader.forget_run()
    FullContext(FullContext.Config()).answer(question, documents, [{}], tools)
    _, _, reply = tools.reader.first_prompts["reader"]["text"].rpartition("Answer:")
    assert reply.endswith(question.begins)
    assert reply != f" {question.begins}"  # it stands behind the tokens of the template
    tools = FakeTools([Rule(reply="one")])
    BoundedCache(BoundedCache.Config()).answer(question, documents, [{}], tools)
    assert tools.reader.prompts[0].endswith(f"Answer: {question.begins}".rstrip(" " * (not begins)))


@pytest.mark.parametrize(("task", "restated"), [("vt", False), ("cwe", True)])
def test_the_answer_fits_the_authors_cap_behind_the_prefix(task, restated):
    data, model = (
        made(task, questions=4),
        load_model(resolve_model(Choices(model="pocket-llama")).value),
    )
    cap = resolve_dataset(Choices(dataset=f"ruler/{task}")).value.max_answer_tokens
    for gold, begins in (
        (example.gold.answers, example.question.begins) for example in data.examples
    ):
        reply = " ".join(
            gold if task == "vt" else (f"{n}. {word}" for n, word in enumerate(gold, 1))
        )
        assert model.count(reply) <= cap
        assert (model.count(begins + reply) <= cap) == restated


def test_a_servers_user_turn_ends_with_the_answer_prefix():
    question, tools = made("cwe", tokens=1536).examples[0].question, FakeTools()
    with Loopback([lambda _: completion("one")]) as server:
        tools.reader = loaded(server)
        ask(question, ["1. one"], tools, tools.model())
    assert server.asked[0]["messages"][-1]["content"].endswith(f"Answer: {question.begins}")


@pytest.mark.parametrize(
    ("task", "tokens", "answers", "lines"),
    [
        ("vt", 4096, r"(?:[A-Z]{3} ){4}[A-Z]{3}", 23),
        ("cwe", 4096, r"(?:\d+\. [a-z]+ ?){10}", 198),
        ("cwe", 2048, r"(?:\d+\. [a-z]+ ?){10}", 48),
    ],
)
def test_a_solved_example_stands_in_front_in_the_form_of_the_question(task, tokens, answers, lines):
    first, second = (data := made(task, tokens=tokens)).examples
    question, documents = first.question, [*data.documents.values()][:1]
    assert question.example != second.question.example
    solved, _, reply = question.example.rpartition("they are: " if task == "vt" else "list are: ")
    assert re.fullmatch(rf"{answers}\n\n", reply)
    assert solved.count("\n") + len(re.findall(r"\d\. ", solved)) in range(lines - 4, lines + 4)
    shown = re.search(r"Text:\n(.*)\n\nThe text .*Question: (.*)\nAnswer:", solved, re.DOTALL)
    asked = Question("e", shown[2], ("d",))
    instruction = resolve_dataset(Choices(dataset=f"ruler/{task}")).value.instruction
    reading = Reading(Task(instruction=instruction, max_answer_tokens=9))
    assert question.example.startswith("".join(reading.pieces(asked, [shown[1]])))
    for place in ("behind", "before"):
        tools = FakeTools([Rule(reply="one")])
        BoundedCache(BoundedCache.Config(asked=place)).answer(question, documents, [{}], tools)
        assert tools.reader.prompts[0].startswith(f"\n[user]{question.example}Read the text below")


@pytest.mark.parametrize("task", ["vt", "cwe", "niah_single_1", "qa_2"])
def test_the_prompt_that_is_sent_has_the_length_that_is_asked_for(task):
    folder = str(Path(pocket.__file__).parent / "model")
    data = made(task, tokens=2048, tokenizer=folder, questions=5)
    dataset = resolve_dataset(Choices(dataset=f"ruler/{task}")).value
    model = load_model(resolve_model(Choices(model="pocket-llama")).value)
    for example in data.examples:
        text = data.documents[example.question.document_ids[0]].text
        pieces = Reading(answer_prefix.load_task(dataset)).pieces(example.question, [text])
        tokens = sum(map(model.count, pieces)) + dataset.max_answer_tokens
        if example.question.begins:
            tokens += model.count(f" {example.question.begins}")
        assert 1800 < tokens <= 2048


@pytest.mark.parametrize(("task", "count"), [("cwe", 10), ("fwe", 3)])
def test_the_answers_are_the_most_frequent_words(task, count):
    data = made(task)
    words = Counter(
        word for word in text_of(data).split() if word != "..." and not word.rstrip(".").isdigit()
    )
    assert {word for word, _ in words.most_common(count)} == set(data.examples[0].gold.answers)


def test_files_of_the_user_take_the_place_of_made_up_text(tmp_path):
    (tmp_path / "essays.txt").write_text("An essay has words. " * 50)
    data = made("niah_single_2", essays=str(tmp_path / "essays.txt"))
    assert "An essay has words. An essay" in text_of(data)
    assert "made-up" not in data.source
    assert "made-up essays" in made("niah_single_2").source
    asked = {"question": "Who built it?", "answers": [{"text": "Ada"}], "is_impossible": False}
    others = [{"context": f"Mill {n} is old. " * 9, "qas": []} for n in range(300)]
    squad = {"data": [{"paragraphs": [{"context": "Ada built it.", "qas": [asked]}, *others]}]}
    (tmp_path / "squad.json").write_text(json.dumps(squad))
    data = made("qa_1", rows=str(tmp_path / "squad.json"))
    (example, _), text = data.examples, text_of(data)
    assert example.gold.answers == ("Ada",)
    assert [text[m.start : m.end].partition("\n")[2] for m in example.gold.supporting] == [
        "Ada built it."
    ]


def test_distractors_come_first_from_the_questions_own_article(tmp_path):
    own = [f"Own {n}. " * 9 for n in range(9)]
    asked = {"question": "Who?", "answers": [{"text": "Own"}]}
    article = {
        "paragraphs": [{"context": text, "qas": [asked] if text == own[0] else []} for text in own]
    }
    others = [
        {"paragraphs": [{"context": f"Else {n}. " * 9, "qas": [{**asked, "question": "Where?"}]}]}
        for n in range(300)
    ]
    (tmp_path / "squad.json").write_text(json.dumps({"data": [article, *others]}))
    for tokens, more in [(250, False), (1500, True)]:
        text = text_of(made("qa_1", rows=str(tmp_path / "squad.json"), tokens=tokens))
        pieces = [piece.partition("\n")[2] for piece in text.split("\n\n")]
        assert own[0] in pieces
        assert len(set(own) & set(pieces)) == min(len(pieces), 9)
        assert (len(pieces) > 9) == more


def test_evidence_of_hotpotqa_is_what_supporting_facts_name(tmp_path):
    row = {
        "question": "Who?",
        "answer": "Ada",
        "context": [[f"T{n}", [f"Mill {n}."]] for n in range(10)],
    }
    row["supporting_facts"] = [["T3", 0], ["T7", 0], ["T7", 0]]
    (tmp_path / "rows.json").write_text(json.dumps([row]))
    data = made("qa_2", rows=str(tmp_path / "rows.json"), tokens=1000)
    text, marked = text_of(data), data.examples[0].gold.supporting
    assert {text[m.start : m.end].partition("\n")[2] for m in marked} == {
        "T3\nMill 3.",
        "T7\nMill 7.",
    }
    assert all(f"T{n}\nMill {n}." in text for n in range(10))


def test_a_length_that_cannot_be_made_and_files_that_cannot_be_read(tmp_path):
    with pytest.raises(
        ConfigError,
        match=r"dataset.tokens: 100 are too few; a text of 'niah_single_1' needs \d+ tokens",
    ):
        made("niah_single_1", tokens=100)
    with pytest.raises(ConfigError, match="has no tokenizer.json that can be read"):
        made("vt", tokenizer=str(tmp_path))
    (tmp_path / "empty.txt").write_text(" ")
    with pytest.raises(DataError, match="should hold the essays"):
        made("niah_single_2", essays=str(tmp_path / "empty.txt"))
    (tmp_path / "list.json").write_text('{"text": ["One.", "Two."]}')
    with pytest.raises(DataError, match="should hold the essays"):
        made("niah_single_2", essays=str(tmp_path / "list.json"))
    (tmp_path / "rows.json").write_text('[{"question": "Who?"}]')
    with pytest.raises(DataError, match="not a file of HotpotQA; name it with dataset.rows"):
        made("qa_2", rows=str(tmp_path / "rows.json"))


@pytest.mark.parametrize(
    ("name", "reply", "value"),
    [
        ("all", "It is 12 and 13.", 0.5),
        ("all", "", 0.0),
        ("part", "It is 12 and 13.", 1.0),
        ("part", "1 2", 0.0),
    ],
)
def test_scores(name, reply, value):
    assert score(f"ruler.string_match_{name}", reply, ["12", "14"]) == value
    assert score("ruler.string_match_all", "ADA", ["ada"]) == 1.0


def test_texts_and_evidence_keep_their_hashes():
    first = {
        "niah_single_1": "9d5abe5814fe",
        "niah_single_2": "f21aa83870ca",
        "qa_2": "6b941277ad2a",
    }
    assert {task: made(task, questions=1).fingerprint[:12] for task in first} == first

"""Few-shot: examples come from training rows, never from rows that are asked, and stand in every
method's prompt."""

import re

import pytest

from harness.config import presets
from harness.config.layers import Choices
from harness.config.resolve import resolve_dataset, resolve_method
from harness.cost.meter import Meter
from harness.datasets.few_shot import load_solved_examples
from harness.engine.completed_method import make_method
from harness.engine.plan import plan_choices
from harness.engine.tools import EngineTools, Models
from harness.errors import UserError
from harness.method import Task
from harness.types import Question
from harness.words import as_phrase
from methods.reading import Reading
from tests.datasets.support import musique, write_lines


def row(name, question, answer):
    return musique(id=name, question=question, answer=answer, answer_aliases=[])


ASKED = [
    row("2hop__7_70", "Who built the mill of Abel?", "Ann"),
    row("2hop__8_80", "Where is Mira?", "Tal"),
]
TRAIN = [
    row("2hop__1_10", "Who founded the school?", "Bea"),
    row("2hop__2_20", "Where does the river end?", "Sea"),
    row("2hop__3_30", "Who built the mill of Kalb?", "Cid"),
    row("2hop__4_40", "WHERE is  Mira", "Tal"),  # an asked question, by its words
    row("2hop__7_70", "Another question?", "Ann"),  # an asked question, by its id
    row("2hop__5_50", "When did the bridge fall?", "1902"),
]


@pytest.fixture
def files(tmp_path):
    asked, train = (
        write_lines(tmp_path / "dev.jsonl", ASKED),
        write_lines(tmp_path / "train.jsonl", TRAIN),
    )
    return str(asked), str(train)


def config(files, shots=2, **more):
    sets = {"dataset.shots_from": files[1], **{f"dataset.{k}": v for k, v in more.items()}}
    if shots is not None:
        sets["dataset.shots"] = shots
    return resolve_dataset(Choices(dataset="musique", data=files[0], sets=sets)).value


def shown(text):
    return re.findall(r"^Question: (.*)$", text, re.MULTILINE)


def text(config, question=None):
    shots = load_solved_examples(config)
    assert shots is not None
    if question is None:
        return shots.text_for_all()
    return shots.text_for(Question("q", question, ()))


def test_no_row_that_is_asked_is_shown(files):
    everything = shown(text(config(files, 4)))
    assert sorted(everything) == sorted(TRAIN[n]["question"] for n in (0, 1, 2, 5))
    assert not {*map(as_phrase, everything)} & {as_phrase(r["question"]) for r in ASKED}


def test_a_seed_draws_and_fewer_are_part_of_more(files):
    draws = {tuple(shown(text(config(files, shots_seed=seed)))) for seed in range(6)}
    assert len(draws) > 1
    assert text(config(files)) == text(config(files))
    assert shown(text(config(files, 3)))[:2] == shown(text(config(files)))


def test_named_rows_are_shown_in_their_order(files):
    found = text(config(files, shots_ids=["2hop__5_50", "2hop__1_10"]))
    assert found == (
        "\n\nExamples:\n\nQuestion: When did the bridge fall?\nAnswer: 1902\n"
        "\nQuestion: Who founded the school?\nAnswer: Bea\n"
    )


def test_the_nearest_question_stands_last(files):
    near = config(files, shots_by="similarity")
    assert shown(text(near, ASKED[0]["question"]))[-1] == "Who built the mill of Kalb?"
    assert shown(text(near, "When did a bridge fall?"))[-1] == "When did the bridge fall?"
    assert text(near) == ""


@pytest.mark.parametrize(
    ("shots", "more", "said"),
    [
        (None, {}, "set dataset.shots=N too"),
        (9, {}, "4 are not asked themselves"),
        (1, {"shots_ids": ["2hop__7_70"]}, "is no training row of 'musique', or is asked itself"),
        (2, {"shots_ids": ["2hop__1_10"]}, "dataset.shots_ids names 1"),
        (1, {"shots_from": "nothing.jsonl"}, "there is no file .nothing.jsonl."),
    ],
)
def test_what_cannot_be_shown_is_refused(files, shots, more, said):
    with pytest.raises(UserError, match=said):
        load_solved_examples(config(files, shots, **more))


def plan(files, method="closed-book", **more):
    sets = {f"dataset.{k}": v for k, v in more.items()}
    return plan_choices(Choices(method, "musique", data=files[0], model="pocket-llama", sets=sets))


def test_shots_are_in_the_hash(files):
    own = {"shots": 2, "shots_from": files[1]}
    settings = [
        {},
        own,
        {**own, "shots": 1},
        {**own, "shots_by": "similarity"},
        {**own, "shots_seed": 3},
    ]
    assert len({plan(files, **each).hash8 for each in settings}) == len(settings)
    nearest = plan(files, **settings[3])
    assert nearest.task.shots != ""
    assert "shots" not in plan(files).task.model_dump(exclude_defaults=True)


def test_each_question_gets_its_own_nearest(files):
    made = plan(files, shots=1, shots_from=files[1], shots_by="similarity")
    tools = EngineTools(Models(made, print), Meter(), made.task, lambda *_: None)
    instructions = []
    for example in made.dataset.examples:
        tools.question = example.question
        instructions.append(shown(tools.task.instruction))
    assert instructions[0] == ["Who built the mill of Kalb?"] != instructions[1]


def test_the_shared_prompt_shows_them_once_beside_the_question():
    task = Task(
        instruction="Be brief.\n\nExamples:\n\nQuestion: a\nAnswer: b\n", max_answer_tokens=8
    )
    prompt = "".join(Reading(task).pieces(Question("q", "Why?", ()), ["A text."]))
    assert (prompt.count("Be brief."), prompt.count("Answer: b")) == (2, 1)
    assert prompt.index("A text.") < prompt.index("Answer: b") < prompt.index("Why?")
    assert "Answer: b" in "".join(Reading(task).pieces(Question("q", "Why?", ()), []))


def test_every_method_asks_with_the_instruction_that_they_are_part_of():
    for name in presets.names("methods"):
        part = resolve_method(Choices(method=name))
        method = make_method(part.value, part.origins)
        assert any("{instruction}" in prompt.text for prompt in method.templates()), name

"""Training questions: of training splits alone, merged; rows that are too long."""

from hashlib import sha256

import pytest
from harness_training import question_sets
from harness_training.cli.train import make_labels
from harness_training.cli.training_run import TrainOptions
from harness_training.question_sets import check_training, load_questions_apart
from harness_training.settings import Settings, read_settings
from harness_training.token_rows import Row, truncate

from harness.config.schema import DatasetConfig, ModelConfig
from harness.config.yaml_tree import parse_typed_value
from harness.errors import DataError, UserError
from tests.made_up import write_rows

PAPER = read_settings(
    Settings, "longrefiner", "paper", ("analysis", "structuring", "selection"), {}
)


def rows(path, *questions, split="train"):
    shown = [
        {"golden_answers": ["x"], "ctxs": [{"title": "T", "text": f"Text {n}"}]}
        for n in range(len(questions))
    ]
    asked = zip(questions, shown, strict=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_rows(
        path,
        [{"id": f"{split}_{n}", "question": text, **one} for n, (text, one) in enumerate(asked)],
    )


def sets_of(data, *exclude, name="nq", **sets):
    options = TrainOptions(
        dataset=name, data=str(data), exclude=str(exclude[0]) if exclude else None
    )
    given = {f"dataset.{key}": parse_typed_value(value) for key, value in sets.items()}
    return make_labels(options, PAPER, ModelConfig(name="wise"), given).sets


def kept(*sets):
    lines = []
    return [
        item.id for item in load_questions_apart(sets, 100, lines.append).items("question", 100)
    ], lines


def test_evaluation_questions_are_left_out_by_id_and_by_text(tmp_path):
    questions = [f"who is {n}" for n in range(10)]
    train = rows(tmp_path / "nq-train.jsonl", *questions)
    test = rows(tmp_path / "nq-test.jsonl", "Who is  3?", "who is nobody", split="test")
    found, lines = kept(*sets_of(train, test))
    assert found == [f"nq/train_{n}" for n in range(10) if n != 3], (
        "a counter such as test_0 is no id of a question"
    )
    assert lines == ["nq: 1 of 10 questions are evaluation questions too, and left out"]
    train.write_text(train.read_text().replace("train_5", "dev_5"))
    assert "nq/dev_5" not in kept(*sets_of(train, test))[0]
    assert (
        "there are no evaluation questions to compare with; name them with --exclude"
        in kept(*sets_of(train))[1][-1]
    )


def test_questions_to_exclude_may_be_in_flashrags_form(tmp_path):
    train = rows(tmp_path / "train.jsonl", *(f"who is {n}" for n in range(10)))
    dev = rows(tmp_path / "dev.jsonl", "Who is 3?", split="dev")
    found, _ = kept(*sets_of(train, dev, name="hotpotqa", format="retrieved"))
    assert found == [f"hotpotqa/train_{n}" for n in range(10) if n != 3]
    dev.write_text('{"neither": 1}\n')
    with pytest.raises(DataError, match="line 1, field 'question': is missing"):
        kept(*sets_of(train, dev, name="hotpotqa", format="retrieved"))


def test_a_set_of_evaluation_questions_is_refused(tmp_path):
    train = rows(tmp_path / "nq-train.jsonl", "who is 1", "who is 2", "who is 3")
    with pytest.raises(
        UserError, match=r"3 of 3 questions of 'nq' \(nq-train.jsonl\) are evaluation questions"
    ):
        kept(*sets_of(train, rows(tmp_path / "dev.jsonl", "who is 1", "who is 2", "who is 3")))


@pytest.mark.parametrize(
    "name", ["dev.jsonl", "nq-test.jsonl", "rows.jsonl", "train_and_dev.jsonl"]
)
def test_a_file_that_is_no_training_file_by_its_name_is_refused(name, tmp_path):
    with pytest.raises(UserError, match=f"'{name}' is no training file by its name"):
        sets_of(rows(tmp_path / name, "who"))


def test_another_split_is_refused_and_a_file_of_several_is_read_by_its_split(tmp_path):
    with pytest.raises(
        UserError, match="would be read from its split 'test', and adapters are trained on training"
    ):
        sets_of(rows(tmp_path / "train.jsonl", "who"), split="test")
    (tmp_path / "ASQA.json").write_text('{"train": {}, "dev": {}}')
    assert sets_of(tmp_path / "ASQA.json", name="asqa")[0].training.split == "train"


def test_a_folder_brings_its_own_evaluation_questions(tmp_path):
    rows(tmp_path / "nq" / "train.jsonl", *(f"who is {n}" for n in range(6)))
    rows(tmp_path / "nq" / "test.jsonl", "who is 1", split="test")
    line = "nq: 1 of 6 questions are evaluation questions too, and left out"
    assert kept(*sets_of(tmp_path / "{dataset}"))[1] == [line]


def test_several_sets_are_merged_and_popqa_is_held_out(tmp_path, capsys):
    for name in ("nq", "triviaqa"):
        rows(tmp_path / name / "train.jsonl", f"{name} 1", f"{name} 2")
    place = str(tmp_path / "{dataset}" / "train.jsonl")
    options = TrainOptions(dataset="nq,popqa,triviaqa", data=place)
    found = make_labels(options, PAPER, ModelConfig(name="wise"), {}).sets
    assert "'popqa' has no training split, so it is left out" in capsys.readouterr().err
    assert kept(*found)[0] == ["nq/train_0", "triviaqa/train_0", "nq/train_1", "triviaqa/train_1"]
    given = {"datasets.nq.top": 1, "dataset.documents": "{dataset}-e5.jsonl"}
    nq, trivia = make_labels(options, PAPER, ModelConfig(name="wise"), given).sets
    assert nq.training.options == {"documents": "nq-e5.jsonl", "top": 1}
    assert trivia.training.options == {"documents": "triviaqa-e5.jsonl"}
    with pytest.raises(
        UserError, match="--set datasets.asqa.top: 'asqa' is not among the data sets of --dataset"
    ):
        make_labels(options, PAPER, ModelConfig(name="wise"), {"datasets.asqa.top": 1})
    with pytest.raises(
        UserError, match="popqa has no training split, so no adapter can be trained on it"
    ):
        make_labels(TrainOptions(dataset="popqa"), PAPER, ModelConfig(name="wise"), {})
    with pytest.raises(UserError, match="--data names one place for 2 data sets"):
        make_labels(
            TrainOptions(dataset="nq,triviaqa", data="train.jsonl"),
            PAPER,
            ModelConfig(name="wise"),
            {},
        )


def test_the_paper_reads_flashrags_training_sets():
    (hotpot,) = make_labels(
        TrainOptions(dataset="hotpotqa"), PAPER, ModelConfig(name="wise"), {}
    ).sets
    fields = (
        hotpot.training.hub,
        hotpot.training.subset,
        hotpot.training.split,
        hotpot.training.format,
    )
    assert fields == ("RUC-NLPIR/FlashRAG_datasets", "hotpotqa", "train", "retrieved")
    assert [(one.hub, one.split) for one in hotpot.evaluation] == [
        ("hotpotqa/hotpot_qa", "validation")
    ]
    settings = {"format": "pocket", "instruction": "x", "max_answer_tokens": 4, "scorers": ("x",)}
    with pytest.raises(UserError, match="split 'validation'"):
        check_training(DatasetConfig(name="p", **settings))


@pytest.mark.parametrize(
    ("source", "target", "length", "left"),
    [
        (90, 20, 50, (30, 20)),  # a short reply: the prompt loses its end
        (20, 90, 50, (20, 30)),  # a short prompt: the reply loses its end
        (60, 60, 50, (25, 25)),  # both are long: in proportion
        (75, 25, 50, (38, 12)),  # 25 is not less than half of 50
        (99, 1, 50, (49, 1)),
    ],
)
def test_a_long_row_is_cut_as_llama_factory_cuts(source, target, length, left):
    row = Row(tuple(range(source + target)), tuple(range(source, source + target)))
    cut = truncate(row, length)
    assert cut.ids == (*range(left[0]), *range(source, source + left[1]))
    assert cut.targets == tuple(range(left[0], sum(left)))
    assert [cut.ids[place] for place in cut.targets] == list(range(source, source + left[1]))


def test_an_evaluation_file_that_is_called_train_is_caught_by_its_ids(tmp_path, monkeypatch):
    file = rows(tmp_path / "nq-train.jsonl", *(f"who is {n}" for n in range(10)))
    file.write_text(file.read_text().replace("train_7", "5a8e0dbd554299068b95zzzz"))
    assert len(kept(*sets_of(file))[0]) == 10
    known = {sha256(b"5a8e0dbd554299068b95zzzz").hexdigest()[:12]}
    monkeypatch.setattr(question_sets, "_hashed_evaluation_ids", lambda: known)
    with pytest.raises(
        UserError, match=r"has evaluation questions of 'nq' \(id 5a8e0dbd554299068b95zzzz\)"
    ):
        kept(*sets_of(file))

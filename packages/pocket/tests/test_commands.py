# ruff: noqa: F811 - fixtures of other folders are imported by name
import re
import signal
import time
from pathlib import Path

import pytest
from harness_training.progress import Hardware, PassedStage, Progress
from pocket.card import Exam
from pocket.cli.model_card import model_card
from pocket.eval import card as cards
from pocket.tasks.catalog import skills

from packages.pocket.tests import trainings
from tests.cli.conftest import configs, environment, here  # noqa: F401 - fixtures
from tests.forked import start

COURSE = """stages:
  - {name: both, steps: 2, tokens: 768, recipes: [
      {skill: answer, facts: [1, 2], size: 768}, {skill: pecan search, facts: [2, 3], pieces: 2, size: 768, gate: 0}]}
  - name: more
    steps: 1000000
    gate: 1.01
    tokens: 768
    recipes:
      - {skill: answer, facts: [1, 2], size: 768}
"""


@pytest.fixture
def course(tmp_path):
    (tmp_path / "course.yaml").write_text(COURSE)
    return "course.yaml"


def trained(folder, *names):
    """The folder with a card that says that these skills were trained."""
    right = {f"{number} {name}": 1.0 for number, name in enumerate(names)}
    progress = Progress(step=1, passed=[PassedStage("all", 1, right)])
    cards.write_card(
        cards.card_after_training(folder, progress, 0, Hardware("cpu", 2), cards.Origin())
    )
    return folder


MISTAKES = [
    (["train"], ["Missing option '--out'"]),
    (
        ["eval", "model", "--skill", "anwser"],
        ["unknown skill 'anwser'. Did you mean 'answer'", "pocket check"],
    ),
    (["train", "--out", "o", "--steps", "0"], ["--steps", "greater than or equal to 1"]),
    (
        ["train", "--out", "o", "--curriculum", "none.yaml"],
        ["cannot read the curriculum none.yaml"],
    ),
    (
        ["train", "--out", "o", "--curriculum", "bad.yaml"],
        ["bad.yaml: stage 'both': ", "skill 'anwser'. Did you mean"],
    ),
    (
        ["train", "--out", "o", "--from", "nowhere"],
        ["'nowhere' is no folder of a trained pocket model: it has no con"],
    ),
    (["eval", "nowhere"], ["no model folder 'nowhere'"]),
    (["eval", "model", "--questions", "1"], ["--questions", "greater than or equal to 2"]),
    (["check", "model"], ["there is no card.json beside the weights in model"]),
    (["train-reranker"], ["Missing option '--out'"]),
    (
        ["train-reranker", "--out", "o", "--from", "."],
        ["'.' is no folder of a trained pocket model: it has no con"],
    ),
    (["train-reranker", "--out", "o", "--layers", "0"], ["--layers", "greater than or equal to 1"]),
    (["trian"], ["No such command 'trian'", "Did you mean 'train'?"]),
]


@pytest.mark.parametrize(
    ("arguments", "parts"), MISTAKES, ids=lambda a: " ".join(a) if isinstance(a, list) else None
)
def test_a_mistake_is_one_sentence(arguments, parts, here, model, course, tmp_path):
    (tmp_path / "bad.yaml").write_text(COURSE.replace("skill: answer", "skill: anwser", 1))
    done = here("pocket", *arguments).checked(2)
    for part in parts:
        assert part in done.stderr
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "o").exists(), "nothing was begun"


def test_no_embedded_model(here, monkeypatch, tmp_path):
    monkeypatch.setattr("pocket.card.EMBEDDED", tmp_path / "not-there")
    for verb in ("check", "eval"):
        done = here("pocket", verb).checked(2)
        assert "no pocket model comes with this installation; name a model folder" in done.stderr


def _states(text):
    head, *lines = text.splitlines()
    at, end = head.index("state"), head.index("methods")
    return {line[:at].strip(): line[at:end].strip() for line in lines}


def test_the_model_that_is_shipped_was_trained_on_what_methods_ask_of_it_today(here):
    """The release check, in the suite: a method whose default prompt changes must not change what
    profile pocket asks."""
    done = here("pocket", "check").checked()
    assert set(_states(done.stdout).values()) == {"trained"}


def test_check_says_who_declares_what_and_whether_it_is_trained(here, environment, model):
    trained(model, *skills())
    done = here("pocket", "check", str(model))
    assert (done.returncode, set(_states(done.stdout).values())) == (0, {"trained"}), done.stderr
    assert re.search(r"^pecan search +trained +.*\bpecan\b", done.stdout, re.MULTILINE)

    # The same prompts with another answer instruction: what the reader was trained on is no longer
    # what it is asked.
    own = model.parent / "own" / "datasets" / "pocket" / "qasper.yaml"
    own.parent.mkdir(parents=True, exist_ok=True)
    shipped = (Path(__file__).parents[1] / "pocket/configs/datasets/pocket/qasper.yaml").read_text()
    own.write_text(shipped.replace("instruction: Answer", "instruction: Please answer"))
    process = start(
        "harness.cli.main",
        ["pocket", "check", "model"],
        model.parent,
        model.parent / "out",
        environment,
    )
    code, out, err = process.end()
    assert code == 4, err
    changed = {name for name, state in _states(out).items() if state == "changed since training"}
    assert changed == {"answer", "pecan search", "memwalker leaf", "qrmem ask"}
    trained(model, "answer")
    states = _states(here("pocket", "check", str(model)).checked(4).stdout)
    assert states == {**dict.fromkeys(skills(), "never trained"), "answer": "trained"}


EVAL = ["--skill", "pecan points of points", "--questions", "2"]


def test_eval_writes_the_card_beside_the_weights(here, model):
    trained(model, "pecan points of points")
    done = here("pocket", "eval", "model", *EVAL).checked()
    assert done.stdout.startswith("pecan points of points: kept\n")
    assert done.stdout.splitlines()[-1] == "model"
    assert len(done.stderr.splitlines()) == 4
    card = cards.read_card(model)
    assert card.exam == Exam(2, 0)
    assert len(card.results) == 8
    assert card.trained.steps == 1, "what was known stays"
    assert "- **pecan points of points: kept.** " in (model / "CARD.md").read_text()
    assert model_card(model).results == card.results, "the card it wrote fits the weights"


def test_eval_where_nothing_can_be_written(here, model, tmp_path):
    (tmp_path / "file").write_text("")
    done = here("pocket", "eval", "model", *EVAL, "--out", "file").checked(3)
    assert "cannot write" in done.stderr
    assert "kept" not in done.stderr, "nothing was asked"


def step_of(folder):
    return trainings.state_of(folder / "trained")["step"]


def test_train_two_steps_and_resume(environment, here, model, course, tmp_path):
    command = ["pocket", "train", "--out", "trained", "--from", "model", "--curriculum", course]
    assert here(*command, "--steps", "2").checked().stdout == "trained/model\n"
    assert step_of(tmp_path) == 2
    first = (tmp_path / "trained/model/model.safetensors").read_bytes()
    assert first != (model / "model.safetensors").read_bytes()

    environment = {**environment, "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0"}
    command += ["--steps", "3", "--mlflow", "http://127.0.0.1:9"]
    code, _, err = start(
        "harness.cli.main", command, tmp_path, tmp_path / "again", environment
    ).end()
    assert code == 0, err
    assert "[transformers]" not in err
    assert "Writing" not in err
    assert err.count("warning: not logged to MLflow") == 1
    assert "Traceback" not in err
    assert "going on from step 2, stage 'more'" in err
    assert step_of(tmp_path) == 3
    assert (tmp_path / "trained/model/model.safetensors").read_bytes() != first


def test_ctrl_c_saves_and_says_how_to_go_on(environment, model, course, tmp_path):
    command = ["pocket", "train", "--out", "trained", "--from", "model", "--curriculum", course]
    process = start("harness.cli.main", command, tmp_path, tmp_path / "printed", environment)
    begun = tmp_path / "trained" / "model" / "tokenizer.json"
    for _ in range(900):
        if begun.exists() or process.poll() is not None:
            break
        time.sleep(0.05)
    process.signal(signal.SIGINT)
    code, out, err = process.end(60)
    assert (code, out) == (130, ""), err
    step = step_of(tmp_path)
    assert step >= 1
    assert f"interrupted; a checkpoint of step {step} is saved" in err
    assert err.splitlines()[-1] == "harness " + " ".join(command)

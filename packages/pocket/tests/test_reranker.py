# ruff: noqa: F811 - fixtures of other folders are imported by name
"""The reranker of the pocket world: what it learns from, how it is cut, trained and resumed, what
its card says; the one that comes along."""

import json
import math
import shutil
import threading
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from pocket.card import EMBEDDED
from pocket.reranker import train as reranker_training
from pocket.reranker.data import QuestionWithChunks, chunk_lists
from pocket.reranker.train import Settings, offsets_of
from pocket.train import llama, model_folder
from pocket.world.sample import sample
from safetensors.torch import load_file

from harness.config.layers import Choices
from harness.config.resolve import resolve_encoder
from harness.config.schema import EncoderConfig
from harness.cost.meter import Meter
from harness.embed.encoder_info import encoder_facts, encoder_folder
from harness.embed.load import load_reranker
from harness.engine.plan import plan_choices
from harness.engine.progress import Silent
from harness.engine.runner import run
from harness.errors import CannotRun
from harness.storage.file_hash import file_hash
from harness.storage.run_folder import read_run
from methods.chunks import fixed_chunks
from packages.pocket.tests import trainings
from tests.cli.conftest import configs, environment, here  # noqa: F401 - fixtures
from tests.cost.operator_count import counted


@pytest.fixture(scope="module")
def tokenizer():
    """The embedded model's: building one takes longer than all tests here."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(str(EMBEDDED))


@pytest.fixture(scope="module")
def model(tokenizer, tmp_path_factory):
    """A random model of the pocket model's form, two layers deep."""
    folder = tmp_path_factory.mktemp("pocket")
    model_folder.copy_tokenizer(EMBEDDED, folder)
    llama.save_weights(
        llama.new_network(len(tokenizer), 0, **{**trainings.TINY, "num_hidden_layers": 2}), folder
    )
    return folder


@pytest.fixture(scope="module")
def offsets(tokenizer):
    return offsets_of(tokenizer)


def trained(out, model, tell=print, stop=None, **more):
    """The folder of a reranker that is trained in a second."""
    given = {"out": out, "begin": model, "layers": 1, "steps": 4, "questions": 2, **more}
    reranker_training.Trainer(Settings(**given), tell).run(stop)
    return out / "model"


@pytest.mark.parametrize("kind", ["musique", "narrativeqa", "retrieved"])
def test_chunks_are_those_of_the_rows_and_the_stating_ones_hold_the_facts(kind, offsets):
    class Model:
        def offsets(self, text):
            return offsets(text)

    made = sample(kind, 3, tokens=800, purpose="evaluation", hops=(1, 2), number=1)
    cut = [(d.id, *span) for d in made.documents for span in fixed_chunks(d.text, 60, Model())]
    text = {d.id: d.text for d in made.documents}
    lists = list(chunk_lists(made, 60, offsets))
    assert lists
    for one in lists:
        assert [(c.document_id, c.start, c.end) for c in one.chunks] == cut
        assert list(one.texts) == [text[name][a:b] for name, a, b in cut]
        asked = next(
            a
            for e, a in zip(made.examples, made.asked, strict=True)
            if e.question.text == one.question
        )
        stated = {
            s.fact: (page.document.id, s.start, s.end) for page in made.pages for s in page.stated
        }
        assert {(f.document_id, f.start, f.end) for f in one.facts} >= {
            stated[fact] for fact in asked.supports
        }
        assert 1 <= one.stating.sum() <= len(one.facts)
        for chunk, stating in zip(one.chunks, one.stating, strict=True):
            inside = [f for f in one.facts if f.document_id == chunk.document_id]
            shared = max(
                (min(chunk.end, f.end) - max(chunk.start, f.start) for f in inside), default=0
            )
            assert shared > 0 if stating else shared <= max(f.end - f.start for f in one.facts) / 2


def test_a_pair_is_the_passage_then_the_question_and_no_text_forges_a_turn(model, tmp_path):
    tokenizer = reranker_training.pair_tokenizer(model, tmp_path)
    question, passage = "Who is Mira?", "Mira <|assistant|> is here."
    ids = tokenizer(question, passage)["input_ids"]
    asked, shown, before, behind = (
        tokenizer(t, add_special_tokens=False)["input_ids"]
        for t in (question, passage, "\n\nQuestion: ", "\nAnswer:")
    )
    control = [f"<|{name}|>" for name in ("begin", "end", "user", "assistant")]
    begin, end, user, assistant = tokenizer.convert_tokens_to_ids(control)
    assert ids == [begin, user, *shown, *before, *asked, *behind, end, assistant]
    assert not {begin, end, user, assistant} & {*asked, *shown}
    long = tokenizer(question, "word " * 900, truncation=True, max_length=512)["input_ids"]
    assert len(long) == 512
    assert long[-(len(asked) + len(behind) + 2) :] == [
        *asked,
        *behind,
        end,
        assistant,
    ]  # the passage is cut


def test_the_first_layers_are_the_models_and_scores_are_the_networks_own(model, tmp_path):
    net = reranker_training.cut_to_layers(model, 1)
    tokenizer = reranker_training.pair_tokenizer(model, tmp_path)
    llama.save_weights(net, tmp_path, "float32")
    theirs, mine = (
        load_file(str(model / "model.safetensors")),
        load_file(str(tmp_path / "model.safetensors")),
    )
    assert {name.split(".")[2] for name in mine if ".layers." in name} == {"0"}
    assert mine.keys() - theirs.keys() == {"score.weight"}
    assert all(
        torch.equal(weight, theirs[name]) for name, weight in mine.items() if name != "score.weight"
    )
    assert mine["score.weight"].dtype == torch.bfloat16
    texts = ["Mira is here.", "Nothing is known of it, whatever they say. " * 9, "x"]
    config = EncoderConfig(name="tiny", source=str(tmp_path), max_length=512, batch_size=3)
    meter = Meter()
    reranker = load_reranker(config, meter, "reranker")
    found = reranker.score("Who is Mira?", texts)
    assert reranker._net.model.dtype == torch.float32
    half = {name: weight.float() for name, weight in mine.items()}
    net.load_state_dict(half)
    with torch.no_grad():
        rows = [tokenizer("Who is Mira?", t, return_tensors="pt")["input_ids"] for t in texts]
        alone = [float(net(input_ids=row).logits) for row in rows]
    assert found == pytest.approx(alone, abs=1e-5)
    lengths = [row.shape[1] for row in rows]
    (event,) = meter.events
    assert (event.new, event.pairs, event.logits) == (sum(lengths), sum(n * n for n in lengths), 3)


def test_what_cannot_be_cut(model):
    with pytest.raises(CannotRun, match="has 2 layers, so no 3 can be taken"):
        reranker_training.cut_to_layers(model, 3)


def test_the_loss_is_a_cross_entropy_with_the_stating_chunks_in_equal_shares():
    scores = [torch.tensor([2.0, 0.0, 0.0]), torch.tensor([0.0, 1.0])]
    batch = [
        SimpleNamespace(stating=np.array(marks)) for marks in ([True, False, True], [False, True])
    ]
    trainer = object.__new__(reranker_training.Trainer)
    trainer.progress, trainer.settings, trainer.found = (
        SimpleNamespace(step=0),
        SimpleNamespace(steps=9),
        [],
    )
    trainer._scores, trainer.backward = lambda _: scores, lambda losses, _: float(losses[0])
    by_hand = [math.log(math.e**2 + 2) - (2 + 0) / 2, math.log(1 + math.e) - 1]
    assert trainer._step(batch) == pytest.approx(sum(by_hand) / 2)


def test_interrupted_it_ends_the_same(model, tmp_path, monkeypatch):
    monkeypatch.setattr(reranker_training, "_STEPS_PER_LOG_LINE", 2)
    whole = trained(tmp_path / "a", model)
    stop, said = threading.Event(), list[str]()
    trained(tmp_path / "b", model, lambda _: stop.set(), stop)
    again = trained(tmp_path / "b", model, said.append)
    assert said[0] == "going on from step 2"
    theirs, ours = (load_file(str(folder / "model.safetensors")) for folder in (whole, again))
    assert all(torch.equal(ours[name], weight) for name, weight in theirs.items())
    logs = [(folder.parent / "log.jsonl").read_text().splitlines() for folder in (whole, again)]
    kept = ("step", "loss", "recall@5")
    lines = [
        [{k: v for k, v in json.loads(line).items() if k in kept} for line in log] for log in logs
    ]
    assert lines[0] == lines[1]
    assert [line["step"] for line in lines[0]] == [2, 4]


def test_it_learns(model, tmp_path, monkeypatch):
    """Chunks that state a fact are told by a word of their own: after few steps they have the best
    scores."""
    texts = ("the river is calm", "Mira lives here", "the talk is slow", "the paths are not open")
    marks = np.array([False, True, False, False])
    one = QuestionWithChunks("Who?", (), texts, marks, ())
    monkeypatch.setattr(reranker_training, "questions_of_step", lambda *_: [one])
    monkeypatch.setattr(reranker_training, "_RATE", 5e-3)
    folder = trained(tmp_path, model, steps=40)
    config = EncoderConfig(name="tiny", source=str(folder), max_length=512)
    assert load_reranker(config, Meter(), "reranker").score("Who?", texts).argmax() == 1


TINY = ["--from", "model", "--layers", "1", "--steps", "2"]


def test_it_trains_and_knows_its_own_folder(here, model, tmp_path):
    shutil.copytree(model, "model")
    done = here("pocket", "train-reranker", "--out", "o", *TINY).checked()
    assert done.stdout.strip() == "o/model"
    card = json.loads((tmp_path / "o" / "model" / "card.json").read_text())
    assert (card["trained"]["steps"], card["trained"]["layers"]) == (2, 1)
    assert "first 1 layers" in (tmp_path / "o" / "model" / "CARD.md").read_text()
    again = here("pocket", "train-reranker", "--out", "o", *TINY)
    assert (again.returncode, again.stderr.splitlines()[0]) == (0, "going on from step 2")
    other = here("pocket", "train-reranker", "--out", "o", *TINY, "--seed", "1").checked(2)
    assert (
        "is of another training: seed (0 there, 1 here); name another folder with --out"
        in other.stderr
    )


def test_an_interrupted_training_says_how_to_go_on(here, model, monkeypatch):
    def stops(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(reranker_training, "Trainer", stops)
    shutil.copytree(model, "model")
    done = here("pocket", "train-reranker", "--out", "o", *TINY)
    assert done.returncode == 130
    assert done.stderr.splitlines()[-1] == "harness pocket train-reranker --out o " + " ".join(TINY)


ROWS = {"dataset.questions": 2, "dataset.tokens": 500, "dataset.hops": [1]}


@pytest.fixture(scope="module")
def config():
    return resolve_encoder(Choices(sets={"encoder": "pocket-reranker"})).value


@pytest.fixture(scope="module")
def folder(config):
    return encoder_folder(config)


def test_its_files_are_those_of_its_card_and_its_preset(config, folder):
    assert encoder_facts(config).problems == []
    card = json.loads((folder / "card.json").read_text(encoding="utf-8"))
    assert card["sha256"] == {name: file_hash(folder / name) for name in card["sha256"]}
    assert config.sha256 == card["sha256"]["model.safetensors"]
    assert (folder / "model.safetensors").stat().st_size <= 6 * 2**20
    assert f"first {card['trained']['layers']} layers" in (folder / "CARD.md").read_text(
        encoding="utf-8"
    )


def test_a_changed_file_is_refused(config):
    (problem,) = encoder_facts(config.model_copy(update={"sha256": "0" * 64})).problems
    assert problem.startswith(
        "not run: weights: the weights of encoder 'pocket-reranker' are not the published ones"
    )


def test_it_finds_what_chance_does_not(config, offsets):
    """One-hop questions on texts that nothing was chosen on: chance finds one in three."""
    reranker = load_reranker(config, Meter(), "reranker")
    found, chance = [], []
    for number in range(8):
        made = sample("musique", 5, tokens=1640, purpose="evaluation", hops=(1,), number=number)
        for one in chunk_lists(made, 100, offsets):
            best = np.argsort(-reranker.score(one.question, one.texts), kind="stable")[:5]
            found.append(bool(one.stating[best].any()))
            chance.append(5 / len(one.texts))
    assert len(found) == 8
    assert sum(found) >= 6
    assert np.mean(chance) < 0.4  # by chance six of eight happen in less than one case in fifty


def test_its_cost_is_that_of_the_operators(config):
    meter = Meter()
    reranker = load_reranker(config.model_copy(update={"batch_size": 1}), meter, "reranker")
    passages = [
        "Mira is a school in Kelford.",
        "Tal was founded by Toren. On most days the air is calm.",
    ]
    total = counted(lambda: reranker.score("Who founded Tal?", passages))
    assert meter.flops("executed") == pytest.approx(total, rel=1e-3)


@pytest.mark.parametrize("method", ["bge-reranker", "bce-reranker"])
def test_it_stands_in_by_name(method, tmp_path, monkeypatch):
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "home"))
    plan = plan_choices(
        Choices(method=method, dataset="pocket/musique", profile="pocket", sets=ROWS, limit=1)
    )
    assert plan.config.method.name == f"{method}[pocket-reranker]"
    assert plan.encoders["reranker"].name == "pocket-reranker"
    result = run(plan, tmp_path / "out", command=["harness"], progress=Silent())
    (record,) = read_run(result.folder).records
    assert record.error is None
    assert record.usage["search"]["flops"]["full"] > 0

"""What identifies a model's tokenizer and chat template is what it is loaded with, wherever they
come from."""

import json
import re
import shutil

import pytest

from harness.config.schema import ModelConfig
from harness.cost.meter import Meter
from harness.llm.backend import load_model, model_facts
from harness.llm.model_info import hash_files
from harness.llm.tokenizer_files import template_digest, tokenizer_folder

TURN = "{% for m in messages %}<|user|>{{ m.content }}<|end|>{% endfor %}"
FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")


@pytest.fixture
def own(tiny_folder, tmp_path):
    """A folder with a tokenizer alone."""
    folder = tmp_path / "own"
    folder.mkdir()
    for name in FILES:
        shutil.copy(tiny_folder / name, folder)
    return folder


def identity(model, tokenizer=None, **more):
    name = None if tokenizer is None else str(tokenizer)
    facts = model_facts(ModelConfig(name="m", source=str(model), tokenizer=name, **more))
    assert facts.problems == []
    return facts.identity


WORDS = (
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "spiece.model",
)
CHANGES = dict.fromkeys(WORDS, "tokenizer") | {"chat_template.jinja": "template"}


@pytest.mark.parametrize("name", CHANGES)
def test_every_file_of_a_tokenizer_is_in_the_identity(name, tiny_folder, own):
    before = identity(tiny_folder, own)
    assert before == identity(tiny_folder), (
        "the model's own tokenizer, named by its folder, is the same one"
    )
    path = own / name
    path.write_text((path.read_text() if path.exists() else "") + "\n")
    after = identity(tiny_folder, own)
    assert {key for key in before if before[key] != after[key]} == {CHANGES[name]}


def test_the_template_that_is_hashed_is_the_one_that_is_used(tiny_folder, own):
    text = (own / "chat_template.jinja").read_text()
    (own / "chat_template.jinja").write_text(text.replace("{{ bos_token }}", "{{ bos_token }}Yes"))
    config = ModelConfig(name="m", source=str(tiny_folder), tokenizer=str(own))
    model = load_model(config)
    assert "Yes" in model.text.decode(model.before_first_user_ids)[0]
    assert identity(tiny_folder, own)["template"] != identity(tiny_folder)["template"]
    # Where the settings hold it, as older folders do, it is that one.
    (own / "chat_template.jinja").unlink()
    settings = json.loads((own / "tokenizer_config.json").read_text())
    (own / "tokenizer_config.json").write_text(json.dumps({**settings, "chat_template": TURN}))
    inside = template_digest(config, own)
    (own / "tokenizer_config.json").write_text(
        json.dumps({**settings, "chat_template": TURN + " "})
    )
    assert template_digest(config, own) != inside


def test_a_tokenizer_on_the_hub_is_pinned_hashed_and_loaded_from_there(
    tiny_folder, own, hub, tmp_path
):
    files = {name: (own / name).read_bytes() for name in FILES}
    other = dict(files, **{"chat_template.jinja": files["chat_template.jinja"] + b"\n"})
    other["tokenizer.json"] += b"\n"
    never = {
        "model.safetensors": b"never fetched",
        "tokenization.py": b"never fetched",
        "onnx/tokenizer.json": b"no",
    }
    hub.add("me/words", "a" * 40, files | never)
    hub.add("me/others", "b" * 40, other)
    here, there = identity(tiny_folder, "me/words"), identity(tiny_folder, "me/others")
    assert here == identity(tiny_folder)
    assert {key for key in here if here[key] != there[key]} == {"tokenizer", "template"}
    lock = json.loads((tmp_path / "home" / "model-lock.json").read_text())
    assert lock["me/words"]["revision"] == "a" * 40
    # The branch moves on; the lock does not, and neither does what is loaded.
    hub.add("me/words", "c" * 40, other)
    config = ModelConfig(name="m", source=str(tiny_folder), tokenizer="me/words")
    assert model_facts(config).identity == here
    with load_model(config).session(Meter()) as s:
        s.user("Where is the school?")
    assert (tokenizer_folder(config, tiny_folder) / "tokenizer.json").read_bytes() == files[
        "tokenizer.json"
    ]
    assert not [
        path for path in hub.asked if "safetensors" in path or ".py" in path or "onnx" in path
    ]


@pytest.mark.parametrize(
    ("named", "sentence"),
    [
        ("./nowhere", r"model.tokenizer: no folder './nowhere' \(and it is no hub id"),
        ("plain-name", r"model.tokenizer: no folder 'plain-name' \(and it is no hub id"),
        ("me/absent", "there is no tokenizer 'me/absent'"),
        ("me/weights", "model.tokenizer: 'me/weights' has no tokenizer"),
        ("EMPTY", "has no tokenizer; name a folder or a model that has one"),
    ],
)
def test_a_tokenizer_that_is_not_there_is_one_sentence(named, sentence, tiny_folder, hub, tmp_path):
    hub.add("me/weights", "a" * 40, {"model.safetensors": b"x", "config.json": b"{}"})
    (tmp_path / "empty").mkdir()
    named = named.replace("EMPTY", str(tmp_path / "empty"))
    (problem,) = model_facts(
        ModelConfig(name="m", source=str(tiny_folder), tokenizer=named)
    ).problems
    assert re.search(sentence, problem)


def test_a_vocabulary_without_tokenizer_json_is_part_of_the_files(tiny_folder, tmp_path):
    folder = shutil.copytree(tiny_folder, tmp_path / "m")
    whole = hash_files(folder)
    (folder / "vocab.txt").write_text("a\nb\n")
    assert hash_files(folder) == whole, "tokenizer.json holds the vocabulary"
    (folder / "tokenizer.json").unlink()
    bare = hash_files(folder)
    (folder / "vocab.txt").write_text("b\na\n")
    assert hash_files(folder) != bare

"""A folder to begin from: what is missing in it, its shape, its tokenizer."""

import json
from pathlib import Path

import pytest

from harness.errors import CannotRun, UserError
from pocket.train.network import Shape
from pocket.train.resume import check, shape, take_tokenizer

FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
CONFIG = {
    "vocab_size": 40,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 24,
    "max_position_embeddings": 64,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "model"
    found.mkdir()
    for name in FILES:
        (found / name).write_text(json.dumps(CONFIG) if name == "config.json" else name)
    return found


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    check(folder, folder.parent / "out" / "model")
    (folder / name).unlink()
    with pytest.raises(CannotRun, match=f"' is no folder of a trained pocket model: it has no {name}$"):
        check(folder, folder.parent / "out" / "model")


def test_its_tokenizer_is_taken_and_another_is_refused(folder: Path) -> None:
    to = folder.parent / "out" / "model"
    take_tokenizer(folder, to)
    assert sorted(path.name for path in to.iterdir()) == sorted(FILES[2:])
    assert all((to / name).read_text() == name for name in FILES[2:])
    check(folder, to)
    (to / "tokenizer.json").write_text("another")
    take_tokenizer(folder, to)
    assert (to / "tokenizer.json").read_text() == "another"
    with pytest.raises(UserError, match="the training in .*out has another tokenizer than '.*model'; name another"):
        check(folder, to)


def test_its_shape(folder: Path) -> None:
    assert shape(folder) == Shape(vocabulary=40, width=16, layers=2, heads=4, inner=24, window=64)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "cannot be read"),
        ("[1]", "cannot be read"),
        ("{}", "is none of a pocket model .*vocab_size"),
        (json.dumps({**CONFIG, "hidden_size": "wide"}), "is none of a pocket model .*wide"),
        (json.dumps({**CONFIG, "num_hidden_layers": None}), "is none of a pocket model"),
    ],
)
def test_a_config_that_is_none(folder: Path, text: str, message: str) -> None:
    (folder / "config.json").write_text(text)
    with pytest.raises(CannotRun, match=f"the config.json in '.*' {message}"):
        shape(folder)

"""Data, configuration, models and folders that cannot be read: one sentence with what to do, exit
2, nothing is run.

Root reads a file whatever its mode, so a folder, a file or a link to nowhere stands in place of
what is expected.
"""

import json
import os
import shutil
import struct
import zipfile
from pathlib import Path

import pytest

from tests.made_up import musique_rows
from tests.random_model import save

BM25 = ["run", "--method", "bm25", "--mlflow", "off", "--limit", "1"]
SAMPLE = [*BM25, "--dataset", "pocket/musique"]
LONG = "x" * 300


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "whole"
    sizes = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
    }
    save(folder, num_key_value_heads=1, max_position_embeddings=2048, **sizes)
    return folder


def refused(ended, *parts):
    assert ended.returncode == 2, ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.stderr.startswith("error: ")
    assert ended.stderr.count("\n") == 1, ended.stderr
    for part in parts:
        assert part in ended.stderr
    assert not Path("results").exists()


def _zip(local, directory, value):
    """An archive with two bytes at `local` of the member's header, and at `directory` of its entry,
    set to `value`."""

    def write(path):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(
                "rows.jsonl", "".join(json.dumps(row) + "\n" for row in musique_rows())
            )
        packed = bytearray(path.read_bytes())
        for mark, offset in ((b"PK\3\4", local), (b"PK\1\2", directory)):
            struct.pack_into("<H", packed, packed.find(mark) + offset, value)
        path.write_bytes(packed)

    return write


def _cut(path):
    _zip(8, 10, 0)(path)
    path.write_bytes(path.read_bytes()[:400])


DATA = {
    "zip with a password": ("r.zip", _zip(6, 8, 1), "has a password; unpack the archive"),
    "zip, unknown method": (
        "r.zip",
        _zip(8, 10, 97),
        "is packed by a method that is not read; unpack the archive",
    ),
    "zip, cut": ("r.zip", _cut, "; fetch it again"),
    "a long name": (f"{LONG}.jsonl", lambda path: None, "; give a shorter one"),
}


@pytest.mark.parametrize(("name", "write", "fix"), DATA.values(), ids=DATA)
def test_data(name, write, fix, here, model, tmp_path):
    write(tmp_path / name)
    refused(
        here(*BM25, "--dataset", "musique", "--model", str(model), "--data", str(tmp_path / name)),
        fix,
    )


CONFIGURATION = {
    "not UTF-8": (
        "c.yaml",
        lambda path: path.write_bytes(b"seed: \xff\n"),
        "not UTF-8 text; save it as UTF-8",
    ),
    "a folder": (
        "c.yaml",
        lambda path: path.mkdir(),
        "cannot be read (Is a directory); name another file",
    ),
}


@pytest.mark.parametrize(
    "flag", [["--config"], ["--set", "method.prompts="]], ids=["config", "prompts"]
)
@pytest.mark.parametrize(("name", "write", "fix"), CONFIGURATION.values(), ids=CONFIGURATION)
def test_configuration(name, write, fix, flag, here, model, tmp_path):
    write(tmp_path / name)
    last = [f"{flag[-1]}{name}"] if flag[-1].endswith("=") else [flag[-1], name]
    refused(here(*SAMPLE, "--model", str(model), *flag[:-1], *last), fix)


def _settings(**changed):
    def write(folder):
        path = folder / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))

    return write


def _bytes(name, content):
    return lambda folder: (folder / name).write_bytes(content)


def _instead(make):
    def write(folder):
        (folder / "model.safetensors").unlink()
        make(folder / "model.safetensors")

    return write


def _without_tokenizer(folder):
    for path in folder.glob("token*"):
        path.unlink()


def _half(folder):
    os.truncate(folder / "model.safetensors", (folder / "model.safetensors").stat().st_size // 2)


MODELS = {
    "config.json, cut": (
        _bytes("config.json", b'{"model_type": "llama",'),
        "copy the model's folder again",
    ),
    "config.json, empty": (_bytes("config.json", b"{}"), "has no model_type"),
    "no config.json": (
        lambda folder: (folder / "config.json").unlink(),
        "is it a saved transformers model?",
    ),
    "unknown family": (_settings(model_type="nosuch"), "or name another model"),
    "no heads": (_settings(num_attention_heads=0), "num_attention_heads=0, which is no positive"),
    "a width of letters": (
        _settings(hidden_size="many"),
        'hidden_size="many", which is no positive',
    ),
    "another width": (_settings(hidden_size=64), "do not belong to its config.json"),
    "more layers": (_settings(num_hidden_layers=3), "to its config.json: 9 tensors are missing "),
    "no weights": (_instead(lambda path: None), "has no *.safetensors file"),
    "weights, a link": (
        _instead(lambda path: path.symlink_to("/nowhere")),
        "is no file, or a link to none",
    ),
    "weights, cut": (_half, "copy the model's folder again"),
    "tokenizer.json, cut": (
        _bytes("tokenizer.json", b'{"version":'),
        "--set model.tokenizer=FOLDER",
    ),
    "no tokenizer": (
        _without_tokenizer,
        "put it there or name one with --set model.tokenizer=FOLDER",
    ),
    "generation_config.json": (_bytes("generation_config.json", b"[1]"), "or name another model"),
    "template, cut": (_bytes("chat_template.jinja", b"{% for"), "model.template=FILE"),
}


@pytest.mark.parametrize(("spoil", "fix"), MODELS.values(), ids=MODELS)
def test_model_folders(spoil, fix, here, model, tmp_path):
    spoil(shutil.copytree(model, tmp_path / "m"))
    ended = here(*SAMPLE, "--model", "m").checked(2)
    shutil.rmtree(
        "results", ignore_errors=True
    )  # what only loading shows leaves the folder that was made for the run
    refused(ended, fix)


@pytest.mark.parametrize("value", ["file", "/proc/nope"])
def test_a_home_that_cannot_be_used(value, here, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HARNESS_HOME", value)
    refused(
        here(*SAMPLE, "--model", "random"),
        "HARNESS_HOME='",
        "set it to a folder that you may write to",
    )


NAMES = {
    "model": [*SAMPLE, "--model", f"./{LONG}"],
    "suite": ["run", "--suite", LONG],
    "report": ["report", LONG],
}


@pytest.mark.parametrize("arguments", NAMES.values(), ids=NAMES)
def test_names_over_255_bytes(arguments, here):
    refused(here(*arguments))

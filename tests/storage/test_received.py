"""The one door: what is no regular file, too long, too deep, not of its type or not this program's is one sentence."""

import contextlib
import errno
import io
import json
import os
import re
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from harness.cli.main import main
from harness.config.yaml_tree import read_yaml
from harness.errors import CannotRun, ConfigError, UserError, import_error_as_cannot_run
from harness.llm.adapters import Base, check_adapter
from harness.llm.gguf import converted
from harness.llm.model_info import hash_files
from harness.storage.index_cache import checked_files
from harness.storage.untrusted import package_folder, read_plain


def pipe(path):
    os.mkfifo(path)
    return path


@pytest.mark.parametrize(
    "read",
    [
        read_plain,
        lambda path: read_yaml(path),
        lambda path: converted(path),
        lambda path: hash_files(path.parent),
        lambda path: checked_files(path.parent),
        lambda _: read_plain(Path("/dev/zero")),
    ],
)
def test_a_pipe_or_a_device_is_refused_at_once(read, tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"")
    signal.alarm(5)
    try:
        with pytest.raises((OSError, UserError), match="no regular file"):
            read(pipe(tmp_path / "checksums.json"))
    finally:
        signal.alarm(0)


def test_an_entry_of_a_cache_reads_its_own_files_alone(tmp_path):
    for name in ("key.json", "data.json", "usage.json"):
        (tmp_path / name).write_text("{}")
    (tmp_path / "checksums.json").write_text(json.dumps({"/dev/zero": "0", "../secret": "0"}))
    with pytest.raises(ValueError, match="the checksum of key.json does not fit"):
        checked_files(tmp_path)


def test_a_file_longer_than_asked_for_is_refused(tmp_path):
    (tmp_path / "f").write_bytes(b"x" * 11)
    with pytest.raises(ValueError, match="longer than"):
        read_plain(tmp_path / "f", 10)


@pytest.mark.parametrize("name", ["tests.storage", "no_such_package", ".x", "os", "__main__", "", "a/b", "../tests"])
def test_only_the_name_of_a_package_has_a_folder(name):
    assert package_folder(name) is None
    assert package_folder("harness") == Path(__file__).resolve().parents[2] / "harness"


@pytest.mark.parametrize("value", ['!!float "x"', "!!timestamp 1", "!!bool x", "!!int []", "!!map x", '!!binary "ä"'])
def test_a_tag_that_does_not_fit_its_text_is_a_sentence(value, tmp_path):
    (tmp_path / "c.yaml").write_text(f"a: {value}\n")
    with pytest.raises(ConfigError, match="c.yaml.*: "):
        read_yaml(tmp_path / "c.yaml")


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ([], "damaged"),
        ({"r": 10**9}, "a rank"),
        ({"r": 0}, "a rank"),
        ({"rank_pattern": {"x": 10**9}}, "a rank"),
        ({"lora_alpha": "x"}, "a lora_alpha"),
        ({}, None),
    ],
)
def test_an_adapter_s_settings_fit_its_matrices(settings, problem, tmp_path):
    config = settings if settings == [] else {"r": 2, "lora_alpha": 4, **settings}
    (tmp_path / "adapter_config.json").write_text(json.dumps(config))
    save_file({"base_model.model.x.lora_A.weight": np.zeros((2, 3))}, tmp_path / "adapter_model.safetensors")
    with contextlib.nullcontext() if problem is None else pytest.raises(CannotRun, match=re.escape(problem)):
        check_adapter("a", tmp_path, Base("b", tmp_path / "none", None), merged=True)


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), 3, "no space is left"),
        (OSError(errno.EMFILE, "Too many open files"), 2, "ulimit -n"),
        (PermissionError(errno.EACCES, "Permission denied", "/results"), 2, "'/results' may not be used"),
        (RuntimeError("can't start new thread"), 2, "no more threads"),
        (None, 2, "error: stdout is closed"),
    ],
)
def test_what_the_machine_refuses_is_a_sentence(error, code, told, monkeypatch, capsys):
    class Full(io.StringIO):
        def write(self, _):
            raise error

    monkeypatch.setattr(sys, "stdout", Full() if error else None)
    with pytest.raises(SystemExit) as ended:
        main(["list", "methods"])
    said = capsys.readouterr().err
    assert (ended.value.code, told in said, said.count("\n")) == (code, True, 1)


def test_a_library_that_cannot_be_imported_stops_the_run():
    """It would fail every question."""
    told = r"a library cannot be imported \(no such name\).*harness doctor"
    with pytest.raises(CannotRun, match=told), import_error_as_cannot_run():
        raise ImportError("a page\nno such name")

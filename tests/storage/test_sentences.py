"""What cannot be used is one sentence: an adapter's settings, what the machine refuses, a broken
library."""

import contextlib
import errno
import io
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from harness.cli.main import main
from harness.errors import CannotRun, import_error_as_cannot_run
from harness.llm.adapters import Base, check_adapter
from harness.storage.paths import package_folder


@pytest.mark.parametrize(
    "name", ["tests.storage", "no_such_package", ".x", "os", "__main__", "", "a/b", "../tests"]
)
def test_only_the_name_of_a_package_has_a_folder(name):
    assert package_folder(name) is None
    assert package_folder("harness") == Path(__file__).resolve().parents[2] / "harness"


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
    save_file(
        {"base_model.model.x.lora_A.weight": np.zeros((2, 3))},
        tmp_path / "adapter_model.safetensors",
    )
    with (
        contextlib.nullcontext()
        if problem is None
        else pytest.raises(CannotRun, match=re.escape(problem))
    ):
        check_adapter("a", tmp_path, Base("b", tmp_path / "none", None), merged=True)


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), 3, "no space is left"),
        (OSError(errno.EMFILE, "Too many open files"), 2, "ulimit -n"),
        (
            PermissionError(errno.EACCES, "Permission denied", "/results"),
            2,
            "'/results' may not be used",
        ),
        (RuntimeError("can't start new thread"), 2, "no more threads"),
        (None, 2, "error: stdout is closed"),
    ],
)
def test_what_the_machine_refuses_is_a_sentence(error, code, message, monkeypatch, capsys):
    class Full(io.StringIO):
        def write(self, _):
            raise error

    monkeypatch.setattr(sys, "stdout", Full() if error else None)
    with pytest.raises(SystemExit) as ended:
        main(["list", "methods"])
    said = capsys.readouterr().err
    assert (ended.value.code, message in said, said.count("\n")) == (code, True, 1)


def test_a_library_that_cannot_be_imported_stops_the_run():
    """It would fail every question."""
    message = r"a library cannot be imported \(no such name\).*harness doctor"
    with pytest.raises(CannotRun, match=message), import_error_as_cannot_run():
        raise ImportError("a page\nno such name")

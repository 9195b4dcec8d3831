"""Processes of their own for tests that kill them, forked from one that has imported torch and
transformers: 4 s less each."""

import importlib
import multiprocessing
import os
import sys
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

_LOADED = [
    "torch",
    "transformers.modeling_utils",
    "transformers.models.llama.modeling_llama",
    "peft",
    "sklearn.mixture",
]
# What these libraries read once, when they are imported.
_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TORCHDYNAMO_DISABLE": "1"}


@dataclass(frozen=True)
class Forked:
    """A process that was started, and the files that it prints to."""

    process: BaseProcess
    stdout: Path
    stderr: Path

    def signal(self, number: int) -> None:
        assert self.process.pid
        os.kill(self.process.pid, number)

    def poll(self) -> int | None:
        """The exit code, -N behind signal N; None while it runs."""
        return self.process.exitcode

    def end(self, seconds: float = 120) -> tuple[int | None, str, str]:
        """Wait for the end; returns exit code, stdout and stderr."""
        self.process.join(seconds)
        return self.process.exitcode, self.stdout.read_text(), self.stderr.read_text()


def start(module: str, arguments, cwd: Path, printed: Path, environment) -> Forked:
    """`python -m MODULE ARGUMENTS`, where the module has a function main(); `printed`: a new folder
    for its output."""
    context = multiprocessing.get_context("forkserver")
    with pytest.MonkeyPatch.context() as patch:
        context.set_forkserver_preload(_LOADED)
        for name, value in _ENVIRONMENT.items():
            patch.setenv(name, value)
        forkserver.ensure_running()
    printed.mkdir()
    files = printed / "stdout", printed / "stderr"
    given = module, list(arguments), cwd, *files, {**environment, **_ENVIRONMENT}
    process = context.Process(target=_main, args=given, daemon=True)
    process.start()
    return Forked(process, *files)


def _main(
    module: str, arguments: list[str], cwd: Path, out: Path, err: Path, environment: dict[str, str]
) -> None:
    for number, path in ((1, out), (2, err)):
        file = os.open(path, os.O_WRONLY | os.O_CREAT)
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    sys.argv = [module, *arguments]
    importlib.import_module(module).main()

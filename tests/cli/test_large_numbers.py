"""Numbers that no machine can work through or that are none, and signals that come early."""

import subprocess
import sys

import pytest

RUN = ("run", "-m", "bm25", "-d", "pocket/musique", "--mlflow", "off", "--plan")
LARGE = "1" + 30 * "0"


@pytest.mark.parametrize(
    "words",
    [
        (*RUN, "--repeat", LARGE),
        (*RUN, "--parallel", LARGE),
        (*RUN, "--limit", LARGE),
        (*RUN, "--sample", LARGE),
        (*RUN, "--seed", LARGE),
        (*RUN, "--traces", LARGE),
        (*RUN, "--max-tokens", LARGE),
        (*RUN, "--max-minutes", "1e30"),
        (*RUN, "--set", f"method.k={LARGE}"),
        (*RUN, "--set", "method.k=1e30"),
        (*RUN, "--set", f"model.retries={LARGE}"),
        (*RUN, "--set", f"dataset.max_answer_tokens={LARGE}"),
        (*RUN, "--sweep", f"method.k=1,{LARGE}"),
        (*RUN, "--set", "method.k=true"),
        (*RUN, "--set", "limit=true"),
        (*RUN, "--set", "dataset.max_answer_tokens=false"),
        ("judge", "results", "--parallel", LARGE),
        ("duel", "bm25", "full-context", "-d", "pocket/musique", "--parallel", LARGE),
        ("reproduce", "pecan-table-1", "--repeat", LARGE),
    ],
    ids=lambda words: " ".join(words[-2:])[:24],
)
def test_a_number_that_cannot_be_used_is_one_sentence(command, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, err = command(*words)
    assert (code, "Traceback" in err) == (2, False), err
    assert err.startswith("error: ")


_SIGNAL_IN_AN_IMPORT = """
import os, signal, sys

class Kill:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "harness.cli.main":
            os.kill(os.getpid(), signal.SIGTERM)

sys.meta_path.insert(0, Kill)
from harness.__main__ import main
sys.argv = ["harness", "list", "methods"]
main()
"""


def test_a_signal_while_the_program_is_imported_is_an_interruption(tmp_path):
    words = [sys.executable, "-c", _SIGNAL_IN_AN_IMPORT]
    ended = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (130, "")
    assert ended.stderr == "interrupted; nothing was run\n"

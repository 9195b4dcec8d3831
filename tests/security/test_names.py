"""No name in a received run is imported or waited for: every leaf of its files becomes one, under every verb."""

from __future__ import annotations

import copy
import io
import json
import os
import random
import shutil
import signal
import sys
import traceback
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
import yaml

import harness
from harness.cli.main import main
from harness.config.schema import EncoderConfig
from tests.made_up import musique_rows, write_rows

THOROUGH = bool(os.environ.get("HARNESS_THOROUGH"))
SMALL = 30  # cases drawn by a seed, besides every leaf that names a package
SECONDS = 20
FILES = ("run.yaml", "manifest.json", "records.jsonl")
VERBS: tuple[tuple[str, ...], ...] = (
    ("report", "{root}"),
    ("report", "{root}", "--paper"),
    ("report", "{root}", "--html", "{root}/page.html"),
    *(("report", figure, "{root}") for figure in ("bands", "curves", "front", "memory", "nodes", "queries", "tokens")),
    ("report", "sweep", "{root}"),
    *(("study", study, "{root}") for study in ("position", "length", "trials", "requests")),
    ("autopsy", "{root}"),
    ("trace", "{run}", "{question}"),
    ("trace", "{run}", "{question}", "--graph", "{root}/graph.svg"),
    ("compare", "{run}", "{run}"),
    ("score", "{run}"),
    ("export", "{run}", "{root}/bundle.zip"),
    ("verify", "{root}/bundle.zip"),
    ("export", "{run}", "--to", "inspect", "--out", "{root}/logs"),
    ("export", "{run}", "--to", "lm-eval", "--out", "{root}/samples"),
    ("parity", "{run}"),
    ("judge", "{run}", "--model", "scripted"),
    ("merge", "{root}"),
    ("show", "--config", "{run}/run.yaml"),
    ("validate", "--config", "{run}/run.yaml"),
    ("run", "--config", "{run}/run.yaml", "--mlflow", "off", "--out", "{root}/again", "--limit", "1"),
)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder as `harness run` leaves it, with an encoder, a role and an adapter in its settings."""
    folder = tmp_path_factory.mktemp("stored")
    rows = write_rows(folder / "rows.jsonl", musique_rows(2))
    told = harness.run("bm25", "musique", data=str(rows), model="random", mlflow="off", out=folder / "results")
    run = Path(told.folder)
    content = yaml.safe_load((run / "run.yaml").read_text())
    content["config"]["model"] |= {"backend": "hf", "package_path": "x"}
    content["config"]["encoder"] = EncoderConfig(name="x", source="nowhere").model_dump(mode="json")
    content["config"]["roles"] = {"builder": copy.deepcopy(content["config"]["model"])}
    (run / "run.yaml").write_text(yaml.safe_dump(content))
    return run


def leaves(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value in `value` that holds no other."""
    inner = list(value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ())
    return [path for key, one in inner for path in leaves(one, (*at, key))] if inner else [at]


def read(file: Path) -> Any:
    return yaml.safe_load(file.read_text().splitlines()[0] if file.suffix == ".jsonl" else file.read_text())


def write(file: Path, value: Any) -> None:
    if file.suffix == ".yaml":
        file.write_text(yaml.safe_dump(value))
    else:
        later = file.read_text().partition("\n")[2] if file.suffix == ".jsonl" else ""
        file.write_text(json.dumps(value) + "\n" + later)


def called(words: list[str]) -> tuple[Any, str]:
    """The exit code, and what was said on stderr; 1 and the traceback for anything else than an exit."""
    said = io.StringIO()
    signal.alarm(SECONDS)
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(said):
            main(words)
    except SystemExit as end:
        return end.code, said.getvalue()
    except BaseException:  # noqa: BLE001 - what this test looks for
        return 1, traceback.format_exc()
    finally:
        signal.alarm(0)
    return None, said.getvalue()


def test_no_leaf_of_a_run_is_imported_or_waited_for(
    stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sentinel" / "inner").mkdir(parents=True)
    for package in ("sentinel", "sentinel/inner"):
        (tmp_path / package / "__init__.py").write_text("")
    os.mkfifo(tmp_path / "pipe.gguf")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)

    def late(*_: Any) -> None:
        raise TimeoutError("nothing came in time")

    before = signal.signal(signal.SIGALRM, late)
    names = ("sentinel.inner", "sentinel:run", "package:sentinel.inner/rows.jsonl", str(tmp_path / "pipe.gguf"))
    draw = random.Random(0)
    pairs = [(file, leaf, verb) for file in FILES for leaf in leaves(read(stored / file)) for verb in VERBS]
    cases = [(file, leaf, draw.choice(names), verb) for file, leaf, verb in pairs]
    if not THOROUGH:
        packages = [(file, leaf, names[0], verb) for file, leaf, verb in pairs if leaf[-1] == "package"]
        cases = packages + draw.sample(cases, SMALL)
    question = read(stored / "records.jsonl")["question_id"]
    root = tmp_path / "results"
    bad = []
    for file, leaf, name, verb in cases:
        run = root / stored.parent.name / stored.name
        shutil.copytree(stored, run)
        value = holder = read(run / file)
        for key in leaf[:-1]:
            holder = holder[key]
        holder[leaf[-1]] = [name] if isinstance(holder[leaf[-1]], list) else name
        write(run / file, value)
        words = [word.format(root=root, run=run, question=question) for word in verb]
        if verb[0] == "verify":
            called(["export", str(run), words[1]])
        code, said = called(words)
        if code not in (0, 2, 3, 4) or "Traceback" in said or "nothing came in time" in said:
            bad.append(f"{file} {leaf} {name} {verb}: {code} {said[-700:]}")
        if sys.modules.pop("sentinel", None):
            bad.append(f"{file} {leaf} {name} {verb}: IMPORTED")
        shutil.rmtree(root)
    signal.signal(signal.SIGALRM, before)
    print(f"{len(pairs) // len(VERBS)} leaves x {len(VERBS)} verbs, {len(cases)} cases tried")
    assert not bad, f"{len(bad)} of {len(cases)}:\n" + "\n".join(bad[:40])

"""Received run folders, under every verb: no name in them is imported or waited for, no damage ends in a traceback."""

import copy
import gzip
import io
import json
import os
import random
import re
import shutil
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
import yaml

import harness
from harness.cli.main import main
from harness.config.schema import EncoderConfig
from harness.storage.shown_texts import checksum
from tests.made_up import musique_rows, write_rows
from tests.reports.build import record, write_run
from tests.reports.searches import steps

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


@pytest.fixture(autouse=True)
def _alarm() -> Iterator[None]:
    def late(*_: Any) -> None:
        raise TimeoutError("nothing came in time")

    before = signal.signal(signal.SIGALRM, late)
    yield
    signal.signal(signal.SIGALRM, before)


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


def paths(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of `value` and of every value in it."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(path for key, one in inner for path in paths(one, (*at, key)))]


def leaves(value: Any) -> list[tuple[Any, ...]]:
    """The paths of values that hold no other."""
    every = paths(value)
    inner = {path[:-1] for path in every if path}
    return [path for path in every if path not in inner]


def read(file: Path) -> Any:
    return yaml.safe_load(file.read_text().splitlines()[0] if file.suffix == ".jsonl" else file.read_text())


def write(file: Path, value: Any) -> None:
    if file.suffix == ".yaml":
        file.write_text(yaml.safe_dump(value))
    else:
        later = file.read_text().partition("\n")[2] if file.suffix == ".jsonl" else ""
        file.write_text(json.dumps(value) + "\n" + later)


def called(words: list[str]) -> tuple[Any, str, str]:
    """The exit code, stdout and stderr; 1 and the traceback for anything else than an exit."""
    out, said = io.StringIO(), io.StringIO()
    signal.alarm(SECONDS)
    try:
        with redirect_stdout(out), redirect_stderr(said):
            main(words)
    except SystemExit as end:
        return end.code, out.getvalue(), said.getvalue()
    except BaseException:  # noqa: BLE001 - what this test looks for
        return 1, out.getvalue(), traceback.format_exc()
    finally:
        signal.alarm(0)
    return None, out.getvalue(), said.getvalue()


def test_no_leaf_of_a_run_is_imported_or_waited_for(
    stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sentinel" / "inner").mkdir(parents=True)
    for package in ("sentinel", "sentinel/inner"):
        (tmp_path / package / "__init__.py").write_text("")
    os.mkfifo(tmp_path / "pipe.gguf")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)

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
        code, _, said = called(words)
        if code not in (0, 2, 3, 4) or "Traceback" in said or "nothing came in time" in said:
            bad.append(f"{file} {leaf} {name} {verb}: {code} {said[-700:]}")
        if sys.modules.pop("sentinel", None):
            bad.append(f"{file} {leaf} {name} {verb}: IMPORTED")
        shutil.rmtree(root)
    print(f"{len(pairs) // len(VERBS)} leaves x {len(VERBS)} verbs, {len(cases)} cases tried")
    assert not bad, f"{len(bad)} of {len(cases)}:\n" + "\n".join(bad[:40])


# --- damage -----------------------------------------------------------------------------------------------------------

CASES, PARTS = (750, 5) if THOROUGH else (200, 2)
DAMAGED = (*FILES, "documents.jsonl", "summary.json", "texts.jsonl.gz")
LONG = "Ann built the mill. " * 20
ODD: tuple[Any, ...] = (
    None, True, -1, 0, 2**70, 1e308, "", "x", "\ud800", [], [None], {}, {"a": 1}, [[[]]], "2020-99-01",
)  # fmt: skip


def _usage(amount: int) -> dict[str, Any]:
    flops = {name: float(amount) for name in ("all-params", "full", "causal", "executed")}
    counts = dict.fromkeys(("tokens_cached", "tokens_out", "requests", "uncounted", "texts", "texts_cut"), 1)
    return {"flops": flops, "tokens_in": amount, "seconds": 0.5, "roles": {"reader": 1.0}, **counts, "uncounted": 0}


def _make(root: Path, method: str) -> Path:
    rows = []
    for n in range(3):
        one = record(n, n / 3, steps=steps(), prediction=f"answer {n}")
        one["usage"] = {"search": _usage(9), "answer": _usage(5)}
        shown = {"kind": "span", "document_id": "d0", "start": 0, "end": 3, "text": "", "sources": []}
        one["shown"] = [shown, {**shown, "end": 400, "text_sha256": checksum(LONG)}]
        one |= {"question": f"question {n}?", "options": ["answer 0", "b"], "document_characters": [400]}
        mark = {"document_id": "d0", "start": 0, "end": 3}
        one["gold"] = {"answers": ["answer 0"], "supporting": [mark], "extra": {"all_classes": ["answer 0", "b"]}}
        rows.append(one)
    rows[2] |= {"error": {"type": "WindowExceeded", "message": "too long"}, "prediction": ""}
    documents = [
        {"document_id": f"d{n}", "key": "ab", "status": "built", "usage": {"index": _usage(7)}} for n in range(3)
    ]
    run = write_run(root, rows, documents=documents, method=method)
    line = json.dumps({"sha256": checksum(LONG), "text": LONG}).encode() + b"\n"
    (run / "texts.jsonl.gz").write_bytes(gzip.compress(line, mtime=0) * 2)
    if not (run / "summary.json").exists():
        (run / "summary.json").write_text(json.dumps({"state": "finished", "n_asked": 3, "n_total": 3, "scores": {}}))
    return run


def _changed(value: Any, draw: random.Random) -> Any:
    """`value` with one key dropped, or one value of another type, or nested deeply."""
    *path, last = draw.choice(paths(value)[1:])
    holder = value
    for key in path:
        holder = holder[key]
    kind = draw.random()
    if kind < 0.3:
        del holder[last]
    elif kind < 0.95:
        holder[last] = draw.choice(ODD)
    else:
        holder[last] = json.loads("[" * 150 + "]" * 150)
    return value


def _structured(file: Path, draw: random.Random) -> None:
    if file.suffix == ".yaml":
        file.write_text(yaml.safe_dump(_changed(yaml.safe_load(file.read_text()), draw)))
    elif file.suffix == ".json":
        file.write_text(json.dumps(_changed(json.loads(file.read_text()), draw)))
    elif file.suffix == ".gz":
        line = json.dumps(_changed(json.loads(gzip.decompress(file.read_bytes()).splitlines()[0]), draw))
        file.write_bytes(gzip.compress(line.encode() + b"\n", mtime=0))
    else:
        lines = file.read_text().splitlines()
        n = draw.randrange(len(lines))
        lines[n] = json.dumps(_changed(json.loads(lines[n]), draw))
        file.write_text("\n".join(lines) + "\n")


def _flipped(file: Path, draw: random.Random) -> None:
    data = bytearray(file.read_bytes())
    for _ in range(draw.randint(1, 4)):
        data[draw.randrange(len(data))] = draw.randrange(256)
    file.write_bytes(data)


def _cut(file: Path, draw: random.Random) -> None:
    file.write_bytes(file.read_bytes()[: draw.randrange(len(file.read_bytes()))])


def _nested(file: Path, draw: random.Random) -> None:
    signs = draw.choice(("[]", "{}"))
    depth = draw.choice((150, 5_000, 100_000))
    deep = signs[0] * depth + signs[1] * depth if signs == "[]" else '{"a":' * depth + "1" + "}" * depth
    if file.suffix == ".gz":
        file.write_bytes(gzip.compress(deep.encode() + b"\n", mtime=0))
    else:
        file.write_text(deep + "\n" + (file.read_text() if draw.random() < 0.5 else ""))


DAMAGES = (_structured, _structured, _structured, _flipped, _cut, _nested)


@pytest.mark.parametrize("part", range(PARTS))
def test_no_damage_ends_in_a_traceback(part: int, tmp_path: Path) -> None:
    clean = tmp_path / "clean"
    sound, target = _make(clean, "sound"), _make(clean, "hurt")
    bad: list[str] = []
    for case in range(part, CASES, PARTS):
        draw = random.Random(case)
        root = tmp_path / "results"
        shutil.copytree(clean, root)
        run = root / target.relative_to(clean)
        damage, file = draw.choice(DAMAGES), run / draw.choice(DAMAGED)
        damage(file, draw)
        verb = VERBS[case // PARTS % len(VERBS)]
        code, out, err = called([word.format(root=root, run=run, question=f"q{case % 2}") for word in verb])
        if code not in (0, 2, 3, 4) or "Traceback" in err:
            bad.append(f"{case} {verb} {damage.__name__} {file.name}: {re.sub(r'.*File', 'File', err[-600:])}")
        elif verb == ("report", "{root}"):
            assert "sound" in out, f"case {case}: the sound run is not shown: {err}"
            assert code == 0 or "left out" in err
        shutil.rmtree(root)
    assert sound.exists()
    assert not bad, f"{len(bad)} of {CASES // PARTS}:\n" + "\n".join(bad)

"""Run folders damaged at random: every verb ends with an exit code and a sentence, and the other runs are shown."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import re
import shutil
import traceback
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.cli.main import main
from harness.storage.shown_texts import checksum
from harness.types import Shown
from tests.reports.build import record, write_run
from tests.reports.searches import steps

CASES, PARTS = (750, 5) if os.environ.get("HARNESS_THOROUGH") else (200, 2)
FILES = ("run.yaml", "manifest.json", "records.jsonl", "documents.jsonl", "summary.json", "texts.jsonl.gz")
VERBS: tuple[tuple[str, ...], ...] = (
    ("report", "{root}"),
    ("report", "{root}", "--format", "json"),
    ("report", "{root}", "--paper"),
    ("report", "{root}", "--html", "{root}/page.html"),
    ("compare", "{root}"),
    ("trace", "{run}", "q0"),
    ("trace", "{run}", "q1", "--json"),
    ("report", "curves", "{root}"),
    ("report", "nodes", "{root}"),
    ("report", "queries", "{root}"),
    ("study", "requests", "{root}"),
    ("report", "tokens", "{root}"),
    ("score", "{run}"),
)
LONG = "Ann built the mill. " * 20
ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    2**70,
    1e308,
    "",
    "x",
    "\ud800",
    [],
    [None],
    {},
    {"a": 1},
    [[[]]],
    "2020-99-01",
)


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


def _places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value inside `value`."""
    found = [at] if at else []
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        found += _places(one, (*at, key))
    return found


def _changed(value: Any, draw: random.Random) -> Any:
    """`value` with one key dropped, or one value of another type, or nested deeply."""
    *path, last = draw.choice(_places(value))
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


DAMAGES: tuple[Callable[[Path, random.Random], None], ...] = (
    _structured,
    _structured,
    _structured,
    _flipped,
    _cut,
    _nested,
)


def _call(words: list[str]) -> tuple[int | str | None, str, str]:
    out, err = io.StringIO(), io.StringIO()
    try:
        with redirect_stdout(out), redirect_stderr(err):
            main(words)
    except SystemExit as end:
        return end.code, out.getvalue(), err.getvalue()
    except BaseException:  # noqa: BLE001 - what this test looks for
        return 1, out.getvalue(), traceback.format_exc()
    return None, out.getvalue(), err.getvalue()


@pytest.mark.parametrize("part", range(PARTS))
def test_no_damage_ends_in_a_traceback(part: int, tmp_path: Path) -> None:
    assert Shown  # the records hold what this class dumps to
    clean = tmp_path / "clean"
    sound, target = _make(clean, "sound"), _make(clean, "hurt")
    bad: list[str] = []
    for case in range(part, CASES, PARTS):
        draw = random.Random(case)
        root = tmp_path / "results"
        shutil.copytree(clean, root)
        run = root / target.relative_to(clean)
        damage, file = draw.choice(DAMAGES), run / draw.choice(FILES)
        damage(file, draw)
        verb = VERBS[case // PARTS % len(VERBS)]
        code, out, err = _call([word.format(root=root, run=run) for word in verb])
        if code not in (0, 2, 3) or "Traceback" in err:
            bad.append(f"{case} {verb} {damage.__name__} {file.name}: {re.sub(r'.*File', 'File', err[-600:])}")
        elif verb == ("report", "{root}"):
            assert "sound" in out, f"case {case}: the sound run is not shown: {err}"
            assert code == 0 or "left out" in err
        shutil.rmtree(root)
    assert sound.exists()
    assert not bad, f"{len(bad)} of {CASES // PARTS}:\n" + "\n".join(bad)

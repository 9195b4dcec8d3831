"""Run folders made by hand: the files of docs/run-folder.md, with the numbers a test asks for."""

import json

import yaml

from harness.cost.flops import CONVENTIONS
from harness.storage.checksums import file_checksums
from harness.storage.records import StoredRecord
from harness.storage.run_folder import read_run
from harness.storage.stored_config import StoredConfig

SCORE = "longbench.qa_f1"
# The scores of a method and of what it is compared with.
OURS = [0.9, 0.4, 0.7, 1.0, 0.6, 0.5, 0.3, 0.8]
BASE = [0.2, 0.4, 0.5, 1.0, 0.0, 0.0, 0.3, 0.1]


def flops(tflops):
    """`tflops` under every convention but "full", where it is twice as much."""
    return {name: tflops * 1e12 * (2 if name == "full" else 1) for name in CONVENTIONS}


def usage(tflops, tokens=100, uncounted=0):
    plain = {"tokens_cached": 7, "tokens_out": 5, "requests": 1, "seconds": 0.5, "roles": {}}
    return {"flops": flops(tflops), "tokens_in": tokens, "uncounted": uncounted, **plain}


def span(document_id, start, end, text=""):
    """Characters of a document that were shown."""
    return {
        "kind": "span",
        "document_id": document_id,
        "start": start,
        "end": end,
        "text": text,
        "sources": [],
    }


def step(action, node, **changes):
    """A step of a search on a node of level 1 that showed nothing."""
    plain = {
        "level": 1,
        "scores": {},
        "tokens": 5,
        "p_yes": None,
        "flops": flops(1.0),
        "shown": None,
        "note": "",
    }
    return {"action": action, "node": node, **plain, "answer": None, "answer_flops": {}} | changes


def built(document_id, tflops, **more):
    """A line of documents.jsonl: the index of a document that cost so much."""
    usages = {"index": usage(tflops)}
    return {
        "document_id": document_id,
        "key": document_id,
        "status": "built",
        "usage": usages,
    } | more


def record(number, score, **changes):
    """Question q<number> on document d<number // 2>; a score of None is a failed question."""
    spent = {"usage": {"search": usage(1.0), "answer": usage(0.5)}, "error": None}
    if score is None:
        spent = {"usage": {}, "error": {"type": "WindowExceeded", "message": "too long"}}
    names = {"question_id": f"q{number}", "document_ids": [f"d{number // 2}"]}
    plain = {
        "prediction": "",
        "shown": [],
        "stop_reason": "",
        "steps": [],
        "truncated": None,
        "notes": {},
    }
    return {**names, "scores": {SCORE: score or 0.0}, **spent, **plain} | changes


def parsed(line):
    """The record of a line as readers of a run get it."""
    return StoredRecord.from_json(line)


def answered(number, score, gold, **changes):
    """A record that holds its question and gold answers, as those of this version do."""
    if not isinstance(gold, dict):
        gold = {"answers": [*gold], "supporting": [], "extra": {}}
    return (
        record(number, score, question="Who?", options=None, gold=gold, document_characters=[9])
        | changes
    )


def config(dataset, method, model, changes):
    plain = {
        "method": {
            "name": method,
            "implementation": f"methods.{method}:M",
            "view": "document",
            "params": {"k": 5},
        },
        "dataset": {"name": dataset, "format": dataset.partition("/")[0], "scorers": [SCORE]},
        "model": {"name": model, "backend": "hf", "embedded": False},
        "seed": 0,
        "limit": None,
        "failed": "zero",
    }
    return plain | changes


def stored_config(**changes):
    """The settings of a stored run; changes: top-level keys."""
    return StoredConfig.from_json(config("musique", "pecan", "tiny", changes))


def write_run(
    root,
    records,
    *,
    dataset="musique",
    method="pecan",
    model="tiny",
    hash8="0123abcd",
    settings=None,
    manifest=None,
    documents=(),
    summary=None,
    origins=None,
):
    """Write a run folder and return it. `settings` and `manifest` replace top-level keys."""
    folder = root / dataset / f"{method}--{model}--{hash8}".replace("/", "~")
    folder.mkdir(parents=True)
    whole = config(dataset, method, model, settings or {})
    run = {"config": whole, "origins": {"seed": "default"} | (origins or {})}
    (folder / "run.yaml").write_text(yaml.safe_dump(run))
    made = {
        "command": ["harness", "run"],
        "started": "2026-01-02T03:04:05+00:00",
        "method": method,
        "hash": hash8,
    }
    used = {role: {"weights": role} for role in ("encoder", "reranker") if whole.get(role)}
    made["models"] = {"reader": {"weights": model}} | used
    made |= {"dataset": {"fingerprint": "f" * 64}, "scorers": {SCORE: "1"}}
    made |= {
        "git": {"commit": "c0ffee", "dirty": False},
        "packages": {"longdoc-harness": "0.1.0"},
        "warnings": [],
    }
    made |= manifest or {}
    (folder / "manifest.json").write_text(json.dumps(made))
    lines = (r.to_json() if isinstance(r, StoredRecord) else r for r in records)
    (folder / "records.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "documents.jsonl").write_text("".join(json.dumps(d) + "\n" for d in documents))
    numbers = {"state": "finished"} if summary is None else summary
    (folder / "summary.json").write_text(json.dumps({**numbers, "files": file_checksums(folder)}))
    return folder


def stored(root, scores, **changes):
    """A run with one record for each score, as read back from its folder."""
    return read_run(write_run(root, [record(i, s) for i, s in enumerate(scores)], **changes))


def mistake(ended, warnings=0):
    """The one sentence of a command that is refused, behind its warnings: exit code, stdout, stderr
    -> stderr."""
    code, out, err = ended
    assert (code, out, len(err.splitlines())) == (2, "", warnings + 1)
    return err

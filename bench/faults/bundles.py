"""Bundles that are forged after they were exported, their hashes made anew."""

import json
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from harness_audit.bundle import INDEX, answer_digest, digest, texts_digest

from bench.faults.commands import Bench, Kind, must, outcome, pocket_words
from harness.storage.records import StoredRecord

Files = dict[str, bytes]
Rows = list[dict[str, Any]]
_ANSWERED_WRONGLY = ("method.k=1", "method.chunk_tokens=16")


def _name(files: Files, end: str) -> str:
    """The name of the file of a bundle that ends so."""
    return next(name for name in files if name.endswith(end))


def _edit_rows(files: Files, change: Callable[[Rows], Any]) -> None:
    """Change the records of a bundle: `change` gets their rows, and changes them."""
    name = _name(files, "records.jsonl")
    rows = [json.loads(line) for line in files[name].splitlines()]
    change(rows)
    files[name] = "".join(json.dumps(row) + "\n" for row in rows).encode()


def _edit_json(files: Files, end: str, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change a JSON file of a bundle, given by the end of its name: `change` gets its object, and
    changes it."""
    name = _name(files, end)
    held = json.loads(files[name])
    change(held)
    files[name] = json.dumps(held).encode()


def _edit_settings(files: Files, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the settings in run.yaml of a bundle: `change` gets them, and changes them."""
    name = _name(files, "run.yaml")
    held = yaml.safe_load(files[name])
    change(held["config"])
    files[name] = yaml.safe_dump(held, sort_keys=False).encode()


def _seal(files: Files) -> None:
    """Compute all hashes of a bundle anew, as a forger who has read the code would."""
    index = json.loads(files[INDEX])
    (entry,) = index["runs"].values()
    rows = [json.loads(line) for line in files[_name(files, "records.jsonl")].splitlines()]
    records = [StoredRecord.from_json(row) for row in rows]
    entry["answers"] = {record.question_id: answer_digest(record) for record in records}
    entry["questions"] = {record.question_id: texts_digest(record) for record in records}
    index["files"] = {name: digest(data) for name, data in files.items() if name != INDEX}
    files[INDEX] = json.dumps(index).encode()


def all_right(rows: Rows) -> None:
    """All scores are 1."""
    for row in rows:
        row["scores"] = dict.fromkeys(row["scores"], 1.0)


def right_answers(rows: Rows) -> None:
    """The answers are the gold answers; the scores stay."""
    for row in rows:
        row["prediction"] = row["gold"]["answers"][0]


def gold_is_the_answer(rows: Rows) -> None:
    """The gold answers are what was answered; the scores stay."""
    for row in rows:
        row["gold"]["answers"] = [row["prediction"]]


def cheaper(rows: Rows) -> None:
    """Every answer read one token."""
    for row in rows:
        row["usage"]["answer"]["tokens_in"] = 1


def negative_cost(rows: Rows) -> None:
    """The first answer wrote -5 tokens."""
    rows[0]["usage"]["answer"]["tokens_out"] = -5


def question_dropped(rows: Rows) -> None:
    """The last question is left out."""
    rows.pop()


def question_made_up(rows: Rows) -> None:
    """The first question is there a second time, under another id."""
    rows.append({**rows[0], "question_id": "made-up"})


def failed_as_answered(rows: Rows) -> None:
    """The first question is said to have failed; its answer stays."""
    rows[0]["error"] = {"type": "ValueError", "message": "no"}


def other_shown_text(rows: Rows) -> None:
    """The first passage that was shown ends far beyond its document."""
    rows[0]["shown"][0]["end"] = 10**9


def score_is_text(rows: Rows) -> None:
    """The scores of the first question are texts."""
    rows[0]["scores"] = dict.fromkeys(rows[0]["scores"], "1")


def score_of_two(rows: Rows) -> None:
    """The scores of the first question are 2."""
    rows[0]["scores"] = dict.fromkeys(rows[0]["scores"], 2.0)


ROWS = (
    all_right, right_answers, gold_is_the_answer, cheaper, negative_cost, question_dropped,
    question_made_up, failed_as_answered, other_shown_text, score_is_text, score_of_two,
)  # fmt: skip


def _better_table(files: Files) -> None:
    """The table of the index says that the run took 0.1 seconds."""
    _edit_json(files, INDEX, lambda held: held["table"][0].update({"seconds": 0.1}))


def _better_summary(files: Files) -> None:
    """The summary says that all mean scores are 1."""

    def change(held: dict[str, Any]) -> None:
        """Set the mean of every score."""
        for entry in held["scores"].values():
            entry["mean"] = 1.0

    _edit_json(files, "summary.json", change)


def _fewer_asked(files: Files) -> None:
    """The summary says that one question was asked."""
    _edit_json(files, "summary.json", lambda held: held.update({"n_asked": 1}))


def _other_instruction(files: Files) -> None:
    """The settings have another instruction."""
    _edit_settings(files, lambda held: held["dataset"].update({"instruction": "Guess."}))


def _other_seed(files: Files) -> None:
    """The settings have another seed."""
    _edit_settings(files, lambda held: held.update({"seed": 5}))


def _other_hash(files: Files) -> None:
    """The manifest has another hash of the run."""
    _edit_json(files, "manifest.json", lambda held: held.update({"hash": 64 * "0"}))


def _other_fingerprint(files: Files) -> None:
    """The index has another fingerprint of every run."""

    def change(held: dict[str, Any]) -> None:
        """Set the fingerprint of every run."""
        for entry in held["runs"].values():
            entry["fingerprint"] = 64 * "0"

    _edit_json(files, INDEX, change)


def _no_scorer_versions(files: Files) -> None:
    """The index has no versions of scorers."""

    def change(held: dict[str, Any]) -> None:
        """Empty the versions of every run's scorers."""
        for entry in held["runs"].values():
            entry["scorers"] = {}

    _edit_json(files, INDEX, change)


FILES: tuple[Callable[[Files], None], ...] = (
    _better_table, _better_summary, _fewer_asked, _other_instruction, _other_seed, _other_hash,
    _other_fingerprint, _no_scorer_versions,
)  # fmt: skip


def forged_bundle(kind: Kind, _: Bench) -> None:
    """Each forgery of a bundle's records or files, its hashes made anew: verify ends with exit code
    4, or with a sentence and 2 or 3; no traceback. Raises SystemExit for an edit that changes
    nothing."""
    must([*pocket_words("bm25", "timed"), *_ANSWERED_WRONGLY])
    must(["export", "timed", "honest.zip"])
    must(["verify", "honest.zip"])
    with zipfile.ZipFile("honest.zip") as archive:
        honest = {name: archive.read(name) for name in archive.namelist()}
    edits: dict[str, Callable[[Files], None]] = {}
    for change_rows in ROWS:
        edits[change_rows.__name__] = partial(_edit_rows, change=change_rows)
    for change_files in FILES:
        edits[change_files.__name__.strip("_")] = change_files
    for name, edit in edits.items():
        kind.tries += 1
        files = dict(honest)
        edit(files)
        if files == honest:
            raise SystemExit(f"{name}: the edit changed nothing")
        _seal(files)
        path = Path(f"forged {name}.zip")
        with zipfile.ZipFile(path, "w") as archive:
            for each, data in files.items():
                archive.writestr(each, data)
        done = outcome(["verify", str(path)])
        if done.code not in (2, 3, 4) or "Traceback" in done.err:
            kind.fell.append(f"{name}: {done.words}; {Path('out.txt').read_text()[-300:]}")

"""Runs fabricated by seed, judged as `harness report --paper` judges them: python -m
bench.fabricated_values [--seed 0]

Each run is an honest one of BM25 on MuSiQue's official rows with one thing changed, alone and
beside two honest ones. Printed: dishonest runs that are certified, without a mark or a word on what
was not checked, and honest ones that are refused. Both should be none.
"""

import argparse
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from harness.storage.manifest_file import FirstPrompt
from harness.storage.records import StoredRecord
from harness.storage.run_folder import StoredRun
from harness.storage.summary_file import RunSummary
from reports.paper import comparable
from reports.paper.printed import Value, load
from reports.paper.published import published
from reports.paper.verdicts import NOT_COMPARABLE, frame
from tests.reports.paper_runs import changed_config, changed_manifest, paper_run
from tests.reports.test_paper_public_releases import official

Changes = dict[str, Any]
Make = Callable[[random.Random], tuple[Changes, Changes]]  # of the configuration, of the manifest
WEIGHTS = "models.reader.weights"
TEXT = "first_prompts.reader.text"
GOLD = {"answers": ["Mira"], "supporting": [], "extra": {}}


def _hash(dice: random.Random, digits: int = 40) -> str:
    """A random text of so many hexadecimal digits."""
    return f"{dice.getrandbits(4 * digits):0{digits}x}"


def _template(change: Callable[..., str]) -> Make:
    """What makes another chat template: `change` gets the first prompt and a random text, and
    returns what was sent instead."""
    return lambda dice: ({}, {TEXT: partial(change, extra=_hash(dice, 8))})


def _later_start(key: str) -> Make:
    """What gives the manifest a second start, as a shard has it, with another value under `key`."""
    return lambda dice: ({}, {"starts": [{}, {"changed": {key: _changed_value(key, dice)}}]})


def _changed_value(key: str, dice: random.Random) -> Any:
    """A value that the key of a manifest may have."""
    if key == "gpu":
        return _hash(dice)
    if key == "models":
        return {"reader": {"weights": _hash(dice)}}
    return {"commit": _hash(dice)}


DISHONEST: dict[str, Make] = {
    "temperature": lambda dice: ({"model.temperature": dice.uniform(0.1, 2)}, {}),
    "top_p": lambda dice: ({"model.top_p": dice.uniform(0.1, 0.9)}, {}),
    "max_tokens": lambda dice: ({"model.max_tokens": dice.randint(2, 30)}, {}),
    "thinking": lambda dice: ({"model.thinking": {"tokens": dice.randint(9, 4096)}}, {}),
    "sample": lambda dice: ({"sample": 2417, "sample_seed": dice.randint(1, 99)}, {}),
    "seed": lambda dice: ({"seed": dice.randint(1, 99)}, {}),
    "chunks": lambda dice: ({"method.params.chunk_tokens": dice.randint(20, 900)}, {}),
    "k": lambda dice: ({"method.params.k": dice.randint(6, 50)}, {}),
    "evidence": lambda dice: ({"method.view": "evidence"}, {}),
    "instruction": lambda dice: ({"dataset.instruction": f"Answer well. {_hash(dice)}"}, {}),
    "answer prefix": lambda dice: ({"dataset.answer_prefix": f"Answer {dice.randint(1, 9)}:"}, {}),
    "demonstration": lambda dice: ({"dataset.demonstration": f"Q: {_hash(dice)}"}, {}),
    "answer tokens": lambda dice: ({"dataset.max_answer_tokens": dice.randint(33, 999)}, {}),
    "retrieved file": lambda dice: (
        {"dataset.options": {"documents": f"{_hash(dice, 8)}.json"}},
        {},
    ),
    "adapter": lambda dice: ({"model.adapter": f"me/{_hash(dice, 8)}"}, {}),
    "hub owner": lambda dice: (
        {"model.source": "me/Llama-3.1-8B-Instruct"},
        {WEIGHTS: {"hub": f"me/{_hash(dice)}"}},
    ),
    "hub revision": lambda dice: ({"model.revision": _hash(dice)}, {}),
    "other code": lambda dice: ({}, {"git": {"commit": _hash(dice), "dirty": False}}),
    "uncommitted code": lambda dice: ({}, {"git": {"commit": "c0ffee", "dirty": True}}),
    "packages": lambda dice: ({}, {"packages": {"longdoc-harness": f"0.1.{dice.randint(1, 9)}"}}),
    "other weights": lambda dice: (
        {},
        {WEIGHTS: {"hub": "meta-llama/Llama-3.1-8B-Instruct", "commit": _hash(dice)}},
    ),
    "other rows": lambda dice: (
        {},
        {"dataset": {"revision": "0" * 40, "fingerprint": _hash(dice, 64)}},
    ),
    "quantised": lambda dice: (
        {},
        {"models.reader.quantised": {"method": "bnb", "bits": dice.choice((4, 8))}},
    ),
    "prompts": lambda dice: ({}, {"prompts": {"read": f"Read this. {_hash(dice)}"}}),
    "scorer": lambda dice: ({}, {"scorers": {"longbench.qa_f1_score": f"{dice.randint(2, 9)}"}}),
    "template: system": _template(
        lambda text, extra: text.replace("<|eot_id|>", f"Be brief. {extra}<|eot_id|>", 1)
    ),
    "template: opening": _template(lambda text, extra: f"<s>{extra}{text}"),
    "template: before the prompt": _template(
        lambda text, extra: text.replace("user<|end_header_id|>\n\n", f"\\g{extra}")
    ),
    "template: behind the prompt": _template(
        lambda text, extra: text.replace(
            "<|eot_id|><|start_header_id|>assistant",
            f"{extra}<|eot_id|><|start_header_id|>assistant",
        )
    ),
    "template: not recorded": lambda dice: ({}, {"first_prompts": {}}),
    "template: token ids": lambda dice: (
        {},
        {"first_prompts.reader.ids": [dice.randint(1, 9)] * 9},
    ),
    "corrected gold": lambda dice: (
        {},
        {
            "corrected": [
                {
                    "questions": dice.randint(1, 99),
                    "at": "2026-01-01",
                    "file": "c.jsonl",
                    "scores": {},
                }
            ]
        },
    ),
    "server with extra": lambda dice: (
        {"model.backend": "endpoint", "model.extra": {"temperature": dice.random()}},
        {},
    ),
    "thinking server": lambda dice: (
        {"model.backend": "endpoint", "model.thinking": {"tokens": dice.randint(9, 99)}},
        {},
    ),
    "another reader": lambda dice: (
        {"roles": {"reader": {"name": f"m{_hash(dice, 4)}", "backend": "hf"}}},
        {},
    ),
    "swapped names": lambda dice: (
        {"dataset.swap": "entities", "dataset.swap_seed": dice.randint(0, 9)},
        {},
    ),
    "solved examples": lambda dice: ({"dataset.shots": dice.randint(1, 9)}, {}),
    "other parser": lambda dice: ({"dataset.raw_replies": True}, {}),
    "smaller window": lambda dice: (
        {"model.window": 8192},
        {"models.reader.window": dice.randint(999, 8192)},
    ),
    "imported": lambda dice: ({}, {"imported": {"tool": "t", "files": [], "sha256": _hash(dice)}}),
    **{
        f"a shard's {key}": _later_start(key)
        for key in ("git", "packages", "models", "prompts", "scorers", "gpu")
    },
}
HONEST: dict[str, Make] = {
    "as it is": lambda dice: ({}, {}),
    "dtype": lambda dice: ({}, {"models.reader.dtype": dice.choice(("float16", "float32"))}),
    "eager attention": lambda dice: ({"model.attention": "eager"}, {}),
    "resolved revision": lambda dice: ({"dataset.revision": _hash(dice)}, {}),
    "rows of a file": lambda dice: (
        {"dataset.data": f"/data/{_hash(dice, 6)}.jsonl", "dataset.hub": None},
        {},
    ),
    "mirror of the rows": lambda dice: ({"dataset.hub": f"mirror/{_hash(dice, 6)}"}, {}),
    "longer window": lambda dice: (
        {"model.window": None},
        {"models.reader.window": 131072 + dice.randint(0, 9)},
    ),
}
RECORDS: dict[str, Callable[[str, StoredRecord], dict[str, Any]]] = {
    "scores edited": lambda score, row: {"scores": {score: 1.0}},
    "gold edited": lambda score, row: {
        "gold": {**GOLD, "answers": ["Tom", "Mira"]},
        "scores": {score: 1.0},
    },
    "400 questions failed": lambda score, row: {"error": {"type": "T", "message": ""}, "usage": {}},
    "wrong answers without a score": lambda score, row: {
        "error": {"type": "T", "message": ""},
        "scores": {},
    },
    "the text that was scored": lambda score, row: {
        "notes": {"scored": "Mira"},
        "scores": {score: 1.0},
    },
    "another question": lambda score, row: {
        "question": f"Is it {row.question}",
        "prediction": "Mira",
        "scores": {score: 1.0},
    },
    "replies of another run": lambda score, row: {
        "usage": {phase: {**used, "recalled": 1} for phase, used in row.usage.items()}
    },
}
MORE = ("questions left out", "a question twice", "not finished")
_GOLD = ("gold edited", "another question", "other rows")
WORDS = {"other weights": "weights", **dict.fromkeys(_GOLD, "gold answers")}
"""What stands beside every verdict here, as not checked, and holds for these kinds."""


def honest_run(folder: Path, value: Value) -> StoredRun:
    """A run of BM25 over the official rows of MuSiQue, two in seven of them answered right, with
    this code and the paper's template.

    Its first prompt is the method's prompt with "x" in its fields, in the template of Llama.

    Args:
        folder: Where the run folder is made.
        value: The printed value that it is to be compared with.
    """
    llama = published().models["Llama-3.1-8B-Instruct"]
    score = str(value.metric.score)
    rows: list[dict[str, Any]] = []
    for number, official_row in enumerate(official()):
        is_right = number % 7 < 2
        prediction = "Mira" if is_right else "Tom"
        scores = {score: float(is_right)}
        rows.append({**official_row, "prediction": prediction, "scores": scores, "gold": GOLD})
    run = paper_run(folder, "bm25", "musique", rows, manifest=_made_here())
    prompts = run.manifest.prompts.items()
    user_prompt = next(prompt for name, prompt in prompts if ", system" not in name)
    filled_prompt = re.sub(r"\{[a-z_]+\}", "x", user_prompt)
    sent = f"{llama.opening}{llama.user}{filled_prompt}{llama.closing}"
    first_prompt = FirstPrompt(text=sent, ids=llama.ids)
    return replace(run, manifest=run.manifest.with_values(first_prompts={"reader": first_prompt}))


def _made_here() -> dict[str, Any]:
    """The checkout and packages of this process, as in a manifest."""
    made = comparable.program_versions()
    return {"git": made.git and made.git.to_json(), "packages": made.packages}


def fabricated(kind: str, honest: StoredRun, score: str, dice: random.Random) -> StoredRun:
    """A copy of the honest run with one thing changed: its end, some of its records, or its
    configuration and manifest.

    Args:
        kind: What is changed, a key of DISHONEST, HONEST or RECORDS, or one of MORE.
        honest: The honest run.
        score: The name of the score.
        dice: Draws values and records.
    """
    if kind == "not finished":
        return replace(honest, summary=RunSummary())
    if kind in RECORDS or kind in MORE:
        return replace(honest, records=fabricated_records(kind, honest, score, dice))
    config_changes, manifest_changes = {**DISHONEST, **HONEST}[kind](dice)
    change_first_prompt = manifest_changes.get(TEXT)
    if callable(change_first_prompt):
        first_prompt = honest.manifest.first_prompt("reader").text
        manifest_changes = {TEXT: change_first_prompt(first_prompt)}
    return replace(
        honest,
        config=changed_config(honest.config, config_changes),
        manifest=changed_manifest(honest.manifest, manifest_changes),
    )


def fabricated_records(
    kind: str, honest: StoredRun, score: str, dice: random.Random
) -> list[StoredRecord]:
    """The records of the honest run, 400 of them changed or left out, or 40 where their scores go.

    Args:
        kind: What is changed, a key of RECORDS or one of MORE.
        honest: The honest run.
        score: The name of the score.
        dice: Draws the records.
    """
    honest_records = list(honest.records)
    n_changed = 40 if kind.endswith("without a score") else 400
    changed_numbers = set(dice.sample(range(len(honest_records)), n_changed))
    records: list[StoredRecord] = []
    for number, record in enumerate(honest_records):
        if number not in changed_numbers:
            records.append(record)
        elif kind == "a question twice":
            next_number = (number + 1) % len(honest_records)
            records.append(honest_records[next_number])
        elif kind != "questions left out":
            records.append(replace(record, **RECORDS[kind](score, record)))
    return records


def judged(
    kind: str, run: StoredRun, others: Sequence[StoredRun], plain: Mapping[str, Any], value: Value
) -> tuple[bool, bool, bool]:
    """Whether a run is (refused; certified alone; certified beside others). It is certified where
    the verdict has no mark and nothing is called unchecked that an honest run has checked.

    Args:
        kind: What was changed in the run.
        run: The run.
        others: Honest runs that stand beside it.
        plain: The row of an honest run alone.
        value: The printed value that it is compared with.
    """
    groups_of_others: list[Sequence[StoredRun]] = [[]]
    if others:
        groups_of_others.append(others)
    is_certified: list[bool] = []  # alone, and beside others if there are any
    for group in groups_of_others:
        # Runs are told apart in the table by the names of their folders.
        named = [replace(other, path=Path(f"r--{n}")) for n, other in enumerate(group)]
        table = frame([*named, replace(run, path=Path("r--9"))], [value])
        own_rows = table[table["run"] == "r--9"]
        if own_rows.empty or own_rows["verdict"].str.startswith(NOT_COMPARABLE).any():
            return True, False, False
        has_verdict_of_honest = own_rows["verdict"].iloc[0] == plain["verdict"]
        is_unchecked_everywhere = WORDS.get(kind, "?") in plain["verdict"]
        has_further_notes = bool(set(own_rows["notes"].iloc[0]) - set(plain["notes"]))
        is_certified.append(
            has_verdict_of_honest and not is_unchecked_everywhere and not has_further_notes
        )
    return False, is_certified[0], is_certified[-1]


def main() -> None:
    """Judge a run of each kind, and print which were certified or refused wrongly."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0)
    dice = random.Random(parser.parse_args().seed)
    value = next(
        printed
        for printed in load()
        if printed.entry.preset == "bm25"
        and printed.rules[0].dataset == "musique"
        and printed.label == "F1"
    )
    certified_alone: list[str] = []
    certified_beside: list[str] = []
    honest_refused: list[str] = []
    with TemporaryDirectory() as folder:
        honest = honest_run(Path(folder), value)
        plain = frame([honest], [value]).iloc[0]
        kinds = [*DISHONEST, *RECORDS, *MORE]
        kinds += dice.choices(kinds, k=max(0, 60 - len(kinds)))
        for kind in [*kinds, *HONEST]:
            run = fabricated(kind, honest, str(value.metric.score), dice)
            is_refused, is_certified_alone, is_certified_beside = judged(
                kind, run, [honest, honest], plain, value
            )
            if kind in HONEST and is_refused:
                honest_refused.append(kind)
            if kind not in HONEST and is_certified_alone:
                certified_alone.append(kind)
            if kind not in HONEST and is_certified_beside:
                certified_beside.append(kind)
    print(
        f"dishonest: {len(kinds)} runs; certified without a mark, alone: {len(certified_alone)}",
        *sorted(set(certified_alone)),
    )
    print(
        f"certified without a mark, beside honest runs: {len(certified_beside)}",
        *sorted(set(certified_beside)),
    )
    print(f"honest: {len(HONEST)} runs, refused: {len(honest_refused)}", *honest_refused)


if __name__ == "__main__":
    main()

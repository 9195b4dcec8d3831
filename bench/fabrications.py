"""Edits of a run folder on disk, each by name: what somebody might do to look better, or by mistake.

    for edit in EDITS: edit.change(Folder(copy_of_a_run, an_honest_run_beside_it))

`topic`: a word of what `harness verify` says that it never checks, for edits that no bundle shows.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bench.commands import call
from harness.engine.run_hash import recorded_inputs
from harness.storage.checksums import checksums
from harness.storage.run_folder import read_run
from harness.storage.run_summary import summarise

Record = dict[str, Any]


@dataclass
class Folder:
    """A run folder that is edited; other: an honest run of another method over the same
    questions."""

    path: Path
    other: Path

    def config(self, **changes: Any) -> None:
        """Set settings of run.yaml by dotted key, with _ for the dots of the last but one: {"model__seed": 3}."""
        held = yaml.safe_load((self.path / "run.yaml").read_text())
        for key, value in changes.items():
            _set(held["config"], key.split("__"), value)
        (self.path / "run.yaml").write_text(yaml.safe_dump(held, sort_keys=False))

    def origin(self, path: str, origin: str) -> None:
        """Say that a setting comes from elsewhere."""
        held = yaml.safe_load((self.path / "run.yaml").read_text())
        held["origins"][path] = origin
        (self.path / "run.yaml").write_text(yaml.safe_dump(held, sort_keys=False))

    def manifest(self, **changes: Any) -> None:
        """Set values of manifest.json likewise."""
        held = json.loads((self.path / "manifest.json").read_text())
        for key, value in changes.items():
            _set(held, key.split("__"), value)
        (self.path / "manifest.json").write_text(json.dumps(held, indent=2))

    def write_manifest(self, held: Record) -> None:
        (self.path / "manifest.json").write_text(json.dumps(held, indent=2))

    def manifest_of(self) -> Record:
        held: Record = json.loads((self.path / "manifest.json").read_text())
        return held

    def summary(self, **changes: Any) -> None:
        held = json.loads((self.path / "summary.json").read_text())
        for key, value in changes.items():
            _set(held, key.split("__"), value)
        (self.path / "summary.json").write_text(json.dumps(held, indent=2))

    def rows(self, name: str = "records.jsonl") -> list[Record]:
        return [json.loads(line) for line in (self.path / name).read_text().splitlines()]

    def others(self) -> list[Record]:
        text = (self.other / "records.jsonl").read_text()
        return [json.loads(line) for line in text.splitlines()]

    def write(self, rows: list[Record], name: str = "records.jsonl") -> None:
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (self.path / name).write_text(text)

    def each(self, change: Callable[[Record], None], share: float = 1.0) -> None:
        """Change the records, or the first `share` of them."""
        rows = self.rows()
        for row in rows[: max(1, round(share * len(rows)))]:
            change(row)
        self.write(rows)

    def usage(self, change: Callable[[Record], None]) -> None:
        """Change every phase of every record's usage."""

        def both(row: Record) -> None:
            for phase in row["usage"].values():
                change(phase)

        self.each(both)

    def text(self, name: str, change: Callable[[str], str]) -> None:
        """Change the text of a file."""
        place = self.path / name
        place.write_text(change(place.read_text()))

    def rename(self) -> None:
        """Give manifest and folder the hash of the settings as they are now."""
        run = read_run(self.path)
        inputs = recorded_inputs(run.config, run.manifest)
        assert inputs is not None
        self.manifest(hash=inputs.hash8())
        start = self.path.name.rpartition("--")[0]
        self.path = self.path.rename(self.path.with_name(f"{start}--{inputs.hash8()}"))

    def summarise(self) -> None:
        """Compute the numbers of summary.json anew from the records."""
        run = read_run(self.path)
        self.summary(**summarise(run.records, run.documents, run.config).to_json())

    def seal(self) -> None:
        """Compute the checksums of summary.json anew, as a careful forger would."""
        self.summary(files=checksums(self.path))


def _set(held: Record, keys: list[str], value: Any) -> None:
    for key in keys[:-1]:
        held = held.setdefault(key, {})
    held[keys[-1]] = value


@dataclass(frozen=True)
class Edit:
    """One kind of edit.

    topic: what verify says that it never checks, where this is of it; hidden_by: why no file shows
    it once the checksums are computed anew, for kinds that compare and report cannot see; of: the
    method whose run is edited.
    """

    name: str
    change: Callable[[Folder], None]
    topic: str = ""
    hidden_by: str = ""
    of: str = "bm25"


def setting(name: str, key: str, value: Any, topic: str = "") -> Edit:
    topic = topic or key.replace("__", ".")
    return Edit(name, lambda folder: folder.config(**{key: value}), topic)


def described(name: str, key: str, value: Any, topic: str = "") -> Edit:
    return Edit(name, lambda folder: folder.manifest(**{key: value}), topic)


def of_records(name: str, change: Callable[[Record], None], share: float = 1.0) -> Edit:
    return Edit(name, lambda folder: folder.each(change, share))


def of_usage(name: str, change: Callable[[Record], None], topic: str = "") -> Edit:
    return Edit(name, lambda folder: folder.usage(change), topic)


def _right(row: Record) -> None:
    """All scores are what a right answer gets."""
    row["scores"] = dict.fromkeys(row["scores"], 1.0)


def _gold_is_the_answer(row: Record) -> None:
    row["gold"]["answers"] = [row["prediction"] or "nothing"]
    _right(row)


def _alias(row: Record) -> None:
    row["gold"]["answers"].append(row["prediction"] or "nothing")
    _right(row)


def _other_question(row: Record) -> None:
    row["question"] = f"{row['question']} (Answer with one word.)"


def _right_answer(row: Record) -> None:
    row["prediction"] = row["gold"]["answers"][0]
    _right(row)


def _half_of_another(folder: Folder) -> None:
    rows, others = folder.rows(), folder.others()
    half = len(rows) // 2
    folder.write([*others[:half], *rows[half:]])


def _divide(key: str, number: int) -> Callable[[Record], None]:
    def change(phase: Record) -> None:
        if key == "flops":
            phase["flops"] = {name: value / number for name, value in phase["flops"].items()}
            phase["roles"] = {name: value / number for name, value in phase["roles"].items()}
        else:
            phase[key] = phase[key] // number if key != "seconds" else phase[key] / number

    return change


def _faster(folder: Folder) -> None:
    """All seconds are a tenth, and the program computes the summary from them."""
    folder.usage(_divide("seconds", 10))
    folder.seal()
    call("score", str(folder.path))


def _negative(phase: Record) -> None:
    phase["tokens_in"] = -phase["tokens_in"]


def _nothing_used(row: Record) -> None:
    row["usage"] = {}


def _zero(phase: Record) -> None:
    for key in ("tokens_in", "tokens_out", "requests", "seconds"):
        phase[key] = 0
    phase["flops"] = dict.fromkeys(phase["flops"], 0.0)
    phase["roles"] = dict.fromkeys(phase["roles"], 0.0)


def _fifty(phase: Record) -> None:
    phase["requests"] = 50


def _no_passages(row: Record) -> None:
    row["shown"] = []


def _moved_passages(row: Record) -> None:
    for piece in row["shown"]:
        piece["end"] += 100_000


def _other_text(folder: Folder) -> None:
    """The texts that were shown are others, with the old checksums."""
    rows = folder.rows("texts.jsonl")
    for row in rows:
        row["text"] = "Nothing was shown here."
    folder.write(rows, "texts.jsonl")


def _inline_text(row: Record) -> None:
    for piece in row["shown"]:
        piece.pop("text_sha256", None)
        piece["text"] = "The answer is in this passage."


def _without_the_worst(folder: Folder) -> None:
    rows = sorted(folder.rows(), key=lambda row: sum(row["scores"].values()))
    kept = rows[len(rows) // 2 :]
    folder.write(kept)
    folder.summary(n_total=len(kept), n_scored=len(kept), n_asked=len(kept))
    folder.manifest(dataset__questions=len(kept))


def _without_the_worst_openly(folder: Folder) -> None:
    rows = sorted(folder.rows(), key=lambda row: sum(row["scores"].values()))
    folder.write(rows[len(rows) // 2 :])


def _one_answer_for_all(folder: Folder) -> None:
    """Each record is the first one, under another question's id."""
    rows = folder.rows()
    folder.write([{**rows[0], "question_id": row["question_id"]} for row in rows])


def _one_document(row: Record) -> None:
    row["document_ids"] = ["all"]


def _steps(row: Record) -> None:
    flops = {"all-params": 1e15, "full": 1e15, "causal": 1e15, "executed": 1e15}
    row["steps"] = [
        {"action": "visit", "node": 1, "level": 1, "scores": {}, "tokens": 9, "p_yes": None,
         "flops": flops, "shown": None, "note": "", "answer": None, "answer_flops": {},
         "probe_flops": {}}
    ]  # fmt: skip


def _failed(row: Record) -> None:
    row["error"] = {"type": "WindowExceeded", "message": "too long"}


def _prompt(change: Callable[[str], str]) -> Callable[[Folder], None]:
    def apply(folder: Folder) -> None:
        first = folder.manifest_of()["first_prompts"]["reader"]
        folder.manifest(first_prompts__reader__text=change(first["text"]))

    return apply


def _hint(text: str) -> str:
    return text.replace("\nAnswer:", "\n(The answer is Torford.)\nAnswer:")


def _other_prompt(folder: Folder) -> None:
    prompts = folder.manifest_of()["prompts"]
    folder.manifest(prompts={name: f"Think. {text}" for name, text in prompts.items()})


def _asked_examples(folder: Folder) -> None:
    asked = [row["question_id"] for row in folder.rows()][:2]
    folder.config(dataset__shots=2, dataset__shots_ids=asked, dataset__shots_from="validation")


def _indexes(change: Callable[[Record], None]) -> Callable[[Folder], None]:
    def apply(folder: Folder) -> None:
        rows = folder.rows("documents.jsonl")
        for row in rows:
            change(row)
        folder.write(rows, "documents.jsonl")

    return apply


def _dear_index(row: Record) -> None:
    row["usage"] = {"index": {"tokens_in": -5, "tokens_out": 0, "seconds": 1.0}}


def _no_indexes(folder: Folder) -> None:
    folder.write([], "documents.jsonl")


def _headline(folder: Folder) -> None:
    held = yaml.safe_load((folder.path / "run.yaml").read_text())
    scorers = held["config"]["dataset"]["scorers"]
    folder.config(dataset__scorers=[*scorers[1:], scorers[0]])


def _small_shape(folder: Folder) -> None:
    folder.manifest(shapes__reader__layers=1, shapes__reader__mlp=16)


def _higher_mean(folder: Folder) -> None:
    summary = json.loads((folder.path / "summary.json").read_text())
    first = next(iter(summary["scores"]))
    summary["scores"][first]["mean"] = 0.99
    folder.summary(scores=summary["scores"])


EDITS: tuple[Edit, ...] = (
    setting("temperature", "model__temperature", 0.7),
    setting("top_p", "model__top_p", 0.5),
    setting("max_tokens", "model__max_tokens", 8),
    setting("seed", "seed", 7),
    setting("failed: skip", "failed", "skip"),
    setting("instruction", "dataset__instruction", "Answer well."),
    setting("answer prefix", "dataset__answer_prefix", "So the answer is:"),
    setting("demonstration", "dataset__demonstration", "Q: Who? A: Mira."),
    setting("answer tokens", "dataset__max_answer_tokens", 640),
    setting("raw replies", "dataset__raw_replies", True),
    setting("no chat template", "dataset__chat", False),
    setting("swapped names", "dataset__swap", "entities"),
    setting("solved examples", "dataset__shots", 3),
    Edit("solved examples among the questions", _asked_examples),
    setting("options of the data", "dataset__options__tokens", 900),
    setting("another format", "dataset__format", "qasper"),
    setting("another split", "dataset__split", "test"),
    setting("more chunks", "method__params__k", 50),
    setting("longer chunks", "method__params__chunk_tokens", 900),
    setting("the evidence alone", "method__view", "evidence"),
    setting("another name", "method__name", "pecan"),
    setting("template", "model__template", "none"),
    setting("template date", "model__template_date", "1 Jan 2020"),
    setting("dtype", "model__dtype", "bfloat16"),
    setting("window", "model__window", 512),
    setting("adapter", "model__adapter", "me/adapter"),
    setting("attention", "model__attention", "eager"),
    setting("tokenizer", "model__tokenizer", "me/tokenizer"),
    setting("extra", "model__extra", {"enable_thinking": True}),
    setting("thinking", "model__thinking", {"open": "<t>", "close": "</t>", "tokens": 999}),
    setting("no embedded model", "model__embedded", False),
    setting("deterministic", "model__deterministic", True),
    setting("price", "model__price", {"input": 0.01, "output": 0.01}, "prices"),
    setting("batch", "model__batch", True),
    setting("sample", "sample", 3),
    Edit("another headline", _headline, "dataset.headline"),
    described("weights", "models__reader__weights", {"files": "0" * 64}),
    described("recorded dtype", "models__reader__dtype", "float16"),
    described("recorded tokenizer", "models__reader__tokenizer", "0" * 64),
    described("recorded template", "models__reader__template", "0" * 64),
    described("recorded window", "models__reader__window", 512),
    described("rows", "dataset__fingerprint", "0" * 64),
    Edit("prompts", _other_prompt),
    described("own code", "code", {"mine.py": "0" * 64}),
    described("scorer version", "scorers__longbench.qa_f1_score", "9", "version of"),
    Edit("small model", _small_shape),
    described("started in 2031", "started", "2031-01-01T00:00:00+00:00"),
    described("finished before it began", "finished", "2001-01-01T00:00:00+00:00"),
    Edit("another first prompt", _prompt(lambda text: "Tell me a story about a lighthouse.")),
    Edit("a first prompt with the answer", _prompt(_hint)),
    described("packages", "packages__transformers", "4.0.0", "packages"),
    described("commit", "git__commit", "0" * 40, "code"),
    described("GPU", "gpu", "NVIDIA H100", "machine"),
    described("rows left out", "dataset__skipped", {"too long": 3}),
    of_records("gold is the answer", _gold_is_the_answer),
    of_records("an alias more", _alias),
    of_records("question text", _other_question),
    of_records("scores", _right),
    of_records("right answers", _right_answer, 0.5),
    Edit("half the rows of another method", _half_of_another),
    of_usage("tokens / 10", _divide("tokens_in", 10)),
    of_usage("FLOPs / 10", _divide("flops", 10)),
    of_usage("negative tokens", _negative),
    of_records("no usage", _nothing_used),
    of_usage("zero usage", _zero),
    of_usage("50 requests", _fifty),
    of_usage("seconds / 10", _divide("seconds", 10), "seconds"),
    Edit(
        "seconds / 10, summary too",
        _faster,
        "seconds",
        "a faster machine would have written the same",
    ),
    of_records("no passages", _no_passages),
    of_records("passages out of the document", _moved_passages),
    Edit("other texts shown", _other_text),
    of_records("other passages", _inline_text),
    Edit("the worst left out", _without_the_worst),
    Edit("the worst left out, openly", _without_the_worst_openly),
    Edit("one answer for all", _one_answer_for_all),
    of_records("one document", _one_document),
    of_records("made-up steps", _steps),
    of_records("failed questions", _failed, 0.3),
    Edit("indexes with costs below zero", _indexes(_dear_index)),
    Edit("no indexes", _no_indexes),
    Edit("a higher mean", _higher_mean),
)

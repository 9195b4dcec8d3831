"""Edits of a run folder on disk, each by name: what somebody might do to look better, or by mistake.

    for edit in EDITS: edit.change(Folder(copy_of_a_run, an_honest_run_beside_it))

`topic`: a word of what `harness verify` says that it never checks, for edits that no bundle shows.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from bench.commands import call
from harness.engine.run_hash import recorded_inputs
from harness.storage.checksums import file_checksums
from harness.storage.run_folder import read_run
from harness.storage.run_summary import summarise

Record = dict[str, Any]


@dataclass
class Folder:
    """A run folder on disk that is edited. Each method rewrites one of its files.

    Args:
        path: The folder.
        other: The folder of an honest run of another method over the same questions.
    """

    path: Path
    other: Path

    def config(self, **changes: Any) -> None:
        """Set settings in run.yaml; a key has "__" for its dots: config(model__temperature=0.7)."""
        held = yaml.safe_load((self.path / "run.yaml").read_text())
        for key, value in changes.items():
            _set(held["config"], key.split("__"), value)
        (self.path / "run.yaml").write_text(yaml.safe_dump(held, sort_keys=False))

    def origin(self, path: str, origin: str) -> None:
        """Write into run.yaml that a setting comes from elsewhere.

        Args:
            path: The setting, with dots.
            origin: Where it is said to come from.
        """
        held = yaml.safe_load((self.path / "run.yaml").read_text())
        held["origins"][path] = origin
        (self.path / "run.yaml").write_text(yaml.safe_dump(held, sort_keys=False))

    def manifest(self, **changes: Any) -> None:
        """Set values in manifest.json; a key has "__" for its dots."""
        held = json.loads((self.path / "manifest.json").read_text())
        for key, value in changes.items():
            _set(held, key.split("__"), value)
        (self.path / "manifest.json").write_text(json.dumps(held, indent=2))

    def write_manifest(self, held: Record) -> None:
        """Write all of manifest.json anew."""
        (self.path / "manifest.json").write_text(json.dumps(held, indent=2))

    def manifest_of(self) -> Record:
        """Read manifest.json."""
        held: Record = json.loads((self.path / "manifest.json").read_text())
        return held

    def summary(self, **changes: Any) -> None:
        """Set values in summary.json; a key has "__" for its dots."""
        held = json.loads((self.path / "summary.json").read_text())
        for key, value in changes.items():
            _set(held, key.split("__"), value)
        (self.path / "summary.json").write_text(json.dumps(held, indent=2))

    def rows(self, name: str = "records.jsonl") -> list[Record]:
        """Read the rows of a file of JSON lines, by default the records."""
        return [json.loads(line) for line in (self.path / name).read_text().splitlines()]

    def others(self) -> list[Record]:
        """Read the records of the other run."""
        text = (self.other / "records.jsonl").read_text()
        return [json.loads(line) for line in text.splitlines()]

    def write(self, rows: list[Record], name: str = "records.jsonl") -> None:
        """Write rows to a file of JSON lines, by default the records."""
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (self.path / name).write_text(text)

    def each(self, change: Callable[[Record], None], share: float = 1.0) -> None:
        """Change the records, or the first `share` of them: `change` is called with each and edits
        it."""
        rows = self.rows()
        for row in rows[: max(1, round(share * len(rows)))]:
            change(row)
        self.write(rows)

    def usage(self, change: Callable[[Record], None]) -> None:
        """Change the usage of every phase of every record: `change` is called with each and edits
        it."""

        def both(row: Record) -> None:
            """Change all phases of a record."""
            for phase in row["usage"].values():
                change(phase)

        self.each(both)

    def text(self, name: str, change: Callable[[str], str]) -> None:
        """Replace the text of a file by what `change` makes of it."""
        place = self.path / name
        place.write_text(change(place.read_text()))

    def rename(self) -> None:
        """Give the manifest and the folder's name the hash of the settings as they are now; `path`
        is then the new folder."""
        run = read_run(self.path)
        inputs = recorded_inputs(run.config, run.manifest)
        assert inputs is not None
        self.manifest(hash=inputs.hash8())
        start = self.path.name.rpartition("--")[0]
        self.path = self.path.rename(self.path.with_name(f"{start}--{inputs.hash8()}"))

    def summarise(self) -> None:
        """Compute the numbers of summary.json anew from the records."""
        run = read_run(self.path)
        self.summary(**summarise(run.records, run.index_lines, run.config).to_json())

    def seal(self) -> None:
        """Compute the checksums of summary.json anew, as a careful forger would."""
        self.summary(files=file_checksums(self.path))


def _set(held: Record, keys: list[str], value: Any) -> None:
    """Set the value inside nested objects that the path `keys` leads to; missing objects are
    made."""
    for key in keys[:-1]:
        held = held.setdefault(key, {})
    held[keys[-1]] = value


@dataclass(frozen=True)
class Edit:
    """One kind of edit.

    Args:
        name: Its name.
        change: Makes the edit in a run folder.
        topic: What verify says that it never checks, where the edit is of it; "" else.
        of: The method whose run is edited.
        line: What the last line of compare and report says that it did not check, where no file
            shows the edit; "" else.
    """

    name: str
    change: Callable[[Folder], None]
    topic: str = ""
    of: str = "bm25"
    line: str = ""


def setting(name: str, key: str, value: Any, topic: str = "") -> Edit:
    """An edit that sets one setting of run.yaml; its topic is by default the setting's name."""
    topic = topic or key.replace("__", ".")
    return Edit(name, lambda folder: folder.config(**{key: value}), topic)


def described(name: str, key: str, value: Any, topic: str = "") -> Edit:
    """An edit that sets one value of manifest.json."""
    return Edit(name, lambda folder: folder.manifest(**{key: value}), topic)


def of_records(name: str, change: Callable[[Record], None], share: float = 1.0) -> Edit:
    """An edit that changes the records, or the first `share` of them."""
    return Edit(name, lambda folder: folder.each(change, share))


def of_usage(name: str, change: Callable[[Record], None], topic: str = "") -> Edit:
    """An edit that changes the usage of all records."""
    return Edit(name, lambda folder: folder.usage(change), topic)


def _right(row: Record) -> None:
    """All scores are what a right answer gets."""
    row["scores"] = dict.fromkeys(row["scores"], 1.0)


def _gold_is_the_answer(row: Record) -> None:
    """The gold answer is what the method answered, and all scores are those of a right answer."""
    row["gold"]["answers"] = [row["prediction"] or "nothing"]
    _right(row)


def _alias(row: Record) -> None:
    """What the method answered is one more gold answer, and all scores are those of a right
    answer."""
    row["gold"]["answers"].append(row["prediction"] or "nothing")
    _right(row)


def _other_question(row: Record) -> None:
    """The question has another text."""
    row["question"] = f"{row['question']} (Answer with one word.)"


def _right_answer(row: Record) -> None:
    """The answer is the gold answer, and all scores are those of a right one."""
    row["prediction"] = row["gold"]["answers"][0]
    _right(row)


def _half_of_another(folder: Folder) -> None:
    """The first half of the records are those of the other method."""
    rows, others = folder.rows(), folder.others()
    half = len(rows) // 2
    folder.write([*others[:half], *rows[half:]])


def _divide(key: str, number: int) -> Callable[[Record], None]:
    """What divides one value of a phase's usage by a number; for "flops" those of all roles too."""

    def change(phase: Record) -> None:
        """Divide the value in the usage of one phase."""
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
    """The tokens that were read are a negative number."""
    phase["tokens_in"] = -phase["tokens_in"]


def _nothing_used(row: Record) -> None:
    """The record has no usage."""
    row["usage"] = {}


def _zero(phase: Record) -> None:
    """The phase cost nothing."""
    for key in ("tokens_in", "tokens_out", "requests", "seconds"):
        phase[key] = 0
    phase["flops"] = dict.fromkeys(phase["flops"], 0.0)
    phase["roles"] = dict.fromkeys(phase["roles"], 0.0)


def _fifty(phase: Record) -> None:
    """The phase made 50 requests."""
    phase["requests"] = 50


def _no_passages(row: Record) -> None:
    """The reader was shown nothing."""
    row["shown"] = []


def _moved_passages(row: Record) -> None:
    """The passages end far behind their texts."""
    for piece in row["shown"]:
        piece["end"] += 100_000


def _other_text(folder: Folder) -> None:
    """The texts that were shown are others, with the old checksums."""
    rows = folder.rows("texts.jsonl")
    for row in rows:
        row["text"] = "Nothing was shown here."
    folder.write(rows, "texts.jsonl")


def _inline_text(row: Record) -> None:
    """The passages have another text, in the record itself."""
    for piece in row["shown"]:
        piece.pop("text_sha256", None)
        piece["text"] = "The answer is in this passage."


def _without_the_worst(folder: Folder) -> None:
    """The worse half of the records is gone, and all numbers are those of the others."""
    rows = sorted(folder.rows(), key=lambda row: sum(row["scores"].values()))
    kept = rows[len(rows) // 2 :]
    folder.write(kept)
    folder.summary(n_total=len(kept), n_scored=len(kept), n_asked=len(kept))
    folder.manifest(dataset__questions=len(kept))


def _without_the_worst_openly(folder: Folder) -> None:
    """The worse half of the records is gone."""
    rows = sorted(folder.rows(), key=lambda row: sum(row["scores"].values()))
    folder.write(rows[len(rows) // 2 :])


def _one_answer_for_all(folder: Folder) -> None:
    """Each record is the first one, under another question's id."""
    rows = folder.rows()
    folder.write([{**rows[0], "question_id": row["question_id"]} for row in rows])


def _one_document(row: Record) -> None:
    """All questions are about one document, so that no interval goes by documents."""
    row["document_ids"] = ["all"]


def _steps(row: Record) -> None:
    """The record has a step of a search, which the method does not make."""
    flops = {"all-params": 1e15, "full": 1e15, "causal": 1e15, "executed": 1e15}
    row["steps"] = [
        {"action": "visit", "node": 1, "level": 1, "scores": {}, "tokens": 9, "p_yes": None,
         "flops": flops, "shown": None, "note": "", "answer": None, "answer_flops": {},
         "probe_flops": {}}
    ]  # fmt: skip


def _failed(row: Record) -> None:
    """The question failed, and keeps its scores."""
    row["error"] = {"type": "WindowExceeded", "message": "too long"}


def _prompt(change: Callable[[str], str]) -> Callable[[Folder], None]:
    """What replaces the text of the reader's first prompt by what `change` makes of it."""

    def apply(folder: Folder) -> None:
        """Replace the text in a run folder."""
        first = folder.manifest_of()["first_prompts"]["reader"]
        folder.manifest(first_prompts__reader__text=change(first["text"]))

    return apply


def _hint(text: str) -> str:
    """A prompt with an answer in it."""
    return text.replace("\nAnswer:", "\n(The answer is Torford.)\nAnswer:")


def _other_prompt(folder: Folder) -> None:
    """The method's prompts have other words."""
    prompts = folder.manifest_of()["prompts"]
    folder.manifest(prompts={name: f"Think. {text}" for name, text in prompts.items()})


def _asked_examples(folder: Folder) -> None:
    """Solved examples are among the questions that were asked."""
    asked = [row["question_id"] for row in folder.rows()][:2]
    folder.config(dataset__shots=2, dataset__shots_ids=asked, dataset__shots_from="validation")


def _indexes(change: Callable[[Record], None]) -> Callable[[Folder], None]:
    """What changes each line on an index in documents.jsonl."""

    def apply(folder: Folder) -> None:
        """Change the lines in a run folder."""
        rows = folder.rows("documents.jsonl")
        for row in rows:
            change(row)
        folder.write(rows, "documents.jsonl")

    return apply


def _dear_index(row: Record) -> None:
    """The index cost a negative number of tokens."""
    row["usage"] = {"index": {"tokens_in": -5, "tokens_out": 0, "seconds": 1.0}}


def _no_indexes(folder: Folder) -> None:
    """No index was built."""
    folder.write([], "documents.jsonl")


def _headline(folder: Folder) -> None:
    """The second score is the first."""
    held = yaml.safe_load((folder.path / "run.yaml").read_text())
    scorers = held["config"]["dataset"]["scorers"]
    folder.config(dataset__scorers=[*scorers[1:], scorers[0]])


def _small_shape(folder: Folder) -> None:
    """The reader is said to be a small model."""
    folder.manifest(shapes__reader__layers=1, shapes__reader__mlp=16)


def _higher_mean(folder: Folder) -> None:
    """The summary has a higher mean of the first score."""
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
    replace(
        setting("price", "model__price", {"input": 0.01, "output": 0.01}, "prices"), line="prices"
    ),
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
        line="seconds",
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

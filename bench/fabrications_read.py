"""Twenty further edits, by somebody who has read the guide and wants to pass; and honest pairs.

The edits use what the guide says: scores can be computed again with `harness score`, checksums lie
in summary.json, a run is named by its hash, an import needs no model.
"""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.commands import call
from bench.fabrications import Edit, Folder, Record, _gold_is_the_answer, _right_answer

Runs = dict[str, Path]


def _scored_again(change: Callable[[Record], None]) -> Callable[[Folder], None]:
    """What changes the records and lets the program score them again, which writes new
    checksums."""

    def apply(folder: Folder) -> None:
        """Make the change in a run folder."""
        folder.each(change)
        call("score", str(folder.path))

    return apply


def _renamed_hash(folder: Folder) -> None:
    """The manifest has another hash, and the settings another k."""
    folder.manifest(hash="01234567")
    folder.config(method__params__k=9)


def _without_checksums(folder: Folder) -> None:
    """The summary has no checksums, and the records fewer tokens."""
    held = json.loads((folder.path / "summary.json").read_text())
    held.pop("files", None)
    (folder.path / "summary.json").write_text(json.dumps(held))
    folder.usage(_fewer_tokens)


def _fewer_tokens(phase: Record) -> None:
    """The phase read a fifth fewer tokens."""
    phase["tokens_in"] = round(0.8 * phase["tokens_in"])


def _no_hash_inputs(folder: Folder) -> None:
    """The manifest does not say what was hashed, and the settings have another temperature."""
    held = folder.manifest_of()
    held.pop("hashed", None)
    (folder.path / "manifest.json").write_text(json.dumps(held))
    folder.config(model__temperature=0.9)


def _running(folder: Folder) -> None:
    """The last start is said to go on, and all answers are right."""
    held = folder.manifest_of()
    held["starts"][-1]["state"] = "running"
    (folder.path / "manifest.json").write_text(json.dumps(held))
    folder.each(_right_answer)


def _best_of_two(folder: Folder) -> None:
    """Of each question the better of two methods' records."""
    others = {row["question_id"]: row for row in folder.others()}
    rows = [
        max(row, others[row["question_id"]], key=lambda one: sum(one["scores"].values()))
        for row in folder.rows()
    ]
    rows[0] = others[rows[0]["question_id"]]
    folder.write(rows)


def _other_folder(folder: Folder) -> None:
    """The records of another method under this run's name."""
    shutil.copy(folder.other / "records.jsonl", folder.path / "records.jsonl")


def _imported(folder: Folder) -> None:
    """Another tool is said to have made the run."""
    folder.manifest(imported={"tool": "t", "files": [{"name": "a", "sha256": "0" * 64}]})


def _corrected(folder: Folder) -> None:
    """The gold answers are said to have been corrected, and are what the method answered."""
    held = folder.manifest_of()
    before = held["dataset"]["fingerprint"]
    entry = {"questions": 2, "at": "2026-01-01", "file": "c.jsonl", "scores": {}, "before": before}
    folder.manifest(corrected=[entry], dataset__fingerprint="1" * 64)
    folder.each(_gold_is_the_answer)


def _supporting(row: Record) -> None:
    """All passages that were shown are said to be the supporting ones."""
    row["gold"]["supporting"] = [
        {key: piece[key] for key in ("document_id", "start", "end")} for piece in row["shown"]
    ]
    row["scores"]["evidence_recall"] = 1.0


def _options(row: Record) -> None:
    """The question has two options, of which one is the gold answer."""
    row["options"] = [row["gold"]["answers"][0], "nothing"]


def _judged(row: Record) -> None:
    """A judge of no known prompt has called the answer right."""
    row["scores"]["judge.mine"] = 1.0
    row["notes"]["judges"] = {"judge.mine": {"verdict": "yes"}}


def _cached(phase: Record) -> None:
    """Nearly all tokens that were read are said to come from a cache."""
    phase["tokens_cached"], phase["tokens_in"] = phase["tokens_in"], 1


def _shorter_prompt(folder: Folder) -> None:
    """The reader's first prompt has half of its tokens."""
    first = folder.manifest_of()["first_prompts"]["reader"]
    folder.manifest(first_prompts__reader__ids=first["ids"][: len(first["ids"]) // 2])


def _ended_early(folder: Folder) -> None:
    """Half of the records are gone, and a comparison is said to have stopped the run."""
    rows = folder.rows()
    folder.write(rows[: len(rows) // 2])
    folder.summary(
        stopped_early={"questions": 3, "of": 6, "seed": 0, "score": "x", "verdicts": ["x"]},
        n_total=len(rows) // 2,
        n_scored=len(rows) // 2,
    )


def _error_hidden(folder: Folder) -> None:
    """A question that failed is said to have been answered, at no cost."""
    rows = folder.rows()
    rows[0].update(error=None, prediction=rows[0]["gold"]["answers"][0], usage={}, shown=[])
    rows[0]["scores"] = dict.fromkeys(rows[0]["scores"], 1.0)
    folder.write(rows)


def _flags(row: Record) -> None:
    """A score of the evidence is said not to apply."""
    row["scores"].pop("evidence_recall", None)
    row["notes"]["flags"] = {"evidence_recall": "not marked"}


def _one_model_less(folder: Folder) -> None:
    """The shapes are left out, so that FLOPs cannot be compared with tokens."""
    folder.manifest(shapes={"reader": None})

    def tenth(phase: Record) -> None:
        """Give a phase a tenth of its FLOPs."""
        phase["flops"] = {name: value / 10 for name, value in phase["flops"].items()}

    folder.usage(tenth)


def _later_start(folder: Folder) -> None:
    """A later start is said to have had other models."""
    held = folder.manifest_of()
    held["starts"].append({**held["starts"][0], "changed": {"models": {}}})
    (folder.path / "manifest.json").write_text(json.dumps(held))


READ_EDITS: tuple[Edit, ...] = (
    Edit("gold is the answer, scored again", _scored_again(_gold_is_the_answer)),
    Edit("right answers, scored again", _scored_again(_right_answer)),
    Edit("another hash for other settings", _renamed_hash),
    Edit("no checksums", _without_checksums, "as the run left them"),
    Edit("no hash inputs", _no_hash_inputs, "hash in its name"),
    Edit("called running", _running, "as the run left them"),
    Edit("the better of two methods", _best_of_two),
    Edit("another method's records", _other_folder),
    Edit("called imported", _imported, "that runs/"),
    Edit("called corrected", _corrected),
    Edit("all passages support", lambda folder: folder.each(_supporting)),
    Edit("options added", lambda folder: folder.each(_options)),
    Edit("judged by nobody", lambda folder: folder.each(_judged), "judge.mine"),
    Edit("tokens called cached", lambda folder: folder.usage(_cached)),
    Edit("half of the first prompt's tokens", _shorter_prompt),
    Edit("called stopped early", _ended_early, "stopped early"),
    Edit("a failure hidden", _error_hidden),
    Edit("evidence called unmarked", lambda folder: folder.each(_flags)),
    Edit("no shapes", _one_model_less),
    Edit("other models later", _later_start, "a change of models"),
)


@dataclass(frozen=True)
class Honest:
    """Two honest runs.

    Args:
        name: What they are.
        make: Changes the copies of honest runs as honest people do, and returns the two folders.
        cause: A word of a mark that is right to stand there; "" for none.
    """

    name: str
    make: Callable[[Runs], tuple[Path, Path]]
    cause: str = ""

    def expects(self, mark: str) -> bool:
        """Whether a mark has a cause in this pair."""
        return bool(self.cause) and self.cause in mark


def _two(ours: str, theirs: str) -> Callable[[Runs], tuple[Path, Path]]:
    """What returns the runs of two methods as they are."""
    return lambda here: (here[ours], here[theirs])


def _changed(change: Callable[[Folder], None]) -> Callable[[Runs], tuple[Path, Path]]:
    """What changes the run of BM25 as another machine or version would have written it, checksums
    included, and returns it with that of full-context."""

    def make(here: Runs) -> tuple[Path, Path]:
        """Change the run, and return both folders."""
        folder = Folder(here["bm25"], here["full-context"])
        change(folder)
        folder.seal()
        return here["bm25"], here["full-context"]

    return make


def _made(*options: str, other: str = "bm25") -> Callable[[Runs], tuple[Path, Path]]:
    """What makes a run of BM25 now, with the given options, and returns it with an earlier run of
    the method `other`."""

    def make(here: Runs) -> tuple[Path, Path]:
        """Make the run, and return both folders."""
        out = here["bm25"].parent.parent / "again"
        said = call(
            "run", "--method", "bm25", "--dataset", "pocket/musique", "--limit", "6",
            "--out", str(out), "--mlflow", "off", *options,
        )  # fmt: skip
        assert said.code == 0, said.text
        (made,) = (path.parent for path in out.rglob("run.yaml"))
        return made, here[other]

    return make


def _copied(here: Runs) -> tuple[Path, Path]:
    """A copy of a run in another folder of results, and the run."""
    other = here["bm25"].parent.parent / "copy" / here["bm25"].parent.name / here["bm25"].name
    shutil.copytree(here["bm25"], other)
    return other, here["bm25"]


def _resumed(here: Runs) -> tuple[Path, Path]:
    """A run that was made with a smaller limit and then resumed, and an earlier run."""
    _made("--limit", "3")(here)
    return _made()(here)


def _more_scores(here: Runs) -> tuple[Path, Path]:
    """A run that was scored by one more scorer, and another run."""
    assert call("score", str(here["bm25"]), "--scorers", "flashrag.em").code == 0
    return here["bm25"], here["full-context"]


def _older(folder: Folder) -> None:
    """Take what was hashed out of a run's manifest, as older versions wrote none."""
    held = folder.manifest_of()
    held.pop("hashed", None)
    (folder.path / "manifest.json").write_text(json.dumps(held))


def _old_run(here: Runs) -> tuple[Path, Path]:
    """A run of before checksums and hash inputs were recorded."""
    folder = Folder(here["bm25"], here["full-context"])
    _older(folder)
    summary = json.loads((folder.path / "summary.json").read_text())
    summary.pop("files", None)
    (folder.path / "summary.json").write_text(json.dumps(summary))
    return here["bm25"], here["full-context"]


def _moved(here: Runs) -> tuple[Path, Path]:
    """A run that was moved to another folder, and another run."""
    place = here["bm25"].parent.parent / "elsewhere" / here["bm25"].name
    place.parent.mkdir()
    shutil.move(here["bm25"], place)
    return place, here["full-context"]


def _exported(here: Runs) -> tuple[Path, Path]:
    """Two runs of which a page was written."""
    call(
        "report",
        str(here["bm25"].parent.parent),
        "--html",
        str(here["bm25"].parent.parent / "p.html"),
    )
    return here["bm25"], here["full-context"]


HONEST: tuple[Honest, ...] = (
    Honest("as they are", _two("bm25", "full-context")),
    Honest("two retrievers", _two("bm25", "sbert")),
    Honest("an encoder and none", _two("sbert", "full-context")),
    Honest("closed book", _two("closed-book", "bm25")),
    Honest("made twice", _made()),
    Honest("a copy", _copied),
    Honest("resumed with a larger limit", _resumed),
    Honest("prompts kept", _made("--keep-prompts", other="full-context")),
    Honest("another k", _made("--set", "method.k=3")),
    Honest("another k beside another method", _made("--set", "method.k=3", other="sbert")),
    Honest("several in flight", _made("--parallel", "3", other="full-context")),
    Honest(
        "texts not kept",
        _made("--set", "dataset.keep_texts=no", other="full-context"),
        "not checked",
    ),
    Honest("scored with one more scorer", _more_scores),
    Honest("an older run", _old_run, "not checked"),
    Honest("moved to another folder", _moved),
    Honest("a page was written", _exported),
    Honest("two in flight, prompts kept", _made("--parallel", "2", "--keep-prompts")),
    Honest("a longer timeout", _changed(lambda f: f.config(model__timeout=600.0))),
    Honest(
        "a patch version",
        _changed(lambda f: f.manifest(packages__transformers="5.23.1")),
        "was made with transformers",
    ),
    Honest("another GPU", _changed(lambda f: f.manifest(gpu="NVIDIA H100")), "measured otherwise"),
)

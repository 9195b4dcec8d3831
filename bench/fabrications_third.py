"""More edits, all but "tokens that are unknown" by somebody who has read docs/guide.md and docs/run-folder.md alone."""

import json
from collections.abc import Callable
from typing import Any

from bench.commands import call
from bench.fabrications import Edit, Folder, Record, described
from harness.cost.flops import ModelShape

_COUNTS = ("tokens_in", "tokens_out", "seconds")


def _scored(row: Record) -> None:
    """The reply stays; the note says that another text was scored."""
    row["notes"]["scored"] = row["gold"]["answers"][0]
    row["scores"] = dict.fromkeys(row["scores"], 1.0)


def _is_wrong(row: Record) -> bool:
    """Whether any score of a record is below 1, all taken together."""
    return sum(row["scores"].values()) < len(row["scores"])


def _skipped_failures(folder: Folder) -> None:
    """Wrong answers become failed questions, and failed questions do not count."""
    rows = folder.rows()
    wrong = [row for row in rows if _is_wrong(row)]
    for row in wrong:
        row["error"] = {"type": "WindowExceeded", "message": "too long"}
        row["scores"] = dict.fromkeys(row["scores"], 0.0)
        row["prediction"] = None
    folder.write(rows)
    folder.config(failed="skip")
    folder.summary(
        n_failed=len(wrong), n_scored=len(rows) - len(wrong), failed_count_as="skip",
        errors={"WindowExceeded": len(wrong)}, scores={},
    )  # fmt: skip


def _left_out(folder: Folder) -> None:
    """The worst questions are said to have been left out by the loader, in every file."""
    rows = sorted(folder.rows(), key=lambda row: sum(row["scores"].values()))
    kept = rows[len(rows) // 2 :]
    gone = len(rows) - len(kept)
    folder.write(kept)
    folder.manifest(dataset__skipped={"no answer": gone}, dataset__questions=len(kept))
    folder.summary(n_left_out=gone, n_total=len(kept), n_scored=len(kept), scores={})


def _later_line(folder: Folder) -> None:
    """The last record of a question counts: right ones are written below the others."""
    rows = folder.rows()
    later = json.loads(json.dumps(rows))
    for row in later:
        row["prediction"] = row["gold"]["answers"][0]
        row["scores"] = dict.fromkeys(row["scores"], 1.0)
    folder.write([*rows, *later])


def _shortened(folder: Folder) -> None:
    """Answers are cut to what is right in them, and scored by the program."""

    def cut(row: Record) -> None:
        """Cut an answer to the gold answer in it, or to its first word."""
        answer, reply = row["gold"]["answers"][0], row["prediction"] or ""
        row["prediction"] = answer if answer in reply else " ".join(reply.split()[:1])

    folder.each(cut)
    call("score", str(folder.path))


def _half(phase: Record) -> Record:
    """Half of a phase's tokens, seconds and FLOPs, which leave the phase."""
    taken: Record = {}
    for key in _COUNTS:
        before = phase.get(key) or 0
        taken[key] = before / 2 if key == "seconds" else before // 2
        phase[key] = before - taken[key]
    for key in ("flops", "roles"):
        taken[key] = {name: value / 2 for name, value in phase[key].items()}
        phase[key] = dict(taken[key])
    return taken


def _called_study(row: Record) -> None:
    """Half of what the answer cost is said to be a study's, which no table counts."""
    taken = _half(row["usage"]["answer"])
    row["usage"]["study"] = {**row["usage"]["answer"], **taken}


def _called_unanswered(row: Record) -> None:
    """Half of what the answer cost is said to have brought no answer."""
    taken = _half(row["usage"]["answer"])
    tokens = taken["tokens_in"] + taken["tokens_out"]
    row["usage"]["answer"]["unanswered"] = {"tokens": tokens, "flops": taken["flops"]}


def _called_index(folder: Folder) -> None:
    """Half of what the answers cost is said to have been spent for the indexes, once a document."""
    rows, indexes = folder.rows(), folder.rows("documents.jsonl")
    taken = [_half(row["usage"]["answer"]) for row in rows]
    for row, half in zip(indexes, taken, strict=False):
        row["usage"] = {"index": {**rows[0]["usage"]["answer"], **half}}
    folder.write(rows)
    folder.write(indexes, "documents.jsonl")


def _recalled(phase: Record) -> None:
    """All requests are said to have been answered from a cache, in a tenth of the time."""
    phase["recalled"] = phase["requests"]
    phase["seconds"] = phase["seconds"] / 10


def _uncounted(phase: Record) -> None:
    """All requests are said to be to models of unknown size, so they have no FLOPs."""
    phase["uncounted"] = phase["requests"]
    phase["flops"] = dict.fromkeys(phase["flops"], 0.0)
    phase["roles"] = {}


def _unknown(folder: Folder) -> None:
    """All replies but the first are said not to tell their tokens, as an application's need not, and
    cost a tenth, with the FLOPs of so many tokens. The summary is that of the new records."""
    rows = folder.rows()
    shape = ModelShape(
        **json.loads((folder.path / "manifest.json").read_text())["shapes"]["reader"]
    )
    for row in rows[1:]:
        for phase in row["usage"].values():
            phase["tokens_unknown"] = phase["requests"]
            for key in _COUNTS:
                phase[key] = phase[key] / 10 if key == "seconds" else phase[key] // 10
            flops = 2.0 * shape.parameters * (phase["tokens_in"] + phase["tokens_out"])
            phase["flops"] = dict.fromkeys(phase["flops"], flops)
            phase["roles"] = {"reader": flops}
    folder.write(rows)
    folder.summarise()


def _conventions(phase: Record) -> None:
    """The conventions that the main table does not show."""
    first = next(iter(phase["flops"]))
    phase["flops"] = {
        name: value if name == first else value / 10 for name, value in phase["flops"].items()
    }


def _joined(row: Record) -> None:
    """Documents are said to have been joined, and passages to be of another one."""
    row["notes"]["joined"] = 2
    for piece in row["shown"]:
        piece["document_id"] = "another"


def _on_the_evidence(folder: Folder) -> None:
    """The passages are said to be the supporting ones, and the program scores again."""

    def move(row: Record) -> None:
        """Move the passages of a record onto its supporting spans."""
        places = row["gold"]["supporting"]
        for piece, place in zip(row["shown"], places, strict=False):
            piece.update({key: place[key] for key in ("document_id", "start", "end")})
            length = place["end"] - place["start"]
            if "text_sha256" not in piece:
                piece["text"] = (piece["text"] * (1 + length))[:length]

    folder.each(move)
    call("score", str(folder.path))


def _missed_evidence(row: Record) -> None:
    """Supporting passages that were missed are none."""
    if row["scores"].get("evidence_recall") != 1.0:
        row["gold"]["supporting"] = []
        row["scores"].pop("evidence_recall", None)


def _served(folder: Folder) -> None:
    """A server is said to have answered, at a low price."""
    folder.config(
        model__backend="endpoint",
        model__base_url="http://127.0.0.1:8000/v1",
        model__price={"input": 0.01, "output": 0.01},
    )
    folder.manifest(servers={"reader": "http://127.0.0.1:8000/v1"})


def _summary(change: Callable[[Record], None]) -> Callable[[Folder], None]:
    """What changes summary.json: `change` is called with its values and edits them."""

    def apply(folder: Folder) -> None:
        """Change summary.json in a run folder."""
        held = json.loads((folder.path / "summary.json").read_text())
        change(held)
        (folder.path / "summary.json").write_text(json.dumps(held))

    return apply


def _narrower(summary: Record) -> None:
    """All intervals are narrow."""
    for score in summary["scores"].values():
        score["low"], score["high"] = score["mean"] - 0.001, score["mean"] + 0.001


def _cheaper(summary: Record) -> None:
    """The summary has a tenth of the tokens."""
    for phase in summary["usage"].values():
        phase["tokens_in"] = phase["tokens_in"] / 10


def _longer(row: Record) -> None:
    """The documents are said to be ten times as long."""
    row["document_characters"] = [10 * length for length in row["document_characters"]]


def of_all(name: str, change: Callable[[Record], None], topic: str = "") -> Edit:
    """An edit that changes all records."""
    return Edit(name, lambda folder: folder.each(change), topic)


def of_phases(name: str, change: Callable[[Record], None], topic: str = "") -> Edit:
    """An edit that changes the usage of all records."""
    return Edit(name, lambda folder: folder.usage(change), topic)


_TWIN: dict[str, Any] = {"swap": "entities", "version": "1", "of": "0" * 64, "seed": 0}

THIRD_EDITS: tuple[Edit, ...] = (
    of_all("another text was scored", _scored),
    Edit("wrong answers called failures, which are skipped", _skipped_failures),
    Edit("the worst called left out", _left_out),
    Edit("right answers below the others", _later_line),
    Edit("answers shortened, scored again", _shortened),
    of_all("half of the cost called study", _called_study),
    of_all("half of the cost called unanswered", _called_unanswered),
    Edit("half of the cost called index", _called_index),
    of_phases("called recalled, seconds / 10", _recalled),
    of_phases("models of unknown size", _uncounted),
    of_phases("other conventions / 10", _conventions),
    Edit("tokens that are unknown", _unknown),
    of_all("documents called joined", _joined),
    Edit("passages moved onto the evidence", _on_the_evidence),
    of_all("missed evidence removed", _missed_evidence),
    Edit("called served", _served),
    described("called quantised", "models__reader__quantised", {"method": "bnb", "bits": 4}),
    Edit("narrower intervals", _summary(_narrower)),
    Edit("cheaper in the summary", _summary(_cheaper)),
    of_all("longer documents", _longer),
    described("called a copy with other names", "dataset__twin", _TWIN),
)

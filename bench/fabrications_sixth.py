"""Edits by somebody who had read the guide and the page of the run folder, and no check: costs in
places that no table sums, the other half of what is compared, and files that no bundle holds."""

import json
from collections.abc import Callable
from typing import Any

from bench.commands import call
from bench.fabrications import Edit, Folder, Record
from harness.storage.record_texts import text_checksum


def _studied(row: Record) -> None:
    """The search is called a study, whose costs no table counts."""
    row["usage"]["study"] = row["usage"].pop("search")


def _free_indexes(folder: Folder) -> None:
    """Indexes are said to have cost nothing."""
    rows = folder.rows("documents.jsonl")
    folder.write([{**row, "usage": {}} for row in rows], "documents.jsonl")
    folder.summarise()


def half_of_layers(folder: Folder) -> None:
    """The model is said to have half of its layers, and FLOPs are theirs."""
    shape = folder.manifest_of()["shapes"]["reader"]
    folder.manifest(shapes__reader__layers=shape["layers"] // 2)

    def fewer(phase: Record) -> None:
        """Give a phase 60 % of its FLOPs."""
        for key in ("flops", "roles"):
            phase[key] = {name: 0.6 * value for name, value in phase[key].items()}

    folder.usage(fewer)
    folder.summarise()


def _answered_twice(folder: Folder) -> None:
    """Each question has a second record above its own."""
    rows = folder.rows()
    better = json.loads(json.dumps(rows))
    for row in better:
        row["prediction"] = "another try"
    folder.write([*better, *rows])
    folder.summarise()


def _several_answers(row: Record) -> None:
    """The reply is the model's and the right one, of as many tokens as before."""
    row["prediction"] = f"{row['prediction']}, or perhaps rather {row['gold']['answers'][0]}, too"
    row["usage"]["answer"]["tokens_out"] = 3


def _passage_over_another(folder: Folder) -> None:
    """A passage is moved by half of its length, with the true text of its new place."""
    texts = {
        row["sha256"]: row["text"] for row in Folder(folder.other, folder.path).rows("texts.jsonl")
    }
    whole = {row["question_id"]: texts[row["shown"][0]["text_sha256"]] for row in folder.others()}
    held = folder.rows("texts.jsonl")
    rows = folder.rows()
    for row in rows:
        pieces = sorted(row["shown"], key=lambda piece: piece["start"])
        first, second = _nearest(pieces)
        length = first["end"] - first["start"]
        first["start"] = second["start"] - length // 2
        first["end"] = first["start"] + length
        text = whole[row["question_id"]][first["start"] : first["end"]]
        first["text_sha256"] = text_checksum(text)
        held.append({"sha256": first["text_sha256"], "text": text})
    folder.write(rows)
    folder.write(held, "texts.jsonl")
    folder.seal()
    call("score", str(folder.path))


def _nearest(pieces: list[Record]) -> tuple[Record, Record]:
    """Two passages of a record of which the first may be moved onto the second."""
    return next(
        (piece, other)
        for piece in pieces
        for other in pieces
        if piece is not other and other["start"] > piece["end"] - piece["start"]
    )


def _other_chunks_as_default(folder: Folder) -> None:
    """Chunks of 280 tokens are said to be the preset's."""
    folder.config(method__params__chunk_tokens=280)
    folder.origin("method.params.chunk_tokens", "configs/methods/bm25.yaml")
    folder.rename()
    folder.summarise()


def _withheld(folder: Folder) -> None:
    """Without questions and gold answers no score could be computed again."""

    def hide(row: Record) -> None:
        """Take question, options, gold answers and texts out of a record, and give it scores."""
        row.update(question=None, options=None, gold=None)
        row["shown"] = [{**piece, "text": ""} for piece in row["shown"]]
        for name in row["scores"]:
            row["scores"][name] = 0.5

    folder.each(hide)
    (folder.path / "texts.jsonl").unlink()
    folder.config(dataset__keep_texts=False)
    folder.summarise()


def _verdicts(folder: Folder) -> None:
    """A judge is said to have called all answers right."""

    def judged(row: Record) -> None:
        """Give a record the verdict of a judge."""
        row["scores"]["judge.mine"] = 1.0
        row["notes"]["judges"] = {"judge.mine": {"verdict": "yes", "reply": "yes"}}

    folder.each(judged)
    entry = {"version": "1", "prompt": "{question} {answers} {answer}", "max_tokens": 8}
    verdicts = {"yes": len(folder.rows())}
    folder.manifest(judges={"judge.mine": {**entry, "verdicts": verdicts, "usage": {}}})
    folder.summarise()


def _other_replies(folder: Folder) -> None:
    """The replies that were kept are not the answers."""
    kept = []
    for row in folder.rows():
        about = {"question_id": row["question_id"], "number": 0, "same": 0}
        how = {"phase": "answer", "role": "reader", "kind": "write"}
        kept.append({**about, **how, "prompt": "p", "reply": "something else"})
    folder.write(kept, "requests.jsonl")
    folder.config(keep_prompts=True)
    folder.summarise()


def _own_documents(folder: Folder) -> None:
    """Each question is said to have a document of its own."""
    for name in ("records.jsonl", "documents.jsonl"):
        folder.text(name, lambda text: text.replace("__musique", "__own"))
    rows = folder.rows()
    for row in rows:
        row["question_id"] = row["question_id"].replace("__own", "__musique")
    folder.write(rows)
    folder.summarise()


def _other_answer_of_its_steps(folder: Folder) -> None:
    """The answer is one that the search would have given elsewhere."""
    rows = folder.rows()
    for row in rows:
        row["prediction"] = "Torford"
    folder.write(rows)
    folder.seal()
    call("score", str(folder.path))


def _fewer_steps(row: Record) -> None:
    """The last two steps of the search are left out."""
    own = [step for step in row["steps"] if step["action"] != "study"]
    row["steps"] = [*own[:-2], *row["steps"][len(own) :]]


def _other_stop(row: Record) -> None:
    """The search is said to have stopped for another reason."""
    row["stop_reason"] = "exhausted" if row["stop_reason"] == "yes" else "yes"


def _of_each(name: str, change: Any, of: str = "bm25") -> Edit:
    """An edit that changes each record of a method's run, and computes the summary from the new
    records."""

    def apply(folder: Folder) -> None:
        """Make the edit in a run folder."""
        folder.each(change)
        folder.summarise()

    return Edit(name, apply, of=of)


def _scored_again(name: str, change: Callable[[Record], None]) -> Edit:
    """An edit that changes each record, after which the program scores them again."""

    def apply(folder: Folder) -> None:
        """Make the edit in a run folder."""
        folder.each(change)
        folder.seal()
        call("score", str(folder.path))

    return Edit(name, apply)


SIXTH_EDITS: tuple[Edit, ...] = (
    _of_each("the cost of searches called a study", _studied, of="sbert"),
    Edit("indexes without costs", _free_indexes, of="sbert"),
    Edit("half of the layers", half_of_layers, "sizes of models"),
    Edit("answered twice", _answered_twice),
    _scored_again("two answers in one", _several_answers),
    Edit("a passage over another", _passage_over_another),
    Edit("chunks that are no preset's", _other_chunks_as_default, "its preset's"),
    Edit("withheld texts", _withheld),
    Edit("verdicts without a request", _verdicts),
    Edit("kept replies of other answers", _other_replies),
    Edit("documents of their own", _own_documents),
)
SEARCH_EDITS: tuple[Edit, ...] = (
    Edit("another answer than that of its stop", _other_answer_of_its_steps, of="pecan"),
    _of_each("fewer steps", _fewer_steps, of="pecan"),
    _of_each("another stop reason", _other_stop, of="pecan"),
)
"""Edits of a run of PECAN with recorded stops."""

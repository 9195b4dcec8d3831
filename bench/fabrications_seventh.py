"""Edits by somebody who made another run and kept what looks better of it: another prompt, longer or
fewer passages, a part of the text, the order of another setting. First prompts are changed too."""

from bench.commands import call
from bench.fabrications import Edit, Folder, Record
from harness.storage.record_texts import text_checksum

_SYSTEM_TOKENS = 37  # of a system prompt that nothing records


def _read(phase: Record, factor: float) -> None:
    """Multiply the tokens that a phase read, with its FLOPs."""
    phase["tokens_in"] = round(phase["tokens_in"] * factor)
    for key in ("flops", "roles"):
        phase[key] = {name: value * factor for name, value in phase[key].items()}


def _read_more(row: Record) -> None:
    """A question was asked with a system prompt."""
    phase = row["usage"]["answer"]
    _read(phase, 1 + _SYSTEM_TOKENS / phase["tokens_in"])


def _resumed_with_prompt(folder: Folder) -> None:
    """The last question was asked with a system prompt, after the run was stopped."""
    rows = folder.rows()
    _read_more(rows[-1])
    folder.write(rows)
    folder.summarise()


def _hidden_prompt(folder: Folder) -> None:
    """All questions were asked with a system prompt, which is cut out of the first prompt's
    text."""
    folder.each(_read_more)
    held = folder.manifest_of()
    ids = held["first_prompts"]["reader"]["ids"]
    held["first_prompts"]["reader"]["ids"] = [*ids[:2], *ids[2 : 2 + _SYSTEM_TOKENS], *ids[2:]]
    folder.write_manifest(held)
    folder.summarise()


def _passages_not_read(folder: Folder) -> None:
    """The last question was answered from one passage, and five are said to be shown."""
    rows = folder.rows()
    _read(rows[-1]["usage"]["answer"], 0.5)
    folder.write(rows)
    folder.summarise()


def _whole_texts(folder: Folder) -> dict[str, str]:
    """Question id -> its whole document, by the run beside it."""
    held = {
        row["sha256"]: row["text"] for row in Folder(folder.other, folder.path).rows("texts.jsonl")
    }
    return {row["question_id"]: held[row["shown"][0]["text_sha256"]] for row in folder.others()}


def _show(folder: Folder, row: Record, places: list[tuple[int, int]]) -> None:
    """Have a record show these places of its document, with their true texts.

    Args:
        folder: The run.
        row: The record, which is changed.
        places: Start and end of each passage.
    """
    whole = _whole_texts(folder)[row["question_id"]]
    texts = folder.rows("texts.jsonl")
    shown = []
    for start, end in places:
        text = whole[start:end]
        piece = {**row["shown"][0], "start": start, "end": end, "text": text}
        piece.pop("text_sha256", None)
        if len(text) > 300:
            piece = {**piece, "text": "", "text_sha256": text_checksum(text)}
            texts.append({"sha256": text_checksum(text), "text": text})
        shown.append(piece)
    row["shown"] = shown
    folder.write(texts, "texts.jsonl")


def _longer_chunks(folder: Folder) -> None:
    """The last question is one of another run, whose chunks are half as long again."""
    rows = folder.rows()
    row = rows[-1]
    before = sum(piece["end"] - piece["start"] for piece in row["shown"])
    length = row["document_characters"][0]
    part = length // 5
    _show(folder, row, [(start, start + part) for start in range(0, part * 5, part)])
    _read(row["usage"]["answer"], part * 5 / before)
    folder.write(rows)
    folder.seal()
    call("score", str(folder.path))


def _evidence_alone(folder: Folder) -> None:
    """The method was given the supporting passages alone."""
    rows = folder.rows()
    for row in rows:
        before = sum(piece["end"] - piece["start"] for piece in row["shown"])
        places = [(one["start"], one["end"]) for one in row["gold"]["supporting"]]
        _show(folder, row, places)
        after = sum(end - start for start, end in places)
        _read(row["usage"]["answer"], (after + 300) / (before + 300))
        row["stop_reason"] = "exhausted"
    folder.write(rows)
    first = max(row["usage"]["answer"]["tokens_in"] for row in rows)
    held = folder.manifest_of()
    held["first_prompts"]["reader"]["ids"] = held["first_prompts"]["reader"]["ids"][:first]
    folder.write_manifest(held)
    folder.seal()
    call("score", str(folder.path))


def _called_in_order(folder: Folder) -> None:
    """Passages by rank are said to stand in the order of the text."""
    folder.config(method__params__order="document", method__mark="order=document")
    folder.origin("method.params.order", "--set")
    folder.rename()
    folder.summarise()


def _unpaid_probes(folder: Folder) -> None:
    """A search without what its probes cost."""

    def free(row: Record) -> None:
        """Take the probes out of a record's costs."""
        search = row["usage"]["search"]
        probes = search.pop("probes")
        search["requests"] -= probes["requests"]
        search["tokens_in"] -= probes["tokens"]
        search["roles"]["searcher"] -= probes["flops"]["all-params"]
        for name, value in probes["flops"].items():
            search["flops"][name] -= value
        so_far = dict.fromkeys(probes["flops"], 0.0)
        for step in row["steps"]:
            for name, value in (step["probe_flops"] or {}).items():
                so_far[name] += value
            step["flops"] = {name: value - so_far[name] for name, value in step["flops"].items()}
            step["probe_flops"] = dict.fromkeys(step["probe_flops"], 0.0)

    folder.each(free)
    folder.summarise()


def _lower_case(folder: Folder) -> None:
    """The texts were made lower case before the method saw them."""
    rows = folder.rows()
    texts = {row["sha256"]: row["text"].lower() for row in folder.rows("texts.jsonl")}
    for row in rows:
        for piece in row["shown"]:
            piece["text"] = piece["text"].lower()
            if piece.get("text_sha256"):
                piece["text_sha256"] = text_checksum(texts[piece["text_sha256"]])
    folder.write(rows)
    held = [{"sha256": text_checksum(text), "text": text} for text in texts.values()]
    folder.write(held, "texts.jsonl")
    folder.summarise()


def cut_in_secret(folder: Folder) -> None:
    """Edit a run of the whole document: the middle of each was cut out, and no record says so."""
    rows = folder.rows()
    for row in rows:
        (length,) = row["document_characters"]
        _show(folder, row, [(0, length // 3), (2 * length // 3, length)])
        _read(row["usage"]["answer"], 0.7)
    folder.write(rows)
    folder.seal()
    call("score", str(folder.path))


SEVENTH_EDITS: tuple[Edit, ...] = (
    Edit("the last question with a system prompt", _resumed_with_prompt),
    Edit("a system prompt cut out of the first prompt", _hidden_prompt),
    Edit("passages that were not read", _passages_not_read),
    Edit("the last question with longer chunks", _longer_chunks),
    Edit("the evidence alone, called the document", _evidence_alone),
    Edit("passages by rank called in order", _called_in_order),
    Edit("texts in lower case", _lower_case),
)
UNPAID_PROBES = Edit("probes that nobody paid", _unpaid_probes, of="pecan")
"""An edit of a run of PECAN with recorded stops."""

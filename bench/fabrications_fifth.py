"""Twenty more edits: settings that are false in every file alike, and costs under other names."""

from typing import Any

from bench.commands import call
from bench.fabrications import Edit, Folder, Record

_BY_SETTINGS = "by these settings"
"""Of what verify never checks: settings that are changed in all files, the hash included."""


def _called_another(folder: Folder) -> None:
    """The run is said to be of another method."""
    folder.config(method__name="sbert")
    folder.manifest(method="sbert")


def _called_search(row: Record) -> None:
    """What the answer cost is said to be the search's."""
    row["usage"] = {"search": row["usage"]["answer"]}


def _one_token(row: Record) -> None:
    """The answer is said eight times, in a single token."""
    row["prediction"] = " ".join([row["prediction"] or "no"] * 8)
    row["usage"]["answer"]["tokens_out"] = 1


def _easier_kind(row: Record) -> None:
    """The question is said to take one hop."""
    row["gold"]["extra"].update(hops=1, type="1hop")


def _faster_questions(row: Record) -> None:
    """The question is said to have taken a tenth of what its request took."""
    row["notes"]["seconds"] = row["usage"]["answer"]["seconds"] / 10


def _slower_requests(row: Record) -> None:
    """The request is said to have taken twice what its question took."""
    row["usage"]["answer"]["seconds"] = 2 * row["notes"]["seconds"]


def _moved_passages(row: Record) -> None:
    """Passages keep their texts and are said to stand elsewhere."""
    (length,) = row["document_characters"]
    for piece in row["shown"]:
        step = min(500, length - piece["end"])
        piece["start"] += step
        piece["end"] += step


def _last_questions(folder: Folder) -> None:
    """The last half of the questions is said to be all that the limit allows."""
    rows = folder.rows()
    kept = rows[len(rows) // 2 :]
    ids = {row["question_id"] for row in kept}
    documents = folder.rows("documents.jsonl")
    folder.write(kept)
    folder.write([row for row in documents if row["document_id"] in ids], "documents.jsonl")
    held = folder.manifest_of()
    held.pop("first_prompts")
    folder.write_manifest(held)
    folder.config(limit=len(kept))
    folder.manifest(dataset__questions=len(kept))
    folder.summary(n_asked=len(kept))


def _longer_answers(folder: Folder) -> None:
    """Longer answers are said to have been allowed, also in what was hashed."""
    folder.config(dataset__max_answer_tokens=64)
    folder.manifest(hashed__task__max_answer_tokens=64)
    folder.rename()


def _no_first_prompt(folder: Folder) -> None:
    """The manifest has no first prompt."""
    held = folder.manifest_of()
    held.pop("first_prompts")
    folder.write_manifest(held)


def _other_wording(folder: Folder) -> None:
    """Prompts, first prompt and hash have another sentence."""
    held = folder.manifest_of()

    def change(text: str) -> str:
        """A prompt with other words."""
        return text.replace("Read the text below", "Read the text below with care")

    held["prompts"] = {name: change(text) for name, text in held["prompts"].items()}
    first = held["first_prompts"]["reader"]
    first["text"] = change(first["text"])
    folder.write_manifest(held)
    folder.rename()


def _hidden_score(folder: Folder) -> None:
    """No trace is left of a score that is low."""
    held = folder.manifest_of()
    held["scorers"].pop("evidence_recall")
    folder.write_manifest(held)
    folder.each(lambda row: row["scores"].pop("evidence_recall", None))
    folder.config(dataset__scorers=list(held["scorers"]))
    folder.summary(scores={})


def _halve_flops(phase: Record) -> None:
    """The phase has half of its FLOPs."""
    for key in ("flops", "roles"):
        phase[key] = {name: value / 2 for name, value in phase[key].items()}


def _reused(row: Record) -> None:
    """Half of the tokens that were read are said to be of a context that was there already."""
    phase = row["usage"]["answer"]
    half = phase["tokens_in"] // 2
    phase["tokens_in"] -= half
    phase["tokens_reused"] += half
    _halve_flops(phase)


def _of_the_encoder(row: Record) -> None:
    """Half of the reader's FLOPs are said to be the encoder's."""
    phase = row["usage"]["answer"]
    reader = phase["roles"]["reader"] / 2
    phase["roles"] = {"reader": reader, "encoder": reader}


def _queued(row: Record) -> None:
    """Most of the seconds are said to have been spent waiting."""
    phase = row["usage"]["answer"]
    phase["queued"] = 0.9 * phase["seconds"]
    phase["seconds"] -= phase["queued"]


def _retried(row: Record) -> None:
    """A loaded model is said to have needed five tries."""
    row["usage"]["answer"]["retries"] = 5


def _under_its_id(folder: Folder) -> None:
    """Half the rows of another method's run, whose id the run is given."""
    rows, others = folder.rows(), folder.others()
    half = len(rows) // 2
    folder.write([*others[:half], *rows[half:]])
    other = Folder(folder.other, folder.path)
    folder.manifest(id=other.manifest_of()["id"])


def _larger_window(folder: Folder) -> None:
    """The model is said to have a larger window, also in its identity."""
    folder.config(model__window=131072)
    folder.manifest(models__reader__window=131072)
    folder.rename()


def _sampled(folder: Folder) -> None:
    """Answers are said to have been sampled, also in the hash."""
    folder.config(model__temperature=0.7)
    folder.rename()


def _shorter_chunks(folder: Folder) -> None:
    """Chunks are said to have been shorter, also in the hash."""
    folder.config(method__params__chunk_tokens=20, method__mark="chunk_tokens=20")
    folder.rename()


def _of_each(name: str, change: Any, topic: str = "") -> Edit:
    """An edit that changes each record, and computes the summary from the new records."""

    def apply(folder: Folder) -> None:
        """Make the edit in a run folder."""
        folder.each(change)
        folder.summarise()

    return Edit(name, apply, topic)


def _of_folder(name: str, change: Any, topic: str = "") -> Edit:
    """An edit that changes the folder, and computes the summary from its records."""

    def apply(folder: Folder) -> None:
        """Make the edit in a run folder."""
        change(folder)
        folder.summarise()

    return Edit(name, apply, topic)


def _scored_again(name: str, change: Any) -> Edit:
    """An edit that changes each record, after which the program scores them again."""

    def apply(folder: Folder) -> None:
        """Make the edit in a run folder."""
        folder.each(change)
        folder.seal()
        call("score", str(folder.path))

    return Edit(name, apply)


FIFTH_EDITS: tuple[Edit, ...] = (
    _of_folder("called sbert", _called_another),
    _of_each("the cost of answers called search", _called_search),
    _scored_again("long answers of one token", _one_token),
    _of_each("an easier kind of question", _easier_kind),
    _of_each("questions faster than their requests", _faster_questions),
    _of_each("requests slower than their questions", _slower_requests),
    _scored_again("passages of other places", _moved_passages),
    _of_folder("the last questions called the first", _last_questions),
    _of_folder("longer answers, hash anew", _longer_answers, _BY_SETTINGS),
    _of_folder("no first prompt", _no_first_prompt, "no first prompt"),
    _of_folder("other prompts, hash anew", _other_wording, "prompts are not those"),
    _of_folder("a hidden score", _hidden_score, "evidence_recall, a score"),
    _of_each("half of the tokens called reused", _reused),
    _of_each("half of the cost called the encoder's", _of_the_encoder),
    _of_each("seconds called waiting", _queued),
    _of_each("retries of a loaded model", _retried),
    _of_folder("another method's rows and id", _under_its_id),
    _of_folder("a larger window, hash anew", _larger_window, _BY_SETTINGS),
    _of_folder("called sampled, hash anew", _sampled, _BY_SETTINGS),
    _of_folder("shorter chunks, hash anew", _shorter_chunks),
)

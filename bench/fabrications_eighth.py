"""Edits that no comparison of two runs shows: of both runs alike, and of what only the one who made a
run can know. Questions and gold answers are shown by the rows of the data set; of the rest, commands
say that they did not check it."""

import json
import shutil
from collections.abc import Callable, Sequence

import yaml

from bench.commands import call
from bench.fabrications import Edit, Folder, Record
from bench.fabrications_sixth import half_of_layers

_ROWS = "gold answers and evidence"
_ANSWERS = "the model gave these answers"


def _in_both(name: str, change: Callable[[Folder], None], line: str = "", topic: str = "") -> Edit:
    """An edit of a run and of the run beside it alike, with all numbers computed from the records.

    Args:
        name: Its name.
        change: Makes the edit in one run.
        line: As in Edit.
        topic: As in Edit.
    """

    def apply(folder: Folder) -> None:
        """Make the edit in both runs."""
        beside = Folder(folder.other, folder.path)
        for one in (folder, beside):
            change(one)
            one.seal()
            call("score", str(one.path))
            one.seal()

    return Edit(name, apply, topic, line=line)


def _each(change: Callable[[Record], None]) -> Callable[[Folder], None]:
    """What changes each record of a run."""
    return lambda folder: folder.each(change)


def _keep(folder: Folder, rows: Sequence[Record]) -> None:
    """Have a run hold these records and say that so many questions were asked."""
    folder.write(list(rows))
    folder.summarise()
    folder.summary(n_total=len(rows), n_asked=len(rows))
    folder.manifest(dataset__questions=len(rows))


def _twice(folder: Folder) -> None:
    """The first question stands twice, under two ids, in the place of the last one."""
    rows = folder.rows()
    again = json.loads(json.dumps(rows[0]))
    again["question_id"] = rows[-1]["question_id"]
    for phase in again["usage"].values():
        phase["seconds"] *= 1.01
    _keep(folder, [*rows[:-1], again])


def _numbered_anew(folder: Folder) -> None:
    """The first question is left out, and the others get the ids of those before them."""
    rows = folder.rows()
    ids = [row["question_id"] for row in rows]
    for row, question_id in zip(rows[1:], ids[:-1], strict=True):
        row["question_id"] = question_id
    _keep(folder, rows[1:])


def _renamed(row: Record) -> None:
    """The documents of a question have other names."""
    row["document_ids"] = [f"text-{one}" for one in row["document_ids"]]
    for piece in row["shown"]:
        if piece.get("document_id"):
            piece["document_id"] = f"text-{piece['document_id']}"


def _rename_documents(folder: Folder) -> None:
    """All documents have other names, in records and indexes."""
    folder.each(_renamed)
    lines = folder.rows("documents.jsonl")
    for line in lines:
        line["document_id"] = f"text-{line['document_id']}"
    folder.write(lines, "documents.jsonl")


def _easier(row: Record) -> None:
    """A question is said to be of one hop."""
    row["gold"]["extra"]["hops"] = 1
    row["gold"]["extra"]["type"] = "1hop"


def _lenient(row: Record) -> None:
    """A word that many answers have is a gold answer."""
    row["gold"]["answers"].append("the")


def _asked_otherwise(row: Record) -> None:
    """The question has another text."""
    row["question"] = f"{row['question']} Think."


def _evidence_is_shown(row: Record) -> None:
    """The passages that are shown are the supporting ones."""
    keys = ("document_id", "start", "end")
    row["gold"]["supporting"] = [{key: piece[key] for key in keys} for piece in row["shown"]]


def _called_musique(folder: Folder) -> None:
    """Made-up rows are called MuSiQue."""
    folder.config(dataset__name="musique")
    folder.manifest(dataset__name="musique")


def _small_window(folder: Folder) -> None:
    """The model is said to have a window that no prompt fits."""
    folder.config(model__window=512)
    folder.manifest(models__reader__window=512)


def _lenient_first(folder: Folder) -> None:
    """The first score is a lenient one."""
    held = yaml.safe_load((folder.path / "run.yaml").read_text())
    scorers = held["config"]["dataset"]["scorers"]
    folder.config(dataset__scorers=["flashrag.acc", *scorers])


def _of_a_file(folder: Folder) -> None:
    """Gold answers are changed, and rows are said to come from a file."""
    folder.each(_lenient)
    folder.config(dataset__data="~/rows.jsonl")


def _of_many_rows(folder: Folder) -> None:
    """Gold answers are changed, and the rows are said to be more than are made quickly."""
    folder.each(_lenient)
    folder.config(dataset__options__questions=10_000_000)


def _of_the_hub(folder: Folder) -> None:
    """Gold answers are changed, and rows are said to be MuSiQue's."""
    folder.each(_lenient)
    folder.config(dataset__format="musique")


def _other_fingerprint(folder: Folder) -> None:
    """Gold answers are changed, and the rows' hash is another one."""
    folder.each(_lenient)
    folder.manifest(dataset__fingerprint="0" * 64)


def _drawn(folder: Folder) -> Folder:
    """A run of the same settings, whose answers were drawn with another seed."""
    out = folder.path.parent.parent / "drawn"
    limit = str(len(folder.rows()))
    said = call(
        "run", "--method", "bm25", "--dataset", "pocket/musique", "--limit", limit,
        "--set", "model.temperature=0.9", "seed=3", "--out", str(out), "--mlflow", "off",
    )  # fmt: skip
    assert said.code == 0, said.text
    (made,) = (path.parent for path in out.rglob("run.yaml"))
    return Folder(made, folder.other)


def _best_seed(folder: Folder) -> None:
    """The run is one of another seed and temperature, with the settings of the honest one."""
    drawn = _drawn(folder)
    honest = folder.manifest_of()
    held = drawn.manifest_of()
    for key in ("hash", "seed", "command"):
        held[key] = honest[key]
    for start in held["starts"]:
        start["command"] = honest["command"]
    drawn.write_manifest(held)
    shutil.copyfile(folder.path / "run.yaml", drawn.path / "run.yaml")
    shutil.rmtree(folder.path)
    shutil.move(drawn.path, folder.path)
    shutil.rmtree(drawn.path.parent.parent)
    folder.summarise()


def _asked_again(folder: Folder) -> None:
    """One answer is that of another draw, asked after the run."""
    drawn = _drawn(folder)
    folder.write([drawn.rows()[0], *folder.rows()[1:]])
    finished = drawn.manifest_of()["finished"]
    held = folder.manifest_of()
    held["finished"] = held["starts"][-1]["finished"] = finished
    folder.write_manifest(held)
    shutil.rmtree(drawn.path.parent.parent)
    folder.summarise()


def _narrow_intervals(folder: Folder) -> None:
    """Stored intervals are narrow, and said to be of an older rule."""
    summary = json.loads((folder.path / "summary.json").read_text())
    for score in summary["scores"].values():
        score["low"], score["high"] = score["mean"] - 0.001, score["mean"] + 0.001
    folder.summary(scores=summary["scores"], interval_rule="2")


def _cut_out(row: Record) -> None:
    """The answer is the reply without its last word."""
    words = row["prediction"].split()
    row["prediction"] = " ".join(words[:-1] or words)


def _cut_alone(folder: Folder) -> None:
    """Answers lack the last word of replies, which nobody kept."""
    folder.each(_cut_out)
    folder.seal()
    call("score", str(folder.path))


def _cut_out_of_kept(folder: Folder) -> None:
    """Answers lack the last word of replies, which the run kept."""
    out = folder.path.parent.parent / "kept"
    limit = str(len(folder.rows()))
    said = call(
        "run", "--method", "bm25", "--dataset", "pocket/musique", "--limit", limit,
        "--keep-prompts", "--out", str(out), "--mlflow", "off",
    )  # fmt: skip
    assert said.code == 0, said.text
    (made,) = (path.parent for path in out.rglob("run.yaml"))
    shutil.rmtree(folder.path)
    shutil.move(made, folder.path)
    shutil.rmtree(out)
    folder.each(_cut_out)
    folder.seal()
    call("score", str(folder.path))


def _third_of_index(folder: Folder) -> None:
    """Indexes are said to have cost a third."""
    lines = folder.rows("documents.jsonl")
    for line in lines:
        phase = line["usage"]["index"]
        for key in ("tokens_in", "tokens_out", "requests", "texts"):
            phase[key] //= 3
        for key in ("flops", "roles"):
            phase[key] = {name: value / 3 for name, value in phase[key].items()}
        phase["seconds"] /= 3
        phase["encoder_requests"] = 1
        phase["requests"] = max(2, phase["requests"])
    folder.write(lines, "documents.jsonl")
    folder.summarise()


EIGHTH_EDITS: tuple[Edit, ...] = (
    _in_both("a question asked twice, in both runs", _twice),
    _in_both("a question left out and ids anew, in both runs", _numbered_anew),
    _in_both("documents renamed, in both runs", _rename_documents),
    _in_both("an easier kind of question, in both runs", _each(_easier)),
    _in_both("an alias more, in both runs", _each(_lenient)),
    _in_both("question texts, in both runs", _each(_asked_otherwise)),
    _in_both("evidence is what is shown, in both runs", _each(_evidence_is_shown)),
    _in_both("called musique, in both runs", _called_musique),
    _in_both("half of the layers, in both runs", half_of_layers, "model sizes", "sizes of models"),
    _in_both("a window that no prompt fits, in both runs", _small_window),
    _in_both("a lenient score first, in both runs", _lenient_first, "the choice of", "the choice of"),
    _in_both("gold and the rows' hash, in both runs", _other_fingerprint),
    _in_both("gold, and rows of a file, in both runs", _of_a_file),
    _in_both("gold, and rows of the hub, in both runs", _of_the_hub, _ROWS, "gold answers"),
    _in_both("gold, and ten million rows, in both runs", _of_many_rows, _ROWS, "gold answers"),
    Edit("the best of two seeds", _best_seed, "one seed", line=_ANSWERS),
    Edit("asked until it is right", _asked_again, "asked once", line=_ANSWERS),
    Edit("narrow intervals of an older rule", _narrow_intervals, "intervals of an older rule",
         line="stored intervals"),
    Edit("answers cut out of replies", _cut_alone, "in these words",
         line=_ANSWERS),
    Edit("answers cut out of kept replies", _cut_out_of_kept),
)  # fmt: skip
THIRD_OF_INDEX = Edit(
    "a third of the index", _third_of_index, "index costs", of="pecan", line="index costs"
)
"""An edit of a run of PECAN."""

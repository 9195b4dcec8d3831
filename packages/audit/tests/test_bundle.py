"""Bundles: the same bytes, and what `verify` finds in one that was changed, or was made to do
harm."""

import json
import re
import stat
import struct
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from harness_audit.bundle import INDEX, README, answer_digest, digest, export, write_zip
from harness_audit.verify import Report, verify

from harness.config.schema import DatasetConfig
from harness.datasets import load
from harness.errors import DataError, UserError
from harness.storage.records import StoredRecord
from harness.storage.run_files import RECORDS, TEXTS
from harness.storage.run_folder import StoredRun, read_run
from harness.storage.summary_file import RunSummary
from tests.engine.fakes import Plain, go, make_plan
from tests.made_up import musique_rows, write_rows

pytestmark = pytest.mark.usefixtures("fake_model")

SCORER = "musique.answer_f1"
_ALWAYS = ("whether ", "settings that no hash covers", "the recorded version", "the choice of")


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "rows.jsonl", musique_rows(4))


def make(out: Path, rows: Path, name: str = "plain", **changes: Any) -> StoredRun:
    """A run of a method that answers with the first word of a document, on rows in MuSiQue's
    format."""
    fields = {
        "name": "musique",
        "format": "musique",
        "data": str(rows),
        "instruction": "Answer.",
        **changes,
    }
    config = DatasetConfig(max_answer_tokens=8, scorers=(SCORER, "evidence_recall"), **fields)
    plan = make_plan(load(config), Plain(Plain.Config()))
    choice = plan.config.method.model_copy(update={"name": name})
    settings = plan.config.model_copy(update={"dataset": config, "method": choice})
    return read_run(
        go(
            replace(
                plan, config=settings, hash8="01234567", folder=f"musique/{name}--fake--01234567"
            ),
            out,
        ).folder
    )


@pytest.fixture
def bundle(tmp_path: Path, rows: Path) -> Path:
    runs = [make(tmp_path / "out", rows), make(tmp_path / "out", rows, "other")]
    export(runs, tmp_path / "b.zip")
    return tmp_path / "b.zip"


def contents(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as held:
        return {name: held.read(name) for name in held.namelist()}


def rezip(path: Path, files: dict[str, bytes]) -> None:
    with path.open("wb") as held:
        write_zip(held, {name: [data] for name, data in files.items()})


def edit(path: Path, place: str, change: Callable[[Any], None], careful: bool = False) -> None:
    """Change one JSON line or file and write the bundle anew; careful: with its checksum in
    bundle.json."""
    files = contents(path)
    name = next(name for name in files if name.endswith(place))
    lines = (
        [json.loads(line) for line in files[name].splitlines()]
        if place == RECORDS
        else json.loads(files[name])
    )
    change(lines)
    files[name] = (
        "".join(json.dumps(x) + "\n" for x in lines) if place == RECORDS else json.dumps(lines)
    ).encode()
    if careful:
        index = json.loads(files[INDEX])
        index["files"][name] = digest(files[name])
        if place == RECORDS:
            run = index["runs"][name.rpartition("/")[0]]
            run["answers"] = {
                row["question_id"]: answer_digest(StoredRecord.from_json(row)) for row in lines
            }
        files[INDEX] = json.dumps(index).encode()
    rezip(path, files)


def own(report: Report) -> list[str]:
    """What was not checked, without what no bundle of a method and a first score of one's own
    records."""
    return [phrase for phrase in report.unchecked if not phrase.startswith(_ALWAYS)]


def found(report: Report) -> dict[str, list[str | None]]:
    out: dict[str, list[str | None]] = {}
    for one in report.differences:
        out.setdefault(one.kind, []).append(one.question or one.place)
    return out


def test_the_same_runs_are_the_same_bytes_and_verify(
    tmp_path: Path, rows: Path, bundle: Path
) -> None:
    runs = [read_run(path.parent) for path in sorted((tmp_path / "out").rglob("run.yaml"))]
    (tmp_path / "again").mkdir()
    again = [tmp_path / "again" / name for name in ("c.zip", "d.zip")]
    first = export(runs, again[0])
    assert export(runs[::-1], again[1]) == first
    assert [path.read_bytes() for path in again] == [bundle.read_bytes()] * 2
    assert own(verify(bundle)) == ["questions, gold answers and evidence against the data set"]
    report = verify(bundle, data=str(rows))
    assert report.sha256 == first
    assert (report.differences, report.notes, own(report)) == ([], [], [])
    assert (report.runs, report.answers, report.scores) == (2, 8, 16)
    assert report.numbers > 40
    with zipfile.ZipFile(bundle) as held:
        assert held.namelist() == sorted(held.namelist())
        assert {info.date_time for info in held.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    table = json.loads(contents(bundle)[INDEX])["table"]
    assert [row["method"] for row in table] == ["other", "plain"]
    assert SCORER in table[0]


def test_one_flipped_byte_is_found_and_named(bundle: Path) -> None:
    whole = bundle.read_bytes()
    with zipfile.ZipFile(bundle) as held:
        entries = held.infolist()
    for entry in entries:
        size = struct.unpack("<HH", whole[entry.header_offset + 26 : entry.header_offset + 30])
        middle = entry.header_offset + 30 + sum(size) + entry.compress_size // 2
        bundle.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
        with pytest.raises(DataError, match=re.escape(f"'{entry.filename}' is damaged")):
            verify(bundle)


def in_first(change: Callable[[dict[str, Any]], Any]) -> Callable[[Any], Any]:
    return lambda rows: change(rows[0])


def judged(row: dict[str, Any]) -> None:
    row["notes"]["judges"] = {SCORER: {}}
    row["scores"][SCORER] = 0.875


def reply(row: dict[str, Any]) -> None:
    row["prediction"] = row["gold"]["answers"][0]


# What is edited -> file, change, what is found by its kind (beside the file and the table), and a
# sentence.
SCORING = {"other scoring"}
Edits = dict[str, tuple[str, Callable[[Any], Any], set[str], str]]
CARELESS: Edits = {
    "number": (
        INDEX,
        lambda it: it["table"][0].update({SCORER: 0.99}),
        set(),
        f"{SCORER} is 0.99, and 0 computed",
    ),
    "gold": (RECORDS, in_first(lambda row: row["gold"].update(answers=["x"])), {"other texts"}, ""),
    "score": (
        RECORDS,
        in_first(lambda row: row["scores"].update({SCORER: 0.875})),
        SCORING,
        "is 0.875 in the bundle, and",
    ),
    "reply": (
        RECORDS,
        in_first(reply),
        {"other answers"},
        "is 0 in the bundle, and 1 computed again",
    ),
    "lost record": (RECORDS, lambda rows: rows.pop(), {"other answers"}, "its record is missing"),
    "shown text": (
        RECORDS,
        in_first(lambda row: row["shown"][0].update(text="altered")),
        {"other answers", "does not fit"},
        "",
    ),
    "summary": (
        "summary.json",
        lambda it: it.update(n_failed=3),
        set(),
        "n_failed is 3, and 0 computed again",
    ),
}
CAREFUL: Edits = {
    "answer": (RECORDS, in_first(reply), SCORING, ""),
    "one score": (
        RECORDS,
        in_first(lambda row: row["scores"].update({SCORER: 0.875})),
        SCORING,
        "and 0 computed again",
    ),
    "added": (
        RECORDS,
        in_first(lambda row: row["scores"].update({"2wikimultihopqa.em": 0.875})),
        SCORING,
        "",
    ),
    "judged": (RECORDS, in_first(judged), SCORING, f"{SCORER} is 0.875 in the bundle"),
    "removed": (
        RECORDS,
        in_first(lambda row: row["scores"].pop(SCORER)),
        SCORING,
        f"{SCORER} is missing",
    ),
    "unknown": (
        RECORDS,
        in_first(lambda row: row["scores"].update({"nobody.knows": 1.0})),
        set(),
        "nobody.knows",
    ),
    "flags": (
        RECORDS,
        in_first(lambda row: row["notes"].update(flags={SCORER: "x"})),
        SCORING,
        "notes.flags",
    ),
    "version": (
        "manifest.json",
        lambda it: it["scorers"].update({SCORER: "9"}),
        {"does not fit"},
        "versions of scorers",
    ),
    "count": (
        "summary.json",
        lambda it: it.update(n_truncated=3),
        set(),
        "n_truncated is 3, and 0 computed",
    ),
    "invented": (
        "summary.json",
        lambda it: it.update(invented=1),
        set(),
        "invented is 1, and missing computed",
    ),
    "asked": (
        "summary.json",
        lambda it: it.update(n_asked=99),
        set(),
        "called finished, with 4 of 99",
    ),
    "fewer asked": (
        "summary.json",
        lambda it: it.update(n_asked=1),
        {"does not fit"},
        "has n_asked 1, with 4 records",
    ),
    "rows of the index": (
        INDEX,
        lambda it: [entry.update(fingerprint="0" * 64) for entry in it["runs"].values()],
        {"does not fit"},
        "bundle.json names another fingerprint than the run does",
    ),
}


@pytest.mark.parametrize("name", CARELESS | CAREFUL)
def test_an_edit_is_found_and_named(bundle: Path, name: str) -> None:
    place, change, kinds, sentence = (CARELESS | CAREFUL)[name]
    exported = verify(bundle).sha256
    edit(bundle, place, change, careful=name in CAREFUL)
    report = verify(bundle)
    assert report.sha256 != exported, "a changed bundle has another hash than what it claims"
    assert set(found(report)) - {"file", "table"} == kinds
    assert any(sentence in str(one) for one in report.differences if one.kind != "file")
    unchecked = [
        one
        for one in own(report)
        if one != "questions, gold answers and evidence against the data set"
    ]
    assert unchecked == (["nobody.knows"] if name == "unknown" else [])


EARLY = {"questions": 4, "of": 400, "seed": 1, "verdicts": ["plain is better"]}


@pytest.mark.parametrize("change", [{"stopped_early": EARLY}, {"state": "interrupted"}])
def test_why_a_run_stopped_early_is_not_checked(
    bundle: Path, rows: Path, change: dict[str, Any]
) -> None:
    edit(bundle, "summary.json", lambda summary: summary.update(change), careful=True)
    names = own(verify(bundle, data=str(rows)))
    assert [name.partition("/")[0] for name in names] == ["why runs"]


@pytest.mark.parametrize("how", ["option", "run"])
def test_texts_that_may_not_be_copied_are_hashes(tmp_path: Path, rows: Path, how: str) -> None:
    run = make(tmp_path / "out", rows, keep_texts=how == "option")
    export([run], tmp_path / "b.zip", keep_texts=False)
    files = contents(tmp_path / "b.zip")
    gold = musique_rows(4)[0]["answer"]
    for name, data in files.items():
        assert name.endswith(RECORDS) or gold.encode() not in data
    for row in map(json.loads, files[next(n for n in files if n.endswith(RECORDS))].splitlines()):
        assert (row["gold"], row["question"], any(p["text"] for p in row["shown"])) == (
            None,
            None,
            False,
        )
        assert ("texts_sha256" in row) == (how == "option")
    report = verify(tmp_path / "b.zip")
    assert (report.scores, report.differences) == (0, [])
    assert "4 answers have no gold answers in the bundle" in report.notes[0]
    if how == "option":
        whole = verify(tmp_path / "b.zip", data=str(rows))
        assert (whole.scores, whole.differences, whole.notes) == (8, [], [])
        changed = musique_rows(4)
        changed[0]["answer"] = "another"
        other = write_rows(tmp_path / "changed.jsonl", changed)
        assert len(found(verify(tmp_path / "b.zip", data=str(other)))["other texts"]) == 1


def give_older_intervals(place: str) -> Callable[[dict[str, Any]], None]:
    """An edit of the summary or of bundle.json that gives it intervals of a rule before today's."""

    def change(held: dict[str, Any]) -> None:
        if place == "summary.json":
            held["scores"][SCORER].update(low=0.125, high=0.875)
        else:
            held["table"][0][f"{SCORER}.low"] = 0.125
        held["interval_rule"] = "1"

    return change


def test_other_words_in_the_readme_are_said_to_be_unchecked(here, bundle):
    files = contents(bundle)
    files[README] = b"Our method answers 98 % of 1,000 questions.\n"
    index = json.loads(files[INDEX])
    index["files"][README] = digest(files[README])
    files[INDEX] = json.dumps(index).encode()
    rezip(bundle, files)
    last = here("verify", str(bundle)).checked(0).stdout.rstrip().rpartition("\n")[2]
    assert "not checked: the words of README.txt" in last


@pytest.mark.parametrize("place", ["summary.json", INDEX])
def test_intervals_of_an_older_rule_are_said_to_be_so(here, bundle, place):
    edit(bundle, place, give_older_intervals(place), careful=True)
    done = here("verify", str(bundle)).checked(0)
    last = done.stdout.rstrip().rpartition("\n")[2]
    assert last.startswith("consistent; ")
    assert "intervals of an older rule" in last
    assert "its intervals are of an older rule than this version's" in done.stdout


def test_a_summary_without_a_rule_is_compared_in_its_means(here, bundle):
    def change(summary: dict[str, Any]) -> None:
        give_older_intervals("summary.json")(summary)
        del summary["interval_rule"]
        summary["scores"][SCORER]["mean"] = 0.75

    edit(bundle, "summary.json", change, careful=True)
    done = here("verify", str(bundle)).checked(4)
    assert f"scores.{SCORER}.mean is 0.75" in done.stdout
    assert f"scores.{SCORER}.low" not in done.stdout
    assert "its intervals are of an older rule than this version's" in done.stdout


def test_against_runs_of_ones_own(tmp_path: Path, rows: Path, bundle: Path) -> None:
    own = make(tmp_path / "own", rows)
    assert verify(bundle, against=[own]).differences == []
    records = list(own.records)
    records[0] = replace(records[0], prediction="another")
    records[1] = replace(records[1], scores={**records[1].scores, SCORER: 0.5})
    kinds = found(verify(bundle, against=[replace(own, records=records)]))
    assert kinds == {
        "other answers": [records[0].question_id],
        "other scoring": [records[1].question_id],
    }
    stranger = replace(own, path=Path("nobody--fake--00000000"))
    assert "no run of this name" in verify(bundle, against=[stranger]).notes[-1]


def test_runs_that_are_not_exported(tmp_path: Path, rows: Path) -> None:
    run = make(tmp_path / "out", rows)
    with pytest.raises(UserError, match="has not ended"):
        export([replace(run, summary=RunSummary())], tmp_path / "b.zip")
    with pytest.raises(UserError, match="given twice"):
        export([run, run], tmp_path / "b.zip")


def test_code_that_a_bundle_names_is_not_imported(tmp_path, bundle, monkeypatch):
    (tmp_path / "evil_scorer.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    files = contents(bundle)
    for name in [name for name in files if name.endswith("run.yaml")]:
        files[name] = files[name].replace(
            b"- evidence_recall", b"- evil_scorer:score\n    - nobody.knows"
        )
    rezip(bundle, files)
    notes = " ".join(verify(bundle).notes)
    assert "'evil_scorer:score' are not computed again: it is code of its author's" in notes
    assert "'nobody.knows' are not computed again: it is not known" in notes
    assert "evil_scorer" not in sys.modules


def entry(name: str, mode: int = stat.S_IFREG | 0o644) -> zipfile.ZipInfo:
    made = zipfile.ZipInfo(name)
    made.external_attr = mode << 16
    made.compress_type = zipfile.ZIP_DEFLATED
    return made


NONE = b'"answers": {}, "questions": {}, "scorers": {}'
ELSEWHERE = b'{"format": 3, "runs": {"../x": {%s}}, "table": [], "files": {}}' % NONE
HOSTILE: dict[str, tuple[list[tuple[zipfile.ZipInfo, bytes]], str]] = {
    "out of the folder": ([(entry("../evil"), b"x")], "leads to another place"),
    "absolute": ([(entry("/etc/evil"), b"x")], "leads to another place"),
    "of Windows": ([(entry("runs\\..\\evil"), b"x")], "leads to another place"),
    "a link": (
        [(entry("runs/a/b/run.yaml", stat.S_IFLNK | 0o777), b"/etc/passwd")],
        "a link or no plain file",
    ),
    "twice": ([(entry("a"), b"x"), (entry("A"), b"y")], "is in it twice"),
    "a bomb": ([(entry("bundle.json"), b"\0" * 5_000_000)], "would be 5,000,000 bytes out of"),
    "no bundle": ([(entry("a"), b"x")], "no bundle of this program"),
    "no JSON": ([(entry(INDEX), b"{")], "bundle.json is damaged"),
    "deep": ([(entry(INDEX), b"[" * 3000 + b"]" * 3000)], "bundle.json is"),
    "another shape": (
        [(entry(INDEX), b'{"format": 3, "runs": [], "table": [], "files": {}}')],
        "not of this program",
    ),
    "a later format": (
        [(entry(INDEX), b'{"format": 9, "runs": {}, "table": [], "files": {}}')],
        "export it again",
    ),
    "a run elsewhere": ([(entry(INDEX), ELSEWHERE)], "is not in it"),
}


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_bundles_are_refused(tmp_path: Path, kind: str) -> None:
    entries, sentence = HOSTILE[kind]
    with zipfile.ZipFile(tmp_path / "evil.zip", "w") as made:
        for info, data in entries:
            made.writestr(info, data)
    with pytest.raises(DataError, match=sentence):
        verify(tmp_path / "evil.zip")
    assert not (tmp_path.parent / "evil").exists()


def test_a_head_that_lies_about_its_size(
    tmp_path: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness_audit.bundle._MAX_BYTES", 1000)
    (tmp_path / "text.zip").write_text("no zip")
    for name, problem in {
        "b": "more than 1,000",
        "text": "no zip file that can be read",
        "nothing": "there is no such file",
    }.items():
        with pytest.raises(DataError, match=problem):
            verify(tmp_path / f"{name}.zip")


def test_the_commands(
    tmp_path: Path, rows: Path, command: Callable[..., tuple[int, str, str]]
) -> None:
    make(tmp_path / "out", rows)
    place = str(tmp_path / "b.zip")
    code, out, err = command("export", str(tmp_path / "out"), place)
    assert (code, err) == (0, "")
    sha256 = out.split()[-1]
    code, out, err = command("verify", place, "--data", str(rows))
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == f"{place}: contents sha256 {sha256}"
    assert out.splitlines()[-1].startswith("consistent; computed again: ")
    assert "not checked: " in command("verify", place)[1].splitlines()[-1]
    edited = musique_rows(4)
    edited[0]["answer"] = "another"
    other = write_rows(tmp_path / "edited.jsonl", edited)
    assert "other texts: runs/musique" in command("verify", place, "--data", str(other))[1]
    edit(tmp_path / "b.zip", RECORDS, lambda lines: lines[0]["scores"].update({SCORER: 1.0}))
    code, out, _ = command("verify", place)
    assert code == 4
    assert "other scoring: runs/musique/plain--fake--01234567, question '" in out
    assert out.splitlines()[-1].startswith("NOT consistent: ")
    assert json.loads(command("verify", place, "--json")[1])["differences"]
    assert command("verify", place, "--against", str(tmp_path / "out"))[0] == 4
    for words, sentence in (
        (("export", str(tmp_path / "out")), "last the file to write"),
        (("export", str(tmp_path / "out"), "b.tar"), "should end in .zip"),
        (("export", str(tmp_path / "out"), place, "--keep-texts", "maybe"), "should be yes or no"),
        (("verify", str(tmp_path / "none.zip")), "there is no such file"),
    ):
        code, _, err = command(*words)
        assert (code, sentence in err) == (2, True), err


@pytest.mark.parametrize("how", ["deleted", "cut"])
def test_lost_texts_are_told(tmp_path: Path, rows: Path, how: str) -> None:
    folder = make(tmp_path / "out", rows).path
    lines = [json.loads(line) for line in (folder / RECORDS).read_bytes().splitlines()]
    for row in lines:
        row["shown"][0].update(text="", text_sha256="0" * 32)
    (folder / RECORDS).write_text("".join(json.dumps(row) + "\n" for row in lines))
    if how == "cut":
        (folder / TEXTS).write_bytes(b"{")
    run = read_run(folder)
    assert run.notes == ("1 of 1 long texts that were shown are missing from texts.jsonl",)
    export([run], tmp_path / "b.zip")
    sentences = [d.sentence for d in verify(tmp_path / "b.zip").differences]
    assert sentences[0].endswith("had been changed when the run was exported")
    assert sentences[1:] == list(run.notes)

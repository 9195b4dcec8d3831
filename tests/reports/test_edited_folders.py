"""Run folders that were edited on disk are seen by the commands; honest ones are not hurt.

`python -m bench.fabricated` judges all kinds; here are the ones that stand for a rule each.
"""

import json
import os
import re
import shutil

import pytest

from bench.commands import call
from bench.fabricated import (
    ALL_EDITS,
    BESIDE_SEARCHES,
    SEARCHES,
    copies,
    is_certified,
    is_silent,
    judged,
    make_runs,
)
from bench.fabrications import Folder
from bench.fabrications_fourth import FOURTH_EDITS
from bench.fabrications_seventh import SEVENTH_EDITS, UNPAID_PROBES, cut_in_secret
from bench.fabrications_sixth import SEARCH_EDITS, SIXTH_EDITS
from harness.storage import file_hash
from tests.reports.build import record, span, write_run

ALL = {edit.name: edit for edit in ALL_EDITS}
KINDS = (
    "gold is the answer",
    "question text",
    "an alias more",
    "scores",
    "half the rows of another method",
    "tokens / 10",
    "FLOPs / 10",
    "zero usage",
    "50 requests",
    "no passages",
    "other texts shown",
    "a first prompt with the answer",
    "started in 2031",
    "temperature",
    "options of the data",
    "small model",
    "gold is the answer, scored again",
    "judged by nobody",
    "no shapes",
    "called recalled, seconds / 10",
    "models of unknown size",
    "other conventions / 10",
    "tokens that are unknown",
    "cheaper in the summary",
    "longer documents",
    "called served",
    "called a copy with other names",
    *(edit.name for edit in FOURTH_EDITS),
    "called sbert",
    "long answers of one token",
    "questions faster than their requests",
    "no first prompt",
    "other prompts, hash anew",
    "a hidden score",
    "half of the cost called the encoder's",
    "seconds called waiting",
    "retries of a loaded model",
    "another method's rows and id",
    "shorter chunks, hash anew",
    "an easier kind of question",
    *(edit.name for edit in SIXTH_EDITS),
    *(edit.name for edit in SEVENTH_EDITS),
)


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    """Two honest runs of the embedded model: method -> run folder."""
    return _made(tmp_path_factory, "--method bm25,full-context --limit 2")


@pytest.fixture(scope="module")
def honest_with_encoder(honest, tmp_path_factory):
    """These runs, and one of a method that builds an index with an encoder."""
    return {**honest, **_made(tmp_path_factory, "--method sbert --limit 2")}


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    """Honest runs of a search with recorded stops, and of a method beside it."""
    return _made(tmp_path_factory, SEARCHES, BESIDE_SEARCHES)


def _made(folders, *commands):
    root = folders.mktemp("honest")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HARNESS_CACHE", str(root / "cache"))
        return make_runs(root, *commands)


@pytest.fixture(scope="module")
def plain(honest_with_encoder):
    """What the commands say of the honest runs, by the method that is judged."""
    return {of: _plain(honest_with_encoder, of) for of in ("bm25", "sbert")}


def _plain(runs, of):
    with copies(runs) as here:
        said = judged(here, of)
    assert [one.code for one in said] == [0, 0, 0]
    assert not said[0].marks
    return said


@pytest.mark.parametrize("name", KINDS)
def test_an_edit_with_new_checksums_is_seen_by_every_command(name, honest_with_encoder, plain):
    edit = ALL[name]
    _is_seen(edit, honest_with_encoder, plain[edit.of])


@pytest.mark.parametrize("edit", [*SEARCH_EDITS, UNPAID_PROBES], ids=lambda edit: edit.name)
def test_an_edited_search_is_seen_by_every_command(edit, searched):
    _is_seen(edit, searched, _plain(searched, edit.of))


def _is_seen(edit, runs, plain):
    """No command is silent on the edit with new checksums; plain: what they say without it."""
    with copies(runs) as here:
        folder = Folder(here[edit.of], here["full-context"])
        edit.change(folder)
        folder.seal()
        here[edit.of] = folder.path
        compared, reported, verified = judged(here, edit.of)
    assert not is_silent(compared, plain[0])
    assert not is_silent(reported, plain[1])
    assert not is_certified(verified, edit)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("an easier kind of question", "gold answers are not those of the data set"),
        ("documents of their own", "gold answers are not those of the data set"),
        ("texts in lower case", "show texts that are not in their documents"),
        ("passages of other places", "show texts that are not in their documents"),
        ("the last questions called the first", "questions are not the first ones of its data set"),
    ],
)
def test_verify_compares_a_bundle_with_a_data_set_that_is_at_hand(name, sentence, honest):
    with copies(honest) as here:
        folder = Folder(here["bm25"], here["full-context"])
        ALL[name].change(folder)
        folder.seal()
        verified = judged(here)[2]
    assert verified.code == 4
    assert sentence in " ".join(verified.text.split())


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("the last question with a system prompt", "have other tokens than their prompt"),
        ("a system prompt cut out of the first prompt", "is not the text of its tokens"),
        ("passages that were not read", "have fewer tokens than the passages shown"),
        ("the last question with longer chunks", "show more tokens than the settings allow"),
        ("the evidence alone, called the document", "less of the text shown than its stop reason"),
        ("passages by rank called in order", "in another order than that of the text"),
    ],
)
def test_a_table_says_what_does_not_fit(name, sentence, honest, command):
    with copies(honest) as here:
        folder = Folder(here["bm25"], here["full-context"])
        ALL[name].change(folder)
        folder.seal()
        _, said, _ = command("report", str(folder.path))
    assert sentence in " ".join(said.split())


def test_a_text_that_was_cut_in_secret_is_seen(honest):
    with copies(honest) as here:
        folder = Folder(here["full-context"], here["full-context"])
        cut_in_secret(folder)
        folder.seal()
        said = call("compare", str(folder.path), str(here["bm25"]))
    assert said.code == 2
    assert "less of the text shown than its stop reason says" in " ".join(said.text.split())


def test_passages_that_lie_in_two_documents_fit_their_tokens(tmp_path):
    options = ("--limit", "3", "--out", str(tmp_path), "--mlflow", "off")
    assert call("run", "--method", "bm25", "--dataset", "pocket/retrieved", *options).code == 0
    assert not call("report", str(tmp_path)).marks


@pytest.mark.parametrize("file", ["run.yaml", "manifest.json", "records.jsonl", "documents.jsonl"])
def test_a_file_that_was_changed_after_the_end_is_named_by_every_command(file, honest):
    with copies(honest) as here:
        path = here["bm25"] / file
        path.write_text(path.read_text() + "\n")
        said = judged(here)
    assert [one.code for one in said] == [2, 0, 4]
    for one, words in zip(said, ("was changed", "was changed", "had been changed"), strict=True):
        assert f"{file} {words}" in " ".join(one.text.split())


@pytest.mark.parametrize("key", ["task", "index_version", "unset"])
def test_a_manifest_that_lacks_a_part_of_what_was_hashed_is_one_sentence(key, honest):
    with copies(honest) as here:
        path = here["bm25"] / "manifest.json"
        manifest = json.loads(path.read_text())
        del manifest["hashed"][key]
        path.write_text(json.dumps(manifest))
        said = call("report", str(path.parent))
    assert said.code == 2
    assert f"{path}, field 'hashed.{key}': a wrong value (is missing)" in said.text


def test_a_manifest_that_lacks_the_data_set_of_what_was_hashed_does_not_fit(honest):
    with copies(honest) as here:
        path = here["bm25"] / "manifest.json"
        manifest = json.loads(path.read_text())
        del manifest["dataset"]
        path.write_text(json.dumps(manifest))
        said = call("report", str(path.parent))
    assert said.code == 0
    assert "does not fit: its settings and models give the hash" in " ".join(said.text.split())


def test_a_run_made_twice_is_two_runs_of_a_report_and_a_bundle(honest, command):
    with copies(honest) as here:
        root = here["bm25"].parent.parent
        again = root / "again" / here["bm25"].name
        shutil.copytree(here["bm25"], again)
        other = Folder(again, here["full-context"])
        other.manifest(id="0123456789abcdef")
        other.usage(_a_little_faster)
        other.summarise()
        other.seal()
        bundle = str(root / "b.zip")
        pair = (str(here["bm25"]), str(again))
        _, reported, _ = command("report", *pair)
        exported, _, _ = command("export", *pair, bundle)
        verified, said, _ = command("verify", bundle)
    assert (exported, verified) == (0, 0)
    for text in (reported, said):
        assert "the same run made twice: 2 of 2 answers are alike" in " ".join(text.split())
    assert "2 runs, 4 answers" in said


def _a_little_faster(phase):
    phase["seconds"] *= 0.98765


def test_a_copy_that_is_called_a_second_run_is_not_consistent(honest, command):
    with copies(honest) as here:
        root = here["bm25"].parent.parent
        again = root / "again" / here["bm25"].name
        shutil.copytree(here["bm25"], again)
        other = Folder(again, here["full-context"])
        other.manifest(id="0123456789abcdef")
        other.seal()
        bundle = str(root / "b.zip")
        command("export", str(here["bm25"]), str(again), bundle)
        code, out, _ = command("verify", bundle)
    assert code == 4
    assert "2 of its answers have the costs of those of" in out


def test_models_of_one_weight_have_one_size_in_a_bundle(honest, command):
    with copies(honest) as here:
        folder = Folder(here["bm25"], here["full-context"])
        ALL["half of the layers"].change(folder)
        folder.seal()
        bundle = str(folder.path.parent.parent / "b.zip")
        command("export", str(folder.path), str(here["full-context"]), bundle)
        code, out, _ = command("verify", bundle)
    assert code == 4
    assert "other sizes of the same weights than in" in out


def test_a_preset_value_of_another_type_is_the_preset_value(honest, command):
    with copies(honest) as here:
        folder = Folder(here["bm25"], here["full-context"])
        folder.config(method__params__chunk_tokens=300.0)
        folder.rename()
        folder.seal()
        _, out, _ = command("report", str(folder.path))
    assert "is its preset's" not in " ".join(out.split())


def test_two_copies_of_a_run_are_not_exported(honest, command):
    with copies(honest) as here:
        copy = here["bm25"].parent.parent / "copy" / here["bm25"].name
        shutil.copytree(here["bm25"], copy)
        bundle = str(copy.parent / "b.zip")
        code, _, err = command("export", str(here["bm25"]), str(copy), bundle)
    assert code == 2
    assert "is given twice, from several folders; leave one out" in err


def test_a_copy_is_one_run_and_a_changed_copy_is_none(honest, command):
    with copies(honest) as here:
        root = here["bm25"].parent.parent
        copy = root / "copy" / here["bm25"].name
        shutil.copytree(here["bm25"], copy)
        assert "is the same run as" in command("report", str(root))[2]
        Folder(copy, here["full-context"]).each(lambda row: row.update(prediction="Mira"))
        _, out, err = command("report", str(root))
    assert "is the same run as" not in err
    assert "2 other records, though both are copies of one run" in " ".join(out.split())


@pytest.fixture
def keeps(monkeypatch, tmp_path):
    """Checks of small runs are kept, too; the folder they are kept in."""
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path))
    monkeypatch.setattr("reports.cached_checks._MIN_CACHED_BYTES", 1)
    return tmp_path / "checks"


def test_a_second_table_examines_no_record_again(honest, keeps, monkeypatch):
    with copies(honest) as here:
        root = str(here["bm25"].parent.parent)
        Folder(here["bm25"], here["full-context"]).each(lambda row: row["scores"].update(em=2.0))
        first = call("report", root)
        assert len(list(keeps.rglob("*.npz"))) == 2
        monkeypatch.setattr("reports.cached_checks.Examination", None)
        monkeypatch.setattr("harness.storage.run_folder.read_records", None)
        assert call("report", root) == first


def test_what_was_kept_hides_no_edit_of_equal_size_and_time(honest, keeps, monkeypatch):
    with copies(honest) as here:
        root, records = str(here["bm25"].parent.parent), here["bm25"] / "records.jsonl"
        time = records.stat().st_mtime_ns
        before = call("report", root)
        text = records.read_text()
        records.write_text(re.sub(r'"tokens_in": [1-8](?=\d\d)', '"tokens_in": 9', text))
        assert len(records.read_text()) == len(text)
        os.utime(records, ns=(time, time))
        monkeypatch.setattr(
            file_hash, "_hash_of_file", {}
        )  # a command of its own remembers no file
        after = call("report", root)
    assert "FLOPs that are not those of its tokens" not in before.text
    assert "FLOPs that are not those of its tokens" in " ".join(after.text.split())


def test_a_torn_file_of_cached_checks_is_made_anew(honest, keeps):
    with copies(honest) as here:
        root = str(here["bm25"].parent.parent)
        first = call("report", root)
        for path in keeps.rglob("*.npz"):
            path.write_bytes(path.read_bytes()[:-100])
        assert call("report", root) == first


@pytest.mark.parametrize(
    ("shown", "is_odd"),
    [([], False), ([span("d0", 0, 9, "Some text")], True)],
    ids=["none", "some"],
)
def test_a_method_that_found_nothing_to_ask_about_needs_no_request(
    shown, is_odd, tmp_path, command
):
    settings = {"method": {"name": "graphrag-global", "implementation": "graphrag", "params": {}}}
    rows = [record(0, 0.0, prediction="I do not know.", usage={}, shown=shown)]
    write_run(tmp_path, rows, method="graphrag-global", settings=settings)
    _, out, _ = command("report", str(tmp_path))
    assert ("an answer without a request" in " ".join(out.split())) == is_odd


def test_a_record_that_took_longer_than_any_start_of_its_run_is_named(tmp_path, command):
    start = {"started": "2026-01-02T03:04:05+00:00", "finished": "2026-01-02T03:04:45+00:00"}
    for seconds, folder in ((30.0, "fits"), (60.0, "long")):
        rows = [record(i, 0.0, notes={"seconds": seconds}) for i in range(2)]
        starts = [{**start, "parallel": 2}, {**start, "parallel": 2}]
        write_run(tmp_path / folder, rows, manifest={"starts": starts, **start})
    _, fits, _ = command("report", str(tmp_path / "fits"))
    _, long, _ = command("report", str(tmp_path / "long"))
    assert "does not fit" not in fits
    assert "a record took 60.0 s, and no start of the run lasted as long" in " ".join(long.split())


def test_ranking_in_several_passes_is_no_oddity(tmp_path, command):
    """A text longer than the window is ranked by attention pass after pass."""
    made = call(
        "run", "--method", "icr", "--model", "pocket-llama", "--dataset", "pocket/musique",
        "--limit", "2", "--set", "model.window=512", "--out", str(tmp_path), "--mlflow", "off",
    )  # fmt: skip
    assert (made.code, "does not fit" in made.text) == (0, False), made.text
    (folder,) = [path.parent for path in tmp_path.rglob("run.yaml")]
    edited = Folder(folder, folder)
    edited.each(lambda row: row["usage"]["search"].update(requests=40))
    edited.seal()
    _, out, _ = command("report", str(tmp_path))
    assert "2 of 2 records have several requests" in " ".join(out.split())

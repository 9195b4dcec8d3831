"""A run folder is read without its data set: every verb, after the file of the rows was removed."""

import json
from pathlib import Path

import pytest

from harness.storage.run_folder import read_run
from tests.reports.test_page import Page

LONG = "Ann built the mill near Kelford. " * 40
BACKWARDS = {"document_id": "d", "start": 5, "end": 1}


def row(n):
    texts = [
        ("Mill", LONG, True),
        ("Ann", f"Ann {n} was born in Kelford.", True),
        ("Other", "Toren.", False),
    ]
    keys = ("title", "paragraph_text", "is_supporting")
    paragraphs = [{"idx": i, **dict(zip(keys, text, strict=True))} for i, text in enumerate(texts)]
    asked = {
        "id": f"2hop__{n}",
        "question": f"Where was builder {n} of the mill born?",
        "paragraphs": paragraphs,
    }
    gold = {
        "answer": "Kelford",
        "answer_aliases": ["Kel ford"],
        "answerable": True,
        "question_decomposition": [],
    }
    return asked | gold


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row(n)) + "\n" for n in range(3)), encoding="utf-8")
    (tmp_path / "replies.yaml").write_text(
        "replies: [{reply: Kelford}]\nwindow: 8192\n", encoding="utf-8"
    )
    return path


def run(here, method, *more):
    scorers = "dataset.scorers=[musique.answer_f1,evidence_recall]"
    model = (
        "--model",
        "scripted",
        "--mlflow",
        "off",
        "--set",
        "model.script=replies.yaml",
        scorers,
    )
    done = here(
        "run", "-m", method, "-d", "musique", "--data", "rows.jsonl", *model, "--json", *more
    )
    assert done.returncode == 0, done.stderr
    return Path(json.loads(done.stdout.splitlines()[-1])["run"])


def records(folder):
    return [
        json.loads(line)
        for line in (folder / "records.jsonl").read_text(encoding="utf-8").splitlines()
    ]


def test_a_record_holds_question_gold_marks_and_texts(here, rows):
    folder = run(here, "full-context")
    one = records(folder)[1]
    assert one["question"] == "Where was builder 1 of the mill born?"
    assert one["options"] is None
    assert one["gold"]["answers"] == ["Kelford", "Kel ford"]
    (piece,) = one["shown"]
    assert one["document_characters"] == [piece["end"]]
    run_read = read_run(folder)
    (text,) = run_read.texts(run_read.records[1:2]).values()
    assert (piece["text"], len(piece["text_sha256"])) == ("", 32)
    assert "Ann 1 was born in Kelford." in text
    marks = [text[s["start"] : s["end"]] for s in one["gold"]["supporting"]]
    assert [LONG.strip() in mark or "born" in mark for mark in marks] == [True, True]
    lines = (folder / "texts.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 3, "a text of each question, each once"


@pytest.mark.parametrize("method", ["bm25", "full-context"])
def test_every_verb_works_when_the_data_file_is_gone(method, here, rows, tmp_path):
    folder, other = run(here, method), run(here, "closed-book")
    before = read_run(folder).summary.scores
    rows.unlink()
    for words in (
        ["report", "results"],
        ["compare", str(folder), str(other)],
        ["study", "position", str(folder)],
    ):
        done = here(*words)
        assert (done.returncode, done.stderr) == (0, ""), (words, done.stderr)
    traced = here("trace", str(folder), "2hop__2").stdout.splitlines()
    assert [" ".join(line.split()) for line in traced[:4]] == [
        f"question 2hop__2 on {records(folder)[2]['document_ids'][0]}",
        "Where was builder 2 of the mill born?",
        "gold Kelford | Kel ford",
        "answer Kelford",
    ]
    parsed = json.loads(here("trace", str(folder), "2hop__2", "--json").stdout)
    assert (parsed["question"], parsed["gold"]) == (
        "Where was builder 2 of the mill born?",
        ["Kelford", "Kel ford"],
    )
    assert here("report", "results", "--html", "page.html").returncode == 0
    written = Page((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert "No gold answers" not in written.text
    (data,) = written.data
    first = data["questions"][0]
    assert (first["texts"], first["gold"]) == (
        "Where was builder 0 of the mill born?",
        ["Kelford", "Kel ford"],
    )
    shown = [piece["text"] for answer in first["answers"] for piece in answer.get("shown", ())]
    assert any("Ann built the mill near Kelford." in text for text in shown)
    assert all(shown)
    here(
        "score", str(folder), "--scorers", "musique.answer_f1,evidence_recall,flashrag.em"
    ).checked()
    after = read_run(folder).summary.scores
    assert {name: after[name] for name in before} == before
    assert after["flashrag.em"].mean == 1.0


def test_scoring_again_says_what_was_said_of_the_questions(here, rows):
    folder = run(here, "full-context")
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["warnings"] = ["the first 2 questions are not like the rest"]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    done = here("score", str(folder)).checked()
    assert "warning: " in done.stderr
    assert "the first 2 questions are not like the rest" in done.stderr


def test_a_licence_can_forbid_it(here, rows, tmp_path):
    folder = run(here, "full-context", "--keep-texts", "no")
    content = "".join(path.read_text(encoding="utf-8") for path in folder.iterdir())
    assert not (folder / "texts.jsonl").exists()
    for text in ("mill", "builder", "Kel ford"):
        assert text not in content.replace(str(tmp_path), ""), text
    one = records(folder)[0]
    assert (one["question"], one["options"], one["gold"]) == (None, None, None)
    assert one["shown"][0] | {"document_id": ""} == {
        "kind": "span", "document_id": "", "start": 0, "end": one["document_characters"][0], "text": "", "sources": [],
    }  # fmt: skip
    assert here("score", str(folder)).returncode == 0, "the data set is there"
    assert records(folder)[0]["gold"] is None, "and its texts stay out of the folder"
    rows.unlink()
    done = here("score", str(folder)).checked(2)
    assert done.stderr.count("\n") == 1
    assert here("trace", str(folder), "2hop__0").returncode == 0
    assert here("report", "results", "--html", "page.html").returncode == 0


def test_the_same_run_with_the_other_choice_takes_them_out_and_puts_them_in(here, rows):
    folder = run(here, "full-context")
    whole, texts = records(folder), (folder / "texts.jsonl").read_bytes()
    assert run(here, "full-context", "--keep-texts", "no") == folder
    assert [r["gold"] for r in records(folder)] == [None] * 3
    assert not (folder / "texts.jsonl").exists()
    assert not read_run(folder).manifest.has("first_prompts")
    run(here, "full-context")
    assert records(folder) == whole
    assert (folder / "texts.jsonl").read_bytes() == texts


def test_damaged_and_missing_texts_are_one_sentence(here, rows):
    folder = run(here, "full-context")
    damaged = bytearray((folder / "texts.jsonl").read_bytes())
    damaged[80] ^= 1
    (folder / "texts.jsonl").write_bytes(damaged)
    for words in (["trace", str(folder), "2hop__0"], ["report", "results", "--html", "page.html"]):
        done = here(*words).checked(2)
        assert "does not fit its checksum" in done.stderr
        assert done.stderr.count("\n") == 1
    (folder / "texts.jsonl").unlink()
    done = here("trace", str(folder), "2hop__0")
    assert (done.returncode, "texts that were shown are missing" in done.stdout) == (0, True)


@pytest.mark.parametrize(
    ("scorer", "gold"),
    [
        ("quality.accuracy", {"answers": ["a"], "supporting": [], "extra": {"all_classes": 3}}),
        ("evidence_recall", {"answers": ["a"], "supporting": [BACKWARDS], "extra": {}}),
    ],
)
def test_gold_answers_that_somebody_damaged_are_one_sentence(scorer, gold, here, rows):
    folder = run(here, "closed-book")
    changed = [{**one, "gold": gold} for one in records(folder)]
    (folder / "records.jsonl").write_text(
        "".join(json.dumps(one) + "\n" for one in changed), encoding="utf-8"
    )
    done = here("score", str(folder), "--scorers", scorer)
    assert done.returncode == 2 or (done.returncode, scorer) == (0, "evidence_recall"), (
        "flagged by the scorer itself"
    )
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") <= 1

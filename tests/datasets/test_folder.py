"""A folder of documents and a file of questions: what is read, what is counted, what is refused."""

import json
import os
import sys
from pathlib import Path

import pytest
import yaml

from harness.cli.main import main
from harness.config.schema import DatasetConfig
from harness.datasets import load
from harness.errors import ConfigError, DataError
from harness.stats.question_clusters import WHOLE_FOLDER, question_labels
from harness.storage.run_folder import read_run
from harness.tracking.metrics import final_metrics
from reports.leaderboard import leaderboard
from reports.main_table import frame, table_rows
from tests.llm.loopback import Loopback, completion

SETUP = """---
title: Setting up
---
Intro.

# Install

```
# not a heading
pip install acme
```

| a | b |
|---|---|

## Warranty

The warranty is two years.
"""


@pytest.fixture
def wiki(tmp_path):
    folder = tmp_path / "wiki"
    (folder / "guide").mkdir(parents=True)
    (folder / "guide/setup.md").write_text(SETUP)
    (folder / "office.txt").write_bytes(b"\xef\xbb\xbfThe office\r\nis in Turin.\r\n")
    (folder / "menu.html").write_text(
        "<html><body><h1>Menu</h1><p>On Monday there is soup.</p></body></html>"
    )
    (folder / "rows.jsonl").write_text(
        '{"id": "k1", "title": "Codes", "text": "The code is 77."}\n'
    )
    return folder


def config(wiki, questions, name="q.jsonl"):
    path = wiki.parent / name
    path.write_text(
        questions
        if isinstance(questions, str)
        else "".join(json.dumps(q) + "\n" for q in questions)
    )
    return DatasetConfig(
        name="folder",
        format="folder",
        data=str(path),
        options={"documents": str(wiki)},
        instruction="Answer.",
        max_answer_tokens=8,
        scorers=("flashrag.em",),
    )


def test_a_question_that_names_a_page_gets_its_sections_and_marks(wiki):
    row = {"question": "How long?", "answer": "two years", "document": "guide/setup.md"}
    data = load(config(wiki, [{**row, "gold_pages": "guide/setup#Warranty"}]))
    (document,) = data.documents.values()
    titles = ["Setting up", "Setting up: Install", "Setting up: Warranty"]
    assert (document.id, [p.title for p in document.passages]) == ("guide/setup", titles)
    assert "# not a heading\npip install acme" in document.text
    assert "| a | b |\n|---|---|" in document.text
    assert "title: Setting up" not in document.text
    (support,) = data.examples[0].gold.supporting
    assert (
        document.text[support.start : support.end]
        == "Setting up: Warranty\nThe warranty is two years."
    )


def test_a_question_without_a_page_is_asked_about_the_whole_folder(wiki):
    data = load(config(wiki, [{"question": "Where?", "answer": "Turin", "gold_pages": ["office"]}]))
    (document,) = data.documents.values()
    (support,) = data.examples[0].gold.supporting
    assert document.id == WHOLE_FOLDER
    for text in (
        "two years",
        "The office\nis in Turin.",
        "On Monday there is soup.",
        "The code is 77.",
    ):
        assert text in document.text
    assert document.text[support.start : support.end] == "office\nThe office\nis in Turin."


def test_several_pages_are_one_document_that_their_questions_share(wiki):
    rows = [{"question": f"{n}?", "answer": "a", "documents": ["office", "k1"]} for n in range(3)]
    data = load(config(wiki, rows))
    assert list(data.documents) == ["office + k1"]


def test_questions_about_the_whole_folder_are_independent_draws():
    documents = [(WHOLE_FOLDER,), (WHOLE_FOLDER,), ("a",), ("a",)]
    assert len(set(question_labels("folder", ["1", "2", "3", "4"], documents))) == 3


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("q.csv", "question,answer,document\nWhere?,Turin,office\n"),
        ("q.tsv", "question\tanswer\tdocument\nWhere?\tTurin\toffice\n"),
        (
            "q.yaml",
            yaml.safe_dump([{"question": "Where?", "answer": "Turin", "document": "office"}]),
        ),
        (
            "q.json",
            json.dumps([{"question": "Where?", "answers": ["Turin"], "document": "office.txt"}]),
        ),
    ],
)
def test_every_form_of_questions(wiki, name, text):
    (example,) = load(config(wiki, text, name)).examples
    assert (example.question.text, example.question.document_ids) == ("Where?", ("office",))
    assert example.gold.answers == ("Turin",)


def test_a_name_that_is_no_text_is_spelled_out(wiki):
    Path(os.fsdecode(os.fsencode(wiki) + b"/br\xfccke.md")).write_text("Two bridges")
    (example,) = load(
        config(wiki, [{"question": "a?", "answer": "b", "document": "br\\xfccke"}])
    ).examples
    assert example.question.document_ids == ("br\\xfccke",)


def test_files_that_cannot_be_read_are_named(wiki):
    (wiki / "logo.png").write_bytes(b"\x89PNG\0")
    (wiki / "binary.md").write_bytes(b"a\0b")
    (wiki / "empty.md").write_text("")
    (wiki / ".hidden.md").write_text("secret")
    (note,) = load(config(wiki, [{"question": "a?", "answer": "b"}])).notes
    assert note == (
        "3 files were not read, or not in full, in wiki: binary.md (not text), empty.md (empty), "
        "logo.png (.png is not read)"
    )


def pdf(*texts):
    """The bytes of a PDF with a page for each text."""
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(len(texts)))
    parts = ["<</Type/Catalog/Pages 2 0 R>>", f"<</Type/Pages/Kids[{kids}]/Count {len(texts)}>>"]
    parts.append("<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>")
    for n, text in enumerate(texts):
        shown = f"BT /F 12 Tf 72 720 Td ({text}) Tj ET"
        parts.append(
            f"<</Type/Page/Parent 2 0 R/Contents {5 + 2 * n} 0 R/Resources<</Font<</F 3 0 R>>>>>>"
        )
        parts.append(f"<</Length {len(shown)}>>stream\n{shown}\nendstream")
    out, at = "%PDF-1.4\n", []
    for n, part in enumerate(parts, start=1):
        at.append(len(out))
        out += f"{n} 0 obj\n{part}\nendobj\n"
    rows = "".join(f"{place:010d} 00000 n \n" for place in at)
    size = f"{len(parts) + 1}"
    return f"{out}xref\n0 {size}\n0000000000 65535 f \n{rows}trailer<</Size {size}/Root 1 0 R>>\nstartxref\n{len(out)}\n%%EOF".encode()


def test_pages_of_a_pdf_are_passages_and_what_cannot_be_read_is_named(wiki):
    pytest.importorskip("pypdf", reason="the extra 'pdf' is not installed")
    (wiki / "manual.pdf").write_bytes(pdf("Open the lid.", "", "Press the red button."))
    (wiki / "scan.pdf").write_bytes(pdf("", ""))
    (wiki / "torn.pdf").write_bytes(pdf("Some text.")[:60])
    row = {
        "question": "Which?",
        "answer": "red",
        "document": "manual.pdf",
        "gold_pages": "manual#page 3",
    }
    data = load(config(wiki, [row]))
    (document,), (example,) = data.documents.values(), data.examples
    (support,) = example.gold.supporting
    assert [p.title for p in document.passages] == ["manual: page 1", "manual: page 3"]
    assert document.text[support.start : support.end] == "manual: page 3\nPress the red button."
    (note,) = data.notes
    assert note.startswith(
        "3 files were not read, or not in full, in wiki: manual.pdf (1 of its pages have no text), "
    )
    assert "scan.pdf (empty), torn.pdf (cannot be read: " in note


def test_without_pypdf_a_pdf_is_named(wiki, monkeypatch):
    monkeypatch.setitem(sys.modules, "pypdf", None)
    (wiki / "manual.pdf").write_bytes(pdf("Open the lid."))
    (note,) = load(config(wiki, [{"question": "a?", "answer": "b"}])).notes
    assert note.endswith("manual.pdf (needs pypdf: pip install 'longdoc-harness[pdf]')")


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"question": " ", "answer": "b"}, "is empty"),
        ({"question": "a?", "expected": "b"}, "'expected' is; name it: --columns answer=expected"),
        (
            {"question": "a?", "answer": "b", "document": {}},
            "should be a page's name or a list of names, is an object",
        ),
    ],
)
def test_a_bad_question_is_one_sentence(wiki, row, problem):
    with pytest.raises(DataError, match=problem):
        load(config(wiki, [row]))


def test_the_fingerprint_follows_every_page(wiki):
    settings = config(wiki, [{"question": "a?", "answer": "b", "document": "office"}])
    before = load(settings).fingerprint
    (wiki / "menu.html").write_text("<html><body><p>On Monday there is rice.</p></body></html>")
    assert load(settings).fingerprint != before


@pytest.mark.parametrize("missing", ["documents", "questions"])
def test_a_path_that_is_not_there_is_refused(wiki, missing):
    settings = config(wiki, [{"question": "a?", "answer": "b"}])
    change = {"options": {"documents": "gone"}} if missing == "documents" else {"data": "gone"}
    with pytest.raises(ConfigError, match="gone is not there"):
        load(settings.model_copy(update=change))


def code_of(words):
    with pytest.raises(SystemExit) as ended:
        main(words)
    return ended.value.code


def asking(wiki, method="bm25"):
    """The command that asks the questions of `config`."""
    return [
        "run",
        "-m",
        method,
        "--documents",
        str(wiki),
        "--questions",
        str(wiki.parent / "q.jsonl"),
    ]


def answering(reply, tmp_path):
    """Options: a model that always replies this."""
    (tmp_path / "replies.yaml").write_text(f"replies: [{{reply: {reply}}}]")
    words = ["--model", "scripted", "--set", f"model.script={tmp_path / 'replies.yaml'}"]
    return [*words, "--mlflow", "off", "--out", str(tmp_path / "out")]


def without_usage(_):
    return {key: value for key, value in completion("Turin").items() if key != "usage"}


@pytest.mark.parametrize(
    ("spoil", "more", "code", "message", "counts"),
    [
        (
            {},
            ["model.price.input=-1", "model.price.output=1"],
            2,
            "model.price.input=-1 (--set): should be greater",
            None,
        ),
        (
            {"more.jsonl": b'{"id": "office", "text": "Two"}'},
            [],
            2,
            "office.txt: two pages have the id 'office', the other in more.jsonl",
            None,
        ),
        (
            {"": b'{"question": "", "answer": "b"}'},
            [],
            2,
            "q.jsonl, line 3, field 'question': is missing",
            None,
        ),
        (
            {"": b'{"question": "a?", "answer": "b", "document": "gone"}'},
            [],
            0,
            "1 question names pages that are not in the folder or were not read (gone)",
            (3, 0),
        ),
        (
            {"logo.md": b"a\0b"},
            [],
            0,
            "1 file was not read, or not in full, in wiki: logo.md (not text",
            (2, 0),
        ),
        ({"long.txt": b"many words " * 4000}, [], 0, "1 answered from a truncated context", (2, 0)),
        (
            {},
            [],
            0,
            "4 token counts of the servers (of model, encoder or reranker) are missing or cannot",
            (2, 0),
        ),
    ],
)
def test_bad_input_is_one_sentence_and_nothing_is_lost(
    wiki, tmp_path, capsys, spoil, more, code, message, counts
):
    config(
        wiki,
        [
            {"question": "Where?", "answer": "Turin"},
            {"question": "Who?", "answer": "b", "document": "office"},
        ],
    )
    for name, content in spoil.items():
        with (wiki / name if name else tmp_path / "q.jsonl").open("ab") as file:
            file.write(content)
    with Loopback([without_usage]) as server:
        words = [
            *asking(wiki, "full-context"),
            "--model",
            "endpoint",
            "--mlflow",
            "off",
            "--out",
            str(tmp_path / "out"),
        ]
        got = code_of(
            [
                *words,
                "--set",
                f"model.base_url={server.url}",
                "model.source=m",
                "model.window=4000",
                *more,
            ]
        )
    assert got == code
    if counts is not None:
        assert code_of(["report", str(tmp_path / "out")]) == 0
        (folder,) = (tmp_path / "out/wiki").iterdir()
        summary = read_run(folder).summary.to_json()
        assert (
            tuple(
                summary[name] for name in ("n_scored", "n_failed", "n_left_out") if name in summary
            )
            == counts
        )
    assert message in "".join(capsys.readouterr())


def test_a_folder_is_asked_from_the_command_line(wiki, tmp_path, capsys):
    config(wiki, [{"question": "Where?", "answer": "Turin", "gold_pages": "office"}])
    words = [*asking(wiki), *answering("Turin", tmp_path)]
    assert code_of(words) == 0
    assert "flashrag.em                  100.0" in capsys.readouterr().out
    assert code_of([*words[:5], "--mlflow", "off"]) == 2
    assert "--documents DIR and --questions FILE go together" in capsys.readouterr().err


def test_a_folder_whose_name_is_no_text_is_one_sentence(wiki, tmp_path, capsys):
    config(wiki, [{"question": "Where?", "answer": "Turin"}])
    wiki = wiki.rename(Path(os.fsdecode(os.fsencode(tmp_path) + b"/w\xfcki")))
    assert code_of([*asking(wiki), *answering("Turin", tmp_path)]) == 2
    assert "w\\udcfcki' is not valid utf-8; use another name" in capsys.readouterr().err


def test_questions_that_the_loader_leaves_out_are_asked_questions_everywhere(
    wiki, tmp_path, capsys
):
    gone = [{"question": f"{name}?", "answer": "b", "document": "gone"} for name in "ab"]
    config(
        wiki,
        [
            {"question": "Where?", "answer": "Turin"},
            gone[0],
            {"question": "Which town?", "answer": "x"},
            gone[1],
        ],
    )
    words = [*asking(wiki), *answering("Turin", tmp_path), "--set", "dataset.allow_left_out=true"]
    assert code_of(["validate", *words[1:-6], *words[-2:]]) == 0
    assert "2 questions (2 more left out by the loader)" in capsys.readouterr().out
    for limit, left in (("2", 1), ("9", 2)):  # the same folder
        assert code_of([*words, "--limit", limit]) == 0
        message = capsys.readouterr().out
        assert f"2 questions, 0 failed, {left} left out by the loader" in message
        assert f"that the loader left out: {left} (page 'gone' is not in the folder)" in message
        (folder,) = (tmp_path / "out/wiki").iterdir()
        summary = read_run(folder).summary.to_json()
        assert [summary[name] for name in ("n_scored", "n_failed", "n_left_out", "n_asked")] == [
            2,
            0,
            left,
            2 + left,
        ]
    assert code_of(["report", str(tmp_path / "out")]) == 0
    message = capsys.readouterr().out
    assert (
        message.count(
            "rows of the data set that the loader left out: 2 (page 'gone' is not in the folder)"
        )
        == 1
    )
    assert message.count("that the loader left out") == 1
    assert "left_out" in message
    table = frame([read_run(folder)])
    assert final_metrics(read_run(folder), table)["left_out"] == 2
    assert "left_out" in str(leaderboard(table_rows([read_run(folder)]), {"wiki": "#"}))


def test_a_question_that_retrieval_found_nothing_for_is_answered_from_no_text(tmp_path):
    rows = [{"id": "a", "question": "Who built it?", "answer": ["Ada"]}]
    rows.append(
        {
            "id": "b",
            "question": "Who?",
            "answer": ["Ada"],
            "ctxs": [{"title": "Mill", "text": "Ada built it."}],
        }
    )
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ["run", "-m", "bm25,full-context", "-d", "nq", "--data", str(tmp_path / "rows.jsonl")]
    assert code_of([*words, *answering("Ada", tmp_path)]) == 0
    for folder in (tmp_path / "out/nq").iterdir():
        run = read_run(folder)
        assert (run.records[0].document_ids, run.records[0].error) == ([], None)
        assert (run.summary.n_asked, run.summary.n_scored) == (2, 2)


def test_retriever_k_and_chunk_size_are_swept_and_scored_by_page(
    wiki, tmp_path, capsys, monkeypatch
):
    """One word of the question leads to the page; the page `far` is ranked second, behind one with
    more of its words."""
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "home"))
    (wiki / "near.md").write_text("The pump of the red mill is the red pump. " * 9)
    (wiki / "far.md").write_text("The pump stands in Kelford. " * 9)
    rows = [
        {
            "question": "Where does the red pump of the mill stand?",
            "answer": "Kelford",
            "gold_pages": ["far"],
        }
    ]
    config(wiki, [*rows, {"question": "What is the code?", "answer": "77", "gold_pages": ["k1"]}])
    words = [*asking(wiki), *answering("Kelford", tmp_path)]
    assert code_of([*words, "--sweep", "method.k=1,3", "method.chunk_tokens=60"]) == 0
    capsys.readouterr()
    assert code_of(["report", str(tmp_path / "out"), "--format", "json"]) == 0
    rows = {row["method.k"]: row for row in json.loads(capsys.readouterr().out)}
    found = {
        k: [row[name] for name in ("evidence_hit", "evidence_pages", "n")]
        for k, row in rows.items()
    }
    assert found == {1: [0.5, 0.5, 2], 3: [1.0, 1.0, 2]}
    assert rows[1]["evidence_mrr"] == 0.5 < rows[3]["evidence_mrr"] < 1

"""Small rows, configs and files for the tests of this folder."""

import copy
import csv
import json
import os
from io import BytesIO, StringIO
from pathlib import Path

import pytest

from harness.config.schema import DatasetConfig
from harness.datasets import load
from harness.errors import DataError

REAL = os.environ.get("HARNESS_TEST_DATA")
needs_real = pytest.mark.skipif(
    not REAL,
    reason="HARNESS_TEST_DATA is not set: it names the folder that holds data/ and golden/ with real rows",
)


def real(*parts):
    """A file below the folder of real rows."""
    return Path(REAL or "").joinpath(*parts)


def config(family="musique", **fields):
    """A data set config with what the tests do not care about filled in."""
    base = {
        "name": "t",
        "instruction": "Answer.",
        "max_answer_tokens": 8,
        "scorers": ("flashrag.acc",),
    }
    return DatasetConfig.model_validate({**base, "format": family, **fields})


def musique(number=1, **changes):
    """A valid MuSiQue row with three paragraphs, the second supporting."""
    paragraphs = [
        {
            "idx": i,
            "title": f"Mill {i}",
            "paragraph_text": f"Text {i} of row {number}.",
            "is_supporting": i == 1,
        }
        for i in range(3)
    ]
    hop = {
        "id": 7,
        "question": "mill >> builder",
        "answer": "Ada Velmark",
        "paragraph_support_idx": 1,
    }
    asked = {
        "id": f"2hop__{number}",
        "question": f"Who built mill {number}?",
        "answer": "Ada Velmark",
    }
    fields = {
        "answer_aliases": ["Velmark", "Ada Velmark"],
        "answerable": True,
        "paragraphs": paragraphs,
    }
    return copy.deepcopy({**asked, **fields, "question_decomposition": [hop], **changes})


def longbench_v2(number=1, **changes):
    """A valid LongBench v2 row; the text is the same in all."""
    named = {"_id": f"v{number}", "domain": "Single-Document QA", "sub_domain": "Literary"}
    options = {
        f"choice_{letter}": name
        for letter, name in zip("ABCD", ("Ada", "Bo", "Cy", "Di"), strict=True)
    }
    asked = {
        "question": f"Who built mill {number}?",
        "answer": "B",
        "context": "Bo built it. Di left.",
    }
    return {**named, "difficulty": "hard", "length": "short", **options, **asked, **changes}


def infinite(number=1, **changes):
    """A valid row of InfiniteBench's En.QA; the text is the same in all."""
    asked = {"input": f"Who built mill {number}?", "answer": ["Ada", "A."], "options": []}
    return {"id": number, "context": "Ada built it. Bo left.", **asked, **changes}


def longmemeval(number=1, **changes):
    """A valid LongMemEval row with two sessions, the later one first; one turn of each has
    evidence."""
    later = [{"role": "user", "content": f"I sold mill {number}.", "has_answer": True}]
    earlier = [
        {"role": "user", "content": f"I bought mill {number} today.", "has_answer": True},
        {"role": "assistant", "content": " Good luck! ", "has_answer": False},
    ]
    asked = {"question_id": f"e{number}", "question": "How long did I own the mill?", "answer": 3}
    dates = {"haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/05/17 (Wed) 09:00"]}
    about = {"question_type": "temporal-reasoning", "question_date": "2023/05/30 (Tue) 23:40"}
    return copy.deepcopy(
        {**asked, **about, **dates, "haystack_sessions": [later, earlier], **changes}
    )


def mrcr(number=1, text="Ada built it.\n\nBo left.", **changes):
    """A valid MRCR row: a chat with a turn for each paragraph of `text`, the last of which is to be
    repeated."""
    turns = [
        m for part in text.split("\n\n") for m in (("user", "Write of mills"), ("assistant", part))
    ]
    asked = f"Prepend x{number} to the 2nd (1 indexed) text of mills."
    chat = [{"role": role, "content": content} for role, content in [*turns, ("user", asked)]]
    fields = {"prompt": json.dumps(chat), "answer": f"x{number}{turns[-1][1]}"}
    return {**fields, "random_string_to_prepend": f"x{number}", "n_needles": 2, **changes}


def oolong(number=1, **changes):
    """A valid row of OOLONG-synth; answer_type None makes one of OOLONG-real."""
    asked = {
        "question": f"Which label is rarest ({number})?",
        "answer": "['spam']",
        "answer_type": "ANSWER_TYPE.LABEL",
    }
    return {
        "id": number,
        "context_window_text": "Label: spam. Label: ham.",
        **asked,
        "task_group": "counting",
        **changes,
    }


def loong(number=1, **changes):
    """A valid Loong row with its documents."""
    asked = {
        "question": f"Mill {number}",
        "instruction": "Find what it cites.",
        "answer": {"Reference": ["Bo"]},
    }
    template = "#Papers:\n{docs}\n\n{instruction}\n\n#The paper:\n{question}"
    about = {"id": f"l{number}", "level": 3, "type": "paper", "prompt_template": template}
    return {**about, **asked, "docs": "Mill\nAda built it.\n\n", **changes}


def longbench_pro(number=1, **changes):
    """A valid row of LongBench Pro."""
    asked = {"question_nonthinking": "Who built it?", "answer": ["Ada", "Bo"]}
    about = {
        "id": f"p{number}",
        "secondary_task": "T5.1 Full-Sentence Citation Alignment",
        "difficulty": "Easy",
    }
    return {**about, "context": "Ada built it. Bo left.", **asked, **changes}


def helmet(number=1, **changes):
    """A valid row of HELMET's questions with passages."""
    passages = [
        {"title": "Mill", "text": f"Ada built mill {number}."},
        {"title": "Bo", "text": "Bo left."},
    ]
    return {"question": "Who built it?", "answers": ["Ada", "A."], "ctxs": passages, **changes}


def hotpot(number=1, **changes):
    """A valid HotpotQA row in the official schema with three paragraphs, two of them supporting."""
    asked = {
        "_id": f"h{number}",
        "question": f"Which is older, mill A or mill B ({number})?",
        "answer": "mill A",
    }
    about = {"type": "comparison", "level": "hard", "supporting_facts": [["A", 0], ["B", 1]]}
    context = [
        ["A", ["A is old."]],
        ["C", ["C burned.", " Then not."]],
        ["B", ["B.", " B is new."]],
    ]
    return copy.deepcopy({**asked, **about, "context": context, **changes})


def columns(row):
    """A HotpotQA row in the column schema of the hub copy."""
    titles, sentences = zip(*row["context"], strict=True)
    names, numbers = zip(*row["supporting_facts"], strict=True)
    rest = {key: value for key, value in row.items() if key != "_id"}
    facts = {"title": list(names), "sent_id": list(numbers)}
    context = {"title": list(titles), "sentences": list(sentences)}
    return {**rest, "id": row["_id"], "context": context, "supporting_facts": facts}


def qasper(number=1, **changes):
    """A valid Qasper paper with an "id" and two questions: extractive and free-form, yes/no and
    unanswerable."""

    def answer(**fields):
        plain = {
            "unanswerable": False,
            "extractive_spans": [],
            "yes_no": None,
            "free_form_answer": "",
            "evidence": [],
        }
        return {"answer": {**plain, **fields}, "annotation_id": "a", "worker_id": "w"}

    sections = [
        {"section_name": "Introduction", "paragraphs": ["Mills grind.", "", "They turn."]},
        {"section_name": "Data ::: Sources", "paragraphs": [f"We saw {number} mills."]},
    ]
    first = [
        answer(extractive_spans=["grind", "turn"], evidence=["Mills grind.", "They turn."]),
        answer(
            free_form_answer="They grind", evidence=["Mills grind.", "FLOAT SELECTED: Table 1: x"]
        ),
    ]
    second = [answer(yes_no=True, evidence=["Data ::: Sources"]), answer(unanswerable=True)]
    asked = [
        {"question": "What do mills do?", "question_id": f"q{number}a", "answers": first},
        {"question": "Were mills seen?", "question_id": f"q{number}b", "answers": second},
    ]
    about = {"id": f"19{number:02}.1", "title": f"Mills {number}", "abstract": "We count mills."}
    tables = [{"file": "f.png", "caption": "Table 1: x"}]
    return copy.deepcopy(
        {**about, "full_text": sections, "qas": asked, "figures_and_tables": tables, **changes}
    )


def qasper_columns(row):
    """A Qasper paper in the column schema of the hub copy."""

    def columns_of(rows):
        return {key: [entry[key] for entry in rows] for key in rows[0]}

    asked = [{**q, "answers": columns_of(q["answers"])} for q in row["qas"]]
    nested = {key: columns_of(row[key]) for key in ("full_text", "figures_and_tables")}
    return {**row, **nested, "qas": columns_of(asked)}


def longbench(number=1, **changes):
    """A valid LongBench row; two rows after the other share a text."""
    context = f"Passage 1:\nMills\nAda built mill {number // 2 * 2} and the next."
    asked = {
        "_id": f"lb{number}",
        "input": f"Who built mill {number}?",
        "answers": ["Ada", "Ada Velmark"],
    }
    about = {"length": 12, "dataset": "musique", "language": "en", "all_classes": None}
    return {**asked, "context": context, **about, **changes}


def story_row(number=1, **changes):
    """A valid NarrativeQA row as on the hub; two rows after the other share a story."""
    story = {
        "id": f"{number // 2:040}",
        "kind": "gutenberg",
        "text": f"Story {number // 2}.\nAda went home.",
    }
    story["summary"] = {"text": "Short.", "title": f"Book {number // 2}"}
    question = {"text": f"Where did Ada go ({number})?", "tokens": ["Where"]}
    answers = [{"text": "home", "tokens": ["home"]}, {"text": "to her home", "tokens": ["to"]}]
    return copy.deepcopy({"document": story, "question": question, "answers": answers, **changes})


def tables(rows, split="test"):
    """documents.csv and qaps.csv of the official files for such rows."""
    stories = {row["document"]["id"]: row["document"] for row in rows}
    documents = [
        {"document_id": key, "set": split, "kind": d["kind"], "wiki_title": d["summary"]["title"]}
        for key, d in stories.items()
    ]
    asked = []
    for row in rows:
        first, second, *_ = [*(answer["text"] for answer in row["answers"]), ""]
        about = {
            "document_id": row["document"]["id"],
            "set": split,
            "question": row["question"]["text"],
        }
        asked.append({**about, "answer1": first, "answer2": second, "question_tokenized": "x"})
    return {"documents.csv": as_csv(documents), "qaps.csv": as_csv(asked)}


def as_csv(rows, delimiter=","):
    """Rows as a table with a header."""
    out = StringIO()
    writer = csv.DictWriter(out, list(rows[0]), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def official_stories(folder, rows, split="test"):
    """The official files of NarrativeQA for such rows: tables, and stories in tmp/."""
    (folder / "tmp").mkdir(parents=True, exist_ok=True)
    for name, text in tables(rows, split).items():
        (folder / name).write_text(text, encoding="utf-8", newline="")
    for row in rows:
        text = row["document"]["text"]
        (folder / "tmp" / f"{row['document']['id']}.content").write_bytes(text.encode())
    return folder


def write_lines(path, rows, end="\n"):
    """Rows as JSON lines; a string is written as it is."""
    lines = [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows]
    path.write_bytes("".join(line + end for line in lines).encode())
    return path


def check_refused(given, message, error=DataError, limit=None):
    """Loading the data set `given` raises one sentence that has `message` in it."""
    with pytest.raises(error) as caught:
        load(given, limit)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def check_mistake(folder, rows, field, problem, given):
    """Loading rows of which the second is bad raises one sentence with its line, its field and the
    problem."""
    path = folder / "rows.jsonl"
    # Escaped, so that half characters reach the reader as JSON has them.
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    with pytest.raises(DataError) as caught:
        load(given.model_copy(update={"data": str(path)}))
    assert (caught.value.line, caught.value.field) == (2, field)
    assert problem in str(caught.value)
    assert str(caught.value).startswith("rows.jsonl, line 2")
    assert "\n" not in str(caught.value)


def parquet(rows):
    """Rows as the bytes of a parquet file; skips the test where pyarrow is not installed."""
    arrow, writer = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    out = BytesIO()
    writer.write_table(arrow.Table.from_pylist(rows), out)
    return out.getvalue()

"""Official rows and prompts: LongBench, KILT, Qasper, QuALITY."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from bench.parity import Found, import_theirs, stand_in
from bench.parity.rows import Rows
from harness.config.layers import Choices
from harness.config.resolve import resolve_dataset
from harness.datasets import load
from harness.datasets.open_rows import parse_question
from harness.method import MethodConfig, Task
from methods.reading import Reading

PROGRAM = "THUDM/LongBench, facebookresearch/KILT, allenai/qasper-led-baseline, nyu-mll/quality"
METHODS = (
    "their data sets; rows of the 13 sets of LongBench that are here, and samples of the others"
)
TEXTS = "LongBench: question, text, answers (rows)"
REASONS = {TEXTS: "ours merges equal answers of a row; kept: no score changes"}
EACH = 20  # rows of a set of LongBench
FIRST_LINE = (
    "trec",
    "triviaqa",
    "samsum",
    "lsht",
)  # of whose replies eval.py scores the first line


def compare(code: Path, rows: Rows, found: Found) -> None:
    """Compare what the official code makes of a row with what ours has of it."""
    _longbench(code / "LongBench/LongBench", rows, found)
    _kilt(code / "KILT", rows, found)
    _qasper(code / "qasper-led-baseline/scripts", rows, found)
    _quality(code / "quality/baselines/lrqa_deprecated/preproc", rows, found)


def _lines(path: Path) -> list[dict[str, Any]]:
    """The rows of a file, one JSON object a line."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _longbench(code: Path, rows: Rows, found: Found) -> None:
    """Compare LongBench's answer lengths and scorers, then rows and whole prompts."""
    metrics = import_theirs(code, "eval").dataset2metric
    lengths = json.loads((code / "config/dataset2maxlen.json").read_text(encoding="utf-8"))
    prompts = json.loads((code / "config/dataset2prompt.json").read_text(encoding="utf-8"))
    listed = re.search(
        r"if dataset not in (\[.*?\])", (code / "pred.py").read_text(encoding="utf-8")
    )
    bare = json.loads(listed[1]) if listed else []
    for name, length in lengths.items():
        config = resolve_dataset(Choices(dataset=f"longbench/{name}")).value
        scorer = f"longbench.{metrics[name].__name__}{'.first_line' * (name in FIRST_LINE)}"
        found.add("LongBench: tokens of an answer (sets)", length, config.max_answer_tokens)
        found.add("LongBench: scorer (sets)", scorer, config.scorers[0])
        found.add("LongBench: chat template or none (sets)", name not in bare, config.chat)
    for path in sorted((rows.folder / "longbench").glob("*.jsonl")):
        own = load(
            resolve_dataset(Choices(dataset=f"longbench/{path.stem}", data=str(path))).value, EACH
        )
        user = prompts[path.stem].replace("{context}", "{text}").replace("{input}", "{question}")
        reading = Reading(
            Task(instruction="", max_answer_tokens=1), config=MethodConfig(prompts={"answer": user})
        )
        for row, example in zip(_lines(path)[:EACH], own.examples, strict=True):
            question = example.question
            text = "".join(own.documents[d].text for d in question.document_ids)
            ours = [question.text if row["input"] else "", text, list(example.gold.answers)]
            found.add(TEXTS, [row["input"], row["context"], row["answers"]], ours)
            found.add(
                "LongBench: whole prompt, to the character, its words in "
                "method.prompts.answer.user (rows)",
                prompts[path.stem].format(**row),
                "".join(reading.pieces(question, [text])),
            )


def _kilt(code: Path, rows: Rows, found: Found) -> None:
    """Compare the gold answers of rows of NQ and ELI5 with KILT's."""
    official = import_theirs(code, "kilt.eval_downstream")
    for file in ("nq/nq_kilt_sample.jsonl", "eli5/eli5_kilt_sample.jsonl"):
        for row in _lines(rows.folder / file):
            ours = sorted({answer.strip() for answer in parse_question(row).answers})
            found.add(
                "KILT: gold answers (rows of NQ and ELI5)",
                sorted(official.get_gold_answers(row)),
                ours,
            )


def _qasper(code: Path, rows: Rows, found: Found) -> None:
    """Compare the gold answers of Qasper's questions with those of the baseline's evaluator."""
    path = rows.folder / "qasper/qasper-train-v0.3-sample.json"
    gold = import_theirs(code, "evaluator").get_answers_and_evidence(
        json.loads(path.read_text(encoding="utf-8")), True
    )
    for example in load(
        resolve_dataset(Choices(dataset="qasper", data=str(path))).value, None
    ).examples:
        official = sorted({reference["answer"] for reference in gold[example.question.id]})
        found.add("Qasper: gold answers (questions)", official, sorted(set(example.gold.answers)))


def _quality(code: Path, rows: Rows, found: Found) -> None:
    """Compare QuALITY's questions, options and labels with those of the baseline's script."""
    path = rows.folder / "quality/quality_v1.0.1_sample.jsonl"
    stand_in("pyutils", "pyutils.io", "bs4")
    module = import_theirs(code, "simple")
    made: list[dict[str, Any]] = []
    articles = map(_flat, _lines(path))
    module.io = SimpleNamespace(
        read_jsonl=lambda _: articles, write_jsonl=lambda out, _: made.extend(out)
    )
    module.process_file("", "")
    for row, e in zip(
        made,
        load(resolve_dataset(Choices(dataset="quality", data=str(path))).value, None).examples,
        strict=True,
    ):
        official = [row["query"], *(row[f"option_{k}"] for k in range(4)), row["label"]]
        ours = [e.question.text, *(e.question.options or ()), e.gold.extra["gold_label"] - 1]
        both = ([str(cell).strip() for cell in cells] for cells in (official, ours))
        found.add("QuALITY: question, options, label (questions)", *both)


def _flat(article: dict[str, Any]) -> dict[str, Any]:
    """An article as the baseline's script takes it: its questions numbered in one row."""
    row = {"article": article["article"]}
    for i, question in enumerate(article["questions"], start=1):
        options = {
            f"question{i}option{k}": text for k, text in enumerate(question["options"], start=1)
        }
        row |= {
            f"question{i}": question["question"],
            f"question{i}_gold_label": question["gold_label"],
            **options,
        }
    return row

"""Official rows and prompts: LongBench, KILT, Qasper, QuALITY."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from bench.parity import Stage, stage, theirs
from bench.parity.rows import Rows
from harness.config.resolve import part
from harness.datasets import Dataset, load
from harness.datasets.open_rows import parse_question
from harness.method import MethodConfig, Task
from methods.reading import Reading

PROGRAM = "THUDM/LongBench, facebookresearch/KILT, allenai/qasper-led-baseline, nyu-mll/quality"
METHODS = "their data sets; rows of the 13 sets of LongBench that are here, and samples of the others"
EACH = 20  # rows of a set of LongBench
FIRST_LINE = ("trec", "triviaqa", "samsum", "lsht")  # of whose replies eval.py scores the first line


def run(code: Path, rows: Rows) -> Iterator[Stage]:
    """What the official code makes of a row, and what ours has of it."""
    yield from _longbench(code / "LongBench/LongBench", rows)
    yield from _kilt(code / "KILT", rows)
    yield from _qasper(code / "qasper-led-baseline/scripts", rows)
    yield from _quality(code / "quality/baselines/lrqa_deprecated/preproc", rows)


def _longbench(code: Path, rows: Rows) -> Iterator[Stage]:
    metrics = {name: found.__name__ for name, found in theirs(code, "eval").dataset2metric.items()}
    metrics |= {name: f"{metrics[name]}.first_line" for name in FIRST_LINE}
    lengths = json.loads((code / "config/dataset2maxlen.json").read_text(encoding="utf-8"))
    prompts = json.loads((code / "config/dataset2prompt.json").read_text(encoding="utf-8"))
    configs = {name: part("datasets", dataset=f"longbench/{name}") for name in lengths}
    yield stage(
        "LongBench: tokens of an answer (sets)", lengths.values(), [c.max_answer_tokens for c in configs.values()]
    )
    yield stage(
        "LongBench: scorer (sets)",
        [f"longbench.{metrics[name]}" for name in lengths],
        [config.scorers[0] for config in configs.values()],
    )
    texts: list[list[Any]] = [[], []]
    asked: list[list[str]] = [[], []]
    for path in sorted((rows.folder / "longbench").glob("*.jsonl")):
        official = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()][:EACH]
        own = load(part("datasets", dataset=f"longbench/{path.stem}", data=str(path)), EACH)
        user = prompts[path.stem].replace("{context}", "{text}").replace("{input}", "{question}")
        for row, example in zip(official, own.examples, strict=True):
            question, text = example.question, _text(own, example.question.document_ids)
            texts[0].append([row["input"], row["context"], row["answers"]])
            texts[1].append([question.text if row["input"] else "", text, list(example.gold.answers)])
            asked[0].append(prompts[path.stem].format(**row))
            reading = Reading(Task(instruction="", max_answer_tokens=1), config=MethodConfig(prompts={"answer": user}))
            asked[1].append("".join(reading.pieces(question, [text])))
    yield stage(
        "LongBench: question, text, answers (rows)",
        *texts,
        "an answer that stands twice in a row is one",
        "kept: a score is the best over the answers, so no score changes",
    )
    yield stage("LongBench: whole prompt, to the character, its words in method.prompts.answer.user (rows)", *asked)


def _text(own: Dataset, documents: tuple[str, ...]) -> str:
    return "".join(own.documents[d].text for d in documents)


def _kilt(code: Path, rows: Rows) -> Iterator[Stage]:
    official = theirs(code, "kilt.eval_downstream")
    answers: list[list[Any]] = [[], []]
    for file in ("nq/nq_kilt_sample.jsonl", "eli5/eli5_kilt_sample.jsonl"):
        for line in (rows.folder / file).read_text(encoding="utf-8").splitlines():
            answers[0].append(sorted(official.get_gold_answers(json.loads(line))))
            answers[1].append(sorted({answer.strip() for answer in parse_question(json.loads(line)).answers}))
    yield stage("KILT: gold answers (rows of NQ and ELI5)", *answers)


def _qasper(code: Path, rows: Rows) -> Iterator[Stage]:
    path = rows.folder / "qasper/qasper-train-v0.3-sample.json"
    gold = theirs(code, "evaluator").get_answers_and_evidence(json.loads(path.read_text(encoding="utf-8")), True)
    own = {e.question.id: e.gold for e in load(part("datasets", dataset="qasper", data=str(path)), None).examples}
    yield stage(
        "Qasper: gold answers (questions)",
        [sorted({reference["answer"] for reference in gold[key]}) for key in own],
        [sorted(set(found.answers)) for found in own.values()],
    )


def _quality(code: Path, rows: Rows) -> Iterator[Stage]:
    path = rows.folder / "quality/quality_v1.0.1_sample.jsonl"
    module = theirs(code, "simple", {"pyutils": [], "pyutils.io": [], "bs4": ["BeautifulSoup"]})
    official = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    made: list[dict[str, Any]] = []
    module.io = SimpleNamespace(read_jsonl=lambda _: map(_flat, official), write_jsonl=lambda out, _: made.extend(out))
    module.process_file("", "")
    own = load(part("datasets", dataset="quality", data=str(path)), None)
    theirs_rows = [[row["query"], *(row[f"option_{k}"] for k in range(4)), row["label"]] for row in made]
    ours = [[e.question.text, *e.question.options, e.gold.extra["gold_label"] - 1] for e in own.examples]
    yield stage(
        "QuALITY: question, options, label (questions)",
        [[str(cell).strip() for cell in row] for row in theirs_rows],
        [[str(cell).strip() for cell in row] for row in ours],
    )


def _flat(article: dict[str, Any]) -> dict[str, Any]:
    """An article as the baseline's script takes it: its questions numbered in one row."""
    row = {"article": article["article"]}
    for i, question in enumerate(article["questions"], start=1):
        options = {f"question{i}option{k}": text for k, text in enumerate(question["options"], start=1)}
        row |= {f"question{i}": question["question"], f"question{i}_gold_label": question["gold_label"], **options}
    return row

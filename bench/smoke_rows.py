"""The rows of `make smoke-real`: a file for each data set, below the folder `data` of
HARNESS_TEST_DATA, or made up.

Made-up rows are texts of the pocket world in the layouts of releases of which there is no sample:
made_file("longmemeval/s", out)  ->  out/made/longmemeval~s.json, two rows, written once
"""

import ast
import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pocket.world.sample import sample

from harness.config import presets
from tests.datasets.more_rows import (
    LEVAL,
    LOOGLE,
    LVEVAL,
    MEMORY,
    alce_asqa,
    alce_qampari,
    babilong,
    json_kv,
    leval,
    locomo,
    lveval,
    memoryagentbench,
    rerank,
)
from tests.datasets.support import (
    helmet,
    infinite,
    longbench_pro,
    longbench_v2,
    longmemeval,
    loong,
    mrcr,
    oolong,
)

QUESTIONS = 2
Row = dict[str, Any]
NO_DOCUMENTS = "eli5-documents.json"
LONG = {"context", "text"}  # the fields of long texts


def _chats(number: int, text: str) -> Row:
    """A row of LongMemEval with a session for each paragraph of `text`; the second row is to be
    declined."""
    turns = [
        {"role": "user", "content": paragraph, "has_answer": True}
        for paragraph in text.split("\n\n")
    ]
    sessions = [[turn, {"role": "assistant", "content": "I see."}] for turn in turns]
    dates = [f"2023/05/{day:02} (Mon) 10:00" for day in range(1, len(sessions) + 1)]
    return longmemeval(
        question_id=f"e{number}{'_abs' * number}",
        haystack_dates=dates,
        haystack_sessions=sessions,
        haystack_session_ids=[f"session {day}" for day in range(len(sessions))],
    )


def _conversation(number: int, text: str) -> Row:
    """A row of LoCoMo with a turn for each paragraph of `text` and one question."""
    turns = []
    for place, paragraph in enumerate(text.split("\n\n"), start=1):
        turns.append({"speaker": "Ann", "dia_id": f"D1:{place}", "text": paragraph})
    conversation = {"session_1_date_time": "9:00 am on 3 June, 2023", "session_1": turns}
    row = locomo(number, conversation=conversation)
    return {**row, "qa": row["qa"][3:4]}


def _on_document(number: int, text: str) -> Row:
    """A row of L-Eval on a given text, with one question."""
    return leval(number, input=text, instructions=["Who built it?"], outputs=["true, A 1"])


def _first_question_of(make: Callable[[int], Row]) -> Callable[[int, str], Row]:
    """Rows of LooGLE on a given text, with the first of their questions."""

    def made(number: int, text: str) -> Row:
        row = make(number)
        if row["qa_pairs"] != "none":
            row["qa_pairs"] = str(ast.literal_eval(row["qa_pairs"])[:1])
        return {**row, "input": text}

    return made


MADE: dict[str, Callable[[int, str], Row]] = {
    "longmemeval/oracle": _chats,
    "longmemeval/s": _chats,
    "infinitebench/en_qa": lambda n, text: infinite(n, context=text),
    "infinitebench/en_mc": lambda n, text: infinite(
        n, context=text, options=["Ada", "Bo", "Cy", "Di"], answer=["Ada"]
    ),
    "longbench-v2": lambda n, text: longbench_v2(n, context=text),
    "longbench-v2-cot": lambda n, text: longbench_v2(n, context=text),
    "longbench-pro": lambda n, text: longbench_pro(n, context=text),
    "oolong/synth": lambda n, text: oolong(n, context_window_text=text),
    "oolong/real": lambda n, text: oolong(n, context_window_text=text, answer_type=None),
    **{
        f"infinitebench/{name}": lambda n, text: infinite(n, context=text)
        for name in ("en_dia", "en_sum", "zh_qa")
    },
    **{
        f"memoryagentbench/{name}": lambda n, text, name=name: memoryagentbench(
            n,
            context=text,
            questions=["Who built it?"],
            answers=[["Bo"]],
            metadata={"source": name},
        )
        for name in MEMORY
    },
    "helmet/alce_asqa": lambda n, text: alce_asqa(n),
    "helmet/alce_qampari": lambda n, text: alce_qampari(n),
    "helmet/json_kv": lambda n, text: json_kv(n),
    "helmet/msmarco": lambda n, text: rerank(n),
    "helmet/infbench_qa": lambda n, text: infinite(n, context=text),
    "helmet/infbench_mc": lambda n, text: infinite(
        n, context=text, options=["Ada", "Bo", "Cy", "Di"], answer=["Ada"]
    ),
    "loong/legal": lambda n, text: loong(n, docs=text, type="legal"),
    "loong/financial_zh": lambda n, text: loong(n, docs=text, type="financial", language="zh"),
    **{f"leval/{name}": _on_document for name in LEVAL},
    **{f"lveval/{name}": lambda n, text: lveval(n, context=text) for name in LVEVAL},
    **{f"loogle/{name}": _first_question_of(row) for name, row in LOOGLE.items()},
    "locomo": _conversation,
    **{f"babilong/qa{n}": lambda n, text: babilong(n, input=text) for n in range(1, 11)},
    **{f"mrcr/{count}needle": lambda n, text: mrcr(n, text) for count in (2, 4, 8)},
    **{f"loong/{kind}": lambda n, text: loong(n, docs=text) for kind in ("paper", "financial")},
    **{
        f"helmet/{name}": lambda n, text: helmet(
            n, ctxs=[{"title": "", "text": part} for part in text.split("\n\n")]
        )
        for name in ("nq", "triviaqa", "hotpotqa", "popqa")
    },
}


def made_file(dataset: str, out: Path) -> Path:
    """The rows of a data set of MADE as a file in the results folder."""
    path = out / "made" / f"{dataset.replace('/', '~')}.json"
    if not path.exists():
        made = (sample("musique", n, tokens=1000, purpose="evaluation") for n in range(QUESTIONS))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            json.dumps([MADE[dataset](n, one.documents[0].text) for n, one in enumerate(made)]),
            "utf-8",
        )
    return path


@dataclass(frozen=True)
class Rows:
    """The rows of a data set. file: below the folder `data`, "" for made-up rows; sets: settings
    that they need."""

    file: str = ""
    sets: dict[str, str | int] = field(default_factory=dict)


def _longbench(name: str) -> dict[str, Rows]:
    """LongBench's set and, where there is one, LongBench-E's, which takes the same rows."""
    known = presets.names("datasets")
    return {
        p: Rows(f"longbench/{name}.jsonl")
        for p in (f"longbench/{name}", f"longbench/{name}_e")
        if p in known
    }


NO_SHOTS: dict[str, str | int] = {"dataset.shots": 0}  # made-up rows have no file of examples
RULER: dict[str, str | int] = {"dataset.tokens": 2048, "dataset.questions": QUESTIONS}
DATA: dict[str, Rows] = {  # shortest texts first
    **{name: Rows() for name in MADE},
    **{name: Rows(sets=NO_SHOTS) for name in MADE if name.startswith("helmet/")},
    **{name: Rows(sets=RULER) for name in presets.names("datasets") if name.startswith("ruler/")},
    "nq": Rows("nq/nq_open_oracle_sample.jsonl"),
    "popqa": Rows("popqa/popqa_sample.jsonl"),
    "asqa": Rows("asqa/alce_asqa_demos.json"),
    "eli5": Rows("eli5/eli5_kilt_sample.jsonl", {"dataset.documents": f"{{out}}/{NO_DOCUMENTS}"}),
    "2wikimultihopqa": Rows("2wikimultihopqa/dev_sample.json"),
    "hotpotqa": Rows("hotpotqa/hotpot_dev_distractor_sample.json"),
    "musique": Rows("musique/musique_ans_v1.0_dev_sample.jsonl"),
    "quality": Rows("quality/quality_v1.0.1_sample.jsonl"),
    "qasper": Rows("qasper/qasper-train-v0.3-sample.json"),
    **_longbench("qasper"),
    **_longbench("multifieldqa_zh"),
    **_longbench("passage_retrieval_zh"),
    **_longbench("multifieldqa_en"),
    **_longbench("2wikimqa"),
    "triviaqa": Rows(
        "triviaqa/wikipedia-sample.json",
        {"dataset.documents": "{data}/triviaqa/evidence_wikipedia.jsonl"},
    ),
    **_longbench("trec"),
    **_longbench("dureader"),
    **_longbench("triviaqa"),
    **_longbench("hotpotqa"),
    **_longbench("passage_retrieval_en"),
    **_longbench("musique"),
    **_longbench("passage_count"),
    **_longbench("narrativeqa"),
    "narrativeqa": Rows("narrativeqa"),
}


def shorten_file(file: Path, out: Path, max_bytes: int) -> Path:
    """A copy of a file of rows, or of a folder of them, whose texts are cut to `max_bytes` of
    UTF-8; made once."""
    folder = out / "shortened" / str(max_bytes)
    copy = folder / file.parent.name / file.name
    if file.is_dir():
        for each in file.iterdir():
            shorten_file(each, out, max_bytes)
        return folder / file.name
    if not copy.exists():
        copy.parent.mkdir(parents=True, exist_ok=True)
        if ".jsonl" not in file.name:
            copy.write_bytes(file.read_bytes())
            return copy
        opened = gzip.open if file.suffix == ".gz" else open
        with (
            opened(file, "rt", encoding="utf-8") as source,
            opened(copy, "wt", encoding="utf-8") as target,
        ):
            for line in source:
                row = json.loads(line)
                texts = {
                    key: row[key].encode() for key in LONG & row.keys() if isinstance(row[key], str)
                }
                cut = {key: text[:max_bytes].decode(errors="ignore") for key, text in texts.items()}
                target.write(json.dumps({**row, **cut}, ensure_ascii=False) + "\n")
    return copy


def rows_file(dataset: str, data: Path, out: Path, max_bytes: int | None) -> Path | None:
    """The file or folder for --data; None where the loader makes the texts. max_bytes: of a text,
    None: all."""
    if dataset in MADE:
        return made_file(dataset, out)
    if not DATA[dataset].file:
        return None
    file = data / DATA[dataset].file
    return shorten_file(file, out, max_bytes) if max_bytes else file


def row_settings(
    dataset: str, data: Path, out: Path, max_bytes: int | None = None
) -> dict[str, str | int]:
    """The settings of a data set's rows; documents that its sample lacks are written to the results
    folder.

    max_bytes: documents are named as copies whose texts are cut to so many bytes.
    """
    made: dict[str, str | int] = {"dataset.max_answer_tokens": "32"}
    for key, value in DATA[dataset].sets.items():
        if isinstance(value, int):
            made[key] = value
            continue
        path = Path(value.format(data=data, out=out))
        if path.name == NO_DOCUMENTS and not path.exists():
            # KILT's questions come without documents; ASQA's passages are real ones.
            passages = [
                row["docs"]
                for row in json.loads((data / "asqa/alce_asqa_demos.json").read_text("utf-8"))
            ]
            asked = [
                json.loads(line)["input"]
                for line in (data / DATA[dataset].file).read_text("utf-8").splitlines()
            ]
            path.write_text(
                json.dumps({q: passages[n % len(passages)] for n, q in enumerate(asked)}), "utf-8"
            )
        made[key] = str(shorten_file(path, out, max_bytes) if max_bytes else path)
    return made

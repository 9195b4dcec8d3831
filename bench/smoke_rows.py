"""The rows of `make smoke-real`: a file for each data set, below the folder `data` of
HARNESS_TEST_DATA, or made up.

Made-up rows are texts of the pocket world in the layouts of releases of which there is no sample:
made_rows("longmemeval/s", out)  ->  out/made/longmemeval~s.json, three rows, written once
made_rows("nolima/hard", out)    ->  out/made/nolima~hard/, a folder, where a release is one
"""

import ast
import gzip
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pocket.world.sample import sample

from harness.config import presets
from tests.datasets import more_rows, releases, support

QUESTIONS = 3
TOKENS = 300
"""Of a made-up text."""

Row = dict[str, Any]
Make = Callable[[int, str], Row]
"""Makes the row of a number on a text."""

NO_DOCUMENTS = "eli5-documents.json"
LONG = ("context", "text")
"""The fields of long texts."""
OPTIONS = {"options": ["Ada", "Bo", "Cy", "Di"], "answer": ["Ada"]}


def _chats(number: int, text: str) -> Row:
    """A row of LongMemEval with a session for each paragraph of a text; the second row is one that
    should be declined."""
    sessions = []
    dates = []
    for day, paragraph in enumerate(text.split("\n\n"), start=1):
        said = {"role": "user", "content": paragraph, "has_answer": True}
        sessions.append([said, {"role": "assistant", "content": "I see."}])
        dates.append(f"2023/05/{day:02} (Mon) 10:00")
    name = f"e{number}"
    if number == 1:
        name += "_abs"
    return support.longmemeval(
        question_id=name,
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
    row = more_rows.locomo(number, conversation=conversation)
    return {**row, "qa": row["qa"][3:4]}


def _chat(number: int, text: str) -> Row:
    """A row of BEAM with a message for each paragraph of `text` and one question."""
    messages = []
    for place, paragraph in enumerate(text.split("\n\n")):
        messages.append({"id": place, "role": "user", "content": paragraph})
    asked = {"question": "Who built it?", "answer": "Bo", "rubric": ["Bo"], "source_chat_ids": [0]}
    questions = str({"information_extraction": [asked]})
    return more_rows.beam(number, chat=[messages], probing_questions=questions)


def _on_document(number: int, text: str) -> Row:
    """A row of L-Eval on a given text, with one question."""
    asked = {"instructions": ["Who built it?"], "outputs": ["true, A 1"]}
    return more_rows.leval(number, input=text, **asked)


def _memory(name: str, number: int, text: str) -> Row:
    """A row of MemoryAgentBench's set `name` on a given text, with one question."""
    asked = {"questions": ["Who built it?"], "answers": [["Bo"]], "metadata": {"source": name}}
    return more_rows.memoryagentbench(number, context=text, **asked)


def _first_question(make: Callable[[int], Row], number: int, text: str) -> Row:
    """A row of LooGLE on a given text, with the first of its questions."""
    row = make(number)
    if row["qa_pairs"] != "none":
        row["qa_pairs"] = str(ast.literal_eval(row["qa_pairs"])[:1])
    return {**row, "input": text}


def _passages(number: int, text: str) -> Row:
    """A row of HELMET with a passage for each paragraph of `text`."""
    passages = [{"title": "", "text": paragraph} for paragraph in text.split("\n\n")]
    return support.helmet(number, ctxs=passages)


def _needles(number: int, text: str) -> Row:
    """A row of MRCR on a given text."""
    return support.mrcr(number, text)


def _without_text(make: Callable[[int], Row], number: int, _text: str) -> Row:
    """A row whose texts its maker writes."""
    return make(number)


def _with_text(
    make: Callable[..., Row], key: str, more: dict[str, Any], number: int, text: str
) -> Row:
    """A row with a given text.

    Args:
        make: Makes the row.
        key: Field of the text.
        more: Other fields that are given.
        number: Of the row.
        text: The text.
    """
    return make(number, **{key: text}, **more)


def _each(prefix: str, names: Iterable[str], make: Make) -> dict[str, Make]:
    """Name of each data set of a family -> the same maker: {"beam/100k": make, "beam/500k":
    make}."""
    return dict.fromkeys((f"{prefix}/{name}" for name in names), make)


def _makers() -> dict[str, Make]:
    """Data set -> the function that makes a row of it from (number of the row, text)."""
    made: dict[str, Make] = {"locomo": _conversation}
    made |= _each("beam", ("100k", "500k", "1m"), _chat)
    made["browsecomp-plus"] = partial(_without_text, more_rows.browsecomp_plus)
    made |= _each("longmemeval", ("oracle", "s"), _chats)
    context = partial(_with_text, support.infinite, "context")
    made |= _each("infinitebench", ("en_qa", "en_dia", "en_sum", "zh_qa"), partial(context, {}))
    made["infinitebench/en_mc"] = partial(context, OPTIONS)
    made["helmet/infbench_qa"] = partial(context, {})
    made["helmet/infbench_mc"] = partial(context, OPTIONS)
    made |= _each("helmet", ("nq", "triviaqa", "hotpotqa", "popqa"), _passages)
    made["helmet/alce_asqa"] = partial(_without_text, more_rows.alce_asqa)
    made["helmet/alce_qampari"] = partial(_without_text, more_rows.alce_qampari)
    made["helmet/json_kv"] = partial(_without_text, more_rows.json_kv)
    made["helmet/msmarco"] = partial(_without_text, more_rows.rerank)
    multiple_choice = partial(_with_text, support.longbench_v2, "context", {})
    made |= {"longbench-v2": multiple_choice, "longbench-v2-cot": multiple_choice}
    made["longbench-pro"] = partial(_with_text, support.longbench_pro, "context", {})
    window = partial(_with_text, support.oolong, "context_window_text")
    made |= {
        "oolong/synth": partial(window, {}),
        "oolong/real": partial(window, {"answer_type": None}),
    }
    for name in more_rows.MEMORY:
        made[f"memoryagentbench/{name}"] = partial(_memory, name)
    documents = partial(_with_text, support.loong, "docs")
    made |= _each("loong", ("paper", "financial"), partial(documents, {}))
    made["loong/legal"] = partial(documents, {"type": "legal"})
    made["loong/financial_zh"] = partial(documents, {"type": "financial", "language": "zh"})
    made |= _each("leval", more_rows.LEVAL, _on_document)
    made |= _each("lveval", more_rows.LVEVAL, partial(_with_text, more_rows.lveval, "context", {}))
    for name, make in more_rows.LOOGLE.items():
        made[f"loogle/{name}"] = partial(_first_question, make)
    facts = partial(_with_text, more_rows.babilong, "input", {})
    made |= _each("babilong", (f"qa{number}" for number in range(1, 11)), facts)
    return made | _each("mrcr", ("2needle", "4needle", "8needle"), _needles)


MADE = _makers()
MADE_FOLDERS: dict[str, Callable[[], dict[str, bytes]]] = {
    "oolong/pairs": releases.pairs,
    **dict.fromkeys(("nolima/standard", "nolima/hard", "nolima/direct"), releases.nolima),
    **dict.fromkeys(
        ("graphrag-bench/novel", "graphrag-bench/medical"), partial(releases.graphrag, QUESTIONS)
    ),
}
"""Data set whose release is a folder -> what makes its files, by path."""


def made_rows(dataset: str, out: Path) -> Path:
    """Make the rows of a data set in its official layout; returns their file, or folder.

    Args:
        dataset: A data set of MADE or MADE_FOLDERS.
        out: The folder of results, in which they are written.
    """
    path = out / "made" / dataset.replace("/", "~")
    if dataset in MADE_FOLDERS:
        for name, content in MADE_FOLDERS[dataset]().items():
            file = path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        return path
    path = path.with_name(f"{path.name}.json")
    if not path.exists():
        rows = []
        for number in range(QUESTIONS):
            world = sample("musique", number, tokens=TOKENS, purpose="evaluation")
            rows.append(MADE[dataset](number, world.documents[0].text))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(rows), "utf-8")
    return path


@dataclass(frozen=True)
class Rows:
    """Where the rows of a data set are.

    Args:
        file: The file below the folder `data`; "" for made-up rows.
        sets: Settings that they need.
    """

    file: str = ""
    sets: dict[str, str | int] = field(default_factory=dict)


LONGBENCH_SHORT = (
    "qasper",
    "multifieldqa_zh",
    "passage_retrieval_zh",
    "multifieldqa_en",
    "2wikimqa",
)
LONGBENCH_LONG = (
    "trec",
    "dureader",
    "triviaqa",
    "hotpotqa",
    "passage_retrieval_en",
    "musique",
    "passage_count",
    "narrativeqa",
)


def _longbench(names: Iterable[str]) -> dict[str, Rows]:
    """Preset -> rows, for data sets of LongBench, and of LongBench-E, which takes the same rows."""
    known = presets.names("datasets")
    found = {}
    for name in names:
        for preset in (f"longbench/{name}", f"longbench/{name}_e"):
            if preset in known:
                found[preset] = Rows(f"longbench/{name}.jsonl")
    return found


NO_SHOTS: dict[str, str | int] = {"dataset.shots": 0}  # made-up rows have no file of examples
RULER: dict[str, str | int] = {"dataset.tokens": 2048, "dataset.questions": QUESTIONS}
PAIRS_TEXTS = "synth/data/validation-00000-of-00001.parquet"
PAIRS: dict[str, str | int] = {"dataset.texts": f"{{out}}/made/oolong~pairs/{PAIRS_TEXTS}"}
NOLIMA: dict[str, str | int] = {"dataset.tokens": TOKENS, "dataset.depths": QUESTIONS}


def _made_up() -> dict[str, Rows]:
    """Data set -> rows, for those whose rows are made up."""
    found = {}
    for name in (*MADE, *MADE_FOLDERS):
        sets = {}
        if name.startswith("helmet/"):
            sets = NO_SHOTS
        if name.startswith("nolima/"):
            sets = NOLIMA
        if name == "oolong/pairs":
            sets = PAIRS
        found[name] = Rows(sets=sets)
    for name in presets.names("datasets"):
        if name.startswith("ruler/"):
            found[name] = Rows(sets=RULER)
    return found


DATA: dict[str, Rows] = {  # shortest texts first
    **_made_up(),
    "nq": Rows("nq/nq_open_oracle_sample.jsonl"),
    "popqa": Rows("popqa/popqa_sample.jsonl"),
    "asqa": Rows("asqa/alce_asqa_demos.json"),
    "eli5": Rows("eli5/eli5_kilt_sample.jsonl", {"dataset.documents": f"{{out}}/{NO_DOCUMENTS}"}),
    "2wikimultihopqa": Rows("2wikimultihopqa/dev_sample.json"),
    "hotpotqa": Rows("hotpotqa/hotpot_dev_distractor_sample.json"),
    "musique": Rows("musique/musique_ans_v1.0_dev_sample.jsonl"),
    "quality": Rows("quality/quality_v1.0.1_sample.jsonl"),
    "qasper": Rows("qasper/qasper-train-v0.3-sample.json"),
    **_longbench(LONGBENCH_SHORT),
    "triviaqa": Rows(
        "triviaqa/wikipedia-sample.json",
        {"dataset.documents": "{data}/triviaqa/evidence_wikipedia.jsonl"},
    ),
    **_longbench(LONGBENCH_LONG),
    "narrativeqa": Rows("narrativeqa"),
}


def shorten_file(file: Path, out: Path, max_bytes: int) -> Path:
    """A copy of a file of rows, or of a folder of them, with shorter texts; it is made once.

    Args:
        file: The file or folder.
        out: The folder of results, in which the copy is.
        max_bytes: How many bytes of UTF-8 a text keeps.
    """
    folder = out / "shortened" / str(max_bytes)
    copy = folder / file.parent.name / file.name
    if file.is_dir():
        for each in file.iterdir():
            shorten_file(each, out, max_bytes)
        return folder / file.name
    if copy.exists():
        return copy
    copy.parent.mkdir(parents=True, exist_ok=True)
    if ".jsonl" in file.name:
        _shorten_lines(file, copy, max_bytes)
    else:
        copy.write_bytes(file.read_bytes())
    return copy


def _shorten_lines(file: Path, copy: Path, max_bytes: int) -> None:
    """Write the rows of a file to another one with shorter texts; both are gzipped where the name
    says so.

    Args:
        file: The file with a row a line.
        copy: The file to write.
        max_bytes: How many bytes of UTF-8 a text keeps.
    """
    opened: Any = open
    if file.suffix == ".gz":
        opened = gzip.open
    with (
        opened(file, "rt", encoding="utf-8") as source,
        opened(copy, "wt", encoding="utf-8") as target,
    ):
        for line in source:
            row = json.loads(line)
            for key in LONG:
                if isinstance(row.get(key), str):
                    row[key] = row[key].encode()[:max_bytes].decode(errors="ignore")
            target.write(json.dumps(row, ensure_ascii=False) + "\n")


def rows_file(dataset: str, data: Path, out: Path, max_bytes: int | None) -> Path | None:
    """The file or folder that --data names for a data set; None where the loader makes the texts.
    Made-up rows and shorter copies are written first.

    Args:
        dataset: The data set.
        data: The folder of real rows.
        out: The folder of results.
        max_bytes: How many bytes a text keeps; None for whole texts.
    """
    if dataset in MADE or dataset in MADE_FOLDERS:
        return made_rows(dataset, out)
    if not DATA[dataset].file:
        return None
    file = data / DATA[dataset].file
    if max_bytes is None:
        return file
    return shorten_file(file, out, max_bytes)


def row_settings(
    dataset: str, data: Path, out: Path, max_bytes: int | None = None
) -> dict[str, str | int]:
    """The settings that a data set's rows need. Files that they name and that are not there are
    written to the folder of results.

    Args:
        dataset: The data set.
        data: The folder of real rows.
        out: The folder of results.
        max_bytes: How many bytes a text of a named file keeps; None for whole texts.
    """
    made: dict[str, str | int] = {"dataset.max_answer_tokens": "32"}
    if dataset in MADE_FOLDERS:
        made_rows(dataset, out)  # settings may name a file of the folder
    for key, value in DATA[dataset].sets.items():
        if isinstance(value, int):
            made[key] = value
            continue
        path = Path(value.format(data=data, out=out))
        if path.name == NO_DOCUMENTS and not path.exists():
            _write_documents(path, data, data / DATA[dataset].file)
        if max_bytes is not None:
            path = shorten_file(path, out, max_bytes)
        made[key] = str(path)
    return made


def _write_documents(path: Path, data: Path, questions: Path) -> None:
    """Write real passages of ASQA for KILT's questions, which come without documents.

    Args:
        path: File to write.
        data: Folder of real rows.
        questions: File with a question a line.
    """
    rows = json.loads((data / "asqa/alce_asqa_demos.json").read_text("utf-8"))
    documents = {}
    for number, line in enumerate(questions.read_text("utf-8").splitlines()):
        documents[json.loads(line)["input"]] = rows[number % len(rows)]["docs"]
    path.write_text(json.dumps(documents), "utf-8")

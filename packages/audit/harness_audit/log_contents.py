"""What the logs of other harnesses need of a stored run, question by question.

for question in asked_questions(run):
    question.context, question.prompt, question.record["prediction"]
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import UserError
from harness.storage.files import save_error, write_atomic
from harness.storage.kept_requests import read_requests
from harness.storage.run_folder import StoredRun
from reports.gold_rows import Rows

GAP = "\n\n"


@dataclass(frozen=True)
class AskedQuestion:
    """A question of a run with its answer.

    context: the texts that the reader was shown, in order, joined by a blank line; prompt: the last kept request that
    wrote a part of the answer, else context and question; kept: whether there is such a request; rows: to look up the
    texts of steps.
    """

    record: Mapping[str, Any]
    context: str
    prompt: str
    kept: bool
    rows: Rows


def asked_questions(run: StoredRun) -> Iterator[AskedQuestion]:
    """Yield the questions of the run in the order of its records.

    Raises UserError for a run that holds no texts, DataError for a damaged file.
    """
    for record in run.records:
        if record.get("question") is None or record.get("gold") is None:
            raise UserError(
                f"{run.path} holds neither questions nor right answers, because dataset.keep_texts is off or an older "
                f"version made it; where the licence allows copies, add them with: harness score {run.path}"
            )
    rows, sent = Rows(texts=run.texts(run.records)), _last_prompts(run)
    for record in run.records:
        context = GAP.join(filter(None, map(rows.text, record["shown"])))
        kept = sent.get(record["question_id"])
        prompt = kept or GAP.join(filter(None, (context, record["question"])))
        yield AskedQuestion(record, context, prompt, kept is not None, rows)


def _last_prompts(run: StoredRun) -> dict[str, str]:
    """Question id -> the last prompt that wrote something in the phase "answer" (--keep-prompts)."""
    requests = read_requests(run.path, {str(record["question_id"]) for record in run.records})
    written = {
        name: [r["prompt"] for r in rows if r["kind"] == "write" and r["phase"] == "answer"]
        for name, rows in requests.items()
    }
    return {name: prompts[-1] for name, prompts in written.items() if prompts}


def write_file(path: Path, data: bytes) -> None:
    """Write an exported file, and its folder where there is none. Raises SaveError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise save_error(path.parent, error, "--out") from None
    write_atomic(path, data)


def safe_name(text: str) -> str:
    """`text` with only characters that are safe in a file name: a run folder may come from a stranger."""
    return re.sub(r"[^\w.+-]", "-", text).lstrip(".")[:100] or "-"


def start_time(run: StoredRun) -> str:
    """When the run began, in ISO form with a time zone."""
    return str(run.manifest.get("started") or "1970-01-01T00:00:00+00:00")

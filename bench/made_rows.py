"""Made-up rows of `make smoke-real` in the layouts of releases of which there is no sample: texts of the pocket world.

made_file("longmemeval/s", out)  ->  out/made/longmemeval~s.json, two rows, written once
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pocket.world.sample import sample
from tests.datasets.support import infinite, longbench_v2, longmemeval

QUESTIONS = 2
Row = dict[str, Any]


def _chats(number: int, text: str) -> Row:
    """A session for each paragraph; the second question is one to be declined."""
    paragraphs = text.split("\n\n")
    turns = [{"role": "user", "content": paragraph, "has_answer": True} for paragraph in paragraphs]
    sessions = [[turn, {"role": "assistant", "content": "I see."}] for turn in turns]
    dates = [f"2023/05/{day:02} (Mon) 10:00" for day in range(1, len(sessions) + 1)]
    ids = [f"session {day}" for day in range(len(sessions))]
    return longmemeval(
        question_id=f"e{number}{'_abs' * number}",
        haystack_dates=dates,
        haystack_sessions=sessions,
        haystack_session_ids=ids,
    )


MADE: dict[str, Callable[[int, str], Row]] = {
    "longmemeval/oracle": _chats,
    "longmemeval/s": _chats,
    "infinitebench/en_qa": lambda n, text: infinite(n, context=text),
    "infinitebench/en_mc": lambda n, text: infinite(n, context=text, options=["Ada", "Bo", "Cy", "Di"], answer=["Ada"]),
    "longbench-v2": lambda n, text: longbench_v2(n, context=text),
    "longbench-v2-cot": lambda n, text: longbench_v2(n, context=text),
}


def made_file(dataset: str, out: Path) -> Path:
    """The rows of a data set of MADE as a file in the results folder."""
    path = out / "made" / f"{dataset.replace('/', '~')}.json"
    if not path.exists():
        made = (sample("musique", n, tokens=1000, purpose="evaluation") for n in range(QUESTIONS))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps([MADE[dataset](n, one.documents[0].text) for n, one in enumerate(made)]), "utf-8")
    return path

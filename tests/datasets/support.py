"""Small rows, configs and files for the tests of this folder."""

from __future__ import annotations

import copy
import json
import os
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from harness.config import DatasetConfig

REAL = os.environ.get("HARNESS_TEST_DATA")
needs_real = pytest.mark.skipif(
    not REAL, reason="HARNESS_TEST_DATA is not set: it names the folder that holds data/ and golden/ with real rows"
)


def real(*parts: str) -> Path:
    """A file below the folder of real rows."""
    return Path(REAL or "").joinpath(*parts)


def config(family: str = "musique", **fields: Any) -> DatasetConfig:
    """A data set config with what the tests do not care about filled in."""
    base = {"name": "t", "instruction": "Answer.", "max_answer_tokens": 8, "scorers": ("flashrag.acc",)}
    return DatasetConfig.model_validate({**base, "format": family, **fields})


def musique(number: int = 1, **changes: Any) -> dict[str, Any]:
    """A valid MuSiQue row with three paragraphs, the second supporting."""
    row = {
        "id": f"2hop__{number}",
        "question": f"Who built mill {number}?",
        "answer": "Ada Velmark",
        "answer_aliases": ["Velmark", "Ada Velmark"],
        "answerable": True,
        "paragraphs": [
            {"idx": i, "title": f"Mill {i}", "paragraph_text": f"Text {i} of row {number}.", "is_supporting": i == 1}
            for i in range(3)
        ],
        "question_decomposition": [
            {"id": 7, "question": "mill >> builder", "answer": "Ada Velmark", "paragraph_support_idx": 1}
        ],
    }
    return copy.deepcopy({**row, **changes})


def hotpot(number: int = 1, **changes: Any) -> dict[str, Any]:
    """A valid HotpotQA row in the official schema with three paragraphs, two of them supporting."""
    row = {
        "_id": f"h{number}",
        "question": f"Which is older, mill A or mill B ({number})?",
        "answer": "mill A",
        "type": "comparison",
        "level": "hard",
        "supporting_facts": [["A", 0], ["B", 1]],
        "context": [["A", ["A is old."]], ["C", ["C burned.", " Then not."]], ["B", ["B.", " B is new."]]],
    }
    return copy.deepcopy({**row, **changes})


def columns(row: dict[str, Any]) -> dict[str, Any]:
    """A HotpotQA row in the column schema of the hub copy."""
    titles, sentences = zip(*row["context"], strict=True)
    names, numbers = zip(*row["supporting_facts"], strict=True)
    rest = {key: value for key, value in row.items() if key != "_id"}
    return {
        **rest,
        "id": row["_id"],
        "context": {"title": list(titles), "sentences": list(sentences)},
        "supporting_facts": {"title": list(names), "sent_id": list(numbers)},
    }


def write_lines(path: Path, rows: list[Any], end: str = "\n") -> Path:
    """Rows as JSON lines; a string is written as it is."""
    lines = [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows]
    path.write_bytes("".join(line + end for line in lines).encode())
    return path


def parquet(rows: list[dict[str, Any]]) -> bytes:
    """Rows as the bytes of a parquet file; skips the test where pyarrow is not installed."""
    arrow, writer = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    out = BytesIO()
    writer.write_table(arrow.Table.from_pylist(rows), out)
    return out.getvalue()

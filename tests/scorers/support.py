"""Golden values: read, compare, and say why some cannot be checked here."""

import importlib.util
import json
from pathlib import Path
from typing import Any

from harness.scorers import ScoreError, lookup, score
from tests.datasets.support import real

HAND = Path(__file__).with_name("hand.jsonl")
NO_JIEBA = importlib.util.find_spec("jieba") is None
CHINESE_SETS = ("multifieldqa_zh", "dureader", "vcsum")
EXTRA = ("all_classes", "dataset", "lengths", "backend")

Case = tuple[Any, Any, dict[str, Any], Any]


def rows(path):
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def hand_cases():
    """Metric -> its (prediction, references, extra, value); a value of None means that the
    published code raises.

    "F1" is not one metric: rows with a "why" tell the rules of its origins apart, quirks that are
    kept among them.
    """
    cases = {}
    for row in rows(HAND):
        for metric, value in row["values"].items():
            cases.setdefault(metric, []).append(
                (row["prediction"], row["references"], row.get("extra", {}), value)
            )
    return cases


def real_cases():
    cases = {}
    for row in rows(real("golden", "scorers.jsonl")):
        extra = {key: row[key] for key in EXTRA if row.get(key) is not None}
        cases.setdefault(row["metric"], []).append(
            (row["prediction"], row["references"], extra, row["value"])
        )
    return cases


def equal(found, wanted):
    if isinstance(wanted, dict):
        return found.keys() == wanted.keys() and all(
            equal(found[key], wanted[key]) for key in wanted
        )
    if wanted is None or isinstance(wanted, str):
        return bool(found == wanted)
    return isinstance(found, float | int) and abs(found - wanted) <= 1e-6


def needs_chinese_words(metric, extra):
    return "jieba" in lookup(metric).packages or extra.get("dataset") in CHINESE_SETS


def differences(metric, cases):
    """One line for every case whose value is not the golden one."""
    wrong = []
    for prediction, references, extra, value in cases:
        try:
            found = score(metric, prediction, references, **extra)
        except ScoreError as error:
            if value is not None:
                wrong.append(
                    f"{prediction!r} / {references!r}: raised {error!r}, expected {value!r}"
                )
            continue
        if value is None or not equal(found, value):
            wrong.append(f"{prediction!r} / {references!r}: {found!r}, expected {value!r}")
    return wrong

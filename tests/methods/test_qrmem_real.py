"""QRMeM on a real MuSiQue row with scripted replies: the entity that the question does not name is reached over an edge.

The row is chosen by what it is like, and the replies are made of it while the test runs: no real text stands here.
"""

import json
from dataclasses import dataclass

import pytest

from harness.cli.main import main
from harness.config.layers import Choices
from harness.datasets import load
from harness.engine.plan import plan_choices
from harness.engine.progress import Silent
from harness.engine.runner import run
from harness.entities.recogniser import recogniser
from harness.storage.run_folder import read_run
from methods.qrmem.memory import occurs
from tests.datasets.support import config, needs_real, real

FILE = "musique/musique_ans_v1.0_dev_sample.jsonl"
FAR = 1500  # characters between what the question names and the second paragraph: they share no segment


@dataclass(frozen=True)
class Hop:
    """A row of two hops: the question names `entity`, the first paragraph leads to `bridge`, the second has the answer."""

    line: str
    entity: str
    bridge: str
    second: str
    answer: str


def hop() -> Hop:
    """The first row whose bridge is missing from the question, and whose second paragraph is far from all it names."""
    lines = {json.loads(line)["id"]: line for line in real("data", FILE).read_text(encoding="utf-8").splitlines()}
    data = load(config("musique", data=str(real("data", FILE))))
    for example in data.examples:
        steps = json.loads(lines[example.question.id])["question_decomposition"]
        document = data.documents[example.question.document_ids[0]]
        first, second = (document.passages[s["paragraph_support_idx"]] for s in (steps[0], steps[-1]))
        question, bridge = example.question.text, steps[0]["answer"]
        here, there = (document.text[p.start : p.end] for p in (first, second))
        near = document.text[max(0, second.start - FAR) : second.end + FAR]
        named = [name for name in recogniser("rules").names(here) if name in question and not name.isdigit()]
        known = [name for name in recogniser("rules").names(near) if name.casefold() in question.casefold()]
        if len(steps) != 2 or not named or bridge.casefold() in question.casefold():
            continue
        if occurs(bridge, here) and occurs(bridge, there) and not known:
            return Hop(lines[example.question.id], max(named, key=len), bridge, there, example.gold.answers[0])
    raise AssertionError("no row of the sample is like that")


def script(found: Hop) -> dict:
    """Replies of a model that reads well: entities, the one relation, and a verdict that knows the second paragraph."""
    no = f"Reasoning: {found.bridge} is named, and nothing is said of it.\nAction: -1"
    read = found.second.strip()[-80:]  # the end of a paragraph, which stands in one segment
    replies = [
        ("Summarise the text below", "many things"),
        ("Find the key entities", f"* {found.entity}\n* {found.bridge}"),
        ("Describe how entities", f"* {found.entity} | {found.bridge} | one leads to the other"),
        ("Look for what is missing", "none"),
        ("Answer these questions for yourself", "one leads to the other"),
        ("Two parts of a document", "none"),
        (read, f"Reasoning: it says so.\nAction: -2\nAnswer: {found.answer}"),
        ("Read the text and answer", no),
        ("Read the text below", "not found"),
    ]
    return {"window": 4096, "replies": [{"when": when, "reply": reply} for when, reply in replies]}


@needs_real
@pytest.mark.parametrize(("preset", "answered"), [("qrmem", True), ("qrmem-no-navigation", False)])
def test_navigation_reaches_what_the_question_does_not_name(
    preset: str, answered: bool, tmp_path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    found = hop()
    (tmp_path / "row.jsonl").write_text(found.line + "\n", encoding="utf-8")
    (tmp_path / "script.json").write_text(json.dumps(script(found)))
    sets = {"model.script": str(tmp_path / "script.json"), "dataset.data": str(tmp_path / "row.jsonl"),
            "encoder": "minilm", "method.segment_tokens": 120}  # fmt: skip
    plan = plan_choices(Choices(method=preset, dataset="musique", model="scripted", sets=sets))
    result = run(plan, tmp_path / "results", command=["harness"], progress=Silent())
    (record,) = read_run(result.folder).records
    assert record["error"] is None
    question = json.loads(found.line)["question"]
    assert found.bridge not in question
    with pytest.raises(SystemExit) as ended:
        main(["trace", str(result.folder), record["question_id"]])
    assert not ended.value.code
    trace = capsys.readouterr().out
    if not answered:
        assert (record["stop_reason"], record["prediction"]) == ("no navigation", "not found")
        assert record["scores"]["evidence_recall"] == 0.5, "the second paragraph is not among the first segments"
        assert "expand" not in trace
        return
    assert (record["stop_reason"], record["prediction"]) == ("answered", found.answer)
    assert record["scores"]["evidence_recall"] == 1.0
    assert [s["action"] for s in record["steps"] if s["action"] in ("ask", "expand")] == ["ask", "expand", "ask"]
    (line,) = [line for line in trace.splitlines() if " expand " in line]
    assert f"{found.entity} ; one leads"[:30] in line
    assert "entities of the question" in trace
    assert found.bridge not in next(s["note"] for s in record["steps"] if s["action"] == "start")

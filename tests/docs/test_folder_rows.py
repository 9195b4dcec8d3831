"""The rows that docs/datasets.md shows for a folder of one's own are read as they are printed."""

import json
import re

from tests import ROOT

PAGE = (ROOT / "docs" / "datasets.md").read_text(encoding="utf-8")


def test_the_rows_of_the_page_are_asked(here, tmp_path):
    section = PAGE.partition('<a id="folder"></a>')[2].partition("\n## Data sets with")[0]
    lines = "".join(re.findall(r"```json\n(.*?)```", section, re.DOTALL)).splitlines()
    # Two examples ask the same, and a file has each question once.
    rows = [json.loads(line) | {"id": str(number)} for number, line in enumerate(lines)]
    (tmp_path / "wiki" / "guide").mkdir(parents=True)
    (tmp_path / "wiki" / "guide" / "setup.md").write_text("# Set up\n\n## Warranty\n\nTwo years.\n")
    (tmp_path / "wiki" / "garage.md").write_text("# Garage\n\nIt closes at ten.\n")
    (tmp_path / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "script.json").write_text('{"window": 9999, "replies": [{"reply": "two years"}]}')
    here(
        "run", "--method", "bm25", "--documents", "wiki", "--questions", "questions.jsonl",
        "--model", "reader", "--set", "model.backend=scripted", "model.script=script.json",
        "--mlflow", "off",
    ).checked()  # fmt: skip
    (summary,) = tmp_path.glob("results/wiki/*/summary.json")
    scores = json.loads(summary.read_text())["scores"]
    assert {"right", "assertions", "abstention.declines", "evidence_pages"} <= scores.keys()

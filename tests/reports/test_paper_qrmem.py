"""QRMeM's tables beside ours: shares of 1, an EM that is read in two ways, requests, and rows over
other questions."""

from reports.paper import frame
from reports.paper.printed import load
from reports.paper.verdicts import NOT_COMPARABLE
from tests.reports.build import record, usage
from tests.reports.paper_runs import paper_run

ACC, EM, IN = "quality.accuracy", "musique.answer_em", "flashrag.acc"
RESULTS = """source,table,method,dataset,metric,value
Q,Table 1,TE,Tales,Acc,0.6936
Q,Table 1,TE,Hops,EM,-
Q,Table 1,KN,Tales,Acc,0.7207
Q,Table 1,KN,Hops,EM,0.4200
Q,Table 4,BM25,Tales,Acc,0.5288
Q,Table 6,KN,Tales,Requests,3.96
"""
RULES = f"""
papers:
  Q:
    {{name: Q, model: gpt-3.5-turbo, scale: 0.01, datasets: {{
      Tales: {{dataset: quality, split: validation, questions: 8, subset: nobody says which}},
      Hops: {{dataset: longbench/musique, split: test, questions: 8}}}}}}
datasets: {{Hops: {{dataset: musique, split: validation, questions: 2417}}}}
metrics:
  Acc: {{score: {ACC}}}
  EM (contained): {{label: EM, score: {IN}}}
  EM (strict): {{label: EM, score: flashrag.em, instead: [{EM}]}}
  Requests: {{requests: true}}
entries:
- {{source: Q, table: Table 1, method: TE, preset: qrmem-entity-trial, metrics: [Acc, EM (contained), EM (strict)]}}
- {{source: Q, table: Table 1, method: KN, preset: qrmem, metrics: [Acc, EM (contained), EM (strict)]}}
- {{source: Q, table: Table 4, method: BM25, preset: bm25, metrics: [Acc], model: Llama-2-70b-chat-hf, questions: 16}}
- {{source: Q, table: Table 6, method: KN, preset: qrmem, metrics: [Requests]}}
"""


def values():
    return load(RESULTS, RULES)


def run(root, dataset, scores, method="qrmem", requests=4):
    """A question for each of the scores' values, two on a document."""
    count = len(next(iter(scores.values())))
    spent = {
        "answer": {**usage(1.0), "requests": requests},
        "index": {**usage(1.0), "requests": 50},
    }
    scored = [{name: values[i] for name, values in scores.items()} for i in range(count)]
    rows = [record(i, None, scores=own, usage=spent, error=None) for i, own in enumerate(scored)]
    model = {"name": "gpt-3.5-turbo", "backend": "endpoint", "embedded": False}
    return paper_run(
        root, method, dataset, rows, config={"model": model, "dataset.scorers": list(scores)}
    )


def test_shares_of_one_are_told_in_points_and_empty_cells_are_none():
    printed = {
        (v.entry.method, v.label): (v.printed, v.digits, v.rules[0].dataset) for v in values()
    }
    assert printed == {
        ("TE", "Acc"): (69.36, 2, "quality"),
        ("KN", "Acc"): (72.07, 2, "quality"),
        ("KN", "EM (contained)"): (
            42.0,
            2,
            "longbench/musique",
        ),  # the paper's own meaning of the label
        ("KN", "EM (strict)"): (42.0, 2, "longbench/musique"),
        ("BM25", "Acc"): (52.88, 2, "quality"),
        ("KN", "Requests"): (3.96, 2, "quality"),
    }


def test_both_readings_of_em_stand_side_by_side(tmp_path):
    found = run(tmp_path, "longbench/musique", {IN: [1, 1, 0, 0, 1, 0, 0, 0], EM: [0.0] * 8})
    table = frame([found], values()).set_index("metric")
    assert list(table.index) == ["EM (contained)", "EM (strict)"]
    assert list(table["ours"]) == [37.5, 0.0]
    few = "documents: 4; this test cannot find a difference with fewer than 6"
    assert [set(notes) - {few} for notes in table["notes"]] == [set(), set()]
    assert table["verdict"].iloc[0].startswith("undecided")
    bare = run(tmp_path / "b", "longbench/musique", {IN: [1.0] * 8})
    why = frame([bare], values()).set_index("metric").loc["EM (strict)", "notes"]
    line = "harness score RUN --scorers flashrag.acc,flashrag.em"
    assert why == (f"metric: the run has no flashrag.em; add it with: {line}",)


def test_questions_that_nobody_names_are_not_ours(tmp_path):
    table = frame([run(tmp_path, "quality", {ACC: [1.0] * 8})], values()).set_index("metric")
    assert table.loc["Acc", "notes"] == ("sample: nobody says which",)
    assert table.loc["Acc", "verdict"] == NOT_COMPARABLE
    # Requests of search and answer; the 50 of each index are no part of them.
    assert table.loc["Requests", "ours"] == 4.0
    assert table.loc["Requests", ["ours.low", "ours.high"]].isna().all(), "four documents"


def test_a_row_over_the_whole_set_with_a_model_of_its_own(tmp_path):
    (row,) = frame([run(tmp_path, "quality", {ACC: [0.5, 0.6] * 8}, "bm25")], values()).to_dict(
        "records"
    )
    assert row["notes"] == (
        "model: the reader is gpt-3.5-turbo, the paper's is Llama-2-70b-chat-hf",
    )
    (row,) = frame([run(tmp_path / "b", "quality", {ACC: [0.5] * 8}, "bm25")], values()).to_dict(
        "records"
    )
    assert row["notes"][1] == "sample: 8 questions, the paper has 16"

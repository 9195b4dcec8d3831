import math

import pytest

from harness.cost.flops import CONVENTIONS
from harness.errors import UserError
from harness.storage.run_folder import read_run
from harness.storage.run_summary import summarise
from reports import run_columns
from reports.columns import sections
from reports.main_table import frame
from reports.table_formats import render
from tests.reports.build import SCORE, built, record, stored, usage, write_run

POCKET = {"name": "pocket-llama", "backend": "hf", "embedded": True}
BUILT = {"roles": {"builder": POCKET}}
SCORES = [0.2, 0.4, None, 1.0, 0.0, 0.0, 0.3, 0.1]


def row_of(table, method):
    return table.set_index("method").loc[method].to_dict()


class TestScores:
    def test_equal_the_summary_of_the_run(self, tmp_path):
        run = stored(tmp_path, SCORES, settings={"seed": 7})
        expected = summarise(run.records, run.index_lines, run.config.with_values(seed=7)).scores[
            SCORE
        ]
        row = row_of(frame([run]), "pecan")
        found = {
            "mean": row[SCORE],
            "low": row[f"{SCORE}.low"],
            "high": row[f"{SCORE}.high"],
            "n": row["n"],
        }
        assert found == expected.to_json()

    @pytest.mark.parametrize(("failed", "mean"), [("zero", 2.0 / 8), ("skip", 2.0 / 7)])
    def test_a_failed_question_scores_zero_unless_the_run_skips_it(self, tmp_path, failed, mean):
        row = row_of(frame([stored(tmp_path, SCORES, settings={"failed": failed})]), "pecan")
        assert (row["n"], row["failed"]) == (8, 1)
        assert row[SCORE] == pytest.approx(mean)
        assert any("1 of 8 questions failed" in note for note in row["notes"])

    @pytest.mark.parametrize(("other", "noted"), [(record(1, None), False), (record(2, 0.0), True)])
    def test_a_question_without_the_score_is_left_out_and_told_if_it_was_answered(
        self, tmp_path, other, noted
    ):
        rows = [record(0, 1.0, scores={SCORE: 1.0, "em": 1.0}), other]
        row = row_of(frame([read_run(write_run(tmp_path, rows))]), "pecan")
        assert (row["em"], row[SCORE]) == (1.0, 0.5)
        assert ("em: mean over 1 of 2 questions; 1 answer has no value" in row["notes"]) is noted

    def test_scores_that_are_missing_alike_are_told_in_one_sentence(self, tmp_path):
        rows = [
            record(0, 1.0, scores={SCORE: 1.0, "em": 1.0, "hit": 1.0}),
            record(1, 1.0),
            record(2, 1.0),
        ]
        row = row_of(frame([read_run(write_run(tmp_path, rows))]), "pecan")
        assert "em, hit: means over 1 of 3 questions; 2 answers have no value" in row["notes"]

    def test_a_score_of_another_data_set_is_missing_not_zero(self, tmp_path):
        settings = {"dataset": {"name": "qasper", "scorers": ["em"]}}
        other_run = read_run(
            write_run(tmp_path, [record(0, 1.0, scores={"em": 1.0})], method="x", settings=settings)
        )
        table = frame([stored(tmp_path, SCORES), other_run])
        assert math.isnan(row_of(table, "pecan")["em"] + row_of(table, "x")[SCORE])


class TestCosts:
    def documents(self):
        row = built("d0", 3.0, usage={"index": usage(3.0, 300)})
        return [row, built("d1", 1.0, status="hit"), built("d9", 99.0, status="failed")]

    def test_means_over_answered_questions_and_built_indexes(self, tmp_path):
        row = row_of(frame([stored(tmp_path, SCORES, documents=self.documents())]), "pecan")
        tokens = {
            "tokens.index": 205.0,
            "tokens.search": 105.0,
            "tokens.answer": 105.0,
            "tokens": 210.0,
        }
        costs = {
            "tflops.index": 2.0,
            "tflops.search": 1.0,
            "tflops.answer": 0.5,
            "tflops": 1.5,
            "tflops.total": 2.0,
        }
        assert {name: row[name] for name in (*tokens, *costs)} == tokens | costs
        assert row["seconds"] == 1.0

    def test_latency_is_the_time_of_a_questions_own_calls(self, tmp_path):
        rows = [
            record(n, 1.0, usage={"answer": usage(1.0) | {"seconds": n + 1.0, "queued": 80.0}})
            for n in range(4)
        ]
        waited = built("d0", 1.0, usage={"index": usage(1.0) | {"seconds": 7.0}})
        manifest = {"starts": [{"parallel": 8}]}
        folder = write_run(
            tmp_path, [*rows, record(4, None)], documents=[waited], manifest=manifest
        )
        row = row_of(frame([read_run(folder)]), "pecan")
        names = ("seconds", "seconds.p50", "seconds.p95", "seconds.queue", "seconds.index")
        assert [row[name] for name in names] == pytest.approx([2.5, 2.5, 3.85, 80.0, 7.0])

    def test_money_is_by_the_prices_of_the_run_with_the_index_and_with_failed_questions(
        self, tmp_path
    ):
        def billed(new, cached, out):
            return usage(0.0, uncounted=1) | {
                "billed": {"reader": {"input": new, "cached": cached, "output": out}}
            }

        rows = [record(n, 1.0, usage={"answer": billed(1000, 200, 10)}) for n in range(2)]
        rows.append(record(2, None) | {"usage": {"answer": billed(500, 0, 0)}})
        documents = [built("d0", 0.0, usage={"index": billed(4000, 0, 100)})]
        price = {"price": {"input": 2.0, "cached": 0.5, "output": 10.0}}
        model = {"name": "m", "backend": "endpoint"}

        def run(hash8, **more):
            settings = {"model": model | more}
            return read_run(
                write_run(tmp_path, rows, documents=documents, settings=settings, hash8=hash8)
            )

        row = row_of(frame([run("00000000", **price)]), "pecan")
        question, index = (1000 * 2 + 200 * 0.5 + 10 * 10) / 1e6, (4000 * 2 + 100 * 10) / 1e6
        assert (row["money"], row["money.index"]) == (
            pytest.approx(question + index / 2),
            pytest.approx(index),
        )
        assert row["money.run"] == pytest.approx(2 * question + 500 * 2 / 1e6 + index)
        text = render(sections(frame([run("00000001", **price)]))[0].frame, "text")
        assert "tokens.in  tokens.out    money  money.run  seconds.p50" in text
        assert "tflops" not in text
        row = row_of(frame([run("00000002")]), "pecan")
        assert math.isnan(row["money"] + row["money.run"])
        assert any(
            "money unknown: model.price of the reader is not set" in note for note in row["notes"]
        )

    @pytest.mark.parametrize(("parallel", "known"), [(1, True), (8, False)])
    def test_older_times_of_several_questions_at_once_are_no_latency(
        self, tmp_path, parallel, known
    ):
        folder = write_run(
            tmp_path, [record(0, 1.0)], manifest={"starts": [{"parallel": parallel}]}
        )
        row = row_of(frame([read_run(folder)]), "pecan")
        assert (row["seconds"], row["seconds.p95"] == 1.0, math.isnan(row["seconds.queue"])) == (
            1.0,
            known,
            True,
        )

    def test_probes_are_a_part_of_the_search_with_a_column_and_a_note_of_their_own(self, tmp_path):
        probed = {"requests": 3, "tokens": 15, "flops": dict.fromkeys(CONVENTIONS, 0.098e12)}
        rows = [record(0, 1.0), record(1, 1.0), record(2, None)]
        for row in rows[:2]:
            row["usage"]["search"] = usage(1.0) | {"probes": probed}
        plain = stored(tmp_path, SCORES, method="bm25")
        table = frame([read_run(write_run(tmp_path, rows)), plain])
        row = row_of(table, "pecan")
        assert (row["tokens.probes"], row["tflops.probes"]) == (15.0, pytest.approx(0.098))
        assert (row["tokens.search"], row["tflops.search"]) == (105.0, 1.0)
        assert "of the search, probes: 9.8 % of the FLOPs, 14.3 % of the tokens" in row["notes"]
        other = row_of(table, "bm25")
        assert math.isnan(other["tflops.probes"])
        assert not any("probes" in note for note in other["notes"])
        # Where a model's shape is unknown, tokens are all that is known.
        rows[0]["usage"]["search"] = usage(0.0, uncounted=4) | {"probes": probed}
        row = row_of(frame([read_run(write_run(tmp_path, rows, hash8="89abcdef"))]), "pecan")
        assert (row["tokens.probes"], math.isnan(row["tflops.probes"])) == (15.0, True)
        assert "of the search, probes: 14.3 % of the tokens" in row["notes"]

    def test_the_indexes_of_one_document_add_up(self, tmp_path):
        rows = [{**self.documents()[0], "question_id": f"q{i}", "key": f"k{i}"} for i in range(3)]
        assert (
            row_of(frame([stored(tmp_path, SCORES, documents=rows)]), "pecan")["tflops.index"]
            == 9.0
        )

    def test_unknown_flops_are_missing_not_zero(self, tmp_path):
        rows = [record(0, 1.0, usage={"answer": usage(0.0, uncounted=2)})]
        row = row_of(frame([read_run(write_run(tmp_path, rows))]), "pecan")
        assert (
            math.isnan(row["tflops"]),
            math.isnan(row["tflops.answer"]),
            row["tokens.answer"],
        ) == (True, True, 105)
        assert any("FLOPs unknown" in note for note in row["notes"])

    def test_ratio_is_to_the_reference_of_the_same_data_set_and_model(self, tmp_path):
        dear = [record(i, 0.1, usage={"answer": usage(6.0)}) for i in range(8)]
        base = read_run(write_run(tmp_path, dear, method="full-context"))
        ours = stored(tmp_path, SCORES)
        elsewhere = stored(tmp_path, SCORES, dataset="qasper")
        bigger = stored(tmp_path, SCORES, model="big")
        ratios = list(frame([base, ours, bigger, elsewhere])["ratio"])
        assert ratios[:2] == [1.0, 0.25]
        assert all(math.isnan(r) for r in ratios[2:])
        assert list(frame([base, ours], reference="pecan")["ratio"]) == [4.0, 1.0]

    def test_a_ratio_that_points_elsewhere_under_causal_is_told(self, tmp_path):
        def run(method, cost, causal):
            one = usage(cost)
            one["flops"]["causal"] = causal * 1e12
            return read_run(
                write_run(tmp_path, [record(0, 0.1, usage={"answer": one})], method=method)
            )

        runs = [run("full-context", 1.0, 1.0), run("pecan", 0.91, 1.06), run("bm25", 0.5, 0.9)]
        table = frame(runs)
        note = "FLOPs without the index, beside full-context: 9.0 % cheaper under all-params, 6.0 % dearer under causal"
        assert note in row_of(table, "pecan")["notes"]
        assert not any(
            "causal" in note
            for name in ("full-context", "bm25")
            for note in row_of(table, name)["notes"]
        )
        turned = row_of(frame(runs, convention="causal"), "pecan")["notes"]
        assert any("6.0 % dearer under causal, 9.0 %" in note for note in turned)


class TestNotes:
    @pytest.mark.parametrize(
        ("changes", "note"),
        [
            (
                {"settings": {"model": POCKET | {"backend": "random"}}},
                "llama is a random model: its answers are noise",
            ),
            (
                {"settings": {"model": POCKET}},
                "pocket-llama is trained on pocket/* only and is no model for questions about musique",
            ),
            (
                {"settings": {"model": POCKET}, "dataset": "pocket/musique"},
                "made for the synthetic world (pocket/*)",
            ),
            (
                {"settings": BUILT, "manifest": {"models": {"reader": {}, "builder": {}}}},
                "is trained on pocket/* only",
            ),
            ({"summary": {}}, "the run is running, not finished: 2 questions so far"),
            (
                {"summary": {"state": "interrupted", "n_asked": 9}},
                "the run is interrupted, not finished: 7 of 9",
            ),
            ({"manifest": {"warnings": ["no licence"]}}, "no licence"),
            (
                {"manifest": {"starts": [{"changed": {"git": {}}}]}},
                "a part of the run was made after a change of git",
            ),
        ],
    )
    def test_of_the_run(self, tmp_path, changes, note):
        run = read_run(write_run(tmp_path, [record(0, 1.0), record(2, 0.0)], **changes))
        table = frame([run])
        assert any(note in n for n in table["notes"][0])
        assert note in render(table, "text")

    def test_of_the_records(self, tmp_path):
        rows = [
            record(0, 1.0, truncated={"side": "middle"}),
            record(1, 0.0, notes={"flags": {SCORE: "null"}}),
        ]
        notes = frame([read_run(write_run(tmp_path, rows))])["notes"][0]
        assert "1 of 2 questions were answered from a truncated context" in notes
        assert f"1 of 2 values of {SCORE} could not be scored as they are and count 0" in notes
        assert "all questions share one document: no interval" in notes

    @pytest.mark.parametrize("form", ["text", "markdown", "latex"])
    def test_versions_stand_below_a_table_whose_rows_differ_in_them(self, form, tmp_path):
        versions = ({SCORE: "1"}, {SCORE: "2"})
        runs = [
            stored(tmp_path / v[SCORE], SCORES, method=v[SCORE], manifest={"scorers": v})
            for v in versions
        ]
        for chosen, there in ((runs[:1], []), (runs, ["1", "2"])):
            text = render(frame(chosen), form).replace("\\_", "_")
            assert [v for v in ("1", "2") if f"{SCORE} {v}" in text] == there


class TestRows:
    def test_sorted_by_data_set_in_the_given_order_within(self, tmp_path):
        runs = [
            stored(tmp_path, SCORES, method=m, dataset=d)
            for m, d in (("z", "q"), ("b", "a"), ("a", "q"))
        ]
        assert list(frame(runs)["method"]) == ["b", "z", "a"]

    def test_nothing_to_show_is_said(self, tmp_path):
        with pytest.raises(UserError, match="no runs found"):
            frame([])
        with pytest.raises(UserError, match="no question is recorded yet in pecan--tiny"):
            frame([stored(tmp_path, [])])


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("unread", "replies that the method could not read: 3"),
        ("unsearched", "answers without a single tool call: 3"),
    ],
)
def test_replies_that_a_method_counts_are_in_the_notes_and_the_summary(kind, sentence, tmp_path):
    spent = [{**usage(1.0), "replies": {kind: count}} for count in (1, 2)]
    index = built("d0", 1.0, usage={"index": spent[1]})
    run = read_run(
        write_run(tmp_path, [record(0, 1.0, usage={"answer": spent[0]})], documents=[index])
    )
    assert summarise(run.records, run.index_lines).replies == {kind: 3}
    assert sentence in frame([run])["notes"][0]


def test_a_column_is_one_entry(tmp_path, monkeypatch):
    """Its value, format, place and legend come from COLUMNS alone."""
    column = run_columns.Column(
        "links",
        lambda row: 0.5 * len(row.run.records),
        "{:.2f} links".format,
        run_columns.Shown.ALWAYS,
        legend="links: made up",
    )
    monkeypatch.setattr(run_columns, "COLUMNS", (*run_columns.COLUMNS, column))
    table = frame([stored(tmp_path, SCORES)])
    (section,) = sections(table)
    text = render(section.frame)
    assert list(table["links"]) == [4.0]
    assert "links" in text.splitlines()[0]
    assert "4.00 links" in text.splitlines()[1]
    assert "links: made up" in text

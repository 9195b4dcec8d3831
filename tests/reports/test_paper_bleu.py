"""The BLEU of all answers: counts in the records, its value and interval in tables, and the papers'
BLEU-4 beside it."""

import json
from dataclasses import replace

import numpy as np
import pytest

from harness import scorers
from harness.engine.rescore import rescore
from harness.scorers.bleu import bleu_counts, corpus_bleu
from harness.stats.bootstrap import interval
from harness.stats.corpus_interval import corpus_interval
from harness.storage.run_folder import read_run
from harness.tracking import metrics as _columns
from harness.types import Gold
from reports import facts, main_table
from reports.columns import sections
from reports.paper import frame
from reports.paper.printed import load
from reports.table_formats import render
from tests.engine.fakes import Plain, World, go, make_plan
from tests.reports.build import parsed, record, stored
from tests.reports.paper_runs import paper_run

ONE, ALL = "hf_bleu.bleu4", "hf_bleu.corpus_bleu4"
GOLD = "the cat sat on the mat in the old house"


def texts(n, seed=0):
    """Answers that are GOLD, parts of it or other words."""
    draws = np.random.default_rng(seed).integers(0, 4, n)
    return [
        (GOLD, "the cat sat on a mat", "a dog ran in the old house", "no")[draw] for draw in draws
    ]


def rows(answers, **changes):
    noted = [
        {"prediction": text, "notes": {"counts": {ONE: list(bleu_counts(text, [GOLD]))}}}
        for text in answers
    ]
    return [
        parsed(record(i, None, scores={ONE: 0.5}, error=None, **own, **changes))
        for i, own in enumerate(noted)
    ]


def paper_value(method="BM25 top-5", dataset="musique"):
    wanted = (method, "BLEU-4", dataset)
    own = (v for v in load() if "1" in v.entry.table)
    return next(v for v in own if (v.entry.method, v.label, v.rules[0].dataset) == wanted)


class TestRecords:
    """A run keeps the counts, so no report needs the rows of the data set."""

    @pytest.fixture
    def data(self):
        data = World(questions=4, documents=2, words=("fine", "fine", "fine", "window")).dataset()
        golds = [Gold((f"w{i} and some more", "fine")) for i in range(4)]
        pairs = zip(data.examples, golds, strict=True)
        return replace(data, examples=tuple(replace(e, gold=g) for e, g in pairs))

    @pytest.mark.usefixtures("fake_model")
    def test_of_every_question_the_failed_ones_too(self, tmp_path, data, monkeypatch):
        plan = make_plan(data, Plain(Plain.Config()))
        config = plan.config.dataset.model_copy(update={"scorers": ("hf_bleu.bleu1",)})
        plan = replace(plan, config=plan.config.model_copy(update={"dataset": config}))
        run = read_run(go(plan, tmp_path).folder)
        golds = [list(e.gold.answers) for e in data.examples]
        assert [r.error is None for r in run.records] == [True, True, True, False]
        kept = [r.notes["counts"]["hf_bleu.bleu1"] for r in run.records]
        assert kept == [
            list(bleu_counts(r.prediction, gold))
            for r, gold in zip(run.records, golds, strict=True)
        ]
        assert kept[-1][8:] == [
            0,
            1,
        ]  # no token written, one asked for: "fine" is the shortest answer
        found = facts.corpus_score_interval(run, "hf_bleu.corpus_bleu1").mean
        assert found == pytest.approx(
            corpus_bleu([r.prediction for r in run.records], golds, max_order=1)
        )
        # Without counts, as older runs are: `harness score` adds them.
        lines = [json.loads(line) for line in (run.path / "records.jsonl").read_text().splitlines()]
        for line in lines:
            del line["notes"]["counts"]
        (run.path / "records.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        assert facts.corpus_score_sources(read_run(run.path)) == {}
        monkeypatch.setattr("harness.datasets.load", lambda *_: data)
        rescore(run.path)
        assert [r.notes["counts"]["hf_bleu.bleu1"] for r in read_run(run.path).records] == kept
        rescore(run.path, scorers=["musique.answer_f1"], only=True)
        assert all("counts" not in r.notes for r in read_run(run.path).records)

    def test_a_part_of_the_answers_is_not_all(self, tmp_path):
        run = stored(tmp_path, [0.5] * 4)
        whole = replace(run, records=rows(texts(4)))
        assert facts.corpus_score_sources(whole) == {ALL: ONE}
        part = replace(run, records=[*rows(texts(3)), parsed(record(3, 0.5, scores={ONE: 0.5}))])
        assert facts.corpus_score_sources(part) == {}
        for row in (short := rows(texts(4))):
            row.notes["counts"][ONE].pop()
        assert facts.corpus_score_sources(replace(run, records=short)) == {}

    def test_failed_questions_are_left_out_where_the_run_says_so(self, tmp_path):
        right, *others = rows([GOLD, "no", "no", ""])
        failure = {"type": "T", "message": "m"}
        answers = [right, *(replace(row, error=failure) for row in others)]
        run = replace(stored(tmp_path, [0.5] * 4), records=answers)
        assert facts.corpus_score_interval(run, ALL).mean == pytest.approx(
            corpus_bleu([GOLD, "no", "no", ""], [[GOLD]] * 4)
        )
        skipped = replace(run, config=run.config.with_values(failed="skip"))
        assert facts.corpus_score_interval(skipped, ALL).mean == pytest.approx(1.0)
        empty = replace(run, records=rows(["", ""]))
        assert facts.corpus_score_interval(empty, ALL).mean == 0.0

    def test_a_scorer_without_counts(self):
        with pytest.raises(scorers.UserError, match="has no counts that add up"):
            scorers.corpus_score("flashrag.em", [1])


class TestInterval:
    def test_is_that_of_whole_corpora_drawn_again(self):
        """Bootstrap by hand: documents drawn anew, BLEU computed from their texts each time."""
        answers, generator = texts(120), np.random.default_rng(7)
        clusters = [str(i // 2) for i in range(120)]
        counted = [bleu_counts(text, [GOLD]) for text in answers]
        found = corpus_interval(lambda sums: scorers.corpus_score(ONE, sums), counted, clusters)
        by_hand = []
        for _ in range(60):
            drawn = [i for d in generator.integers(0, 60, 60) for i in (2 * d, 2 * d + 1)]
            by_hand.append(corpus_bleu([answers[i] for i in drawn], [[GOLD]] * 120))
        assert found.mean == pytest.approx(corpus_bleu(answers, [[GOLD]] * 120))
        assert (found.n, found.clusters) == (120, 60)
        assert found.low == pytest.approx(np.quantile(by_hand, 0.025), abs=0.04)
        assert found.high == pytest.approx(np.quantile(by_hand, 0.975), abs=0.04)

    def test_of_a_mean_is_that_of_interval(self):
        hits = [int(i % 3 == 0) for i in range(50)]
        clusters = [str(i // 2) for i in range(50)]
        found = corpus_interval(lambda s: s[0] / s[1], [(hit, 1) for hit in hits], clusters, seed=4)
        theirs = interval(hits, clusters)
        assert (found.mean, found.n, found.clusters) == (theirs.mean, theirs.n, theirs.clusters)
        assert (found.low, found.high) == (
            pytest.approx(theirs.low, abs=0.05),
            pytest.approx(theirs.high, abs=0.05),
        )

    def test_what_is_not_known(self):
        def share(sums):
            return sums[0] / sums[1]

        assert corpus_interval(share, [], []).mean is None
        assert corpus_interval(share, [(1, 2), (0, 2)], ["d", "d"]).low is None  # one document
        assert (
            corpus_interval(share, [(1, 2), (1, 2)], ["d", "e"]).low is None
        )  # no spread was seen
        with pytest.raises(ValueError, match="2 rows of counts do not match 1"):
            corpus_interval(share, [(1, 2), (1, 2)], ["d"])


class TestReports:
    def run(self, root, answers, **changes):
        return paper_run(
            root, "bm25", "musique", rows(answers, **changes), config={"dataset.scorers": [ONE]}
        )

    def test_in_the_table_where_a_run_has_it(self, tmp_path):
        answers = texts(40)
        run = self.run(tmp_path, answers)
        table = main_table.frame([run, stored(tmp_path, [0.5] * 3)])
        first, second = table.to_dict("records")
        assert first[ALL] == pytest.approx(corpus_bleu(answers, [[GOLD]] * 40))
        assert first[f"{ALL}.low"] < first[ALL] < first[f"{ALL}.high"]
        assert np.isnan(second[ALL])
        (section,) = sections(main_table.frame([run]))
        assert f"{100 * first[ALL]:.1f} [" in render(section.frame, "text")
        assert ALL not in main_table.frame([stored(tmp_path / "b", [0.5] * 3)]).columns

    def test_is_a_metric_of_tracking(self, tmp_path):
        run = self.run(tmp_path, texts(40))
        table = main_table.frame([run])
        (row,) = table.to_dict("records")
        shown = _columns.final_metrics(run, table)
        assert shown[_columns.metric_name(ALL)] == round(100 * row[ALL], 2)
        assert shown[_columns.metric_name(ALL)] != round(100 * row[ONE], 2)

    def test_stands_beside_the_papers(self, tmp_path):
        printed = paper_value()
        run = self.run(
            tmp_path, [GOLD if i % 7 == 0 else "no dog ran in this house" for i in range(2417)]
        )
        table = frame([run], [printed])
        (row,) = table.to_dict("records")
        assert row["metric"] == "BLEU-4"
        assert row["ours"] == pytest.approx(100 * facts.corpus_score_interval(run, ALL).mean)
        assert row["ours.low"] < row["ours"] < row["ours.high"]
        assert row["verdict"].split(" (")[0] in ("equivalent", "differs", "undecided")
        names = {v.rules[0].dataset for v in load() if v.metric.corpus}
        assert names == {"narrativeqa", "qasper", "musique", "hotpotqa"}
        lines = {v.line for v in load() if v.metric.corpus}
        assert len(lines) == 4 * (13 + 5)

    def test_a_run_without_counts_says_how_to_get_them(self, tmp_path):
        run = self.run(tmp_path, texts(2417))
        records = [replace(row, notes={}) for row in run.records]
        (found,) = frame([replace(run, records=records)], [paper_value()]).to_dict("records")
        line = f"metric: the run has no counts for {ALL}; add it with: harness score RUN --scorers {ONE}"
        assert [note for note in found["notes"] if not note.startswith("known")] == [line]
        assert (found["verdict"], np.isnan(found["ours"])) == ("not comparable", True)

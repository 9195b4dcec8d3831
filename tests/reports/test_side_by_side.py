import csv
import io
import json
import time
from dataclasses import replace

import numpy as np
import pytest

from harness.errors import UserError
from harness.storage.run_folder import read_run
from reports.columns import sections
from reports.compare import compare, side_by_side
from reports.main_table import best_first, frame, table_rows
from tests.reports.build import BASE, OURS, SCORE, config, parsed, record, stored, write_run


def three(root):
    other = stored(root, [0.0, *BASE[1:]], method="bm25", hash8="99990000")
    return [stored(root, BASE, method="full-context"), stored(root, OURS), other]


class TestText:
    def test_means_best_first_then_differences(self, tmp_path):
        lines = side_by_side(three(tmp_path)).render("text").splitlines()
        assert lines[0] == "musique · tiny"
        assert lines[1].split()[:4] == ["method", SCORE, "tokens", "tflops.search"]
        assert [line.split()[0] for line in lines[2:5]] == ["pecan", "full-context", "bm25"]
        at = lines.index(f"musique: {SCORE} minus that of full-context, on the same questions")
        assert lines[at + 1].split() == [
            "method", "n", "documents", "mean", "reference", "mean", "difference", "p", "p_holm", "notes",
        ]  # fmt: skip
        assert [line.split()[0] for line in lines[at + 2 : at + 4]] == ["pecan", "bm25"]

    def test_no_line_is_wider_than_a_terminal(self, tmp_path):
        rows = [
            record(i, s, scores={SCORE: s, **{f"other.score{k}": s for k in range(9)}})
            for i, s in enumerate(OURS)
        ]
        runs = [
            read_run(write_run(tmp_path, rows, method=m))
            for m in ("full-context", "pecan-without-attention")
        ]
        assert max(len(line) for line in side_by_side(runs).render("text").splitlines()) <= 160
        assert "other.score8" in side_by_side(runs).render("text", columns=[])

    def test_a_note_of_a_run_stands_below_the_means_only(self, tmp_path):
        runs = [stored(tmp_path, BASE, method="full-context"), stored(tmp_path, [None, *OURS[1:]])]
        assert side_by_side(runs).render("text").count("1 of 8 questions failed") == 1

    def test_another_method_needs_no_note_an_ablation_names_its_keys(self, tmp_path):
        ablation = {
            "name": "pecan-k9",
            "implementation": "methods.pecan:M",
            "view": "document",
            "params": {"k": 9},
        }
        runs = [
            stored(
                tmp_path,
                BASE,
                settings={"method": {**ablation, "name": "pecan", "params": {"k": 5}}},
            ),
            stored(tmp_path, OURS, method="pecan-k9", settings={"method": ablation}),
            stored(tmp_path, OURS, method="bm25"),
        ]
        text = side_by_side(runs).render("text")
        assert "pecan-k9 differs from pecan in method.params.k: 9, reference 5\n" in text
        assert "bm25 differs" not in text  # its name says so

    @pytest.mark.parametrize("form", ["text", "markdown", "latex"])
    def test_two_data_sets_are_two_pairs_of_tables(self, tmp_path, form):
        runs = three(tmp_path) + [
            stored(tmp_path, OURS, dataset="qasper", method=m) for m in ("bm25", "full-context")
        ]
        text = side_by_side(runs).render(form).replace("\\", "")
        for title in (
            "musique · tiny",
            "qasper · tiny",
            "qasper: longbench.qa_f1 minus that of full-context",
        ):
            assert title.replace(" · ", ", " if form == "latex" else " · ") in text
        assert "Holm over 3 comparisons" in text

    def test_a_title_cannot_leave_its_line(self, tmp_path):
        settings = {"dataset": {"name": "mu\n\\input{x}<b>", "format": "f", "scorers": [SCORE]}}
        runs = [stored(tmp_path, OURS, settings=settings)]
        text = side_by_side(runs).render("latex")
        assert r"\caption{mu \textbackslash{}input\{x\}\textless{}b\textgreater{}, tiny.}" in text
        assert r"\label{tab:mu-input-x-b-tiny}" in text
        assert (
            side_by_side(runs)
            .render("markdown")
            .startswith("### mu \\\\input{x}&lt;b&gt; · tiny\n")
        )


class TestMachineFormats:
    def test_csv_has_one_row_a_run_with_its_difference(self, tmp_path):
        found = side_by_side(three(tmp_path))
        rows = {row["method"]: row for row in csv.DictReader(io.StringIO(found.render("csv")))}
        expected = compare(three(tmp_path / "b")).set_index("method")
        assert list(rows) == ["pecan", "full-context", "bm25"]
        assert rows["full-context"]["difference"] == ""
        for name in ("pecan", "bm25"):
            for column in ("difference", "p", "p_holm"):
                assert float(rows[name][column]) == expected.loc[name, column]
            for column in ("difference.low", "detectable"):
                assert rows[name][column] == "", "four documents"
        assert "method.implementation" in rows["bm25"]["changed"]

    def test_json_is_the_same_table_of_the_columns_that_are_chosen(self, tmp_path):
        found = side_by_side(three(tmp_path))
        rows = json.loads(found.render("json"))
        assert [(r["method"], r["paired.n"]) for r in rows] == [
            ("pecan", 8),
            ("full-context", None),
            ("bm25", 8),
        ]
        rows = json.loads(found.render("json", columns=["difference", "ratio"]))
        assert list(rows[0])[:3] == ["dataset", "method", "model"]
        assert {"difference", "difference.low", "ratio"} <= set(rows[0])
        assert not {SCORE, "p"} & set(rows[0])

    def test_folders_that_are_called_alike_keep_their_differences_in_csv(self, tmp_path, command):
        dataset = {"name": "mine", "format": "folder", "scorers": [SCORE]}
        for method, rows in (("full-context", "a"), ("pecan", "b")):
            records = [record(i, score) for i, score in enumerate(OURS)]
            manifest = {"dataset": {"fingerprint": rows * 64}}
            settings = {"dataset": dataset}
            write_run(tmp_path, records, method=method, manifest=manifest, settings=settings)
        code, out, err = command("compare", str(tmp_path), "--force", "--format", "json")
        assert code == 0, err
        found = {row["method"]: row["difference"] for row in json.loads(out)}
        assert found == {"full-context": None, "pecan": 0.0}


class TestWhatIsCompared:
    def test_reference_is_that_of_the_ratio_too(self, tmp_path):
        found = side_by_side(three(tmp_path), reference="99990000")
        assert {pair.pair.base_label for pair in found.pairs} == {"bm25"}
        assert [row.ratio.value for row in found.rows] == [1.0, 1.0, 1.0]

    def test_a_single_run_has_means_only(self, tmp_path):
        run = stored(tmp_path, OURS)
        assert side_by_side([run]).pairs is None
        assert "minus" not in side_by_side([run]).render("text")

    def test_a_search_that_answers_itself_has_the_readers_identity(self, tmp_path):
        rows = [record(i, s) for i, s in enumerate(OURS)]
        for row in rows:
            row["usage"]["answer"] = {**row["usage"]["answer"], "roles": {"searcher": 1.0}}
        same = {"searcher": {"weights": "tiny"}, "builder": {"weights": "other"}}
        base = stored(tmp_path, BASE, method="full-context")
        ours = read_run(write_run(tmp_path, rows, manifest={"models": same}))
        assert side_by_side([base, ours]).pairs
        other = {"searcher": {"weights": "other"}, "reader": {"weights": "tiny"}}
        with pytest.raises(UserError, match="different readers"):
            side_by_side(
                [base, read_run(write_run(tmp_path / "b", rows, manifest={"models": other}))]
            )

    # full-context, the reference by default, was refused: "choose one with --reference".
    @pytest.mark.parametrize("method", ["bm25", "full-context"])
    def test_a_run_made_in_two_folders_is_compared_as_a_reproduction(
        self, tmp_path, command, method
    ):
        for place, changed in (("a", "Mira"), ("b", "Mira"), ("c", "Tom")):
            records = [record(i, score, prediction="Mira") for i, score in enumerate(OURS)]
            records[0]["prediction"] = changed
            write_run(tmp_path / place, records, method=method)
        code, out, err = command("compare", str(tmp_path / "a"), str(tmp_path / "b"))
        assert (code, err) == (0, "")
        assert "the same run made twice: 8 of 8 answers are alike" in " ".join(out.split())
        code, out, _ = command("compare", str(tmp_path / "a"), str(tmp_path / "c"))
        assert "the same run made twice: 7 of 8 answers are alike" in " ".join(out.split())

    def test_equal_answers_that_took_other_tokens_are_named(self, tmp_path, command):
        for place, changes in (("b", {}), ("c", {"temperature": 0.7})):
            records = [record(i, score, prediction="Mira") for i, score in enumerate(OURS)]
            settings = config("musique", "pecan", "tiny", {})
            settings["model"] = settings["model"] | changes
            write_run(tmp_path / place / "1", records, settings=settings)
            records[0]["usage"]["answer"]["tokens_in"] = 50
            write_run(tmp_path / place / "2", records, settings=settings)
        for verb in ("compare", "report"):
            _, out, _ = command(verb, str(tmp_path / "b"))
            alike = "the same run made twice: 8 of 8 answers are alike"
            assert f"{alike}, but tokens of 1 of 8 questions differ" in " ".join(out.split())
            _, out, _ = command(verb, str(tmp_path / "c"))
            assert (alike in " ".join(out.split()), "but tokens" in out) == (True, False)

    def test_eight_thousand_records_in_seconds(self, tmp_path):
        def run(method, seed):
            scores = np.random.default_rng(seed).uniform(size=4_000)
            folder = write_run(tmp_path, [record(0, 0.0)], method=method)
            return replace(
                read_run(folder),
                records=[parsed(record(i, float(s))) for i, s in enumerate(scores)],
            )

        runs = [run(m, i) for i, m in enumerate(("full-context", "a"))]
        begun = time.process_time()
        assert len(side_by_side(runs).render("text").splitlines()) > 8
        assert time.process_time() - begun < 8  # 1 s; what grows with the square takes minutes


class TestViews:
    def test_order_is_by_each_data_sets_own_headline(self, tmp_path):
        other = {"dataset": {"name": "qasper", "scorers": ["em"]}}
        low, high = (
            read_run(
                write_run(tmp_path, [record(0, 1 - v, scores={"em": v})], method=m, settings=other)
            )
            for m, v in (("a", 0.2), ("b", 0.7))
        )
        rows = best_first(table_rows([low, high, *three(tmp_path)]))
        assert [row.label for row in rows] == ["pecan", "full-context", "bm25", "b", "a"]
        rows = best_first(table_rows([high, low]), "em")
        assert [row.label for row in rows] == ["b", "a"]

    def test_a_model_that_varies_is_a_column(self, tmp_path):
        runs = [stored(tmp_path, OURS), stored(tmp_path, BASE, model="big")]
        (section,) = sections(frame(runs))
        assert section.title == "musique"
        assert list(section.frame["model"]) == ["tiny", "big"]

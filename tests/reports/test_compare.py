import numpy as np
import pytest

from harness.errors import UserError
from harness.stats.paired_tests import detectable_difference, paired_test
from harness.storage.run_folder import read_run
from reports.compare import compare, side_by_side
from reports.config_difference import brief_difference, config_difference
from reports.page import page
from reports.table_formats import render
from tests.reports.build import BASE, OURS, SCORE, answered, config, record, stored, write_run


def pair(root, **changes):
    return [stored(root, BASE, method="full-context"), stored(root, OURS, **changes)]


class TestNumbers:
    def test_row_is_the_paired_test_on_the_common_questions(self, tmp_path):
        row = compare(pair(tmp_path)).iloc[0]
        clusters = [f"d{i // 2}" for i in range(8)]
        test = paired_test(OURS, BASE, clusters)
        assert (row["difference"], row["p"], row["n"], row["documents"]) == (
            test.difference,
            test.p,
            8,
            4,
        )
        assert test.low is None, "four documents"
        assert np.isnan(row["difference.low"])
        assert np.isnan(row["detectable"])
        assert detectable_difference(np.subtract(OURS, BASE), clusters) is None
        assert row["mean"] - row["reference mean"] == pytest.approx(row["difference"])
        assert (row["method"], row["reference"], row["score"]) == ("pecan", "full-context", SCORE)

    def test_holm_over_methods_and_data_sets(self, tmp_path):
        runs = []
        for dataset in ("musique", "qasper"):
            runs.append(stored(tmp_path, BASE * 3, method="full-context", dataset=dataset))
            runs += [
                stored(tmp_path, (OURS[i:] + OURS[:i]) * 3, method=f"m{i}", dataset=dataset)
                for i in (0, 1, 2)
            ]
        table = compare(runs)
        assert len(table) == 6
        assert table["p_holm"].min() == pytest.approx(min(1.0, 6 * table["p"].min()))
        assert (table["p_holm"] >= table["p"]).all()
        assert table["detectable"][0] > compare(runs[:2])["detectable"][0], (
            "of six tests each one finds less"
        )

    def test_failed_questions_count_zero_in_the_pairs(self, tmp_path):
        runs = [stored(tmp_path, BASE, method="full-context"), stored(tmp_path, [None, *OURS[1:]])]
        row = compare(runs).iloc[0]
        assert (row["n"], row["mean"]) == (8, pytest.approx(sum(OURS[1:]) / 8))
        assert any("pecan: 1 of 8 questions failed" in note for note in row["notes"])
        both = 100 * (sum(OURS[1:]) - sum(BASE[1:])) / 7
        assert (
            row["notes"][-1]
            == f"pecan minus full-context: +{both:.1f} over the 7 of 8 questions that both answered"
        )

    def test_skipped_questions_are_left_out_of_both(self, tmp_path):
        skip = {"settings": {"failed": "skip"}}
        base = stored(tmp_path, BASE, method="full-context", **skip)
        row = compare([base, stored(tmp_path, [None, *OURS[1:]], **skip)]).iloc[0]
        assert (row["n"], row["reference mean"]) == (7, pytest.approx(sum(BASE[1:]) / 7))


class TestReference:
    def test_full_context_then_the_first(self, tmp_path):
        runs = [stored(tmp_path, OURS, method=m) for m in ("bm25", "pecan")]
        assert set(compare(runs)["reference"]) == {"bm25"}
        runs.append(stored(tmp_path, BASE, method="full-context"))
        assert set(compare(runs)["reference"]) == {"full-context"}

    @pytest.mark.parametrize("name", ["pecan", "pecan--tiny--0123abcd", "0123abcd"])
    def test_by_name_folder_or_hash(self, tmp_path, name):
        runs = [
            stored(tmp_path, BASE, method="full-context", hash8="99990000"),
            stored(tmp_path, OURS),
        ]
        assert list(compare(runs, reference=name)["method"]) == ["full-context"]

    def test_none_or_several_are_refused(self, tmp_path):
        two = pair(tmp_path)
        others = [stored(tmp_path, OURS, dataset="qasper", method=m) for m in ("a", "b")]
        for runs, sentence in (
            (two[:1], "at least two runs of one data set"),
            ([*two, *others], "qasper has no run of the reference 'pecan'"),
            (
                [*two, stored(tmp_path, OURS, hash8="9")],
                r"2 runs of 'pecan'.*pecan--tiny--0123abcd.*pecan--tiny--9",
            ),
        ):
            with pytest.raises(UserError, match=sentence):
                compare(runs, reference="pecan" if len(runs) > 1 else None)


def asked(**changes):
    """A run whose data set was asked with other settings."""
    dataset = {"name": "musique", "format": "musique", "scorers": [SCORE], **changes}
    return {"settings": {"dataset": dataset}}


MISMATCHES = [
    (
        {"manifest": {"dataset": {"fingerprint": "e" * 64}}},
        r"different data \(fingerprints eeeeeeeeeeee and ffff",
    ),
    (
        {"manifest": {"models": {"reader": {"weights": "other"}}}},
        r"different readers \(both named tiny: models.reader.weights\)",
    ),
    (
        {"manifest": {"scorers": {SCORE: "2"}}},
        rf"different versions of {SCORE} \(2 and 1\).*harness score",
    ),
    (
        asked(instruction="Think aloud."),
        r"asked differently \(dataset.instruction: 'Think aloud.' and not set\)",
    ),
    (asked(answer_prefix="So:"), r"asked differently \(dataset.answer_prefix: 'So:' and not set\)"),
    (asked(max_answer_tokens=2), r"asked differently \(dataset.max_answer_tokens: 2 and not set\)"),
    (
        {"settings": {"model": {"name": "tiny", "backend": "hf", "top_p": 0.7}}},
        r"answered differently \(model.top_p: 0.7",
    ),
    ({"settings": {"seed": 9}}, r"different seeds \(9 and 0\)"),
    (
        {"settings": {"failed": "skip"}},
        r"treat failed questions differently \(failed: skip and zero\)",
    ),
]


class TestRefusal:
    @pytest.mark.parametrize(("changes", "sentence"), MISMATCHES)
    def test_names_what_differs_and_force_says_so(self, tmp_path, changes, sentence):
        runs = pair(tmp_path, **changes)
        with pytest.raises(UserError, match=sentence):
            compare(runs)
        text = render(compare(runs, force=True), "text")
        assert "compared all the same: musique: pecan and full-context" in text

    def test_no_question_in_common_cannot_be_forced(self, tmp_path):
        other = read_run(write_run(tmp_path, [record(i, 0.5) for i in range(100, 104)]))
        with pytest.raises(UserError, match="no scored question in common"):
            compare([stored(tmp_path, BASE, method="full-context"), other], force=True)

    def test_all_reasons_at_once(self, tmp_path):
        manifest = {
            "dataset": {"fingerprint": "e" * 64},
            "models": {"reader": {"weights": "other"}},
        }
        with pytest.raises(UserError, match=r"(?s)(\n  - [^\n]*){2}\n[^-]*--force"):
            compare(pair(tmp_path, manifest=manifest))


class TestConfig:
    def test_only_the_keys_that_differ_and_no_limit(self, tmp_path):
        method = {
            "name": "pecan",
            "implementation": "methods.pecan:M",
            "view": "document",
            "params": {"k": 9},
        }
        base = stored(tmp_path, BASE)
        other = stored(tmp_path / "a", OURS, settings={"method": method})
        ours = stored(
            tmp_path / "b", BASE, settings={"limit": 3, "sample": 8, "encoder": {"name": "minilm"}}
        )
        assert config_difference(other, base) == ["method.params.k: 9, reference 5"]
        found = ["encoder.name: 'minilm', reference not set", "sample: 8, reference not set"]
        assert config_difference(ours, base) == found
        assert config_difference(base, ours)[0] == "encoder.name: not set, reference 'minilm'"

    def test_an_encoder_that_only_one_of_two_methods_has_is_left_out_in_short(self, tmp_path):
        encoder = {
            "encoder": {"name": "minilm", "source": "m", "pooling": "mean"},
            "model": {"name": "large"},
        }
        ours = stored(tmp_path / "a", OURS, method="sbert", settings=encoder)
        lines = brief_difference(ours, stored(tmp_path, BASE, method="full-context"))
        assert {line.partition(".")[0] for line in lines} == {"model"}


def test_where_rows_lie_and_what_runs_on_is_no_difference_of_two_runs(tmp_path):
    def settings(place, **more):
        dataset = {
            "name": "musique",
            "format": "musique",
            "scorers": [SCORE],
            "data": f"/home/{place}/dev.jsonl",
        }
        where = {"device": place, "device_map": place, "source": f"{tmp_path}/m"}
        model = {"name": "tiny", "backend": "hf", "embedded": False, **where}
        roles = {"builder": {"name": "b", **where}}
        encoder = {"name": "e", "device": place, "batch_size": len(place), "max_length": 9}
        return {
            "dataset": dataset,
            "model": model,
            "roles": roles,
            "encoder": encoder,
            "reranker": encoder,
        } | more

    base = stored(tmp_path, BASE, method="bm25", settings=settings("alice"))
    ours = stored(
        tmp_path, OURS, method="bm25", hash8="11111111", settings=settings("bobby", limit=3)
    )
    assert config_difference(ours, base) == []
    for text in (
        side_by_side([base, ours], reference=base.path.name).render("text"),
        page([base, ours]),
    ):
        assert "/home/alice" not in text
        assert "/home/bobby" not in text
    other = settings("bobby", encoder={"name": "e", "max_length": 8})
    other["model"] = {**other["model"], "dtype": "float16"}
    found = config_difference(
        stored(tmp_path, OURS, method="bm25", hash8="22222222", settings=other), base
    )
    assert sorted(line.partition(":")[0] for line in found) == ["encoder.max_length", "model.dtype"]


def test_a_place_in_the_home_folder_is_told_without_it(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", "/home/ann")
    model = {"name": "tiny", "backend": "hf", "embedded": False}
    base = stored(tmp_path, BASE, method="bm25", settings={"model": model})
    there = stored(
        tmp_path,
        OURS,
        method="bm25",
        hash8="1",
        settings={"model": {**model, "source": "/home/ann/m"}},
    )
    assert config_difference(there, base) == ["model.source: '~/m', reference not set"]


@pytest.mark.parametrize(("prediction", "odd"), [("Mira", False), ("Tom", True)])
def test_edited_scores_are_refused(tmp_path, prediction, odd):
    name = "musique.answer_f1"
    rows = [
        answered(i, None, ["Mira"], scores={name: 1.0}, error=None, prediction="Mira")
        for i in range(4)
    ]
    data = {
        "dataset": {
            **config("musique", "bm25", "tiny", {})["dataset"],
            "instruction": "",
            "scorers": [name],
        }
    }
    data["dataset"]["max_answer_tokens"] = 9
    base = read_run(write_run(tmp_path, rows, method="full-context", settings=data))
    run = read_run(
        write_run(tmp_path, [{**rows[0], "prediction": prediction}, *rows[1:]], settings=data)
    )
    if odd:
        with pytest.raises(
            UserError, match=f"musique: pecan: 1 of 4 scores {name} are not those of the stored"
        ):
            compare([base, run])
    else:
        assert not any("not checked" in note for note in compare([base, run])["notes"][0])

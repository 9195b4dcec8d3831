"""Runs fabricated on the official rows, dishonest and honest ones, judged as the tables and
certificates judge them.

A dishonest run must have a reason against its verdict, an honest one none. Kinds of runs whose
sentence is tested are in test_paper.py, test_paper_settings.py and test_paper_public_releases.py.
"""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from bench import fabricated_values as bench
from harness import scorers
from harness.config.layers import Choices
from harness.config.yaml_tree import dataset_of_run
from harness.engine.manifest import describe
from harness.engine.plan import plan_choices
from harness.engine.scoring import score_record
from harness.storage.added_texts import with_dataset_texts
from harness.storage.record_texts import gold_of
from harness.storage.records import IndexLine, StoredRecord
from harness.storage.run_folder import read_run
from reports.gold_rows import dataset_inconsistencies
from reports.paper.comparable import differences
from reports.paper.printed import load
from reports.paper.verdicts import frame
from reports.rescored import rescore
from reports.run_notes import run_notes
from reports.settings import notes_on_seeds
from tests.llm.conftest import SIZES, WORDS
from tests.random_model import save
from tests.reports.build import record, write_run
from tests.reports.paper_runs import changed_config, changed_manifest, paper_run
from tests.reports.test_paper_public_releases import official

COMMIT = "0123456789abcdef0123456789abcdef01234567"
LOST = {"error": {"type": "T", "message": ""}, "usage": {}}


def value(preset="bm25", label="F1"):
    return next(
        v
        for v in load()
        if v.entry.preset == preset and v.rules[0].dataset == "musique" and v.label == label
    )


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return {
        preset: paper_run(folder / preset, preset, "musique", official())
        for preset in ("bm25", "sbert")
    }


def fabricated(run, config=None, manifest=None, failed=0):
    """A copy with changes at dotted paths, whose first questions failed."""
    rows = [replace(row, **LOST) for row in run.records[:failed]] + run.records[failed:]
    return replace(
        run,
        config=changed_config(run.config, config or {}),
        manifest=changed_manifest(run.manifest, manifest or {}),
        records=rows,
    )


def local(source):
    """The changes of a run with weights and rows of this machine."""
    weights = {"models.reader.weights": {"files": "ab" * 32}, "dataset": {"fingerprint": "f"}}
    return {"model.source": source}, weights


def behind_a_server(source):
    return {"model.backend": "endpoint", "model.source": source}, {}


LLAMA = "Llama-3.1-8B-Instruct"
MARKED = [  # changes of an honest run, and a mark beside its verdict
    (
        ({}, {"models.reader.dtype": "float16"}),
        "model: the reader's dtype is float16, the paper's is bfloat16",
    ),
    (
        ({}, {"models.reader.dtype": "float32"}),
        "model: the reader's dtype is float32, the paper's is bfloat16",
    ),
    (
        ({"model.attention": "eager"},),
        "model: the reader's attention is eager, the paper's is sdpa",
    ),
    (
        ({"model.revision": COMMIT},),
        f"reader: revision {COMMIT} was chosen, which one the paper had is not known",
    ),
    (({}, {}, 48), "48 of 2417 questions failed (scored 0)"),
    (({"seed": 3}, {}), "seed 3 was chosen: whether other seeds were tried is not known"),
    (
        ({}, {"git": {"commit": "c", "dirty": True}}),
        "the run's code had changes that no commit holds",
    ),
    ((), ""),  # as the README says
    (({"model.dtype": "auto"}, {"models.reader.dtype": "bfloat16"}), ""),
    (local(f"/home/u/.cache/huggingface/hub/models--meta-llama--{LLAMA}/snapshots/0.1"), ""),
    *((local(f"/models/{name}"), "") for name in ("llama", LLAMA, "x/8b")),
    (({"model.window": None}, {"models.reader.window": 131072 + 9}), ""),
    (({"dataset.revision": COMMIT, "dataset.hub": "dgslibisey/MuSiQue"},), ""),
    (behind_a_server(f"meta-llama/{LLAMA}"), ""),
    (behind_a_server(LLAMA.lower()), ""),
]
REASONS = [  # changes, and the beginning of the one reason against a verdict
    (
        behind_a_server(f"me/{LLAMA}"),
        f"model: the reader is me/{LLAMA}, the paper's is meta-llama/",
    ),
    (({"model.thinking": {"tokens": 9}},), "model: the reader's thinking is"),
    (({"model.trust_remote_code": True},), "model: the reader's trust_remote_code is true"),
    (({"model.temperature": 0.7},), "model: the reader's temperature is 0.7, the paper's is 0.0"),
    (({"model.max_tokens": 5},), "model: the reader's max_tokens is 5, the paper's is not set"),
    (
        ({"sample": 2400, "sample_seed": 7},),
        "sample: about 2400 questions drawn with seed 7, the paper has all",
    ),
]


@pytest.mark.parametrize(("changes", "mark"), MARKED)
def test_an_honest_run_has_a_mark_beside_its_verdict(honest, changes, mark):
    run = fabricated(honest["bm25"], *changes)
    found = differences(value(), run)
    assert (found.reasons, mark in ("", *found.remarks, *run_notes(run))) == ([], True)


@pytest.mark.parametrize(("changes", "reason"), REASONS)
def test_another_model_or_sample_has_no_verdict(honest, changes, reason):
    (found,) = differences(value(), fabricated(honest["bm25"], *changes)).reasons
    assert found.startswith(reason)


@pytest.mark.parametrize(
    ("config", "unchecked"),
    [
        (behind_a_server(LLAMA)[0], ["weights", "precision", "chat template"]),
        ({"dataset.options": {"documents": "retrieved.json"}}, ["weights", "retrieved documents"]),
    ],
)
def test_what_a_server_runs_and_what_was_retrieved_is_not_checked(honest, config, unchecked):
    assert differences(value(), fabricated(honest["bm25"], config)).unchecked == unchecked


REFUSED = {
    "other weights": False,
    "template: system": True,
    "template: behind the prompt": True,
    "template: not recorded": False,
    "other code": False,
    "packages": False,
    "gold edited": False,
    "corrected gold": True,
    "wrong answers without a score": True,
    "server with extra": False,
    "replies of another run": False,
    "not finished": True,
}


def test_a_fabricated_run_that_stands_alone_is_not_certified(tmp_path):
    run = bench.honest_run(tmp_path, value())
    plain, score = frame([run], [value()]).iloc[0], str(value().metric.score)
    made = {kind: bench.fabricated(kind, run, score, random.Random(5)) for kind in REFUSED}
    found = {kind: bench.judged(kind, one, [], plain, value()) for kind, one in made.items()}
    assert found == {kind: (refused, False, False) for kind, refused in REFUSED.items()}


def test_gold_answers_are_compared_with_a_bundled_data_set(tmp_path):
    plan = plan_choices(Choices(method="bm25", dataset="pocket/musique", limit=3))
    names = [
        {"question_id": e.question.id, "document_ids": [*e.question.document_ids]}
        for e in plan.dataset.examples
    ]
    each = zip(names, plan.dataset.examples, strict=True)
    rows = [
        with_dataset_texts(
            StoredRecord.from_json(record(0, 1.0, **own)), example, plan.dataset.documents
        )[0]
        for own, example in each
    ]
    parts = {
        "settings": plan.config.model_dump(mode="json"),
        "manifest": {"dataset": {"fingerprint": plan.dataset.fingerprint}},
    }
    run = read_run(write_run(tmp_path, rows, dataset="pocket/musique", **parts))
    assert dataset_inconsistencies(run) == []
    rows[0] = replace(rows[0], gold={**rows[0].gold, "answers": ["Tom"]})
    rows[1] = replace(rows[1], question="Is it Tom?")
    (sentence,) = dataset_inconsistencies(replace(run, records=rows))
    assert sentence.startswith("2 of ")
    made_otherwise = {"dataset": {"fingerprint": "0" * 64}}
    assert dataset_inconsistencies(fabricated(run, {}, made_otherwise)) is None
    (impossible,) = dataset_inconsistencies(fabricated(run, {"dataset.data": "mine.jsonl"}))
    assert "'pocket/musique' is made up, not read" in impossible
    of_a_file = {"dataset.data": "mine.jsonl", "dataset.format": "musique"}
    assert dataset_inconsistencies(fabricated(run, of_a_file)) is None


def test_a_small_llama_that_is_really_loaded_is_not_the_papers(honest, tmp_path):
    folder = tmp_path / "Llama-3.1-8B-Instruct"
    save(folder, [WORDS * 3], seed=1, **{**SIZES, "hidden_size": 32, "num_hidden_layers": 1})
    sets = {"model.dtype": "bfloat16", "model.window": 1024, "dataset.tokens": 300}
    plan = plan_choices(
        Choices(method="bm25", dataset="pocket/musique", model=str(folder), limit=1, sets=sets)
    )
    description = describe(plan)
    manifest = {"models": description.models, "shapes": description.shapes}
    found = differences(
        value(), fabricated(honest["bm25"], {"model.source": str(folder)}, manifest)
    )
    assert any("other sizes than Llama-3.1-8B-Instruct" in reason for reason in found.reasons), (
        found.reasons
    )


MPNET = "multi-qa-mpnet-base-cos-v1"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (f"sentence-transformers/{MPNET}", []),
        (f"/models/{MPNET}", []),
        ("/models/all-MiniLM-L6-v2", ["model: the encoder has other sizes than"]),
        (f"me/{MPNET}", [f"encoder: me/{MPNET}, the paper's is sentence-transformers/"]),
    ],
)
def test_an_encoder_is_known_by_its_whole_id_and_its_sizes(honest, source, expected):
    sizes = {"shapes.encoder": {"layers": 6, "width": 384}} if "MiniLM" in source else {}
    found = differences(
        value("sbert"), fabricated(honest["sbert"], {"encoder.source": source}, sizes)
    ).reasons
    assert [reason.startswith(begins) for reason, begins in zip(found, expected, strict=True)] == [
        True
    ] * len(expected)


def test_costs_that_were_counted_otherwise_have_no_verdict(honest):
    printed = value(label="TFLOPs")
    assert differences(printed, honest["bm25"]).reasons == []
    asked = replace(
        printed, metric=printed.metric.model_copy(update={"requested_convention": "executed"})
    )
    assert differences(asked, honest["bm25"]).reasons
    assert differences(printed, fabricated(honest["bm25"], failed=2017)).reasons


def test_what_a_construction_cost_over_few_documents_has_no_verdict(tmp_path):
    run = paper_run(tmp_path, "pecan", "musique", official())
    own = [v for v in load() if v.entry.preset == "pecan" and v.rules[0].dataset == "musique"]
    printed = next(v for v in own if v.entry.per_document)
    for count, reasons in ((2417, []), (3, ["run: the cost of 3 of 2417 indexes is known"])):
        run.index_lines[:] = [IndexLine(f"d{i}", None, "built", {}) for i in range(count)]
        assert differences(printed, run).reasons == reasons


GOLD = {"answers": ["Mira"], "supporting": [], "extra": {}}
NAME = "musique.answer_f1"


@pytest.mark.parametrize(
    ("first", "sentence", "whole"),
    [
        ({}, None, True),
        ({"prediction": "Tom"}, f"1 of 2 scores {NAME} are not those of the stored answers", True),
        ({"gold": None}, None, False),
        (
            {"gold": {"answers": 1}},
            f"{NAME} cannot score the stored answer of '2hop__0_0' again: ",
            False,
        ),
    ],
)
def test_scores_are_computed_again_from_the_stored_answers(honest, first, sentence, whole):
    rows = [
        replace(row, gold=GOLD, prediction="Mira", scores={NAME: 1.0})
        for row in honest["bm25"].records[:2]
    ]
    problem, checked = rescore(
        replace(honest["bm25"], records=[replace(rows[0], **first), rows[1]]), NAME
    )
    assert (problem is None, checked) == (sentence is None, whole)
    assert sentence is None or problem.startswith(sentence)


@pytest.mark.parametrize(("counts", "edited"), [([1, 2], True), (None, False)])
def test_counts_of_a_score_of_the_corpus_are_computed_again(honest, counts, edited):
    own = {"gold": GOLD, "prediction": "Mira", "scores": {"bleu.corpus": 1.0}, "notes": {}}
    name = next(name for name in scorers.names() if scorers.lookup(name).counts)
    config = dataset_of_run(honest["bm25"].config, "r").model_copy(update={"scorers": (name,)})
    row = replace(honest["bm25"].records[0], **own)
    row = score_record(row, config, gold_of(row))
    if counts:
        row = replace(row, notes={**row.notes, "counts": {name: counts}})
    assert (rescore(replace(honest["bm25"], records=[row]), name)[0] is not None) == edited


@pytest.fixture
def few(honest):
    """The run's first questions: notes need no more, and intervals of 2,417 take their time."""
    return replace(honest["bm25"], records=honest["bm25"].records[:60])


def test_runs_that_differ_in_the_seed_alone_are_told(few, honest):
    runs = [replace(fabricated(few, {"seed": n}), path=Path(f"r--{n}")) for n in range(3)]
    note = "one of 3 runs that differ only in the seed (0, 1, 2): report all of them, not the best"
    assert frame(runs, [value()])["notes"].map(lambda notes: note in notes).tolist() == [True] * 3
    assert notes_on_seeds([runs[0], honest["sbert"]]) == [None, None]


@pytest.mark.parametrize(
    ("manifest", "note"),
    [
        ({"git": {"commit": "d" * 40, "dirty": False}}, "commit ddddddd (most runs: c0ffee)"),
        ({"packages": {"longdoc-harness": "0.1.1"}}, "longdoc-harness 0.1.1 (most runs: 0.1.0)"),
        (
            {"models.reader.weights": {"hub": f"meta-llama/{LLAMA}", "commit": COMMIT}},
            f"weights of {LLAMA}",
        ),
        (
            {"dataset": {"revision": "0" * 40, "fingerprint": "e" * 64}},
            "other rows of the data set",
        ),
    ],
)
def test_another_version_than_most_runs_is_told_beside_the_verdict(few, manifest, note):
    runs = [replace(few, path=Path(f"r--{n}")) for n in range(2)]
    runs.append(replace(fabricated(few, {}, manifest), path=Path("r--9")))
    notes = frame(runs, [value()])["notes"].map(" ".join)
    assert [note in one for one in notes] == [False, False, True]


def test_edited_gold_answers_are_told_beside_the_verdict(few):
    rows = [replace(row, gold=GOLD) for row in few.records]
    runs = [replace(few, path=Path(f"r--{n}"), records=rows) for n in range(2)]
    edited = [replace(rows[0], gold={**GOLD, "answers": ["Tom"]}), *rows[1:]]
    runs.append(replace(runs[0], path=Path("r--9"), records=edited))
    notes = frame(runs, [value()])["notes"].map(" ".join)
    assert ["other gold answers of 1 questions" in one for one in notes] == [
        False,
        False,
        True,
    ]

"""Files of other tools, made up in their forms, as run folders: `harness import`."""

import io
import json
import struct
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from harness_audit import import_runs, requests
from harness_audit.foreign_tools import read_foreign
from harness_audit.import_runs import QuestionsOf, prepare_import, write_all

from harness.errors import DataError
from harness.storage.run_folder import StoredRun, find_runs, read_run
from harness.storage.run_summary import summarise
from reports.compare import compare
from reports.frames import records_frame
from reports.main_table import frame
from reports.paper.matching import matches
from reports.paper.printed import load
from reports.run_notes import run_notes

Command = Callable[..., tuple[int, str, str]]
QUESTIONS = [
    "Who built the mill?",
    "Where is Oxmoor?",
    "When did Ann leave?",
    "Is Bo older than Cy?",
]
GOLD = ["Ada Marsh", "near Thornby", "in 1902", "yes"]
REPLIES = ["Ada Marsh", "Thornby", "1911", "yes"]


def rows(**fields):
    """The four questions; fields: key -> a list with a value for each, or one value for all."""
    return [
        {k: v[n] if isinstance(v, list) else v for k, v in fields.items()}
        for n in range(len(QUESTIONS))
    ]


def lines(path: Path, values) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(value) + "\n" for value in values))
    return path


def dataset(root: Path) -> Path:
    """The questions as rows of HotpotQA."""
    context = [["Mill", ["Ada Marsh built it."]], ["Oxmoor", ["It is near Thornby."]]]
    facts = [["Mill", 0], ["Oxmoor", 0]]
    made = rows(question=QUESTIONS, answer=GOLD, level="hard", _id=["a", "b", "c", "d"])
    kinds = ["bridge", "bridge", "bridge", "comparison"]
    values = [
        {**r, "type": k, "context": context, "supporting_facts": facts}
        for r, k in zip(made, kinds, strict=True)
    ]
    path = root / "dev.json"
    path.write_text(json.dumps(values))
    return path


def sample(number: int, **changes):
    output = {
        "model": "mock-1",
        "choices": [{"message": {"role": "assistant", "content": REPLIES[number]}}],
    }
    f1 = [1.0, 2 / 3, 0.0, 1.0][number]
    return {
        "id": "abcd"[number],
        "epoch": 1,
        "input": [{"role": "user", "content": f"Ada Marsh built it.\n\n{QUESTIONS[number]}"}],
        "target": GOLD[number],
        "output": output,
        "scores": {
            "f1": {"value": f1},
            "match": {"value": "C" if f1 == 1 else "I"},
            "parts": {"value": {"x": 0.5}},
        },
        "metadata": {"source": "left" if number < 2 else "right", "long": "x" * 500},
        "model_usage": {"mock/mock-1": {"input_tokens": 100 + number, "output_tokens": 5}},
        "working_time": 0.25,
    } | changes


def log(samples, **changes):
    # The errors are those of 1, 2/3, 0, 1 and of 1, 1, 0, 1: sqrt(1/4 * sum((x - mean)^2) / 3).
    means = [
        ("f1", "mean", 2 / 3, 0.23570226039551584),
        ("match", "accuracy", 0.75, 0.2499999999999999),
    ]
    scores = [
        {
            "name": name,
            "scorer": name,
            "metrics": {metric: {"value": mean}, "stderr": {"value": error}},
        }
        for name, metric, mean, error in means
    ]
    head = {"model": "mock/mock-1", "task": "mill", "dataset": {"name": "mills", "samples": 4}}
    return {
        "version": 2,
        "status": "success",
        "eval": head | {"packages": {"inspect_ai": "0.3.285"}},
        "plan": {"steps": [{"solver": "generate"}]},
        "results": {"total_samples": 4, "scores": scores},
        "stats": {"started_at": "2026-01-02T03:04:05+00:00"},
        "samples": samples,
    } | changes


def inspect(root: Path, samples=None, **changes) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    path = root / "log.json"
    path.write_text(
        json.dumps(log([sample(n) for n in range(4)] if samples is None else samples, **changes))
    )
    return path


def packed(root: Path, damage: int = 0) -> Path:
    """The log as an .eval file whose members are packed by zstandard, as Inspect writes them;
    damage: of checksums."""
    pyarrow = pytest.importorskip("pyarrow")
    made = log([sample(n) for n in range(4)])
    samples = made.pop("samples")
    files = {"header.json": made} | {f"samples/{s['id']}_epoch_1.json": s for s in samples}
    held, path = io.BytesIO(), root / "log.eval"
    with zipfile.ZipFile(held, "w") as archive:
        for name, value in files.items():
            data = json.dumps(value).encode()
            squeezed = pyarrow.compress(data, codec="zstd", asbytes=True)
            start = held.tell()
            archive.writestr(name, squeezed)
            entry = archive.getinfo(name)
            entry.compress_type, entry.file_size, entry.CRC = (
                93,
                len(data),
                zlib.crc32(data) ^ damage,
            )
            end = held.tell()
            held.seek(start + 8)
            held.write(struct.pack("<H", 93))
            held.seek(end)
    path.write_bytes(held.getvalue())
    return path


def torn(root: Path) -> Path:
    """The log as an .eval file, a part of its deflated header overwritten."""
    path, start = root / "log.eval", 30 + len("header.json")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps(log([sample(0)])))
    data = path.read_bytes()
    path.write_bytes(data[:start] + b"\xff" * 20 + data[start + 20 :])
    return path


def lm_eval(root: Path) -> Path:
    f1 = [1.0, 2 / 3, 0.0, 1.0]
    doc = rows(
        _id=["a", "b", "c", "d"],
        question=QUESTIONS,
        context="x" * 200,
        answers=[[gold] for gold in GOLD],
    )
    asked = [{"gen_args_0": {"arg_0": f"Q: {question}", "arg_1": {}}} for question in QUESTIONS]
    answered = {"arguments": asked, "resps": [[[r]] for r in REPLIES], "filter": "none"}
    scored = {"metrics": [["qa_f1", "bleu"]] * 4, "qa_f1": f1, "bleu": [["x", "y"]] * 4}
    date = "2026-01-02T03-04-05.123456"
    results = {"mills": {"alias": "mills", "qa_f1,none": 0.7, "qa_f1_stderr,none": 0.1}}
    whole = {
        "results": results,
        "n-shot": {"mills": 0},
        "model_name": "mock",
        "lm_eval_version": "0.4.13",
    }
    lines(root / f"results_{date}.json", [whole])
    return lines(
        root / f"samples_mills_{date}.jsonl",
        rows(doc_id=[0, 1, 2, 3], doc=doc, target=GOLD, **answered, **scored),
    )


def flashrag(root: Path) -> Path:
    outputs = [
        {"pred": reply, "metric_score": {"em": float(reply == GOLD[n])}}
        for n, reply in enumerate(REPLIES)
    ]
    golden = [[gold] for gold in GOLD]
    made = rows(
        id=["t0", "t1", "t2", "t3"], question=QUESTIONS, golden_answers=golden, output=outputs
    )
    root.mkdir(parents=True, exist_ok=True)
    (root / "config.yaml").write_text(
        "generator_model: mock\nsave_note: naive\ndataset_name: mills\n"
    )
    (root / "intermediate_data.json").write_text(json.dumps(made))
    return root / "intermediate_data.json"


def jsonl(root: Path, **fields) -> Path:
    made = rows(
        id=["a", "b", "c", "d"],
        question=QUESTIONS,
        answers=[[gold] for gold in GOLD],
        prediction=REPLIES,
    )
    return lines(root / "mine.jsonl", [{**row, **fields} for row in made])


def imported(tool: str, path: Path, root: Path, dataset=None, data=None, own=()) -> StoredRun:
    of = QuestionsOf(dataset, data)
    (run,) = write_all(prepare_import(read_foreign(tool, path), of, own), root, lambda note: None)
    return read_run(run)


# Form -> tool, its file, who made it, model, data set, a score and its mean by the file or by the
# tool's own scorer.
INSPECT = ("inspect_ai 0.3.285", "mock/mock-1", "mills")
FORMS = {
    "inspect": ("inspect", inspect, *INSPECT, "logged.f1", 2 / 3),
    "packed": ("inspect", packed, *INSPECT, "logged.match", 0.5),
    "lm-eval": ("lm-eval", lm_eval, "lm_eval 0.4.13", "mock", "mills", "logged.qa_f1", 2 / 3),
    "flashrag": ("flashrag", flashrag, "FlashRAG", "mock", "mills", "logged.em", 0.5),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_a_file_of_each_tool_becomes_a_run_that_says_who_made_it(form: str, tmp_path: Path) -> None:
    tool, make, made_by, model, name, score, mean = FORMS[form]
    run = imported(tool, make(tmp_path), tmp_path / "results")
    assert len(run.records) == 4
    assert (run.manifest.imported.tool, run.config.model.name) == (made_by, model)
    assert run.config.dataset.name == name
    assert run.summary.scores[score].mean == pytest.approx(mean, abs=1e-12)
    assert all(len(file.sha256) == 64 for file in run.manifest.imported.files)
    row = frame([run]).iloc[0]
    assert row["method"].endswith("[imported]")
    assert any(f"imported from {made_by}" in note for note in run_notes(run))


def test_what_the_tool_printed_stands_beside_what_its_answers_give(
    command: Command, tmp_path: Path
) -> None:
    out = str(tmp_path / "results")
    code, said, _ = command("import", str(inspect(tmp_path)), "--from", "inspect", "--out", out)
    assert code == 0
    assert "logged.f1       0.666667 ± 0.235702  of 4  as printed there" in said
    assert "logged.match    0.5 ± 0.288675       of 4  printed there: 0.75 ± 0.25" in said
    _, said, _ = command("import", str(lm_eval(tmp_path)), "--from", "lm-eval", "--out", out)
    assert "logged.qa_f1  0.666667 ± 0.235702  of 4  printed there: 0.7 ± 0.1" in said


def test_runs_are_not_imported_into_an_address(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, said = command(
        "import", str(inspect(tmp_path)), "--from", "inspect", "--out", "s3://bucket/results"
    )
    assert code == 2
    assert "s3://bucket/results is no folder of this machine" in said
    assert not Path("s3:").exists()


def test_a_cost_that_the_file_does_not_tell_is_not_zero(tmp_path: Path) -> None:
    known = imported("inspect", inspect(tmp_path), tmp_path / "results")
    unknown = imported("flashrag", flashrag(tmp_path / "f"), tmp_path / "results")
    table = frame([known, unknown]).set_index("model")
    assert table.loc["mock/mock-1", "tokens"] == pytest.approx(106.5)
    assert table.loc["mock/mock-1", "seconds"] == 0.25
    names = [
        "tokens.search",
        "tokens.index",
        "tflops",
        "tflops.total",
        "ratio",
        "truncated",
        "texts_cut",
        "declined",
    ]
    assert table[names].isna().all().all()
    assert table.loc["mock", ["tokens", "seconds"]].isna().all()
    assert records_frame(unknown)["tokens"].isna().all()


def test_a_cost_of_some_questions_alone_is_left_out(tmp_path: Path) -> None:
    samples = [sample(0), sample(1), sample(2), sample(3, model_usage={})]
    run = imported("inspect", inspect(tmp_path, samples), tmp_path / "results")
    assert all(
        record.usage["answer"] == {"uncounted": 1, "seconds": 0.25} for record in run.records
    )
    assert "tokens_in is not known of all questions, so it is left out" in run_notes(run)


def test_a_failed_sample_of_a_cancelled_log_scores_0_and_is_no_answer(tmp_path: Path) -> None:
    broken = sample(1, output={"choices": []}, error={"message": "timeout"}, scores=None)
    path = inspect(tmp_path, [sample(0), broken], status="cancelled")
    run = imported("inspect", path, tmp_path / "results")
    assert (run.summary.n_failed, run.records[1].scores["logged.f1"]) == (1, 0.0)
    assert "the run is interrupted, not finished: 2 of 4 questions have no record yet" in run_notes(
        run
    )


NAN = float("nan")


def unscored(number: int, **changes):
    """A sample whose third question has no score, and one score of whose second is none."""
    parts = {"x": NAN if number == 1 else 0.5}
    f1 = NAN if number == 2 else float(number == 0)
    return sample(number, scores={"f1": {"value": f1}, "parts": {"value": parts}}, **changes)


def nan_log(root: Path, printed: float = 1 / 3) -> Path:
    # The mean of 1, 0, 0 and its error sqrt(1/3 * sum((x - mean)^2) / 2), as Inspect 0.3.285 prints
    # them.
    metrics = {"mean": {"value": printed}, "stderr": {"value": printed}}
    scores = [{"name": "f1", "scorer": "f1", "reducer": None, "metrics": metrics}]
    return inspect(
        root, [unscored(n) for n in range(4)], results={"total_samples": 4, "scores": scores}
    )


def nan_samples(root: Path) -> Path:
    path = lm_eval(root)
    made = [json.loads(line) | {"qa_f1": NAN} for line in path.read_text().splitlines()]
    made = [row | ({} if n == 2 else {"qa_f1": float(n == 0)}) for n, row in enumerate(made)]
    results = {"mills": {"alias": "mills", "qa_f1,none": 1 / 3, "qa_f1_stderr,none": "N/A"}}
    lines(
        path.with_name("results_2026-01-02T03-04-05.123456.json"),
        [{"results": results, "n-shot": {"mills": 0}}],
    )
    return lines(path, made)


@pytest.mark.parametrize(
    ("tool", "make", "name", "printed"),
    [
        ("inspect", nan_log, "logged.f1", "0.333333 ± 0.333333  of 3  as printed there"),
        ("inspect", nan_log, "logged.parts.x", "0.5 ± 0              of 3"),
        ("lm-eval", nan_samples, "logged.qa_f1", "0.333333 ± 0.333333  of 3  as printed there"),
        ("inspect", lambda root: nan_log(root, NAN), "logged.f1", "0.333333 ± 0.333333  of 3\n"),
        (
            "inspect",
            lambda root: nan_log(root, 10**400),
            "logged.f1",
            "0.333333 ± 0.333333  of 3\n",
        ),
    ],
)
def test_nan_is_the_mark_of_a_question_that_is_not_scored(
    tool, make, name, printed, command, tmp_path
):
    code, said, _ = command(
        "import", str(make(tmp_path)), "--from", tool, "--out", str(tmp_path / "results")
    )
    assert code == 0
    assert printed in next(line for line in said.splitlines(keepends=True) if name in line)
    (folder,) = find_runs(tmp_path / "results")
    run = read_run(folder)
    assert (run.summary.n_total, run.summary.scores[name].n) == (4, 3)


def test_letters_of_inspect_are_numbers(tmp_path: Path) -> None:
    samples = [sample(n, scores={"match": {"value": letter}}) for n, letter in enumerate("CPIN")]
    run = imported("inspect", inspect(tmp_path, samples), tmp_path / "results")
    assert [record.scores["logged.match"] for record in run.records] == [1.0, 0.5, 0.0, 0.0]


def test_a_failed_question_counts_0_in_the_mean_and_is_left_out_of_what_the_tool_printed(
    command, tmp_path
):
    broken = sample(1, output={"choices": []}, error={"message": "timeout"}, scores=None)
    metrics = {"mean": {"value": 1.0}, "stderr": {"value": 0.0}}
    results = {"total_samples": 2, "scores": [{"name": "f1", "scorer": "f1", "metrics": metrics}]}
    path = inspect(tmp_path, [sample(0), broken], results=results)
    _, said, _ = command(
        "import", str(path), "--from", "inspect", "--out", str(tmp_path / "results")
    )
    assert "logged.f1 0.5 ± 0.5 of 2 1 over the 1 answered, as printed there" in " ".join(
        said.split()
    )


REFUSED = [  # change of a row of lm-eval, sentence
    (
        {"filter": "flexible"},
        "'a' is answered at samples_mills_2026-01-02T03-04-05.123456.jsonl, line 1 too",
    ),
    ({"resps": [["one", "two"]]}, "a question has several replies"),
]


@pytest.mark.parametrize(("change", "sentence"), REFUSED)
def test_samples_of_lm_eval_have_one_filter_and_one_reply(tmp_path: Path, change, sentence) -> None:
    path = lm_eval(tmp_path)
    made = [json.loads(line) for line in path.read_text().splitlines()]
    with pytest.raises(DataError, match=sentence):
        read_foreign("lm-eval", lines(path, [*made, {**made[0], **change}]))


def epochs(root: Path) -> Path:
    """Two epochs, the second one with another right answer; what Inspect prints is of the mean over
    epochs."""
    seconds = [sample(n, epoch=2, scores={"f1": {"value": float(n == 2)}}) for n in range(4)]
    # 0.5, 1/3, 0.5 and 0.5
    metrics = {"mean": {"value": 11 / 24}, "stderr": {"value": 1 / 24}}
    best = {"mean": {"value": 1.0}, "stderr": {"value": 0.0}}
    scores = [
        {"name": "f1", "scorer": "f1", "reducer": "mean", "metrics": metrics},
        {"name": "f1", "scorer": "f1", "reducer": "max", "metrics": best},
    ]
    path = inspect(
        root,
        [*(sample(n) for n in range(4)), *seconds],
        results={"total_samples": 8, "scores": scores},
    )
    value = json.loads(path.read_text())
    value["eval"]["config"] = {"epochs": 2}
    path.write_text(json.dumps(value))
    return path


def test_epochs_of_inspect_are_runs_with_a_seed_each(command: Command, tmp_path: Path) -> None:
    path, out = epochs(tmp_path), tmp_path / "results"
    code, said, _ = command("import", str(path), "--from", "inspect", "--out", str(out))
    assert code == 0
    assert "logged.f1       0.458333 ± 0.0416667  of 4  as printed there" in said
    runs = sorted(map(read_run, find_runs(out)), key=lambda run: run.config.seed)
    assert [run.config.seed for run in runs] == [0, 1]
    assert [run.manifest.dataset.questions for run in runs] == [4, 4]
    assert [[r.scores["logged.f1"] for r in run.records] for run in runs] == [
        [1.0, 2 / 3, 0.0, 1.0],
        [0.0, 0.0, 1.0, 0.0],
    ]
    code, said, _ = command("report", str(out), "--average-seeds")
    assert (code, "mean of 2 repeats (seeds 0, 1)" in said) == (0, True)


def test_a_killed_import_leaves_no_run(tmp_path: Path, monkeypatch) -> None:
    found = prepare_import(read_foreign("inspect", epochs(tmp_path)))
    seen: list[list[Path]] = []
    monkeypatch.setattr(
        import_runs,
        "summarise",
        lambda *a, **k: seen.append(find_runs(tmp_path)) or summarise(*a, **k),
    )
    write_all(found, tmp_path / "results", lambda note: None)
    assert (seen, len(find_runs(tmp_path))) == ([[], []], 2)


@pytest.mark.parametrize(
    ("target", "answer", "label"),
    [
        ("B", "at Bo's", 2),
        ("(C)", "Cy", 3),
        ("Cy", "Cy", 3),
        ("D", "D", None),
        (["A", "B"], "Ann", None),
        ("b", "b", None),
        ("B. at Bo's", "at Bo's", 2),
        ("B. Cy", "B. Cy", None),
    ],
)
@pytest.mark.parametrize("objects", [False, True])
def test_options_reach_the_scorers_and_a_letter_is_the_option_it_stands_for(
    target, answer, label, objects, tmp_path
):
    replies = [{**OUTPUT, "choices": [{"message": {"content": letter}}]} for letter in "BC"]
    options = ["Ann", "at Bo's", "Cy"]
    choices = [{"label": letter, "text": text} for letter, text in zip("ABC", options, strict=True)]
    metadata = {"choices": choices if objects else options, "target": target}
    made = [sample(n, output=replies[n], **metadata) for n in range(2)]
    scorer = "infinitebench.choice" if label else "longbench.classification_score"
    run = imported("inspect", inspect(tmp_path, made), tmp_path / "results", None, None, [scorer])
    gold = run.records[0].gold
    assert (gold["answers"][0], gold["extra"].get("gold_label"), gold["extra"]["all_classes"]) == (
        answer,
        label,
        options,
    )
    if label:
        assert [record.scores[scorer] for record in run.records] == [
            float(label == 2),
            float(label == 3),
        ]


def test_a_right_choice_of_lm_eval_is_a_number_from_0(tmp_path: Path) -> None:
    path = lm_eval(tmp_path)
    made = [json.loads(line) for line in path.read_text().splitlines()]
    for row in made:
        row["doc"] = {
            "question": row["doc"]["question"],
            "choices": {"text": ["Ann", "Bo"], "label": ["A", "B"]},
        }
    run = imported(
        "lm-eval", lines(path, [{**row, "target": "1"} for row in made]), tmp_path / "results"
    )
    assert [record.gold["answers"] for record in run.records] == [["Bo"]] * 4


THOUGHT = [f"<think>Not {reply}?</think>{reply}" for reply in REPLIES]


def test_the_thinking_of_a_reasoning_model_is_left_out_with_a_note(command, tmp_path):
    file = lines(tmp_path / "a.jsonl", rows(question=QUESTIONS, answers=GOLD, prediction=THOUGHT))
    words = ["import", str(file), "--from", "jsonl", "--scorers", "flashrag.em"]
    code, _, err = command(*words, "--out", str(tmp_path / "cut"))
    assert code == 0
    assert "4 answers have reasoning before them, which is left out (--keep-thinking" in err
    assert command(*words, "--keep-thinking", "--out", str(tmp_path / "kept"))[0] == 0
    means = [summary_mean(tmp_path / name, "flashrag.em") for name in ("cut", "kept")]
    assert means == [0.5, 0]


def summary_mean(root: Path, score: str) -> float:
    (folder,) = find_runs(root)
    return read_run(folder).summary.scores[score].mean


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            '{"pred": "Bob", "answers": ["Ann"], "all_classes": null, "length": 3}',
            "'prediction': is missing; the row has pred, answers, all_classes, length; a file of",
        ),
        ("1 Q0 d1 1 2.5 bm25", "the file holds no rows of JSON (docs/guide.md#elsewhere"),
        ('{\n "args": {},\n "data": []}', "the file holds no rows of JSON"),
    ],
)
def test_files_of_tools_that_are_not_known_say_what_they_have(command, tmp_path, text, problem):
    (tmp_path / "a.jsonl").write_text(text)
    code, _, err = command("import", str(tmp_path / "a.jsonl"), "--from", "jsonl")
    assert (code, problem in err) == (2, True), err


class TestMatching:
    def test_by_id_and_else_by_question_and_answer(self, tmp_path: Path) -> None:
        rows = dataset(tmp_path)
        numbered = [sample(n, id=str(n)) for n in range(4)]
        for samples in ([sample(n) for n in range(4)], numbered):
            out = tmp_path / f"results{samples is numbered}"
            run = imported("inspect", inspect(tmp_path, samples), out, "hotpotqa", str(rows))
            assert [record.question_id for record in run.records] == ["a", "b", "c", "d"]
            assert run.records[3].gold["extra"]["type"] == "comparison"
            assert run.records[0].question == QUESTIONS[0]

    @pytest.mark.parametrize("change", [{"target": "Bo Marsh"}, {"input": "Who built the barn?"}])
    def test_the_same_id_of_another_question_is_listed_and_left_out(
        self, change, command, tmp_path
    ):
        path = inspect(tmp_path, [sample(0, **change), sample(1)])
        arguments = [
            "--dataset",
            "hotpotqa",
            "--data",
            str(dataset(tmp_path)),
            "--out",
            str(tmp_path / "results"),
        ]
        code, _, said = command("import", str(path), "--from", "inspect", *arguments)
        assert code == 3
        assert "left out: log.json, row 1: 'a' fits no question" in said
        (folder,) = find_runs(tmp_path / "results")
        assert [record.question_id for record in read_run(folder).records] == ["b"]

    def test_a_sample_of_an_archive_is_named_by_its_file(
        self, command: Command, tmp_path: Path
    ) -> None:
        path, rows = packed(tmp_path), dataset(tmp_path)
        rows.write_text(json.dumps(json.loads(rows.read_text())[1:]))
        arguments = [
            "--dataset",
            "hotpotqa",
            "--data",
            str(rows),
            "--out",
            str(tmp_path / "results"),
        ]
        _, _, said = command("import", str(path), "--from", "inspect", *arguments)
        assert "left out: log.eval, samples/a_epoch_1.json: 'a' fits no question" in said


def edited(make: Callable[[Path], Path], change: Callable[[str], str]) -> Callable[[Path], Path]:
    def made(root: Path) -> Path:
        path = make(root)
        path.write_text(change(path.read_text()))
        return path

    return made


def bomb(root: Path) -> Path:
    """An .eval file with a sample that unpacks to 1,000 times its size."""
    path = root / "log.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps(log([])))
        archive.writestr("samples/q_epoch_1.json", b" " * 5_000_000)
    return path


def samples(*made) -> Callable[[Path], Path]:
    return lambda root: inspect(root, list(made))


OUTPUT = sample(1)["output"]
BAD: dict[str, tuple[str, Callable[[Path], Path], str]] = {
    "another version": (
        "inspect",
        lambda root: inspect(root, version=1),
        "log.json, field 'version': is 1",
    ),
    "a cut log": ("inspect", edited(inspect, lambda text: text[:900]), "broken JSON"),
    "a cut archive": ("inspect", lambda root: lines(root / "log.eval", [{}]), "is the file cut?"),
    "a damaged archive": ("inspect", lambda root: packed(root, 1), "header.json is damaged"),
    "a torn archive": ("inspect", torn, "cannot be read (Error -3"),
    "a bomb": ("inspect", bomb, "would be 5,000,000 bytes out of"),
    "no log": (
        "inspect",
        lambda root: lines(root / "log.json", [{"version": 2}]),
        "this is no log of Inspect",
    ),
    "several models": (
        "inspect",
        samples(sample(0), sample(1, output={**OUTPUT, "model": "other"})),
        "row 2",
    ),
    "a question twice": (
        "inspect",
        samples(sample(0), sample(1, id="a")),
        "row 2: question 'a' is answered at",
    ),
    "another shape": (
        "inspect",
        samples(sample(0), sample(1, scores={"f1": 1})),
        "log.json, row 2",
    ),
    "no output": ("inspect", samples(sample(0), sample(1, output="x")), "log.json, row 2"),
    "no means": (
        "inspect",
        lambda root: inspect(root, results={"scores": [1]}),
        "is not of the form that is read",
    ),
    "no date": ("inspect", lambda root: inspect(root, stats={"started_at": "noon"}), "'noon'"),
    "no answers": ("inspect", samples(), "holds no answered question"),
    "a cut line": ("jsonl", edited(jsonl, lambda text: text[:-20]), "line 4: broken JSON"),
    "no prediction": (
        "jsonl",
        edited(jsonl, lambda text: text.replace("predic", "x", 1)),
        "line 1, field 'pred",
    ),
    "a text as score": (
        "jsonl",
        lambda root: jsonl(root, scores={"x": "high"}),
        "line 1, field 'scores'",
    ),
    "a negative cost": (
        "jsonl",
        lambda root: jsonl(root, tokens_in=-1),
        "line 1, field 'tokens_in'",
    ),
    "nothing to go by": (
        "jsonl",
        lambda root: lines(root / "m.jsonl", [{"prediction": "x"}]),
        "nobody knows to what",
    ),
    "no right answer": (
        "jsonl",
        lambda root: jsonl(root, answers=[]),
        "line 1: has no right answer",
    ),
    "no score": ("jsonl", jsonl, "holds no score"),
    "another tool": ("flashrag", jsonl, "line 1, field 'output.pred': is missing"),
    "a name without task": (
        "lm-eval",
        jsonl,
        "should have the name that lm-eval gives it: samples_TASK_DATE.jsonl, as",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named_and_nothing_is_imported(
    case: str, command: Command, tmp_path: Path
) -> None:
    tool, make, sentence = BAD[case]
    good = inspect(tmp_path / "good")
    files = [str(good), str(make(tmp_path))] if tool == "inspect" else [str(make(tmp_path))]
    code, _, said = command("import", *files, "--from", tool, "--out", str(tmp_path / "results"))
    assert code == 2
    assert said.startswith("error: ")
    assert sentence in said
    assert not (tmp_path / "results").exists()


def test_names_of_scorers_are_checked_before_a_file_is_read(
    command: Command, tmp_path: Path
) -> None:
    made = BAD["a cut line"][1](tmp_path)
    code, _, said = command(
        "import", str(made), "--from", "jsonl", "--scorers", "no.such", "--out", str(tmp_path / "o")
    )
    assert (code, said.count("\n"), "unknown scorer 'no.such'" in said) == (2, 1, True)


def test_answers_are_held_in_little_memory(tmp_path: Path) -> None:
    made = [
        {"id": f"q{n}", "answers": [f"a{n % 9}"], "prediction": "a1", "scores": {"x": 0.5}}
        for n in range(2000)
    ]
    path = lines(tmp_path / "many.jsonl", made)
    tracemalloc.start()
    run = read_foreign("jsonl", path)
    (imported,) = prepare_import(run)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert held < 500 * len(made)
    assert [answer.id for answer in run.answers] == [
        record.question_id for record in imported.records
    ]


@pytest.mark.parametrize(
    ("tool", "make", "row"),
    [
        ("inspect", inspect, lambda n, one: {**one, "id": f"q{n}"}),
        (
            "lm-eval",
            lm_eval,
            lambda n, one: {**one, "doc_id": n, "doc": {**one["doc"], "_id": f"q{n}"}},
        ),
        ("flashrag", flashrag, lambda n, one: {**one, "id": f"q{n}"}),
    ],
)
def test_a_long_file_takes_the_memory_of_its_answers(tool, make, row, tmp_path: Path) -> None:
    path = make(tmp_path)
    lined = path.suffix == ".jsonl"
    log = (
        [*map(json.loads, path.read_text().splitlines())] if lined else json.loads(path.read_text())
    )
    rows = log["samples"] if tool == "inspect" else log
    rows[:] = [{**row(n, rows[n % 4]), "aside": "x" * 10_000} for n in range(300)]
    path.write_text("\n".join(map(json.dumps, rows)) if lined else json.dumps(log))
    tracemalloc.start()
    run = read_foreign(tool, path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(run.answers) == 300
    assert peak < path.stat().st_size / 2


def test_the_same_file_is_not_imported_over_a_run(command: Command, tmp_path: Path) -> None:
    arguments = (
        "import",
        str(inspect(tmp_path)),
        "--from",
        "inspect",
        "--out",
        str(tmp_path / "results"),
    )
    assert command(*arguments)[0] == 0
    code, _, said = command(*arguments)
    assert (code, "is there already" in said) == (2, True)


def test_lines_name_model_and_method_and_scores_outside_0_to_1_are_left_out_with_a_note(
    tmp_path: Path,
) -> None:
    path = jsonl(tmp_path, model="m", method="tree", scores={"rating": 7.0, "half": 0.5})
    run = imported("jsonl", path, tmp_path / "results")
    assert run.path.name.startswith("tree--m--")
    assert set(run.records[0].scores) == {"logged.half"}
    assert "rating is not from 0 to 1, so it is left out" in run_notes(run)


def test_a_scorer_that_lacks_its_input_is_left_out_instead_of_0(tmp_path: Path) -> None:
    run = imported(
        "jsonl",
        jsonl(tmp_path),
        tmp_path / "results",
        None,
        None,
        ["flashrag.em", "infinitebench.choice"],
    )
    assert run.config.dataset.scorers == ["flashrag.em"]
    assert any(
        note.startswith("infinitebench.choice scores none of these answers")
        for note in run_notes(run)
    )


class TestCompare:
    def test_a_run_beside_another_is_paired_by_the_questions_that_both_have(
        self, tmp_path: Path
    ) -> None:
        data = str(dataset(tmp_path))
        ours = imported("inspect", inspect(tmp_path), tmp_path / "results", "hotpotqa", data)
        other = imported(
            "flashrag", flashrag(tmp_path / "f"), tmp_path / "results", "hotpotqa", data
        )
        row = compare([ours, other], score="hotpotqa.f1").iloc[0]
        assert (row["n"], row["difference"]) == (4, 0.0)
        assert any(
            "share 4 questions (id, question and a right answer) of 4 and 4" in note
            for note in row["notes"]
        )

    def test_the_same_ids_of_other_questions_are_refused(
        self, command: Command, tmp_path: Path
    ) -> None:
        for name, gold in (
            ("one", [["x"], ["y"], ["z"], ["w"]]),
            ("two", [["x"], ["z"], ["y"], ["w"]]),
        ):
            made = rows(id=[0, 1, 2, 3], prediction="x", answers=gold, method=name)
            lines(tmp_path / name / "mine.jsonl", made)
        files = [str(tmp_path / name / "mine.jsonl") for name in ("one", "two")]
        out = str(tmp_path / "results")
        assert (
            command("import", *files, "--from", "jsonl", "--scorers", "flashrag.em", "--out", out)[
                0
            ]
            == 0
        )
        code, _, said = command("compare", out)
        assert code == 2
        assert (
            "share 2 questions (id, question and a right answer) of 4 and 4, less than 90%" in said
        )
        code, said, _ = command("compare", out, "--force", "--format", "json")
        assert (code, {row["paired.n"] for row in json.loads(said)}) == (0, {None, 2.0})

    def test_by_a_column_of_the_rows(self, command: Command, tmp_path: Path) -> None:
        imported("inspect", inspect(tmp_path), tmp_path / "results")
        code, said, _ = command("compare", str(tmp_path / "results"), "--by", "source")
        assert code == 0
        assert "mills, source left" in said
        assert "mills, source right" in said
        code, _, said = command("compare", str(tmp_path / "results"), "--by", "long")
        assert (code, "unknown way to divide questions 'long'" in said) == (2, True)


class TestOtherCommands:
    def test_a_damaged_manifest_is_named(self, command: Command, tmp_path: Path) -> None:
        run = imported("inspect", inspect(tmp_path), tmp_path / "results")
        (run.path / "manifest.json").write_text(
            json.dumps(run.manifest.to_json() | {"imported": "x"})
        )
        code, _, said = command("compare", str(run.path))
        assert (code, "manifest.json" in said, "imported" in said) == (2, True, True)

    def test_requests_are_not_known_and_no_tokenizer_is_looked_for(
        self, command: Command, tmp_path: Path
    ) -> None:
        run = imported(
            "inspect", inspect(tmp_path), tmp_path / "results", "hotpotqa", str(dataset(tmp_path))
        )
        assert requests.frame([run])["requests"].isna().all()
        code, _, said = command("report", "tokens", str(tmp_path / "results"))
        assert code == 2
        assert "was imported, so the tokenizer of its model is not known" in said

    def test_the_name_of_a_method_makes_it_no_row_of_a_paper(self, tmp_path: Path) -> None:
        path = jsonl(tmp_path, method="pecan", model="Llama-3.1-8B-Instruct", scores={"x": 1.0})
        run = imported("jsonl", path, tmp_path / "results", "hotpotqa", str(dataset(tmp_path)))
        values = [value for value in load() if value.entry.preset == "pecan"]
        assert values
        assert not any(matches(value, [run]) for value in values)

    def test_score_adds_scorers_and_keeps_what_the_tool_gave(
        self, command: Command, tmp_path: Path
    ) -> None:
        run = imported("inspect", inspect(tmp_path), tmp_path / "results")
        assert command("score", str(run.path))[0] == 2
        assert command("score", str(run.path), "--scorers", "flashrag.em")[0] == 0
        after = read_run(run.path)
        assert after.config.dataset.scorers == [
            "flashrag.em",
            "logged.f1",
            "logged.match",
            "logged.parts.x",
        ]
        assert after.records[1].scores == {"flashrag.em": 0.0, **run.records[1].scores}

    def test_verify_says_what_it_cannot_check(self, command: Command, tmp_path: Path) -> None:
        run = imported(
            "inspect", inspect(tmp_path), tmp_path / "results", None, None, ["flashrag.em"]
        )
        bundle = str(tmp_path / "b.zip")
        assert command("export", str(run.path), bundle)[0] == 0
        code, said, _ = command("verify", bundle)
        assert code == 0
        assert "computed again: 4 scores" in said
        assert (
            "'logged.f1', 'logged.match', 'logged.parts.x' are not computed again: another tool "
            "gave" in said
        )
        assert (
            "imported from inspect_ai 0.3.285; whether its answers and costs are those of "
            "log.json" in said
        )
        assert said.rstrip().splitlines()[-1].startswith("consistent; computed again: ")

    @pytest.mark.parametrize(
        "words", ["report {0}", "report bands {0}", "trace {1} a", "report {0} --html {0}/p.html"]
    )
    def test_it_is_read_like_any_run(self, words: str, command: Command, tmp_path: Path) -> None:
        run = imported(
            "inspect", inspect(tmp_path), tmp_path / "results", "hotpotqa", str(dataset(tmp_path))
        )
        code, said, _ = command(*words.format(tmp_path / "results", run.path).split())
        said += (tmp_path / "results" / "p.html").read_text() if "--html" in words else ""
        assert (code, "imported" in said) == (0, words.startswith("report"))


def test_answers_to_questions_about_a_folder_are_matched_and_scored(tmp_path, command):
    (tmp_path / "wiki").mkdir()
    (tmp_path / "wiki" / "mill.md").write_text("# Mill\n\nAda Marsh built it.\n")
    asked = [
        {"input": "Who built the mill?", "expected": "Ada Marsh", "contains": "Ada", "id": "a"},
        {"input": "Who sold it?", "expected": "", "answerable": "false", "id": "b"},
    ]
    lines(tmp_path / "q.jsonl", asked)
    replies = [
        {
            "id": "a",
            "question": "Who built the mill?",
            "prediction": "It was Ada Marsh.",
            "seconds": 2,
        },
        {"id": "b", "question": "Who sold it?", "prediction": "It does not say."},
    ]
    made = lines(tmp_path / "mine.jsonl", replies)
    code, _, said = command(
        "import", str(made), "--from", "jsonl", "--documents", str(tmp_path / "wiki"),
        "--questions", str(tmp_path / "q.jsonl"), "--columns", "question=input,answer=expected",
        "--out", str(tmp_path / "results"),
    )  # fmt: skip
    assert code == 0, said
    (run,) = find_runs(tmp_path / "results")
    assert run.parent.name == "wiki"
    means = {name: score.mean for name, score in read_run(run).summary.scores.items()}
    assert (means["right"], means["assertions"], means["abstention.declines"]) == (1, 1, 1)
    code, _, said = command("import", str(made), "--from", "jsonl", "--questions", "q.jsonl")
    assert (code, "go together" in said) == (2, True)

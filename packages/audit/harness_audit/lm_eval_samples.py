"""A run as the files that lm-evaluation-harness writes with --log_samples.

    write_samples(run, Path("out"))
      out/SmolLM2-135M-reader/bm25/samples_longbench_hotpotqa_2026-01-02T03-04-05+00-00.jsonl
      out/SmolLM2-135M-reader/bm25/results_2026-01-02T03-04-05+00-00.json

Keys are those of lm_eval/evaluator.py and lm_eval/loggers/evaluation_tracker.py (version 0.4.13). `doc` has the fields
of LongBench's rows, so that lm-eval's LongBench tasks can score a sample again; `doc.context` is what the reader was
shown. A failed question has an empty reply and scores 0, as in the run's own mean.
"""

import json
import re
from pathlib import Path
from typing import Any

from harness.storage.json_lines import json_line
from harness.storage.run_folder import StoredRun
from harness_audit.bundle import digest
from harness_audit.log_contents import AskedQuestion, asked_questions, safe_name, start_time, write_file


def write_samples(run: StoredRun, folder: Path) -> Path:
    """Write both files below `folder` and return the one of the samples. The same run gives the same bytes.

    Raises UserError for a run without texts, DataError for a damaged one, SaveError.
    """
    rows = [_sample(run, number, asked) for number, asked in enumerate(asked_questions(run))]
    place = folder / safe_name(str(run.config["model"]["name"])) / safe_name(str(run.config["method"]["name"]))
    date = safe_name(start_time(run))
    path = place / f"samples_{task_name(run)}_{date}.jsonl"
    write_file(path, b"".join(json_line(row) for row in rows))
    text = json.dumps(_results(run, rows), indent=2, ensure_ascii=False, allow_nan=False)
    write_file(place / f"results_{date}.json", text.encode("utf-8", "replace"))
    return path


def task_name(run: StoredRun) -> str:
    """lm-eval's name of a task: letters, digits and underscores; "longbench/hotpotqa" is longbench_hotpotqa."""
    return re.sub(r"\W", "_", str(run.config["dataset"]["name"]))


def _sample(run: StoredRun, number: int, asked: AskedQuestion) -> dict[str, Any]:
    """A question as a line of the samples file. number: its position in the run, from 0."""
    record = asked.record
    doc = {
        "_id": record["question_id"],
        "question": record["question"],
        "context": asked.context,
        "answers": record["gold"]["answers"],
        "all_classes": record.get("options"),
        "dataset": run.config["dataset"]["name"],
    }
    settings = {"until": [], "do_sample": False, "max_gen_toks": run.config["dataset"].get("max_answer_tokens")}
    prediction = str(record["prediction"])
    scores = {name: value for name, value in record["scores"].items() if value is not None}
    if record["error"]:
        scores = dict.fromkeys(scores or run.config["dataset"]["scorers"], 0.0)
    target = str(doc["answers"])
    return {
        "doc_id": number,
        "doc": doc,
        "target": target,
        "arguments": {"gen_args_0": {"arg_0": asked.prompt, "arg_1": settings}},
        "resps": [[prediction]],
        "filtered_resps": [prediction],
        "filter": "none",
        "metrics": list(scores),
        "doc_hash": digest(json.dumps(doc, indent=2, ensure_ascii=False)),
        "prompt_hash": digest(asked.prompt),
        "target_hash": digest(target),
        **scores,
    }


def _results(run: StoredRun, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The content of the results file: the summary's means and the run's settings. rows: lines of the samples file."""
    name, dataset = task_name(run), run.config["dataset"]
    means = {f"{key},none": score.get("mean") for key, score in (run.summary.get("scores") or {}).items()}
    model = str(run.config["model"]["name"])
    total = (run.manifest.get("dataset") or {}).get("questions") or len(rows)
    return {
        "results": {name: {"name": name, "alias": name, "sample_len": len(rows), **means}},
        "group_subtasks": {name: []},
        "configs": {
            name: {
                "task": name,
                "dataset_path": dataset["name"],
                "output_type": "generate_until",
                "metric_list": [{"metric": key.removesuffix(",none"), "higher_is_better": True} for key in means],
                "metadata": {"method": run.config["method"]["name"], "params": run.config["method"].get("params")},
            }
        },
        "versions": {name: (run.manifest.get("packages") or {}).get("longdoc-harness")},
        "n-shot": {name: 0},
        "higher_is_better": {name: {key.removesuffix(",none"): True for key in means}},
        "n-samples": {name: {"original": total, "effective": len(rows)}},
        "config": {
            "model": run.config["model"].get("backend"),
            "model_args": {"pretrained": model},
            "limit": run.config.get("limit"),
            "random_seed": run.config.get("seed"),
        },
        "git_hash": (run.manifest.get("git") or {}).get("commit"),
        "model_source": run.config["model"].get("backend"),
        "model_name": model,
        "model_name_sanitized": safe_name(model),
        "task_hashes": {name: digest("".join(r["doc_hash"] + r["prompt_hash"] + r["target_hash"] for r in rows))},
    }

"""A run as a log of Inspect, which `inspect view` opens and `inspect_ai.log.read_eval_log` reads.

    path = write_log(run, Path("logs"))      logs/2026-01-02T03-04-05+00-00_musique-bm25_0123abcd.json

The log has version 2 of Inspect's JSON form (https://inspect.aisi.org.uk/eval-logs.html; the schema: `inspect log
schema`). A question is a sample: what the reader saw and the question are the user's message, the prediction is the
assistant's. The moves of a search are its transcript. Means are those of the run's summary: a failed question counts 0.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import UserError
from harness.storage.files import save_error, write_atomic
from harness.storage.kept_requests import read_requests
from harness.storage.run_folder import StoredRun
from reports.facts import hash8
from reports.gold_rows import Rows

VERSION = 2
STATES = {"finished": "success", "interrupted": "cancelled", "stopped": "error"}
USED = {"tokens_in": "input_tokens", "tokens_out": "output_tokens", "tokens_cached": "input_tokens_cache_read"}
GAP = "\n\n"


@dataclass(frozen=True)
class AskedQuestion:
    """A question of a run with its answer.

    context: the texts that the reader was shown, in order, joined by a blank line; prompt: the last kept request that
    wrote a part of the answer, else context and question; kept: whether there is such a request; rows: to look up the
    texts of steps.
    """

    record: Mapping[str, Any]
    context: str
    prompt: str
    kept: bool
    rows: Rows


def asked_questions(run: StoredRun) -> Iterator[AskedQuestion]:
    """Yield the questions of the run in the order of its records.

    Raises UserError for a run that holds no texts, DataError for a damaged file.
    """
    for record in run.records:
        if record.get("question") is None or record.get("gold") is None:
            raise UserError(
                f"{run.path} holds neither questions nor right answers, because dataset.keep_texts is off or an older "
                f"version made it; where the licence allows copies, add them with: harness score {run.path}"
            )
    rows, sent = Rows(texts=run.texts(run.records)), _last_prompts(run)
    for record in run.records:
        context = GAP.join(filter(None, map(rows.text, record["shown"])))
        kept = sent.get(record["question_id"])
        prompt = kept or GAP.join(filter(None, (context, record["question"])))
        yield AskedQuestion(record, context, prompt, kept is not None, rows)


def _last_prompts(run: StoredRun) -> dict[str, str]:
    """Question id -> the last prompt that wrote something in the phase "answer" (--keep-prompts)."""
    requests = read_requests(run.path, {str(record["question_id"]) for record in run.records})
    written = {
        name: [r["prompt"] for r in rows if r["kind"] == "write" and r["phase"] == "answer"]
        for name, rows in requests.items()
    }
    return {name: prompts[-1] for name, prompts in written.items() if prompts}


def write_log(run: StoredRun, folder: Path) -> Path:
    """Write the log of `run` into `folder` and return its path. The same run gives the same bytes.

    Raises UserError for a run without texts, DataError for a damaged one, SaveError.
    """
    # The form of Inspect's own names; its list of logs reads them.
    path = folder / f"{safe_name(start_time(run))}_{_task_name(run)}_{safe_name(hash8(run))}.json"
    data = json.dumps(eval_log(run), ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise save_error(folder, error, "--out") from None
    write_atomic(path, data)
    return path


def eval_log(run: StoredRun) -> dict[str, Any]:
    """The log of a run as JSON values, in version 2 of Inspect's form."""
    samples = [_sample(run, question) for question in asked_questions(run)]
    model, usages = str(run.config["model"]["name"]), [sample["output"]["usage"] for sample in samples]
    counted = usages[0] if usages and None not in usages else {}
    total = {key: sum(usage.get(key, 0) for usage in usages) for key in counted}
    state = run.summary.get("state")
    return {
        "version": VERSION,
        "status": STATES.get(str(state), "started"),
        "eval": _spec(run),
        "plan": {"steps": [{"solver": _method_name(run), "params": run.config["method"].get("params") or {}}]},
        "results": _results(run, samples),
        "stats": {
            "started_at": run.manifest.get("started") or "",
            "completed_at": run.manifest.get("finished") or "",
            "model_usage": {} if None in usages else {model: total},
        },
        **({"error": _error({"type": "Stopped", "message": "the run stopped early"})} if state == "stopped" else {}),
        "samples": samples,
    }


def _method_name(run: StoredRun) -> str:
    return str(run.config["method"]["name"])


def _task_name(run: StoredRun) -> str:
    return safe_name(f"{run.config['dataset']['name']}-{_method_name(run)}").replace("_", "-")


def _spec(run: StoredRun) -> dict[str, Any]:
    """The "eval" of a log: what was run, with this project's names of methods and models."""
    data, manifest, dataset = run.config["dataset"], run.manifest, run.manifest.get("dataset") or {}
    git = manifest.get("git") or {}
    revision = {"type": "git", "origin": "", "commit": git.get("commit"), "dirty": git.get("dirty")}
    return {
        "eval_id": hash8(run),
        "run_id": hash8(run),
        "task_id": hash8(run),
        "created": start_time(run),
        "task": _task_name(run),
        "task_display_name": f"{data['name']} · {_method_name(run)}",
        "solver": _method_name(run),
        "solver_args": run.config["method"].get("params") or {},
        "dataset": {
            "name": data["name"],
            "location": dataset.get("source"),
            "samples": dataset.get("questions") or len(run.records),
            "sample_ids": [str(record["question_id"]) for record in run.records],
            "shuffled": False,
        },
        "model": str(run.config["model"]["name"]),
        "model_args": {"backend": run.config["model"].get("backend")},
        "config": {"limit": run.config.get("limit")},
        "packages": {k: v for k, v in (manifest.get("packages") or {}).items() if isinstance(v, str)},
        "scorers": [{"name": name} for name in data["scorers"]],
        "headline_metric": {"scorer": data["scorers"][0], "metric": "mean"},
        "metadata": {
            "fingerprint": dataset.get("fingerprint"),
            "licence": data.get("licence"),
            "instruction": data.get("instruction"),
            "seed": run.config.get("seed"),
            "scorer_versions": manifest.get("scorers"),
            "failed_count_as": run.summary.get("failed_count_as", run.config.get("failed")),
        },
        **({"revision": revision} if git.get("commit") else {}),
    }


def _results(run: StoredRun, samples: list[dict[str, Any]]) -> dict[str, Any]:
    """The "results" of a log: means and intervals of the run's summary, and how many samples have no error."""
    scores = []
    for name, score in (run.summary.get("scores") or {}).items():
        bounds = {"mean": score.get("mean"), "lower": score.get("low"), "upper": score.get("high")}
        metrics = {k: {"name": k, "value": v} for k, v in bounds.items() if isinstance(v, int | float)}
        scores.append({"name": name, "scorer": name, "scored_samples": score.get("n"), "metrics": metrics})
    done = sum("error" not in sample for sample in samples)
    return {"total_samples": len(samples), "completed_samples": done, "scores": scores}


def _sample(run: StoredRun, asked: AskedQuestion) -> dict[str, Any]:
    """A question as a sample of the log: messages, reply, scores, tokens, and the steps of its search as events."""
    record, model = asked.record, str(run.config["model"]["name"])
    name, answer = str(record["question_id"]), str(record["prediction"])
    reply = {"id": f"{name}/answer", "role": "assistant", "source": "generate", "content": answer, "model": model}
    usage, notes = _usage(record), record.get("notes") or {}
    sample = {
        "id": name,
        "epoch": 1,
        "input": record["question"],
        "choices": record.get("options"),
        "target": record["gold"]["answers"],
        "messages": [{"id": f"{name}/prompt", "role": "user", "source": "input", "content": asked.prompt}, reply],
        "output": {"model": model, "choices": [{"message": reply, "stop_reason": "stop"}], "usage": usage},
        "scores": {} if record["error"] else _scores(record, answer),
        "model_usage": {} if usage is None else {model: usage},
        "events": [_event(run, asked, n, step) for n, step in enumerate(record["steps"])],
        "metadata": {
            "documents": list(record["document_ids"]),
            "prompt": "as it was sent" if asked.kept else "what the reader was shown, and the question",
            "stop_reason": record["stop_reason"],
            "truncated": record["truncated"],
            "supporting": record["gold"]["supporting"],
            "usage": record["usage"],
        },
    }
    if isinstance(notes.get("seconds"), int | float):
        sample["total_time"] = sample["working_time"] = notes["seconds"]
    return sample | ({"error": _error(record["error"])} if record["error"] else {})


def _usage(record: Mapping[str, Any]) -> dict[str, int] | None:
    """Tokens of a question's search and answer by Inspect's names; None where a run made elsewhere does not tell."""
    phases = [usage for phase, usage in (record.get("usage") or {}).items() if phase != "study"]
    told = {theirs: ours for ours, theirs in USED.items() if all(ours in usage for usage in phases)}
    known = {theirs: sum(int(usage[ours]) for usage in phases) for theirs, ours in told.items()}
    thinking = sum(int((usage.get("thinking") or {}).get("tokens") or 0) for usage in phases)
    return {**known, "total_tokens": sum(known.values()), "reasoning_tokens": thinking} if known else None


def _scores(record: Mapping[str, Any], answer: str) -> dict[str, Any]:
    """The "scores" of a sample: scorer -> {"value", "answer", "explanation": the scorer's flag or None}."""
    flags = (record.get("notes") or {}).get("flags") or {}
    return {
        name: {"value": value, "answer": answer, "explanation": str(flags[name]) if name in flags else None}
        for name, value in record["scores"].items()
        if value is not None
    }


def _event(run: StoredRun, asked: AskedQuestion, number: int, step: Mapping[str, Any]) -> dict[str, Any]:
    """The step `number` of a search as an event; steps have no time of their own, so it is the run's start."""
    told = {key: step[key] for key in ("action", "node", "level", "p_yes", "scores", "tokens", "note", "answer")}
    data = {key: value for key, value in told.items() if value not in (None, "", {})}
    if step.get("shown") and (text := asked.rows.text(step["shown"])):
        data["shown"] = text
    return {
        "uuid": f"{asked.record['question_id']}/{number}",
        "event": "info",
        "source": str(step["action"]),
        "timestamp": start_time(run),
        "working_start": 0.0,
        "data": data,
    }


def _error(error: Mapping[str, Any]) -> dict[str, str]:
    trace = str(error.get("traceback") or "")
    return {"message": f"{error['type']}: {error['message']}", "traceback": trace, "traceback_ansi": trace}


def safe_name(text: str) -> str:
    """`text` with only characters that are safe in a file name: a run folder may come from a stranger."""
    return re.sub(r"[^\w.+-]", "-", text).lstrip(".")[:100] or "-"


def start_time(run: StoredRun) -> str:
    """When the run began, in ISO form with a time zone."""
    return str(run.manifest.get("started") or "1970-01-01T00:00:00+00:00")

"""`harness judge RUN... --model NAME`: a model decides which stored answers are right; agreement with other scores.

exit 0 all judged · 2 a mistake, nothing was judged · 3 some answers, or runs, could not be judged · 130 interrupted
"""

from __future__ import annotations

import json as json_
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from harness.cli.command import choice, execution, setting
from harness.cli.options import Json, MovedData, Runs, parse_sets
from harness.cli.output import columns, mean_text, say
from harness.cli.stopping import until_interrupted
from harness.errors import HarnessError, UserError
from harness.storage.home import check_home
from harness.storage.named_runs import run_folders
from harness.storage.paths import without_home
from harness.storage.run_folder import MANIFEST, read_json, read_run
from harness.types import Example

if TYPE_CHECKING:
    from harness.engine.judge_run import Judged
    from harness.engine.model_judge import Judge

_COUNTS = {
    "asked": "asked",
    "cached": "from the cache",
    "unclear": "replies neither yes nor no, scored 0",
    "empty": "empty answers, scored 0",
    "without_gold": "without gold answer, scored 0",
    "failed_questions": "failed questions, scored 0",
}


def judge(
    runs: Runs,
    model: Annotated[
        str | None,
        choice(
            "--model NAME",
            "Model that judges: a preset (harness list models), a model folder, or a hub id. Without it nothing is "
            "judged; the judges that the runs have are compared.",
            complete="models",
        ),
    ] = None,
    sets: Annotated[
        list[str] | None, setting("--set KEY=VALUE ...", "Any setting of the model: model.base_url=URL.")
    ] = None,
    prompt: Annotated[
        str | None, setting("--prompt FILE", "Another prompt, with {question}, {answers} and {answer}.")
    ] = None,
    name: Annotated[
        str | None, setting("--name NAME", "Name of the judge; its score is judge.NAME.", "the model's")
    ] = None,
    max_tokens: Annotated[
        int | None, setting("--max-tokens N", "Length of a reply; more for a model that thinks first.", "32", min=1)
    ] = None,
    data: MovedData = None,
    parallel: Annotated[int, execution("--parallel N", "Answers to judge at a time.", min=1)] = 1,
    json: Json = False,
) -> int:
    """Let a model decide for each stored answer whether it is right.

    The model sees question, gold answers and answer, and its scores (1 or 0) are stored beside those of the scorers;
    replies are kept, so the same command asks only for what is missing. Prints how far judges and headline score agree.
    """
    folders = run_folders(runs)
    if model is None:
        if sets or prompt or name or max_tokens:
            raise UserError("name the model that judges with --model NAME; without it no answer is judged")
        found = {folder: agreement for folder in folders if (agreement := _agreement(folder))}
        if not found:
            raise UserError("no model has judged these runs yet; name one with --model NAME")
        for folder, pairs in found.items():
            print(json_.dumps({"run": str(folder), "agreement": pairs}) if json else f"{folder}\n{_table(pairs)}")
        return 0
    check_home()
    from harness.engine.model_judge import make_judge
    from reports.gold_rows import examples_of

    examples = {folder: examples_of(read_run(folder), data) for folder in folders}
    chosen = make_judge(model, parse_sets(sets or []), prompt, name, max_tokens)
    judges = {folder: chosen.for_questions(asked, prompt, max_tokens) for folder, asked in examples.items()}
    work = partial(_judge_all, examples, judges, parallel, json)
    return until_interrupted(work, "interrupted; what was judged is saved")


def _judge_all(examples: dict[Path, dict[str, Example]], judges: dict[Path, Judge], parallel: int, json: bool) -> int:
    """Judge every run; a model that can judge no more ends the work. Returns the exit code.

    examples: run folder -> question id -> example; judges: run folder -> its judge; parallel: answers at a time.
    """
    from harness.engine.judge_run import judge_run
    from harness.engine.progress import default_progress

    code = 0
    for number, (folder, questions) in enumerate(examples.items()):
        chosen = judges[folder]
        if chosen.published:
            say(f"note: {folder}: the prompts of {chosen.published.source}")
        if without_home(dict(chosen.identity)) in (read_json(folder / MANIFEST).get("models") or {}).values():
            say(f"note: {folder}: {chosen.name} is a model of this run; models tend to prefer their own answers")
        try:
            judged = judge_run(folder, questions, chosen, parallel=parallel, progress=default_progress())
        except HarnessError as error:
            say(f"error: {folder}: {error}")
            if isinstance(error, UserError) and not error.midway and not number:
                return 2
            say("what was judged is saved; the same command asks for the rest")
            return 3
        _print_judged(folder, chosen.name, judged, json)
        code = 3 if judged.failures else code
    return code


def _print_judged(folder: Path, name: str, judged: Judged, json: bool) -> None:
    """Print the results of the judge `name` on a run: its score, answers not judged, its agreement with others."""
    from harness.engine.model_judge import EMPTY, FAILED, NO_GOLD, UNCLEAR

    agreement = _agreement(folder)
    counts = {
        "asked": judged.replied - judged.cached,
        "cached": judged.cached,
        "unclear": judged.count(UNCLEAR),
        "empty": judged.count(EMPTY),
        "without_gold": judged.count(NO_GOLD),
        "failed_questions": judged.count(FAILED),
        "not_judged": len(judged.failures),
    }
    score = judged.summary["scores"].get(name) if judged.summary else None
    if json:
        usage = {key: judged.usage.get(key, 0) for key in ("tokens_in", "tokens_out")}
        told = {"run": str(folder), "judge": name, "score": score, **counts, **usage, "agreement": agreement}
        print(json_.dumps(told), flush=True)
    else:
        parts = [f"{counts[key]} {text}" for key, text in _COUNTS.items() if counts[key]]
        read, written = (judged.usage.get(key, 0) for key in ("tokens_in", "tokens_out"))
        print(f"{folder}\n  {name}  {mean_text(score) if score else '-'}\n  {', '.join(parts) or 'nothing judged'}")
        print(f"  all replies: {read:,} tokens read, {written:,} written")
        print(_table(agreement), flush=True)
    if 2 * counts["unclear"] > judged.replied:
        say(f"warning: most replies of {name} are neither yes nor no; use a larger model, or another prompt (--prompt)")
    if judged.failures:
        question, why = next(iter(judged.failures.items()))
        total = len(judged.judgements) + len(judged.failures)
        say(
            f"error: {folder}: {len(judged.failures)} of {total} answers were not judged; the first, that of "
            f"'{question}': {why}  (the same command asks for them again)"
        )


def _agreement(folder: Path) -> list[dict[str, Any]]:
    from reports.judges import judge_agreements

    return judge_agreements(read_run(folder))


def _table(agreement: list[dict[str, Any]]) -> str:
    """Percent agreement and Cohen's kappa of each pair of reports.judges.judge_agreements, in aligned columns."""
    from reports.judges import RIGHT

    judges = {pair["a"] for pair in agreement}
    rows = [("  agreement on which answers are right", "n", "percent", "kappa")]
    for pair in agreement:
        b = pair["b"] if pair["b"] in judges else f"{pair['b']} (right from {RIGHT:g})"
        share = "-" if pair["share"] is None else f"{100 * pair['share']:.1f}"
        kappa = "-" if pair["kappa"] is None else f"{pair['kappa']:.2f}"
        rows.append((f"  {pair['a']} and {b}", str(pair["n"]), share, kappa))
    return columns(rows, widest=90)

"""`harness judge RUN... --model NAME`: a model judges stored answers; agreement with other scores
and hand labels.

exit 0 all judged · 2 a mistake, nothing was judged · 3 some answers, or runs, could not be judged ·
130 interrupted
"""

from __future__ import annotations

import json as json_
from functools import partial
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Annotated

from harness.cli.command import choice, execution, setting
from harness.cli.options import Json, MovedData, Runs
from harness.cli.output import mean_text, say
from harness.cli.stopping import until_interrupted
from harness.cli.table_output import columns
from harness.config.yaml_tree import parse_assignments
from harness.errors import HarnessError, UserError
from harness.storage.files import check_home
from harness.storage.named_runs import run_folders
from harness.storage.paths import without_home
from harness.storage.run_files import MANIFEST, read_json
from harness.storage.run_folder import read_run
from harness.types import Example

if TYPE_CHECKING:
    from harness.judging.judge_run import Judged
    from harness.judging.model_judge import Judge
    from reports.judges import Raters

_COUNTS = {
    "asked": "asked",
    "cached": "from the cache",
    "unclear": "replies without a verdict, scored 0",
    "empty": "empty answers, scored 0",
    "without_gold": "without gold answer, not scored",
    "without_text": "shown no text, scored 0",
    "failed_questions": "failed questions, scored 0",
}


def judge(
    runs: Runs,
    model: Annotated[
        str | None,
        choice(
            "--model NAME",
            "Model that judges: a preset (harness list models), a model folder, or a hub id. "
            "Without it nothing is "
            "judged; the judges that the runs have are compared.",
            complete="models",
        ),
    ] = None,
    sets: Annotated[
        list[str] | None,
        setting("--set KEY=VALUE ...", "Any setting of the model: model.base_url=URL."),
    ] = None,
    kind: Annotated[
        str,
        setting(
            "--kind NAME",
            "What is judged: correctness (beside the gold answers), faithfulness (whether what was "
            "shown supports the "
            "answer), relevance (whether what was shown answers the question) or rubric (what "
            "--prompt and --scale say).",
        ),
    ] = "correctness",
    prompt: Annotated[
        str | None,
        setting(
            "--prompt FILE",
            "Another prompt, with the placeholders of the kind: {question}, {answers}, {answer}.",
        ),
    ] = None,
    scale: Annotated[
        str | None,
        setting(
            "--scale LOW-HIGH",
            "With --prompt, a rubric: the reply is a number, perhaps in brackets behind an argument; "
            "placeholders as wanted, also {shown}.",
        ),
    ] = None,
    labels: Annotated[
        str | None,
        setting(
            "--labels FILE",
            "Labels by hand (.jsonl, .csv: question_id, label), to print the agreement with.",
        ),
    ] = None,
    name: Annotated[
        str | None,
        setting("--name NAME", "Name of the judge; its score is judge.NAME.", "the model's"),
    ] = None,
    max_tokens: Annotated[
        int | None,
        setting(
            "--max-tokens N",
            "Length of a reply; more for a model that thinks first.",
            "32, of a rubric 1024, of published prompts as they say",
            min=1,
        ),
    ] = None,
    data: MovedData = None,
    parallel: Annotated[
        int, execution("--parallel N", "Answers to judge at a time.", min=1, max=4096)
    ] = 1,
    json: Json = False,
) -> int:
    """Let a model judge each stored answer: whether it is right, faithful, or by a rubric.

    Its scores (0 to 1) are stored beside those of the scorers; replies are kept, so the same
    command asks only for what is missing. Prints the prompt, what the judge cost, and how far
    judges, headline score and labels agree.
    """
    from reports.judges import read_labels

    hand_labels = read_labels(Path(labels), _print_note) if labels else {}
    folders = run_folders(runs)
    if model is None:
        if sets or prompt or name or max_tokens or scale or kind != "correctness":
            raise UserError(
                "name the model that judges with --model NAME; without it no answer is judged"
            )
        agreements = {
            folder: agreement
            for folder in folders
            if (agreement := _agreements(folder, hand_labels))
        }
        if not agreements:
            raise UserError("no model has judged these runs yet; name one with --model NAME")
        for folder, pairs in agreements.items():
            text = f"{folder}\n{_agreement_table(pairs)}"
            print(
                json_.dumps({"run": str(folder), "agreement": [pair.columns() for pair in pairs]})
                if json
                else text
            )
        return 0
    check_home()
    from harness.judging.model_judge import make_judge
    from reports.gold_rows import examples_of

    examples = {folder: examples_of(read_run(folder), data) for folder in folders}
    base_judge = make_judge(
        model, parse_assignments(sets or [], "--set "), prompt, name, max_tokens, kind, scale
    )
    judges = {
        run: base_judge.for_questions(asked, prompt, max_tokens) for run, asked in examples.items()
    }
    if not json:
        say(
            f"prompt ({base_judge.kind}, {base_judge.prompt_version}):\n"
            + indent(base_judge.prompt.text, "  | ")
        )
    work = partial(_judge_all, examples, judges, parallel, hand_labels, json)
    return until_interrupted(work, "interrupted; what was judged is saved")


def _judge_all(
    examples: dict[Path, dict[str, Example]],
    judges: dict[Path, Judge],
    parallel: int,
    labels: dict[str, str],
    json: bool,
) -> int:
    """Judge every run; a model that can judge no more ends the work. Returns the exit code.

    examples: run folder -> question id -> example; judges: run folder -> its judge; parallel:
    answers at a time;
    labels: by hand.
    """
    from harness.engine.progress_line import ProgressLine
    from harness.judging.judge_run import judge_run

    code = 0
    for number, (folder, questions) in enumerate(examples.items()):
        model_judge = judges[folder]
        if model_judge.published:
            say(f"note: {folder}: the prompts of {model_judge.published.source}")
        if (
            without_home(dict(model_judge.identity))
            in (read_json(folder / MANIFEST).get("models") or {}).values()
        ):
            say(
                f"note: {folder}: {model_judge.name} is a model of this run; models tend to prefer "
                "their own answers"
            )
        try:
            judged = judge_run(
                folder, questions, model_judge, parallel=parallel, progress=ProgressLine()
            )
        except HarnessError as error:
            say(f"error: {folder}: {error}")
            if isinstance(error, UserError) and not error.midway and not number:
                return 2
            say("what was judged is saved; the same command asks for the rest")
            return 3
        _print_judged(folder, model_judge, judged, labels, json)
        code = 3 if judged.failures else code
    return code


def _print_judged(
    folder: Path, judge: Judge, judged: Judged, labels: dict[str, str], json: bool
) -> None:
    """Print the results of a judge on a run: its score, answers not judged, its cost, its agreement
    with others."""
    from harness.cost import usage as costs
    from harness.cost.units import money
    from harness.judging.kinds import UNCLEAR
    from harness.judging.model_judge import EMPTY, FAILED, NO_GOLD, NO_TEXT

    name, agreement = judge.name, _agreements(folder, labels)
    counts = {
        "asked": judged.replied - judged.cached,
        "cached": judged.cached,
        "unclear": judged.count(UNCLEAR),
        "empty": judged.count(EMPTY),
        "without_gold": judged.count(NO_GOLD),
        "without_text": judged.count(NO_TEXT),
        "failed_questions": judged.count(FAILED),
        "not_judged": len(judged.failures),
    }
    score = judged.summary["scores"].get(name) if judged.summary else None
    paid = (
        costs.money(judged.usage, {"model": judge.config.model_dump()})
        if judge.config.price
        else None
    )
    if json:
        usage = {key: judged.usage.get(key, 0) for key in ("tokens_in", "tokens_out")} | {
            "money": paid
        }
        line = {
            "run": str(folder),
            "judge": name,
            "score": score,
            **counts,
            **usage,
            "agreement": [pair.columns() for pair in agreement],
        }
        print(json_.dumps(line), flush=True)
    else:
        parts = [f"{counts[key]} {text}" for key, text in _COUNTS.items() if counts[key]]
        read, written = (judged.usage.get(key, 0) for key in ("tokens_in", "tokens_out"))
        print(
            f"{folder}\n  {name}  {mean_text(score) if score else '-'}\n  "
            f"{', '.join(parts) or 'nothing judged'}"
        )
        spent = "" if paid is None else f", {money(paid)} in money"
        print(f"  all replies: {read:,} tokens read, {written:,} written{spent}")
        print(
            _agreement_table(agreement) if agreement else "",
            end="\n" if agreement else "",
            flush=True,
        )
    if 2 * counts["unclear"] > judged.replied:
        say(
            f"warning: most replies of {name} hold no verdict; use a larger model, or another "
            "prompt (--prompt)"
        )
    if judged.failures:
        question, reason = next(iter(judged.failures.items()))
        total = len(judged.judgements) + len(judged.failures)
        say(
            f"error: {folder}: {len(judged.failures)} of {total} answers were not judged; the "
            "first, that of "
            f"'{question}': {reason}  (the same command asks for them again)"
        )


def _print_note(sentence: str) -> None:
    say(f"note: {sentence}")


def _agreements(folder: Path, labels: dict[str, str]) -> list[Raters]:
    from reports.judges import judge_agreements, label_agreements

    run = read_run(folder)
    return [*judge_agreements(run), *label_agreements(run, labels)]


def _agreement_table(pairs: list[Raters]) -> str:
    """Percent agreement and Cohen's kappa of each pair of raters, in aligned columns."""
    rows = [("  agreement", "n", "percent", "kappa")]
    judges = {pair.first for pair in pairs}
    rows += [_agreement_row(pair, judges) for pair in pairs]
    return columns(rows, widest=90)


def _agreement_row(pair: Raters, judges: set[str]) -> tuple[str, str, str, str]:
    """The cells of a pair; judges: names of raters that are no scores."""
    from reports.judges import LABELS, RIGHT

    found = pair.agreement
    second = pair.second
    if second not in judges and second != LABELS:
        second = f"{second} (right from {RIGHT:g})"
    share, kappa = "-", "-"
    if found.share is not None:
        share = f"{100 * found.share:.1f}"
    if found.kappa is not None:
        kappa = f"{found.kappa:.2f}"
    return f"  {pair.first} and {second}", str(found.n), share, kappa

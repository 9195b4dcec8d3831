"""What does not fit in one run: its files against the checksums of its end, its settings against
the hash in its name, its records against its method, its times against the clock.

    misfits(run, examine(run))
        -> ["records.jsonl was changed after the run ended",
            "3 of 8 records have several requests, where the method makes one"]

A sentence says what was found, not why: an edit, damage, or another version of this program. What
fits can still be made up; only a run of one's own shows that.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path

import numpy as np

from harness.config.schema import canonical_json
from harness.config.yaml_tree import flatten
from harness.engine.run_hash import recorded_inputs
from harness.errors import DataError
from harness.stats import INTERVAL_RULE
from harness.stats.bootstrap import Interval, interval
from harness.storage.checksums import changed_files
from harness.storage.kept_requests import StoredRequest, read_requests
from harness.storage.manifest_file import RunManifest
from harness.storage.records import IndexLine, StoredRecord, read_records
from harness.storage.run_files import RECORDS, REQUESTS
from harness.storage.run_folder import StoredRun
from harness.storage.run_summary import summarise
from harness.storage.stored_config import StoredConfig
from harness.storage.summary_file import ScoreMean
from harness.types import LOGGED_SCORE_PREFIX
from reports.clock import clock_misfits, date_misfits
from reports.declared import Declared, declared
from reports.differences import facts_of, kind_of, weights_of
from reports.examined import Examined, index_problems
from reports.run_presets import mark_misfits, preset_gaps
from reports.run_records import count_failed

_IN_IDENTITY = {
    "dtype": "auto",
    "attention": "sdpa",
    "window": None,
    "template_date": None,
    "thinking": None,
    "extra": None,
    "deterministic": None,
}
"""Settings of a loaded reader that its identity holds as they are, and their defaults."""
_HASHED = re.compile(
    r"dataset\.(instruction|answer_prefix|demonstration|max_answer_tokens|raw_replies|chat|swap)"
    r"|dataset\.answer_schema\.form(\..*)?"
    r"|seed|failed|model\.(temperature|top_p|max_tokens|batch)"
    rf"|model\.({'|'.join(_IN_IDENTITY)})(\..*)?"
)
"""Settings that the hash or the reader's identity covers."""
_ENCODERS = {"encoder"}  # roles that an index of any text asks
_FLAGS = ("model.name", "model.embedded", "model.small", "model.logprobs", "model.keep_thinking")
"""Settings that no hash covers at any value, the default included."""
_IN_FLIGHT = 64  # questions that may be begun before the first prompt is sent
_STATIC = 12  # characters of a prompt that are enough to know it by
_LONGEST_REPLY = 20_000  # characters of the end of a reply
_LEAST_KNOWN = 3  # characters beside a question that are enough to find it by
_FIELD = re.compile(r"\{[a-z_]+\}")
_NAME = re.compile(r".+--([0-9a-f]{8})")


def misfits(run: StoredRun, found: Examined) -> list[str]:
    """What does not fit in a run, a sentence each; [] where all fits.

    Args:
        run: A stored run.
        found: What `examine` found in its records.
    """
    own = run.whole_run or run
    return [*file_misfits(own), *record_misfits(own, found)]


def file_misfits(run: StoredRun) -> list[str]:
    """What does not fit between the files of a whole run, its names, and today's date; a sentence
    each."""
    return [
        *_file_misfits(run),
        *_name_misfits(run),
        *date_misfits(run.manifest),
        *mark_misfits(run),
    ]


def record_misfits(run: StoredRun, found: Examined) -> list[str]:
    """What does not fit in the records of a whole run, and between them and its other files.

    Args:
        run: A whole run, not a part of one.
        found: What `examine` found in its records.

    Returns:
        A sentence each: "3 of 8 records have several requests, where the method makes one".
    """
    total = len(run.records)
    sentences = [f"{n} of {total} records have {what}" for what, n in found.problems.items()]
    sentences += clock_misfits(run, *found.seconds.tolist())
    sentences += _count_misfits(run)
    sentences += _score_misfits(run)
    sentences += _index_misfits(run)
    sentences += _size_misfits(run)
    sentences += _judge_misfits(run)
    sentences += misfits_outside_bundles(run)
    sentences += _prompt_misfits(run)
    sentences += _first_question_misfits(run)
    sentences += _example_misfits(run)
    return sentences


def unchecked(run: StoredRun, found: Examined) -> list[str]:
    """What could not be checked of a run as it does not record it, a phrase each.

        -> ["whether its files are as the run left them", "gold answers and question texts"]

    Args:
        run: A stored run; of a part of a run, the whole is looked at.
        found: What `examine` found in its records.

    Returns:
        The phrases; [] for an imported run.
    """
    own = run.whole_run or run
    phrases: list[str] = []
    if own.manifest.imported is not None:
        return phrases
    if changed_files(own.path, own.manifest, own.summary) is None:
        phrases.append("whether its files are as the run left them")
    if recorded_inputs(own.config, own.manifest) is None:
        phrases.append("whether its settings are those of the hash in its name")
    if declared(own) is None:
        phrases.append("whether its records are of its method")
    phrases += preset_gaps(own)
    loose = _loose_settings(own)
    if loose:
        phrases.append(f"settings that no hash covers ({', '.join(loose)})")
    changes = [sorted(start.changed_keys) for start in own.manifest.starts]
    phrases += [f"what a change of {', '.join(keys)} did" for keys in changes if keys]
    if not found.has_texts:
        phrases.append("gold answers and question texts")
    elif _lacks_first_prompt(own):
        phrases.append("what was asked, as no first prompt is recorded")
    return phrases


def _lacks_first_prompt(run: StoredRun) -> bool:
    """Whether the manifest has no first prompt of the reader, though the method asks a model for
    each answer."""
    if run.manifest.hashed is None or run.manifest.first_prompts:
        return False
    declaration = declared(run)
    return declaration is not None and declaration.one_request and not declaration.asks_application


def _loose_settings(run: StoredRun) -> list[str]:
    """Settings of a run that its hash does not cover, so that an edit of them would not be noticed.

    These are keys of run.yaml that are not at their defaults and change answers or costs, and the
    flags that no hash covers at any value.
    """
    loose: dict[str, None] = {}
    for key in facts_of(run):
        if key.startswith("manifest.") or _HASHED.fullmatch(key):
            continue
        if kind_of(key) in ("answers", "cost"):
            loose[key] = None
    loose.update(dict.fromkeys(_FLAGS))
    return list(loose)


def _file_misfits(run: StoredRun) -> Iterator[str]:
    """Yield a sentence on files that were changed after the run ended, and on files that had been
    changed before a later command wrote to the folder."""
    names = changed_files(run.path, run.manifest, run.summary) or []
    if len(names) == 1:
        yield f"{names[0]} was changed after the run ended"
    elif names:
        yield f"{', '.join(names)} were changed after the run ended"
    edited = run.summary.edited
    if edited:
        yield f"{', '.join(edited)} had been changed before a later command wrote to the folder"


def _name_misfits(run: StoredRun) -> Iterator[str]:
    """Yield what does not fit between settings, manifest, and the names of method, data set and
    hash."""
    config = run.config
    manifest = run.manifest
    recorded = manifest.hash
    named = _NAME.fullmatch(run.path.name)
    inputs = recorded_inputs(config, manifest)
    if inputs is not None and inputs.hash8() != recorded:
        yield f"its settings and models give the hash {inputs.hash8()}, the recorded one is {recorded}"
    if named and recorded and named[1] != recorded:
        yield f"its folder is named {named[1]}, its manifest has the hash {recorded}"
    pairs = (
        ("method", config.method.name, manifest.method),
        ("seed", config.seed, manifest.seed),
        ("data set", config.dataset.name, manifest.dataset.name),
    )
    for what, ours, theirs in pairs:
        if theirs is not None and ours != theirs:
            yield f"run.yaml names the {what} {ours}, manifest.json {theirs}"
    declaration = declared(run)
    if (
        declaration is not None
        and declaration.floor != manifest.floor
        and manifest.hashed is not None
    ):
        yield "manifest.json says otherwise than the method whether others must beat it"
    yield from _task_misfits(config, manifest)
    yield from _swap_misfits(config, manifest)
    yield from _reader_misfits(config, manifest)


def _task_misfits(config: StoredConfig, manifest: RunManifest) -> Iterator[str]:
    """Yield what does not fit between the settings of the data set and the task that was hashed.

    Nothing where the manifest does not hold what was hashed.
    """
    if manifest.hashed is None:
        return
    task = manifest.hashed.task
    dataset = config.dataset
    instruction = str(task.get("instruction", ""))
    if not instruction.startswith(dataset.instruction or ""):
        yield "dataset.instruction is not how the questions were asked"
    stated = (
        ("max_answer_tokens", dataset.max_answer_tokens, None),
        ("raw_replies", dataset.raw_replies, False),
        ("chat", dataset.chat, True),
    )  # key, value in the settings, what a task without the key means
    for name, ours, default in stated:
        theirs = task.get(name, default)
        if ours != theirs:
            yield f"dataset.{name} is {ours}, and {theirs} was asked for"
    texts = {"answer_prefix": dataset.answer_prefix, "demonstration": dataset.demonstration}
    for name, text in texts.items():
        if text and text not in instruction:
            yield f"dataset.{name} is not how the questions were asked"
    schema = dataset.answer_schema
    if schema is not None and canonical_json(schema.form) != task.get("reply_schema"):
        yield "dataset.answer_schema is not how the questions were asked"
    examples = bool(dataset.shots or dataset.shots_ids)
    plain = task.get("instruction") == dataset.instruction and not task.get("shots")
    if examples and plain:
        yield "dataset.shots asks for solved examples, and the questions had none"


def _swap_misfits(config: StoredConfig, manifest: RunManifest) -> Iterator[str]:
    """Yield a sentence where dataset.swap asks for other names in the rows and the manifest says
    that they were not swapped, or the other way round."""
    if config.dataset.swap and not manifest.dataset.twin:
        yield "dataset.swap asks for other names, and the rows are no such copy"
    if manifest.dataset.twin and not config.dataset.swap:
        yield "the rows are called a copy with other names, and dataset.swap asks for none"


def _reader_misfits(config: StoredConfig, manifest: RunManifest) -> Iterator[str]:
    """Yield what does not fit between the reader's settings and the model that was loaded.

    Only a loaded reader is compared: models of other back ends have no "dtype" in their identity.
    """
    model = config.model_of("reader")
    identity = manifest.identity("reader")
    if "dtype" not in identity or manifest.hashed is None:
        return
    backend = model.backend or "hf"
    if backend == "endpoint":
        yield "model.backend is endpoint, and the reader was loaded"
    if backend != "hf":
        return
    settings = model.to_json()
    for name, default in _IN_IDENTITY.items():
        ours = settings.get(name, default)
        theirs = identity.get(name, default)
        if not _fits_identity(name, ours, theirs):
            yield f"model.{name} is {ours}, the reader was loaded with {theirs}"


def _fits_identity(name: str, ours: object, theirs: object) -> bool:
    """Whether a reader can have been loaded with a setting.

    Args:
        name: A key of _IN_IDENTITY.
        ours: Its value in the settings.
        theirs: Its value in the identity of the loaded reader.
    """
    if name == "attention" and theirs == "transformers":
        return True  # the fused kernel is not exact for this model, whatever the setting
    if name in ("dtype", "window") and ours in ("auto", None):
        return True  # nothing is set: the model's own value
    # False, "" and None all mean that the setting is off.
    return (ours or None) == (theirs or None)


def _count_misfits(run: StoredRun) -> Iterator[str]:
    """Yield what does not fit between the number of records and the counts of summary and
    manifest."""
    summary = run.summary
    total = len(run.records)
    failed = count_failed(run)
    if summary.n_total not in (None, total):
        yield f"summary.json has n_total {summary.n_total}, the records give {total}"
    if summary.n_failed not in (None, failed):
        yield f"summary.json has n_failed {summary.n_failed}, the records give {failed}"
    skipped = sum(run.manifest.dataset.skipped.values())
    if summary.n_asked is not None and run.manifest.imported is None:
        left = summary.n_left_out or 0
        if skipped != left:
            yield f"summary.json leaves out {left} rows, manifest.json {skipped}"
        if summary.n_asked < total + left:
            yield f"summary.json has n_asked {summary.n_asked}, with {total} records"
    if not summary.is_finished or summary.stopped_early is not None:
        return
    asked = summary.n_to_record
    planned = run.manifest.dataset.questions
    if max(asked, planned) > total and run.manifest.imported is None:
        yield f"it is called finished, with records of {total} of {max(asked, planned)} questions"


def _score_misfits(run: StoredRun) -> Iterator[str]:
    """Yield a sentence on scores that no scorer or judge gave, and on numbers of summary.json that
    the records do not give."""
    manifest = run.manifest
    given = {*manifest.scorers, *manifest.judges}
    held = {name for name in run.score_names if not name.startswith(LOGGED_SCORE_PREFIX)}
    if manifest.hashed is not None and held - given:
        yield f"no scorer or judge of its manifest gave {', '.join(sorted(held - given))}"
    yield from _summary_misfits(run)


def _summary_misfits(run: StoredRun) -> Iterator[str]:
    """Yield numbers of summary.json that the records do not give; of a summary by another version
    of the rule for intervals, only means are compared."""
    summary = run.summary
    if not summary.scores:
        return
    is_of_this_rule = summary.interval_rule == INTERVAL_RULE
    if is_of_this_rule:
        yield from _usage_misfits(run)
    for name, stated in summary.scores.items():
        found = _score_mean(run, name)
        if found is not None:
            yield from _mean_misfits(name, stated, found, is_of_this_rule)


def _score_mean(run: StoredRun, name: str) -> Interval | None:
    """The mean of a score as a summary has it: failed questions count by what their records say;
    None where no record has the score."""
    columns = run.columns
    if name not in columns.scores:
        return None
    counted = ~np.isnan(columns.scores[name])
    if run.config.failed != "zero":
        counted &= columns.answered
    values = columns.scores[name][counted]
    clusters = columns.clusters[counted]
    return interval(values, clusters, seed=run.config.seed)


def _mean_misfits(
    name: str, stated: ScoreMean, found: Interval, with_interval: bool
) -> Iterator[str]:
    """Yield what of a score's mean in summary.json the records do not give.

    Args:
        name: The name of the score.
        stated: Its mean and interval in summary.json.
        found: Its mean and interval over the records.
        with_interval: Whether the interval is compared, too.
    """
    if with_interval and not _is_same(stated.high, found.high):
        yield f"summary.json has {name} high {stated.high}, the records give {found.high}"
    if with_interval and not _is_same(stated.low, found.low):
        yield f"summary.json has {name} low {stated.low}, the records give {found.low}"
    if not _is_same(stated.mean, found.mean):
        yield f"summary.json has {name} {stated.mean}, the records give {found.mean}"


def _usage_misfits(run: StoredRun) -> Iterator[str]:
    """Yield one sentence on the first cost of summary.json that records and indexes do not give."""
    answered = run.columns.answered
    theirs = flatten(summarise((), run.index_lines, run.config).index.to_json(), "index")
    spent = run.columns.usage_sum(answered)
    if spent:
        for key, total in flatten(spent, "usage").items():
            theirs[key] = float(str(total)) / int(answered.sum())
    ours = flatten({"usage": run.summary.usage, "index": run.summary.index.to_json()})
    for key in {**ours, **theirs}:
        stated = ours.get(key)
        found = theirs.get(key)
        if not _is_same(stated, found):
            yield f"summary.json has {key} {stated}, the records give {found}"
            return


def _is_same(stored: object, here: object) -> bool:
    """Whether two numbers are equal but for rounding, where an absent value is 0; True for values
    that are no numbers, which are not compared."""
    stored = _zero_if_absent(stored)
    here = _zero_if_absent(here)
    if not isinstance(stored, int | float) or not isinstance(here, int | float):
        return True
    return math.isclose(stored, here, rel_tol=1e-6, abs_tol=1e-9)


def _zero_if_absent(value: object) -> object:
    """The value; 0.0 for None, {} and NaN."""
    if value is None or value == {} or value != value:
        return 0.0
    return value


def _index_misfits(run: StoredRun) -> Iterator[str]:
    """Yield what does not fit between the costs of indexes and what the method declares of them."""
    declaration = declared(run)
    costs: set[float] = set()
    for line in run.index_lines:
        for used in line.usage.values():
            costs.add(used.get("tokens_in") or 0)
    if min(costs, default=0) < 0:
        yield "an index has costs below zero"
    if declaration is None:
        return
    if not declaration.indexes and any(costs):
        yield "indexes have costs, and the method builds none"
    if declaration.one_request and _used_reader(run):
        yield "indexes have requests to a language model, and the method makes none for them"
    if declaration.indexes and run.records and not run.index_lines:
        yield "the method builds indexes, and documents.jsonl has none"
    total = len(run.index_lines)
    for what, number in index_problems(run).items():
        yield f"{number} of {total} indexes have {what}"
    free = _free_indexes(run, declaration)
    if free:
        roles = " and ".join(sorted(declaration.index_models))
        yield f"{free} of {total} indexes have no request, and the method asks its {roles} for each"


def _free_indexes(run: StoredRun, declaration: Declared) -> int:
    """How many indexes took no request, where the method asks a model for each.

    A text of one part may need no summary; so for a method that asks no encoder, they only count if
    all indexes took none.
    """
    if not declaration.indexes or not declaration.index_models or run.manifest.hashed is None:
        return 0
    lines = [line for line in run.index_lines if not line.failed]
    free = [line for line in lines if not _requests_of(line)]
    if declaration.index_models & _ENCODERS or len(free) == len(lines):
        return len(free)
    return 0


def _requests_of(line: IndexLine) -> float:
    """The number of requests to any model that building an index took."""
    total = 0.0
    for used in line.usage.values():
        total += used.get("requests") or 0
    return total


def misfits_outside_bundles(run: StoredRun) -> Iterator[str]:
    """Yield what does not fit in the parts of a run that bundles leave out: earlier records of
    questions, and kept requests."""
    again = _answered_again(run)
    if again:
        yield f"{again} of its questions were answered, and then answered otherwise"
    yield from _reply_misfits(run)


def _answered_again(run: StoredRun) -> int:
    """How many questions have an answer in records.jsonl other than their first one.

    A question that failed is asked again; one that was answered never is.
    """
    path = run.path / RECORDS
    if not path.is_file() or _count_lines(path) == len(run.records):
        return 0
    answers: dict[str, str] = {}
    again = set()
    for record in read_records(path):
        said = record.prediction
        if record.error is None and answers.setdefault(record.question_id, said) != said:
            again.add(record.question_id)
    return len(again)


def _judge_misfits(run: StoredRun) -> Iterator[str]:
    """Yield a sentence for each judge that gave verdicts without a request."""
    for name, judge in run.manifest.judges.items():
        if sum(judge.verdicts.values()) and not judge.usage.get("requests"):
            yield f"{name} gave verdicts, and no request of it is recorded"


def _reply_misfits(run: StoredRun) -> Iterator[str]:
    """Yield a sentence on answers that are in none of the replies that the run kept
    (--keep-prompts).

    Only for methods whose answer is one reply; nothing where the file of requests is torn.
    """
    declaration = declared(run)
    if declaration is None or not declaration.one_request or not (run.path / REQUESTS).is_file():
        return
    ids = run.columns.id_set
    try:
        kept = read_requests(run.path, ids, _end_of)
    except (DataError, OSError):
        return  # it was torn by a kill; nothing else is read from it
    others = 0
    for record in run.records_with_texts:
        replies = [row.reply for row in kept.get(record.question_id, ()) if _is_answer(row)]
        if not replies or record.error is not None:
            continue
        answer = _spaced(record.prediction)
        if not any(answer in _spaced(reply) for reply in replies):
            others += 1
    if others:
        yield f"{others} of {len(run.records)} answers are in none of the replies that it kept"


def _is_answer(request: StoredRequest) -> bool:
    """Whether a kept request is one whose reply is the answer of a question."""
    return request.kind == "write" and request.phase == "answer"


def _end_of(text: str) -> str:
    """The last 20,000 characters of a reply, in which its answer is looked for."""
    return text[-_LONGEST_REPLY:]


def _spaced(text: str) -> str:
    """The text with single spaces in place of any white space."""
    return " ".join(text.split())


def _count_lines(path: Path) -> int:
    """The number of lines of a file."""
    with open(path, "rb") as file:
        return sum(1 for _ in file)


def _size_misfits(run: StoredRun) -> Iterator[str]:
    """Yield a sentence for each role that shares its weights with another role and is recorded with
    other sizes."""
    sizes: dict[str, Mapping[str, object]] = {}
    for role, shape in run.manifest.shapes.items():
        weights = weights_of(run, role)
        if weights is None or not shape:
            continue
        if sizes.setdefault(weights, shape) != shape:
            yield f"the {role} has the weights of another role, and other sizes"


def _used_reader(run: StoredRun) -> bool:
    """Whether building any index of the run sent requests to a language model."""
    for line in run.index_lines:
        for used in line.usage.values():
            if (used.get("requests") or 0) > (used.get("encoder_requests") or 0):
                return True
    return False


def _prompt_misfits(run: StoredRun) -> Iterator[str]:
    """Yield a sentence for each role whose first prompt holds no part of any recorded prompt.

    Roles whose model scores plain texts are left out.
    """
    declaration = declared(run)
    scoring: frozenset[str] = frozenset()
    if declaration is not None:
        scoring = declaration.scoring_roles
    prompts = run.manifest.prompts
    parts: list[str] = []
    for prompt in prompts.values():
        parts += _static_parts(prompt)
    for role, first in run.manifest.first_prompts.items():
        text = first.text or ""
        if role in scoring:
            continue
        if text and parts and not any(part in text for part in parts):
            yield f"the first prompt of the {role} is none of the recorded prompts"


def _first_question_misfits(run: StoredRun) -> Iterator[str]:
    """Yield what does not fit between the reader's first prompt and the records.

    Only for a method that asks each question in one request, and where no question failed.
    """
    declaration = declared(run)
    first = run.manifest.first_prompt("reader")
    if declaration is None or not declaration.one_request or not first.text:
        return
    if run.columns.failed.any():
        return  # the prompt may be that of a question that failed
    if first.ids and not _has_request_of(run, len(first.ids)):
        yield f"the first prompt has {len(first.ids)} tokens, and no request of a record has as many"
    if not _asks_first_question(run, first.text):
        yield "the first prompt asks none of its first questions, or more than the question"


def _has_request_of(run: StoredRun, tokens: int) -> bool:
    """Whether the one request of some record read this many tokens.

    True also where searches have requests too, so that the records do not tell.
    """
    if run.columns.cost("search", "requests").any():
        return True
    return tokens in run.columns.usage.get(("answer", "tokens_in"), np.array([]))


def _asks_first_question(run: StoredRun, prompt: str) -> bool:
    """Whether the first prompt asks a question of the first records and nothing else; True also
    where this cannot be read from it."""
    asked = _question_in(prompt, run.manifest.prompts)
    if asked is None or run.config.dataset.answer_prefix:
        return True
    first_records = [record for record in _first_records(run) if record.question]
    if not first_records:
        return True
    return any(_is_question(asked, r.question, bool(r.options)) for r in first_records)


def _first_records(run: StoredRun) -> Iterator[StoredRecord]:
    """The first 64 records, as written: one of their questions had the first prompt, as so many may
    begin before it is sent."""
    records: Iterable[StoredRecord] = run.records
    if run.is_in_file:
        records = read_records(run.path / RECORDS)
    return islice(records, _IN_FLIGHT)


def _question_in(text: str, prompts: Mapping[str, str]) -> str | None:
    r"""What stands at the place of {question} (and {options}) in a prompt that was sent.

        "Text: A B\n\nQuestion: Who?\nAnswer:", {"ask": "Text: {text}\n\nQuestion:
            {question}\nAnswer:"}
            -> "Who?"

    Args:
        text: The prompt that was sent.
        prompts: Name -> template of the recorded prompts.

    Returns:
        The text; None where no template fits.
    """
    for prompt in prompts.values():
        before, field, after = prompt.partition("{question}")
        if not field:
            continue
        lead = _FIELD.split(before)[-1]
        end = _FIELD.split(after.removeprefix("{options}"))[0]
        question = _between(text, lead, end)
        if question is not None:
            return question
    return None


def _between(text: str, lead: str, end: str) -> str | None:
    r"""What stands between the last `lead` and the next `end` in a text.

        ("Question: Who?\nAnswer:", "Question: ", "\nAnswer:")      -> "Who?"

    Args:
        text: A prompt that was sent.
        lead: What comes before, in the prompt's template.
        end: What comes after.

    Returns:
        The text between; None where one of the two is missing or too short to find it by.
    """
    if len(lead) < _LEAST_KNOWN or len(end) < _LEAST_KNOWN or lead not in text:
        return None
    start = text.rfind(lead) + len(lead)
    stop = text.find(end, start)
    if stop < 0:
        return None
    return text[start:stop]


def _is_question(asked: str, question: str | None, has_options: bool) -> bool:
    """Whether a prompt asks this question alone.

    Args:
        asked: What stands in the place of the question in the prompt.
        question: The question.
        has_options: Whether it has options, which may follow it.
    """
    return asked == question or (has_options and asked.startswith(f"{question}\n"))


def _static_parts(prompt: str) -> list[str]:
    r"""The texts of a prompt's template between its fields, those of at least 12 characters.

    "Read:\n{text}\n\nNow the question: {question}"      -> ["\n\nNow the question: "]
    """
    return [part for part in _FIELD.split(prompt) if len(part.strip()) >= _STATIC]


def _example_misfits(run: StoredRun) -> Iterator[str]:
    """Yield a sentence on solved examples of the prompt that are among the questions asked."""
    dataset = run.config.dataset
    shared = set(dataset.shots_ids).intersection(run.columns.ids)
    if shared and dataset.shots_from in (dataset.split, dataset.data):
        yield f"{len(shared)} of its solved examples are among the questions asked"

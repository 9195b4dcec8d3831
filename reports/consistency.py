"""What does not fit in one run: its files against the checksums of its end, its settings against
the hash in its name, its records against its method, its times against the clock.

    inconsistencies(run, examine(run))
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
from typing import cast

import numpy as np

from harness.config.applications import APPLICATION
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
from reports.clock import clock_inconsistencies, date_inconsistencies
from reports.declared import MethodDeclaration, method_declaration
from reports.differences import comparable_values, kind_of_difference, weights_identity
from reports.examined import Examined, index_problems
from reports.recount import recount_inconsistencies
from reports.run_presets import preset_inconsistencies, unchecked_by_preset
from reports.run_records import count_failed

_IDENTITY_DEFAULTS = {
    "dtype": "auto",
    "attention": "sdpa",
    "window": None,
    "template_date": None,
    "thinking": None,
    "extra": None,
    "deterministic": None,
}
"""Settings of a loaded reader that its identity holds as they are, and their defaults."""
_HASHED_KEY = re.compile(
    r"dataset\.(instruction|answer_prefix|demonstration|max_answer_tokens|raw_replies|chat|swap)"
    r"|dataset\.answer_schema\.form(\..*)?"
    r"|seed|failed|model\.(temperature|top_p|max_tokens|batch)"
    rf"|model\.({'|'.join(_IDENTITY_DEFAULTS)})(\..*)?"
)
"""Settings that the hash or the reader's identity covers."""
_ENCODER_ROLES = {"encoder"}  # roles that an index of any text asks
_NEVER_HASHED = (
    "model.name",
    "model.embedded",
    "model.small",
    "model.logprobs",
    "model.keep_thinking",
)
"""Settings that no hash covers at any value, the default included."""
_MAX_BEGUN_QUESTIONS = 64  # questions that may be begun before the first prompt is sent
_MIN_STATIC_CHARACTERS = 12  # characters of a prompt that are enough to know it by
_MAX_REPLY_CHARACTERS = 20_000  # characters of the end of a reply
_MIN_CHARACTERS_AROUND = 3  # characters beside a question that are enough to find it by
_TEMPLATE_FIELD = re.compile(r"\{[a-z_]+\}")
_FOLDER_NAME = re.compile(r".+--([0-9a-f]{8})")


def inconsistencies(run: StoredRun, examined: Examined) -> list[str]:
    """What does not fit in a run, a sentence each; [] where all fits.

    Args:
        run: A stored run.
        examined: What `examine` found in its records.
    """
    whole_run = run.whole_run or run
    return [*file_inconsistencies(whole_run), *record_inconsistencies(whole_run, examined)]


def file_inconsistencies(run: StoredRun) -> list[str]:
    """What does not fit between the files of a whole run, its names, and today's date; a sentence
    each."""
    return [
        *_changed_files(run),
        *_name_inconsistencies(run),
        *date_inconsistencies(run.manifest),
        *preset_inconsistencies(run),
    ]


def record_inconsistencies(run: StoredRun, examined: Examined) -> list[str]:
    """What does not fit in the records of a whole run, and between them and its other files.

    Args:
        run: A whole run, not a part of one.
        examined: What `examine` found in its records.

    Returns:
        A sentence each: "3 of 8 records have several requests, where the method makes one".
    """
    total = len(run.records)
    sentences = []
    for problem, count in examined.problems.items():
        sentences.append(f"{count} of {total} records have {problem}")
    longest_seconds, total_seconds = examined.seconds.tolist()
    sentences += clock_inconsistencies(run, longest_seconds, total_seconds)
    sentences += _count_inconsistencies(run)
    sentences += _score_inconsistencies(run)
    sentences += _index_inconsistencies(run)
    sentences += _size_inconsistencies(run)
    sentences += _judges_without_request(run)
    sentences += inconsistencies_outside_bundles(run)
    sentences += _prompt_inconsistencies(run)
    sentences += _first_question_inconsistencies(run)
    sentences += _examples_that_are_asked(run)
    sentences += recount_inconsistencies(run)
    return sentences


def unchecked_parts(run: StoredRun, examined: Examined) -> list[str]:
    """What could not be checked of a run as it does not record it, a phrase each.

        -> ["whether its files are as the run left them", "gold answers and question texts"]

    Args:
        run: A stored run; of a part of a run, the whole is looked at.
        examined: What `examine` found in its records.

    Returns:
        The phrases; [] for a run that another tool made, of which none of this is promised.
    """
    whole_run = run.whole_run or run
    phrases: list[str] = []
    if whole_run.manifest.imported is not None:
        return phrases
    changed = changed_files(whole_run.path, whole_run.manifest, whole_run.summary)
    if changed is None:  # it does not record how its files were, or has not ended
        phrases.append("whether its files are as the run left them")
    if recorded_inputs(whole_run.config, whole_run.manifest) is None:
        phrases.append("whether its settings are those of the hash in its name")
    if method_declaration(whole_run) is None:
        phrases.append("whether its records are of its method")
    phrases += unchecked_by_preset(whole_run)
    unhashed = _settings_without_hash(whole_run)
    if unhashed:
        phrases.append(f"settings that no hash covers ({', '.join(unhashed)})")
    for start in whole_run.manifest.starts:  # a later start may have other settings
        if start.changed_keys:
            phrases.append(f"what a change of {', '.join(sorted(start.changed_keys))} did")
    if not examined.has_texts:
        phrases.append("gold answers and question texts")
    elif _lacks_first_prompt(whole_run):
        phrases.append("what was asked, as no first prompt is recorded")
    return phrases


def _lacks_first_prompt(run: StoredRun) -> bool:
    """Whether the manifest has no first prompt of the reader, though the method asks a model for
    each answer."""
    if run.manifest.first_prompts or run.manifest.lacks_hashed_values:
        return False  # an older version did not record first prompts
    declaration = method_declaration(run)
    if declaration is None or declaration.asks_application:
        return False
    return declaration.one_request


def _settings_without_hash(run: StoredRun) -> list[str]:
    """Settings of a run that its hash does not cover, so that an edit of them would not be noticed.

    These are keys of run.yaml that are not at their defaults and change answers or costs, and the
    flags that no hash covers at any value.
    """
    keys: dict[str, None] = {}  # the keys serve as an ordered set
    for key in comparable_values(run):
        is_hashed = _HASHED_KEY.fullmatch(key) is not None
        if key.startswith("manifest.") or is_hashed:
            continue
        if kind_of_difference(key) in ("answers", "cost"):
            keys[key] = None
    keys.update(dict.fromkeys(_NEVER_HASHED))
    return list(keys)


def _changed_files(run: StoredRun) -> Iterator[str]:
    """Yield a sentence on files that were changed after the run ended, and on files that had been
    changed before a later command wrote to the folder."""
    changed = changed_files(run.path, run.manifest, run.summary) or []  # None: not known
    if len(changed) == 1:
        yield f"{changed[0]} was changed after the run ended"
    elif changed:
        yield f"{', '.join(changed)} were changed after the run ended"
    edited = run.summary.edited
    if edited:
        yield f"{', '.join(edited)} had been changed before a later command wrote to the folder"


def _name_inconsistencies(run: StoredRun) -> Iterator[str]:
    """Yield what does not fit between the settings and the manifest, a sentence each.

    Compared are the hash, the names of method and data set, the seed, whether the method is a
    floor, the task, whether names in the rows were swapped, and the reader.
    """
    config = run.config
    manifest = run.manifest
    yield from _hash_inconsistencies(run)
    values = (
        ("method", config.method.name, manifest.method),
        ("seed", config.seed, manifest.seed),
        ("data set", config.dataset.name, manifest.dataset.name),
    )
    for part, in_settings, in_manifest in values:
        if in_manifest is not None and in_settings != in_manifest:
            yield f"run.yaml names the {part} {in_settings}, manifest.json {in_manifest}"
    if not _is_floor_as_declared(run):
        yield "manifest.json says otherwise than the method whether others must beat it"
    yield from _task_inconsistencies(config, manifest)
    yield from _swap_inconsistencies(config, manifest)
    yield from _reader_inconsistencies(config, manifest)


def _is_floor_as_declared(run: StoredRun) -> bool:
    """Whether the manifest and the method's class agree on whether the method is a floor.

    True also for a method that is not shipped and for a run of an older version.
    """
    declaration = method_declaration(run)
    if declaration is None or run.manifest.lacks_hashed_values:
        return True
    return declaration.is_floor == run.manifest.floor


def _hash_inconsistencies(run: StoredRun) -> Iterator[str]:
    """Yield a sentence where the manifest's hash is not that of the settings and models, or not the
    one at the end of the folder's name."""
    recorded = run.manifest.hash
    inputs = recorded_inputs(run.config, run.manifest)
    if inputs is not None and inputs.hash8() != recorded:
        computed = inputs.hash8()
        yield f"its settings and models give the hash {computed}, the recorded one is {recorded}"
    folder_name = _FOLDER_NAME.fullmatch(run.path.name)
    if folder_name is None or not recorded:
        return
    if folder_name[1] != recorded:
        yield f"its folder is named {folder_name[1]}, its manifest has the hash {recorded}"


def _task_inconsistencies(config: StoredConfig, manifest: RunManifest) -> Iterator[str]:
    """Yield what does not fit between the settings of the data set and the task that the run's hash
    covers, how its questions were asked:

    {"instruction": "Answer in one word.", "max_answer_tokens": 32, "shots": 2, ...}

    Nothing where the manifest does not hold what was hashed, as in an older version.
    """
    if manifest.hashed is None:
        return
    task = manifest.hashed.task
    dataset = config.dataset
    instruction = str(task.get("instruction", ""))
    if not instruction.startswith(dataset.instruction or ""):
        yield "dataset.instruction is not how the questions were asked"
    compared_settings = (  # key, value in the settings, value of a task without the key
        ("max_answer_tokens", dataset.max_answer_tokens, None),
        ("raw_replies", dataset.raw_replies, False),
        ("chat", dataset.chat, True),
    )
    for name, in_settings, default in compared_settings:
        in_task = task.get(name, default)
        if in_settings != in_task:
            yield f"dataset.{name} is {in_settings}, and {in_task} was asked for"
    parts_of_instruction = {
        "answer_prefix": dataset.answer_prefix,
        "demonstration": dataset.demonstration,
    }
    for name, text in parts_of_instruction.items():
        if text and text not in instruction:
            yield f"dataset.{name} is not how the questions were asked"
    schema = dataset.answer_schema
    if schema is not None and canonical_json(schema.form) != task.get("reply_schema"):
        yield "dataset.answer_schema is not how the questions were asked"
    asks_for_examples = bool(dataset.shots or dataset.shots_ids)
    # examples stand in the task's instruction, or are chosen for each question ("shots")
    had_no_examples = task.get("instruction") == dataset.instruction and not task.get("shots")
    if asks_for_examples and had_no_examples:
        yield "dataset.shots asks for solved examples, and the questions had none"


def _swap_inconsistencies(config: StoredConfig, manifest: RunManifest) -> Iterator[str]:
    """Yield a sentence where dataset.swap asks for other names in the rows and the manifest says
    that they were not swapped, or the other way round."""
    if config.dataset.swap and not manifest.dataset.twin:
        yield "dataset.swap asks for other names, and the rows are no such copy"
    if manifest.dataset.twin and not config.dataset.swap:
        yield "the rows are called a copy with other names, and dataset.swap asks for none"


def _reader_inconsistencies(config: StoredConfig, manifest: RunManifest) -> Iterator[str]:
    """Yield what does not fit between the reader's settings and the model that was loaded.

    Only a loaded reader is compared: models of other back ends have no "dtype" in their identity.
    Nothing where the manifest is by an older version.
    """
    model = config.model_of("reader")
    identity = manifest.identity("reader")
    was_loaded = "dtype" in identity
    if not was_loaded or manifest.lacks_hashed_values:
        return
    backend = model.backend or "hf"
    if backend == "endpoint":
        yield "model.backend is endpoint, and the reader was loaded"
    if backend != "hf":
        return
    settings = model.to_json()
    for name, default in _IDENTITY_DEFAULTS.items():
        in_settings = settings.get(name, default)
        in_identity = identity.get(name, default)
        if not _fits_identity(name, in_settings, in_identity):
            yield f"model.{name} is {in_settings}, the reader was loaded with {in_identity}"


def _fits_identity(name: str, in_settings: object, in_identity: object) -> bool:
    """Whether a reader can have been loaded with a setting.

    Args:
        name: A key of _IDENTITY_DEFAULTS.
        in_settings: Its value in the settings.
        in_identity: Its value in the identity of the loaded reader.
    """
    if name == "attention" and in_identity == "transformers":
        return True  # the fused kernel is not exact for this model, whatever the setting
    if name in ("dtype", "window") and in_settings in ("auto", None):
        return True  # nothing is set: the model's own value
    # False, "" and None all mean that the setting is off.
    return (in_settings or None) == (in_identity or None)


def _count_inconsistencies(run: StoredRun) -> Iterator[str]:
    """Yield what does not fit between the number of records and the counts of summary and
    manifest.

    Counts that the summary lacks are not compared. Of a run that another tool made, what was left
    out and how many records are expected is not known.
    """
    summary = run.summary
    total = len(run.records)
    failed = count_failed(run)
    if summary.n_total not in (None, total):
        yield f"summary.json has n_total {summary.n_total}, the records give {total}"
    if summary.n_failed not in (None, failed):
        yield f"summary.json has n_failed {summary.n_failed}, the records give {failed}"
    skipped = sum(run.manifest.dataset.skipped.values())
    if summary.n_asked is not None and run.manifest.imported is None:
        n_left_out = summary.n_left_out or 0
        if skipped != n_left_out:
            yield f"summary.json leaves out {n_left_out} rows, manifest.json {skipped}"
        if summary.n_asked < total + n_left_out:
            yield f"summary.json has n_asked {summary.n_asked}, with {total} records"
    if not summary.is_finished or summary.stopped_early is not None:
        return
    expected_records = max(summary.n_to_record, run.manifest.dataset.questions)
    if expected_records > total and run.manifest.imported is None:
        yield f"it is called finished, with records of {total} of {expected_records} questions"


def _score_inconsistencies(run: StoredRun) -> Iterator[str]:
    """Yield a sentence on scores that no scorer or judge gave, and on numbers of summary.json that
    the records do not give."""
    manifest = run.manifest
    known_scores = {*manifest.scorers, *manifest.judges}
    recorded_scores = {name for name in run.score_names if not name.startswith(LOGGED_SCORE_PREFIX)}
    unknown_scores = sorted(recorded_scores - known_scores)
    if unknown_scores and not manifest.lacks_hashed_values:
        yield f"no scorer or judge of its manifest gave {', '.join(unknown_scores)}"
    yield from _summary_inconsistencies(run)


def _summary_inconsistencies(run: StoredRun) -> Iterator[str]:
    """Yield numbers of summary.json that the records do not give; of a summary by another version
    of the rule for intervals, only means are compared."""
    summary = run.summary
    if not summary.scores:
        return
    has_current_interval_rule = summary.interval_rule == INTERVAL_RULE
    if has_current_interval_rule:
        yield from _usage_inconsistencies(run)
    for name, stated in summary.scores.items():
        computed = _score_mean(run, name)
        if computed is not None:
            yield from _mean_inconsistencies(
                name, stated, computed, with_interval=has_current_interval_rule
            )


def _score_mean(run: StoredRun, name: str) -> Interval | None:
    """The mean of a score over the run's records with its interval; None where no record has it.

    As in summary.json, a failed question counts with the score of its record, or not at all where
    the run's config does not say `failed: zero`.
    """
    columns = run.columns
    if name not in columns.scores:
        return None
    is_counted = ~np.isnan(columns.scores[name])
    if run.config.failed != "zero":
        is_counted &= columns.answered
    values = columns.scores[name][is_counted]
    clusters = columns.clusters[is_counted]
    return interval(values, clusters, seed=run.config.seed)


def _mean_inconsistencies(
    name: str, stated: ScoreMean, computed: Interval, *, with_interval: bool
) -> Iterator[str]:
    """Yield what of a score's mean in summary.json the records do not give.

    Args:
        name: The name of the score.
        stated: Its mean and interval in summary.json.
        computed: Its mean and interval over the records.
        with_interval: Whether the interval is compared, too.
    """
    if with_interval and not _are_equal_numbers(stated.high, computed.high):
        yield f"summary.json has {name} high {stated.high}, the records give {computed.high}"
    if with_interval and not _are_equal_numbers(stated.low, computed.low):
        yield f"summary.json has {name} low {stated.low}, the records give {computed.low}"
    if not _are_equal_numbers(stated.mean, computed.mean):
        yield f"summary.json has {name} {stated.mean}, the records give {computed.mean}"


def _usage_inconsistencies(run: StoredRun) -> Iterator[str]:
    """Yield one sentence on the first cost of summary.json that records and indexes do not give.

    Its costs are means over answered questions, "usage.answer.tokens_in", and those of indexes,
    "index.cost.index.tokens_in".
    """
    summary_of_indexes = summarise(records=(), documents=run.index_lines, config=run.config)
    computed_costs = flatten(summary_of_indexes.index.to_json(), "index")
    computed_costs |= _mean_costs_of_answers(run)
    stated_costs = flatten({"usage": run.summary.usage, "index": run.summary.index.to_json()})
    keys_of_either = {**stated_costs, **computed_costs}
    for key in keys_of_either:
        stated = stated_costs.get(key)
        computed = computed_costs.get(key)
        if not _are_equal_numbers(stated, computed):
            yield f"summary.json has {key} {stated}, the records give {computed}"
            return


def _mean_costs_of_answers(run: StoredRun) -> dict[str, float]:
    """The costs of the records of answered questions, divided by their number:
    {"usage.answer.tokens_in": 812.5}; {} where none is recorded."""
    is_answered = run.columns.answered
    usage_sums = run.columns.usage_sum(is_answered)
    if not usage_sums:
        return {}
    n_answered = int(is_answered.sum())
    numbers_by_key = cast(dict[str, float], flatten(usage_sums, "usage"))  # it sums numbers alone
    return {key: float(total) / n_answered for key, total in numbers_by_key.items()}


def _are_equal_numbers(stored_value: object, computed_value: object) -> bool:
    """Whether two numbers are equal but for rounding, where an absent value is 0; True for values
    that are no numbers, which are not compared."""
    stored_value = _zero_if_absent(stored_value)
    computed_value = _zero_if_absent(computed_value)
    if not isinstance(stored_value, int | float) or not isinstance(computed_value, int | float):
        return True
    return math.isclose(stored_value, computed_value, rel_tol=1e-6, abs_tol=1e-9)


def _zero_if_absent(value: object) -> object:
    """The value; 0.0 for None, {} and NaN."""
    is_nan = value != value
    if value is None or value == {} or is_nan:
        return 0.0
    return value


def _index_inconsistencies(run: StoredRun) -> Iterator[str]:
    """Yield what does not fit between the costs of indexes and what the method declares of them; of
    a method that is not shipped, only costs below zero."""
    declaration = method_declaration(run)
    tokens_of_phases: set[float] = set()
    for line in run.index_lines:
        for phase in line.usage.values():
            tokens_of_phases.add(phase.get("tokens_in") or 0)
    if min(tokens_of_phases, default=0) < 0:
        yield "an index has costs below zero"
    if declaration is None:
        return
    if not declaration.builds_indexes and any(tokens_of_phases):
        yield "indexes have costs, and the method builds none"
    if declaration.one_request and _indexes_asked_language_model(run):
        yield "indexes have requests to a language model, and the method makes none for them"
    has_no_index = bool(run.records) and not run.index_lines
    if declaration.builds_indexes and has_no_index:
        yield "the method builds indexes, and documents.jsonl has none"
    total = len(run.index_lines)
    for problem, count in index_problems(run).items():
        yield f"{count} of {total} indexes have {problem}"
    n_without_request = _count_indexes_without_request(run, declaration)
    if n_without_request:
        roles = " and ".join(sorted(declaration.index_models))
        yield f"{n_without_request} of {total} indexes have no request, and the method asks its {roles} for each"


def _count_indexes_without_request(run: StoredRun, declaration: MethodDeclaration) -> int:
    """How many indexes took no request, though the method asks a model for each; else 0.

    A method whose index asks no encoder, but a model that writes summaries, needs none for a text
    of one part. Its indexes only count if none of them took a request. An older version's are not
    counted.
    """
    asks_models = declaration.builds_indexes and declaration.index_models
    if not asks_models or run.manifest.lacks_hashed_values:
        return 0
    built = [line for line in run.index_lines if not line.failed]
    without_request = [line for line in built if not _count_requests(line)]
    asks_encoder = not declaration.index_models.isdisjoint(_ENCODER_ROLES)
    if asks_encoder or len(without_request) == len(built):
        return len(without_request)
    return 0


def _count_requests(line: IndexLine) -> float:
    """The number of requests to any model that building an index took."""
    total = 0.0
    for phase in line.usage.values():
        total += phase.get("requests") or 0
    return total


def inconsistencies_outside_bundles(run: StoredRun) -> Iterator[str]:
    """Yield what does not fit in the parts of a run that bundles leave out: earlier records of
    questions, and kept requests."""
    changed_answers = _count_changed_answers(run)
    if changed_answers:
        yield f"{changed_answers} of its questions were answered, and then answered otherwise"
    yield from _answers_not_in_replies(run)


def _count_changed_answers(run: StoredRun) -> int:
    """How many questions have an answer in records.jsonl other than their first one.

    A question that failed is asked again; one that was answered never is. 0 without the file, and
    where each of its lines is the record of another question.
    """
    path = run.path / RECORDS
    if not path.is_file() or _count_lines(path) == len(run.records):
        return 0
    first_answers: dict[str, str] = {}
    changed = set()
    for record in read_records(path):
        if record.error is not None:
            continue
        first_answer = first_answers.setdefault(record.question_id, record.prediction)
        if record.prediction != first_answer:
            changed.add(record.question_id)
    return len(changed)


def _judges_without_request(run: StoredRun) -> Iterator[str]:
    """Yield a sentence for each judge that gave verdicts without a request."""
    for name, judge in run.manifest.judges.items():
        if sum(judge.verdicts.values()) and not judge.usage.get("requests"):
            yield f"{name} gave verdicts, and no request of it is recorded"


def _answers_not_in_replies(run: StoredRun) -> Iterator[str]:
    """Yield a sentence on answers that are none of the replies that the run kept
    (--keep-prompts).

    Only for methods whose answer is one reply; nothing where the file of requests is torn.
    """
    declaration = method_declaration(run)
    if declaration is None or not declaration.one_request:
        return
    if not (run.path / REQUESTS).is_file():
        return
    question_ids = run.columns.id_set
    try:
        requests_by_question = read_requests(run.path, question_ids, _end_of_reply)
    except (DataError, OSError):
        return  # it was torn by a kill; nothing else is read from it
    not_found = 0
    for record in run.records_with_texts:
        requests = requests_by_question.get(record.question_id, ())
        replies = [request.reply for request in requests if _is_answer(request)]
        if not replies or record.error is not None:
            continue
        if not any(_may_be_answer(run, record, reply) for reply in replies):
            not_found += 1
    if not_found:
        yield f"{not_found} of {len(run.records)} answers are none of the replies that it kept"


def _may_be_answer(run: StoredRun, record: StoredRecord, reply: str) -> bool:
    """Whether a reply is the answer of a record, where any white space counts as one space.

    Thinking may stand before the answer, and markers that end a turn after it, where the run has
    any. The reply of an application holds its answer somewhere.

    Args:
        run: The run.
        record: Its record, with the answer.
        reply: The end of the reply.
    """
    answer = _with_single_spaces(record.prediction)
    written = _with_single_spaces(reply)
    may_begin_later = run.config.model.thinking is not None or len(reply) >= _MAX_REPLY_CHARACTERS
    may_end_earlier = any(phase.get("endings_cut") for phase in record.usage.values())
    if run.config.model.backend == APPLICATION or (may_begin_later and may_end_earlier):
        return answer in written
    if may_begin_later:
        return written.endswith(answer)
    if may_end_earlier:
        return written.startswith(answer)
    return written == answer


def _is_answer(request: StoredRequest) -> bool:
    """Whether a kept request is one whose reply is the answer of a question."""
    return request.kind == "write" and request.phase == "answer"


def _end_of_reply(text: str) -> str:
    """The last 20,000 characters of a reply, in which its answer is looked for."""
    return text[-_MAX_REPLY_CHARACTERS:]


def _with_single_spaces(text: str) -> str:
    """The text with single spaces in place of any white space."""
    return " ".join(text.split())


def _count_lines(path: Path) -> int:
    """The number of lines of a file."""
    with open(path, "rb") as file:
        return sum(1 for _ in file)


def _size_inconsistencies(run: StoredRun) -> Iterator[str]:
    """Yield a sentence for each role that shares its weights with another role and is recorded with
    other sizes."""
    sizes_by_weights: dict[str, Mapping[str, object]] = {}
    for role, sizes in run.manifest.shapes.items():
        weights = weights_identity(run, role)
        if weights is None or not sizes:  # one of them is not recorded
            continue
        sizes_of_first_role = sizes_by_weights.setdefault(weights, sizes)
        if sizes != sizes_of_first_role:
            yield f"the {role} has the weights of another role, and other sizes"


def _indexes_asked_language_model(run: StoredRun) -> bool:
    """Whether building any index of the run sent requests to a language model."""
    for line in run.index_lines:
        for phase in line.usage.values():
            if (phase.get("requests") or 0) > (phase.get("encoder_requests") or 0):
                return True
    return False


def _prompt_inconsistencies(run: StoredRun) -> Iterator[str]:
    """Yield a sentence for each role whose first prompt holds none of the texts that the templates of
    the recorded prompts have between their fields.

    Roles whose model scores plain texts, which are no prompts, are left out.
    """
    declaration = method_declaration(run)
    scoring_roles: frozenset[str] = frozenset()
    if declaration is not None:
        scoring_roles = declaration.scoring_roles
    static_parts: list[str] = []
    for template in run.manifest.prompts.values():
        static_parts += _static_parts(template)
    for role, first_prompt in run.manifest.first_prompts.items():
        text = first_prompt.text or ""
        if role in scoring_roles:
            continue
        holds_a_part = any(part in text for part in static_parts)
        if text and static_parts and not holds_a_part:
            yield f"the first prompt of the {role} is none of the recorded prompts"


def _first_question_inconsistencies(run: StoredRun) -> Iterator[str]:
    """Yield what does not fit between the reader's first prompt and the records.

    Only for a method that asks each question in one request, and where no question failed.
    """
    declaration = method_declaration(run)
    first_prompt = run.manifest.first_prompt("reader")
    if declaration is None or not declaration.one_request:
        return
    if not first_prompt.text:
        return
    if run.columns.failed.any():
        return  # the prompt may be that of a question that failed
    n_tokens = len(first_prompt.ids or ())
    if n_tokens and not _has_request_with_tokens(run, n_tokens):
        yield f"the first prompt has {n_tokens} tokens, and no request of a record has as many"
    if not _asks_one_of_first_questions(run, first_prompt.text):
        yield "the first prompt asks none of its first questions, or more than the question"


def _has_request_with_tokens(run: StoredRun, n_tokens: int) -> bool:
    """Whether in some record the request for the answer read `n_tokens` tokens, one or more.

    True also where searches have requests too: the first prompt may then be one of a search.
    """
    if run.columns.cost("search", "requests").any():
        return True
    return n_tokens in run.columns.cost("answer", "tokens_in")


def _asks_one_of_first_questions(run: StoredRun, prompt: str) -> bool:
    """Whether the first prompt asks a question of the first records and nothing else; True also
    where this cannot be read from it."""
    asked_text = _question_in(prompt, run.manifest.prompts)
    has_answer_prefix = bool(run.config.dataset.answer_prefix)  # which stands at the question
    if asked_text is None or has_answer_prefix:
        return True
    first_records = [record for record in _first_records(run) if record.question]
    if not first_records:
        return True
    return any(_is_question_of(record, asked_text) for record in first_records)


def _first_records(run: StoredRun) -> Iterator[StoredRecord]:
    """The first 64 records in the order in which they were written: one of their questions had the
    first prompt, as so many may begin before it is sent."""
    records: Iterable[StoredRecord] = run.records
    if run.is_in_file:
        records = read_records(run.path / RECORDS)
    return islice(records, _MAX_BEGUN_QUESTIONS)


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
        before_question, field, after_question = prompt.partition("{question}")
        if not field:
            continue
        static_before = _TEMPLATE_FIELD.split(before_question)[-1]
        static_after = _TEMPLATE_FIELD.split(after_question.removeprefix("{options}"))[0]
        question = _text_between(text, static_before, static_after)
        if question is not None:
            return question
    return None


def _text_between(text: str, before: str, after: str) -> str | None:
    r"""What stands between the last `before` and the next `after` in a text.

        ("Question: Who?\nAnswer:", "Question: ", "\nAnswer:")      -> "Who?"

    Args:
        text: A prompt that was sent.
        before: What comes before, in the prompt's template.
        after: What comes after.

    Returns:
        The text between; None where one of the two is missing or too short to find it by.
    """
    shortest = min(len(before), len(after))
    if shortest < _MIN_CHARACTERS_AROUND or before not in text:
        return None
    start = text.rfind(before) + len(before)
    stop = text.find(after, start)
    if stop < 0:
        return None
    return text[start:stop]


def _is_question_of(record: StoredRecord, asked_text: str) -> bool:
    """Whether the text at the place of the question in a prompt is the question of this record and
    nothing else, but for its options."""
    if asked_text == record.question:
        return True
    return bool(record.options) and asked_text.startswith(f"{record.question}\n")


def _static_parts(prompt: str) -> list[str]:
    r"""The texts of a prompt's template between its fields, those of at least 12 characters.

    "Read:\n{text}\n\nNow the question: {question}"      -> ["\n\nNow the question: "]
    """
    parts = _TEMPLATE_FIELD.split(prompt)
    return [part for part in parts if len(part.strip()) >= _MIN_STATIC_CHARACTERS]


def _examples_that_are_asked(run: StoredRun) -> Iterator[str]:
    """Yield a sentence on solved examples of the prompt that are among the questions asked."""
    dataset = run.config.dataset
    examples_asked = set(dataset.shots_ids).intersection(run.columns.ids)
    are_from_same_rows = dataset.shots_from in (dataset.split, dataset.data)
    if examples_asked and are_from_same_rows:
        yield f"{len(examples_asked)} of its solved examples are among the questions asked"

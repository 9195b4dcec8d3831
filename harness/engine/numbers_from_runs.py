"""Numbers of a method that a finished run gives: method.max_nodes=from:RUN_FOLDER.

    "nodes"          the mean number of nodes that the run visited for an answered question, rounded
    "chunk_tokens"   a field of the method with the tokens of a piece: the number k of pieces whose
                     predicted cost is nearest to the mean cost of the run's questions

                         cost(k) = prefill(f + k p) + decode(g) + embed(q)
                         k = argmin over k >= 1 of |cost(k) - cost(run)|

f: tokens of the prompt around the pieces; p: of a piece; g: of the run's mean answer; q: of the
question, where the method embeds it. Costs are FLOPs of search and answer under the default
convention, by the sizes in the run's manifest; tokens where FLOPs are unknown. Texts are taken for
4 bytes a token. Half rounds up; of two equally near k the smaller one counts. Sources and
alternatives: docs/methods/costs.md#from-another-run.

Only the number reaches the method, and the number is what is hashed. It is stored with its source
in run.yaml (origins) and manifest.json ("amounts").
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from harness.config import presets
from harness.cost.flops import DEFAULT_CONVENTION, Event, EventKind, ModelShape, flops
from harness.cost.usage import sum_phases, tokens_of
from harness.errors import UserError
from harness.method import Method
from harness.method.abilities import settings_that_runs_can_give
from harness.storage.manifest_file import Amount
from harness.storage.records import StoredRecord
from harness.storage.run_folder import StoredRun, read_run

FROM = "from:"
"""What the value of a parameter that a run gives begins with."""
NODES = "nodes"

_BYTES_PER_TOKEN = 4
_FRAME_TOKENS = 60  # tokens of the shared prompt's own words and of the chat template
_STUDY_ACTION = "study"  # the action of a step after the stop of the run itself


class ModelCall(NamedTuple):
    """A call of a model, whose cost is estimated.

    Attributes:
        kind: "prefill", "decode" or "embed".
        new_tokens: Tokens that it computes.
        cached_tokens: Tokens before them that it takes from a cache.
        shape: The sizes of the model; None where they are unknown.
    """

    kind: EventKind
    new_tokens: int
    cached_tokens: int
    shape: ModelShape | None


class Cost(NamedTuple):
    """What calls of models cost.

    Attributes:
        tokens: Tokens read and written together, those from a cache left out.
        flops: Floating-point operations by formula; None where the sizes of a model are unknown.
    """

    tokens: int
    flops: float | None


class _NumberAndMean(NamedTuple):
    """The number that a run gives.

    Attributes:
        value: The number, an integer.
        mean: The mean a question of the run that it was made from.
        unit: The unit of the mean: "nodes", "TFLOPs" or "tokens".
    """

    value: int
    mean: float
    unit: str


@dataclass(frozen=True)
class NumberFromRun:
    """A number that a run gave, as it stands in a manifest.

    Attributes:
        value: The number.
        note: What tables say of it: "k = 7, the same TFLOPs as graph (1.2 a question, mean of
            ...)".
        mean: The mean a question of the run that it was made from.
        unit: The unit of the mean: "nodes", "TFLOPs" or "tokens".
        source: The name of the run's method.
        run: The run's folder.
        dataset: The run's data set.
        model: The run's model.
        questions: How many it answered.
        failed: Questions that were left out.
    """

    value: int
    note: str
    mean: float
    unit: str
    source: str
    run: str
    dataset: str
    model: str
    questions: int
    failed: int

    @property
    def amount(self) -> Amount:
        """The number as the manifest stores it."""
        return Amount.from_json(asdict(self))


def parameters_naming_runs(cls: type[Method], params: Mapping[str, object]) -> dict[str, str]:
    """The parameters whose value names a finished run: {"max_nodes": "from:results/..."}.

    Args:
        cls: The method's class, which says which parameters may.
        params: Parameter -> value, as the settings have them.
    """
    naming: dict[str, str] = {}
    for name in settings_that_runs_can_give(cls):
        value = params.get(name)
        if isinstance(value, str) and value.startswith(FROM):
            naming[name] = value
    return naming


def number_from_run(method: Method, preset: str, parameter: str, reference: str) -> NumberFromRun:
    """The number that a parameter gets from the run that its value names.

    Args:
        method: The method; the parameter itself holds a placeholder.
        preset: The method's name, for messages.
        parameter: The parameter.
        reference: Its value, "from:RUN_FOLDER".

    Raises:
        UserError: There is no such folder, its run is not finished, or it gives no such number.
    """
    if parameter not in settings_that_runs_can_give(method):
        raise UserError(
            f"method.{parameter} does not fix what is shown with these settings; give it a number"
        )
    run = _finished_run(preset, parameter, reference)
    records = [record for record in run.records if record.error is None]
    if not records:
        raise UserError(
            f"method.{parameter} cannot come from {run.path}: no question is answered there"
        )
    n_failed = len(run.records) - len(records)
    if settings_that_runs_can_give(method)[parameter] == NODES:
        number_and_mean = _mean_visited_nodes(parameter, run, records)
    else:
        number_and_mean = _piece_count_of_equal_cost(method, parameter, run, records)
    averaged_questions = _averaged_questions(run, len(records), n_failed)
    origin = _origin_of_number(number_and_mean, run.config.method.name, averaged_questions)
    return NumberFromRun(
        value=number_and_mean.value,
        note=f"{parameter} = {number_and_mean.value}, {origin}",
        mean=number_and_mean.mean,
        unit=number_and_mean.unit,
        source=run.config.method.name,
        run=str(run.path),
        dataset=run.config.dataset.name,
        model=run.config.model.name,
        questions=len(records),
        failed=n_failed,
    )


def _origin_of_number(number: _NumberAndMean, source: str, averaged_questions: str) -> str:
    """Words for how a run gave a number: "as many nodes as pecan visits (3.20, mean of 40 questions
    of ...)", or "the same TFLOPs as graph (1.2 a question, mean of 40 questions of ...)".

    Args:
        number: The number, with the mean that it was made from.
        source: The name of the run's method.
        averaged_questions: Words for the questions that the mean is over.
    """
    if number.unit == NODES:
        return f"as many nodes as {source} visits ({number.mean:.2f}, {averaged_questions})"
    return (
        f"the same {number.unit} as {source} ({number.mean:.4g} a question, {averaged_questions})"
    )


def differing_source(name: str, number: NumberFromRun, dataset: str, model: str) -> str | None:
    """A warning where a number comes from a run with another data set or model; None where it does
    not.

    "method.k comes from graph--llama--1a2b3c4d, a run with model 'llama', not 'qwen'"

    Args:
        name: The parameter that gets the number.
        number: The number, with the run that it comes from.
        dataset: The data set of the run that uses the number.
        model: The model of the run that uses the number.
    """
    differing = []
    if number.dataset != dataset:
        differing.append(f"data set '{number.dataset}', not '{dataset}'")
    if number.model != model:
        differing.append(f"model '{number.model}', not '{model}'")
    if not differing:
        return None
    folder = Path(number.run).name
    return f"method.{name} comes from {folder}, a run with {' and '.join(differing)}"


def _finished_run(preset: str, parameter: str, reference: str) -> StoredRun:
    """The run that the value of a parameter names. Where the value names a method's preset in place
    of a folder, the error says how to make such a run.

    Args:
        preset: The method's name, for messages.
        parameter: The parameter.
        reference: Its value, "from:RUN_FOLDER".

    Raises:
        UserError: There is no such folder, or its run is not finished.
    """
    source = reference.removeprefix(FROM)
    folder = Path(source).expanduser()
    if not folder.is_dir() and _is_preset(source):
        printed_preset = f"{preset}-printed"
        other_way = f"give the number: --set method.{parameter}=N"
        if _is_preset(printed_preset):
            other_way = f"use {printed_preset}"
        raise UserError(
            f"method.{parameter} of '{preset}' comes from a finished run of '{source}' on the "
            "same data set; make that run, then name its folder: "
            f"--set method.{parameter}=from:RUN_FOLDER, or {other_way}"
        )
    run = read_run(folder)
    if not run.summary.is_finished:
        raise UserError(
            f"'{reference}': that run is not finished; run its command again, then this one"
        )
    return run


def _is_preset(name: str) -> bool:
    """Whether a method's preset has this name, case and punctuation aside."""
    names_of_presets = map(presets.comparable_name, presets.names("methods"))
    return presets.comparable_name(name) in names_of_presets


def _averaged_questions(run: StoredRun, n_answered: int, n_failed: int) -> str:
    """Words for the questions that a mean is over:
    "mean of 40 questions of bm25--llama--1a2b3c4d, 2 failed and left out".

    Args:
        run: The run.
        n_answered: How many of its questions count.
        n_failed: How many do not.
    """
    questions = "1 question"
    if n_answered > 1:
        questions = f"{n_answered} questions"
    words = f"mean of {questions} of {run.path.name}"
    if n_failed:
        words += f", {n_failed} failed and left out"
    return words


def _mean_visited_nodes(
    parameter: str, run: StoredRun, records: Sequence[StoredRecord]
) -> _NumberAndMean:
    """The mean number of nodes that an answered question visited, and that number rounded, but at
    least 1.

    Args:
        parameter: The parameter, for messages.
        run: The run.
        records: Its answered questions.

    Raises:
        UserError: The records name no nodes.
    """
    mean = sum(map(visited_nodes, records)) / len(records)
    if mean == 0:
        raise UserError(
            f"method.{parameter} cannot come from {run.path}: its records name no visited nodes"
        )
    rounded = max(1, math.floor(mean + 0.5))
    return _NumberAndMean(value=rounded, mean=mean, unit=NODES)


def visited_nodes(record: StoredRecord) -> int:
    """How many nodes the search of a record visited, the first ones included, up to its own
    stop."""
    n_visited = 0
    for step in record.steps:
        if step.get("node") is not None and step["action"] != _STUDY_ACTION:
            n_visited += 1
    return n_visited


def nearest_count(cost: Callable[[int], float], target: float) -> int:
    """The k >= 1 whose cost is nearest to `target`; of two that are equally near the smaller.

    Args:
        cost: k -> cost; increases with k.
        target: A cost.
    """
    k = 1
    while cost(k) < target:
        k += 1
    smaller_is_nearer = k > 1 and target - cost(k - 1) <= cost(k) - target
    if smaller_is_nearer:
        return k - 1
    return k


def _piece_count_of_equal_cost(
    method: Method, parameter: str, run: StoredRun, records: Sequence[StoredRecord]
) -> _NumberAndMean:
    """How many pieces cost about what a question of a run cost on average: the k whose predicted
    cost is nearest.

    Reading k pieces costs a prompt with them, an answer as long as the run's mean answer and, where
    the method has an encoder, the embedding of the question (`cost_by_piece_count`). Costs are
    compared in FLOPs; in tokens where FLOPs of the run were not counted or the sizes of a model are
    unknown.

    Args:
        method: The method that shows the pieces.
        parameter: The parameter that gets k.
        run: The run.
        records: Its answered questions.

    Returns:
        k, with that average cost: in TFLOPs, or in tokens where FLOPs are unknown.
    """
    usages = [record.usage for record in records]
    total_usage = sum_phases(usages, "search", "answer")
    answer_tokens = round(sum_phases(usages, "answer").get("tokens_out", 0) / len(records))
    field_with_piece_tokens = settings_that_runs_can_give(method)[parameter]  # "chunk_tokens"
    piece_tokens = int(getattr(method.config, field_with_piece_tokens))
    prompt_tokens = _prompt_tokens(run, records)
    embed_calls: list[ModelCall] = []
    if "encoder" in method.encoders:
        question_tokens = round(prompt_tokens.question)
        encoder_shape = run.manifest.shape("encoder")
        embed_calls.append(
            ModelCall("embed", new_tokens=question_tokens, cached_tokens=0, shape=encoder_shape)
        )
    cost = cost_by_piece_count(
        _FRAME_TOKENS + prompt_tokens.around_pieces,
        piece_tokens,
        answer_tokens,
        run.manifest.shape("reader"),
        *embed_calls,
    )
    if not total_usage.get("uncounted") and cost(1).flops is not None:
        mean_flops = total_usage.get("flops", {}).get(DEFAULT_CONVENTION, 0.0) / len(records)
        k = nearest_count(lambda k: cost(k).flops or 0.0, mean_flops)
        return _NumberAndMean(value=k, mean=mean_flops / 1e12, unit="TFLOPs")
    mean_tokens = tokens_of(total_usage) / len(records)
    k = nearest_count(lambda k: cost(k).tokens, mean_tokens)
    return _NumberAndMean(value=k, mean=mean_tokens, unit="tokens")


class _PromptTokens(NamedTuple):
    """Mean tokens of parts of the prompts of a run, estimated.

    Attributes:
        around_pieces: Instruction, question and options together.
        question: The question alone.
    """

    around_pieces: float
    question: float


def _prompt_tokens(run: StoredRun, records: Sequence[StoredRecord]) -> _PromptTokens:
    """The estimated mean tokens of a prompt of the run around the pieces that it shows: its
    instruction, question and options; also of the question alone.

    Args:
        run: The run, for its instruction.
        records: Its answered questions.
    """
    questions = [str(record.question or "") for record in records]
    question_tokens = sum(map(text_tokens, questions)) / len(records)
    option_tokens_of_all = 0.0
    for record in records:
        option_tokens_of_all += sum(map(text_tokens, record.options or ()))
    instruction_tokens = text_tokens(run.config.dataset.instruction or "")
    option_tokens = option_tokens_of_all / len(records)
    return _PromptTokens(
        around_pieces=instruction_tokens + question_tokens + option_tokens,
        question=question_tokens,
    )


def text_tokens(text: str) -> float:
    """Estimated tokens of a text: its UTF-8 bytes / 4."""
    return len(text.encode(errors="surrogatepass")) / _BYTES_PER_TOKEN


def cost_by_piece_count(
    prompt_tokens: float,
    piece_tokens: int,
    answer_tokens: int,
    reader: ModelShape | None,
    *embed_calls: ModelCall,
) -> Callable[[int], Cost]:
    """Return the function k -> what an answer costs that reads k pieces: the prefill of the prompt
    with them, the decoding of the answer, and the calls of an encoder.

    Args:
        prompt_tokens: Tokens of the prompt around the pieces.
        piece_tokens: Tokens of a piece.
        answer_tokens: Tokens of the answer.
        reader: Sizes of the model that reads.
        embed_calls: The call that embeds the question; nothing for a method without an encoder.
    """

    def cost(k: int) -> Cost:
        """What an answer costs that reads k pieces."""
        context_tokens = round(prompt_tokens + k * piece_tokens)
        prefill = ModelCall("prefill", new_tokens=context_tokens, cached_tokens=0, shape=reader)
        decode = ModelCall(
            "decode", new_tokens=answer_tokens, cached_tokens=context_tokens, shape=reader
        )
        return tokens_and_flops([prefill, decode, *embed_calls])

    return cost


def tokens_and_flops(calls: Iterable[ModelCall]) -> Cost:
    """Sum the tokens of calls and, by formula, their FLOPs, None where a model's sizes are unknown.

    Logits are computed of the last position in a prefill and of each token in decoding; each new
    token attends to the cached ones, to the new ones before it and to itself. An encoder's
    attention is not counted.
    """
    total_tokens = 0
    total_flops = 0.0
    has_unknown_shape = False
    for kind, new_tokens, cached_tokens, shape in calls:
        total_tokens += new_tokens
        if shape is None:
            has_unknown_shape = True
            continue
        n_logits = {"prefill": 1, "decode": new_tokens}.get(kind, 0)
        attention_pairs = 0
        if n_logits:  # an encoder has none
            attention_pairs = new_tokens * cached_tokens + new_tokens * (new_tokens + 1) // 2
        event = Event(
            role="",
            model="",
            phase="answer",
            kind=kind,
            new=new_tokens,
            cached=cached_tokens,
            logits=n_logits,
            pairs=attention_pairs,
        )
        total_flops += flops(event, shape, DEFAULT_CONVENTION)
    if has_unknown_shape:
        return Cost(total_tokens, None)
    return Cost(total_tokens, total_flops)

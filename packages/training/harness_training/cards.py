"""Model cards of adapters: card.json beside each, and CARD.md for all of them.

    write_card(folder, about, base, job, progress)                   after training
    write_measures(out, exam, measures)                   adds the measures, and writes CARD.md

The card names the base weights, so that harness/llm/adapters.py can refuse the adapter for others;
`prompts` has a hash of each prompt that it learnt.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter

from harness.llm.adapters import CARD
from harness.stats.bootstrap import Interval
from harness.storage.files import read_json_or_empty, write_json
from harness_training.exam import Measure, table_rows
from harness_training.loop import hardware_of
from harness_training.lora_model import Base
from harness_training.progress import Hardware, Progress
from harness_training.trainer import Job


@dataclass(frozen=True)
class TrainingSummary:
    """What a training says of itself in a table of CARD.md.

    Args:
        seed: The seed of the training.
        rows: Rows that were trained on.
        left_out: Rows that were too long.
        steps: Optimizer steps that were done.
        tokens: Tokens that were trained on.
        minutes: How long the training took.
        hardware: The processor with its threads, or the GPU.
    """

    seed: int
    rows: int
    left_out: int
    steps: int
    tokens: int
    minutes: float
    hardware: str


@dataclass(frozen=True)
class TrainingData:
    """What an adapter was trained on, as its card says it.

    Args:
        data: "the synthetic world", the teacher with its data sets, or data set -> questions.
        skills: Skill -> rows.
        methods: Method -> rows of the skills that it alone declares.
        licences: Source -> licence.
        start: Hash of the adapter that the training continued.
        before: How that adapter was trained, the first training first.
    """

    data: str | dict[str, int]
    skills: dict[str, int] | None = None
    methods: dict[str, int] | None = None
    licences: dict[str, str] | None = None
    start: str | None = None
    before: tuple[TrainingSummary, ...] | None = None


@dataclass(frozen=True)
class AboutAdapter:
    """What an adapter learnt.

    Args:
        method: The preset of its method.
        prompts: Name -> hash, of the prompts that it learnt.
        data: What it was trained on.
    """

    method: str
    prompts: dict[str, str]
    data: TrainingData


@dataclass(frozen=True)
class CardTraining(TrainingData, TrainingSummary):
    """`trained` of a card.json.

    Args:
        cut: Rows that were shortened.
        of_steps: Steps that the whole training has; None in older cards.
    """

    cut: int = 0
    of_steps: int | None = None


@dataclass(frozen=True)
class CardBase:
    """The base model of an adapter: its name, and what identifies its files."""

    name: str
    where: object


@dataclass(frozen=True)
class AboutExam:
    """The exam of an adapter.

    Args:
        scenes: The most scenes of a task.
        seed: The seed of the scenes.
        source: Where they are from, "texts of evaluation seeds".
    """

    scenes: int
    seed: int
    source: str


@dataclass(frozen=True)
class CardInterval(Interval):
    """An interval in a card.json; older cards do not say how many clusters it has."""

    clusters: int = 0


@dataclass(frozen=True)
class CardMeasure(Measure):
    """A measure in a card.json."""

    before: CardInterval
    after: CardInterval


@dataclass(frozen=True)
class CardMeasures:
    """`measures` of a card.json: what the exam found for one adapter."""

    exam: AboutExam
    rows: tuple[CardMeasure, ...]


@dataclass(frozen=True)
class Card:
    """A card.json as CARD.md shows it.

    Args:
        method: The preset of its method.
        base: The model that it was trained for.
        settings: Values of the task's settings by name, as settings.TaskSettings has them.
        trained: The training.
        measures: What the exam found; None before it.
    """

    method: str
    base: CardBase
    settings: dict[str, object]
    trained: CardTraining
    measures: CardMeasures | None = None


_CARD = TypeAdapter(Card)
_TRAINED = TypeAdapter(CardTraining)


def write_card(folder: Path, about: AboutAdapter, base: Base, job: Job, progress: Progress) -> None:
    """Write an adapter's card.json: its method, base, prompts, settings and training. Measures in a
    card that is there already stay if that is of the same training.

    Args:
        folder: The folder of the adapter.
        about: What the adapter learnt.
        base: The model that was trained.
        job: The training.
        progress: How far the training is.

    Raises:
        OSError: The card cannot be written.
    """
    trained_on = about.data
    training = CardTraining(
        seed=job.seed,
        rows=len(job.data.rows),
        left_out=job.data.left_out,
        steps=progress.step,
        tokens=progress.tokens,
        minutes=round(progress.seconds / 60, 1),
        hardware=_hardware_text(base.device, hardware_of(base.device)),
        cut=job.data.cut,
        of_steps=job.steps,
        data=trained_on.data,
        skills=trained_on.skills,
        methods=trained_on.methods,
        licences=trained_on.licences,
        start=trained_on.start,
        before=trained_on.before,
    )
    trained = _TRAINED.dump_python(training, mode="json", exclude_none=True)
    card: dict[str, object] = {
        "method": about.method,
        "base": {"name": base.config.name, "where": base.where},
        "prompts": about.prompts,
        "settings": job.task_settings.model_dump(mode="json", exclude={"recipes"}),
        "trained": trained,
    }
    old_card = read_json_or_empty(folder / CARD)
    if old_card.get("trained") == trained and "measures" in old_card:
        card["measures"] = old_card["measures"]
    write_json(folder / CARD, card)


def _hardware_text(device: str, hardware: Hardware) -> str:
    """What a training ran on: "x86_64, 2 threads", or the name of the GPU."""
    if device.startswith("cuda"):
        return hardware.device
    return f"{hardware.device}, {hardware.threads} threads"


def write_measures(out: Path, exam: AboutExam, measures: Sequence[Measure]) -> None:
    """Add measures to the cards of adapters, and write CARD.md for all adapters of the folder that
    have measures.

    Args:
        out: The folder of the training.
        exam: The exam that found them.
        measures: The measures of all adapters, one adapter after the other.

    Raises:
        OSError: Something cannot be written.
    """
    adapters = out / "adapters"
    measured_tasks = list(dict.fromkeys(measure.task for measure in measures))
    for task in measured_tasks:
        measures_of_task = [asdict(measure) for measure in measures if measure.task == task]
        card_values = read_json_or_empty(adapters / task / CARD)
        card_values["measures"] = {"exam": asdict(exam), "rows": measures_of_task}
        write_json(adapters / task / CARD, card_values)
    tasks_with_card = {path.parent.name for path in adapters.glob(f"*/{CARD}")}
    other_tasks = sorted(tasks_with_card.difference(measured_tasks))
    cards: dict[str, Card] = {}
    for task in [*measured_tasks, *other_tasks]:
        card = _CARD.validate_python(read_json_or_empty(adapters / task / CARD))
        if card.measures is not None:
            cards[task] = card
    page = _card_page_lines(cards)
    (adapters / "CARD.md").write_text("\n".join(page) + "\n", encoding="utf-8")


def _card_page_lines(cards: Mapping[str, Card]) -> list[str]:
    """The lines of CARD.md: a table of measures, a table of trainings, and for each adapter its
    data sets with their licences and its rows by skill.

    Args:
        cards: Task -> its card, with measures; at least one.
    """
    any_card = next(iter(cards.values()))
    measured: list[Measure] = []
    exams: dict[str, None] = {}  # each in words, "100 scenes a task, texts of evaluation seeds"
    for card in cards.values():
        assert card.measures is not None  # write_measures passes no other
        measured += card.measures.rows
        exam = card.measures.exam
        exams[f"{exam.scenes} scenes a task, {exam.source}"] = None
    page = [
        f"# Adapters of {any_card.method} for {any_card.base.name}",
        "",
        f"Percent [95 % interval] over {' or '.join(exams)}; they were not trained on.",
        "",
        markdown_table(table_rows(measured)),
        markdown_table(_training_rows(cards)).rstrip(),
    ]
    for task, card in cards.items():
        sources = _data_sets_with_licences(card.trained)
        if sources:
            page += ["", f"{task} was trained on {', '.join(sources)}."]
        if card.trained.skills:
            skills = [f"{name} {rows}" for name, rows in card.trained.skills.items()]
            page += ["", f"Rows by skill: {', '.join(skills)}."]
    return page


def _training_rows(cards: Mapping[str, Card]) -> list[tuple[str, ...]]:
    """The table of trainings as rows of texts, its head first: a row for each training of each
    task's adapter, the first training first. The fields of a training's summary are the columns
    after the rank."""
    head = ("task", "rank", "seed", "rows", "left out", "steps", "tokens", "minutes", "hardware")
    rows: list[tuple[str, ...]] = [head]
    for task, card in cards.items():
        rank = str(card.settings["rank"])
        earlier_trainings = card.trained.before or ()
        for summary in [*earlier_trainings, _summary_of_training(card.trained)]:
            values = map(str, asdict(summary).values())
            rows.append((task, rank, *values))
    return rows


def _summary_of_training(training: CardTraining) -> TrainingSummary:
    """The part of a card's training that is a row in the table of trainings."""
    return TrainingSummary(
        seed=training.seed,
        rows=training.rows,
        left_out=training.left_out,
        steps=training.steps,
        tokens=training.tokens,
        minutes=training.minutes,
        hardware=training.hardware,
    )


def _data_sets_with_licences(training: CardTraining) -> list[str]:
    """The data sets that an adapter was trained on: ["nq (1000 questions, CC BY-SA 3.0)"]; without
    the number where the card names its data in a sentence, not by questions of each data set."""
    sources = []
    for name, licence in (training.licences or {}).items():
        if not isinstance(training.data, str) and name in training.data:
            sources.append(f"{name} ({training.data[name]} questions, {licence})")
        else:
            sources.append(f"{name} ({licence})")
    return sources


def markdown_table(rows: Iterable[Sequence[str]]) -> str:
    r"""Rows as a table in Markdown, the first one as its head; ends with a line feed.

    [("a", "b"), ("1", "2")] -> "| a | b |\n| --- | --- |\n| 1 | 2 |\n"
    """
    head, *rest = rows
    text = ""
    below_head = ["---"] * len(head)
    for line in (head, below_head, *rest):
        cells = [cell.replace("|", "/") for cell in line]
        text += f"| {' | '.join(cells)} |\n"
    return text


def training_history(folder: Path) -> tuple[TrainingSummary, ...]:
    """All trainings of an adapter by its card, the first training first; () where it has no
    card."""
    values = read_json_or_empty(folder / CARD)
    if "trained" not in values:
        return ()
    training = _TRAINED.validate_python(values["trained"])
    return (*(training.before or ()), _summary_of_training(training))

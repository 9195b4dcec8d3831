"""Train and measure all adapters of a method.

    course = Course(...)
    course.run(tell, stop, last_step)     for each task: make its data, train its adapter, write its card
    course.examine(tell)                  list of Measure, also written to the cards

Without `labels` the data comes from the synthetic world. With labels, a task whose labels need
another task's adapter (`after`) is labelled once that adapter is trained; the base is never loaded
twice at once.
"""

import gc
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.config.schema import ModelConfig, digest
from harness.datasets import answer_prefix
from harness.errors import CannotRun, UserError
from harness.llm.adapters import prompt_digests
from harness.llm.backend import load_model
from harness.llm.load import unload
from harness.llm.model_info import hash_files
from harness.method import Method, Task
from harness.models import LanguageModel
from harness.parallel.in_flight import places_for
from harness.prompts import Prompt
from harness.storage.file_hash import file_hash
from harness_training import cards, exam, example_files
from harness_training.labelling import LabelModels, LabelWriter
from harness_training.lora_model import Base, load_teacher
from harness_training.method_skills import trainings_of
from harness_training.question_sets import QuestionSet, TrainingQuestions, load_questions_apart
from harness_training.settings import Settings
from harness_training.tasks import Scene, TrainingTask
from harness_training.token_rows import rows_of_scenes
from harness_training.trainer import Job, identity, train

_WORLD = Task(instruction="Answer the question as concisely as you can.", max_answer_tokens=32)


@dataclass(frozen=True)
class Labels:
    """The model that labels, and the data sets that it labels. parallel: items at a time."""

    teacher: ModelConfig
    sets: tuple[QuestionSet, ...]
    parallel: int = 1

    @property
    def names(self) -> str:
        """The names of the data sets."""
        return ", ".join(one.training.name for one in self.sets)


@dataclass
class Course:
    """The training of a method's adapters. out: folder of data, log and adapters; labels: None for
    synthetic data."""

    method_name: str
    method: Method
    base: ModelConfig
    tasks: Sequence[TrainingTask]
    settings: Settings
    out: Path
    seed: int
    device: str = "auto"
    labels: Labels | None = None
    _net: Base | None = None
    _merged: TrainingQuestions | None = None

    def run(
        self, tell: Callable[[str], None], stop: threading.Event, last_step: int | None
    ) -> bool:
        """Train all adapters that are not trained yet; return whether all are. Raises UserError,
        CannotRun, SaveError.

        tell: called with each line of progress; last_step: of all tasks together, None for no
        limit.
        """
        steps_before = 0
        for task in self.tasks:
            self._make_data(task, tell, stop)
            scenes, _ = self.scenes(task)
            job = self._job(task, scenes, steps_before, last_step)
            for number, name in enumerate(task.classes):
                share = sum(scene.verdicts[0] == (number == 0) for scene in scenes) / len(scenes)
                tell(f"{task.name}: {share:.1%} of {len(scenes):,} labels are {name}")
            tell(
                f"{task.name}: {len(job.data.rows)} rows, {job.data.tokens} tokens, {job.steps} "
                "steps"
            )
            for count, what in ((job.data.left_out, "left out"), (job.data.cut, "cut")):
                if count:
                    tell(
                        f"{task.name}: {count} rows are longer than {job.task_settings.length} "
                        f"tokens and {what}"
                    )
            progress = train(self.base_model(), job, tell, stop)
            if progress.step < job.steps:
                return False
            made_of = (
                f"{self.labels.teacher.name} over {self.labels.names}"
                if self.labels
                else "the synthetic world"
            )
            folder, prompts = self.folder(task), self.prompt_hashes(task)
            cards.write_card(
                folder, self.method_name, self.base_model(), prompts, job, progress, data=made_of
            )
            steps_before += job.steps
        self.unload()
        return True

    def folder(self, task: TrainingTask) -> Path:
        """The folder of a task's adapter."""
        return self.out / "adapters" / task.name

    def data_file(self, task: TrainingTask) -> Path:
        """The file with a task's data."""
        return self.out / "data" / f"{task.name}.jsonl"

    def base_model(self) -> Base:
        """The base that is trained, loaded once."""
        if self._net is None:
            self._net = Base(self.base, self.settings, self.device)
        return self._net

    def unload(self) -> None:
        """Forget all models, so that their memory is free."""
        unload()
        self._net = None
        gc.collect()

    def with_adapters(self, tasks: Sequence[TrainingTask]) -> LanguageModel:
        """The base as a run loads it, with the adapters of `tasks`. Raises CannotRun."""
        folders = {task.name: str(self.folder(task)) for task in tasks}
        device = {} if self.device == "auto" else {"device": self.device}
        return load_model(self.base.model_copy(update={"adapters": folders, **device}))

    def _make_data(
        self, task: TrainingTask, tell: Callable[[str], None], stop: threading.Event | None = None
    ) -> None:
        """Write a task's data: scenes of the synthetic world, or labels of the teacher."""
        path, task_settings = self.data_file(task), self.settings.tasks[task.name]
        if self.labels is None:
            recipes = self.settings.recipes(task.name, task.skill.name)
            example_files.write_world(path, task, recipes, task_settings.scenes, self.seed)
            return
        self.unload()  # so that base and teacher are never in memory together
        missing = [
            name
            for name in task.after
            if not (self.out / "adapters" / name / "adapter_config.json").is_file()
        ]
        if missing:
            raise UserError(
                f"the labels of '{task.name}' need the adapter '{missing[0]}'; train that task "
                "first"
            )
        merged = self._questions(tell)
        about = {
            "source": f"labels of {self.labels.teacher.name} over {self.labels.names}",
            "rows": ", ".join(f"{name} {start}" for name, start in merged.digests.items()),
            "questions": task_settings.scenes,
            "asked": digest(self.label_prompt(task) or task.asked)[:16],
            "after": [hash_files(self.out / "adapters" / name)[:16] for name in task.after],
        }
        every, labelling = list(merged.items(task.per, task_settings.scenes)), self.labelling(task)
        LabelWriter(path, task, labelling, tell, stop).write(
            every, about, lambda: self.count_in_flight(tell)
        )
        self.unload()

    def count_in_flight(self, tell: Callable[[str], None]) -> int:
        """How many items to label at once: fewer where the contexts of a local teacher do not fit
        into memory."""
        assert self.labels is not None  # called with labels only
        local = self.labels.teacher.backend == "hf" and self.labels.parallel > 1
        return places_for(
            [load_model(self.labels.teacher)] if local else [], self.labels.parallel, tell
        )

    def _questions(self, tell: Callable[[str], None]) -> TrainingQuestions:
        """The merged training questions, loaded once for all tasks."""
        assert self.labels is not None  # called with labels only
        if self._merged is None:
            count = max(self.settings.tasks[task.name].scenes for task in self.tasks)
            self._merged = load_questions_apart(self.labels.sets, count, tell)
        return self._merged

    def labelling(self, task: TrainingTask) -> LabelModels:
        """What `task` makes labels with: the teacher, and the base with the adapters that its
        labels need."""
        assert self.labels is not None  # called with labels only
        teacher, length = self.labels.teacher, self.settings.tasks[task.name].length
        after = [other for other in trainings_of(self.method) if other.name in task.after]
        load = (lambda: load_model(teacher), lambda: self.with_adapters(after))
        instruction, offsets = (
            answer_prefix.task(self.labels.sets[0].training),
            load_teacher(self.base, length).offsets,
        )
        return LabelModels(instruction, *load, offsets, length, self.label_prompt(task))

    def label_prompt(self, task: TrainingTask) -> str:
        """The user's prompt for labels, "" for the method's own. Raises UserError for an unknown
        placeholder."""
        asked, places = self.settings.tasks[task.name].asked, Prompt("labels", task.asked).places()
        if unknown := [place for place in Prompt("labels", asked).places() if place not in places]:
            known_places = ", ".join(f"{{{place}}}" for place in dict.fromkeys(places))
            raise UserError(
                f"{task.name}.asked has the placeholder {{{unknown[0]}}}; those of its labels are "
                f"{known_places}"
            )
        return asked

    def scenes(self, task: TrainingTask) -> tuple[list[Scene], list[Scene]]:
        """(training scenes, evaluation scenes). Of labelled data the last share `held` is for
        evaluation.

        Labelled scenes have the answer instruction of the first data set.
        """
        instruction = (
            _WORLD if self.labels is None else answer_prefix.task(self.labels.sets[0].training)
        )
        scenes, _ = example_files.read_scenes(self.data_file(task), instruction)
        if self.labels is None:
            recipes = self.settings.recipes(task.name, task.skill.name)
            return scenes, exam.evaluation_scenes(task, recipes, self.settings.exam, self.seed)
        held = max(1, round(len(scenes) * self.settings.held))
        if not scenes[: len(scenes) - held]:
            before = (
                f", or adapter '{task.after[0]}' needs more training: it comes before"
                if task.after
                else ""
            )
            raise UserError(
                f"the labels of '{task.name}' make {len(scenes)} scenes, and training needs two at "
                "least; "
                f"{self.data_file(task)} has them. The teacher's replies could not be read{before}"
            )
        return scenes[: len(scenes) - held], scenes[len(scenes) - held :][: self.settings.exam]

    def _job(
        self, task: TrainingTask, scenes: Sequence[Scene], before: int, last_step: int | None
    ) -> Job:
        """The Job of a task on `scenes`; before, last_step: see Job. Raises UserError where no
        scene fits a row."""
        task_settings, base = self.settings.tasks[task.name], self.base_model()
        teacher = load_teacher(self.base, max(task_settings.length, base.window))
        token_rows = rows_of_scenes(
            task.skill, scenes, teacher, task_settings.length, self.settings.overlong
        )
        if not token_rows.rows:
            raise UserError(
                f"no row of '{task.name}' has {task_settings.length} tokens or fewer; raise --set "
                f"{task.name}.length"
            )
        data = file_hash(self.data_file(task))
        about = identity(
            base, self.settings, task.name, self.seed, data=data, prompts=self.prompt_hashes(task)
        )
        return Job(
            task.name, self.out, token_rows, self.settings, self.seed, about, before, last_step
        )

    def prompt_hashes(self, task: TrainingTask) -> dict[str, str]:
        """Name -> hash of each prompt that `task` learns; of all prompts if the method has no
        prompt of that name.

        A system turn is named "NAME, system". The card and checkpoints keep them, so that no
        adapter meets other texts.
        """
        digests = prompt_digests(self.method.prompts())
        return {
            name: d for name, d in digests.items() if name.removesuffix(", system") == task.name
        } or digests

    def examine(self, tell: Callable[[str], None]) -> list[exam.Measure]:
        """Measure the base without and with every adapter, and write the cards. Raises UserError,
        CannotRun."""
        if missing := [
            task.name
            for task in self.tasks
            if not (self.folder(task) / "adapter_config.json").is_file()
        ]:
            raise CannotRun(
                f"there is no adapter '{missing[0]}' in {self.out / 'adapters'}; train it first"
            )
        model, count, results = self.with_adapters(self.tasks), 0, list[exam.Measure]()
        for task in self.tasks:
            _, held = self.scenes(task)
            count = max(count, len(held))
            results += exam.examine(
                exam.task_part(task, held), [(model, None), (model, task.name)], tell
            )
        source = (
            "texts of evaluation seeds" if self.labels is None else "labels that were held back"
        )
        cards.write_measures(
            self.out, {"scenes": count, "seed": self.seed, "source": source}, results
        )
        return results

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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.config.schema import ModelConfig, json_sha256
from harness.datasets import answer_prefix
from harness.errors import CannotRun, UserError
from harness.llm.adapters import prompt_digests
from harness.llm.backend import load_model
from harness.llm.load import unload
from harness.llm.model_info import hash_files
from harness.method import Method, Task
from harness.models import LanguageModel
from harness.parallel.in_flight import questions_that_fit
from harness.prompts import Prompt
from harness.storage.file_hash import file_hash
from harness_training import cards, exam, example_files
from harness_training.labelling import LabelModels, LabelWriter
from harness_training.lora_model import Base, load_teacher
from harness_training.method_skills import trainings_of
from harness_training.question_sets import Labels, TrainingQuestions, load_questions_apart
from harness_training.settings import Settings
from harness_training.tasks import Scene, TrainingTask
from harness_training.token_rows import rows_of_scenes
from harness_training.trainer import Job, identity, train

_TASK_OF_WORLD = Task(
    instruction="Answer the question as concisely as you can.", max_answer_tokens=32
)


@dataclass(frozen=True)
class TaskScenes:
    """A task's scenes: those that its adapter learns, and those that it is measured on."""

    training: list[Scene]
    evaluation: list[Scene]


@dataclass
class Course:
    """The training of a method's adapters.

    Args:
        method_name: The preset of the method.
        method: The method.
        base: The model to train.
        tasks: What its adapters learn, in the order of training.
        settings: The settings of the training.
        out: Folder of data, log and adapters.
        seed: The seed of data, weights and order.
        device: "auto", "cpu" or "cuda".
        labels: Where labels come from; None for synthetic data.
    """

    method_name: str
    method: Method
    base: ModelConfig
    tasks: Sequence[TrainingTask]
    settings: Settings
    out: Path
    seed: int
    device: str = "auto"
    labels: Labels | None = None
    _loaded_base: Base | None = None
    _loaded_questions: TrainingQuestions | None = None

    def run(
        self, tell: Callable[[str], None], stop: threading.Event, last_step: int | None
    ) -> bool:
        """Make the data of each task, train its adapter and write its card, one task after the
        other. What is there already is not made again; training goes on from its checkpoint.

        Args:
            tell: Called with each line of progress.
            stop: Ends the training after the step in which it is set.
            last_step: The last step of all tasks together; None for no limit.

        Returns:
            Whether all adapters are trained.

        Raises:
            UserError: The folder holds another training, or a task has no data to train on.
            CannotRun: A model cannot be used, or a loss is not finite.
            SaveError: Something cannot be written.
        """
        steps_before = 0
        for task in self.tasks:
            self._make_data(task, tell, stop)
            scenes = self.scenes(task).training
            job = self._job(task, scenes, steps_before, last_step)
            for sentence in [*_sentences_on_labels(task, scenes), *_sentences_on_rows(job)]:
                tell(f"{task.name}: {sentence}")
            progress = train(self.base_model(), job, tell, stop)
            if progress.step < job.steps:
                return False
            cards.write_card(self.folder(task), self._about(task), self.base_model(), job, progress)
            steps_before += job.steps
        self.unload()
        return True

    def _about(self, task: TrainingTask) -> cards.AboutAdapter:
        """What the adapter of a task learnt, for its card: the prompts, and what the data was made
        of."""
        made_of = "the synthetic world"
        if self.labels is not None:
            made_of = f"{self.labels.teacher.name} over {self.labels.names}"
        return cards.AboutAdapter(
            method=self.method_name,
            prompts=self.prompt_hashes(task),
            data=cards.TrainingData(made_of),
        )

    def folder(self, task: TrainingTask) -> Path:
        """The folder of a task's adapter: "OUT/adapters/analysis"."""
        return self.out / "adapters" / task.name

    def data_file(self, task: TrainingTask) -> Path:
        """The file with a task's data: "OUT/data/analysis.jsonl"."""
        return self.out / "data" / f"{task.name}.jsonl"

    def base_model(self) -> Base:
        """The model that is trained; loaded at the first call, then kept."""
        if self._loaded_base is None:
            self._loaded_base = Base(self.base, self.settings, self.device)
        return self._loaded_base

    def unload(self) -> None:
        """Forget the model that is trained and all others that are loaded, so that their memory is
        free."""
        unload()
        self._loaded_base = None
        gc.collect()

    def with_adapters(self, tasks: Sequence[TrainingTask]) -> LanguageModel:
        """Load the base model as a run does, with the adapters of some tasks. Raises CannotRun."""
        changes: dict[str, object] = {
            "adapters": {task.name: str(self.folder(task)) for task in tasks}
        }
        if self.device != "auto":
            changes["device"] = self.device
        return load_model(self.base.model_copy(update=changes))

    def _make_data(
        self, task: TrainingTask, tell: Callable[[str], None], stop: threading.Event | None = None
    ) -> None:
        """Write a task's data file: scenes of the synthetic world, or labels of the teacher.

        Lines that the file has already stay. Before and after labelling all models are unloaded, so
        that base and teacher are never in memory together.

        Args:
            task: The task.
            tell: Called with each line of progress.
            stop: Ends the labelling when set.

        Raises:
            UserError: The labels need an adapter that is not trained yet.
        """
        path = self.data_file(task)
        n_items = self.settings.tasks[task.name].scenes
        if self.labels is None:
            recipes = self.settings.recipes(task.name, task.skill.name)
            example_files.write_world(path, task, recipes, n_items, self.seed)
            return
        self.unload()
        untrained = self._tasks_without_adapter(task.after)
        if untrained:
            raise UserError(
                f"the labels of '{task.name}' need the adapter '{untrained[0]}'; train that "
                "task first"
            )
        questions = self._load_questions(tell)
        # The file's first line, by which a file with other data is refused.
        made_from = {
            "source": f"labels of {self.labels.teacher.name} over {self.labels.names}",
            "rows": ", ".join(f"{name} {start}" for name, start in questions.digests.items()),
            "questions": n_items,
            "asked": json_sha256(self.label_prompt(task) or task.asked)[:16],
            "after": [hash_files(self.out / "adapters" / name)[:16] for name in task.after],
        }
        items_to_label = list(questions.items(task.per, n_items))
        writer = LabelWriter(path, task, self.labelling(task), tell, stop)
        writer.write(items_to_label, made_from, max_at_a_time=lambda: self.count_in_flight(tell))
        self.unload()

    def _tasks_without_adapter(self, names: Iterable[str]) -> list[str]:
        """Those of the names of tasks whose adapter is not in the folder."""
        adapters = self.out / "adapters"
        return [name for name in names if not (adapters / name / "adapter_config.json").is_file()]

    def count_in_flight(self, tell: Callable[[str], None]) -> int:
        """How many items to label at once: what --parallel says, or fewer where the contexts of a
        local teacher do not fit into memory."""
        assert self.labels is not None  # called with labels only
        local: list[LanguageModel] = []
        if self.labels.teacher.backend == "hf" and self.labels.parallel > 1:
            local.append(load_model(self.labels.teacher))
        return questions_that_fit(local, self.labels.parallel, tell)

    def _load_questions(self, tell: Callable[[str], None]) -> TrainingQuestions:
        """The merged training questions of all data sets; loaded at the first call, then kept."""
        assert self.labels is not None  # called with labels only
        if self._loaded_questions is None:
            count = max(self.settings.tasks[task.name].scenes for task in self.tasks)
            self._loaded_questions = load_questions_apart(self.labels.sets, count, tell)
        return self._loaded_questions

    def labelling(self, task: TrainingTask) -> LabelModels:
        """What a task makes labels with: the teacher, and the base with the adapters that its
        labels need.

        The models are loaded when they are used. Only the base's tokenizer and chat template are
        loaded here, which place the labels in its prompts.
        """
        assert self.labels is not None  # called with labels only
        teacher = self.labels.teacher
        max_tokens = self.settings.tasks[task.name].length
        earlier_tasks = [other for other in trainings_of(self.method) if other.name in task.after]
        return LabelModels(
            task=answer_prefix.load_task(self.labels.sets[0].training),
            load_teacher=lambda: load_model(teacher),
            load_base=lambda: self.with_adapters(earlier_tasks),
            offsets=load_teacher(self.base, max_tokens).offsets,
            length=max_tokens,
            asked=self.label_prompt(task),
        )

    def label_prompt(self, task: TrainingTask) -> str:
        """The user's prompt for a task's labels (setting `asked`), "" for the method's own.

        Raises:
            UserError: It has a placeholder that the method's own prompt has not.
        """
        users_prompt = self.settings.tasks[task.name].asked
        known_placeholders = Prompt("labels", task.asked).placeholders()  # ["question", "title"]
        unknown = [
            placeholder
            for placeholder in Prompt("labels", users_prompt).placeholders()
            if placeholder not in known_placeholders
        ]
        if unknown:
            known_in_braces = ", ".join(
                f"{{{placeholder}}}" for placeholder in dict.fromkeys(known_placeholders)
            )
            raise UserError(
                f"{task.name}.asked has the placeholder {{{unknown[0]}}}; those of its "
                f"labels are {known_in_braces}"
            )
        return users_prompt

    def scenes(self, task: TrainingTask) -> TaskScenes:
        """Read a task's data file: the scenes to train on, and those to measure on. Of labelled
        data the last share (setting `held`) is held back to measure on, as many as the setting
        `exam` says; else scenes of unseen texts are made for that.

        Labelled scenes have the answer instruction of the first data set.

        Raises:
            UserError: The labels make fewer than two scenes.
        """
        instruction = _TASK_OF_WORLD
        if self.labels is not None:
            instruction = answer_prefix.load_task(self.labels.sets[0].training)
        scenes, _ = example_files.read_scenes(self.data_file(task), instruction)
        if self.labels is None:
            recipes = self.settings.recipes(task.name, task.skill.name)
            unseen = exam.evaluation_scenes(task, recipes, self.settings.exam, self.seed)
            return TaskScenes(training=scenes, evaluation=unseen)
        n_held_back = max(1, round(len(scenes) * self.settings.held))
        n_training = len(scenes) - n_held_back
        if n_training < 1:
            hint = ""
            if task.after:
                hint = f", or adapter '{task.after[0]}' needs more training: it comes before"
            raise UserError(
                f"the labels of '{task.name}' make {len(scenes)} scenes, and training needs two at "
                "least; "
                f"{self.data_file(task)} has them. The teacher's replies could not be read{hint}"
            )
        held_back = scenes[n_training:]
        return TaskScenes(training=scenes[:n_training], evaluation=held_back[: self.settings.exam])

    def _job(
        self, task: TrainingTask, scenes: Sequence[Scene], steps_before: int, last_step: int | None
    ) -> Job:
        """The training of a task's adapter, ready to start.

        Args:
            task: The task.
            scenes: What it learns.
            steps_before: Steps of the tasks before this one.
            last_step: Last step of all tasks together; None for no limit.

        Raises:
            UserError: No scene fits a row.
        """
        task_settings = self.settings.tasks[task.name]
        base = self.base_model()
        teacher = load_teacher(self.base, max(task_settings.length, base.window))
        token_rows = rows_of_scenes(
            task.skill, scenes, teacher, task_settings.length, self.settings.overlong
        )
        if not token_rows.rows:
            raise UserError(
                f"no row of '{task.name}' has {task_settings.length} tokens or fewer; raise --set "
                f"{task.name}.length"
            )
        data_hash = file_hash(self.data_file(task))
        identity_values = identity(
            base,
            self.settings,
            task.name,
            self.seed,
            data=data_hash,
            prompts=self.prompt_hashes(task),
        )
        return Job(
            name=task.name,
            out=self.out,
            data=token_rows,
            settings=self.settings,
            seed=self.seed,
            about=identity_values,
            before=steps_before,
            last_step=last_step,
        )

    def prompt_hashes(self, task: TrainingTask) -> dict[str, str]:
        """Name -> hash of each prompt that a task learns; of all prompts if the method has no
        prompt of that name.

        A system turn is named "NAME, system". The card and checkpoints keep these hashes, so that
        no adapter meets other texts.
        """
        digests = prompt_digests(self.method.prompts())
        names = [name for name in digests if name.removesuffix(", system") == task.name]
        if not names:
            return digests
        return {name: digests[name] for name in names}

    def examine(self, tell: Callable[[str], None]) -> list[exam.Measure]:
        """Measure the base without and with every adapter, and write the measures into the cards.

        Args:
            tell: Called with the headline of each task.

        Raises:
            UserError: A data file cannot be used.
            CannotRun: An adapter is missing, or a model cannot be used.
        """
        untrained = self._tasks_without_adapter(task.name for task in self.tasks)
        if untrained:
            raise CannotRun(
                f"there is no adapter '{untrained[0]}' in {self.out / 'adapters'}; train it first"
            )
        model = self.with_adapters(self.tasks)
        max_scenes = 0
        results: list[exam.Measure] = []
        for task in self.tasks:
            evaluation_scenes = self.scenes(task).evaluation
            max_scenes = max(max_scenes, len(evaluation_scenes))
            part = exam.task_part(task, evaluation_scenes)
            without_and_with_adapter = [(model, None), (model, task.name)]
            results += exam.examine(part, without_and_with_adapter, tell)
        source = "labels that were held back"
        if self.labels is None:
            source = "texts of evaluation seeds"
        about = cards.AboutExam(scenes=max_scenes, seed=self.seed, source=source)
        cards.write_measures(self.out, about, results)
        return results


def _sentences_on_labels(task: TrainingTask, scenes: Sequence[Scene]) -> list[str]:
    """How many labels are of each of a task's two classes: ["61.0% of 200 labels are local", ...];
    [] for a task without classes."""
    if not task.classes:
        return []
    n_first = sum(scene.verdicts[0] for scene in scenes)
    counts = (n_first, len(scenes) - n_first)
    sentences = []
    for name, count in zip(task.classes, counts, strict=True):
        share = count / len(scenes)
        sentences.append(f"{share:.1%} of {len(scenes):,} labels are {name}")
    return sentences


def _sentences_on_rows(job: Job) -> list[str]:
    """Sentences about what there is to train on, and how many rows were too long."""
    data = job.data
    too_long = f"rows are longer than {job.task_settings.length} tokens and"
    sentences = [f"{len(data.rows)} rows, {data.tokens} tokens, {job.steps} steps"]
    if data.left_out:
        sentences.append(f"{data.left_out} {too_long} left out")
    if data.cut:
        sentences.append(f"{data.cut} {too_long} cut")
    return sentences

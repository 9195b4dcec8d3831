"""Training of the pocket model: seeded, resumable, by mastery.

    settings = Settings(Path("trained"), read_curriculum(), steps=2000)
    Trainer(settings, tell=print).run()          the folder has log.jsonl, and weights and tokenizer in `model`

A batch is a function of seed, stage and step alone, so a training that is killed and started again
goes on with the same numbers. The texts come from training seeds only, each is seen once: a batch
shows what is right on fresh texts.
"""

import itertools
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from harness_training.loop import (
    Checkpoint,
    Loop,
    hardware_of,
    load_checkpoint,
    resolve_device,
)
from harness_training.progress import PassedStage
from harness_training.row_loss import RowLoss
from harness_training.teacher import Teacher
from transformers import AutoTokenizer

from harness.llm.kernels import has_slow_products, multiply_in_float32
from harness.stats.rng import Dice
from harness.storage.file_hash import file_hash
from pocket.card import training_as_json, training_of_json
from pocket.eval import card
from pocket.tasks.recall import DrillTokens
from pocket.tasks.recipes import Curriculum, Stage
from pocket.train import llama, model_folder, tokenizer
from pocket.train.batches import Batch, make_batch, share_of_right_replies
from pocket.train.curriculum import course_digest

_STEPS_PER_LOG_LINE = 50  # steps between lines of the log
_MAX_SHARE_LEFT_OUT = 0.05  # share of a recipe's replies that may be left out without a warning


@dataclass(frozen=True)
class Settings:
    """A training of the pocket model.

    Args:
        out: The folder of the training.
        course: The stages, with what is learnt in each.
        begin: The model folder to begin from; None for random weights.
        seed: Another seed gives other first weights and texts.
        steps: After how many steps in total to stop; None for when the curriculum ends.
        save: Steps between checkpoints.
        device: "auto", "cpu" or "cuda".
        sizes: Sizes of the network, as LlamaConfig names them, where they are others than
            llama.SIZES and those of `begin`.
    """

    out: Path
    course: Curriculum
    begin: Path | None = None
    seed: int = 0
    steps: int | None = None
    save: int = 100
    device: str = "auto"
    sizes: Mapping[str, int] = field(default_factory=dict)


@dataclass
class _ReplyCounts:
    """How many replies of a recipe were left out as too long, and how many were trained on."""

    left_out: int = 0
    trained_on: int = 0


class Trainer(Loop[tuple[int, Batch]]):
    """The training of the pocket model: `run` does steps until the curriculum ends. A batch is
    (number of the recipe in its stage, Batch)."""

    advice = "start again from the last checkpoint with a lower rate"

    def __init__(self, settings: Settings, tell: Callable[[str], None]) -> None:
        """Prepare the training, from its first step or from the checkpoint in its folder:
        tokenizer, network and optimizer. Also writes the tokenizer into the folder where it is not
        there.

        Args:
            settings: The training.
            tell: Called with each line on how it goes.

        Raises:
            UserError: The folder is of another training or course.
            CannotRun: Weights or device cannot be used.
        """
        self.settings = settings
        self.tell = tell
        self.course = settings.course
        self.device = resolve_device(settings.device)
        sizes = _sizes(settings)
        self.tokenizer = _tokenizer(settings)
        self.teacher = Teacher(self.tokenizer, "pocket-llama", sizes["max_position_embeddings"])
        self.drills = DrillTokens(self.teacher)
        # What a checkpoint must have too, to be gone on from.
        identity = _identity(settings, sizes)
        self.net = self._new_network(sizes)
        self._loss = RowLoss(self.net)
        # Number of a recipe -> its replies since the last line of the log.
        self._reply_counts: dict[int, _ReplyCounts] = {}
        checkpoint = load_checkpoint(settings.out / "checkpoint", identity)
        self._origin = self._find_origin(checkpoint)
        if checkpoint is None and settings.begin is not None:
            llama.load_weights(self.net, settings.begin)
        # A checkpoint also keeps which weights the training began from.
        identity |= _origin_as_json(self._origin)
        self.weights = dict(self.net.named_parameters())
        max_steps = settings.steps
        if max_steps is None:
            max_steps = sum(stage.steps for stage in self.course.stages)
        super().__init__(
            self.net,
            settings.out,
            identity,
            checkpoint,
            optimizer=_optimizer(self.weights),
            max_steps=max_steps,
            save_steps=settings.save,
            logging_steps=_STEPS_PER_LOG_LINE,
            use_cpu=self.device == "cpu",
            lr_scheduler_type="constant",
        )
        if checkpoint is not None:
            self.tell(
                f"going on from step {self.progress.step}, stage '{self._present_stage().name}'"
            )

    def _new_network(self, sizes: Mapping[str, int]) -> Any:
        """The network with first weights, on the training's device."""
        special_token_ids = self.tokenizer.bos_token_id, self.tokenizer.eos_token_id
        network = llama.new_network(
            len(self.tokenizer), self.settings.seed, special_token_ids, **sizes
        )
        network = network.to(self.device)
        if self.device == "cpu" and has_slow_products(torch.bfloat16):
            multiply_in_float32(network)
        return network

    def _find_origin(self, saved: Checkpoint | None) -> card.Origin:
        """The weights that the training began from, and the trainings that these went through.

        Args:
            saved: The checkpoint to go on from, which knows them; None for a new training.
        """
        if saved is not None:
            return _origin_of_json(saved.about)
        begin = self.settings.begin
        if begin is None:
            return card.Origin()
        return card.Origin(
            begin=model_folder.weights_digest(begin), history=card.training_history(begin)
        )

    def _after_save(self) -> None:
        """Write the model as it is now, with its card."""
        folder = self.settings.out / "model"
        for name in ("card.json", "CARD.md"):  # none is ever beside weights that it is not about
            (folder / name).unlink(missing_ok=True)
        llama.save_weights(self.net, folder)
        hardware = hardware_of(self.device)
        new_card = card.card_after_training(
            folder, self.progress, self.settings.seed, hardware, self._origin
        )
        card.write_card(new_card)

    def _present_stage(self) -> Stage:
        """The present stage; once the curriculum has ended, the last one."""
        return self.course.stages[min(self.progress.stage, len(self.course.stages) - 1)]

    def _finished(self) -> bool:
        """Whether the curriculum or the configured number of steps is done."""
        return super()._finished() or self.progress.stage >= len(self.course.stages)

    def _batch(self, stage: int, step: int) -> tuple[int, Batch]:
        """Make the batch of a step: (number of the recipe, Batch).

        Args:
            stage: The number of the stage.
            step: The number of the step.
        """
        dice = Dice("training", self.settings.seed, stage, step)
        return make_batch(self.course.stages[stage], dice, self.teacher, self.drills)

    def _learning_rate(self, stage: Stage) -> float:
        """The learning rate of the present step: it falls linearly over the stage, where the stage
        has a last rate, and rises over the first 100 steps of the training."""
        progress = self.progress
        rate = stage.rate
        if stage.end_rate is not None:
            share_of_stage = min(1.0, (progress.step - progress.since) / stage.steps)
            rate += (stage.end_rate - stage.rate) * share_of_stage
        warm_up = min(1.0, (progress.step + 1) / 100)
        return rate * warm_up

    def _batches(self) -> Generator[tuple[int, Batch]]:
        """Yield the batch of each step, (number of the recipe, Batch), without end; the next one is
        made in a thread while a step runs.

        The caller advances `progress` between two batches; where that begins another stage, the
        batch that was made ahead is thrown away.
        """
        progress = self.progress
        with ThreadPoolExecutor(1) as pool:
            made_for = (progress.stage, progress.step)  # what the batch in the thread is made for
            future_batch = pool.submit(self._batch, *made_for)
            while True:
                if made_for != (progress.stage, progress.step):  # the stage ended
                    future_batch = pool.submit(self._batch, progress.stage, progress.step)
                batch = future_batch.result()
                made_for = (progress.stage, progress.step + 1)
                future_batch = pool.submit(self._batch, *made_for)
                yield batch

    def _step(self, batch: tuple[int, Batch]) -> float:
        """Compute the gradients of a batch and return its loss, the mean over all tokens to learn.
        Also records, for the batch's recipe, which share of the replies was right (of as many
        recent batches as the stage looks at), how many replies did not fit, and how many tokens
        were trained on."""
        progress = self.progress
        stage = self._present_stage()
        recipe_number, recipe_batch = batch
        trees = list(itertools.chain.from_iterable(recipe_batch.passes))
        n_targets = sum(sum(tree.reply_lengths) for tree in trees)  # tokens to learn in all replies
        # Filled while `backward` takes the losses.
        targets_right: list[torch.Tensor] = []

        def compute_losses_in_turn() -> Iterator[torch.Tensor]:
            """Yield the loss of each forward pass, with weights in half precision; also collects
            which targets were right in `targets_right`."""
            for trees_of_pass in recipe_batch.passes:
                half_weights: dict[str, torch.Tensor] = {}
                for name, weight in self.weights.items():
                    half_weights[f"net.{name}"] = weight.to(torch.bfloat16)
                rows = [tree.row(by_reply=False) for tree in trees_of_pass]
                loss, right = torch.func.functional_call(self._loss, half_weights, (rows,))
                targets_right.append(right)
                yield loss / n_targets

        loss_of_step = self.backward(compute_losses_in_turn(), self._learning_rate(stage))
        share_right = share_of_right_replies(torch.cat(targets_right).cpu(), trees)
        recent_shares = progress.recent.setdefault(str(recipe_number), [])
        recent_shares.append(round(share_right, 4))
        del recent_shares[: -stage.over]  # the last ones stay
        counts = self._reply_counts.setdefault(recipe_number, _ReplyCounts())
        counts.left_out += recipe_batch.n_left_out
        counts.trained_on += recipe_batch.n_trained_on
        progress.tokens += sum(map(len, trees))
        return loss_of_step

    def _after_step(self) -> None:
        """Go on to the next stage when every recipe has reached its gate (its share of right
        replies), or the stage's steps are used up: the stage is recorded as passed and printed, and
        counting starts anew."""
        progress = self.progress
        stage = self._present_stage()
        mastered = self._is_mastered(stage)
        steps_in_stage = progress.step - progress.since
        if not mastered and steps_in_stage < stage.steps:
            return
        shares = self._shares_right(digits=4)
        minutes = round(progress.seconds / 60, 1)
        minutes_before = 0.0
        if progress.passed:
            minutes_before = progress.passed[-1].minutes or 0.0
        passed = PassedStage(
            stage=stage.name,
            steps=steps_in_stage,
            right=shares,
            mastered=mastered,
            minutes=minutes,
            stage_minutes=round(minutes - minutes_before, 1),
        )
        progress.passed.append(passed)
        how_it_ended = "ended"
        if mastered:
            how_it_ended = "mastered"
        self.tell(f"stage '{stage.name}' {how_it_ended} at step {progress.step}: {shares}")
        progress.stage += 1
        progress.since = progress.step
        progress.recent = {}
        self._reply_counts = {}

    def _is_mastered(self, stage: Stage) -> bool:
        """Whether every recipe of the stage has reached its gate, a mean share of right replies,
        over its recent batches, of which there must be enough; a gate of 0 is not waited for. A
        recipe without a gate has the stage's."""
        for number, recipe in enumerate(stage.recipes):
            gate = recipe.gate
            if gate is None:
                gate = stage.gate
            if gate == 0:
                continue
            recent_shares = self.progress.recent.get(str(number), [])
            if len(recent_shares) < stage.over or np.mean(recent_shares) < gate:
                return False
        return True

    def _shares_right(self, digits: int) -> dict[str, float]:
        """ "0 answer" (number and skill of a recipe) -> the share of its recent replies that are
        right, rounded to so many digits."""
        recipes = self._present_stage().recipes
        shares: dict[str, float] = {}
        for number in sorted(map(int, self.progress.recent)):
            recent = self.progress.recent[str(number)]
            if recent:
                share = float(np.mean(recent))
                shares[f"{number} {recipes[number].skill}"] = round(share, digits)
        return shares

    def _shares_left_out(self) -> dict[str, float]:
        """ "0 answer" (number and skill of a recipe) -> the share of its replies since the last
        line of the log that are too long for a row; only shares above _MAX_SHARE_LEFT_OUT."""
        recipes = self._present_stage().recipes
        shares: dict[str, float] = {}
        for number in sorted(self._reply_counts):
            counts = self._reply_counts[number]
            share = counts.left_out / max(1, counts.left_out + counts.trained_on)
            if share > _MAX_SHARE_LEFT_OUT:
                shares[f"{number} {recipes[number].skill}"] = round(share, 3)
        return shares

    def _log(self, loss: float) -> None:
        """Log and print a line: stage, mean loss, shares of right replies, shares of replies that
        were left out as they did not fit, and speed. Also starts to count anew which do not fit."""
        progress = self.progress
        stage = self._present_stage()
        shares_right = self._shares_right(digits=3)
        line: dict[str, object] = {
            "step": progress.step,
            "stage": stage.name,
            "loss": round(loss, 5),
            "right": shares_right,
            "minutes": round(progress.seconds / 60, 2),
            "tokens_per_s": round(progress.tokens / max(progress.seconds, 1e-9)),
        }
        shares_left_out = self._shares_left_out()
        self._reply_counts = {}
        parts = [f"step {progress.step}", stage.name, f"loss {loss:.4f}", f"right {shares_right}"]
        if shares_left_out:
            line["left_out"] = shares_left_out
            parts.append(f"left out for want of room {shares_left_out}")
        parts += [f"{line['minutes']} min", f"{line['tokens_per_s']} tokens/s"]
        self.log_line(line)
        self.tell("  ".join(parts))


def _identity(settings: Settings, sizes: Mapping[str, int]) -> dict[str, object]:
    """What identifies a training, as JSON values: another one may not go on from its checkpoint.

    Args:
        settings: The training, whose folder has its tokenizer.
        sizes: The sizes of the network, as LlamaConfig names them.
    """
    tokenizer_hash = file_hash(settings.out / "model" / "tokenizer.json")
    identity: dict[str, object] = {
        "seed": settings.seed,
        "tokenizer": tokenizer_hash[:16],
        "sizes": sizes,
        "course": course_digest(settings.course),
    }
    if settings.begin is not None:
        identity["begin"] = model_folder.weights_digest(settings.begin)
    return identity


def _origin_as_json(origin: card.Origin) -> dict[str, object]:
    """An origin as JSON values for a checkpoint: {"begin": digest or None, "history": [...]}."""
    if origin.begin is None:
        return {"begin": None}
    history = [training_as_json(training) for training in origin.history]
    return {"begin": origin.begin, "history": history}


def _origin_of_json(about: Mapping[str, Any]) -> card.Origin:
    """The origin that `_origin_as_json` wrote into the identity of a checkpoint."""
    history = [training_of_json(values) for values in about.get("history", ())]
    return card.Origin(about["begin"], tuple(history))


def _sizes(settings: Settings) -> dict[str, int]:
    """The sizes of the network, as LlamaConfig names them: the usual ones with those of the
    settings, or those of the weights to begin from.

    Raises CannotRun or UserError where these weights cannot be used.
    """
    sizes = {**llama.SIZES, **settings.sizes}
    if settings.begin is None:
        return sizes
    model_folder.check_folder(settings.begin, settings.out / "model")
    config = llama.config_of(settings.begin)
    return {name: getattr(config, name) for name in sizes}


def _tokenizer(settings: Settings) -> Any:
    """Load the tokenizer in the training's folder; where there is none, it is first copied from the
    weights to begin from, or built."""
    folder = settings.out / "model"
    if settings.begin is not None:
        model_folder.copy_tokenizer(settings.begin, folder)
    if not (folder / "tokenizer.json").exists():
        return tokenizer.build(folder, settings.seed)
    return AutoTokenizer.from_pretrained(str(folder))


def _optimizer(weights: Mapping[str, torch.nn.Parameter]) -> torch.optim.Optimizer:
    """The optimizer, AdamW. Norms and embeddings (input, and output: "lm_head"), whose sizes set
    how sharp the logits can be, do not decay.

    Args:
        weights: Name -> weight of the network.
    """
    decaying: list[torch.nn.Parameter] = []
    undecayed: list[torch.nn.Parameter] = []
    for name, weight in weights.items():
        if "norm" in name or "embed_tokens" in name or "lm_head" in name:
            undecayed.append(weight)
        else:
            decaying.append(weight)
    groups = [
        {"params": decaying, "weight_decay": 0.05},
        {"params": undecayed, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, betas=(0.9, 0.98), fused=True)

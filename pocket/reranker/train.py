"""Training of the pocket world's reranker: seeded, resumable, from the weights of the pocket model.

    train(Settings(out=Path("reranker"), begin=Path("pocket/model")), tell=print)

    OUT/model        the folder that `--set reranker.source=OUT/model` takes
    OUT/checkpoint   where it stands; OUT/log.jsonl: a line every 25 steps

A step reads a few questions, each with every chunk of its text: the loss is the cross-entropy between the softmax of
the question's scores and the chunks that state its supporting facts, in equal shares (ListNet's top-one loss, Cao et
al. 2007, section 4). The rate rises over 50 steps and falls in a line to a fiftieth.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.training import checkpoint
from harness.training.loop import Loop
from pocket.reranker import model as reranker_folder
from pocket.reranker.data import Listed, lists_of_step
from pocket.train import llama

if TYPE_CHECKING:
    from torch import Tensor


LAYERS, STEPS = 5, 700
_RATE, _WARM, _LEAST = 4e-4, 50, 0.02
_SAY, _SAVE, _TOP = 25, 100, 5


@dataclass(frozen=True)
class Settings:
    """out: the folder; begin: the pocket model it is cut from; steps: total; questions: of a step."""

    out: Path
    begin: Path
    layers: int = LAYERS
    seed: int = 0
    steps: int = STEPS
    questions: int = 2


class _Trainer(Loop["list[Listed]"]):
    """The network, its optimizer and where they stand."""

    advice = "begin again with another --seed"

    def __init__(self, settings: Settings, tell: Callable[[str], None]) -> None:
        import torch

        llama.check(settings.begin, settings.out / "none")
        about = {name: getattr(settings, name) for name in ("layers", "seed", "steps", "questions")}
        super().__init__(settings.out, {**about, "begin": llama.weights_mark(settings.begin)})
        self.settings, self.tell = settings, tell
        self.log_every, self.save_every = _SAY, _SAVE
        self.net = reranker_folder.cut(settings.begin, settings.layers, settings.seed)
        self.tokenizer = reranker_folder.tokenizer(settings.begin, settings.out / "model")
        self.offsets = offsets_of(self.tokenizer)
        self.weights = dict(self.net.named_parameters())
        self.optimizer = torch.optim.AdamW(self.weights.values(), betas=(0.9, 0.98), weight_decay=0.01)
        self.restore(checkpoint.load(self.folder, self.about))
        self.found = list(self.progress.recent.get("found", []))
        if self.progress.step:
            tell(f"going on from step {self.progress.step}")

    def save(self) -> None:
        """The checkpoint, then the model as it is now."""
        self.progress.recent = {"found": self.found}
        super().save()
        # Loaded in float32, so that a score does not depend on the padding of its batch.
        llama.save(self.net, self.settings.out / "model", "float32")

    def _finished(self) -> bool:
        return self.progress.step >= self.settings.steps

    def _batches(self) -> Generator[list[Listed]]:
        """The questions of each step, with every chunk of their texts."""
        while True:
            yield lists_of_step(self.settings.seed, self.progress.step, self.settings.questions, self.offsets)

    def _step(self, batch: list[Listed]) -> float:
        """Return the mean loss of a question."""
        import torch

        scores = self._scores(batch)
        loss: Any = sum((_loss(s, item) for s, item in zip(scores, batch, strict=True)), torch.zeros(())) / len(batch)
        value = self._descend([loss], _rate(self.progress.step, self.settings.steps))
        self.found += [_recall(s.detach().numpy(), item.stating) for s, item in zip(scores, batch, strict=True)]
        del self.found[:-200]
        return value

    def _scores(self, lists: Sequence[Listed]) -> list[Tensor]:
        """Scores [chunks] of each question, float32."""
        import torch

        pairs = [(item.question, text) for item in lists for text in item.texts]
        rows = self.tokenizer(
            [q for q, _ in pairs], [t for _, t in pairs],
            truncation=True, max_length=reranker_folder.LONGEST, padding=True, return_tensors="pt",
        )  # fmt: skip
        self.progress.tokens += int(rows["attention_mask"].sum())
        with torch.autocast("cpu", torch.bfloat16):
            logits = self.net(input_ids=rows["input_ids"], attention_mask=rows["attention_mask"]).logits[:, 0]
        return list(logits.float().split([len(item.texts) for item in lists]))

    def _log(self, loss: float) -> None:
        p = self.progress
        record = {"step": p.step, "loss": round(loss, 4), f"recall@{_TOP}": round(float(np.mean(self.found)), 3)}
        record |= {"minutes": round(p.seconds / 60, 2), "tokens_per_s": round(p.tokens / max(p.seconds, 1e-9))}
        self.note(record)
        self.tell("  ".join(f"{name} {value}" for name, value in record.items()))


def offsets_of(tokenizer: Any) -> Callable[[str], list[tuple[int, int]]]:
    """The characters of every token of a text, without special tokens."""

    def offsets(text: str) -> list[tuple[int, int]]:
        encoding = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        return [(int(a), int(b)) for a, b in encoding["offset_mapping"]]

    return offsets


def _rate(step: int, steps: int) -> float:
    return _RATE * min(1.0, (step + 1) / _WARM) * max(_LEAST, 1 - step / steps)


def _loss(scores: Tensor, item: Listed) -> Tensor:
    import torch

    stating = torch.from_numpy(item.stating)
    return -scores.log_softmax(0)[stating].mean()


def _recall(scores: np.ndarray, stating: np.ndarray) -> float:
    """Share of the chunks that state a fact among the five best; ties keep the order of the text."""
    best = np.argsort(-scores, kind="stable")[:_TOP]
    return float(stating[best].sum() / stating.sum())


def train(settings: Settings, tell: Callable[[str], None], stop: threading.Event | None = None) -> Path:
    """Train, and return the model's folder; stopped in between, the same call goes on.

    Raises UserError where `out` is of another training, CannotRun for weights that cannot be used.
    """
    trainer = _Trainer(settings, tell)
    trainer.run(stop)
    return settings.out / "model"

"""Training of the pocket world's reranker: seeded, resumable, from the weights of the pocket model.

    Trainer(Settings(out=Path("reranker"), begin=Path("pocket/model")), tell=print).run()

    OUT/model        the folder that `--set reranker.source=OUT/model` takes
    OUT/checkpoint   where it stands; OUT/log.jsonl: a line every 25 steps

A step reads a few questions, each with every chunk of its text: the loss is the cross-entropy
between the softmax of the question's scores and the chunks that state its supporting facts, in
equal shares (ListNet's top-one loss, Cao et al. 2007, section 4). The rate rises over 50 steps and
falls in a line to a fiftieth.

The model is a cross-encoder cut from the pocket model: its input embeddings and first layers, and
one number read where its reply to a text and a question would begin:

    <|begin|><|user|>passage
    Question: question
    Answer:<|end|><|assistant|>

What is written is a folder of transformers as any reranker's: harness/embed/load.py loads it like
all others. A text cannot forge the control tokens: its tokenizer splits them.
"""

import json
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from harness_training.loop import Loop, load_checkpoint
from tokenizers import Tokenizer
from torch import Tensor
from transformers import AutoTokenizer, LlamaForSequenceClassification

from harness.errors import CannotRun
from harness.storage.file_hash import file_hash
from harness.storage.files import read_object, write_json
from pocket.reranker.data import QuestionWithChunks, questions_of_step
from pocket.train import llama, model_folder

LAYERS = 5
STEPS = 700
_RATE = 4e-4  # highest learning rate
_WARM_UP_STEPS = 50  # steps in which it rises
_FINAL_SHARE_OF_RATE = 0.02  # share of it that is left at the end
_STEPS_PER_LOG_LINE = 25  # steps between lines of the log
_STEPS_PER_CHECKPOINT = 100  # steps between checkpoints
_N_BEST_CHUNKS = 5  # chunks with the highest scores, among which those that state facts are counted
MAX_PAIR_TOKENS = 512
"""Tokens of a pair at most, as the released rerankers have it
(docs/methods/retrieval.md#encoders)."""

_PAD_TOKEN = "<|end|>"
_QUESTION_PART = "A"  # the question of a pair
_PASSAGE_PART = "B"  # the passage of a pair
_BEFORE_QUESTION = "\n\nQuestion: "
_BEFORE_REPLY = "\nAnswer:"
_PAIR_TEMPLATE = (
    "<|begin|>",
    "<|user|>",
    _PASSAGE_PART,
    _BEFORE_QUESTION,
    _QUESTION_PART,
    _BEFORE_REPLY,
    "<|end|>",
    "<|assistant|>",
)

_CARD = """# pocket-reranker

A toy cross-encoder of the synthetic world, so that the reranker rows can run anywhere: it stands in for a real reranker
in the names of rows (`bge-reranker[pocket-reranker]`). On real text its scores mean nothing.

Cut from pocket-llama (weights {begin}): its input embeddings and first {layers} layers, under a new head. {step:,}
steps of {questions} questions with all chunks of their texts, {tokens:,} tokens, {processor_minutes} minutes of
one processor core, seed {seed}.
"""


@dataclass(frozen=True)
class Settings:
    """A training of a reranker.

    Args:
        out: The folder of the training.
        begin: The folder of the pocket model that is cut.
        layers: How many of its layers stay.
        seed: Another seed gives other first weights and texts.
        steps: How many steps in total.
        questions: How many questions a step reads.
    """

    out: Path
    begin: Path
    layers: int = LAYERS
    seed: int = 0
    steps: int = STEPS
    questions: int = 2


class Trainer(Loop["list[QuestionWithChunks]"]):
    """The training of a reranker, from its first step or from the checkpoint in its folder. A batch
    is a list of questions with their chunks."""

    advice = "begin again with another --seed"

    def __init__(self, settings: Settings, tell: Callable[[str], None]) -> None:
        """Prepare the training: cut the network, and write the tokenizer of pairs into the folder.

        Args:
            settings: The training.
            tell: Called with each line on how it goes.

        Raises:
            UserError: `settings.out` is of another training.
            CannotRun: The weights to begin from cannot be used.
        """
        # Compared with no tokenizer: the one in `out` is written anew below.
        model_folder.check_folder(settings.begin, target_folder=settings.out / "none")
        # What identifies the training; a checkpoint with other values is not gone on from.
        about = {name: getattr(settings, name) for name in ("layers", "seed", "steps", "questions")}
        about["begin"] = model_folder.weights_digest(settings.begin)
        self.settings = settings
        self.tell = tell
        self.net = cut_to_layers(settings.begin, settings.layers, settings.seed)
        self.tokenizer = pair_tokenizer(settings.begin, settings.out / "model")
        self.offsets = offsets_of(self.tokenizer)
        optimizer = torch.optim.AdamW(self.net.parameters(), betas=(0.9, 0.98), weight_decay=0.01)
        saved = load_checkpoint(settings.out / "checkpoint", about)
        super().__init__(
            self.net, settings.out, about, saved, optimizer=optimizer, max_steps=settings.steps,
            save_steps=_STEPS_PER_CHECKPOINT, logging_steps=_STEPS_PER_LOG_LINE, use_cpu=True,
            lr_scheduler_type="constant",
        )  # fmt: skip
        # For each recent question the share of its supporting chunks among the best.
        self.found = self.progress.recent.setdefault("found", [])
        if self.progress.step:
            tell(f"going on from step {self.progress.step}")

    def _after_save(self) -> None:
        """Write the model as it is now, with its card."""
        folder = self.settings.out / "model"
        progress = self.progress
        llama.save_weights(self.net, folder, dtype="float32")  # else padding changes scores
        trained: dict[str, object] = {
            **self.about,
            "tokens": progress.tokens,
            "processor_minutes": round(progress.seconds / 60, 1),
        }
        file_hashes = {
            name: file_hash(folder / name) for name in ("model.safetensors", "tokenizer.json")
        }
        write_json(
            folder / "card.json",
            {"name": "pocket-reranker", "trained": trained, "sha256": file_hashes},
        )
        card_values = {**trained, "step": progress.step, "layers": self.settings.layers}
        (folder / "CARD.md").write_text(_CARD.format(**card_values), encoding="utf-8")

    def _batches(self) -> Generator[list[QuestionWithChunks]]:
        """Yield the batch of each step, without end: its questions, each with every chunk of its
        text."""
        while True:
            yield questions_of_step(
                self.settings.seed, self.progress.step, self.settings.questions, self.offsets
            )

    def _step(self, batch: list[QuestionWithChunks]) -> float:
        """Compute the gradients of a batch, and return the mean loss of its questions. Also records
        for each question which share of its supporting chunks is among the 5 best.

        The loss of a question is the mean of -log softmax(scores) over the chunks that state a
        supporting fact (ListNet's top-one loss). The learning rate rises at first and then falls in
        a line.
        """
        scores = self._scores(batch)
        loss = torch.zeros(())
        for chunk_scores, question in zip(scores, batch, strict=True):
            states_a_fact = torch.from_numpy(question.stating)
            loss = loss - chunk_scores.log_softmax(0)[states_a_fact].mean()
        loss = loss / len(batch)
        step = self.progress.step
        warm_up = min(1.0, (step + 1) / _WARM_UP_STEPS)
        decay = max(_FINAL_SHARE_OF_RATE, 1 - step / self.settings.steps)
        loss_of_step = self.backward([loss], _RATE * warm_up * decay)
        for chunk_scores, question in zip(scores, batch, strict=True):
            # Chunks with equal scores keep the order of the text.
            best_first = np.argsort(-chunk_scores.detach().numpy(), kind="stable")
            best = best_first[:_N_BEST_CHUNKS]
            share_found = question.stating[best].sum() / question.stating.sum()
            self.found.append(float(share_found))
        del self.found[:-200]  # the last 200 stay
        return loss_of_step

    def _scores(self, questions_with_chunks: Sequence[QuestionWithChunks]) -> list[Tensor]:
        """Score every chunk of each question: a tensor [chunks], float32, for each. Also counts the
        tokens that were read."""
        questions: list[str] = []
        texts: list[str] = []
        for question in questions_with_chunks:
            questions += [question.question] * len(question.texts)
            texts += question.texts
        pair_tokens = self.tokenizer(
            questions, texts,
            truncation=True, max_length=MAX_PAIR_TOKENS, padding=True, return_tensors="pt",
        )  # fmt: skip
        self.progress.tokens += int(pair_tokens["attention_mask"].sum())
        with torch.autocast("cpu", torch.bfloat16):
            logits = self.net(
                input_ids=pair_tokens["input_ids"], attention_mask=pair_tokens["attention_mask"]
            ).logits[:, 0]
        chunk_counts = [len(question.texts) for question in questions_with_chunks]
        return list(logits.float().split(chunk_counts))

    def _log(self, loss: float) -> None:
        """Log and print a line: mean loss, recall of supporting chunks among the 5 best over the
        recent questions, and speed."""
        progress = self.progress
        record = {
            "step": progress.step,
            "loss": round(loss, 4),
            f"recall@{_N_BEST_CHUNKS}": round(float(np.mean(self.found)), 3),
            "minutes": round(progress.seconds / 60, 2),
            "tokens_per_s": round(progress.tokens / max(progress.seconds, 1e-9)),
        }
        self.log_line(record)
        self.tell("  ".join(f"{name} {value}" for name, value in record.items()))


def cut_to_layers(folder: Path, layers: int, seed: int = 0) -> Any:
    """A LlamaForSequenceClassification, float32: the first layers of a pocket model under a new
    head that gives one number.

    Args:
        folder: The folder of the pocket model.
        layers: How many of its layers stay.
        seed: The seed of the new head's weights.

    Raises:
        CannotRun: The model has fewer layers, or its weights cannot be read.
    """
    added_tokens = read_object(folder / "tokenizer.json")["added_tokens"]
    pad_id = next(token["id"] for token in added_tokens if token["content"] == _PAD_TOKEN)
    config = llama.config_of(folder)
    if layers > config.num_hidden_layers:
        raise CannotRun(
            f"the model in {folder} has {config.num_hidden_layers} layers, so no {layers} can be "
            "taken"
        )
    config.num_hidden_layers = layers
    config.pad_token_id = pad_id
    config.num_labels = 1
    config.use_cache = False
    torch.manual_seed(seed)
    network = LlamaForSequenceClassification(config).float()
    llama.load_weights(network, folder, new_weights={"score.weight"})  # the head
    return network


def pair_tokenizer(folder: Path, target_folder: Path) -> Any:
    """Make a tokenizer that lays out a question and a passage as the reranker reads them, from that
    of a pocket model:

        <|begin|><|user|>passage\\n\\nQuestion: question\\nAnswer:<|end|><|assistant|>

    It is written into `target_folder`, and loaded from there. Raises OSError.

    Args:
        folder: The folder of the pocket model.
        target_folder: The folder to write it into, made if it is not there.
    """
    tokenizer_spec = read_object(folder / "tokenizer.json")
    model_tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    special_tokens: dict[str, dict[str, object]] = {}
    pair_template: list[dict[str, dict[str, object]]] = []
    for part in _PAIR_TEMPLATE:
        if part in (_QUESTION_PART, _PASSAGE_PART):
            pair_template.append({"Sequence": {"id": part, "type_id": 0}})
            continue
        pair_template.append({"SpecialToken": {"id": part, "type_id": 0}})
        encoding = model_tokenizer.encode(part, add_special_tokens=False)
        special_tokens[part] = {"id": part, "ids": encoding.ids, "tokens": encoding.tokens}
    # A part such as "\n\nQuestion: " may be several tokens; the template puts in all its ids.
    tokenizer_spec["post_processor"] |= {"pair": pair_template, "special_tokens": special_tokens}
    settings = read_object(folder / "tokenizer_config.json")
    settings |= {
        "pad_token": _PAD_TOKEN,
        "model_max_length": MAX_PAIR_TOKENS,
        "padding_side": "right",
        "split_special_tokens": True,
    }
    target_folder.mkdir(parents=True, exist_ok=True)
    (target_folder / "tokenizer.json").write_text(
        json.dumps(tokenizer_spec, ensure_ascii=False), encoding="utf-8"
    )
    write_json(target_folder / "tokenizer_config.json", settings)
    return AutoTokenizer.from_pretrained(str(target_folder))


def offsets_of(tokenizer: Any) -> Callable[[str], list[tuple[int, int]]]:
    """A function: text -> the characters [start, end) of each of its tokens, without special
    tokens."""

    def offsets(text: str) -> list[tuple[int, int]]:
        """The characters [start, end) of each token of a text."""
        encoding = tokenizer(
            text, add_special_tokens=False, return_offsets_mapping=True, verbose=False
        )
        return [(int(a), int(b)) for a, b in encoding["offset_mapping"]]

    return offsets

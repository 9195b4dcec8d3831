"""`harness pocket train`: train the pocket model; the same command goes on where it stopped.

OUT/model        the weights with their tokenizer and card, as `--model` takes them
OUT/checkpoint   where it stands; OUT/log.jsonl: a line every 50 steps; OUT/curriculum.yaml: what --skill left of it
"""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.commands.common import split
from harness.errors import CannotRun, ConfigError, UnknownName, UserError

if TYPE_CHECKING:
    from harness.pocket.curriculum import Curriculum
    from harness.pocket.feed import Feed
    from harness.pocket.network import Shape

__all__ = ["Options", "main"]

_DEVICES = ("auto", "cpu", "cuda")
_MODEL_FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja")


@dataclass(frozen=True)
class Options:
    """The flags of the command; see harness.pocket.training.Settings. skills: () for the whole curriculum."""

    out: Path
    course: Path | None = None
    begin: Path | None = None
    seed: int = 0
    steps: int | None = None
    device: str = "auto"
    skills: Sequence[str] = field(default_factory=tuple)
    mlflow: str | None = None


def main(options: Options) -> int:
    """Train and print the model's folder. Raises UserError, ConfigError, CannotRun, SaveError before it starts."""
    command = shlex.join(["harness", *sys.argv[1:]])
    _check(options)
    course = _course(options)
    shape = _shape(options)
    from harness.files import touch

    touch(options.out)
    feed = _feed(options)
    stop, status = threading.Event(), "FAILED"
    try:
        with _signals(stop):
            step = _train(options, course, shape, feed, stop)
        status = "KILLED" if stop.is_set() else "FINISHED"
    except KeyboardInterrupt:
        step, status = None, "KILLED"
    finally:
        if feed is not None:
            feed.close(status)
    if status == "KILLED":
        where = "the last checkpoint is kept" if step is None else f"a checkpoint of step {step} is saved"
        _say(f"interrupted; {where}. The same command goes on from there:")
        _say(command)
        return 130
    print(options.out / "model")
    return 0


def _train(options: Options, course: Path | None, shape: Shape | None, feed: Feed | None, stop: threading.Event) -> int:
    """Run the training; the step it ended with."""
    from harness.pocket.stoppable import Stoppable
    from harness.pocket.training import Settings

    def tell(line: str) -> None:
        _say(line)
        if feed is not None:
            feed.wake()

    o = options
    settings = Settings(o.out, course, o.begin, o.seed, o.steps, device=o.device, shape=shape)
    trainer = Stoppable(settings, tell, stop)
    trainer.run()
    return trainer.progress.step


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


@contextlib.contextmanager
def _signals(stop: threading.Event) -> Iterator[None]:
    """The first Ctrl-C or SIGTERM stops after the step at hand, the second at once."""

    def ask(*_: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        _say("stopping after this step; once more to stop at once")

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _check(options: Options) -> None:
    """Raise UnknownName for a device that is none, ConfigError for an MLflow that cannot be used at all."""
    if options.device not in _DEVICES and not re.fullmatch(r"cuda:\d+", options.device):
        raise UnknownName("device", options.device, _DEVICES)
    if options.mlflow not in (None, "off"):
        from harness.tracking import problems

        if found := problems(options.mlflow or ""):
            raise ConfigError(found)


def _feed(options: Options) -> Feed | None:
    if options.mlflow in (None, "off"):
        return None
    from harness.pocket.feed import Feed

    told = {"out", "mlflow", "skills"}
    params: dict[str, Any] = {k: str(v) for k, v in vars(options).items() if k not in told and v is not None}
    if options.skills:
        params["skills"] = ", ".join(split(options.skills))
    return Feed(options.out, options.mlflow or "", params, lambda line: _say(f"warning: {line}"))


# --- what to learn ----------------------------------------------------------------------------------------------------


def _course(options: Options) -> Path | None:
    """The curriculum's file; with --skill one that holds only what those skills need, written into the folder."""
    from harness.pocket.curriculum import curriculum, skills

    whole = curriculum(options.course)
    wanted = split(options.skills)
    for name in wanted:
        if name not in skills():
            raise UnknownName("skill", name, skills(), "harness pocket skills")
    kept = options.out / "curriculum.yaml"
    text = _only(whole, wanted) if wanted else None
    before = kept.read_text(encoding="utf-8") if kept.exists() else None
    if (options.out / "checkpoint" / "state.json").exists() and before != text:
        raise UserError(f"the training in {options.out} is of other skills; name another folder with --out")
    if text is None:
        return options.course
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(text, encoding="utf-8")
    return kept


def _only(whole: Curriculum, wanted: Sequence[str]) -> str:
    """The stages with recipes of these skills, and of recall, which all begin with. Raises UserError for one without.

    A stage whose gates were all those of other skills waits for the ones that are left.
    """
    stages: list[dict[str, Any]] = []
    for stage in whole.stages:
        recipes = [r.model_dump(mode="json") for r in stage.recipes if r.skill in (*wanted, "recall")]
        if all(r["gate"] == 0 for r in recipes):
            recipes = [{**r, "gate": None} for r in recipes]
        if recipes:
            stages.append({**stage.model_dump(mode="json"), "recipes": recipes})
    there = {r["skill"] for stage in stages for r in stage["recipes"]}
    missing = [name for name in wanted if name not in there]
    if missing:
        raise UserError(
            f"the curriculum has no recipe of the skill '{missing[0]}'; add one, or name another --curriculum"
        )
    return json.dumps({"stages": stages}, indent=2) + "\n"  # which is YAML too


# --- where to begin ---------------------------------------------------------------------------------------------------


def _shape(options: Options) -> Shape | None:
    """The shape of the weights to go on from, None to begin anew. Raises CannotRun, UserError."""
    begin = options.begin
    if begin is None:
        return None
    missing = [name for name in _MODEL_FILES if not (begin / name).is_file()]
    if missing:
        raise CannotRun(
            f"'{begin}' is no folder of a trained pocket model: it has no {missing[0]}"
            if begin.is_dir()
            else f"there is no folder '{begin}' to go on from"
        )
    there = options.out / "model" / "tokenizer.json"
    if there.exists() and there.read_bytes() != (begin / "tokenizer.json").read_bytes():
        raise UserError(
            f"the training in {options.out} has another tokenizer than '{begin}'; name another folder with --out"
        )
    from harness.pocket.network import Shape

    config = _config(begin)
    names = {"vocabulary": "vocab_size", "width": "hidden_size", "layers": "num_hidden_layers"}
    names |= {"heads": "num_attention_heads", "inner": "intermediate_size", "window": "max_position_embeddings"}
    try:
        return Shape(**{ours: int(config[theirs]) for ours, theirs in names.items()})
    except (KeyError, TypeError, ValueError) as error:
        raise CannotRun(f"the config.json in '{begin}' is none of a pocket model ({error})") from error


def _config(folder: Path) -> dict[str, Any]:
    try:
        return dict(json.loads((folder / "config.json").read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise CannotRun(f"the config.json in '{folder}' cannot be read ({error})") from error

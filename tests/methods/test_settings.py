"""Settings of methods: what the presets stand for, and which values are refused."""

import pytest
from pydantic import ValidationError

from harness.config import presets, registry
from harness.config.layers import Choices
from harness.config.resolve import resolve
from harness.method import Method
from methods.bounded_cache import BoundedCacheConfig
from methods.compression import LLMLingua, LLMLingua2, LongLLMLingua, SelectiveContext, config
from methods.gist import Gist
from methods.pecan.config import PecanConfig
from methods.qrmem.config import QRMeMConfig
from methods.retrieval import RetrievalConfig
from methods.self_route import SelfRoute
from methods.window import FullContext

MARKS = ("\n", "?", "!", ".", ",")
PRESETS = {
    "full-context": (FullContext, {}),
    "full-context-8k": (FullContext, {"max_tokens": 8192}),
    "full-context-16k": (FullContext, {"max_tokens": 16384}),
    "full-context-32k": (FullContext, {"max_tokens": 32768}),
    "full-context-64k": (FullContext, {"max_tokens": 65536}),
    "full-context-100k": (FullContext, {"max_tokens": 100_000}),
    "keep-left": (FullContext, {"keep": "left", "window": 4096}),
    "keep-right": (FullContext, {"keep": "right", "window": 4096}),
    "llmlingua": (LLMLingua, {}),
    "longllmlingua": (LongLLMLingua, {}),
    "longllmlingua-2k": (LongLLMLingua, {"contexts": "titled-lines", "target_tokens": 2000}),
    "longllmlingua-2k-chunks": (LongLLMLingua, {"contexts": "lines", "target_tokens": 2000}),
    "llmlingua-2": (LLMLingua2, {"contexts": "titled-lines", "target_tokens": 2000}),
    "llmlingua-2-longbench": (LLMLingua2, {"target_tokens": 2000, "force_tokens": MARKS, "drop_consecutive": True}),
    "selective-context": (SelectiveContext, {"target_tokens": 2000}),
}


@pytest.mark.parametrize("name", [name for name in PRESETS if name in presets.names("methods")])
def test_presets(name):
    kind, changed = PRESETS[name]
    found = resolve(Choices(method=name, dataset="musique")).config.method
    assert registry.load(found.implementation, Method) is kind
    assert kind.Config(**found.params) == kind.Config(**changed)


BLIND = {"progress_control": False}
OBSERVED = {"rule": "observed", "budget": 100, "last": 32, "width": 7}
REFUSED = [
    (BoundedCacheConfig, {**OBSERVED, "width": 4}, "set an odd one"),
    (BoundedCacheConfig, {**OBSERVED, "first": 90}, "first and last together are more than budget"),
    (Gist.Config, {"page_words": 100, "least_words": 100}, "least_words must be below page_words"),
    (QRMeMConfig, {"recogniser": "rule"}, "unknown named-entity tool 'rule'. Did you mean 'rules'"),
    (QRMeMConfig, {"navigation": "none", "record_stops": 3}, "has no trials to stop after"),
    (QRMeMConfig, {"navigation": "graph-expansion", "record_stops": 3}, "has no trials to stop after"),
    (SelfRoute.Config, {"chunk_words": 4, "chunks": "tokens"}, "cuts nothing with chunks="),
    (SelfRoute.Config, {"chunk_words": 300, "chunk_tokens": 100}, "cuts nothing with chunks="),
    (RetrievalConfig, {"k": None}, "set exactly one of k and budget"),
    (RetrievalConfig, {"k": 3, "budget": 10}, "set exactly one of k and budget"),
    (RetrievalConfig, {"chunks": "sentences"}, "chunk_sentences goes with chunks=sentences"),
    (RetrievalConfig, {"chunk_sentences": 6}, "chunk_sentences goes with chunks=sentences"),
    (RetrievalConfig, {"chunks": "packed", "chunk_sentences": 1}, "chunk_sentences goes with chunks=sentences"),
    (config.LinguaConfig, {"contexts": "titled-lines", "chunk_tokens": 9}, "chunk_tokens cuts nothing with contexts="),
    (config.LinguaConfig, {"context_budget": "exit()"}, "an operator and a number"),
    (config.LinguaConfig, {"context_budget": "/0"}, "an operator and a number"),
    (config.LinguaConfig, {"rate": 1.5}, "less than or equal to 1"),
    (config.LinguaConfig, {"target_tokens": 0}, "greater than 0"),
    (config.LinguaConfig, {"add_instruction": True}, "changes nothing unless"),
    (config.LLMLinguaConfig, {"rank_method": "bm25"}, "use method longllmlingua"),
    (config.LLMLinguaConfig, {"condition_compare": True}, "use method longllmlingua"),
    (config.SelectiveConfig, {"reduce_ratio": 1.0}, "less than 1"),
    (config.SelectiveConfig, {"level": "phrase"}, "'token' or 'sentence'"),
    (PecanConfig, {"attention": False, "similarity": False}, "\nsimilarity\n.*no node can be chosen; keep one of the"),
    (PecanConfig, BLIND, "\nprogress_control\n.*say how many with method.max_nodes=N"),
    (PecanConfig, {**BLIND, "max_nodes": 3, "record_stops": 2}, "\nrecord_stops\n.*without progress control no probe"),
    (PecanConfig, {"record_t_p": 0.9}, "\nrecord_t_p\n.*add method.record_stops=N"),
    (PecanConfig, {"record_stops": 0}, "\nrecord_stops\n.*greater than or equal to 1"),
    (PecanConfig, {"record_stops": 1, "record_t_p": 1.5}, "\nrecord_t_p\n.*less than or equal to 1"),
    (PecanConfig, {"verdict": "sure"}, "\nverdict\n.*'threshold' or 'greedy'"),
]


@pytest.mark.parametrize(("kind", "bad", "told"), REFUSED)
def test_settings_that_do_not_go_together_are_refused(kind, bad, told):
    with pytest.raises(ValidationError, match=told):
        kind(**bad)

"""The run hashes of shipped presets stay, so that runs that are stored are found and continued by a
later version."""

import json

from harness.config import plugins, presets, registry
from harness.config.yaml_tree import Tree

# One preset of each implementation of this project but NOT_HELD, with profile pocket and
# pocket-llama on pocket/musique. A hash that changes says that every stored run of these presets is
# asked again. A new parameter of a shared Config does that; give the method that needs it a class of
# its own. Where a method does answer otherwise, its hash has to change here too.
HASHES = {
    "a-rag": "966dcfef",
    "bge-reranker": "b2b07375",
    "bm25": "5dfa5704",
    "closed-book": "618e808b",
    "comorag": "7ce60b6a",
    "decom": "71f61069",
    "dos-rag": "087ecc39",
    "flare": "eaefa8ce",
    "full-context": "67c48949",
    "garlic": "0d71d845",
    "gist": "8c1bdb1f",
    "graphrag-local": "69a7c529",
    "hipporag-2": "24f93f76",
    "hybrid": "2cb2da3b",
    "icr": "f5a0516a",
    "ircot": "3e5d3aca",
    "iter-retgen": "2a396a03",
    "jina-segment": "9e2becea",
    "lightrag": "fd2fbbb6",
    "linearrag": "87a7fd2e",
    "llmlingua": "3b43a976",
    "longllmlingua": "129fcd96",
    "longrefiner": "bb8c3520",
    "longrefiner-rival-bm25": "3b2ab342",
    "memagent": "12622a61",
    "memwalker": "15aa6fce",
    "meta-chunking": "81745602",
    "naive-generation": "618e808b",
    "oracle-evidence": "c2c0a93e",
    "pecan": "80973f9c",
    "qrmem": "c4603035",
    "random": "5c60e28b",
    "raptor-ct": "ad273ce1",
    "recomp": "1363d343",
    "rememr1": "27c5e707",
    "sbert": "94827951",
    "search-o1": "a0cc646d",
    "search-r1": "a520afaa",
    "selective-context": "10b3d3fa",
    "self-ask": "370a4de7",
    "self-route": "8a9c596d",
    "sliding-window": "a33ee4c4",
    "snapkv": "2172eb7f",
    "summary": "a735f0bc",
    "tool-agent": "e29f67da",
}
# It has no preset; its weights are fetched; it runs code only where that is allowed.
NOT_HELD = {"application", "llmlingua-2", "rlm"}


def test_every_implementation_is_held() -> None:
    held = {Tree(presets.read("methods", name)).values["implementation"] for name in HASHES}
    of_packages = plugins.targets(registry.ENTRY_POINT_GROUPS["methods"]).keys()
    missing = sorted(registry.targets("methods").keys() - of_packages - held - NOT_HELD)
    assert not missing, f"HASHES lacks a preset of {missing}"


def test_run_hashes_of_presets(command) -> None:
    code, out, err = command(
        "validate", "--method", ",".join(HASHES), "--dataset", "pocket/musique", "--profile", "pocket",
        "--set", "dataset.tokens=300", "--json",
    )  # fmt: skip
    assert code == 0, err
    runs = [json.loads(line)["run"] for line in out.splitlines()]
    assert {
        run.partition("/")[2].partition("--")[0].partition("[")[0]: run[-8:] for run in runs
    } == HASHES

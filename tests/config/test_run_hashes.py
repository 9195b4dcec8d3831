"""The run hashes of shipped presets stay, so that runs that are stored are found and continued by a
later version."""

import json

# One preset of each implementation, with profile pocket and pocket-llama on pocket/musique. A hash
# that changes says that every stored run of these presets is asked again. A new parameter of a
# shared Config does that; give the method that needs it a class of its own. Where a method does
# answer otherwise, its hash has to change here too.
HASHES = {
    "bge-reranker": "b2b07375",
    "bm25": "5dfa5704",
    "closed-book": "618e808b",
    "decom": "71f61069",
    "full-context": "67c48949",
    "garlic": "0d71d845",
    "gist": "8c1bdb1f",
    "jina-segment": "9e2becea",
    "llmlingua": "3b43a976",
    "longllmlingua": "129fcd96",
    "longrefiner": "bb8c3520",
    "longrefiner-rival-bm25": "3b2ab342",
    "memwalker": "15aa6fce",
    "meta-chunking": "81745602",
    "naive-generation": "618e808b",
    "oracle-evidence": "c2c0a93e",
    "pecan": "80973f9c",
    "qrmem": "c4603035",
    "random": "5c60e28b",
    "raptor-ct": "ad273ce1",
    "recomp": "1363d343",
    "sbert": "94827951",
    "selective-context": "10b3d3fa",
    "sliding-window": "a33ee4c4",
    "summary": "a735f0bc",
}


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

"""Every data set in the form of its official release, read by its preset alone.

A release is a folder, an archive or a repository on a hub with the file names that the authors
publish. The file that is meant holds real rows (HARNESS_TEST_DATA) or made-up ones of the same form
(tests/datasets/releases.py).
"""

import csv
import io
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from harness.config import presets
from harness.config.layers import Choices
from harness.config.resolve import resolve
from harness.datasets import load
from harness.errors import CannotRun
from harness.scorers.groups import LENGTH_CLASSES, length_class
from tests.datasets import more_rows, releases, support
from tests.datasets.support import REAL

COMMIT = "1" * 40


@dataclass(frozen=True)
class Release:
    """A preset's data as published.

    place: a folder ("NAME/"), an archive, or "hub:OWNER/NAME[@BRANCH]"; files: path -> contents;
    given: the path below a folder that --data names; rows: how many questions it has; sets: what
    must be set besides --data.
    """

    preset: str
    place: str
    files: Callable[[], dict[str, bytes]]
    rows: int
    given: str = ""
    sets: dict[str, Any] = field(default_factory=dict)


GTR, BM25 = (
    {"dataset.files": f"{name}.json"} for name in ("asqa_eval_gtr_top100", "eli5_eval_bm25_top100")
)
FLASHRAG = {"nq": ("test", "3,610"), "triviaqa": ("test", "11,313"), "popqa": ("test", "14,267")}
FLASHRAG |= {
    "asqa": ("dev", "948"),
    "eli5": ("dev", "1,507"),
}  # the split, and how many questions it has
HELMET = {f"{name}": f"{name}-dev-multikilt_1000_k1000_dep6" for name in ("nq", "triviaqa")}
HELMET |= {
    "hotpotqa": "hotpotqa-dev-multikilt_1000_k1000_dep3",
    "popqa": "popqa_test_1000_k1000_dep6",
}
STORIES = (
    6 if REAL else 4
)  # questions on the stories of the test split, and below those on one paper and one article
PAPER = 3 if REAL else 2
DOCS = {"dataset.documents": "retrieved.json"}

INFINITE = {"en_qa": 351, "en_mc": 229, "en_dia": 200, "en_sum": 103, "zh_qa": 175}
OOLONG, SHARD = "oolongbench/oolong", "00000-of-00001.parquet"
LOONG = partial(support.loong, answer="['Bo']")
# preset -> (repository, file, a row of it, how many)
NEWER = {
    f"mrcr/{n}needle": ("openai/mrcr", f"{n}needle.parquet", support.mrcr, 3) for n in (2, 4, 8)
}
NEWER["oolong/synth"] = (f"{OOLONG}-synth", f"data/test-{SHARD}", support.oolong, 3)
NEWER["oolong/real"] = (
    f"{OOLONG}-real",
    "dnd/test.jsonl",
    partial(support.oolong, answer_type=None),
    3,
)
NEWER |= {
    f"loong/{kind}": ("framolfese/Loong", f"data/{kind}-{SHARD}", LOONG, 3)
    for kind in ("paper", "financial")
}
NEWER["longbench-pro"] = ("caskcsg/LongBench-Pro", "longbench_pro.json", support.longbench_pro, 3)
NEWER |= {
    f"helmet/{name}": ("princeton-nlp/HELMET", f"data/kilt/{file}.jsonl", support.helmet, 3)
    for name, file in HELMET.items()
}
NEWER |= {
    f"babilong/qa{n}": ("RMT-team/babilong", f"data/qa{n}/16k.json", more_rows.babilong, 3)
    for n in range(1, 11)
}

for _name, _file, _row in (
    ("alce_asqa", "alce/asqa_eval_gtr_top2000", more_rows.alce_asqa),
    ("alce_qampari", "alce/qampari_eval_gtr_top2000", more_rows.alce_qampari),
    ("json_kv", "json_kv/test_k1800_dep6", more_rows.json_kv),
    ("msmarco", "msmarco/test_reranking_data_k1000_dep3", more_rows.rerank),
):
    NEWER[f"helmet/{_name}"] = ("princeton-nlp/HELMET", f"data/{_file}.jsonl", _row, 3)

RELEASES = [
    Release("narrativeqa", "narrativeqa/", releases.narrativeqa, STORIES),
    Release("narrativeqa", "hub:deepmind/narrativeqa", releases.narrativeqa_hub, STORIES),
    Release("narrativeqa", "clone/", releases.narrativeqa_hub, STORIES),
    Release("qasper", "qasper-test-and-evaluator-v0.3.tgz", releases.qasper_files, PAPER),
    Release("qasper", "hub:allenai/qasper@refs/convert/parquet", releases.qasper_hub, PAPER),
    Release("hotpotqa", "hotpot/", releases.hotpot_files, 3),
    Release("hotpotqa", "hub:hotpotqa/hotpot_qa", releases.hotpot_hub, 3),
    Release(
        "longbench-v2",
        "hub:THUDM/LongBench-v2",
        lambda: {"data.json": releases.listed(releases.four(503))},
        503,
    ),
    *(
        Release(f"infinitebench/{name}", place, releases.infinitebench, count)
        for name, count in INFINITE.items()
        for place in ("hub:xinrongzhang2022/InfiniteBench", "InfiniteBench/")
    ),
    *(
        Release(f"longmemeval/{name}", "hub:xiaowu0162/longmemeval-cleaned", releases.chats, 500)
        for name in ("s", "s-430", "oracle")
    ),
    *(
        Release(preset, f"hub:{repo}", releases.newer(file, row, count), count)
        for preset, (repo, file, row, count) in NEWER.items()
    ),
    *(
        Release(f"memoryagentbench/{name}", "hub:ai-hyz/MemoryAgentBench", releases.memory(name), 4)
        for name in more_rows.MEMORY
    ),
    Release("loong/legal", "processed/", releases.loong("legal", "zh"), 3),
    Release("loong/financial_zh", "processed/", releases.loong("financial", "zh"), 3),
    *(
        Release(f"helmet/infbench_{name}", "InfiniteBench/", releases.infinitebench, count)
        for name, count in (("qa", 351), ("mc", 229))
    ),
    *(
        Release(f"graphrag-bench/{name}", "GraphRAG-Benchmark/", releases.graphrag, 2, given)
        for name, given in (("novel", ""), ("medical", "Datas"))
    ),
    *(
        Release(f"nolima/{name}", place, releases.nolima, 26)
        for name in ("standard", "hard", "direct")
        for place in ("hub:amodaresi/NoLiMa", "NoLiMa/")
    ),
    *(Release(f"leval/{name}", "hub:L4NLP/LEval", releases.leval, 4) for name in more_rows.LEVAL),
    *(
        Release(f"lveval/{name}", "hub:Infinigence/LVEval", releases.lveval(name), 3)
        for name in more_rows.LVEVAL
    ),
    *(
        Release(f"loogle/{name}", "LooGLE-testdata/", releases.newer(f"{name}.jsonl", row, 2), n)
        for (name, row), n in zip(more_rows.LOOGLE.items(), (4, 4, 2, 2), strict=True)
    ),
    Release("oolong/pairs", "pairs/", releases.pairs, 3, sets={"dataset.texts": "pairs/synth"}),
    Release(
        "browsecomp-plus",
        "data/",
        releases.newer("browsecomp_plus_decrypted.jsonl", more_rows.browsecomp_plus, 3),
        3,
    ),
    *(
        Release(f"beam/{size}", "hub:Mohammadta/BEAM", releases.beam, count)
        for size, count in (("100k", 2), ("500k", 4), ("1m", 6))
    ),
    Release("locomo", "data/", releases.newer("locomo10.json", more_rows.locomo, 2), 10),
    Release("musique", "musique_v1.0.zip", releases.musique_files, 3),
    Release("musique", "unpacked/", releases.musique_files, 3),
    Release("musique-full", "musique_v1.0.zip", releases.musique_full_files, 4),
    Release("musique", "hub:dgslibisey/MuSiQue", releases.musique_hub, 3),
    Release("2wikimultihopqa", "data_ids_april7.zip", releases.twowiki_files("data_ids/"), 3),
    Release("2wikimultihopqa", "hub:voidful/2WikiMultihopQA", releases.twowiki_files(""), 3),
    Release("quality", "QuALITY.v1.0.1.zip", releases.quality_files, 10),
    Release("quality", "hub:emozilla/quality", releases.quality_hub, 10),
    *(
        Release(
            name,
            "hub:RUC-NLPIR/FlashRAG_datasets",
            releases.flashrag_hub(name, split, 3),
            3,
            sets=DOCS,
        )
        for name, (split, _) in FLASHRAG.items()
    ),
    Release("nq", "FlashRAG_datasets/", releases.flashrag_hub("nq", "test", 3), 3, sets=DOCS),
    Release(
        "triviaqa", "triviaqa-rc/", releases.trivia, 9 if REAL else 1, given="qa/wikipedia-dev.json"
    ),
    Release("popqa", "adaptive-retrieval/", releases.popqa_files, 3, sets=DOCS),
    Release("asqa", "dataset/", releases.asqa_files, 3 if REAL else 1, sets=DOCS),
    Release("asqa", "ALCE-data.tar", releases.alce("asqa_eval_gtr_top100"), 3, sets=GTR),
    Release("eli5", "ALCE-data.tar", releases.alce("eli5_eval_bm25_top100"), 3, sets=BM25),
    Release("eli5", "KILT/", releases.kilt_files, 3, sets=DOCS),
]


def placed(release, folder, hub):
    """Put a release where its name says; what --data is given, None for the hub."""
    files = release.files()
    if release.place.startswith("hub:"):
        repo, _, branch = release.place.removeprefix("hub:").partition("@")
        hub.add(repo, COMMIT, files, branch or "main")
        return None
    place = folder / release.place
    if not release.place.endswith("/"):
        place.write_bytes(releases.packed(place.suffix, files))
        return str(place)
    for name, content in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(content)
    return str(place / release.given)


def loaded(release, data):
    """The data set as `harness run --dataset PRESET [--data PLACE]` resolves it."""
    sets = dict(release.sets)
    return load(
        resolve(Choices(method="bm25", dataset=release.preset, data=data, sets=sets)).config.dataset
    )


@pytest.mark.parametrize("release", RELEASES, ids=lambda one: f"{one.preset} from {one.place}")
def test_a_release_is_read_as_published(release, tmp_path, hub, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = placed(release, tmp_path, hub)
    if release.sets is DOCS:  # what a retriever returned, by the text of the question
        asked = [*releases.flashrag(), *releases.kilt(), *releases.popqa(), *releases.asqa()]
        texts = [
            row.get("question") or row.get("input") or row["ambiguous_question"] for row in asked
        ]
        Path("retrieved.json").write_text(json.dumps({text: [releases.PAGE] for text in texts}))
    made = loaded(release, data)
    assert len(made) == release.rows
    assert made.skipped == {}
    assert all(
        e.gold.answers and made.documents[id_].text
        for e in made.examples
        for id_ in e.question.document_ids
    )
    if release.preset in FLASHRAG:
        assert f"{FLASHRAG[release.preset][1]} " in " ".join(presets.download_notes(release.preset))


def test_longbench_has_the_questions_that_its_authors_count(hub):
    # The archive has 114 MB in truth; the same files and numbers of rows here.
    data_zip = releases.packed(".zip", releases.longbench())
    hub.add(
        "THUDM/LongBench",
        COMMIT,
        {"README.md": b"", "LongBench.py": releases.OTHER, "data.zip": data_zip},
    )
    for name in releases.LONGBENCH:
        made = loaded(Release(f"longbench/{name}", "hub:", dict, 0), None)
        lengths = Counter(length_class(e.gold.extra["length"]) for e in made.examples)
        if name.endswith("_e"):
            assert tuple(lengths[each] for each in LENGTH_CLASSES) == releases.LONGBENCH[name], name
        assert (len(made), made.skipped) == (sum(releases.LONGBENCH[name]), {}), name
        assert f"{len(made)} questions" in " ".join(presets.download_notes(f"longbench/{name}")), (
            name
        )


@support.needs_real
def test_narrativeqa_has_the_documents_of_the_papers():
    table = csv.DictReader(io.StringIO(releases.stories()[0]["documents.csv"]))
    books = sum(row["set"] == "test" for row in table)
    assert f"on {books} books and film scripts" in " ".join(presets.download_notes("narrativeqa"))


def test_every_data_set_has_a_release():
    asked = {
        name for name in presets.names("datasets") if not name.startswith(("pocket/", "ruler/"))
    }
    longbench = {f"longbench/{name}" for name in releases.LONGBENCH}
    of_others = {
        "qasper-hints",
        "longbench-v2-cot",
        "musique-shots",
        "musique-shots-ircot",
        "folder",
        "rows",
    }  # their rows
    released = {release.preset for release in RELEASES} | longbench | of_others
    missing, unknown = sorted(asked - released), sorted(released - asked)
    assert not missing, f"RELEASES lacks {missing}: a made-up release in the published form"
    assert not unknown, f"{unknown} are no data sets"


def test_another_copy_without_the_name_of_the_subset_is_read_when_asked(hub):
    hub.add("me/musique", COMMIT, {"dev.json": releases.listed(releases.musique())})
    sets = {"dataset.hub": "me/musique"}
    with pytest.raises(
        CannotRun, match="no file of subset 'ans' among dev.json; set dataset.subset, or null"
    ):
        loaded(Release("musique", "hub:", dict, 0, sets=sets), None)
    assert (
        len(
            loaded(Release("musique", "hub:", dict, 0, sets={**sets, "dataset.subset": None}), None)
        )
        == 3
    )

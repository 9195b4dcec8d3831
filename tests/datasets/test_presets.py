"""The shipped data sets of rows that are fetched: complete, licensed, cited, and their made-up
twins."""

import json
import re
from pathlib import Path

import pytest

from harness import scorers
from harness.api.run_request import Selection
from harness.cli.show import show
from harness.config import presets
from harness.config.layers import Choices
from harness.config.resolve import resolve
from harness.config.schema import DatasetConfig
from harness.datasets.formats import format_names, option_fields
from harness.scorers.longbench_eval import _SCORED_ON_FIRST_LINE, DATASETS
from tests.datasets.more_rows import LEVAL, LOOGLE, LVEVAL, MEMORY

FOLDER = Path(__file__).parents[2] / "configs" / "datasets"
NAMES = sorted(
    path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.rglob("*.yaml")
)
for own in ("folder", "rows"):  # the user's own: no licence, citation or download of ours
    NAMES.remove(own)
FETCHED = [name for name in NAMES if not name.startswith(("pocket/", "ruler/"))]
LONGBENCH = [name for name in FETCHED if name.startswith("longbench/")]
BUCKETED = [name for name in LONGBENCH if name.endswith("_e")]
CHATS = {"longmemeval/s", "longmemeval/s-430", "longmemeval/oracle"}
# Their sizes are not known.
UNCOUNTED = {"oolong/synth", "oolong/real", "oolong/pairs", *(f"loogle/{name}" for name in LOOGLE)}
UNCOUNTED |= {f"memoryagentbench/{name}" for name in MEMORY}
UNCOUNTED |= {f"leval/{name}" for name in LEVAL}
NEWER = {
    "oolong/synth",
    "oolong/real",
    "longbench-pro",
    "loong/paper",
    "loong/financial",
    *(f"mrcr/{n}needle" for n in (2, 4, 8)),
}
HELMET = {f"helmet/{name}" for name in ("nq", "triviaqa", "hotpotqa", "popqa")}
TWINNED = {"musique", "hotpotqa", "2wikimultihopqa", "narrativeqa", "qasper", "quality"}
# Answer caps: LongBench's, which the papers' follow; ALCE's for long answers; an option of QuALITY
# is a sentence.
CAPS = {
    "narrativeqa": 128,
    "qasper": 128,
    "dureader": 128,
    "multifieldqa_en": 64,
    "multifieldqa_zh": 64,
}
CAPS |= dict.fromkeys(("gov_report", "qmsum", "multi_news", "vcsum"), 512) | {"samsum": 128}
CAPS |= dict.fromkeys(("trec", "lsht", "lcc", "repobench-p"), 64)
OWN_CAPS = {
    "longbench-v2": 128,
    "longbench-v2-cot": 1152,
    "infinitebench/en_qa": 40,
    "infinitebench/en_mc": 40,
}
OWN_CAPS |= dict.fromkeys(CHATS, 800) | {
    "quality": 128,
    "qasper-hints": 128,
    "asqa": 300,
    "eli5": 300,
}
OWN_CAPS |= (
    dict.fromkeys(NEWER, 1024)
    | {f"mrcr/{n}needle": 2048 for n in (2, 4, 8)}
    | dict.fromkeys(HELMET, 20)
)
HEADLINES = {
    **{f"mrcr/{n}needle": "mrcr.match" for n in (2, 4, 8)},
    **dict.fromkeys(HELMET, "helmet.substring_exact_match.first_line"),
    "oolong/synth": "oolong.synth",
    "oolong/real": "oolong.real",
    "longbench-pro": "longbench_pro.score",
    "quality": "quality.accuracy",
    **dict.fromkeys(("longbench-v2", "longbench-v2-cot"), "longbench_v2.accuracy"),
    "infinitebench/en_qa": "infinitebench.qa_f1",
    "infinitebench/en_mc": "infinitebench.choice",
    **dict.fromkeys(CHATS, "longmemeval.match"),
    "musique-full": "musique.answer_f1.answerable",
    "asqa": "alce.str_em",
    "eli5": "flashrag.f1",
    **dict.fromkeys(("nq", "triviaqa", "popqa"), "flashrag.acc"),
    # Qasper's own scorer is the same metric under the data set's name.
    **dict.fromkeys(("qasper", "qasper-hints"), "qasper.token_f1_score"),
}
NOT_ON_A_HUB = {
    "browsecomp-plus",
    "graphrag-bench/novel",
    "graphrag-bench/medical",
    "locomo",
    "loong/legal",
    "loong/financial_zh",
    *(f"loogle/{name}" for name in LOOGLE),
}
# The caps and headlines of the sets after them, which are their authors'; those of a new set, unless
# they are 32 and LongBench's F1.
LATER = {
    "oolong/pairs": (8192, "oolong_pairs.f1"),
    "browsecomp-plus": (2048, "flashrag.acc"),
    **{f"beam/{size}": (1024, "longbench.qa_f1_score") for size in ("100k", "500k", "1m")},
    "helmet/alce_asqa": (300, "alce.str_em.uncited"),
    "helmet/alce_qampari": (300, "alce.qampari_f1_top5"),
    "graphrag-bench/novel": (512, "rouge_score.rougeL_stem"),
    "graphrag-bench/medical": (512, "rouge_score.rougeL_stem"),
    **{f"memoryagentbench/{name}": made[1:] for name, made in MEMORY.items()},
    "helmet/json_kv": (100, "helmet.substring_exact_match"),
    "helmet/msmarco": (200, "helmet.ndcg_10"),
    "helmet/infbench_qa": (10, "helmet.rougeL_recall"),
    "helmet/infbench_mc": (10, "helmet.choice"),
    "loong/legal": (1024, "longbench.qa_f1_score"),
    "loong/financial_zh": (1024, "longbench.qa_f1_score"),
    **{f"nolima/{n}": (128, "nolima.contains") for n in ("standard", "hard", "direct")},
    **{f"leval/{name}": (512, headline) for name, headline in LEVAL.items()},
    "infinitebench/en_dia": (40, "infinitebench.name"),
    "infinitebench/en_sum": (1200, "rouge_score.rougeLsum"),
    "infinitebench/zh_qa": (40, "infinitebench.qa_f1_zh"),
    **{f"lveval/{name}": (64, "lveval.keyword_f1") for name in LVEVAL[:5]},
    **{f"lveval/{name}": (64, "lveval.keyword_f1_zh") for name in LVEVAL[5:]},
    "lveval/factrecall_en": (16, "longbench.qa_f1_score"),
    "lveval/factrecall_zh": (16, "longbench.qa_f1_zh_score"),
    "lveval/dureader_mixup": (64, "lveval.rouge_zh"),
    "loogle/shortdep_qa": (300, "loogle.rougeL"),
    "loogle/longdep_qa": (500, "loogle.rougeL"),
    "loogle/shortdep_cloze": (50, "loogle.exact_match"),
    "loogle/longdep_summarization": (500, "loogle.rougeL"),
    "locomo": (32, "locomo.f1"),
    **{f"babilong/qa{n}": (20, "babilong.accuracy") for n in range(1, 11)},
}
OWN_CAPS |= {name: cap for name, (cap, _) in LATER.items()}
HEADLINES |= {name: headline for name, (_, headline) in LATER.items()}
for _name, _metric in DATASETS.items():
    HEADLINES[f"longbench/{_name}"] = (
        f"longbench.{_metric.__name__}{'.first_line' * (_name in _SCORED_ON_FIRST_LINE)}"
    )


def fields_of(name):
    """A preset's fields, with those of the one it extends."""
    return {
        key: value for _, values in presets.read("datasets", name) for key, value in values.items()
    }


def test_every_preset_is_licensed_cited_and_complete():
    for name in NAMES:
        config = DatasetConfig.model_validate(fields_of(name))
        assert len(config.licence) > 2, name
        assert len(config.citation) > 20, name
        if not name.startswith("pocket/"):
            assert any(year in config.citation for year in map(str, range(2017, 2027))), name
        if name in FETCHED:
            # It takes what methods set for qasper.
            assert config.name == name.removesuffix("-hints").partition("-shots")[0]
            stem = name.rpartition("/")[2].removesuffix("_e")
            cap = OWN_CAPS.get(name) or CAPS.get(stem, 32)
            assert config.max_answer_tokens == cap, f"{name}: `max_answer_tokens` or LATER is wrong"
            headline = HEADLINES.get(name.removesuffix("_e"), "longbench.qa_f1_score")
            assert config.scorers[0] == headline, f"{name}: the first scorer or LATER is wrong"
            assert [
                p for p in scorers.problems(config.scorers) if "pip install jieba" not in p
            ] == [], name
            assert len(set(config.scorers)) == len(config.scorers), name
            assert config.format in format_names(), name
            assert (config.data, config.revision) == (None, None), name
            on_a_hub = name not in NOT_ON_A_HUB
            assert (config.hub is not None) == on_a_hub, f"{name}: `hub` or NOT_ON_A_HUB is wrong"


@pytest.mark.parametrize("name", LONGBENCH)
def test_longbench_is_scored_by_its_own_metric_and_takes_its_own_file(name):
    config = DatasetConfig.model_validate(fields_of(name))
    subset = name.partition("/")[2]
    assert (config.format, config.subset, config.split) == ("longbench", subset, "test")
    official = DATASETS[subset.removesuffix("_e")]
    answer = {"retrieval_score": "Paragraph 2", "retrieval_zh_score": "段落2"}.get(
        official.__name__, "Ada"
    )
    prediction, references = f"{answer}\nBert, a miller", [answer]
    shown = prediction.split("\n")[0] if ".first_line" in config.scorers[0] else prediction
    assert (".first_line" in config.scorers[0]) == (
        subset.removesuffix("_e") in _SCORED_ON_FIRST_LINE
    )
    more = {"all_classes": ["Ada", "Bert"]} if official.__name__ == "classification_score" else {}
    if "zh" in config.scorers[0]:
        pytest.importorskip("jieba")
    assert scorers.score(config.scorers[0], prediction, references, **more) == pytest.approx(
        official(shown, references, **more)
    )
    assert "evidence_recall" not in config.scorers
    assert ("unanswerable" in config.instruction) == (subset.removesuffix("_e") == "qasper")
    by_length = [f"{config.scorers[0]}.{bucket}" for bucket in ("0-4k", "4-8k", "8k+")]
    assert (
        list(config.scorers[1:4]) == by_length
        if name in BUCKETED
        else not set(by_length) & set(config.scorers)
    )


def test_the_twin_is_judged_and_asked_alike():
    for name in sorted(TWINNED):
        twin = presets.synthetic_counterpart(name)
        assert twin == f"pocket/{name}"
        ours, theirs = fields_of(name), fields_of(twin)
        # The embedded model was trained on the longer instruction of Qasper, which is a preset of
        # its own.
        asked = fields_of("qasper-hints") if name == "qasper" else ours
        assert asked["instruction"] == theirs["instruction"], name
        assert ours["scorers"][0] == theirs["scorers"][0], name
        # Stories and articles mark no evidence; only a made-up one knows what supports an answer.
        unmarked = {"evidence_recall"} if name in ("narrativeqa", "quality") else set()
        assert set(theirs["scorers"]) - set(ours["scorers"]) == unmarked, name


def test_no_twin():
    assert presets.synthetic_counterpart("pocket/musique") is None
    assert presets.synthetic_counterpart("longbench/musique") is None
    assert presets.synthetic_counterpart("") is None
    assert presets.synthetic_counterpart("musiqe") is None
    assert presets.synthetic_counterpart("MuSiQue") == "pocket/musique"


def test_show_says_what_to_download_which_options_there_are_and_how_documents_are_given(capsys):
    for name in FETCHED:
        chosen = resolve(Choices(method="bm25", dataset=name)).config.dataset
        assert show(Selection(), name, kind="datasets", diff=None, json=False) == 0
        text = capsys.readouterr().out
        download = " ".join(presets.download_notes(name))
        assert all(f"\n  {line}" in text for line in presets.download_notes(name)), name
        assert (chosen.hub or "").partition("@")[0] in download, name  # where from
        assert "By hand: " in download, f"{name}: `download` does not say what to do by hand"
        if not name.startswith("longbench/") and name not in UNCOUNTED:
            assert re.search(r"(\d,|\b)\d{3} (answerable |ambiguous )?questions", download), (
                f"{name}: `download` does not say how many questions, as '2,417 questions'"
            )
            assert "://" in download, f"{name}: `download` has no address"
        assert not name.endswith("_e") or f"{chosen.subset}.jsonl" in download, name
        for option in option_fields(chosen.format):
            assert re.search(rf"^  dataset\.{option}  +\w.*  \w", text, re.MULTILINE), (
                name,
                option,
            )
        assert ("dataset.documents=[RETRIEVED,PAGES]" in text) is (chosen.format == "retrieved"), (
            name
        )


def test_options_are_shown_with_type_default_and_meaning(capsys):
    show(Selection(), "nq", kind="datasets", diff=None, json=True)
    listed = json.loads(capsys.readouterr().out)
    assert listed["options"].keys() == {"files", "documents", "top"}
    meaning = "keep the best so many of each question; null: all"
    assert listed["options"]["top"] == {"type": "whole number", "default": None, "meaning": meaning}
    assert listed["options"]["documents"]["type"] == "text or list"
    assert listed["download"] == presets.download_notes("nq")
    assert "download" not in " ".join(listed["values"])
    assert listed["values"]["dataset.licence"].startswith("CC BY-SA 3.0")
    assert "Natural Questions" in listed["values"]["dataset.citation"]
    show(Selection(), "musique", kind="datasets", diff=None, json=True)
    listed = json.loads(capsys.readouterr().out)
    assert listed["options"]["place"]["type"] == "head or middle or tail"
    assert listed["options"]["distance"]["type"] == "number"
    assert listed["documents"] == []

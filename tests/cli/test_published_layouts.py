"""Data sets from files in their official layout, by the command: text, question and scores.

The scores are those that the authors' code gives for the same replies.
"""

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from harness.scorers import score
from harness.storage.run_folder import read_run
from tests.datasets import more_rows as rows
from tests.datasets.support import infinite, loong


@dataclass(frozen=True)
class Layout:
    """A file and what comes of it.

    preset: the data set; rows: of the file, which is called `file`; asked: words of a prompt and
    the reply to it, the first that fits; scores: of each question, by scorer.
    """

    preset: str
    file: str
    rows: list[dict[str, Any]]
    asked: list[tuple[str, str]]
    scores: list[dict[str, float]]
    sets: dict[str, str] = field(default_factory=dict)


ADVERSARIAL = (
    "What did Bo paint? Select the correct answer: "
    "(a) a mill (b) Not mentioned in the conversation."
)
CONVERSATION = (
    "DATE: 1:56 pm on 8 May, 2023\nCONVERSATION:\n"
    'Ann said, "I painted mill 1."\nBo said, "Look!"\n[shares a photo of a barn]\n\n'
    'DATE: 9:00 am on 2 June, 2023\nCONVERSATION:\nAnn said, "I sold it yesterday."'
)
HELMET_SCORES = ("helmet.substring_exact_match", "helmet.f1", "helmet.exact_match")
LOCOMO = Layout(
    "locomo",
    "locomo10.json",
    [rows.locomo()],
    [
        ("What did they show?", "mills, barn"),
        ("Ann sell it? Use DATE of CONVERSATION to answer with an approximate date.", "2023"),
        ("Is Ann a painter?", "yes"),
        (ADVERSARIAL, "(b)"),
        (CONVERSATION, "painting of the mill"),
    ],
    [
        {"locomo.f1": 1.0, "locomo.f1.multi_hop": 1.0, "evidence_recall": 1.0},
        {"locomo.f1": 1.0, "locomo.f1.temporal": 1.0, "evidence_recall": 1.0},
        {"locomo.f1": 2 / 3, "locomo.f1.open_domain": 2 / 3},
        {"locomo.f1": 0.5, "locomo.f1.single_hop": 0.5, "evidence_recall": 1.0},
        {"locomo.f1": 1.0, "locomo.f1.adversarial": 1.0},
    ],
)
BABILONG = Layout(
    "babilong/qa1",
    "16k.json",
    [rows.babilong(1), rows.babilong(2)],
    [
        ("night of 1.", "The most recent location of Mary is kitchen. Not the garden."),
        ("night of 2.", "The kitchen or the garden."),
    ],
    [{"babilong.accuracy": 1.0}, {"babilong.accuracy": 0.0}],
)
LVEVAL = Layout(
    "lveval/hotpotwikiqa_mixup",
    "hotpotwikiqa_mixup_16k.jsonl",
    [rows.lveval(1), rows.lveval(2), rows.lveval(3, answer_keywords=None)],
    [("mill 1", "It was Ada Toren"), ("mill 2", "Ada"), ("mill 3", "Ada")],
    [
        {"lveval.keyword_f1": 2 / 3},
        {"lveval.keyword_f1": 0.0},
        {"lveval.keyword_f1": 2 / 3},
    ],
)
LVEVAL_ZH = Layout(
    "lveval/cmrc_mixup",
    "cmrc_mixup_16k.jsonl",
    [rows.lveval(n, answers=["北京大学"], answer_keywords=None) for n in (1, 2)],
    [("mill 1", "是北京大学。"), ("mill 2", "是上海")],
    [{"lveval.keyword_f1_zh": 2 / 3}, {"lveval.keyword_f1_zh": 0.0}],
)
LOOGLE = Layout(
    "loogle/shortdep_qa",
    "shortdep_qa.jsonl",
    [rows.loogle()],
    [("Question: Who built it?", "Ada"), ("Question: Who left?", "Bo left early")],
    [
        {
            "loogle.rougeL": 1 / 3,
            "loogle.rouge1": 1 / 3,
            "loogle.rouge2": 0.0,
            "loogle.bleu1": math.exp(-2),
            "loogle.bleu4": 0.0,
            "evidence_recall": 1.0,
        },
        {
            "loogle.rougeL": 1.0,
            "loogle.rouge1": 1.0,
            "loogle.rouge2": 1.0,
            "loogle.bleu1": 2 / 3,
            "loogle.bleu4": 0.0,
            "evidence_recall": 1.0,
        },
    ],
)
LOOGLE_CLOZE = Layout(
    "loogle/shortdep_cloze",
    "shortdep_cloze.jsonl",
    [rows.loogle_cloze()],
    [("left. What are the masked entities?", "{'<mask-0>': 'Ada', '<mask-1>': 'Bo'}")],
    [{"loogle.exact_match": 0.5, "loogle.partial_match": 1.0}],
)
# Entities that are no text are wrong.
LOOGLE_CLOZE_NUMBERS = Layout(
    "loogle/shortdep_cloze",
    "shortdep_cloze.jsonl",
    [rows.loogle_cloze()],
    [("left. What are the masked entities?", "{'<mask-0>': 5, '<mask-1>': None}")],
    [{"loogle.exact_match": 0.0, "loogle.partial_match": 0.0}],
)
EN_DIA = Layout(
    "infinitebench/en_dia",
    "longdialogue_qa_eng.jsonl",
    [infinite(1, input="", answer=["ADA"]), infinite(2, input="", answer=["ADA"], context="Cy")],
    [
        ("Ada built it. Bo left.", "Ada."),
        ("Cy\n\nThe text ends here. The text is a dialogue", "ADA TOREN and BO"),
    ],
    [{"infinitebench.name": 1.0}, {"infinitebench.name": 1.0}],
)
ZH_QA = Layout(
    "infinitebench/zh_qa",
    "longbook_qa_chn.jsonl",
    [infinite(1, answer=["今天好"])],
    [("Who built mill 1?", "今天。")],
    [{"infinitebench.qa_f1_zh": 0.8}],
)
LEVAL = Layout(
    "leval/coursera",
    "coursera.jsonl",
    [rows.leval(), rows.leval(2, evaluation="human")],
    [("Question: Question 1.", "A. Ada"), ("Question: Question 2.", "B")],
    [{"leval.options": 1.0}, {"leval.options": 0.25}],
)
LEVAL_SUMMARY = Layout(
    "leval/news_summ",
    "news_summ.jsonl",
    [rows.leval(instructions=["Summarize."], outputs=["Ada built a mill"], evaluation="rouge")],
    [("Question: Summarize.", "A mill Ada built")],
    [{"rouge_score.rougeL": 0.5, "rouge_score.rouge1": 1.0, "rouge_score.rouge2": 2 / 3}],
)
JSON_KV = Layout(
    "helmet/json_kv",
    "test_k1800_dep6.jsonl",
    [rows.json_kv(1), rows.json_kv(2)],
    [
        (
            "Key: k1\nCorresponding value: v1\n\nKey: k2\nCorresponding value: v2\n\nKey: a1\n",
            "Corresponding value: b1",
        ),
        ("Key: a2\n", "b1"),
    ],
    [{"helmet.substring_exact_match": 1.0}, {"helmet.substring_exact_match": 0.0}],
)
RERANK = Layout(
    "helmet/msmarco",
    "test_reranking_data_k1000_dep3.jsonl",
    [rows.rerank(1), rows.rerank(2)],
    [
        ("[ID: 3] Document: It rained on mill 1.\n\n[ID: 1] Document: Ada", "ID1 > ID2 > ID3"),
        ("mill 2.", "Ranking: [3] > [1]"),
    ],
    [
        {"helmet.ndcg_10": 1.0},
        {"helmet.ndcg_10": (2 / math.log2(3)) / (2 + 1 / math.log2(3))},
    ],
    {"dataset.shots": "0"},
)
INFBENCH_MC = Layout(
    "helmet/infbench_mc",
    "longbook_choice_eng.jsonl",
    [infinite(n, options=["Ada", "Bo", "Cy", "Di"], answer=["Ada"]) for n in (1, 2)],
    [("mill 1?", "It is A. Ada"), ("mill 2?", "It is A")],
    [{"helmet.choice": 1.0}, {"helmet.choice": 0.0}],
)
OTHER_SET = {"source": "other"}
MEMORY = Layout(
    "memoryagentbench/factconsolidation",
    "Conflict_Resolution.jsonl",
    [rows.memoryagentbench(), rows.memoryagentbench(2, metadata=OTHER_SET)],
    [("Question: Who built it?", "Answer: Bo"), ("Question: Who left?", "Ada")],
    [dict.fromkeys(HELMET_SCORES, 1.0), {**dict.fromkeys(HELMET_SCORES, 0.0), "helmet.f1": 2 / 3}],
)
EVENTS = Layout(
    "memoryagentbench/eventqa",
    "Accurate_Retrieval.jsonl",
    [
        rows.memoryagentbench(metadata={"source": "eventqa_full"}),
        rows.memoryagentbench(2, metadata=OTHER_SET),
    ],
    [("Question: Who built it?", "bo, BO T."), ("Question: Who left?", "Ada")],
    [{"memoryagentbench.events": 1.0}, {"memoryagentbench.events": 0.0}],
)
LOONG = Layout(
    "loong/legal",
    "loong_process.jsonl",
    [loong(1, type="legal", docs="Verdict"), loong(2)],
    [("Text:\nVerdict", "{'Reference': ['Bo']}")],
    [{"longbench.qa_f1_score": 1.0}],
)
ALCE_ASQA = Layout(
    "helmet/alce_asqa",
    "asqa_eval_gtr_top2000.jsonl",
    [rows.alce_asqa(3)],
    [
        (
            "Document [1](Title: Mill): Ada built mill 3.\n\nDocument [2]",
            "A. T. [1] built\nmill [2] 3",
        )
    ],
    [{"alce.str_em.uncited": 1.0}],
)
ALCE_QAMPARI = Layout(
    "helmet/alce_qampari",
    "qampari_eval_gtr_top2000.jsonl",
    [rows.alce_qampari()],
    [("Document [1]", "Ada [1], Cy [1].")],
    [{"alce.qampari_f1": 0.5, "alce.qampari_f1_top5": 0.5}],
)
BROWSECOMP_PLUS = Layout(
    "browsecomp-plus",
    "browsecomp_plus_decrypted.jsonl",
    [rows.browsecomp_plus(1), rows.browsecomp_plus(2, query="Who left?", answer="Bo")],
    [
        ("Who left?", "Exact Answer: Ada"),
        ("Ada built the mill.", "Explanation: It says so.\nExact Answer: Ada\nConfidence: 90%"),
    ],
    [
        {"flashrag.acc": 1.0, "evidence_recall": 1.0},
        {"flashrag.acc": 0.0, "evidence_recall": 1.0},
    ],
)
BEAM = Layout(
    "beam/100k",
    "100K.jsonl",
    [rows.beam()],
    [
        ("Which libraries?", "flask 2"),
        ("USER: Sprint 1 ends on May 3.\n\nASSISTANT: Noted.\n\nUSER: It ends on May 9", "May 9"),
    ],
    [
        {"longbench.qa_f1_score": 1.0, "evidence_recall": 1.0},
        {"longbench.qa_f1_score": 0.0, "evidence_recall": 1.0},
    ],
)
LAYOUTS = [
    BROWSECOMP_PLUS,
    BEAM,
    ALCE_ASQA,
    ALCE_QAMPARI,
    JSON_KV,
    RERANK,
    INFBENCH_MC,
    MEMORY,
    EVENTS,
    LOONG,
    LEVAL,
    LEVAL_SUMMARY,
    LOCOMO,
    BABILONG,
    LVEVAL,
    LVEVAL_ZH,
    LOOGLE,
    LOOGLE_CLOZE,
    LOOGLE_CLOZE_NUMBERS,
    EN_DIA,
    ZH_QA,
]


def written(layout):
    """Write the file in its layout: a list of rows, or a row a line."""
    lines = [json.dumps(row, ensure_ascii=False) for row in layout.rows]
    text = "\n".join(lines)
    if layout.file.endswith(".json"):
        text = f"[{','.join(lines)}]"
    Path(layout.file).write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("scorer", "reply", "gold", "value"),
    [
        ("options", "A and C.", "AC", 1.0),
        ("options", "none of them", "AC", 0.25),
        ("option", "I think (B), or C", "(B) The mill", 1.0),
        ("number", "so $1,200.50 for 3 mills.", "The answer is 3", 1.0),
        ("number", "The answer is $1,200.50. For 3", "so 1200", 1.0),
        ("output", "the final output is [[1, 2] [3]]", "[[1, 2], [3]]", 1.0),
        ("output", "it is 1 2 3 4 5 6 7", "1", 0.0),
        ("contains", "The role of Art", "role of art", 1.0),
        ("loyalty", "It is untrue. [fact: False]", "True [fact: False]", 1.0),
    ],
)
def test_exact_matches_of_leval_are_those_of_its_code(scorer, reply, gold, value):
    assert score(f"leval.{scorer}", reply, [gold]) == value


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.preset)
def test_a_file_is_asked_and_scored_as_by_its_authors(here, layout):
    written(layout)
    replies = [{"when": words, "reply": reply} for words, reply in layout.asked]
    Path("replies.yaml").write_text(json.dumps({"replies": replies}), encoding="utf-8")
    words = ["run", "-m", "full-context", "-d", layout.preset, "--data", layout.file]
    words += ["--model", "scripted", "--set", "model.script=replies.yaml", "--mlflow", "off"]
    for key, value in layout.sets.items():
        words += ["--set", f"{key}={value}"]
    done = here(*words, "--json").checked()
    run = read_run(Path(json.loads(done.stdout.splitlines()[-1])["run"]))
    found = [record.scores for record in run.records]
    assert found == [pytest.approx(scores) for scores in layout.scores]


def nolima_folder(needle, lines=200):
    """NoLiMa's two folders with a needle and a book of so many lines, in the folder "NoLiMa"."""
    sets, books = Path("NoLiMa/needlesets"), Path("NoLiMa/haystack/rand_shuffle")
    for folder in (sets, books):
        folder.mkdir(parents=True)
    (sets / "needle_set.json").write_text(json.dumps([needle]), encoding="utf-8")
    (books / "rand_book_1.txt").write_text(rows.nolima_book(lines), encoding="utf-8")


NOLIMA = ("-d", "nolima/standard", "--data", "NoLiMa", "--mlflow", "off")
SIZES = ("--set", "dataset.tokens=400", "--set", "dataset.depths=3")


def test_a_needle_of_nolima_stands_at_each_depth_of_its_books(here):
    """The texts and the drawn names are those of the authors' program, with four characters a
    token."""
    nolima_folder(rows.nolima())
    replies = [
        {"when": "Actually, Bo lives next to the mill.\nained on day 0.", "reply": "It is Bo."},
        {"when": "day 37.\nIt rained on day 38. Actually, Ann lives", "reply": "ann"},
        {"when": "day 76. Actually, Cy lives next to the mill.\n", "reply": "Cy"},
    ]
    Path("replies.yaml").write_text(json.dumps({"replies": replies}), encoding="utf-8")
    reader = ("--model", "scripted", "--set", "model.script=replies.yaml", "--json")
    done = here("run", "-m", "full-context", *NOLIMA, *SIZES, *reader).checked()
    run = read_run(Path(json.loads(done.stdout.splitlines()[-1])["run"]))
    assert [record.scores["nolima.contains"] for record in run.records] == [1.0, 0.0, 1.0]
    assert {record.scores["evidence_recall"] for record in run.records} == {1.0}


@pytest.mark.parametrize(
    ("changes", "lines", "sentence"),
    [
        ({}, 50, "the book has 260 tokens, too few for dataset.tokens=400"),
        ({"character_set": None}, 200, "row 1, field 'character_set': is missing, though"),
        ({"needle": "{1}"}, 200, "field 'tests.T1.gold_answers': is missing"),
    ],
)
def test_what_nolima_lacks_is_named(here, changes, lines, sentence):
    nolima_folder(rows.nolima(**changes), lines)
    assert sentence in here("run", "-m", "echo", *NOLIMA, *SIZES).checked(2).stderr


def test_a_folder_that_is_not_nolimas_is_refused(here):
    Path("NoLiMa").mkdir()
    sentence = "should hold needlesets/needle_set.json and haystack/rand_shuffle/*.txt"
    assert sentence in here("run", "-m", "echo", *NOLIMA).checked(2).stderr


GRAPHRAG = ("-d", "graphrag-bench/novel", "--data", "Datas", "--mlflow", "off")


def graphrag_folder(corpora, questions):
    """GraphRAG-Bench's folder "Datas" with two files."""
    for name, values in (("Corpus/novel", corpora), ("Questions/novel_questions", questions)):
        file = Path(f"Datas/{name}.json")
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps(values), encoding="utf-8")


def test_a_question_of_graphrag_bench_is_asked_on_its_corpus(here):
    graphrag_folder(*rows.graphrag())
    replies = [
        {"when": "Text:\nAda built the mill.", "reply": "building a mill"},
        {"when": "Text:\nBo left.", "reply": "Bo"},
    ]
    Path("replies.yaml").write_text(json.dumps({"replies": replies}), encoding="utf-8")
    reader = ("--model", "scripted", "--set", "model.script=replies.yaml", "--json")
    done = here("run", "-m", "full-context", *GRAPHRAG, *reader).checked()
    run = read_run(Path(json.loads(done.stdout.splitlines()[-1])["run"]))
    scores = [record.scores["rouge_score.rougeL_stem"] for record in run.records]
    assert scores == [pytest.approx(2 / 3), 0.0]


def test_a_corpus_that_graphrag_bench_lacks_is_named(here):
    corpora, questions = rows.graphrag()
    graphrag_folder(corpora[:1], questions)
    sentence = "row 2, field 'source': 'Novel-2' is no corpus_name of the corpus file"
    assert sentence in here("run", "-m", "echo", *GRAPHRAG).checked(2).stderr


def test_a_folder_that_is_not_graphrag_benchs_is_refused(here):
    Path("Datas").mkdir()
    sentence = "should hold Datas/Questions and Datas/Corpus"
    assert sentence in here("run", "-m", "echo", *GRAPHRAG).checked(2).stderr

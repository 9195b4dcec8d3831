"""The files of official releases, around real rows (HARNESS_TEST_DATA) or made-up ones of the same
form.

Looked up in stored copies of the authors' pages and of code that reads the files. The file that is
meant holds rows; the others hold none, so that reading one of them fails.
"""

import csv
import io
import json
import tarfile
import zipfile
from typing import Any

from harness.datasets.files import read_rows
from tests.datasets import more_rows, support
from tests.datasets.more_rows import MEMORY
from tests.datasets.support import REAL, parquet, real

Rows = list[dict[str, Any]]
OTHER = b"not read"
PAGE = {"title": "Mills", "text": "Ada built the mill."}
MUSIQUE = [
    f"musique_{kind}_v1.0_{part}.jsonl"
    for kind in ("ans", "full")
    for part in ("train", "dev", "test")
]
QUALITY = [
    f"QuALITY.v1.0.1.{kind}{part}"
    for kind in ("", "htmlstripped.")
    for part in ("train", "dev", "test")
]


def rows(made, *parts, most=3):
    """The first real rows of a file in the folder of samples; the made-up ones where there is no
    such folder."""
    if not REAL:
        return made[:most]
    keys = ("title",) if parts[-1].startswith("qasper-train") else ()  # {paper id: row}
    return [row for _, row in read_rows(real("data", *parts), keys) if isinstance(row, dict)][:most]


def many(some, count, key="id"):
    """`count` rows: these again and again, each under an id of its own."""
    return [{**some[n % len(some)], key: f"{n}"} for n in range(count)]


def lines(some):
    return "".join(json.dumps(row) + "\n" for row in some).encode()


def listed(some):
    return json.dumps(some).encode()


def keyed(some):
    """{id: row}, as Qasper's and ASQA's files are."""
    return json.dumps(
        {row["id"]: {k: v for k, v in row.items() if k != "id"} for row in some}
    ).encode()


def musique():
    return rows(
        [support.musique(n) for n in range(3)], "musique", "musique_ans_v1.0_dev_sample.jsonl"
    )


def hotpot():
    return rows(
        [support.hotpot(n) for n in range(3)], "hotpotqa", "hotpot_dev_distractor_sample.json"
    )


def twowiki():
    return rows([support.hotpot(n) for n in range(3)], "2wikimultihopqa", "dev_sample.json")


def qasper():
    return rows([support.qasper(1)], "qasper", "qasper-train-v0.3-sample.json", most=1)


def quality():
    options = [
        {
            "question": f"Who left ({n})?",
            "question_unique_id": f"m_{n}",
            "options": ["Ada", "Bo"],
            "gold_label": 1,
        }
        for n in range(10)
    ]
    made = {"article_id": "m", "title": "Mills", "article": "Ada left.", "questions": options}
    return rows([made], "quality", "quality_v1.0.1_sample.jsonl", most=1)


def quality_single():
    """The rows of the hub's copy: a question each."""
    (article,) = quality()
    return [
        {
            "article": article["article"],
            "question": q["question"],
            "options": q["options"],
            "answer": 0,
            "hard": False,
        }
        for q in article["questions"]
    ]


def flashrag():
    made = [
        {"id": f"test_{n}", "question": f"Who built mill {n}?", "golden_answers": ["Ada"]}
        for n in range(3)
    ]
    return rows(made, "nq", "flashrag_nq_test_sample.jsonl")


def kilt():
    made = [
        {"id": f"k{n}", "input": f"Why mill {n}?", "output": [{"answer": "To grind."}]}
        for n in range(3)
    ]
    return rows(made, "eli5", "eli5_kilt_sample.jsonl")


def popqa():
    made = [
        {
            "id": n,
            "prop": "builder",
            "question": f"Who built mill {n}?",
            "possible_answers": '["Ada"]',
        }
        for n in (1, 2)
    ]
    return [
        {k: v for k, v in row.items() if k != "paragraphs"}
        for row in rows(made, "popqa", "popqa_sample.jsonl")
    ]


def asqa():
    pairs = [{"question": "Which?", "short_answers": ["Ada"]}]
    made = {
        "ambiguous_question": "Who built it?",
        "qa_pairs": pairs,
        "annotations": [{"long_answer": "Ada did."}],
    }
    if not REAL:
        return [made]
    return list(
        json.loads(real("data", "asqa", "asqa_dev_sample.json").read_text())["dev"].values()
    )[:3]


def table(some):
    """Tab-separated, as popQA.tsv."""
    return support.as_csv(some, delimiter="\t").encode()


def four(count):
    return [support.longbench_v2(n) for n in range(count)]


def infinitebench():
    options = {"options": ["Ada", "Bo", "Cy", "Di"], "answer": ["Ada"]}
    return {
        "longbook_qa_eng.jsonl": lines([support.infinite(n) for n in range(351)]),
        "longbook_choice_eng.jsonl": lines([support.infinite(n, **options) for n in range(229)]),
        "longbook_qa_chn.jsonl": lines([support.infinite(n) for n in range(175)]),
        "longbook_sum_eng.jsonl": lines([support.infinite(n, input="") for n in range(103)]),
        "longdialogue_qa_eng.jsonl": lines([support.infinite(n, input="") for n in range(200)]),
        "passkey.jsonl": OTHER,
    }


def chats():
    rows_of = listed([support.longmemeval(n) for n in range(500)])
    files = {f"longmemeval_{name}.json": rows_of for name in ("oracle", "s_cleaned")}
    return {**files, "longmemeval_m_cleaned.json": OTHER, "README.md": b""}


def leval():
    """The hub's files, two documents each."""
    rows_of = lines([more_rows.leval(n) for n in range(2)])
    made = {f"LEval/Exam/{name}.jsonl": rows_of for name in more_rows.LEVAL}
    return {**made, "LEval.py": OTHER, "README.md": b""}


def memory(name):
    """MemoryAgentBench's four files, two contexts of set `name` and others in its own."""
    shard = "00000-of-00001.parquet"
    made = [more_rows.memoryagentbench(n, metadata={"source": f"{name}_{n}"}) for n in (1, 2)]
    other = [more_rows.memoryagentbench(metadata={"source": "other"})]
    files = {f"data/{file}-{shard}": support.parquet(other) for file, _, _ in MEMORY.values()}
    return lambda: {**files, f"data/{MEMORY[name][0]}-{shard}": support.parquet(made)}


def loong(kind, language):
    """The file of the authors' step 1."""
    made = [support.loong(n, type=kind, language=language, answer="Bo") for n in range(3)]
    return lambda: {"loong_process.jsonl": lines(made)}


def graphrag(count=2):
    """The folder Datas of GraphRAG-Bench with so many questions of each part."""
    corpora, questions = more_rows.graphrag(count)
    files = {}
    for name in ("novel", "medical"):
        files[f"Datas/Corpus/{name}.json"] = listed(corpora)
        files[f"Datas/Questions/{name}_questions.json"] = listed(questions)
    return files


def pairs():
    """OOLONG-Pairs at two lengths, and OOLONG-synth's validation rows below "synth"."""
    other = more_rows.pairs_text(2, dataset="spam")
    rows_of = [other, more_rows.pairs_text(3, context_len=1024), more_rows.pairs_text(4)]
    made = {"synth/data/validation-00000-of-00001.parquet": support.parquet(rows_of)}
    for length, count in ((32768, 3), (1024, 2)):
        asked = [more_rows.pairs(number) for number in range(1, 1 + count)]
        made[f"data/oolong-pairs-{length}.json"] = listed(asked)
    return made


def beam():
    """BEAM's parquet files, of one, two and three chats."""
    made = {}
    for count, size in enumerate(("100K", "500K", "1M"), start=1):
        chats_of = [more_rows.beam(number) for number in range(count)]
        made[f"data/{size}-00000-of-00001.parquet"] = support.parquet(chats_of)
    return made


def nolima():
    """NoLiMa's needles and one book."""
    names = ("needle_set", "needle_set_hard", "needle_set_ONLYDirect")
    needles = {f"needlesets/{name}.json": listed([more_rows.nolima()]) for name in names}
    book = more_rows.nolima_book().encode()
    books = {"haystack/rand_shuffle/rand_book_1.txt": book, "haystack/LICENSES.md": b""}
    return {**needles, **books, "haystack/rand_shuffle_long/rand_book_1.txt": book}


def lveval(name):
    """The hub's archives, the one of set `name` with two of its lengths, a folder inside."""
    made = {
        f"{name}/{name}_{length}.jsonl": lines([more_rows.lveval(n) for n in range(count)])
        for length, count in (("16k", 3), ("32k", 4))
    }
    archives = {f"{other}.zip": packed(".zip", {"x.jsonl": OTHER}) for other in more_rows.LVEVAL}
    return lambda: {**archives, f"{name}.zip": packed(".zip", made), "LVEval.py": OTHER}


def newer(file, row, count):
    """A hub repository of one file with `count` rows of `row(n)`."""
    made = [row(n) for n in range(count)]
    content = (
        support.parquet(made)
        if file.endswith(".parquet")
        else listed(made)
        if file.endswith(".json")
        else lines(made)
    )
    return lambda: {file: content, "README.md": b""}


def longbench():
    """data.zip's files, whole: as many rows as LongBench's task.md counts, LongBench-E's of each
    length too.

    The texts after the first are short; what they say of their length is not.
    """
    made = {}
    for name, sizes in LONGBENCH.items():
        of = name.removesuffix("_e")
        more = {"answers": [PLACES[of]]} if of in PLACES else {}
        more |= {"all_classes": ["Ada", "Bo"]} if of in ("trec", "lsht") else {}
        made_up = [support.longbench(n, dataset=name, length=n, **more) for n in range(2)]
        file = f"{of}.jsonl"
        there = REAL and real("data", "longbench", file).is_file()
        first, *_ = rows(made_up, "longbench", file, most=1) if there else made_up
        short = {**first, "context": first["context"][:300]}
        all_rows = [first, *many([short], sum(sizes) - 1, "_id")]
        if name.endswith("_e"):
            spans = [
                length
                for length, count in zip((100, 4000, 8000), sizes, strict=True)
                for _ in range(count)
            ]
            all_rows = [
                {**row, "length": length} for row, length in zip(all_rows, spans, strict=True)
            ]
        made[f"data/{name}.jsonl"] = lines(all_rows)
    return made


PLACES = {
    "passage_retrieval_en": "Paragraph 1",
    "passage_retrieval_zh": "段落1",
    "passage_count": "2",
}
OF_200 = """
narrativeqa qasper multifieldqa_zh hotpotqa 2wikimqa musique dureader triviaqa gov_report qmsum multi_news vcsum trec
samsum lsht passage_count passage_retrieval_en passage_retrieval_zh
"""
LONGBENCH = dict.fromkeys(OF_200.split(), (200,)) | {
    "multifieldqa_en": (150,),
    "lcc": (500,),
    "repobench-p": (500,),
}
LONGBENCH |= {"qasper_e": (100, 100, 24), "multifieldqa_en_e": (67, 70, 13)}
LONGBENCH |= {"multi_news_e": (100, 100, 94)}
OF_300 = "hotpotqa 2wikimqa triviaqa gov_report trec samsum passage_count passage_retrieval_en lcc repobench-p"
LONGBENCH |= {f"{name}_e": (100, 100, 100) for name in OF_300.split()}


def stories():
    """documents.csv and qaps.csv of NarrativeQA's repository, and the stories by id."""
    if not REAL:
        made = [support.story_row(n) for n in range(4)]
        return support.tables(made), {
            row["document"]["id"]: row["document"]["text"] for row in made
        }
    folder = real("data", "narrativeqa")
    rows_of_lines = (
        row for _, row in read_rows(folder / "stories.jsonl.gz") if isinstance(row, dict)
    )
    kept = {row["document_id"]: row["text"] for row in rows_of_lines if len(row["text"]) < 80_000}
    with (folder / "qaps.csv").open(encoding="utf-8", newline="") as stream:
        asked = [row for row in csv.DictReader(stream) if row["document_id"] in kept]
    return {
        "documents.csv": (folder / "documents_all.csv").read_text(),
        "qaps.csv": support.as_csv(asked),
    }, kept


def narrativeqa():
    """A clone of the authors' repository after download_stories.sh."""
    tables, texts = stories()
    files = {name: text.encode() for name, text in tables.items()}
    files |= {f"tmp/{key}.content": text.encode() for key, text in texts.items()}
    return {**files, "README.md": b"", "third_party/wikipedia/summaries.csv": OTHER}


def narrativeqa_hub():
    tables, texts = stories()
    master = packed(
        ".zip", {f"narrativeqa-master/{name}": text.encode() for name, text in tables.items()}
    )
    texts_zip = packed(".zip", {f"tmp/{key}.content": text.encode() for key, text in texts.items()})
    shards = {f"data/test-0000{n}-of-00008.parquet": OTHER for n in range(8)}
    return {
        "data/narrativeqa-master.zip": master,
        "data/narrativeqa_full_text.zip": texts_zip,
        **shards,
    }


def hotpot_hub():
    made = [support.columns(support.hotpot(n)) for n in range(3)]
    kept = rows(made, "hotpotqa", "hotpot_dev_distractor_hf_sample.jsonl")
    others = [f"distractor/train-0000{n}-of-00002" for n in range(2)] + [
        "fullwiki/validation-00000-of-00001"
    ]
    files = {f"{name}.parquet": OTHER for name in others}
    return {
        **files,
        "README.md": b"",
        "distractor/validation-00000-of-00001.parquet": parquet(many(kept, 3)),
    }


def hotpot_files():
    others = dict.fromkeys(("hotpot_dev_fullwiki_v1.json", "hotpot_train_v1.1.json"), OTHER)
    return {"hotpot_dev_distractor_v1.json": listed(hotpot()), **others}


def twowiki_files(folder):
    others = dict.fromkeys(
        (f"{folder}{name}.json" for name in ("train", "test", "id_aliases")), OTHER
    )
    return lambda: {f"{folder}dev.json": listed(twowiki()), **others}


def quality_files():
    return {**dict.fromkeys(QUALITY, OTHER), "QuALITY.v1.0.1.htmlstripped.dev": lines(quality())}


def quality_hub():
    train, dev = (
        "train-00000-of-00001-0bffe0bf790d89eb",
        "validation-00000-of-00001-77baeb9538209706",
    )
    return {f"data/{train}.parquet": OTHER, f"data/{dev}.parquet": parquet(quality_single())}


def popqa_files():
    return {"data/popQA.tsv": table(many(popqa(), 3)), "README.md": b""}


def asqa_files():
    return {
        "ASQA.json": listed({"train": {}, "dev": {f"-{n}": row for n, row in enumerate(asqa())}})
    }


def kilt_files():
    return {"eli5-dev-kilt.jsonl": lines(kilt()), "eli5-train-kilt.jsonl": OTHER}


def qasper_files():
    return {
        "qasper-test-v0.3.json": keyed(qasper()),
        "qasper_evaluator.py": OTHER,
        "README_test.md": b"",
    }


def qasper_hub():
    made = [support.qasper_columns(support.qasper(1))]
    kept = rows(made, "qasper", "qasper_hf_sample.jsonl", most=1)
    return {"qasper/test/0000.parquet": parquet(kept), "qasper/train/0000.parquet": OTHER}


def trivia():
    """triviaqa-rc.tar.gz, unpacked: questions in qa/, a text a page in evidence/."""
    page = {"Filename": "Mill.txt", "Title": "Mill"}
    question = {
        "QuestionId": "t1",
        "Question": "Who built it?",
        "Answer": {"Value": "Ada", "Aliases": []},
    }
    whole = {"Data": [{**question, "EntityPages": [page]}], "Domain": "Wikipedia", "Version": 1.0}
    texts = {"Mill.txt": "Ada built it."}
    if REAL:
        whole = json.loads(real("data", "triviaqa", "wikipedia-sample.json").read_text())
        pages = real("data", "triviaqa", "evidence_wikipedia.jsonl").read_text().splitlines()
        texts = {row["Filename"]: row["text"] for row in map(json.loads, pages)}
    others = "wikipedia-train wikipedia-test-without-answers verified-wikipedia-dev web-dev verified-web-dev"
    files = {f"qa/{name}.json": OTHER for name in others.split()}
    files |= {f"evidence/wikipedia/{name}": text.encode() for name, text in texts.items()}
    return {**files, "README": b"", "qa/wikipedia-dev.json": json.dumps(whole).encode()}


def flashrag_hub(name, split, count):
    """The folders of RUC-NLPIR/FlashRAG_datasets."""
    splits = dict.fromkeys(("nq", "triviaqa", "2wikimultihopqa", "hotpotqa"), ("train", "dev"))
    splits |= dict.fromkeys(("asqa", "eli5"), ("train",))

    def files():
        other = {
            f"{folder}/{part}.jsonl": OTHER for folder, parts in splits.items() for part in parts
        }
        return {**other, "README.md": b"", f"{name}/{split}.jsonl": lines(many(flashrag(), count))}

    return files


def alce(name):
    """ALCE-data.tar: rows with 100 passages each; here two."""

    def files():
        made = [
            {"question": f"Why mill {n}?", "answer": "To grind.", "docs": [PAGE]} for n in range(3)
        ]
        kept = rows(made, "asqa", "alce_asqa_demos.json")
        names = (
            "asqa_eval_gtr_top100",
            "asqa_eval_gtr_top100_reranked_oracle",
            "asqa_eval_dpr_top100",
        )
        names += (
            "eli5_eval_bm25_top100",
            "eli5_eval_bm25_top100_reranked_oracle",
            "qampari_eval_gtr_top100",
        )
        return {
            **{f"ALCE-data/{n}.json": OTHER for n in names},
            f"ALCE-data/{name}.json": listed(kept),
        }

    return files


def musique_hub():
    return {MUSIQUE[0]: OTHER, MUSIQUE[1]: lines(musique())}


def musique_files():
    files = {f"data/{name}": OTHER for name in (*MUSIQUE, "dev_test_singlehop_questions_v1.0.json")}
    return {
        **files,
        "data/musique_ans_v1.0_dev.jsonl": lines(musique()),
        "__MACOSX/data/._x.jsonl": OTHER,
    }


def musique_full_files():
    both = [
        support.musique(n, answerable=answerable) for n in range(2) for answerable in (True, False)
    ]
    return {**musique_files(), "data/musique_full_v1.0_dev.jsonl": lines(both)}


def packed(kind, files):
    """An archive of files: .zip, .tar or .tgz."""
    out = io.BytesIO()
    if kind == ".zip":
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in files.items():
                archive.writestr(name, content)
        return out.getvalue()
    with tarfile.open(fileobj=out, mode="w:gz" if kind == ".tgz" else "w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(f"./{name}")
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return out.getvalue()

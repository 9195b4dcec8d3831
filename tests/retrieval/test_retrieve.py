"""`harness retrieve`: the libraries' own ranking, whole documents by best passage, resumed builds,
mistakes named."""

import gzip
import importlib.util
import json

import bm25s
import faiss
import numpy as np
import pytest

from harness.cli.main import main
from harness.config.schema import EncoderConfig
from harness.datasets import load
from harness.datasets.open_rows import OpenRow
from harness.errors import DataError
from harness.retrieval import corpus_bm25, dense_index, maxp
from harness.retrieval.corpus import Corpus, write_folder_as_corpus
from harness.retrieval.output import Recall
from harness.retrieval.retrieval_run import RetrievalRequest, write_retrieved
from tests.datasets.support import config, needs_real, real, write_lines

WORDS = ["bridge", "river", "town", "mira", "old", "north", "the", "lies", "of"]
ASKED = ["the old bridge of mira", "river north", "town", "the"]
TEXT = ["Mira\n", "Mira is a town.\n", "Section::::Sights.\n", "BULLET::::- The old bridge\n"]
KILT = {"wikipedia_id": "290", "wikipedia_title": "Mira", "text": TEXT, "anchors": []}


def passages(count=60, seed=0):
    """(title, text) of passages of 1 to 9 documents each, some of which come back later."""
    dice = np.random.default_rng(seed)
    titles = np.repeat([f"Page {n}" for n in range(count)], dice.integers(1, 9, count))[:count]
    titles[-3:] = titles[0]
    return [(str(title), " ".join(dice.choice(WORDS, dice.integers(3, 30)))) for title in titles]


def flashrag(path, rows):
    contents = [
        {"id": str(n), "contents": f'"{title}"\n{text}'} for n, (title, text) in enumerate(rows)
    ]
    return write_lines(path, contents)


def questions(answer="mira"):
    return [OpenRow(f"q{n}", text, (answer,)) for n, text in enumerate(ASKED)]


def silent(stage, done, total):
    """Report nothing."""


def run(folder, corpus, encoder=None, report=silent, **more):
    out = folder / "out.jsonl"
    request = RetrievalRequest(
        corpus, encoder, more.pop("top", 4), more.pop("words", 100), folder / "index", out
    )
    write_retrieved(request, more.pop("rows", questions()), {}, report)
    return [json.loads(line) for line in out.read_text().splitlines()]


def ranked(scores, titles, top):
    """The titles by their best score, straight from the scores of all passages."""
    best = {}
    for n in np.argsort(-scores, kind="stable"):
        best.setdefault(titles[n], float(scores[n]))
    return list(best.items())[:top]


def test_bm25_ranks_as_one_index_of_the_library(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus_bm25, "PASSAGES_PER_SHARD", 7)
    monkeypatch.setattr(maxp, "_PASSAGES_PER_DOCUMENT", 1)  # most questions need a second search
    rows = passages()
    found = run(tmp_path, flashrag(tmp_path / "c.jsonl", rows))
    whole = bm25s.BM25()
    whole.index(
        bm25s.tokenize([f"{a}\n{b}" for a, b in rows], show_progress=False), show_progress=False
    )
    assert [row["id"] for row in found] == ["q0", "q1", "q2"]  # stop words alone match nothing
    for row, asked in zip(
        found, bm25s.tokenize(ASKED, return_ids=False, show_progress=False), strict=False
    ):
        expected = ranked(whole.get_scores(asked), [title for title, _ in rows], 4)
        assert [(doc["title"], doc["score"]) for doc in row["docs"]] == [
            (t, round(s, 4)) for t, s in expected
        ]
    assert not list((tmp_path / "index").rglob("tokens"))


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    from tests.embed.saved_models import saved

    folder = saved(tmp_path_factory.mktemp("encoder") / "net")
    return EncoderConfig(
        name="tiny",
        source=folder,
        query_prefix="query : ",
        passage_prefix="passage : ",
        device="cpu",
    )


def test_an_encoder_ranks_as_the_libraries_do(tmp_path, monkeypatch, encoder):
    from sentence_transformers import SentenceTransformer

    monkeypatch.setattr(dense_index, "PASSAGES_PER_FILE", 16)
    monkeypatch.setattr(dense_index, "PASSAGES_PER_CALL", 5)
    monkeypatch.setattr(maxp, "_PASSAGES_PER_DOCUMENT", 1)
    rows = passages()
    found = run(tmp_path, flashrag(tmp_path / "c.jsonl", rows), encoder)
    net = SentenceTransformer(encoder.source, device="cpu")
    vectors = net.encode([f"passage : {a}\n{b}" for a, b in rows], normalize_embeddings=True)
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    scores, order = index.search(
        net.encode([f"query : {q}" for q in ASKED], normalize_embeddings=True), len(rows)
    )
    for n, row in enumerate(found):
        flat = np.zeros(len(rows))
        flat[order[n]] = scores[n]
        expected = ranked(flat, [title for title, _ in rows], 4)
        assert [doc["title"] for doc in row["docs"]] == [title for title, _ in expected]
        np.testing.assert_allclose(
            [doc["score"] for doc in row["docs"]], [s for _, s in expected], atol=2e-4
        )


@pytest.mark.parametrize("dense", [False, True], ids=["bm25", "dense"])
def test_a_killed_build_resumes_to_the_same_bytes(tmp_path, monkeypatch, encoder, dense):
    monkeypatch.setattr(corpus_bm25, "PASSAGES_PER_SHARD", 16)
    monkeypatch.setattr(dense_index, "PASSAGES_PER_FILE", 16)
    chosen = encoder if dense else None
    corpus = flashrag(tmp_path / "c.jsonl", passages())
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    run(tmp_path / "a", corpus, chosen)
    stages = []

    def killed(stage, done, total):
        stages.append((stage, done))
        if done >= 32 and stage.split()[0] in kills:
            kills.remove(stage.split()[0])
            raise KeyboardInterrupt

    kills = ["encoding"] if dense else ["splitting", "indexing"]
    while kills:
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "b", corpus, chosen, killed)
    stages.clear()
    run(tmp_path / "b", corpus, chosen, killed)
    first = next(done for stage, done in stages if stage.split()[0] in ("encoding", "indexing"))
    assert first == 32  # the parts made before are not made again
    files = {
        p.relative_to(tmp_path / "a"): p.read_bytes()
        for p in (tmp_path / "a").rglob("*")
        if p.is_file()
    }
    assert files == {
        p.relative_to(tmp_path / "b"): p.read_bytes()
        for p in (tmp_path / "b").rglob("*")
        if p.is_file()
    }


def test_kilt_pages_are_cut_into_passages_and_the_loader_reads_the_result(tmp_path):
    pages = [KILT, {"wikipedia_id": 7, "wikipedia_title": "Empty", "text": []}]
    pages.append(
        {
            "wikipedia_id": "8",
            "wikipedia_title": "Norb",
            "text": ["Norb\n", "A river lies north.\n"],
        }
    )
    corpus = tmp_path / "kilt.json.gz"
    corpus.write_bytes(gzip.compress("\n".join(json.dumps(page) for page in pages).encode()))
    cut = Corpus(corpus, 4).cut_passages(Corpus(corpus, 4).parse_page(0, json.dumps(KILT).encode()))
    assert cut == ["Mira is a town.", "== Sights == -", "The old bridge"]
    found = run(tmp_path, corpus, words=4)
    assert [doc["id"] for doc in found[0]["docs"]] == ["290"]
    assert [doc["id"] for doc in found[1]["docs"]] == ["8"]
    rows = [{"id": f"q{n}", "question": text, "answer": ["Mira"]} for n, text in enumerate(ASKED)]
    data = str(write_lines(tmp_path / "rows.jsonl", rows))
    ids = write_lines(tmp_path / "ids.jsonl", [{"id": "q0", "docs": [{"wikipedia_id": "290"}]}])
    pages_file = write_lines(tmp_path / "pages.jsonl", [KILT])
    ours = load(config("retrieved", data=data, options={"documents": str(tmp_path / "out.jsonl")}))
    theirs = load(
        config("retrieved", data=data, options={"documents": [str(ids), str(pages_file)]})
    )
    assert len(ours) == len(ASKED)
    assert ours.documents[theirs.examples[0].question.document_ids[0]] in theirs.documents.values()


def test_answers_change_nothing_but_the_recall(tmp_path):
    corpus = flashrag(tmp_path / "c.jsonl", passages())
    assert run(tmp_path, corpus) == run(tmp_path, corpus, rows=questions("poison"))
    manifest = json.loads((tmp_path / "out.jsonl.manifest.json").read_text())
    assert manifest["answer recall"]["words"] == 0
    assert manifest["corpus"]["documents"] == len({title for title, _ in passages()})
    assert len(manifest["corpus"]["sha256"]) == 64


def test_recall_counts_whole_words_and_strings_of_characters():
    recall = Recall()
    recall.add_question(OpenRow("a", "?", ("The art",)), ["a party"])
    recall.add_question(OpenRow("b", "?", ("no", "Ada-Lovelace!")), ["By Ada-Lovelace."])
    recall.add_question(OpenRow("c", "?", ("a long answer " * 5,)), ["anything"])
    recall.add_question(OpenRow("d", "?", ("long " * 20,), [["x"], ["mira"]]), ["Mira."])
    assert (recall.questions, recall.words, recall.characters, recall.left_out) == (3, 2, 3, 1)


def test_rows_of_one_title_are_one_document_in_the_order_of_the_corpus(tmp_path):
    rows = [("Mira", "Mira one."), ("Norb", "river."), ("Mira", "bridge two.")]
    found = run(tmp_path, flashrag(tmp_path / "c.jsonl", rows))
    doc = {"id": "0", "title": "Mira", "text": "Mira one. bridge two."}
    assert found[0]["docs"][0] == {**doc, "score": found[0]["docs"][0]["score"]}


def test_an_interrupted_write_keeps_the_old_file(tmp_path):
    corpus = flashrag(tmp_path / "c.jsonl", passages())
    (tmp_path / ".out.jsonl.a-host.1.tmp").write_text("what a killed one left")
    before = run(tmp_path, corpus)

    def killed(stage, done, total):
        if stage == "writing questions" and done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, corpus, None, killed, top=1)
    assert [
        json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()
    ] == before
    assert not list(tmp_path.glob(".out*"))


@needs_real
def test_real_pages_come_back_whole(tmp_path):
    """LongRefiner's released documents are passages of 100 words, joined by a space."""
    ((asked, pages),) = json.loads(real("data/nq/longrefiner_sample_docs.json").read_text()).items()
    texts = {page["title"]: page["contents"].partition("\n")[2] for page in pages}
    cut = [(title, text.split(" ")) for title, text in texts.items()]
    rows = [
        (title, " ".join(words[at : at + 100]))
        for title, words in cut
        for at in range(0, len(words), 100)
    ]
    found = run(
        tmp_path,
        flashrag(tmp_path / "c.jsonl", rows),
        rows=[OpenRow("q", asked, ("Wilhelm Röntgen",))],
        top=8,
    )
    assert found[0]["docs"][0]["title"] in (
        "Nobel Prize in Physics",
        "Wilhelm Röntgen",
        "Nobel Prize",
    )
    assert [doc["text"] for doc in found[0]["docs"]] == [
        texts[doc["title"]] for doc in found[0]["docs"]
    ]


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_dprs_table_gives_what_the_same_passages_give_in_flashrags_form(tmp_path, suffix):
    lines = [
        f'{n}\t"{text} He said ""yes""."\t{title}' for n, (title, text) in enumerate(passages())
    ]
    table = tmp_path / f"psgs_w100.tsv{suffix}"
    text = "\n".join(["id\ttext\ttitle", *lines, ""]).encode()
    table.write_bytes(gzip.compress(text) if suffix else text)
    quoted = [(title, f'{text} He said "yes".') for title, text in passages()]
    assert run(tmp_path, table) == run(tmp_path, flashrag(tmp_path / "c.jsonl", quoted))
    (tmp_path / "broken.tsv").write_text("id\ttext\ttitle\n1\tAda built it.\n")
    with pytest.raises(DataError, match="line 2: should have three columns: id, text, title"):
        run(tmp_path / "other", tmp_path / "broken.tsv")


def test_a_dpr_passage_without_a_title_is_read(tmp_path):
    corpus = tmp_path / "c.tsv"
    corpus.write_text("id\ttext\ttitle\n1\tAda built it.\t\n")
    ((number, line),) = Corpus(corpus, 100).lines()
    assert Corpus(corpus, 100).parse_page(number, line).text == "Ada built it."


@pytest.mark.parametrize(
    "blank", ['{"id": "x", "contents": " "}', 'x\t""\tPage 1'], ids=["flashrag", "dpr"]
)
def test_a_row_without_text_is_no_passage_and_is_counted(tmp_path, blank):
    corpus = flashrag(tmp_path / "c.jsonl", passages())
    if blank.startswith("x"):
        corpus.write_text(
            "\n".join(
                ["id\ttext\ttitle", *(f"{n}\t{b}\t{a}" for n, (a, b) in enumerate(passages()))]
            )
        )
    before = run(tmp_path / "before", corpus)
    corpus.write_text(f"{corpus.read_text().strip()}\n{blank}\n")
    assert run(tmp_path, corpus) == before
    facts = json.loads((tmp_path / "out.jsonl.manifest.json").read_text())["corpus"]
    assert (facts["passages"], facts["without text"]) == (60, 1)


BAD_ROWS = {
    "an unknown form of corpus (text); a row has id, text and perhaps title": [{"text": "x"}],
    "field 'contents': should be a string, is a number": [
        {"id": "0", "contents": "A\nb"},
        {"id": "1", "contents": 3},
    ],
    "field 'id': is missing": [{"contents": "A\nb"}],
    "field 'text': should be a list of paragraphs": [{**KILT, "text": "x"}],
    "the corpus has no text": [{**KILT, "text": []}],
    "the corpus has no rows": [],
}


@pytest.mark.parametrize("sentence", BAD_ROWS)
def test_a_bad_corpus_is_named(tmp_path, sentence):
    with pytest.raises(DataError, match=r"c\.jsonl") as error:
        run(tmp_path, write_lines(tmp_path / "c.jsonl", BAD_ROWS[sentence]))
    assert sentence in str(error.value)


def test_mistakes_on_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "home"))
    flashrag(tmp_path / "c.jsonl", passages())
    rows = write_lines(tmp_path / "q.jsonl", [{"question": q, "answer": ["mira"]} for q in ASKED])

    def ended(*more, dataset="nq", corpus="c.jsonl"):
        with pytest.raises(SystemExit) as end:
            main(["retrieve", "-d", dataset, "--corpus", corpus, "--data", str(rows), *more])
        return int(end.value.code or 0), *capsys.readouterr()

    code, out, _ = ended("--top", "2")
    assert code == 0
    assert (
        "answer recall@2: 75.0 in whole words, 75.0 as a string of characters (4 questions)" in out
    )
    code, out, err = ended("--set", "dataset.format=retrieved", "--json", dataset="hotpotqa")
    assert code == 0
    assert json.loads(out)["file"] == "retrieved/hotpotqa-bm25.jsonl"
    assert "dataset.documents=retrieved/hotpotqa-bm25.jsonl dataset.format=retrieved" in err
    with monkeypatch.context() as missing:
        missing.setattr(importlib.util, "find_spec", lambda name: None)
        refused = {
            ended()[
                2
            ]: "needs the package 'bm25s', which is not installed: pip install 'longdoc-harness["
        }
    own = "'musique' brings its own documents; if its questions make sense without them, add --set"
    refused |= {
        ended("--top", "0")[2]: "'--top'",
        ended(corpus="d.jsonl")[2]: "--corpus d.jsonl: no such file",
        ended(dataset="musique")[2]: own,
        ended(dataset="pocket/retrieved")[2]: "name a data set of open questions, such as nq",
        ended("--retriever", "e6")[2]: "unknown encoder 'e6'. Did you mean 'e5'",
        ended("--set", "encoder.device=cpu")[
            2
        ]: "--set encoder.device: only dataset.KEY can be set here",
        ended("--set", "dataset.documents=x")[2]: "leave them out to retrieve documents",
    }
    flashrag(tmp_path / "c.jsonl", passages(seed=1))
    refused[ended()[2]] = "c.jsonl has changed since its index was made; remove the folder"
    (facts,) = tmp_path.rglob("corpus.json")
    for number, damage in enumerate((b"[]", b"{}", b"\xff")):
        facts.write_bytes(damage)
        refused[ended("--top", str(number + 1))[2]] = "is damaged"
    for error, sentence in refused.items():
        assert sentence in error
        assert error.startswith("error: ")
        assert error.count("\n") == 1


def test_a_folder_of_pages_is_a_corpus(tmp_path):
    """A page is a document, also where two pages have one title."""
    (tmp_path / "wiki").mkdir()
    for name, text in (("a", "# Mill\nAda built it."), ("b", "# Mill\nBob burned it."), ("c", "")):
        (tmp_path / f"wiki/{name}.md").write_text(text)
    file, unread = write_folder_as_corpus(tmp_path / "wiki", tmp_path / "kept")
    corpus = Corpus(file, 100)
    pages = [corpus.parse_page(*line) for line in corpus.lines()]
    assert [(page.id, page.title) for page in pages] == [("a", "Mill"), ("b", "Mill")]
    assert [page.document_key for page in pages] == ["page a", "page b"]
    assert "Bob burned it." in pages[1].text
    assert unread == ("1 file was not read, or not in full, in wiki: c.md (empty)",)

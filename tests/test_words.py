"""One rule of words in every script, seen through all that reads words."""

import json
import random
import re
import string
import unicodedata

import pytest

from harness.bm25 import bm25
from harness.scorers.squad import normalize_answer, spaced_words
from harness.words import as_phrase, folded, words


def nfd(text):
    return unicodedata.normalize("NFD", text)


# Question, the passage that answers it, passages that share no word but pieces of words.
RANKED = {
    "hindi": ("पुल किसने बनाया?", "पुल मीरा ने बनाया।", "पल पाल पिल बन किस नया।"),
    "german, text in NFD": (
        "Wo ist die Brücke?",
        nfd("Die Brücke ist in Köln."),
        "Bru cke, Ko ln: wo?",
    ),
    "vietnamese, question in NFD": (nfd("Cầu ở đâu?"), "Cầu ở Huế.", "Cau o dau? Cau o Hue."),
    "korean, text in NFD": ("다리는 어디에 있나?", nfd("다리는 강 위에 있다."), "다른 어른 이다."),
    "arabic, question with vowel points": ("مَنْ بَنَى الجِسْر؟", "بنى سامي الجسر.", "م ن ب ن ى الج س ر"),
    "english, ligatures": (
        "Where is the final office?",
        "The \ufb01nal o\ufb03ce is north.",
        "Where is the file, it?",
    ),
    "japanese, half width": ("ガイドは?", "\uff76\uff9e\uff72\uff84\uff9e", "カイト"),
    "arabic, shapes of letters": ("سلام", "\ufeb3\ufefc\ufee1", "س م"),
    "turkish, capitals": ("istanbul nerede", "İSTANBUL", "stanbul nere"),
    "khmer": ("ស្ពាននៅឯណា", "ស្ពាននៅលើទន្លេ", "ភ្លៀងធ្លាក់"),
    "greek, final sigma": ("ΔΡΟΜΟΣ ΠΟΛΗΣ", "ο δρομος πολης", "δρομο πολη"),
    "hebrew, text with vowel points": ("מי בנה את הגשר?", "דָּוִד בָּנָה אֶת הַגֶּשֶׁר.", "מי את דוד?"),
    "persian, with and without a joiner": ("پل کجا می‌رود؟", "پل به شهر میرود.", "می می رود رود"),
    "japanese, full width": ("ABC 12?", "\uff21\uff22\uff23は\uff11\uff12です", "AB C1 2"),
    "burmese": ("တံတားဘယ်မှာလဲ", "တံတားမြစ်ပေါ်မှာ", "မိုးရွာ"),
    "soft hyphens": (
        "Where is the lighthouse?",
        "The light\u00adhouse is north.",
        "Where is the house, the light?",
    ),
    "japanese": ("三千円は何に使った?", "本に三千円を使った。", "山はとても高い。"),
    "thai": ("สะพานอยู่ที่ไหน", "สะพานอยู่ที่แม่น้ำ", "ฝนตกหนักมาก"),
}


@pytest.mark.parametrize("case", RANKED)
def test_a_document_is_ranked_by_whole_words(case):
    question, right, wrong = RANKED[case]
    scores = bm25(question, [wrong, right, "1 2 3", "x y z"])
    assert scores.argmax() == 1
    assert scores[1] > 0


@pytest.mark.parametrize("case", ["khmer", "korean, text in NFD", "japanese, half width"])
def test_a_corpus_is_ranked_by_the_same_words(case, tmp_path):
    pytest.importorskip("bm25s")
    from harness.datasets.open_rows import OpenRow
    from harness.retrieval.retrieval_run import RetrievalRequest, write_retrieved

    question, right, wrong = RANKED[case]
    texts = {"wrong": wrong, "right": right, "a": "1 2 3", "b": "x y z"}
    corpus = tmp_path / "c.jsonl"
    rows = [json.dumps({"id": name, "contents": f"{name}\n{text}"}) for name, text in texts.items()]
    corpus.write_text("\n".join(rows))
    out = tmp_path / "out.jsonl"
    request = RetrievalRequest(corpus, None, 1, 100, tmp_path / "index", out)
    write_retrieved(request, [OpenRow("q", question, ("x",))], {}, lambda *_: None)
    assert json.loads(out.read_text())["docs"][0]["title"] == "right"


def test_plain_english_has_the_words_it_always_had():
    dice = random.Random(0)
    for _ in range(500):
        text = "".join(dice.choices(string.printable, k=80))
        assert words(text) == re.findall("[a-z0-9]+", text.lower())
        assert as_phrase(text) == re.sub("[^a-z0-9 ]", " ", text.lower()).strip()
        assert spaced_words(text) == f" {normalize_answer(text)} "


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The St. Mary's-School, été_2", ["the", "st", "mary", "s", "school", "été", "2"]),
        (nfd("Ärzte, 2½ m²"), ["ärzte", "2½", "m²"]),
        ("ABC三千円12", ["abc", "三", "千", "円", "12"]),
        ("コーヒー・カップ", list("コーヒーカップ")),
        ("人々〇", list("人々〇")),
        ("น้ำ ๑๒", ["น้ํ", "า", "๑๒"]),
        ("น\u0e49\u0e4d\u0e32", ["น้ํ", "า"]),
        ("कि की", ["कि", "की"]),
        ("…, — !", []),
        ("don\u00b4t, l\u00b4eau a\u00a8b", ["don", "t", "l", "eau", "a", "b"]),
        ("\u21165, \u20a8500", ["5", "500"]),
        ("i\u0307\u0301 \u00ed", ["\u00ed", "\u00ed"]),
    ],
)
def test_words(text, found):
    assert words(text) == found


def test_folding_a_folded_text_changes_nothing():
    signs = [chr(n) for n in range(0x30000) if not 0xD800 <= n < 0xE000]
    signs += [f"i\u0307{mark}" for mark in map(chr, range(0x300, 0x370))]
    assert [sign for sign in signs if folded(folded(sign)) != folded(sign)] == []


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("Radio-City's", "radio city s"),
        ("  É. Zola ", "é  zola"),
        (nfd("É. Zola"), "é  zola"),
        ("北京", "北京"),
        ("कि", "कि"),
        ("की", "की"),
        ("مُحَمَّد", "محمد"),
        ("...", ""),
    ],
)
def test_phrases_of_hipporag(text, node):
    assert as_phrase(text) == node

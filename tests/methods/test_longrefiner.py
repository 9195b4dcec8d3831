"""LongRefiner as a method: what is asked, what is read, and what happens with documents that are
not as they should be."""

import numpy as np
import pytest
from harness_training.method_skills import skills_of

from harness.config import presets
from harness.config.layers import Choices
from harness.config.resolve import resolve
from harness.engine.plan import plan_choices
from harness.errors import UserError, WindowExceeded
from harness.types import Document, Question
from methods.longrefiner import LongRefiner
from methods.longrefiner.config import LongRefinerConfig
from methods.longrefiner.prompts import parse_titles
from methods.longrefiner.shown import ShownText
from tests.methods.conftest import FakeTools

TEXT = (
    "Mira Tal was a painter of Toren. She was born at the school. Her father kept the north gate. "
    "She learned to draw from Old Hass. In 1719 she painted the bridge. The bridge hangs in "
    "Kelford. She died there."
)
OUTLINE = (
    "<abstract>Mira Tal was <skip> of Toren.</abstract><section: Early life>She was born <skip> "
    "north gate."
    "</section: Early life><section: Work>She learned <skip> from Old Hass.<br>In 1719 <skip> She "
    "died there.</section: Work>"
)
QUESTION = Question("q", "Where does the bridge hang?", ("d",))
DOCUMENT = Document("d", TEXT, "Mira Tal")
PROBE = {"p": {"Local": 0.6, "Global": 0.2, "[": 0.2}}
REPLIES = (
    {"when": "Write the outline", "reply": OUTLINE},
    {"when": "List the titles", "reply": "['Work', 'Nowhere']"},
    {"reply": "Kelford"},
)


class Reranker:
    """Counts shared words, and its calls."""

    def __init__(self):
        self.calls = []

    def score(self, query, passages):
        self.calls.append(list(passages))
        asked = set(query.lower().strip("?").split())
        return np.array(
            [len(asked & set(p.lower().rstrip(".").split())) for p in passages], dtype=float
        )


def Tools(replies=REPLIES, probes=(PROBE,), **more):
    return FakeTools(replies, probes, reranker=Reranker(), **more)


def method(**params):
    return LongRefiner(LongRefinerConfig(**{"paragraph_words": 5, "budget": 24, **params}))


def answer(tools, documents=(DOCUMENT,), **params):
    made = method(**params)
    indexes = [made.index(d, tools) for d in documents]
    return made.answer(QUESTION, list(documents), indexes, tools), indexes


def shown(found, documents=(DOCUMENT,)):
    texts = {d.id: d.text for d in documents}
    return [texts[s.document_id][s.start : s.end] for s in found.shown]


def test_a_question_from_outline_to_answer():
    tools = Tools()
    found, (index,) = answer(tools)
    assert [(n[0], n[1]) for n in index["nodes"] if n[1]] == [
        ("section", "Early life"),
        ("section", "Work"),
    ]
    start, analysis, selection, *taken = found.steps
    assert (start.action, start.scores["structured"]) == ("start", 1.0)
    assert analysis.scores == {"weight": pytest.approx(0.25), "p_local": 0.6, "p_global": 0.2}
    assert selection.note == "Mira Tal: ['work']; not in the outline: ['nowhere']"
    # Leaves, words shared with the question: abstract 0, "She was born ... gate." 1 (the), "She
    # learned ..." 0, "In 1719 ... died there." 2 (the, bridge). Work: mean(0, 2) = 1. On one scale:
    # 0, .5, 0, 1, Work .5; then R = .25: Work .5 + .25, its leaves 0 + .125 and 1 + .125.
    local = {s.note: (s.scores["local"], s.scores["global"], s.scores["total"]) for s in taken}
    assert local == {"paragraph": (1.0, 0.5, 1.125), "section Work": (0.5, 1.0, 0.75)}
    assert shown(found) == [TEXT[TEXT.index("She learned") :]]
    assert (found.text, found.stop_reason) == ("Kelford", "budget")
    assert len(tools.reranker().calls) == 1  # all paragraphs in one call
    prompt = tools.reader.prompts[-1]
    assert (
        "Mira Tal\nWork\nShe learned to draw" in prompt
    )  # the section is read whole, so its title is shown
    assert (
        tools.meter.usage()["search"]["tokens_out"] == 2
    )  # the list of titles; the label is not written


def test_what_is_read_is_in_the_order_of_documents_and_text():
    other = Document(
        "e", "The bridge does hang where it hung. Nothing else is known of the weather.", "Bridge"
    )
    tools = Tools(({"when": "Write the outline", "reply": "nothing"}, *REPLIES[1:]))
    found, _ = answer(tools, (DOCUMENT, other), chunk_sentences=1, budget=40)
    spans = [(s.document_id, s.start) for s in found.shown]
    assert spans == sorted(spans)
    assert {name for name, _ in spans} == {"d", "e"}
    assert sum("no titles to select" in s.note for s in found.steps) == 2


HEADS = ("Write the outline", "Answer [Local] or [Global]", "List the titles")


@pytest.mark.parametrize(
    ("params", "weights", "asked"),
    [
        ({}, [0.25], (True, True, True)),
        ({"weight": 0.5}, [], (True, False, True)),
        ({"refinement": False}, [], (True, False, False)),
        ({"structuring": False}, [], (False, False, False)),
    ],
    ids=str,
)
def test_each_part_can_be_left_out(params, weights, asked):
    tools = Tools()
    found, (index,) = answer(tools, **params)
    assert [s.scores["weight"] for s in found.steps if s.action == "analysis"] == weights
    assert tuple(any(head in p for p in tools.reader.prompts) for head in HEADS) == asked
    assert (index["structured"] > 0) == asked[0]
    assert len(skills_of(method(**params))) == 2 + sum(asked)


def test_one_model_has_an_adapter_for_each_task():
    tools, used = Tools(), []
    opened = tools.reader.session
    tools.reader.session = lambda meter, role, adapter: (
        used.append((role, adapter)) or opened(meter, role, adapter)
    )
    answer(tools, analysis_adapter="one", structuring_adapter="two", selection_adapter="three")
    assert used == [("refiner", "two"), ("refiner", "one"), ("refiner", "three"), ("reader", None)]


def test_a_document_that_is_there_twice_is_read_once():
    again = Document("again", TEXT, "Mira Tal")
    found, _ = answer(Tools(), (DOCUMENT, DOCUMENT, again))
    assert {s.document_id for s in found.shown} == {"d"}
    assert found.steps[0].note == "2 documents are there twice and read once"
    assert found.steps[0].scores["documents"] == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n ",
        "word",
        "no sentence ends here " * 40,
        "<section: A>x</section: A> <br> <skip> ...",
    ],
)
@pytest.mark.parametrize("rule", ["paper", "code"])
def test_awkward_documents_are_answered(text, rule):
    replies = ({"when": "Write the outline", "reply": text[:60]}, *REPLIES[1:])
    found, _ = answer(Tools(replies), (Document("d", text),), selection_rule=rule, leaf_tokens=5)
    assert found.text == "Kelford"
    if not text.strip():
        assert (found.shown, found.stop_reason) == ((), "no text")


def test_a_document_longer_than_the_window_keeps_its_ends():
    text = " ".join(f"Word{i} stands here." for i in range(200))
    tools = Tools(window=300)
    found, (index,) = answer(tools, (Document("d", text),), selection_tokens=10, abstract_tokens=20)
    prompt = next(p for p in tools.reader.prompts if "Write the outline" in p)
    assert "Word0 " in prompt
    assert "Word199 " in prompt
    assert "Word100 " not in prompt
    assert any("the middle was left out" in note for note in index["notes"])
    assert found.text == "Kelford"
    with pytest.raises(WindowExceeded, match="no room for a document beside the prompt"):
        answer(Tools(window=40))


@pytest.mark.parametrize(
    ("text", "title", "body"),
    [
        (f"Mira Tal\n{TEXT}", "Mira Tal", TEXT),
        (f'"Mira Tal"\n\n{TEXT}', "Mira Tal", TEXT),  # as FlashRAG's corpora quote a title
        (f"Mira\n{TEXT}", "Mira Tal", f"Mira\n{TEXT}"),
        (f"\n{TEXT}", "", f"\n{TEXT}"),
        ("Mira Tal\n", "Mira Tal", "Mira Tal\n"),  # nothing else is there to read
    ],
)
def test_the_title_line_of_a_document_is_not_structured(text, title, body):
    tools = Tools()
    found, (index,) = answer(tools, (Document("d", text, title),), budget=100)
    prompt = next(p for p in tools.reader.prompts if "Write the outline" in p)
    assert f"Text:\n{body}\n\nThe text ends" in prompt
    read = "".join(text[s.start : s.end] for s in found.shown)
    assert read.split() == body.split()  # spans are of the whole document
    assert tools.reranker().calls[0][0].split()[0] == body.split()[0]
    assert text[index["kept"][0][0] :].strip() == body.strip()


@pytest.mark.parametrize(
    "heading", ["Section::::Career.:Early years.", "== Early years ==", "## Early years"]
)
@pytest.mark.parametrize(
    ("keep", "begins"), [(False, "She learned"), (True, "{heading}\nShe learned")]
)
def test_headings_are_not_structured_unless_they_are_kept(heading, keep, begins):
    cut = TEXT.index("She learned")
    document = Document("d", f"{TEXT[:cut]}\n{heading}\n{TEXT[cut:]}", "Mira Tal")
    tools = Tools()
    found, _ = answer(tools, (document,), budget=100, keep_headings=keep)
    sent = [
        p
        for p in tools.reader.prompts
        if "Write the outline" in p or "Where does the bridge hang?" in p
    ]
    sent = [p for p in sent if "List the titles" not in p and "[Local]" not in p]
    assert all((heading in prompt) == keep for prompt in sent)
    assert (
        "".join(shown(found, (document,))).count(heading)
    ) == keep  # spans are of the whole document
    assert begins.format(heading=heading) in tools.reader.prompts[-1].replace("\nWork\n", "\n")


def test_a_document_of_headings_alone_is_read_as_it_is():
    found, _ = answer(Tools(), (Document("d", "# One\n# Two", "T"),), budget=100)
    assert shown(found, (Document("d", "# One\n# Two", "T"),)) == ["# One\n# Two"]


@pytest.mark.parametrize(("unmatched", "read"), [("keep", True), ("drop", False)])
def test_text_that_no_clip_stands_for_is_kept_or_left_out(unmatched, read):
    document = Document("d", f"{TEXT} Nobody wrote this down.", "Mira Tal")
    found, (index,) = answer(
        Tools(), (document,), budget=100, unmatched=unmatched, leaf_tokens=None
    )
    whole = "".join(shown(found, (document,)))
    assert ("Nobody" in whole) == read
    assert "She died there." in whole
    assert (index["kept"][-1][1] == len(document.text)) == read


def test_text_before_the_first_section_is_the_abstract_where_the_outline_has_none():
    outline = OUTLINE.partition("</abstract>")[2]
    tools = Tools(({"when": "Write the outline", "reply": outline}, *REPLIES[1:]))
    _, (index,) = answer(tools, unmatched="drop")
    assert [node[0] for node in index["nodes"]][:2] == ["abstract", "paragraph"]
    assert index["kept"] == [[0, len(TEXT)]]


@pytest.mark.parametrize("role", ["reader", "refiner"])
def test_the_budget_is_counted_by_the_tokenizer_that_is_asked_for(role, monkeypatch):
    asked = []

    def showing(**given):
        asked.append(given["model"].role)
        return ShownText(**given)

    monkeypatch.setattr("methods.longrefiner.method.ShownText", showing)
    answer(Tools(), budget_of=role)
    assert asked == [role]


def test_nothing_fits():
    found, _ = answer(Tools(), budget=1)
    assert (found.shown, found.stop_reason) == ((), "budget: not even one node fits")


def test_a_stopped_index_does_not_write_its_outline_again():
    tools = Tools()
    made = method()
    first = made.index(DOCUMENT, tools)
    before = len(tools.reader.prompts)
    assert made.index(DOCUMENT, tools) == first
    assert len(tools.reader.prompts) == before


TITLES = [
    ("['abstract', 'Early  Life']", {"abstract", "early life"}),
    ('["A"]', {"a"}),
    ('{"selected_titles": ["A", "B"]}', {"a", "b"}),
    ("{'selected_titles': 'A'}", {"a"}),
    ("The list is: ['A'] because [see above].", {"a"}),
    (
        '{"why": {"a": 1}, "others": ["B"], "selected_titles": ["A"]}',
        {"a"},
    ),  # the longest list or mapping first
    ("[]", set()),
    ("A, B", None),
    ("['A', 3]", None),
    # Cut by the limit of tokens, or with an apostrophe: what is whole is taken.
    ("['A'", {"a"}),
    ("['A',", {"a"}),
    ("['A', 'Be", {"a"}),
    ("['A", set()),
    ("['Ann's life', 'Work']", {"ann's life", "work"}),
    ("['Ann's life', 'Work', 'Ea", {"ann's life", "work"}),
    ('{\'selected_titles\': ["A", "B', {"a"}),
    ("see [1] and ['A', 'B'", {"a", "b"}),
    ("[" * 3000, set()),
    ("['" * 1500, {"['" * 1498 + "["}),  # nonsense, but read in no time
    ("", None),
]


@pytest.mark.parametrize(("reply", "found"), TITLES, ids=[row[0][:30] for row in TITLES])
def test_titles_of_a_reply(reply, found):
    assert parse_titles(reply) == found


def plan(name, **sets):
    keys = {"dataset.tokens": 300, **{k.replace("__", "."): v for k, v in sets.items()}}
    return plan_choices(
        Choices(method=name, dataset="pocket/retrieved", profile="pocket", limit=2, sets=keys)
    )


def test_what_scores_decides_which_encoder_is_needed(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path))
    assert plan("longrefiner-bm25").encoders == {}
    dense = plan("longrefiner")
    assert (set(dense.encoders), dense.config.method.name) == ({"encoder"}, "longrefiner[minilm]")
    tiny = plan(
        "longrefiner", method__scoring="reranker"
    )  # the profile names one that comes with the package
    assert (set(tiny.encoders), tiny.config.method.name) == (
        {"reranker"},
        "longrefiner[pocket-reranker]",
    )
    with pytest.raises(UserError, match="not run: weights: .*bge-reranker"):
        plan("longrefiner", method__scoring="reranker", reranker="bge-reranker")
    assert LongRefiner.encoders == ()


PRESETS = [name for name in presets.names("methods") if name.startswith("longrefiner")]


def resolved(name, profile):
    return resolve(Choices(method=name, dataset="nq", profile=profile)).config


@pytest.mark.parametrize("name", PRESETS)
def test_the_pocket_profile_scales_down_and_that_of_the_paper_names_the_base_of_its_adapters(name):
    params = resolved(name, "pocket").method.params
    assert params["budget"] == 300
    assert params["scoring"] in ("dense", "bm25")
    roles = resolved(name, "paper").roles
    refined = not name.startswith("longrefiner-rival") and name != "longrefiner-no-structuring"
    named = {role: model.name for role, model in roles.items()}
    assert named == ({"refiner": "Qwen2.5-3B-Instruct"} if refined else {})


def test_ablations_change_what_they_say():
    full = resolved("longrefiner", "pocket").method.params
    for name, change in {
        "no-analysis": {"weight": 0.5},
        "no-structuring": {"structuring": False},
        "no-refinement": {"refinement": False},
        "no-part-titles": {"part_titles": "none"},
        "released": {
            **dict.fromkeys(("local_rule", "global_rule", "selection_rule", "part_titles"), "code"),
            "unmatched": "drop",
            "leaf_tokens": None,
            "budget_of": "refiner",
        },
    }.items():
        assert resolved(f"longrefiner-{name}", "pocket").method.params == {**full, **change}

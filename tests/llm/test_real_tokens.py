"""What methods and the manifest take from a real tokenizer and a real session."""

from hypothesis import given, settings
from hypothesis import strategies as st

from harness.config.schema import ModelConfig
from harness.cost.meter import Meter
from harness.llm.backend import load_model
from harness.models import MeteredModel
from harness.types import Document, Question
from methods.chunks import fixed_chunks
from methods.kept_text import kept_spans
from methods.long_context import FullContext
from methods.reading import room_for_text
from tests.methods.conftest import FakeTools

# Characters of one to four bytes, some of which take several tokens, so that cuts fall inside words
# and characters.
TEXT = st.text("ab The bridge.\n\u00e9\u6771\u6f22\U0001f98a", min_size=1, max_size=60)


@settings(deadline=None)
@given(text=TEXT, most=st.integers(0, 40), size=st.integers(1, 9))
def test_what_is_kept_has_no_more_tokens_than_allowed(tiny, text, most, size):
    model = MeteredModel(tiny, Meter(), "reader")
    spans, tokens = kept_spans(text, most, model)
    assert tokens == model.count(text)
    assert sum(model.count(text[a:b]) for a, b in spans) <= most
    assert (spans == [(0, len(text))]) == (tokens <= most)
    assert "".join(text[a:b] for a, b in fixed_chunks(text, size, model)) == text


def test_a_question_that_just_fits_is_asked_without_the_text(tiny, tiny_folder):
    """The window has room for the question and the answer, and 0, 1, 2 ... tokens of text."""
    question, document = (
        Question("q", "Who founded the school?", ("d",)),
        Document("d", "The river town \u6771. " * 50),
    )
    whole = FakeTools(reader=tiny)
    used = whole.model().window - room_for_text(question, whole, whole.model())
    for spare in range(6):
        model = load_model(ModelConfig(name="tiny", source=str(tiny_folder), window=used + spare))
        tools = FakeTools(reader=model)
        found = FullContext(FullContext.Config()).answer(question, [document], [{}], tools)
        shown = [document.text[s.start : s.end] for s in found.shown]
        kept = sum(tools.model().count(text) for text in shown)
        assert kept <= spare, "the two ends are joined with nothing between them"
        assert found.truncated["tokens_after"] == kept
        assert sum(e.new for e in tools.meter.events if e.kind == "prefill") <= used + spare - 8


def test_the_first_prompt_is_kept_for_each_role(tiny_folder):
    model = load_model(ModelConfig(name="tiny", source=str(tiny_folder)))
    assert model.first_prompts == {}
    for role, text in (("builder", "Summary"), ("searcher", "Can this"), ("builder", "Later")):
        with model.session(Meter(), role) as s:
            s.user(text)
            s.flush()
    assert model.first_prompts.keys() == {"builder", "searcher"}
    assert "Summary" in model.first_prompts["builder"]["text"]
    assert "Can this" in model.first_prompts["searcher"]["text"]
    assert model.first_prompts["searcher"]["ids"][0] == model.text.bos

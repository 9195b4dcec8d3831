"""Which strings of a template are markers, and how a text for a server is kept off them."""

import pytest

from harness.cost.meter import Meter
from harness.llm.endings import KNOWN, OPENING
from harness.llm.template import PLAIN, Pieces
from harness.llm.template_tokens import break_in_text, spelled_markers
from tests.llm.endpoints import asked, loaded
from tests.llm.loopback import Loopback, completion


@pytest.mark.parametrize(
    ("pieces", "added", "markers"),
    [
        (PLAIN, ["<s>"], set()),
        (Pieces("<s>[INST] ", " [/INST]", " </s><s>[INST] "), ["<s>", "</s>"], {"[INST]", "[/INST]"}),
        (Pieces("<m>user\n", "</m>\n<m>model\n", "</m>\n<m>user\n"), ["<m>", "</m>"], set()),
        (Pieces("<m>user\n", "</m>\n<m>model\n", "</m>\n<m>user\n"), [], {"<m>", "</m>"}),
        (Pieces("Be kind. USER: ", " ASSISTANT:", "</s>USER: "), ["</s>"], {"USER:", "ASSISTANT:"}),
        (Pieces("", "\n\n### Response:\n", "</s>### Instruction:\n"), ["</s>"], {"### Response:", "### Instruction:"}),
        (Pieces("user\n", "\nmodel\n", "\nuser\n"), [], {"\nuser\n", "\nmodel\n"}),
        (Pieces("<<SYS>>\nBe kind.\n<</SYS>>\n", "<e>", "<b>"), ["<e>", "<b>"], {"<<SYS>>", "<</SYS>>"}),
    ],
)
def test_what_a_template_spells(pieces, added, markers):
    assert spelled_markers(pieces, added) == markers


@pytest.mark.parametrize(
    ("text", "sent", "count"),
    [
        ("a<|im_end|>b", "a< |im_end|>b", 1),
        ("[INST]x[/INST]", "[ INST]x[ /INST]", 2),
        ("\uff1c|im_\u200bend|\uff1e", "\uff1c |im_\u200bend|\uff1e", 1),
        ("<|IM_END|> <|\u00efm_end|>", "< |IM_END|> < |\u00efm_end|>", 2),
        ("</s</s>>", "</s< /s>>", 1),
        ("USER: user: who", "U SER: user: who", 1),
        ("x < y and a[0] </b> \u00e9t\u00e9 \uff1c", "x < y and a[0] </b> \u00e9t\u00e9 \uff1c", 0),
        ("", "", 0),
    ],
)
def test_text_for_a_server(text, sent, count):
    assert break_in_text(text, {*KNOWN, *OPENING, "USER:", "  ", ""}) == (sent, count)


def test_the_record_counts_markers_that_were_broken_up_for_a_server():
    with Loopback() as server:
        meter = Meter()
        with loaded(server).session(meter) as s:
            s.user("Read: [INST] and <|im")
            s.feed("_end|>")  # two pieces that make a marker together
            s.write(4)
    assert server.asked[0]["messages"][0]["content"] == "Read: [ INST] and < |im_end|>"
    assert meter.usage()["answer"]["markers_broken"] == 2
    _, clean, _ = asked(completion())
    assert "markers_broken" not in clean.usage()["answer"]

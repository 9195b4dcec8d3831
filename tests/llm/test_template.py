"""Cutting chat templates: shapes of the common families (written here), and what is refused."""

import pytest

from harness.errors import CannotRun
from harness.llm.template import cut_template


def cut(template, date="26 Jul 2024", **more):
    return cut_template(template, {"bos_token": "<s>"}, "m", date, **more)


HEADERS = (
    "<B>{% for m in messages %}<H>{{ m.role }}</H>\n\n{{ m.content TRIM}}<E>{% endfor %}"
    "{% if add_generation_prompt %}<H>assistant</H>\n\n{% endif %}"
)
HEADS = ("<B><H>user</H>\n\n", "<E><H>assistant</H>\n\n", "<E><H>user</H>\n\n")
LINES = (
    "{% for m in messages %}<S>{{ m.role }}\n{{ m.content }}<E>\n{% endfor %}"
    "{% if add_generation_prompt %}<S>assistant\n{% endif %}"
)
INST = "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}[I]{{ m.content }}[/I]{% else %}{{ m.content }}</s>{% endif %}{% endfor %}"
DATED = "<B>Today: {{ date_string }}. " + LINES
CLOCK = "<B>Today: {{ strftime_now('%Y-%m-%d') }}. " + LINES


@pytest.mark.parametrize(
    ("template", "begin", "mid", "then", "trims"),
    [
        (HEADERS.replace("TRIM", ""), *HEADS, False),
        (HEADERS.replace("TRIM", "| trim "), *HEADS, True),
        (LINES, "<S>user\n", "<E>\n<S>assistant\n", "<E>\n<S>user\n", False),
        (INST, "<s>[I]", "[/I]", "</s>[I]", False),
        (DATED, "<B>Today: 26 Jul 2024. <S>user\n", "<E>\n<S>assistant\n", "<E>\n<S>user\n", False),
        (CLOCK, "<B>Today: 2024-07-26. <S>user\n", "<E>\n<S>assistant\n", "<E>\n<S>user\n", False),
    ],
)
def test_cut(template, begin, mid, then, trims):
    pieces = cut(template)
    assert (
        pieces.before_first_user,
        pieces.before_reply,
        pieces.before_next_user,
        pieces.trims_contents,
    ) == (begin, mid, then, trims)


@pytest.mark.parametrize(
    ("template", "why"),
    [
        (LINES.replace("m.content", "m.content | upper"), "0 times instead of once"),
        (
            LINES.replace("m.content", "m.content.split('</think>')[-1]"),
            "rewrites what a user turn says",
        ),
        (
            LINES.replace("m.content", "m.content | replace('\\n\\n', '\\n')"),
            "rewrites what a user turn says",
        ),
        (
            LINES.replace("{{ m.content }}", "{{ m.content }}{{ m.content }}"),
            "2 times instead of once",
        ),
        ("{{ messages[-1].content }}?", "0 times instead of once"),
        (LINES + "{% if messages | length == 1 %}<T>{% endif %}", "changes earlier turns"),
        ("{{ messages[5].content }}", "has no element 5"),
        ("{{ raise_exception('no') }}", r"\(no\)"),
        ("{{ a.b.c }}", "'a' is undefined"),
    ],
)
def test_refused_by_name(template, why):
    with pytest.raises(CannotRun, match=f"chat template of 'm'.*{why}"):
        cut(template)

"""QRMeM memories of two sentences, built by a scripted model."""

from harness.llm.scripted import Rule
from harness.types import Document, Question
from methods.qrmem import QRMeM
from methods.qrmem.config import QRMeMConfig
from methods.qrmem.memory import Memory
from tests.methods.conftest import FakeTools

# Two segments of nine and ten words.
FIRST = "The poet Ann Toren wrote Velindra in that winter."
SECOND = "Later Toren moved away, and Velindra was printed in Kelford."
TEXT = f"{FIRST} {SECOND}"
QUESTION = Question("q", "Who wrote Velindra?", ("d",))
ENTITY, RELATION, DOUBT = (
    "Find the key entities",
    "Describe how entities",
    "Look for what is missing",
)
RULES = [
    Rule(when="# Task Definition\nSummary the context", reply="about a poet"),
    # The guided rounds come first: their prompts have all that the first ones have, and a question.
    Rule(when=f"{ENTITY} in a part of a document, to help answer a question about the whole document.\n\nQuestion: Who "
         "wrote Velindra?\n\nWhat the whole document is about:\nabout a poet\n\nPart of the "
         f"document:\n{FIRST}\n\nPay "
         "attention to what these questions ask for:\n* When was it written?", reply="* winter"),
    Rule(when="Part of the document:\nThe poet [Ann Toren] wrote [Velindra] in that [winter].\n\nEntities:\n* Ann Toren\n"
         "* Velindra\n* winter\n\nPay attention", reply="* Velindra | winter | Velindra was written in winter."),
    Rule(when=f"Part of the document:\n{SECOND}\n\nPay attention", reply="none"),
    Rule(when="printed in [Kelford].\n\nEntities:\n* Toren\n* Velindra\n* Kelford\n\nPay", reply="none"),
    Rule(when=f"{DOUBT} in a graph of entities and relations that was made of a part of a document.\n\nWhat the whole document is "
         f"about:\nabout a poet\n\nPart of the document:\n{FIRST}\n\nEntities:\n* Ann Toren\n* "
         "Velindra\n\nRelations:\n"
         "* Ann Toren | Velindra | Ann Toren wrote it.", reply="* When was it written?\n* When was it all written?"),
    Rule(when=DOUBT, reply="1. when was it written\n2. Who printed it?\n3. When was this written?"),
    Rule(when=f"Part of the document:\n{FIRST}\n\nList", reply="* [Velindra].\n* a castle"),
    Rule(when=f"Part of the document:\n{SECOND}\n\nList", reply="* kelford"),
    Rule(when="[Ann Toren] wrote [Velindra]", reply="* Ann Toren | Velindra | Ann Toren wrote it.\n* Ann Toren | Rome | no"),
    Rule(when="Later [Toren]", reply="* Velindra | Toren | It is a work of Toren.\n* Velindra | Kelford | printed there"),
    # One pair has a relation in each segment: first the questions, then one relation for both.
    Rule(when="Answer these questions for yourself", reply="* Ann Toren wrote Velindra, which was printed.\nMore."),
    Rule(when="Two parts of a document", reply="* Is it the same work?"),
]  # fmt: skip


def build(rules=RULES, text=TEXT, question=QUESTION, tools=None, **params):
    tools = tools or FakeTools(rules)
    tools.question = question
    method = QRMeM(QRMeMConfig(**{"segment_tokens": 11, "summary_tokens": 8, **params}))
    return Memory.from_index(method.index(Document("d", text), tools)), tools


def asked(tools, *, about):
    return [prompt for prompt in tools.reader.prompts if about in prompt]

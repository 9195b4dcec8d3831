"""PECAN searches of a small hand-worked text, with a scripted model."""

from harness.llm.scripted import Rule
from harness.types import Document, Question
from methods.graph import Graph
from methods.pecan import Pecan
from methods.pecan.config import PecanConfig
from tests.methods.conftest import FakeTools

# Four chunks of three words, two points. Attention of the points' rows to the chunks' columns:
#            c0    c1    c2    c3            edges of p4: .8/1.0 ...  of p5: normalised by 0.5
#   p4      0.8   0.1   0.1   0.0
#   p5      0.0   0.1   0.1   0.3
TEXT = "aa ab ac ba bb bc ca cb cc da db dc"
CHUNKS = ["aa ab ac", "ba bb bc", "ca cb cc", "da db dc"]
ROWS = {"first": [0.8, 0.1, 0.1, 0.0], "second": [0.0, 0.1, 0.1, 0.3]}

# Attention of visited nodes to the question.
RELEVANCE = {
    "first point": 0.2,
    "second point": 0.5,
    "da db dc": 0.4,
    "aa ab ac": 0.1,
    "ba bb bc": 0.3,
    "ca cb cc": 0.3,
}

SUMMARY = Rule(when="Summary the following", reply="* first point\n* second point")


def attention(row, column):
    if "who" in column:
        return RELEVANCE.get(row.strip(), 0.0)
    points = next((v for k, v in ROWS.items() if k in row), None)
    return points[CHUNKS.index(column.strip())] if points and column.strip() in CHUNKS else 0.0


def probes(*p_yes):
    return [Rule(p={"Yes": p, "No": 1 - p}, once=True) for p in p_yes] + [
        Rule(p={"Yes": 0.0, "No": 1.0})
    ]


def run(p_yes, tools=None, text=TEXT, meter=None, **params):
    """Answer, graph and tools; meter: the question's, where it is not that of the graph too."""
    tools = tools or FakeTools([SUMMARY, Rule(reply="the answer")], probes(*p_yes), attention)
    config = {"chunk_tokens": 3, "reserve": 20, "similarity": False, **params}
    method, document = Pecan(PecanConfig(**{"min_ip_levels": 1, **config})), Document("d", text)
    index = method.index(document, tools)
    tools.meter = meter or tools.meter
    answer = method.answer(Question("q", "who zz", ("d",)), [document], [index], tools)
    return answer, Graph.from_index(index), tools

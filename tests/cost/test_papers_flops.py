"""Which convention the papers' TFLOPs are counted by: docs/methods/costs.md#costs-and-flops holds
the table made here.

Seven rows of GARLIC's table 1 read a text of known length: three whole documents (table 6 has their
mean length), and five or seven chunks of 300 tokens of long stories. Their printed TFLOPs say how
many tokens were processed beside the text. These are prompt, question and answer, so a convention
that fits gives about the same number in all rows; with the median of the seven, the printed ratios
must come out again.
"""

import csv
from bisect import bisect_left
from importlib import resources
from pathlib import Path
from statistics import median

from harness.cost.flops import CONVENTIONS, DEFAULT_CONVENTION, Event, ModelShape, flops

LLAMA_8B = ModelShape(32, 4096, 32, 8, 128, 14336, 128256)
METHODS = Path(__file__).parents[2] / "docs" / "methods" / "costs.md"
# Method, data set, tokens of the text; None: the mean length in table 6.
ROWS = [
    ("Llama3.1-8B", "Qasper", None),
    ("Llama3.1-8B", "HotpotQA", None),
    ("Llama3.1-8B", "MuSiQue", None),
    ("BM25 top-5", "NarrativeQA", 1500),
    ("SBERT top-5", "NarrativeQA", 1500),
    ("Dragon top-5", "NarrativeQA", 1500),
    ("SBERT top-X", "NarrativeQA", 2100),
]


def printed(table: str, method: str, dataset: str, metric: str) -> float:
    """A value of GARLIC's as it is printed, without its unit."""
    with (
        resources.files("reports.paper")
        .joinpath("paper_results.csv")
        .open(encoding="utf-8") as file
    ):
        found = {
            (row["table"], row["method"], row["dataset"], row["metric"]): row["value"]
            for row in csv.DictReader(file)
            if row["source"] == "001_GARLIC"
        }
    return float(found[table, method, dataset, metric].rstrip("x").replace(",", ""))


def length(dataset: str, text: int | None) -> int:
    return text or int(printed("Table 6", "dataset statistics", dataset, "Average tokens"))


def tflops(tokens: int, convention: str) -> float:
    """TFLOPs of one pass over `tokens`, logits at the last one; the few tokens of the answer count
    as read."""
    event = Event(
        "reader", "m", "answer", "prefill", tokens, logits=1, pairs=tokens * (tokens + 1) // 2
    )
    return flops(event, LLAMA_8B, convention) / 1e12


def implied(convention: str) -> list[int]:
    """Tokens beside the text whose TFLOPs come nearest to the printed ones, a number for each of
    ROWS."""
    rows = [
        (length(dataset, text), printed("Table 1", method, dataset, "TFLOPs"))
        for method, dataset, text in ROWS
    ]
    more = [
        bisect_left(range(2000), spent, key=lambda n: tflops(text + n, convention))
        for text, spent in rows
    ]
    return [
        min((n - 1, n), key=lambda n: abs(tflops(text + n, convention) - spent))
        for n, (text, spent) in zip(more, rows, strict=True)
    ]


def ratios(convention: str) -> list[float]:
    """TFLOPs of each of ROWS over GARLIC's printed ones, with the median of `implied` beside each
    text."""
    common = round(median(implied(convention)))
    garlic = {dataset: printed("Table 1", "GARLIC", dataset, "TFLOPs") for _, dataset, _ in ROWS}
    return [
        tflops(length(dataset, text) + common, convention) / garlic[dataset]
        for _, dataset, text in ROWS
    ]


def worst(convention: str) -> float:
    """The largest distance of a ratio from the printed one, as a share of it."""
    pairs = zip(ratios(convention), ROWS, strict=True)
    return max(abs(ratio / printed("Table 1", m, d, "Ratio") - 1) for ratio, (m, d, _) in pairs)


def ratio_table() -> str:
    """The markdown table of the document."""
    head = ["row of table 1", "data set", "printed", *CONVENTIONS]
    found = {convention: ratios(convention) for convention in CONVENTIONS}
    rows = [
        [
            *(method, dataset, f"{printed('Table 1', method, dataset, 'Ratio'):.2f}x"),
            *(f"{found[convention][n]:.2f}x" for convention in CONVENTIONS),
        ]
        for n, (method, dataset, _) in enumerate(ROWS)
    ]
    common = ["tokens beside the text", "", "", *(f"{median(implied(c)):g}" for c in CONVENTIONS)]
    last = ["largest distance", "", "", *(f"{100 * worst(c):.1f} %" for c in CONVENTIONS)]
    table = [f"| {' | '.join(row)} |" for row in (head, *rows, common, last)]
    return "\n".join([table[0], "|" + "---|" * len(head), *table[1:]])


def test_all_params_gives_one_number_of_tokens_beside_every_text() -> None:
    found = {convention: implied(convention) for convention in CONVENTIONS}
    assert found[DEFAULT_CONVENTION] == [91, 93, 81, 81, 87, 92, 80]
    spread = {convention: max(values) - min(values) for convention, values in found.items()}
    assert spread == {"all-params": 13, "full": 167, "causal": 527, "executed": 765}


def test_the_document_has_the_table() -> None:
    assert ratio_table() in METHODS.read_text(encoding="utf-8"), (
        f"put this into {METHODS}:\n{ratio_table()}"
    )

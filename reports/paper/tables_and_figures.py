"""Every table and figure of the four papers, and RULER's main results: what runs, draws and lacks.

TableOrFigure("Table 1", paper="001_GARLIC", name="garlic-table1", ...)
├── suite "garlic-table1" on the real data, "pocket-garlic-table1" on the made-up world
├── values    its rows in paper_results.csv, measured or with a reason why they are not
└── draws     commands that draw it from the suite's runs
"""

import csv
import io
from functools import cache
from importlib import resources

import yaml
from pydantic import BaseModel, ConfigDict

from harness.config import presets
from harness.errors import UnknownName

MADE_UP = "pocket-"
PAPERS = {
    "000_PECAN": "PECAN",
    "001_GARLIC": "GARLIC",
    "002_LongRefiner": "LongRefiner",
    "003_QRMeM": "QRMeM",
    "004_RULER": "RULER",
}
EMPTY = "the paper prints nothing here"

_REASON_BY_METRIC_OR_METHOD = {  # metric or method of a printed value -> why it is not compared
    "Ratio": "follows from the TFLOPs",
    "Tokens": "the tokenizer of these counts is not named; ours are the column tokens of harness report",
    "Latency": "the unit is not printed",
    "Llama3.1-8B": "a copy of a row of table 1",
    **dict.fromkeys(
        ("Average tokens", "Min tokens", "Max tokens"),
        "a length of documents: harness report tokens prints ours",
    ),
    "average number of nodes": "harness report nodes prints ours",
    "confidence threshold t_p": "a setting: method.t_p of pecan on each data set",
    "Top-X used by BM25/SBERT/Dragon": "a setting: method.k of bm25-topx on each data set",
    "Top-X used by RAPTOR-CT": "a setting: method.top_k of raptor-ct-topx on each data set",
}
_REASON_OF_REMARKS = "a remark of the text, no measurement of a method"


class TableOrFigure(BaseModel):
    """A table or figure. The fields are explained at the head of tables_and_figures.yaml."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    place: str
    paper: str
    title: str
    name: str | None = None
    values: str | None = None
    like: str | None = None
    draws: tuple[str, ...] = ()
    look: str | None = None
    drawing: bool = False
    lacks: tuple[str, ...] = ()
    note: str | None = None
    real: str = "yes"

    @property
    def label(self) -> str:
        """The paper and the place in it: "GARLIC, Table 1"."""
        return f"{PAPERS[self.paper]}, {self.place}"

    def has_row(self, source: str, table: str) -> bool:
        """Whether a row of paper_results.csv is of this table or figure.

        Args:
            source: The paper that the row names.
            table: The table that it names: "Table 1" and "Table 1 (left)" are of table 1, "Table 12"
                is not.
        """
        start_of_name = self.values or self.place
        if source != self.paper or not table.startswith(start_of_name):
            return False
        rest_of_name = table[len(start_of_name) :]
        return not rest_of_name[:1].isdigit()


@cache
def tables_and_figures() -> tuple[TableOrFigure, ...]:
    """All tables and figures of tables_and_figures.yaml, in the order of the papers."""
    file = resources.files("reports.paper").joinpath("tables_and_figures.yaml")
    rows = yaml.safe_load(file.read_text(encoding="utf-8"))
    return tuple(map(TableOrFigure.model_validate, rows))


def find_table_or_figure(name: str) -> tuple[TableOrFigure, str]:
    """The table or figure that `harness reproduce NAME` means, and its suite.

        "GARLIC-table1"             -> the table, "garlic-table1"
        "pocket-garlic-table1"      -> the same table, "pocket-garlic-table1"

    Raises:
        UnknownName: There is no such table or figure.
    """
    item_by_name = {item.name: item for item in tables_and_figures() if item.name}
    # names are compared without regard to case and separators
    name_by_comparable_name = {}
    for known_name in item_by_name:
        name_by_comparable_name[presets.comparable_name(known_name)] = known_name
    comparable_name = presets.comparable_name(name)
    found_name = name_by_comparable_name.get(comparable_name.removeprefix(MADE_UP))
    if found_name is None:
        made_up_suites = [MADE_UP + known_name for known_name in item_by_name]
        suites = [*item_by_name, *made_up_suites]
        raise UnknownName("table or figure", name, suites, "harness reproduce --list")
    suite = found_name
    if comparable_name.startswith(MADE_UP):
        suite = f"{MADE_UP}{found_name}"
    return item_by_name[found_name], suite


class Printed(BaseModel):
    """A row of paper_results.csv, and its line there."""

    source: str
    table: str
    method: str
    dataset: str
    metric: str
    value: str
    line: int

    @property
    def reason(self) -> str:
        """Why the value is not compared, where mapping.yaml does not map it."""
        if self.value.strip() == "-":
            return EMPTY
        return (
            _REASON_BY_METRIC_OR_METHOD.get(self.metric)
            or _REASON_BY_METRIC_OR_METHOD.get(self.method)
            or _REASON_OF_REMARKS
        )


@cache
def printed() -> tuple[Printed, ...]:
    """All rows of paper_results.csv."""
    file = resources.files("reports.paper").joinpath("paper_results.csv")
    return parse_printed(file.read_text(encoding="utf-8"))


def parse_printed(text: str) -> tuple[Printed, ...]:
    """The rows of a text in the form of paper_results.csv, with their line numbers."""
    reader = csv.DictReader(io.StringIO(text))
    return tuple(Printed.model_validate({**row, "line": reader.line_num}) for row in reader)

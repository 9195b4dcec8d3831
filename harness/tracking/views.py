"""What an experiment's page in MLflow shows first: its saved view "Comparison", and a guide as its description."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

VIEW = "harness"  # the name of the saved view in its address
_SECTION = "harness-comparison"


def address(experiment: str) -> str:
    """The comparison of an experiment's runs, as the part of MLflow's address behind the server."""
    return f"#/experiments/{experiment}/runs?viewStateShareKey={VIEW}&workflowType=machine_learning"


def saved_view(columns: Sequence[str], created: int) -> str:
    """A view for the menu Views of an experiment's page, in the form of MLflow 3's own "Save as new view".

    columns: the metrics of the list, the first one decides its order; created: milliseconds. The runs stand in a list
    without parents; the charts begin with the first column against TFLOPs and a bar chart for each score and cost.
    """
    shown = [f"metrics.`{column}`" for column in columns] + ["tags.`model`", "tags.`hash8`", "tags.`suite`"]
    state = {
        "selectedColumns": shown,
        "columnOrder": shown,
        "orderByKey": f"metrics.`{columns[0]}`",
        "orderByAsc": False,
        "searchFilter": "tags.method != ''",
        "compareRunSections": [{"uuid": _SECTION, "name": "Comparison", "display": True, "isReordered": False}],
        "compareRunCharts": [
            _chart("SCATTER", 0, xaxis=_axis("TFLOPs"), yaxis=_axis(columns[0])),
            *(
                _chart("BAR", n, metricKey=column)
                for n, column in enumerate(columns, start=1)
                if column not in ("n", "failed")
            ),
        ],
    }
    return json.dumps({"name": "Comparison", "createdAt": created, "updatedAt": created, "state": json.dumps(state)})


def _chart(kind: str, number: int, **more: Any) -> dict[str, Any]:
    fixed = {"uuid": f"{_SECTION}-{number}", "metricSectionId": _SECTION, "deleted": False, "isGenerated": False}
    return {"type": kind, **fixed, **more}


def _axis(metric: str) -> dict[str, str]:
    return {"key": metric, "type": "METRIC"}


def guide(name: str, experiment: str) -> str:
    """The description of an experiment, in markdown."""
    return (
        f"Methods on **{name}**: **[open the comparison]({address(experiment)})**, or choose Comparison in the menu "
        "Views. All runs are then in one list, best score first; otherwise the runs of a suite hang below its parent "
        "run.\n\n"
        "Scores have the scorers' names and are percent. TFLOPs: search + answer a question. A step is a number of "
        "questions: lines show the mean so far. uncertainty/: 95 % intervals. usage/: tokens, TFLOPs, seconds. "
        "suite/: of a parent run.\n\n"
        "Traces: a question each, its scores as assessments, its gold answers as expectations; filter them by run. "
        "Times within a trace are estimates: the phases' own seconds, shared among the steps by FLOPs.\n\n"
        "Filters: `tags.method = 'pecan'`, `tags.model`, `tags.suite`, `tags.profile`, `tags.hash8`, "
        "`tags.git_commit`, `tags.git_dirty = 'false'`, `tags.embedded = 'false'`, `tags.state = 'finished'`.\n"
    )

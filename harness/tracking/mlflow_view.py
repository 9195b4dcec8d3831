"""What the page of an MLflow experiment shows first: the saved view "Comparison" and a guide."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

VIEW = "harness"
"""The name of the saved view in its address."""
_SECTION = "harness-comparison"
_MADE_WITH = "tags.`made_with`"
VIEW_TAG = f"mlflow.sharedViewState.{VIEW}"
"""The tag of an experiment that holds the view."""


def view_url(experiment: str) -> str:
    """The address, after the server's, of the page that compares the
    runs of an experiment (its id).
    """
    return f"#/experiments/{experiment}/runs?viewStateShareKey={VIEW}&workflowType=machine_learning"


def saved_view(columns: Sequence[str], settings: Iterable[str], created: int) -> str:
    """Make the saved view "Comparison" of an experiment's page, as the JSON that MLflow stores.

    It has the form of MLflow 3's own "Save as new view". The runs stand in a list without parents;
    the charts begin with the first column against TFLOPs and a bar chart for each score and cost.

    Args:
        columns: The metrics of the list; the first one decides its order.
        settings: The params beside them.
        created: Milliseconds since 1970.
    """
    shown = list(map(_metric, columns))
    shown += map(_param, settings)
    shown += ["tags.`model`", "tags.`hash8`", _MADE_WITH, "tags.`suite`"]
    state = {
        "selectedColumns": shown,
        "columnOrder": shown,
        "orderByKey": _metric(columns[0]),
        "orderByAsc": False,
        "searchFilter": "tags.method != ''",
        "compareRunSections": [
            {"uuid": _SECTION, "name": "Comparison", "display": True, "isReordered": False}
        ],
        "compareRunCharts": _charts(columns),
    }
    view = {
        "name": "Comparison",
        "createdAt": created,
        "updatedAt": created,
        "state": json.dumps(state),
    }
    return json.dumps(view)


def _metric(name: str) -> str:
    """The column of a metric as MLflow names it: "TFLOPs" -> "metrics.`TFLOPs`"."""
    return f"metrics.`{name}`"


def _param(name: str) -> str:
    """The column of a param as MLflow names it: "method.k" -> "params.`method.k`"."""
    return f"params.`{name}`"


def _charts(columns: Sequence[str]) -> list[dict[str, object]]:
    """The charts of the view: the first column against TFLOPs, then a bar
    chart for each score and cost.
    """
    axes = {
        "xaxis": {"key": "TFLOPs", "type": "METRIC"},
        "yaxis": {"key": columns[0], "type": "METRIC"},
    }
    scores_and_costs = [column for column in columns if column not in ("n", "failed")]
    kinds: list[dict[str, object]] = [{"type": "SCATTER", **axes}]
    kinds += [{"type": "BAR", "metricKey": column} for column in scores_and_costs]
    charts: list[dict[str, object]] = []
    for number, kind in enumerate(kinds):
        about: dict[str, object] = {
            "uuid": f"{_SECTION}-{number}",
            "metricSectionId": _SECTION,
            "deleted": False,
            "isGenerated": False,
        }
        charts.append(about | kind)
    return charts


def experiment_guide(name: str, experiment: str) -> str:
    """The description of an experiment in Markdown.

    Args:
        name: The data set.
        experiment: MLflow's id of the experiment, for the link.
    """
    return (
        f"Methods on **{name}**: **[open the comparison]({view_url(experiment)})**, or choose "
        "Comparison in the menu "
        "Views. All runs are then in one list, best score first; otherwise the runs of a suite "
        "hang below its parent "
        "run.\n\n"
        "Scores have the scorers' names and are percent. TFLOPs: a question with its share of the "
        "index. A step is a "
        "number of questions: lines show the mean so far. uncertainty/: 95 % intervals. usage/: "
        "tokens, TFLOPs, "
        "seconds.\n\n"
        "Traces: a question each, its scores as assessments, its gold answers as expectations; "
        "filter them by run. "
        "Times within a trace are estimates: the phases' own seconds, shared among the steps by "
        "FLOPs.\n\n"
        "Filters: `tags.method = 'pecan'`, `tags.model`, `tags.suite`, `tags.profile`, "
        "`tags.hash8`, "
        "`tags.git_commit`, `tags.git_dirty = 'false'`, `tags.embedded = 'false'`, `tags.state = "
        "'finished'`.\n"
    )


def with_settings(view: str, settings: Iterable[str]) -> str:
    r"""Add columns for settings to a saved view of MLflow's list of runs.

    MLflow stores a view as JSON, its table as JSON in the key "state" of it:

        {"state": "{\"selectedColumns\": [...], \"columnOrder\": [...], ...}", ...}

    Args:
        view: The view as MLflow stores it.
        settings: The names of params to show.
    """
    stored_view = json.loads(view)
    table = json.loads(stored_view["state"])
    columns = [*map(_param, settings), _MADE_WITH]
    for key in ("selectedColumns", "columnOrder"):
        with_new = [*table[key], *columns]
        table[key] = list(dict.fromkeys(with_new))
    stored_view["state"] = json.dumps(table)
    return json.dumps(stored_view)

"""Weights & Biases, filled from run folders as MLflow is: `wandb:PROJECT` is an address like that
of an MLflow store.

    log_run(run, "wandb:qa")  config: short settings by their names for --set · history: means over 1, 2, ... questions
                              summary: the numbers of the tables · group: the suite, else the data
                              set

Where it logs to, and as whom, W&B reads from WANDB_MODE, WANDB_API_KEY, WANDB_BASE_URL and its own
files; those of runs are in wandb/ of the results folder. No text, code or path is sent. A run is
logged once it ends: one that goes on later is the same run of W&B, which then keeps the points it
has.
"""

import hashlib
import importlib.util
import os
from typing import Any

from harness.errors import UnknownName
from harness.storage.run_folder import StoredRun
from harness.tracking.metrics import final_metrics, params, run_state, run_tags, running_points

SCHEME, PROJECT = "wandb:", "longdoc-harness"
_TAGS = ("method", "model", "dataset", "profile")
# Nothing but what `log` names is sent: no output of the process, no code, no facts of the machine.
_DISABLED = (
    "disable_git",
    "disable_code",
    "x_disable_stats",
    "x_disable_meta",
    "x_disable_machine_info",
)
_SETTINGS: dict[str, Any] = {**dict.fromkeys(_DISABLED, True), "x_save_requirements": False}
_SETTINGS |= {"console": "off", "silent": True, "init_timeout": 30}


def address(tracker: str) -> str:
    """The address "wandb:PROJECT" of --track wandb or wandb:PROJECT. Raises UnknownName for another
    tracker."""
    name, _, project = tracker.partition(":")
    if name != "wandb":
        raise UnknownName("tracker", name, ["wandb"], "MLflow has --mlflow")
    return f"{SCHEME}{project}"


def install_problem() -> list[str]:
    """[A sentence] if W&B is not installed, else []."""
    installed = importlib.util.find_spec("wandb") is not None
    return (
        []
        if installed
        else ["W&B is not installed; install it with: pip install 'longdoc-harness[wandb]'"]
    )


def log_run(run: StoredRun, uri: str, suite: str | None = None) -> None:
    """Log a run that has ended to W&B. uri: wandb:PROJECT; suite: its group. Raises W&B's errors
    and OSError."""
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # read when it is imported
    import wandb

    from reports.facts import suite as suite_of

    config = run.config
    group = suite or suite_of(run)
    tags = run_tags(run, group)
    place = (
        run.manifest.get("id")
        or f"{config['dataset']['name']}/{run.path.name}/{run.manifest.get('started')}"
    )
    logged = wandb.init(
        project=uri.removeprefix(SCHEME) or PROJECT,
        id=hashlib.sha256(place.encode()).hexdigest()[:16],
        resume=None if os.environ.get("WANDB_MODE") == "offline" else "allow",
        name=run.path.name,
        group=group or config["dataset"]["name"],
        job_type=config["dataset"]["name"],
        tags=[tags[name][:64] for name in _TAGS if name in tags],
        config=params(config, run.manifest.get("models") or {})[0]
        | {"seed": config["seed"], "state": run_state(run)},
        dir=str(run.path.parent.parent),
        settings=wandb.Settings(**_SETTINGS),
    )
    steps: dict[int, dict[str, float]] = {}
    for step, name, value in running_points(run):
        steps.setdefault(step, {})[name] = value
    for step, values in steps.items():
        logged.log(values, step=step)
    if run.records:
        from reports.main_table import frame

        logged.summary.update(final_metrics(run, frame([run])))
    logged.finish(exit_code=0 if run_state(run) == "finished" else 1)

"""Weights & Biases, filled from run folders as MLflow is: `wandb:PROJECT` is an address like that
of an MLflow store.

    log_run(run, "wandb:qa")  config: short settings by their names for --set · history: means over 1, 2, ... questions
                              summary: the numbers of the tables · group: the suite, else the data set

Where it logs to, and as whom, W&B reads from WANDB_MODE, WANDB_API_KEY, WANDB_BASE_URL and its own
files; those of runs are in wandb/ of the results folder. No text, code or path is sent. A run is
logged once it ends: one that goes on later is the same run of W&B, which then keeps the points it
has.
"""

import hashlib
import os
from typing import Literal

from harness.storage.run_folder import StoredRun
from harness.tracking.metrics import final_metrics, run_params, run_state, run_tags, running_points
from harness.tracking.wandb_address import PROJECT, SCHEME
from reports.facts import suite_name as suite_of
from reports.main_table import frame

_TAGS = ("method", "model", "dataset", "profile")
# Nothing but what `log` names is sent: no output of the process, no code, no facts of the machine.
_SETTINGS: dict[str, bool | str | int] = {
    "disable_git": True,
    "disable_code": True,
    "x_disable_stats": True,
    "x_disable_meta": True,
    "x_disable_machine_info": True,
    "x_save_requirements": False,
    "console": "off",
    "silent": True,
    "init_timeout": 30,
}


def log_run(run: StoredRun, uri: str, suite: str | None = None) -> None:
    """Log a run that has ended to W&B: its settings, running means and final metrics. Logging it
    again goes on in the same W&B run, but not offline, where there is none to go on in.

    Args:
        run: The run.
        uri: "wandb:PROJECT"; "wandb:" for the default project.
        suite: The name of its group there; by default the suite that the run's own command named.

    Raises:
        wandb.errors.Error: W&B refuses it.
        OSError: Its files cannot be written.
    """
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # read when it is imported
    import wandb

    config = run.config
    group = suite or suite_of(run)
    tags = run_tags(run, group)
    resume_mode: Literal["allow"] | None = "allow"
    if os.environ.get("WANDB_MODE") == "offline":
        resume_mode = None
    settings: dict[str, object] = {**run_params(config, run.manifest.models).texts}
    settings["seed"] = config.seed
    settings["state"] = run_state(run)
    wandb_run = wandb.init(
        project=uri.removeprefix(SCHEME) or PROJECT,
        id=_wandb_id(run),
        resume=resume_mode,
        name=run.path.name,
        group=group or config.dataset.name,
        job_type=config.dataset.name,
        tags=[tags[name][:64] for name in _TAGS if name in tags],  # W&B refuses longer ones
        config=settings,
        dir=str(run.path.parent.parent),
        settings=wandb.Settings(**_SETTINGS),
    )
    for step, values in _points_by_step(run).items():
        wandb_run.log(values, step=step)
    if run.records:
        wandb_run.summary.update(final_metrics(run, frame([run])))
    exit_code = 1
    if run_state(run) == "finished":
        exit_code = 0
    wandb_run.finish(exit_code=exit_code)


def _wandb_id(run: StoredRun) -> str:
    """The id of the run in W&B: 16 hexadecimal digits, the same each time that it is logged."""
    started = run.manifest.started
    place = f"{run.config.dataset.name}/{run.path.name}/{started}"
    return hashlib.sha256((run.manifest.id or place).encode()).hexdigest()[:16]


def _points_by_step(run: StoredRun) -> dict[int, dict[str, float]]:
    """The running means by their step: {1: {"qa-f1": 100.0, "failed": 0.0}, 2: {...}}."""
    steps: dict[int, dict[str, float]] = {}
    for point in running_points(run):
        steps.setdefault(point.step, {})[point.name] = point.value
    return steps

"""Slurm without accounting: the states of tasks come from squeue."""

from harness.scale.slurm_engine import _watch_squeue

SHOWN = "JOBID|STATE|NODELIST\n10_0|FAILED|n1\n10_1|RUNNING|n1\n11|PENDING|\n"


def test_states_come_from_the_queue(monkeypatch):
    monkeypatch.setenv("SUBMITIT_LOG_LEVEL", "NOCONFIG")
    from submitit.slurm.slurm import SlurmJob

    monkeypatch.setattr(SlurmJob, "watcher", SlurmJob.watcher)
    _watch_squeue()
    watcher, asked = SlurmJob.watcher, []

    def answer(command, **_):
        asked.append(command)
        return SHOWN.encode()

    monkeypatch.setattr("submitit.core.core.subprocess.check_output", answer)
    for job in ("10_0", "10_1", "11"):
        watcher.register_job(job)
    assert [watcher.is_done(job) for job in ("10_0", "10_1", "11")] == [True, False, False]
    assert asked[0][0] == "squeue"
    assert asked[0][-1] == "10,11"

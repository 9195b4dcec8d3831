"""What a cluster lacks is said in one sentence, before anything runs; Ray is made up here."""

import pytest

from harness.errors import UserError
from harness.scale.ray_engine import _check_same, _worker_count
from harness.scale.worker import versions


class FakeRay:
    def __init__(self, **has):
        self.has = has

    def cluster_resources(self):
        return self.has


@pytest.mark.parametrize(
    ("has", "workers", "gpus", "expected"),
    [
        ({"CPU": 8.0}, None, 0, 8),
        ({"CPU": 8.0}, 3, 0, 3),
        ({"CPU": 8.0, "GPU": 2.0}, None, 1, 2),
        ({"CPU": 8.0, "GPU": 2.0}, None, 0.5, 4),
        ({"CPU": 8.0, "GPU": 2.0}, 3, 1, "3 workers with 1 GPUs each need 3 GPUs, and the cluster has 2"),
        ({"CPU": 8.0}, None, 1, "the cluster has 0; lower --workers or --gpus-per-worker"),
        ({"CPU": 2.0}, 4, 0, "4 workers need 4 CPUs, and the cluster has 2"),
    ],
)
def test_workers_that_fit(has, workers, gpus, expected):
    if isinstance(expected, int):
        assert _worker_count(FakeRay(**has), workers, gpus) == expected
    else:
        with pytest.raises(UserError, match=expected):
            _worker_count(FakeRay(**has), workers, gpus)


def test_a_worker_must_have_the_same_versions():
    hello = {"host": "gpu7", "pid": 1, "versions": versions(), "problem": ""}
    _check_same(hello)
    with pytest.raises(UserError, match=r"gpu7 has other versions: numpy 1\.0 there, .* here; install the same"):
        _check_same({**hello, "versions": {**versions(), "numpy": "1.0"}})
    with pytest.raises(UserError, match="gpu7 cannot work: no folder"):
        _check_same({**hello, "problem": "no folder"})

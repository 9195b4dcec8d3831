"""`python -m bench.gpu` where there is no GPU: every row runs, so that a machine with one is not
the first to try."""

from bench import gpu
from bench.parallel import Bench


def test_every_row_runs_without_a_gpu(tmp_path, monkeypatch, capsys) -> None:
    sizes = ["--in-flight", "2", "--tokens", "300", "--repeats", "1", "--peak", "1"]
    searched: list[int] = []

    def seconds(
        self: Bench, method: str, model: str, places: int, *more: object, **sets: object
    ) -> float:
        searched.append(places)  # real searches would take longer than all other rows
        return 1.0

    monkeypatch.setattr(Bench, "seconds", seconds)
    monkeypatch.setattr(gpu.time_construction, "__defaults__", (1,))  # replies a document
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("sys.argv", ["gpu", str(tmp_path / "model"), "--shape", "tiny", *sizes])
    gpu.main()
    out = capsys.readouterr().out
    assert searched == [2, 1, 2]
    assert [line.split(":")[0] for line in out.splitlines()[1:]] == [
        "append 512 to 300",
        "append 512 to 300",
        "1 contexts write 64 tokens",
        "2 contexts write 64 tokens",
        "reading 300 tokens",
        "a context of 300 tokens and 16 written",
        "construction, seconds a document",
        "    the card was busy 0% of the time (>= 70 %)",
        "search (pecan), seconds a question",
        "    the card was busy 0% of the time (>= 70 %)",
        "    probes a question",
    ]

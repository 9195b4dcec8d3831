"""QRMeM behind a server: a memory that breaks half-way is gone on with, nothing that was understood
is asked again."""

import json
from collections import Counter
from collections.abc import Callable

from harness.storage.run_files import DOCUMENTS
from tests.cli.conftest import Ended
from tests.llm.endpoints import content, records, words
from tests.llm.loopback import Loopback, completion

Run = Callable[..., Ended]
BUILD = (
    "Summarise",
    "Find the key entities",
    "Describe how entities",
    "Look for what is missing",
    "Two parts",
)


def reply_to(body):
    """A model that lists nothing, and answers at once."""
    asked = content(body)
    if "Read the text and answer" in asked:
        return completion("Reasoning: it says so.\nAction: -2\nAnswer: Abel")
    return completion(f"text {sum(map(ord, asked)) % 9973}" if "Summarise" in asked else "none")


def construction(server):
    return [text for body in server.asked if any(head in (text := content(body)) for head in BUILD)]


def to_the_model(usage):
    return int(usage["requests"] - usage["encoder_requests"])


def test_a_memory_that_breaks_is_gone_on_with(here):
    sets, method = "dataset.tokens=500", "qrmem"
    with Loopback([reply_to]) as server:
        clean = here(*words(server, sets, "--out", "clean", method=method, limit=2)).checked()
        whole = construction(server)
    assert set(Counter(whole).values()) == {1}, "no request of a memory is made twice"
    assert sum(to_the_model(d["usage"]["index"]) for d in records(clean, DOCUMENTS)) == len(whole)
    assert [d["usage"]["index"]["retries"] for d in records(clean, DOCUMENTS)] == [0, 0]
    breaks = whole[len(whole) // 4]  # in the middle of the first question's memory
    # Another home, so that nothing is cached.
    with Loopback([lambda body: "500" if content(body) == breaks else reply_to(body)]) as server:
        hurt = here(*words(server, sets, "model.revision=b", method=method, limit=2))
        first = construction(server)
    assert hurt.returncode == 3, hurt.stderr
    assert [r["error"] and r["error"]["type"] for r in records(hurt)] == ["RequestFailed", None]
    assert first.count(breaks) == 2
    (failed,) = [d for d in records(hurt, DOCUMENTS) if d["status"] == "failed"]
    assert failed["usage"]["index"]["retries"] == 1
    with Loopback([reply_to]) as server:
        healed = here(
            *words(server, sets, "model.revision=b", "--retry-failed", method=method, limit=2)
        )
        second = construction(server)
    assert healed.returncode == 0, healed.stderr
    understood = [text for text in first if text != breaks]
    assert sorted(understood + second) == sorted(whole), (
        "what was understood is not asked again, and all the rest is"
    )
    assert [r["prediction"] for r in records(healed)] == [r["prediction"] for r in records(clean)]
    assert [r["scores"] for r in records(healed)] == [r["scores"] for r in records(clean)]


def test_every_navigation_reads_the_memory_that_is_there(here):
    sets = "dataset.tokens=300"
    with Loopback([reply_to]) as server:
        here(*words(server, sets, "--parallel", "3", method="qrmem", limit=3)).checked()
        built = construction(server)
        assert set(Counter(built).values()) == {1}
        others = (
            "qrmem-entity-trial,qrmem-graph-expansion,qrmem-no-reflection,qrmem-no-navigation,qrmem"
        )
        again = here(*words(server, sets, "--out", "again", method=others, limit=3)).checked()
        assert construction(server) == built
    rows = [json.loads(line) for line in again.stdout.splitlines()]
    assert [(r["summary"]["index"]["built"], r["summary"]["index"]["hit"]) for r in rows] == [
        (0, 3)
    ] * 5
    # A memory that is found still knows what it took.
    costs = {to_the_model(r["summary"]["index"]["usage"]["index"]) for r in rows}
    assert costs == {len(built)}


def test_a_reply_that_never_parses_is_asked_for_four_times_more_each_time_by_another_draw(here):
    with Loopback([lambda _: completion("I would rather not.")]) as server:
        here(
            *words(server, "dataset.tokens=300", "method.retries=4", method="qrmem", limit=1)
        ).checked()
    asked = {}
    for body in server.asked:
        asked.setdefault(content(body), []).append(body)
    for text, bodies in asked.items():
        # All but a summary and an answer has a form, and is asked for until it has it.
        formed = "Read the text below" not in text and "Summarise" not in text
        assert [b["temperature"] for b in bodies] == (
            [0.0, 0.7, 0.7, 0.7, 0.7] if formed else [0.0]
        )
        assert len({b["seed"] for b in bodies}) == len(bodies), (
            "the same draw would give the same reply"
        )

"""Several servers as one model: who gets which question, one that dies, one that serves another
model."""

import json
import re
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from harness.llm import fleet
from harness.llm.endpoint import complete
from harness.llm.endpoint_http import RetryPolicy, Tries
from harness.llm.fleet import Fleet
from harness.storage.run_folder import read_run
from tests.llm.endpoints import BODY, KEY, QUICK, answer_to, content, last, records, words
from tests.llm.loopback import Loopback


class Mortal(Loopback):
    """Breaks off its reply to request number `ends_at`, and is gone then."""

    ends_at = 2

    def taken(self, body, headers):
        mood = super().taken(body, headers)
        if len(self.asked) < self.ends_at:
            return mood
        self.http.socket.close()  # refuses connections at once
        return "cut"


def slow(body):
    time.sleep(0.2)
    return answer_to(body)


def together(servers):
    return ",".join(server.url for server in servers)


def fleet_of(*servers, policy=QUICK, model="m"):
    return Fleet(together(servers), KEY, policy, "MY_KEY", model=model)


def same(row):
    return row["question_id"], row["prediction"], row["scores"], row["error"]


def test_four_servers_of_which_one_dies_and_one_is_slow_answer_each_question_once(here):
    questions = 20  # by chance of the ports, few of them may be the mortal server's own
    with Loopback([answer_to]) as server:
        alone = here(*words(server, limit=questions), "--out", "alone")
    with ExitStack() as stack:
        kinds = [
            Loopback([answer_to]),
            Loopback([answer_to]),
            Loopback([slow]),
            Mortal([answer_to]),
        ]
        servers = [stack.enter_context(server) for server in kinds]
        done = here(*words(together(servers), "--parallel", "8", limit=questions)).checked()
        dead = servers[-1]
        asked = [content(body) for server in servers for body in server.asked]
        lost = [content(body) for body in dead.asked[Mortal.ends_at - 1 :]]
    assert [same(row) for row in records(done)] == [same(row) for row in records(alone)]
    assert len(set(asked)) == questions
    assert len(asked) == questions + len(lost)  # nothing is sent twice but what the dead one lost
    assert f"{dead.url} went away" in done.stderr
    figures = re.findall(
        r"(http\S+): (\d+) requests, ([\d,]+) tokens, (\d+) failures, (\S+) s", done.stderr
    )
    assert [url for url, *_ in figures] == sorted(server.url for server in servers)
    assert sum(int(requests) for _, requests, *_ in figures) == questions
    failed = {url for url, _, _, failures, _ in figures if int(failures)}
    assert failed == {dead.url}
    (start,) = read_run(Path(last(done)["run"])).manifest.starts
    assert [figure.partition(": ")[0] for figure in start.served] == [url for url, *_ in figures]


def test_the_number_of_servers_is_not_part_of_the_run(here):
    with Loopback([answer_to]) as one, Loopback([answer_to]) as other:
        first = here(*words(one, limit=1)).checked()
        second = here(*words(together([other, one]), limit=4)).checked()
        assert len(one.asked) + len(other.asked) == 4
    assert last(first)["run"] == last(second)["run"]


def test_questions_of_a_document_go_to_one_server(here):
    with ExitStack() as stack:
        servers = [stack.enter_context(Loopback([answer_to])) for _ in range(4)]
        command = words(together(servers), method="full-context", limit=12)
        command[command.index("pocket/musique")] = "pocket/narrativeqa"
        command += ["--set", "dataset.tokens=300", "model.window=9000"]
        done = here(*command).checked()
        prompts = {server.url: {content(body) for body in server.asked} for server in servers}
    homes = {}
    for row in records(done):
        (document,) = row["document_ids"]
        home = [
            server for server, asked in prompts.items() if any(row["question"] in p for p in asked)
        ]
        homes.setdefault(document, set()).update(home)
    assert len(homes) > 1
    for document, home in homes.items():
        first = min(servers, key=lambda each: fleet._pair_hash(each.url, document))
        assert home == {first.url}, homes


@pytest.mark.parametrize("document", ["", "d"])
def test_a_server_gets_no_more_than_its_share_even_of_one_document(document):
    arrived = threading.Barrier(16)

    def held(body):
        arrived.wait(60)
        return answer_to(body)

    with Loopback([held]) as one, Loopback([held]) as other:
        servers = fleet_of(one, other, policy=RetryPolicy(timeout=60))
        ask = [threading.Thread(target=complete, args=(servers, BODY, Tries(document=document)))]
        ask += [threading.Thread(target=ask[0]._target, args=ask[0]._args) for _ in range(15)]
        for thread in ask:
            thread.start()
        for thread in ask:
            thread.join()
        most = 8 if not document else 10
        assert {len(one.asked), len(other.asked)} <= set(range(16 - most, most + 1))


def test_a_server_that_serves_another_model_is_refused(here):
    with Loopback(served=["some-chat"]) as one, Loopback(served=["another"]) as other:
        refused = here(*words(together([one, other]))).checked(2)
        assert one.asked == other.asked == []
    assert f"{other.url} does not serve 'some-chat' (it offers another)" in refused.stderr
    assert refused.stderr.count("error: ") == 1


def test_an_absent_server_is_said_and_the_others_go_on(here):
    with Loopback() as gone:
        pass
    with Loopback([answer_to]) as server:
        done = here(*words(together([server, gone]), limit=4)).checked()
        assert len(server.asked) == 4
    assert f"no server answers at {gone.url}" in done.stderr
    assert "the other servers go on" in done.stderr


@pytest.mark.parametrize(
    ("urls", "more", "message"),
    [
        ("http://a/v1,http://a/v1", [], "names a server twice"),
        ("http://a/v1,b", [], "is no address"),
        ("http://a/v1,http://b/v1", ["model.batch=true"], "batch files to one server"),
    ],
)
def test_addresses_that_cannot_be_a_fleet_are_refused(urls, more, message, here):
    refused = here(*words(urls, "--set", *more) if more else words(urls)).checked(2)
    assert message in refused.stderr


def test_a_request_that_one_server_fails_goes_to_another_at_once():
    patient = RetryPolicy(timeout=5, retries=1, first_wait=60, max_wait=60)
    with Loopback(["500"]) as ill, Loopback() as well:
        servers = fleet_of(ill, well, policy=patient)
        began = time.monotonic()
        for name in "abcdef":
            assert complete(servers, BODY, Tries(document=name)).text == "Paris"
        assert time.monotonic() - began < 20
        assert 0 < len(ill.asked) <= 3  # then it counts as away
        assert len(well.asked) == 6


@pytest.mark.parametrize("place", [0, 1])
def test_a_server_that_answers_again_gets_requests_again(monkeypatch, place):
    monkeypatch.setattr(fleet, "_FIRST_AWAY_SECONDS", 0.05)
    monkeypatch.setattr(fleet, "_LONGEST_AWAY_SECONDS", 0.05)
    notes = []
    with Loopback() as one, Loopback() as other:
        ill = sorted([one, other], key=lambda server: server.url)[place]
        ill.moods = ["500", "500", "500", "ok"]
        servers = fleet_of(one, other)
        servers.report_events_to(notes.append)
        end = time.monotonic() + 30
        while len(ill.asked) < 4 and time.monotonic() < end:
            assert complete(servers, BODY).text == "Paris"
    assert [note.partition(" (")[0] for note in notes] == [
        f"warning: {ill.url} went away",
        f"{ill.url} answers again",
    ]


def test_a_pause_that_one_server_asks_for_is_no_pause_of_the_others():
    with Loopback(["429;30", "ok"]) as closed, Loopback() as open_one:
        servers = fleet_of(closed, open_one)
        document = next(
            name
            for name in "abcdefghijkl"
            if min([closed.url, open_one.url], key=lambda url: fleet._pair_hash(url, name))
            == closed.url
        )
        began = time.monotonic()
        for _ in range(6):
            complete(servers, BODY, Tries(document=document))
        assert time.monotonic() - began < 10
        assert (len(closed.asked), len(open_one.asked)) == (1, 6)


def test_the_manifest_names_all_servers(here):
    with Loopback([answer_to]) as one, Loopback([answer_to]) as other:
        done = here(*words(together([one, other]), limit=1)).checked()
    manifest = json.loads((Path(last(done)["run"]) / "manifest.json").read_text())
    assert manifest["servers"] == {"reader": together([one, other])}

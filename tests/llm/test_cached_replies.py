"""Replies across runs: a request is sent once, its cost is booked each time, and whatever changes a
reply sends it again."""

from dataclasses import asdict, is_dataclass

import pytest
from transformers import DynamicCache

from harness.cost.meter import Meter
from harness.storage.reply_cache import ReplyCache


def talk(session):
    """Requests of every kind in one context."""
    session.user("The river town of Abel lies north.")
    first = session.write(6)
    session.user("Who founded the school?")
    probe = session.probe(["Yes", "No"])
    scores = session.score("Mira Tal")
    second = session.write(4, ("1902",))
    return [first, probe, scores, second, session.length()]


def ask(model, what, root, **changed):
    """What `what` gives, and the events that it costs, without their seconds."""
    meter = Meter()
    with model.session(meter, **{k: v for k, v in changed.items() if k == "adapter"}) as session:
        if root is not None:
            identity = changed.get("identity", model.identity)
            session.replies = ReplyCache(root, "tiny", identity, print)
        found = [asdict(one) if is_dataclass(one) else one for one in what(session)]
    return found, [
        {k: v for k, v in asdict(event).items() if k != "seconds"} for event in meter.events
    ]


def sent(events):
    return sum(event["requests"] - event["recalled"] for event in events)


def costs(events):
    return [{k: v for k, v in event.items() if k != "recalled"} for event in events]


def test_a_second_run_sends_nothing_and_costs_the_same(tiny, tmp_path, monkeypatch):
    plain, paid = ask(tiny, talk, None)
    first, cold = ask(tiny, talk, tmp_path)
    monkeypatch.setattr(tiny, "forward", lambda *_: pytest.fail("the model was run"))
    second, warm = ask(tiny, talk, tmp_path)
    assert first == second == plain
    assert costs(warm) == costs(cold) == costs(paid)
    assert (sent(cold), sent(warm)) == (4, 0)


def test_what_follows_kept_replies_is_as_without_them(tiny, tiny_pieces, tmp_path):
    def longer(session):
        found = talk(session)
        session.user("Given the above, where is the bridge?")
        found.append(session.write(5))
        with session.branch():
            session.user("Information")
            span = session.feed("north", watch=[found[0].span])
            found.append([round(value, 6) for value in span.attention])
        return [*found, session.length()]

    for model in (tiny, tiny_pieces):
        root = tmp_path / str(model.prefill_chunk)
        plain, paid = ask(model, longer, None)
        ask(model, talk, root)
        after, events = ask(model, longer, root)
        assert plain == after
        assert costs(events) == costs(paid)
        assert sent(events) == 1


def simple(text="Abel", most=4, **how):
    def found(session):
        session.user(text)
        return [session.write(most, **how)]

    return found


def probe(*labels):
    def found(session):
        session.user("Abel")
        return [session.probe(labels)]

    return found


WARM = {"temperature": 0.7, "top_p": 0.9, "seed": 3}


@pytest.mark.parametrize(
    ("before", "then"),
    [
        (simple(), simple("Abe")),
        (simple(), simple(most=5)),
        (simple(), simple(stop=("town",))),
        (simple(), simple(begin="The")),
        (simple(), simple(**WARM)),
        (simple(**WARM), simple(**{**WARM, "temperature": 0.8})),
        (simple(**WARM), simple(**{**WARM, "top_p": 0.8})),
        (simple(**WARM), simple(**{**WARM, "seed": 4})),
        (probe("Yes", "No"), probe("Yes", "Question")),
    ],
)
def test_another_request_is_sent(tiny, tmp_path, before, then):
    ask(tiny, before, tmp_path)
    assert sent(ask(tiny, before, tmp_path)[1]) == 0
    assert sent(ask(tiny, then, tmp_path)[1]) == 1


def test_what_changes_the_model_sends_again(tiny, tmp_path):
    ask(tiny, simple(), tmp_path)
    for part in tiny.identity:
        other = {**tiny.identity, part: "another"}
        assert sent(ask(tiny, simple(), tmp_path, identity=other)[1]) == 1, part
    assert {"weights", "template", "adapters", "tokenizer", "dtype"} <= tiny.identity.keys()
    assert sent(ask(tiny, simple(), tmp_path)[1]) == 0


def test_an_adapter_is_part_of_a_request(tiny):
    requests = []
    for adapter in (None, "one", "two"):
        session = tiny.session(Meter())
        session._adapter = adapter
        session.user("Abel")
        requests.append(str(session._request()))
    assert len(set(requests)) == 3


def watched(session):
    span = session.user("The river town")
    return [session.write(3, watch=[span]).text]


def plain(session):
    session.user("The river town of Abel lies north of the old bridge.")

    def generate(generation):
        cache = DynamicCache()
        row = generation.read(generation.ids, cache, 0)
        generation.write(row, cache, len(generation.ids))

    return [session.write_plain(generate, 3).text]


@pytest.mark.parametrize(
    "what", [simple(temperature=0.7), watched, plain], ids=["unseeded", "watched", "plain"]
)
def test_what_is_never_kept_is_sent_each_time(tiny, tmp_path, what):
    ask(tiny, what, tmp_path)
    assert sent(ask(tiny, what, tmp_path)[1]) == 1


def test_a_torn_reply_is_sent_again(tiny, tmp_path):
    first, _ = ask(tiny, simple(), tmp_path)
    (path,) = tmp_path.glob("replies/*/*/*.json")
    path.write_text(path.read_text()[:-20])
    again, events = ask(tiny, simple(), tmp_path)
    assert (again, sent(events)) == (first, 1)
    assert sent(ask(tiny, simple(), tmp_path)[1]) == 0

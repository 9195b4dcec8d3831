"""Bad moments of a server, one by one: what is asked again, what fails the question, what ends the
run."""

import json
import re
import threading
import time
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import CannotRun, RequestFailed
from harness.llm.endpoint import complete
from harness.llm.endpoint_http import RetryPolicy, Server, Tries, _retry_after_seconds
from harness.parallel.members import Stopped
from harness.parallel.scheduler import Scheduler
from tests.llm.endpoints import BODY, KEY, QUICK
from tests.llm.loopback import Loopback, completion


def server(url, policy=QUICK):
    return Server(url, KEY, policy, "MY_KEY")


@pytest.mark.parametrize(
    ("mood", "message"),
    [
        ("500", "status 500: mood 500"),
        ("429", "status 429"),
        ("408", "status 408"),
        ("hang", "nothing came back within 0.4 seconds"),
        ("drip", "the reply was not whole within 0.4 seconds"),
        ("cut", "the reply was cut off (ClientPayloadError)"),
        ("html", "the reply is text/html instead of application/json"),
        ("garbled", "is no JSON, so it was cut off or garbled"),
        *(
            (
                lambda body, word=word: completion("half", finish=word),
                "broke off with an error of the server",
            )
            for word in ("error", "abort", "network_error", "insufficient_system_resource")
        ),
        ("empty", "no choices, so it is no chat completion"),
    ],
)
def test_a_bad_moment_is_asked_again_and_one_that_lasts_fails_the_question_with_its_cause(
    mood, message
):
    with Loopback([mood, "ok"]) as loopback:
        tries = Tries()
        assert complete(server(loopback.url), BODY, tries).text == "Paris"
        assert loopback.asked == [BODY, BODY]
        assert tries.retries == 1
    with Loopback([mood]) as loopback:
        with pytest.raises(RequestFailed, match=re.escape(message)) as failed:
            complete(server(loopback.url), BODY)
        assert len(loopback.asked) == 3
        assert "in 3 tries" in str(failed.value)


@pytest.mark.parametrize(
    ("mood", "served", "error", "message"),
    [
        *(
            (mood, (), RequestFailed, f"refused the request: status {mood}: .*\\[key\\]")
            for mood in ("400", "418")
        ),
        ("429;3600", (), RequestFailed, "asks to wait 3600 seconds"),
        (
            f"says 400 the file of model '{BODY['model']}' was not found",
            (BODY["model"],),
            RequestFailed,
            "refused",
        ),
        ("says 400 longer than this model's window", (BODY["model"],), RequestFailed, "refused"),
        ("quota", (), CannotRun, "has no quota left for this key: You exceeded your current quota"),
        *(
            (f"says 429 {json.dumps(message)}", (), CannotRun, "has no quota left for this key")
            for message in (
                {"error": {"message": "Your account is not active.", "code": "billing_not_active"}},
                {"error": {"message": "suspended", "type": "exceeded_current_quota_error"}},
                {
                    "code": "exhausted",
                    "error": "Your team has used all available credits or its spending limit.",
                },
            )
        ),
        ("401", (), CannotRun, "check the key in MY_KEY"),
        ("403", (), CannotRun, "check the key in MY_KEY"),
        ("307", (), CannotRun, r"answers with a redirect \(307\)"),
        ("404", (), CannotRun, "correct model.base_url or model.source"),
        (
            "says 404 The model `m` does not exist.",
            ("a", "b"),
            CannotRun,
            "no model 'm' .*; it offers a, b; correct",
        ),
        ("says 400 model not found", ("a",), CannotRun, "; it offers a; correct"),
        ("says 400 m is not a valid model ID", (), CannotRun, r"valid model ID\); correct"),
        ("says 404 no", tuple("abcdefghijkl"), CannotRun, "i, j and 2 more; correct"),
        ("says 404 no", ("a\x1b[2J", 7, KEY), CannotRun, r"it offers \[key\]; correct"),
    ],
)
def test_what_fails_the_question_or_ends_the_run_is_asked_once(mood, served, error, message):
    with Loopback([mood, "ok"], served=served) as loopback:
        with pytest.raises(error, match=message) as failed:
            complete(server(loopback.url), BODY)
        assert len(loopback.asked) == 1
        assert KEY not in str(failed.value)


WHOLE = {**BODY, "max_tokens": 9, "temperature": 0.0, "seed": 0, "stop": ["\n"]}
NEW = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."


def refusing(*fields, words="Unsupported parameter: '{}' is not supported with this model."):
    """A server that takes no `fields`, and says so of the first one that is sent."""
    return lambda body: next(
        (f"says 400 {words.format(name)}" for name in fields if name in body), completion()
    )


@pytest.mark.parametrize(
    "words", [NEW, "max_tokens is deprecated", "use max_completion_tokens instead of max_tokens"]
)
def test_a_field_with_a_new_name_is_tried_once_and_remembered(words):
    with Loopback([refusing("max_tokens", words=words)]) as loopback:
        endpoint, tries = server(loopback.url, RetryPolicy(retries=0)), Tries()
        for _ in range(3):
            assert complete(endpoint, WHOLE, tries).text == "Paris"
    named = [
        {key: body.get(key) for key in ("max_tokens", "max_completion_tokens")}
        for body in loopback.asked
    ]
    new = {"max_tokens": None, "max_completion_tokens": 9}
    assert named == [{"max_tokens": 9, "max_completion_tokens": None}, new, new, new]
    assert tries.made == 4


MISTRAL = '{"detail": [{"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}]}'
PYDANTIC = '{"detail": [{"type": "literal_error", "loc": ["body", "effort"], "msg": "Input should be low or high"}]}'
NAMED = '{"error": {"message": "Only 1 is supported.", "param": "temperature", "code": "unsupported_value"}}'
CODED = '{"error": {"message": "Invalid request", "param": "seed", "code": "invalid_request"}}'


@pytest.mark.parametrize(
    ("mood", "asked", "setting"),
    [
        (refusing("temperature"), 1, "model.extra.temperature=null"),
        (refusing("seed"), 1, "model.extra.seed=null"),
        (refusing("max_tokens", "max_completion_tokens"), 2, "model.extra.max_tokens=null"),
        (
            refusing(
                "seed", words='Invalid JSON payload received. Unknown name "{}": Cannot find field.'
            ),
            1,
            "seed=null",
        ),
        ("says 422 " + MISTRAL, 1, "model.extra.seed=null"),
        ("says 400 " + NAMED, 1, "model.extra.temperature=null"),
        ("says 400 Unrecognized request argument supplied: seed", 1, "model.extra.seed=null"),
        ("says 422 " + PYDANTIC, 1, "model.extra.effort=null"),
        ("says 400 " + CODED, 1, "model.extra.seed=null"),
        (
            "says 400 invalid temperature: only 1 is allowed for this model",
            1,
            "model.extra.temperature=null",
        ),
        ("says 400 temperature, top_p and n are fixed at 1", 1, "model.extra.temperature=null"),
        ("says 400 The model doesn't support temperature.", 1, "model.extra.temperature=null"),
        ("says 400 seed isn't available here", 1, "model.extra.seed=null"),
        ("says 400 Unknown parameter: stop", 1, "model.extra.stop=null"),
    ],
)
def test_a_field_that_changes_answers_ends_the_run_with_the_setting_that_removes_it(
    mood, asked, setting
):
    with Loopback([mood]) as loopback:
        with pytest.raises(
            CannotRun,
            match=re.escape(f"leave it out: --set {setting}") if "." in setting else setting,
        ):
            complete(server(loopback.url), {**WHOLE, "effort": "least"})
        assert len(loopback.asked) == asked


# A message of pydantic that repeats the document.
ECHO = json.dumps(
    {"detail": [{"loc": ["body", "messages", 0, "content"], "msg": "the temperature is unknown"}]}
)


@pytest.mark.parametrize(
    "words",
    [
        (
            "This model's window is 512 tokens, and you asked for 600 (591 in the messages, 9 in "
            "max_tokens)."
        ),
        "max_tokens is too large: 9. This model supports at most 4 completion tokens.",
        "An unexpected error made us stop.",
        "Invalid argument: prompt (9000 tokens) + max_tokens (9) exceeds 8192",
        ECHO,
        (
            "Invalid 'max_tokens': integer above maximum value. Expected a value <= 4, but got 9 "
            "instead."
        ),
    ],
)
def test_a_request_that_is_too_long_or_unlucky_fails_alone(words):
    with Loopback([f"says 400 {words}"]) as loopback:
        with pytest.raises(RequestFailed, match="refused the request"):
            complete(server(loopback.url), WHOLE)
        assert len(loopback.asked) == 1  # not again with another name of max_tokens


def test_a_server_that_is_gone_is_a_bad_moment_and_no_server_at_the_start_is_an_error():
    with Loopback() as loopback:
        url = loopback.url
        server(url).check_alive()
    with pytest.raises(RequestFailed, match="nothing came back: .*refused"):
        complete(server(url), BODY)
    with pytest.raises(CannotRun, match=r"no server answers at http://127.0.0.1:\d+/v1"):
        server(url).check_alive()


@pytest.mark.parametrize(
    ("status", "fine"), [("ok", True), ("404", True), ("500", True), ("401", False)]
)
def test_a_server_without_a_list_of_models_is_alive_but_one_that_refuses_the_key_is_not_ours(
    status, fine
):
    with Loopback(models=status) as loopback:
        if fine:
            server(loopback.url).check_alive()
        else:
            with pytest.raises(CannotRun, match="refuses us"):
                server(loopback.url).check_alive()


def test_a_connection_is_kept_for_the_next_request():
    with Loopback(protocol="HTTP/1.1") as loopback:
        asked = server(loopback.url)
        for _ in range(3):
            complete(asked, BODY)
        assert (len(loopback.asked), len(loopback.connections)) == (3, 1)


@pytest.mark.parametrize(
    ("variable", "host", "asked"),
    [
        ("http_proxy", "model.example", True),
        ("all_proxy", "model.example", True),
        ("http_proxy", "127.0.0.1:9", False),
        ("http_proxy", "elsewhere.example", False),
    ],
)
def test_a_proxy_of_the_environment_is_used_but_not_to_this_machine(
    variable, host, asked, monkeypatch
):
    with Loopback() as proxy:
        monkeypatch.setenv(variable, proxy.url.removesuffix("/v1"))
        monkeypatch.setenv("no_proxy", "elsewhere.example")
        endpoint = server(f"http://{host}/v1", RetryPolicy(timeout=2, retries=0))
        if asked:
            assert complete(endpoint, BODY).text == "Paris"
        else:
            with pytest.raises(RequestFailed, match="nothing came back"):
                complete(endpoint, BODY)
        assert len(proxy.asked) == asked


def test_retry_after_holds_for_every_thread():
    with Loopback(["429;0.6", "ok"]) as loopback:
        shared = server(loopback.url)
        ended = []
        began = time.monotonic()
        threads = [
            threading.Thread(
                target=lambda: ended.append((complete(shared, BODY), time.monotonic())[1])
            )
        ]
        threads[0].start()
        while not loopback.asked:
            time.sleep(0.005)
        time.sleep(0.15)  # the 429 has been read by now
        threads.append(threading.Thread(target=threads[0]._target))
        threads[1].start()
        for thread in threads:
            thread.join()
        assert min(ended) - began >= 0.6
        assert len(loopback.asked) == 3  # the second thread was not refused as well


def test_retry_after_is_seconds_or_a_date():
    waits = {"2": 2.0, "0.5": 0.5, "-3": 0.0, "": None, "soon": None, "nan": None}
    assert {text: _retry_after_seconds(text) for text in waits} == waits
    found = _retry_after_seconds(formatdate(time.time() + 100, usegmt=True))
    assert 97 < found <= 100
    assert _retry_after_seconds(formatdate(time.time() - 100, usegmt=True)) == 0.0


@given(retry=st.integers(1, 10_000), draw=st.floats(0, 1, exclude_max=True))
def test_waits_double_up_to_a_cap_and_half_of_each_is_drawn(retry, draw):
    policy = RetryPolicy()
    whole = min(30.0, 0.5 * 2 ** min(retry - 1, 100))
    assert whole / 2 <= policy.wait_before(retry, draw) <= whole
    assert policy.wait_before(1, 0.0) == 0.25
    assert policy.wait_before(3, 0.5) == 1.5


def test_a_run_that_ends_does_not_wait_for_the_next_try():
    slow = RetryPolicy(timeout=1, retries=3, first_wait=60, max_wait=60)
    ended = []
    with Loopback(["500"]) as loopback:

        def work():
            try:
                complete(server(loopback.url, slow), BODY)
            except Stopped:
                ended.append("stopped")
                raise

        scheduler = Scheduler(1)
        scheduler.start_threads(work)
        while not loopback.asked:
            time.sleep(0.005)
        began = time.monotonic()
        scheduler.stop()
        scheduler.wait()
    assert ended == ["stopped"]
    assert time.monotonic() - began < 5

"""Faults of a server, each one request: it ends in time, in bounded memory, with a sane reply or a
project's error."""

import contextlib
import html
import itertools
import json
import math
import re
import socket
import struct
import threading
import time
from urllib.parse import unquote

import pytest

from harness.errors import CannotRun, RequestFailed
from harness.llm.endpoint import Reply, complete
from harness.llm.endpoint_http import RetryPolicy, Server, Tries, key_mask
from harness.llm.endpoint_info import is_loopback

RESET = "reset"  # among the pieces: close with RST instead of FIN
KEY = "sk-Very.Secret_0123-456789"
BODY = {
    "model": "m",
    "messages": [{"role": "user", "content": "Where is the town?"}],
    "max_tokens": 32,
}
TIMEOUT = 1.0  # a busy machine needs some of it
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
DEEP = 50_000


def reply(body, status="200 OK", *headers, kind="application/json"):
    """A whole HTTP response; what is not bytes or text is sent as JSON."""
    content = (
        body
        if isinstance(body, bytes)
        else (body if isinstance(body, str) else json.dumps(body)).encode()
    )
    head = [
        f"HTTP/1.1 {status}",
        f"Content-Type: {kind}",
        f"Content-Length: {len(content)}",
        *headers,
    ]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + content


def chat(content="Paris", usage=None, **choice):
    """A chat completion whose parts may be of any type."""
    found = {"choices": [{"message": {"content": content}, "finish_reason": "stop", **choice}]}
    return found if usage is None else {**found, "usage": usage}


class FaultyServer:
    """Answers every connection with `pieces()`, a pause of `pace` seconds before each, until its
    reader goes away."""

    def __init__(self, pieces, pace=0.0, accepts=True):
        self.pieces, self.pace, self.accepts = pieces, pace, accepts
        self.requests = []
        self.over = threading.Event()

    def __enter__(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=16 if self.accepts else 0)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}/v1"
        if self.accepts:
            threading.Thread(target=self._serve, daemon=True).start()
        else:  # these fill the queue, so that the next connection waits
            self.queued = [socket.socket() for _ in range(4)]
            for one in self.queued:
                one.setblocking(False)
                one.connect_ex(self.listener.getsockname())
        return self

    def __exit__(self, *_):
        self.over.set()
        self.listener.close()

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection):
        with connection, contextlib.suppress(OSError):
            self.requests.append(_request(connection))
            for piece in self.pieces():
                if self.over.wait(self.pace) if self.pace else self.over.is_set():
                    return
                if isinstance(piece, str):
                    connection.setsockopt(
                        socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                    )
                    return
                connection.sendall(piece)
            connection.shutdown(socket.SHUT_WR)


def _request(connection):
    """The whole request, so that closing does not reset the connection."""
    connection.settimeout(5)
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536) or b"\r\n\r\n"
    head, _, body = data.partition(b"\r\n\r\n")
    lengths = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-le")]
    length = sum(int(line.split(b":")[1]) for line in lengths)  # 0 where the connection was closed
    while len(body) < length:
        body += connection.recv(65536) or b" " * length
    return head + body


GOOD = json.dumps(chat()).encode()


def drip(start, endless):
    yield start
    yield from itertools.repeat(endless)


def asked(pieces, pace=0.0, accepts=True, timeout=TIMEOUT):
    """What comes of one request, after the checks that hold for every fault."""
    made = list(pieces) if isinstance(pieces, list) else pieces
    with FaultyServer(lambda: made, pace, accepts) as server:
        client = Server(server.url, KEY, RetryPolicy(timeout, retries=0), "MY_KEY")
        began, tries = time.monotonic(), Tries()
        try:
            found = complete(client, BODY, tries)
        except (RequestFailed, CannotRun) as error:
            found = error
        assert time.monotonic() - began < timeout + 1.2
        assert tries.made == 1
    assert not leaks(str(found) if isinstance(found, Exception) else found.text)
    assert len(str(found)) < 2_000 or isinstance(found, Reply)
    return found


def leaks(text):
    """Whether two thirds of the key can be read out of `text` by undoing escapes."""
    plain = re.sub(r"\\[nrt]|[\s\x00-\x1f\u200b]", "", text)
    plain = re.sub(r"\\+(?:u00|x)([0-9a-fA-F]{2})", lambda m: chr(int(m[1], 16)), plain)
    plain = html.unescape(unquote(unquote(plain))).replace("\\", "")
    return KEY.lower()[4 : 4 + 2 * len(KEY) // 3] in plain.lower()


SLOW = {
    "says nothing": (b"", b""),
    "the head drips": (HEAD, b"X"),
    "the body drips": (HEAD + b"Content-Length: 10000\r\n\r\n", b" "),
    **{
        f"the body of a {s} drips": (f"HTTP/1.1 {s} No\r\n\r\n".encode(), b"no ")
        for s in (302, 500)
    },
}


@pytest.mark.parametrize("fault", SLOW)
def test_a_slow_server_holds_a_try_no_longer_than_the_timeout(fault):
    assert isinstance(asked(drip(*SLOW[fault]), pace=0.02, timeout=0.3), (RequestFailed, CannotRun))


def test_a_server_that_never_accepts_holds_it_no_longer_either():
    found = asked([], accepts=False, timeout=0.3)
    assert "nothing came back within 0.3 seconds" in str(found)


BROKEN = {
    "half a character": [reply(chat("\ud800"))],
    "resets at once": [RESET],
    "no HTTP": [b"SSH-2.0-OpenSSH_9.6\r\n"],
    "fewer bytes than announced": [HEAD + b"Content-Length: 5000\r\n\r\n" + GOOD],
    "a chunk size that is no number": [CHUNKED + b"zz\r\n{}\r\n0\r\n\r\n"],
    "status 204": [reply("", "204 No Content")],
    "a gzip bomb as encoding": [reply(b"\x1f\x8b" + b"\0" * 999, "200 OK", "Content-Encoding: gzip")],
    "no body": [reply("")],
    "a list": [reply([])],
    "bytes that are no UTF-8": [reply(b'{"choices": "\xff\xfe"}')],
    "lists in lists": [reply("[" * DEEP + "]" * DEEP)],
    "a number of 5,000 digits": [reply('{"choices": ' + "9" * 5000 + "}")],
    "choices is an object": [reply({"choices": {"0": 1}})],
    "choices of null": [reply({"choices": [None]})],
    "a message that is a list": [reply({"choices": [{"message": []}]})],
    "a content that is a number": [reply(chat(5))],
    "a content that is a list": [reply(chat(["Paris"]))],
    "a tool call": [reply({"choices": [{"message": {"content": None, "tool_calls": [1]}}]})],
    "an error inside a 200": [reply({"error": f"key {KEY}"})],
    "20 MB for 32 tokens": [reply(chat("a" * 20_000_000))],
    "20 MB in chunks": [CHUNKED, *([b"100000\r\n" + b" " * 0x100000 + b"\r\n"] * 20)],
    "20 MB of an error": [reply("e" * 20_000_000, "500 No")],
    "an error of deep JSON": [reply("[" * DEEP, "400 No")],
    "a Retry-After of 1e999": [reply("", "429 No", "Retry-After: 1e999")],
    "a Retry-After in the year 9999": [reply("", "429 No", "Retry-After: Fri, 31 Dec 9999 23:59:59 -0000")],
    **{
        f"a log-probability of {p[:9]}": [
            reply(json.dumps(chat(logprobs={"content": [{"top_logprobs": [{"token": "a", "logprob": 0}]}]}))
                  .replace('"logprob": 0', f'"logprob": {p}'))
        ]
        for p in ("NaN", "1e999", "7.5")
    },
}  # fmt: skip


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_reply_is_refused_with_a_sentence(fault):
    found = asked(BROKEN[fault])
    assert isinstance(found, (RequestFailed, CannotRun)), found
    assert "\n" not in str(found)


def test_a_reply_beyond_what_was_asked_for_is_cut_while_it_is_read():
    assert "the reply was cut at 1,081,344 bytes" in str(asked(BROKEN["20 MB for 32 tokens"]))


USAGE = {"prompt_tokens": 9, "completion_tokens": 1}
ODD = {
    "log-probabilities of text": chat(
        logprobs={"content": [{"top_logprobs": [{"token": "a", "logprob": "1"}]}]}
    ),
    "minus infinity": chat(
        logprobs={"content": [{"top_logprobs": [{"token": "a", "logprob": -math.inf}]}]}
    ),
    "logprobs is a list": chat(logprobs=[1, 2]),
    "an alternative that is null": chat(
        logprobs={"content": [{"top_logprobs": [None, {"token": 5, "logprob": 0}]}]}
    ),
    "no content": chat(None),
    "control characters": chat("\x1b]0;x\x07\0"),
    "a finish that is a list": chat(finish_reason=["stop"]),
    "usage is a list": chat(usage=[5]),
    "cached tokens without end": chat(
        usage={**USAGE, "prompt_tokens_details": {"cached_tokens": 10**9}}
    ),
    **{
        f"{key} of {str(value)[:9]}": chat(usage={key: value})
        for key in ("prompt_tokens", "completion_tokens")
        for value in (-5, 10**9, 5.5, math.nan, "7", True, [7])
    },
}


@pytest.mark.parametrize("fault", ODD)
def test_an_odd_reply_is_read_soberly(fault):
    found = asked([reply(ODD[fault])])
    assert isinstance(found, Reply), found
    assert found.tokens_in in (None, 9)
    assert found.tokens_out in (None, 1)
    assert found.tokens_cached == 0
    assert found.counts_refused == ("_tokens of" in fault)
    assert all(logprob < 1 for _, logprob in found.first_token)


@pytest.mark.parametrize("status", [301, 307])
def test_a_redirect_is_not_followed_and_takes_the_key_nowhere(status):
    with FaultyServer(lambda: [reply(chat())]) as other:
        found = asked([reply("", f"{status} Moved", f"Location: {other.url}")])
        assert isinstance(found, CannotRun)
        assert "redirect" in str(found)
        assert other.requests == []


@pytest.mark.parametrize("key", [KEY, KEY.lower()])
def test_an_echoed_key_is_masked_wherever_a_server_says_it(key):
    said = f"your key is {key}, dear"
    for place in (
        reply({"error": {"message": said}}, "400 No"),
        reply({"detail": [said]}, "500 No"),
        reply(said, "503 No", kind="text/plain"),
        reply({"error": said}, "404 No"),
        reply({"error": said}, "401 No"),
        reply(chat(), kind=f"text/{key}"),
    ):
        asked([place])
    found = asked([reply(chat(said))])
    assert isinstance(found, Reply)
    assert found.text == "your key is [key], dear"


def test_other_texts_are_left_alone():
    text = "The key to secret 0123 is very 456789."
    assert [key_mask(key)(text) for key in (KEY, None, "short", "not-needed")] == [text] * 4


def test_all_waits_of_a_run_have_a_limit():
    server = Server("http://127.0.0.1:9", None, RetryPolicy(max_asked_total=500))
    server.note_asked_wait(250)
    server.note_asked_wait(240)  # the same wait, said twice
    with pytest.raises(
        CannotRun, match="has asked to wait 550 seconds in this run, more than the 500 that"
    ):
        for _ in range(2):
            server._paused_until = 0.0  # it is over
            server.note_asked_wait(150)


@pytest.mark.parametrize(
    ("host", "own"), [("127.0.0.1", True), ("::1", True), ("127.evil.com", False), (None, False)]
)
def test_only_an_address_of_this_machine_is_one(host, own):
    assert is_loopback(host) is own

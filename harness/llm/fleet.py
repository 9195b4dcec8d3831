"""Several servers that serve one model: `model.base_url=URL1,URL2,...`.

    fleet = Fleet("http://a:8000/v1,http://b:8000/v1", ..., model="Qwen/Qwen3-8B")
    fleet.check_alive()                       which of them answer, and whether all serve the model
    fleet.post(..., Tries(document="d"))      as Server.post; each try goes to one of them

| request                        | goes to                                                           |
|--------------------------------|-------------------------------------------------------------------|
| of a question about a document | the first server in the document's own order (rendezvous hashing) |
|                                | that has not a quarter more than its share: it has the prefix     |
| any other                      | the one that would end it first                                   |
| one that a server failed       | at once one that has not failed it; if there is none, as Server   |

A server's share of the requests in flight goes by the seconds that its replies take.
A server that went away (no connection, a reply cut off or too late, three failures in a row) gets
no requests until it lists its models again: it is asked after 10 seconds, then after twice as long
each time.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from harness.errors import CannotRun
from harness.llm.endpoint_http import Received, Retryable, Server, ServerCall, Tries
from harness.llm.endpoint_info import addresses

T = TypeVar("T")

_MOST = 1.25  # times its share: the bound of "consistent hashing with bounded loads"
_AWAY = (10.0, 300.0)  # seconds before a server that went away is asked again: first, longest
_IN_A_ROW = 3  # failures of any kind after which a server counts as away
_SHORTEST = 1e-3  # seconds of a reply
_NEWEST = 0.2  # share of the newest reply in the mean time of replies
_MAX_NAMES = 10  # models of a server that a message lists


@dataclass
class _Member:
    """One server of a fleet, and what it has done.

    Attributes:
        server: The server.
        in_flight: Requests that it has now.
        latency: Seconds of a reply, a moving mean; None before the first.
        away_until: When it is asked again, by time.monotonic; 0 for a server that is there.
        away_for: How many seconds it is left alone, the last time that it went away.
        requests: How many replies it gave.
        tokens: Tokens read and written, in its replies.
        failures: Tries that failed.
        failures_in_a_row: The failures since its last reply.
        seconds: The time of all its replies.
    """

    server: Server
    in_flight: int = 0
    latency: float | None = None
    away_until: float = 0.0
    away_for: float = 0.0
    requests: int = 0
    tokens: int = 0
    failures: int = 0
    failures_in_a_row: int = 0
    seconds: float = 0.0

    @property
    def url(self) -> str:
        """The server's address."""
        return self.server.base_url

    def answered(self, tokens: int, seconds: float) -> None:
        """Count a reply, and bring the mean time of replies up to date.

        Args:
            tokens: Tokens that were read and written.
            seconds: How long the reply took.
        """
        self.failures_in_a_row = 0
        self.away_for = 0.0
        self.requests += 1
        self.tokens += tokens
        self.seconds += seconds
        if self.latency is None:
            self.latency = seconds
        else:
            self.latency += _NEWEST * (seconds - self.latency)

    def failed(self, gone: bool) -> bool:
        """Count a failure; returns whether the server counts as away because of it.

        Args:
            gone: Whether no whole reply came back, so that the server may have ended.
        """
        self.failures += 1
        self.failures_in_a_row += 1
        if self.away_until or not (gone or self.failures_in_a_row >= _IN_A_ROW):
            return False
        self.go_away()
        return True

    def go_away(self) -> None:
        """Let the server count as away: no requests for 10 seconds, or twice as long as the last
        time, at most 300."""
        first, longest = _AWAY
        self.away_for = min(max(2 * self.away_for, first), longest)
        self.away_until = time.monotonic() + self.away_for

    def come_back(self) -> None:
        """Let the server count as there again."""
        self.away_until = 0.0
        self.failures_in_a_row = 0

    def report(self) -> str:
        """What the server did: "http://a:8000/v1: 120 requests, 96,000 tokens, 1 failures, 2.1 s a
        request"."""
        mean = "–"
        if self.requests:
            mean = f"{self.seconds / self.requests:.2g}"
        return (
            f"{self.url}: {self.requests:,} requests, {self.tokens:,} tokens, "
            f"{self.failures:,} failures, {mean} s a request"
        )


@dataclass
class Fleet(Server):
    """Takes the place of a Server: several servers of one model share its requests.

    Attributes:
        base_url: The addresses of all, separated by commas.
        model: The name under which each serves the model.
    """

    model: str = ""

    def __post_init__(self) -> None:
        """Make a Server of each address. Sentences about them wait in `_unsaid` until
        `report_events_to` says where they go."""
        urls = sorted(addresses(self.base_url))
        self.base_url = ",".join(urls)
        super().__post_init__()
        self._members: list[_Member] = []
        for url in urls:
            server = Server(url, self.key, self.policy, self.key_env, self.part, self.headers)
            self._members.append(_Member(server))
        # A request that each server lost has tries left.
        self.policy = replace(self.policy, retries=self.policy.retries + len(urls) - 1)
        self._members_lock = threading.Lock()
        self._unsaid: list[str] = []
        self._note: Callable[[str], None] = self._unsaid.append

    def report_events_to(self, note: Callable[[str], None]) -> None:
        """Take the function that gets sentences about the servers from now on; it gets those of
        before at once."""
        self._note = note
        for sentence in self._unsaid:
            note(sentence)
        self._unsaid.clear()

    def check_alive(self) -> None:
        """Return when a server answers, and all that do serve the model; those that do not answer
        are noted and count as away. Raises CannotRun where none answers, or one serves another
        model."""
        absent: list[CannotRun] = []
        for member in self._members:
            try:
                member.server.check_alive()
            except CannotRun as error:
                absent.append(error)
                member.go_away()
                continue
            problem = self._other_model(member)
            if problem:
                raise CannotRun(problem)
        if len(absent) == len(self._members):
            raise absent[0]
        for reason in absent:
            self._note(f"warning: {reason}; the other servers go on")

    def _other_model(self, member: _Member) -> str:
        """Why a server does not serve the model; "" where it does, or lists no models."""
        offered = member.server.offered_models()
        if not offered or self.model in offered:
            return ""
        return (
            f"{member.url} does not serve '{self.model}' (it offers "
            f"{', '.join(offered[:_MAX_NAMES])}); all servers of {self.part}.base_url must serve "
            f"one model under one name: leave it out, or correct {self.part}.source"
        )

    def server_reports(self) -> list[str]:
        """What each server did, a sentence each."""
        return [member.report() for member in self._members]

    def try_once(self, call: ServerCall[T], tries: Tries) -> Received[T]:
        """Send a request once, to one of the servers, and read its reply.

        Args:
            call: The request.
            tries: Its tries so far; a server that fails it is added to their `failed_at`.

        Raises:
            Retryable: There is no usable reply; another server, or a later try, may give one.
            RequestFailed, CannotRun: There is no usable reply, and another try gives none.
        """
        self._ask_those_away()
        with self._chosen(tries) as member:
            member.server.wait_for_try(0)  # it may have asked for a pause
            began = time.monotonic()
            try:
                reply = member.server.try_once(call, tries)
            except Retryable as error:
                tries.failed_at.add(member.url)
                self._failed(member, error)
                raise Retryable(f"{member.url}: {error}", sent=error.sent) from None
            with self._members_lock:
                member.answered(_tokens_of(reply.parsed), time.monotonic() - began)
            return reply

    def has_other_server(self, tries: Tries) -> bool:
        """Whether the request was failed by a server, and one is there that has not failed it."""
        if not tries.failed_at:
            return False
        return any(member.url not in tries.failed_at for member in self._present())

    @contextlib.contextmanager
    def _chosen(self, tries: Tries) -> Iterator[_Member]:
        """Context manager: gives the server for a request, which counts as in flight there
        meanwhile."""
        with self._members_lock:
            member = self._choose(tries)
            member.in_flight += 1
        try:
            yield member
        finally:
            with self._members_lock:
                member.in_flight -= 1

    def _choose(self, tries: Tries) -> _Member:
        """Choose the server for a request.

        A server that lost this request is chosen only where all have. Requests about one document
        go to one server, whose prefix cache has the document, as long as it is not busier than
        others; any other request goes to the server that will probably answer first.
        """
        present = self._present()
        untried = [member for member in present if member.url not in tries.failed_at]
        candidates = untried or present
        latencies = self._latencies(candidates)
        if tries.document:
            limits = _most_in_flight(candidates, latencies)
            in_order = sorted(candidates, key=lambda member: _rank(member.url, tries.document))
            for member in in_order:
                if member.in_flight < limits[member.url]:
                    return member

        def wait(member: _Member) -> tuple[float, int]:
            """What servers are compared by: seconds until one would end the request, then, of
            equals, how many replies it has given."""
            return (member.in_flight + 1) * latencies[member.url], member.requests

        return min(candidates, key=wait)

    def _latencies(self, members: Sequence[_Member]) -> dict[str, float]:
        """Address -> mean seconds of a reply; for a server that has given none the mean of all
        others, or 1."""
        known = [member.latency for member in self._members if member.latency is not None]
        usual = 1.0
        if known:
            usual = sum(known) / len(known)
        latencies = {}
        for member in members:
            latencies[member.url] = usual
            if member.latency is not None:
                latencies[member.url] = member.latency
        return latencies

    def _present(self) -> Sequence[_Member]:
        """The servers that are there and ask for no pause; else those that are there; where all
        went away, the one that is asked again first."""
        present = [member for member in self._members if not member.away_until]
        ready = [member for member in present if not member.server.asks_to_wait]
        if ready or present:
            return ready or present
        return [min(self._members, key=lambda member: member.away_until)]

    def _failed(self, member: _Member, error: Retryable) -> None:
        """Count a try that failed, and note it where its server went away by it. Also leaves the
        server alone for as long as it asks.

        Raises:
            RequestFailed, CannotRun: It asks for a longer wait than we grant.
        """
        with self._members_lock:
            newly_away = member.failed(error.gone)
        if newly_away:
            self._note(
                f"warning: {member.url} went away ({error}); the other servers get its requests, "
                f"and it is asked again in {member.away_for:.0f} seconds"
            )
        member.server.obey_wait(error.wait)

    def _ask_those_away(self) -> None:
        """Ask each server whose time away is over whether it is there, and take it back if it is.
        Only one thread asks a server at a time."""
        for member in self._members:
            with self._members_lock:
                is_due = 0 < member.away_until <= time.monotonic()
                if is_due:
                    member.go_away()  # no other thread asks meanwhile
            if is_due and member.server.absence() is None:
                self._take_back(member)

    def _take_back(self, member: _Member) -> None:
        """Let a server that answers again count as there, and note that; one that serves another
        model by now stays away, with a warning."""
        problem = self._other_model(member)
        if problem:
            self._note(f"warning: {problem}")
            return
        with self._members_lock:
            member.come_back()
        self._note(f"{member.url} answers again")


def _most_in_flight(members: Sequence[_Member], latencies: Mapping[str, float]) -> dict[str, int]:
    """Address -> the most requests in flight there: a quarter more than its share, by its speed, of
    all requests in flight and one more.

    Args:
        members: The servers, with their requests in flight.
        latencies: Address -> seconds of a reply.
    """
    total = 1
    for member in members:
        total += member.in_flight
    speeds = {}
    for url, seconds in latencies.items():
        speeds[url] = 1 / max(seconds, _SHORTEST)
    together = sum(speeds.values())
    most = {}
    for url, speed in speeds.items():
        most[url] = math.ceil(_MOST * total * speed / together)
    return most


def _rank(url: str, document: str) -> bytes:
    """What the servers are ordered by for a document: a hash of the pair, so that the others keep
    their order where a server comes or goes."""
    return hashlib.blake2b(f"{url} {document}".encode(), digest_size=8).digest()


def _tokens_of(reply: object) -> int:
    """Tokens read and written, as a parsed reply of any form counts them; 0 where it does not."""
    if not isinstance(reply, dict) or not isinstance(reply.get("usage"), dict):
        return 0
    usage = reply["usage"]
    tokens = 0
    for name in ("prompt_tokens", "completion_tokens"):
        count = usage.get(name)
        if isinstance(count, int) and count > 0:
            tokens += count
    return tokens

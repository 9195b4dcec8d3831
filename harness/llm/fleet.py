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

_MAX_SHARES = 1.25  # times its share: the bound of "consistent hashing with bounded loads"
# Seconds before a server that went away is asked again: the first time, and the longest.
_FIRST_AWAY_SECONDS, _LONGEST_AWAY_SECONDS = 10.0, 300.0
_FAILURES_UNTIL_AWAY = 3  # failures of any kind in a row after which a server counts as away
_MIN_REPLY_SECONDS = 1e-3
_WEIGHT_OF_NEWEST = 0.2  # share of the newest reply in the mean time of replies
_MAX_LISTED_MODELS = 10  # of a server, in a message


@dataclass
class _Member:
    """One server of a fleet, and what it has done.

    Attributes:
        server: The server.
        n_in_flight: Requests that it has now.
        mean_seconds: Seconds of a reply, a moving mean; None before the first.
        away_until: When it is asked again, by time.monotonic; 0 for a server that is there.
        away_seconds: How long it is left alone, the last time that it went away.
        n_replies: How many replies it gave.
        n_tokens: Tokens read and written, in its replies.
        n_failures: Tries that failed.
        failures_in_a_row: The failures since its last reply.
        total_seconds: The time of all its replies.
    """

    server: Server
    n_in_flight: int = 0
    mean_seconds: float | None = None
    away_until: float = 0.0
    away_seconds: float = 0.0
    n_replies: int = 0
    n_tokens: int = 0
    n_failures: int = 0
    failures_in_a_row: int = 0
    total_seconds: float = 0.0

    @property
    def url(self) -> str:
        """The server's address."""
        return self.server.base_url

    def count_reply(self, n_tokens: int, seconds: float) -> None:
        """Count a reply, and bring the mean time of replies up to date.

        Args:
            n_tokens: Tokens that were read and written.
            seconds: How long the reply took.
        """
        self.failures_in_a_row = 0
        self.away_seconds = 0.0
        self.n_replies += 1
        self.n_tokens += n_tokens
        self.total_seconds += seconds
        if self.mean_seconds is None:
            self.mean_seconds = seconds
        else:
            self.mean_seconds += _WEIGHT_OF_NEWEST * (seconds - self.mean_seconds)

    def count_failure(self, *, may_have_ended: bool) -> bool:
        """Count a failure, and let the server count as away after three in a row, or one by which
        it may have ended. Returns whether it is away because of this failure.

        Args:
            may_have_ended: Whether no whole reply came back.
        """
        self.n_failures += 1
        self.failures_in_a_row += 1
        is_away_already = bool(self.away_until)
        has_failed_often = self.failures_in_a_row >= _FAILURES_UNTIL_AWAY
        if is_away_already or not (may_have_ended or has_failed_often):
            return False
        self.mark_away()
        return True

    def mark_away(self) -> None:
        """Let the server count as away: no requests for 10 seconds, or twice as long as the last
        time, at most 300."""
        longer = max(2 * self.away_seconds, _FIRST_AWAY_SECONDS)
        self.away_seconds = min(longer, _LONGEST_AWAY_SECONDS)
        self.away_until = time.monotonic() + self.away_seconds

    def mark_present(self) -> None:
        """Let the server count as there again."""
        self.away_until = 0.0
        self.failures_in_a_row = 0

    def report(self) -> str:
        """What the server did: "http://a:8000/v1: 120 requests, 96,000 tokens, 1 failures, 2.1 s a
        request"."""
        mean_seconds = "–"
        if self.n_replies:
            mean_seconds = f"{self.total_seconds / self.n_replies:.2g}"
        return (
            f"{self.url}: {self.n_replies:,} requests, {self.n_tokens:,} tokens, "
            f"{self.n_failures:,} failures, {mean_seconds} s a request"
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
        """Make a Server of each address; nothing is sent."""
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
        # Sentences about servers, until `report_events_to` says where they go.
        self._unnoted: list[str] = []
        self._note: Callable[[str], None] = self._unnoted.append

    def report_events_to(self, note: Callable[[str], None]) -> None:
        """Take the function that gets sentences about the servers from now on; it gets those of
        before at once."""
        self._note = note
        for sentence in self._unnoted:
            note(sentence)
        self._unnoted.clear()

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
                member.mark_away()
                continue
            problem = self._problem_of_model(member)
            if problem:
                raise CannotRun(problem)
        if len(absent) == len(self._members):
            raise absent[0]
        for reason in absent:
            self._note(f"warning: {reason}; the other servers go on")

    def _problem_of_model(self, member: _Member) -> str:
        """Ask a server for its models, and say why it does not serve this one; "" where it does, or
        lists no models."""
        offered = member.server.offered_models()
        if not offered or self.model in offered:
            return ""
        return (
            f"{member.url} does not serve '{self.model}' (it offers "
            f"{', '.join(offered[:_MAX_LISTED_MODELS])}); all servers of {self.part}.base_url must "
            f"serve one model under one name: leave it out, or correct {self.part}.source"
        )

    def server_reports(self) -> list[str]:
        """What each server did, a sentence each."""
        return [member.report() for member in self._members]

    def try_once(self, call: ServerCall[T], tries: Tries) -> Received[T]:
        """Send a request once, to one of the servers, and read its reply. Also counts the reply, or
        the failure, for that server, and first takes back servers that were away and answer again.

        Args:
            call: The request.
            tries: Its tries so far; a server that fails it is added to their `failed_at`.

        Raises:
            Retryable: There is no usable reply; another server, or a later try, may give one.
            RequestFailed, CannotRun: There is no usable reply, and another try gives none.
        """
        self._take_back_servers_that_answer_again()
        with self._server_for(tries) as member:
            member.server.wait_for_try(0)  # it may have asked for a pause
            began = time.monotonic()
            try:
                reply = member.server.try_once(call, tries)
            except Retryable as error:
                tries.failed_at.add(member.url)
                self._count_failure(member, error)
                raise Retryable(f"{member.url}: {error}", sent=error.sent) from None
            seconds = time.monotonic() - began
            with self._members_lock:
                member.count_reply(_tokens_in(reply.parsed), seconds)
            return reply

    def has_other_server(self, tries: Tries) -> bool:
        """Whether the request was failed by a server, and one is there that has not failed it."""
        if not tries.failed_at:
            return False
        return any(member.url not in tries.failed_at for member in self._present())

    @contextlib.contextmanager
    def _server_for(self, tries: Tries) -> Iterator[_Member]:
        """Context manager: gives the server for a request, which counts as in flight there
        meanwhile."""
        with self._members_lock:
            member = self._choose(tries)
            member.n_in_flight += 1
        try:
            yield member
        finally:
            with self._members_lock:
                member.n_in_flight -= 1

    def _choose(self, tries: Tries) -> _Member:
        """Choose the server for a request.

        A server that lost this request is chosen only where all have. Requests about one document
        go to one server, whose prefix cache has the document, as long as it is not busier than
        others; any other request goes to the server that will probably answer first.
        """
        present = self._present()
        untried = [member for member in present if member.url not in tries.failed_at]
        candidates = untried or present
        seconds_by_url = self._seconds_of_replies(candidates)
        if tries.document:
            limits = _max_in_flight(candidates, seconds_by_url)
            by_hash = sorted(candidates, key=lambda member: _pair_hash(member.url, tries.document))
            for member in by_hash:
                if member.n_in_flight < limits[member.url]:
                    return member

        def seconds_and_replies(member: _Member) -> tuple[float, int]:
            """What servers are compared by: seconds until one would end the request, then, of
            equals, how many replies it has given."""
            n_requests = member.n_in_flight + 1
            return n_requests * seconds_by_url[member.url], member.n_replies

        return min(candidates, key=seconds_and_replies)

    def _seconds_of_replies(self, members: Sequence[_Member]) -> dict[str, float]:
        """Address -> mean seconds of a reply; for a server that has given none the mean of all
        others, or 1."""
        known: list[float] = []
        for member in self._members:
            if member.mean_seconds is not None:
                known.append(member.mean_seconds)  # noqa: PERF401
        usual = 1.0
        if known:
            usual = sum(known) / len(known)
        seconds_by_url = {}
        for member in members:
            seconds_by_url[member.url] = usual
            if member.mean_seconds is not None:
                seconds_by_url[member.url] = member.mean_seconds
        return seconds_by_url

    def _present(self) -> Sequence[_Member]:
        """The servers that are there and ask for no pause; else those that are there; where all
        went away, the one that is asked again first."""
        present = [member for member in self._members if not member.away_until]
        ready = [member for member in present if not member.server.asks_to_wait]
        if ready or present:
            return ready or present
        return [min(self._members, key=lambda member: member.away_until)]

    def _count_failure(self, member: _Member, error: Retryable) -> None:
        """Count a try that failed, and note it where its server went away by it. Also leaves the
        server alone for as long as it asks.

        Raises:
            RequestFailed, CannotRun: It asks for a longer wait than we grant.
        """
        with self._members_lock:
            is_newly_away = member.count_failure(may_have_ended=error.gone)
        if is_newly_away:
            self._note(
                f"warning: {member.url} went away ({error}); the other servers get its requests, "
                f"and it is asked again in {member.away_seconds:.0f} seconds"
            )
        member.server.note_asked_wait(error.wait_seconds)

    def _take_back_servers_that_answer_again(self) -> None:
        """Ask each server whose time away is over whether it is there, and take it back if it is.
        Only one thread asks a server at a time."""
        for member in self._members:
            with self._members_lock:
                is_due = 0 < member.away_until <= time.monotonic()
                if is_due:
                    member.mark_away()  # no other thread asks meanwhile
            if is_due and member.server.why_absent() is None:
                self._take_back(member)

    def _take_back(self, member: _Member) -> None:
        """Let a server that answers again count as there, and note that; one that serves another
        model by now stays away, with a warning."""
        problem = self._problem_of_model(member)
        if problem:
            self._note(f"warning: {problem}")
            return
        with self._members_lock:
            member.mark_present()
        self._note(f"{member.url} answers again")


def _max_in_flight(
    members: Sequence[_Member], seconds_by_url: Mapping[str, float]
) -> dict[str, int]:
    """Address -> the most requests in flight there: a quarter more than its share, by its speed, of
    all requests in flight and one more.

    Args:
        members: The servers, with their requests in flight.
        seconds_by_url: Address -> seconds of a reply.
    """
    n_requests = 1
    for member in members:
        n_requests += member.n_in_flight
    speeds = {}
    for url, seconds in seconds_by_url.items():
        speeds[url] = 1 / max(seconds, _MIN_REPLY_SECONDS)
    total_speed = sum(speeds.values())
    limits = {}
    for url, speed in speeds.items():
        limits[url] = math.ceil(_MAX_SHARES * n_requests * speed / total_speed)
    return limits


def _pair_hash(url: str, document: str) -> bytes:
    """What the servers are ordered by for a document: a hash of the pair, so that the others keep
    their order where a server comes or goes (rendezvous hashing)."""
    return hashlib.blake2b(f"{url} {document}".encode(), digest_size=8).digest()


def _tokens_in(reply: object) -> int:
    """Tokens read and written, as a parsed reply of any form counts them; 0 where it does not.

    {"usage": {"prompt_tokens": 9, "completion_tokens": 1}} -> 10
    """
    if not isinstance(reply, dict) or not isinstance(reply.get("usage"), dict):
        return 0
    usage = reply["usage"]
    n_tokens = 0
    for name in ("prompt_tokens", "completion_tokens"):
        count = usage.get(name)
        if isinstance(count, int) and count > 0:
            n_tokens += count
    return n_tokens

"""A scheduler of threads and tools.map inside of it: who waits for whom, and what ends them."""

import os
import subprocess
import sys
import threading
import time
import types
import weakref
from functools import partial

import pytest

from harness.cost.flops import Event
from harness.cost.meter import Meter
from harness.parallel import scheduler as crews
from harness.parallel.in_flight import map_together
from harness.parallel.locks import KeyedLocks
from harness.parallel.members import Stopped, current_scheduler
from harness.parallel.scheduler import Scheduler, timed
from tests.engine.fakes import SHAPE

pytestmark = pytest.mark.usefixtures("fake_model", "no_deadlock")


class Batches:
    """A queue that keeps what it ran together and answers with twice the number."""

    runs_first = False

    def __init__(self):
        self.runs = []

    def take(self, asks):
        return range(len(asks))

    def run(self, asks):
        self.runs.append(sorted(asks))
        return [ValueError(f"{n} is bad") if n < 0 else 2 * n for n in asks]


def together(*works, places=8):
    scheduler = Scheduler(places)
    scheduler.start_threads(*works)
    scheduler.wait()


def slot():
    scheduler = current_scheduler()
    assert scheduler is not None
    return scheduler


def test_a_pass_holds_what_everybody_asks_for():
    queue, got = Batches(), {}

    def asks(n):
        got[n] = [slot().run_in_batch(queue, 10 * n + k) for k in range(3)]

    together(*(partial(asks, n) for n in range(4)))
    assert queue.runs == [[0, 10, 20, 30], [1, 11, 21, 31], [2, 12, 22, 32]]
    assert got == {n: [20 * n, 20 * n + 2, 20 * n + 4] for n in range(4)}


def test_an_outcome_that_nobody_keeps_is_freed_after_its_batch():
    class Logits:
        pass

    freed = []

    def asks():
        outcome = weakref.ref(slot().run_in_batch(queue, 1))
        while outcome() is not None and len(freed) < 50:
            freed.append(False)
            time.sleep(0.02)
        freed.append(outcome() is None)

    queue = Batches()
    queue.run = lambda asks: [Logits() for _ in asks]
    together(asks)
    assert freed[-1]


def test_a_member_that_fails_or_never_asks_or_is_slow_holds_up_nobody(monkeypatch):
    monkeypatch.setattr(crews, "MAX_WAIT_SECONDS", 0.02)
    queue, order = Batches(), []
    asked = threading.Event()

    def asks():
        with pytest.raises(ValueError, match="-1 is bad"):
            slot().run_in_batch(queue, -1)
        order.append(slot().run_in_batch(queue, 1))
        asked.set()

    def never_asks():
        order.append(0)

    def slow():
        assert asked.wait(60), "it waited for a member that waits for something unknown"
        order.append(slot().run_in_batch(queue, 5))

    together(asks, never_asks, slow)
    assert order == [0, 2, 10]


def test_what_a_pass_does_not_take_stays_queued_beside_what_the_others_ask_next():
    class Narrow(Batches):
        def take(self, asks):
            return [
                0,
                *(n for n in range(1, len(asks)) if asks[n] < 100),
            ]  # one long ask a pass, the oldest

    queue, got = Narrow(), {}

    def asks(*numbers):
        got[numbers] = [slot().run_in_batch(queue, n) for n in numbers]

    members = ((100,), (200,), (300,), (1, 2, 3, 4))
    together(*(partial(asks, *numbers) for numbers in members))
    assert got == {numbers: [2 * n for n in numbers] for numbers in members}
    assert sorted(n for run in queue.runs for n in run) == sorted(
        n for numbers in members for n in numbers
    )
    assert all(sum(n >= 100 for n in run) <= 1 for run in queue.runs)
    assert len(queue.runs) == 4, "whoever writes goes on in every pass"


def test_a_member_that_is_late_delays_one_pass_and_one_outside_none(monkeypatch):
    monkeypatch.setattr(crews, "MAX_WAIT_SECONDS", 0.2)
    queue, done, seconds = Batches(), threading.Event(), {}

    def asks():
        began = time.monotonic()
        for n in range(40):
            slot().run_in_batch(queue, n)
        seconds[len(seconds)] = time.monotonic() - began
        done.set()

    def late():
        assert done.wait(60)
        assert slot().run_in_batch(queue, 1) == 2, "it takes part again"

    def outside():
        with slot().waiting_for_server():
            late()

    together(asks, late)
    assert len(queue.runs) == 41
    assert seconds[0] < 20 * 0.2, "it delays passes again and again"
    done.clear()
    monkeypatch.setattr(crews, "MAX_WAIT_SECONDS", 200.0)
    together(asks, outside)
    assert seconds[1] < 100


def test_calls_go_before_batches_and_run_in_one_thread():
    queue, threads = Batches(), []

    def calls():
        slot().call(lambda: threads.append(threading.current_thread().name))
        assert slot().run_in_batch(queue, 1) == 2

    def asks():
        assert slot().run_in_batch(queue, 2) == 4

    together(calls, asks)
    assert threads == ["batches"]


@pytest.mark.parametrize(("call", "error"), [("take", LookupError), ("run", SystemExit)])
def test_a_lane_that_breaks_fails_its_asks_and_the_next_ones_work(call, error):
    queue = Batches()
    real = getattr(queue, call)

    def broken(_):
        setattr(queue, call, real)
        raise error

    setattr(queue, call, broken)

    def work():
        with pytest.raises(error):
            slot().run_in_batch(queue, 1)
        assert slot().run_in_batch(queue, 2) == 4

    together(work)
    assert queue.runs == [[2]]


def test_stopped_members_end_at_their_next_call():
    queue, scheduler, ended = Batches(), Scheduler(3), []
    locks, held = KeyedLocks(), threading.Event()

    def endless():
        try:
            with locks.hold("x"):
                held.set()
                while True:
                    slot().run_in_batch(queue, 1)
        finally:
            ended.append("endless")

    def waits():
        held.wait(60)
        try:
            with locks.hold("x"):
                ended.append("never")
        finally:
            ended.append("waits")

    scheduler.start_threads(endless, waits)
    held.wait(60)
    time.sleep(0.02)
    scheduler.stop()
    scheduler.wait()
    assert sorted(ended) == ["endless", "waits"]


def test_one_member_at_a_time_holds_a_claim_and_the_others_hold_up_no_pass():
    queue, locks, inside, most = Batches(), KeyedLocks(), [0], [0]

    def work():
        with locks.hold("key"), locks.hold("key"):  # the one who holds it may ask again
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            slot().run_in_batch(queue, 1)
            inside[0] -= 1

    together(work, work, work)
    assert most[0] == 1


def event(new, phase="index"):
    return Event("reader", "m", phase, "prefill", new)


def mapped(fn, items, meter, places=4):
    """The result of a map in a scheduler, or the exception it raised."""
    found = []

    def work():
        try:
            found.append(map_together(slot(), fn, items, meter))
        except KeyError as error:
            found.append(error)

    together(work, places=places)
    return found[0]


@pytest.mark.parametrize("places", [1, 2, 16])
def test_a_map_keeps_the_order_of_results_and_costs(places):
    meter, queue = Meter("index"), Batches()
    meter.record(event(1000), SHAPE)
    before = meter.flops("full")

    def item(n):
        slot().run_in_batch(queue, 0)
        time.sleep(0.002 * (5 - n))  # the later ones are faster
        meter.record(event(n + 1), SHAPE)
        with meter.phase("study"):
            meter.record(event(n + 10, meter.current_phase), SHAPE)
        assert meter.current_phase == "index"
        assert len(meter.events) == 2, "an item sees its own costs alone"
        assert meter.flops("full") > before
        return n * n

    with meter.phase("index"):
        assert mapped(item, list(range(6)), meter, places) == [0, 1, 4, 9, 16, 25]
    assert [e.new for e in meter.events] == [1000, *(x for n in range(6) for x in (n + 1, n + 10))]
    assert [e.phase for e in meter.events[1:3]] == ["index", "study"]
    assert max(map(len, queue.runs)) == min(places, 6)
    alone = Meter("index")
    for e in meter.events:
        alone.record(e, SHAPE)
    assert alone.flops() == meter.flops()


@pytest.mark.parametrize("places", [1, 3, 8])
def test_the_first_failure_in_order_is_raised_and_no_further_item_begun(places):
    meter, begun = Meter("index"), []

    def item(n):
        begun.append(n)
        meter.record(event(1), None)
        time.sleep(0.01 if n == 1 else 0)
        if n in (1, 2):
            raise KeyError(n)

    error = mapped(item, list(range(40)), meter, places)
    assert (type(error), error.args) == (KeyError, (1,))
    assert len(begun) < 40
    assert len(meter.events) == len(begun), "what has begun is waited for and booked"


def test_maps_inside_maps_and_a_map_of_nothing():
    meter, queue = Meter("index"), Batches()

    def inner(n):
        meter.record(event(n), None)
        return int(slot().run_in_batch(queue, n))

    def outer(n):
        return map_together(slot(), inner, [10 * n, 10 * n + 1], meter)

    assert mapped(outer, [1, 2, 3], meter, 3) == [[20, 22], [40, 42], [60, 62]]
    assert [e.new for e in meter.events] == [10, 11, 20, 21, 30, 31]
    assert mapped(inner, [], meter) == []


def test_a_stop_before_a_helper_has_begun_still_ends_the_map(monkeypatch):
    """The helper's thread is there, but the run ends before its first look at whether it does: it
    never works."""
    check, stopped, raised = Scheduler.raise_if_stopped, threading.Event(), []
    calling = threading.local()

    def late(self):
        if not hasattr(calling, "own"):
            calling.own = True
            assert stopped.wait(60)
        check(self)

    def work():
        calling.own = True
        monkeypatch.setattr(Scheduler, "raise_if_stopped", late)
        try:
            map_together(slot(), lambda n: n, [1, 2], Meter("index"))
        except Stopped:
            raised.append(True)
            raise

    def stop():
        while len(scheduler._members) < 2:
            time.sleep(0.005)
        scheduler.stop()
        stopped.set()

    scheduler = Scheduler(2)
    stops = threading.Thread(target=stop)
    stops.start()
    scheduler.start_threads(work)
    waits = threading.Thread(target=scheduler.wait, daemon=True)
    waits.start()
    waits.join(20)
    stops.join()
    assert not waits.is_alive(), "the map waits for a helper that has ended"
    assert raised


HELPERS = """
import time, torch
from pathlib import Path
from harness.parallel.scheduler import Scheduler

def tasks():
    return len(list(Path("/proc/self/task").iterdir()))

class RequestQueue:
    runs_first = False
    def take(self, asks): return range(len(asks))
    def run(self, asks): return [torch.get_num_threads() for _ in asks]

before = tasks()
torch.ones(1_000_000).exp_().sum()
computed = tasks()
scheduler = Scheduler(2)
seen = []
def work(): seen.append((torch.get_num_threads(), scheduler.run_in_batch(queue, 0)))
queue = RequestQueue()
scheduler.start_threads(work, work)
scheduler.wait()
end = time.monotonic() + 10
while tasks() > before and time.monotonic() < end:  # threads that were told to end do so a little later
    time.sleep(0.01)
print(computed - before, tasks() - before, sorted(seen))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in Linux's /proc")
def test_only_the_thread_of_the_passes_has_helpers():
    """OpenMP's helpers of other threads would take the cores from it; see Scheduler.__init__."""
    given = {**os.environ, "OMP_NUM_THREADS": "2"}
    run = subprocess.run(
        [sys.executable, "-c", HELPERS], env=given, capture_output=True, text=True, check=True
    )
    assert run.stdout.split(maxsplit=2) == ["1", "0", "[(1, 2), (1, 2)]\n"]


def test_a_member_may_begin_while_torch_is_being_imported(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", types.ModuleType("torch"))
    done = []
    scheduler = Scheduler(1)
    scheduler.start_threads(lambda: done.append(1))
    scheduler.wait()
    assert done == [1]


def test_time_in_the_queue_is_not_time_of_a_call():
    queue, took = SlowBatches(), {}

    def asks(n):
        with timed() as own:
            slot().call(partial(time.sleep, 0.05))
        took[n] = own

    def shares(n):
        with timed() as own:
            slot().run_in_batch(queue, n)
        took[n] = own

    together(*(partial(asks, n) for n in range(4)))
    assert all(0.05 <= own.seconds < 0.19 for own in took.values()), took
    assert all(own.queued >= 0.14 for own in took.values()), "each waited for the three others"
    together(*(partial(shares, n) for n in range(4)))
    assert all(0.05 <= own.seconds < 0.19 for own in took.values()), (
        "a batch's time is each member's"
    )


class SlowBatches(Batches):
    def run(self, asks):
        time.sleep(0.05)
        return super().run(asks)

"""The driver over made-up workers that die when they should: what is lost, requeued, given up and merged."""

import pytest

from harness.cost.usage import sent
from harness.engine.progress import Silent
from harness.engine.runner import run
from harness.errors import LimitReached, RunLocked, SaveError, UserError
from harness.scale.schedule_shards import Driver, Event, _join_slices
from harness.scale.shard import part_of
from harness.scale.worker import Done, Order, Worker, failed_result, shared_budget
from harness.storage.json_lines import read_lines
from harness.storage.run_folder import DOCUMENTS, RECORDS
from harness.storage.shard_files import Part, parts_in
from tests.engine.fakes import World, comparable, go, make_plan

pytestmark = pytest.mark.usefixtures("fake_model")

WORLD = World(questions=12, documents=12)


class Died(BaseException):
    """The worker's process is gone."""


class FakeHands:
    """Workers that run in this process, each order at the next poll; `before` may raise Died when a question comes."""

    def __init__(self, plan, out, count=2, before=None, limits=None):
        self.plan, self.out, self.count, self.limits = plan, out, count, limits or {}
        self.before = before or (lambda worker, question: None)
        self.events = [Event(f"w{n}") for n in range(count)]
        self.orders = []
        self.asked = []
        self.closed = False

    def submit(self, worker, order):
        self.orders.append((worker, order))

    def poll(self, timeout):
        events, self.events = self.events, []
        if not events and self.orders:
            events = [self._run(*self.orders.pop(0))]
        return events

    def _run(self, worker, order):
        answer = self.plan.method.answer

        def watched(question, *more):
            self.before(worker, question.id)
            self.asked.append(question.id)
            return answer(question, *more)

        part = Part(order.number, order.of, frozenset(order.ids), driven=True, given_up=order.given_up)
        self.plan.method.answer = watched
        progress = Silent()
        progress.budget = shared_budget(self.limits, self.out, order.rows)
        try:
            result = run(self.plan, self.out, command=["harness"], progress=progress, place=part_of(self.plan, part))
        except LimitReached as error:
            return Event(worker, failed_result(error))
        except Died:
            self.events.append(Event(worker))  # started again
            return Event(worker, died=True)
        except UserError as error:
            return Event(worker, Done(error=str(error), kind="locked" if isinstance(error, RunLocked) else "user"))
        finally:
            self.plan.method.answer = answer
        return Event(worker, Done(result.summary["n_total"]))

    def close(self):
        self.closed = True


def drive(tmp_path, before=None, plan=None, limits=None):
    plan = plan or make_plan(WORLD.dataset())
    hands, progress = FakeHands(plan, tmp_path, before=before, limits=limits), Silent()
    driver = Driver(hands, tmp_path, progress, command=["harness"])
    try:
        driver.add(plan, [plan.choices])
        return driver.wait(plan), hands, progress
    finally:
        driver.close()


def records(folder):
    return [comparable(row) for row in read_lines(folder / RECORDS, "question_id")]


def test_long_parts_come_first_and_few_documents_are_a_part_each():
    parts = _join_slices([[f"q{n}"] for n in range(16)], workers=2)
    assert [len(part) for part in parts] == [4, 4, 2, 2, 1, 1, 1, 1]
    assert [q for part in parts for q in part] == [f"q{n}" for n in range(16)]
    assert _join_slices([["a", "b"], ["c"], [], []], workers=1) == [["a", "b"], ["c"]]


def test_the_parts_of_a_row_become_its_run(tmp_path):
    result, hands, progress = drive(tmp_path / "ray")
    alone = go(make_plan(WORLD.dataset()), tmp_path / "alone")
    assert records(result.folder) == records(alone.folder)
    assert result.summary["scores"] == alone.summary["scores"]
    assert sorted(hands.asked) == sorted(f"q{n}" for n in range(12))
    assert {p.name for p in result.folder.iterdir()} == {p.name for p in alone.folder.iterdir()}
    assert progress.line().startswith("12/12")
    again, hands, _ = drive(tmp_path / "ray")  # nothing is left to ask
    assert (again.summary["n_total"], hands.asked) == (12, [])


def test_workers_stop_together_at_a_limit(tmp_path):
    alone = go(make_plan(WORLD.dataset()), tmp_path / "alone")
    used = [sent(row["usage"])["tokens"] for row in read_lines(alone.folder / RECORDS, "question_id")]
    built = [sent(row["usage"])["tokens"] for row in read_lines(alone.folder / DOCUMENTS, "document_id")]
    limit = 0.5 * (sum(used) + sum(built))
    with pytest.raises(LimitReached, match=r"^stopped at --max-tokens .* spent\): \d of 12 questions are not answered"):
        drive(tmp_path / "ray", limits={"tokens": limit})
    counted = shared_budget({"tokens": 1e9}, tmp_path / "ray", [make_plan().folder])
    assert counted.may_continue()
    assert limit <= counted.spent()["tokens"] < limit + 2 * (max(used) + max(built)), "a question of each worker"


def test_a_dead_worker_costs_the_question_in_hand_only(tmp_path):
    deaths = iter([False, True, False, False, True] + [False] * 50)

    def before(_worker, _question):
        if next(deaths):
            raise Died

    result, hands, progress = drive(tmp_path, before)
    assert len(hands.asked) == len(set(hands.asked)) == 12
    assert result.failed == 0
    assert sum("is queued again" in note for note in progress.notes) == 2


def test_a_question_that_ends_three_workers_is_recorded_as_failed(tmp_path):
    def before(_worker, question):
        if question == "q7":
            raise Died

    result, hands, progress = drive(tmp_path, before)
    assert (result.summary["n_total"], result.failed, result.summary["errors"]) == (12, 1, {"WorkerLost": 1})
    assert "question 'q7' ended 3 workers and is recorded as failed" in "\n".join(progress.notes)
    assert len(set(hands.asked)) == 11


def test_a_second_driver_and_what_a_dead_one_left(tmp_path):
    plan = make_plan(WORLD.dataset())
    dead = FakeHands(plan, tmp_path)
    driver = Driver(dead, tmp_path, Silent(), command=["harness"])
    driver.add(plan, [plan.choices])
    with pytest.raises(RunLocked, match="is writing the run folder"):
        drive(tmp_path)
    driver._hand_out()
    dead._run("w0", Order((), plan.folder, 1, 8, ("q0", "q1", "q2"), frozenset()))
    driver._rows[plan.folder].lock.close()  # the kernel lets go of a dead driver's locks
    assert parts_in(tmp_path / plan.folder) == [1]
    result, hands, _ = drive(tmp_path)
    assert sorted(hands.asked) == sorted(f"q{n}" for n in range(3, 12))
    assert [row["question_id"] for row in records(result.folder)] == [f"q{n}" for n in range(12)]


def test_an_error_of_a_worker_ends_the_row_and_keeps_its_answers(tmp_path):
    def before(_worker, question):
        if question == "q9":
            raise UserError("the weights are not there")

    with pytest.raises(UserError, match=r"worker w\d: the weights are not there") as raised:
        drive(tmp_path, before)
    assert raised.value.midway
    assert records(tmp_path / make_plan().folder)
    assert not parts_in(tmp_path / make_plan().folder)


def test_a_worker_says_in_one_sentence_why_it_cannot_work(tmp_path, monkeypatch):
    monkeypatch.setattr("os.dup2", lambda *_: None)
    worker = Worker("w", str(tmp_path), str(tmp_path / "absent"), {})
    assert "absent cannot be used there (No such file or directory)" in worker.hello()["problem"]
    for error, kind in [(SaveError("full"), "save"), (RunLocked("held"), "locked"), (KeyError("x"), "bug")]:
        monkeypatch.setattr(Worker, "_run_order", lambda *_, error=error: (_ for _ in ()).throw(error))
        assert worker.run(Order((), "f", 1, 1, ())).kind == kind

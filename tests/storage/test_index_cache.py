"""The index cache: the key has everything that changes the value, and nothing that is damaged is
ever used."""

import json
import multiprocessing
import os
import random
import shutil
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from harness.cost.flops import Event, flops
from harness.cost.meter import Meter
from harness.engine.indexing import index_key
from harness.engine.progress import Silent
from harness.method import MethodConfig, Task
from harness.storage.index_cache import CacheEntry, IndexCache, cache_root, key_digest
from harness.storage.run_folder import read_run
from harness.types import Document, Passage, Question
from tests.engine.fakes import SHAPE, Words, World, comparable, go, make_plan

pytestmark = pytest.mark.usefixtures("fake_model")

DOCUMENT = Document("d0", "alpha beta", "Title", (Passage("p", 0, 5),))
QUESTION = Question("q0", "what?", ("d0",))


class Undeclared(MethodConfig):
    """The settings of Words, where nobody says which of them change the index."""

    index_size: int = 3
    answer_size: int = 1


def words(**params):
    return Words(Words.Config(**params))


def with_class(**attributes):
    kind = type("Other", (Words,), attributes)
    return make_plan(method=kind(kind.Config()))


def other_facts(facts):
    return replace(make_plan(), identities=facts)


def other_implementation():
    plan = make_plan()
    method = plan.config.method.model_copy(update={"implementation": "fakes:Other"})
    return replace(plan, config=plan.config.model_copy(update={"method": method}))


CHANGES = {
    "text": lambda: (make_plan(), replace(DOCUMENT, text="alpha gamma")),
    "title": lambda: (make_plan(), replace(DOCUMENT, title="Other")),
    "passages": lambda: (make_plan(), replace(DOCUMENT, passages=(Passage("p", 0, 4),))),
    "document": lambda: (make_plan(), replace(DOCUMENT, id="d1")),
    "index parameter": lambda: (make_plan(method=words(index_size=4)), DOCUMENT),
    "prompts": lambda: (with_class(prompts=lambda self: {"answer": "Reply: {question}"}), DOCUMENT),
    "version": lambda: (with_class(index_version="2"), DOCUMENT),
    "packages": lambda: (with_class(index_packages=lambda self: ("numpy",)), DOCUMENT),
    "undeclared settings": lambda: (with_class(Config=Undeclared), DOCUMENT),
    "model": lambda: (other_facts({"reader": {"weights": "other"}}), DOCUMENT),
    "implementation": lambda: (other_implementation(), DOCUMENT),
    "seed": lambda: (make_plan(seed=1), DOCUMENT),
}
NO_CHANGES = {
    "answer parameter": lambda: (make_plan(method=words(answer_size=7)), DOCUMENT),
    "limit": lambda: (make_plan(limit=2), DOCUMENT),
    "task": lambda: (
        replace(make_plan(), task=Task(instruction="Other.", max_answer_tokens=9)),
        DOCUMENT,
    ),
    "data set": lambda: (make_plan(World(questions=1).dataset()), DOCUMENT),
    "unused role": lambda: (
        other_facts({"reader": {"weights": "fake"}, "refiner": {"weights": "x"}}),
        DOCUMENT,
    ),
}


@pytest.mark.parametrize("name", [*CHANGES, *NO_CHANGES])
def test_the_key_changes_with_what_changes_the_index(name):
    plan, document = (CHANGES | NO_CHANGES)[name]()
    same = index_key(plan, document, None).digest == (index_key(make_plan(), DOCUMENT, None).digest)
    assert same == (name in NO_CHANGES)


@pytest.mark.parametrize("change", [{"text": "why?"}, {"options": ("a", "b")}])
def test_a_question_is_part_of_the_key_by_what_it_says(change):
    def digest(question, plan=None):
        return index_key(plan or make_plan(), DOCUMENT, question).digest

    assert digest(replace(QUESTION, **change)) != digest(QUESTION)
    assert digest(replace(QUESTION, id="other")) == digest(QUESTION)
    task = Task(instruction="Other.", max_answer_tokens=9)
    assert digest(QUESTION, replace(make_plan(), task=task)) != digest(QUESTION)


def a_key(name="x"):
    return {"method": "fakes:Words", "name": name}


def an_entry():
    meter = Meter("index")
    meter.record(
        Event("reader", "m", "index", "prefill", 7, logits=1, pairs=28, requests=1, seconds=0.5),
        SHAPE,
    )
    return CacheEntry.of(
        {"a": [1, "ä\ud800"], "v": np.eye(2, dtype=np.float32)}, meter.events, meter
    )


def test_an_entry_comes_back_with_its_cost(tmp_path):
    notes = []
    cache = IndexCache(tmp_path, notes.append)
    assert cache.get(cache.folder(a_key()), a_key()) is None
    cache.put(cache.folder(a_key()), a_key(), an_entry())
    got = cache.get(cache.folder(a_key()), a_key())
    assert got is not None
    assert (got, got.usage) == (an_entry(), an_entry().usage)
    assert got.usage["index"]["flops"]["full"] > 0
    value = got.value()
    assert value["a"] == [1, "ä\ud800"]
    assert value["v"].dtype == np.float32
    folder = cache.folder(a_key())
    assert folder.relative_to(tmp_path).parts[:2] == ("fakes.Words", key_digest(a_key())[:2])
    assert json.loads((folder / "key.json").read_text()) == a_key()
    assert [p.name for p in folder.parent.iterdir()] == [folder.name], "no draft is left"
    assert notes == []


OTHER = replace(SHAPE, layers=7)


def two_of_one_name():
    """What a builder and a reader of one name cost, which are two models."""
    meter = Meter("index")
    meter.record(Event("builder", "m", "index", "prefill", 9), SHAPE)
    meter.record(Event("reader", "m", "index", "prefill", 9), OTHER)
    return CacheEntry.of({}, meter.events, meter)


def test_an_entry_of_a_served_model_is_counted_by_the_sizes_told_today(tmp_path):
    cache = IndexCache(tmp_path, print)
    cache.put(cache.folder(a_key()), a_key(), two_of_one_name())
    corrected = replace(SHAPE, layers=70)
    event = two_of_one_name().events[0]
    for shape, uncounted in ((corrected, 0), (None, 1)):
        got = IndexCache(tmp_path, print, {"builder": shape}).get(cache.folder(a_key()), a_key())
        assert got is not None
        usage = got.usage["index"]
        assert usage["roles"].get("builder") == (flops(event, shape) if shape else None)
        assert usage["roles"]["reader"] == flops(event, OTHER)
        assert usage["uncounted"] == uncounted


def test_an_entry_of_before_events_named_their_shape_keeps_its_cost(tmp_path):
    cache, entry = IndexCache(tmp_path, print), an_entry()
    cache.put(cache.folder(a_key()), a_key(), entry)
    folder = cache.folder(a_key())
    usage = json.loads((folder / "usage.json").read_text())
    usage["shapes"] = {"m": usage["shapes"].pop(SHAPE.key)}
    for row in usage["events"]:
        del row["shape"]
    (folder / "usage.json").write_text(json.dumps(usage))
    assert cache.get(cache.folder(a_key()), a_key()) == entry


DAMAGE = {
    **{
        f"{n} gone": lambda f, n=n: (f / n).unlink()
        for n in ("data.json", "arrays.npz", "key.json", "usage.json")
    },
    **{
        f"{n} cut": lambda f, n=n: os.truncate(f / n, 3)
        for n in ("data.json", "arrays.npz", "key.json", "usage.json")
    },
    "data.json empty": lambda f: os.truncate(f / "data.json", 0),
    "arrays.npz flipped": lambda f: (f / "arrays.npz").write_bytes(
        (f / "arrays.npz").read_bytes().replace(b"\x93", b"\x92")
    ),
    "usage.json a list": lambda f: (f / "usage.json").write_text("[]"),
}


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_entry_is_reported_and_built_again(how, tmp_path):
    before = go(make_plan(), tmp_path / "a")
    DAMAGE[how](
        IndexCache(cache_root(), print).folder(
            index_key(make_plan(), world_document(), None).to_json()
        )
    )
    progress = Silent()
    plan = make_plan()
    after = go(plan, tmp_path / "b", progress=progress)
    assert plan.method.built == ["d0"]
    assert [n for n in progress.notes if "is damaged" in n and "built again" in n]
    statuses = [line.status for line in read_run(after.folder).index_lines]
    assert statuses == ["built", "hit"]
    assert [*map(comparable, read_run(after.folder).records)] == [
        *map(comparable, read_run(before.folder).records)
    ]
    again = make_plan()
    go(again, tmp_path / "c")
    assert again.method.built == [], "the rebuilt entry is sound"


def world_document():
    return World().dataset().documents["d0"]


def _build(root, n):
    cache = IndexCache(root, print)
    for i in range(30):
        key = a_key(str(i))
        cache.put(cache.folder(key), key, an_entry())
        got = cache.get(cache.folder(key), key)
        assert got is not None
        assert got.value()["a"][0] == 1


def test_drafts_of_killed_builders_are_removed_after_a_day(tmp_path):
    cache = IndexCache(tmp_path, print)
    drafts = [cache.folder(a_key()).parent / f".draft-{name}" for name in ("old", "new")]
    for draft in drafts:
        draft.mkdir(parents=True)
    os.utime(drafts[0], (0, 0))
    cache.put(cache.folder(a_key()), a_key(), an_entry())
    assert [draft.exists() for draft in drafts] == [False, True]


def test_builders_that_race_leave_whole_entries(tmp_path):
    run = multiprocessing.get_context("fork")
    builders = [run.Process(target=_build, args=(tmp_path, n)) for n in range(4)]
    for b in builders:
        b.start()
    for b in builders:
        b.join()
    assert [b.exitcode for b in builders] == [0] * 4
    assert not list(tmp_path.rglob(".*")), "no draft and nothing set aside"


def test_a_cache_that_cannot_be_written_costs_the_cache_only(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "file"))
    progress = Silent()
    result = go(make_plan(), tmp_path / "run", progress=progress)
    assert (result.summary.n_scored, result.save_problems) == (6, [])
    (message,) = [note for note in progress.notes if "not cached" in note]
    assert message.endswith("choose a folder you may write to with HARNESS_CACHE.")


SNEAKY = {
    "index_roles": lambda method, tools: tools.model(),
    "cannot depend on the task": lambda method, tools: tools.task,
    "phase 'index'": lambda method, tools: tools.phase("search"),
    "'encoders' declares only": lambda method, tools: tools.encoder(),
    "reads the setting 'answer_size', which no index_setting declares": lambda method, tools: (
        method.config.answer_size
    ),
}


@pytest.mark.parametrize("said", SNEAKY)
def test_an_index_cannot_use_what_its_key_does_not_cover(said, tmp_path):
    class Sneaky(Words):
        index_roles = ("encoder",) if "encoders" in said else ()

        def index(self, document, tools):
            assert self.config.index_size == 3
            SNEAKY[said](self, tools)
            return {}

    plan = replace(
        make_plan(method=Sneaky(Words.Config())), identities={"reader": {}, "encoder": {}}
    )
    assert said in first_error(plan, tmp_path)


def first_error(plan, out):
    return read_run(go(plan, out).folder).records[0].error["message"]


def test_an_index_of_a_question_sees_it(tmp_path):
    seen = []

    class Asked(Words):
        scope = "question"

        def index(self, document, tools):
            seen.append((document.id, tools.question.text, tools.task.instruction))
            return super().index(document, tools)

    stored = read_run(
        go(make_plan(World(questions=3).dataset(), Asked(Words.Config())), tmp_path).folder
    )
    assert seen == [
        ("d0", "question 0", "Answer."),
        ("d1", "question 1", "Answer."),
        ("d0", "question 2", "Answer."),
    ]
    built = [line.owner for line in stored.index_lines]
    assert built == [("d0", "q0"), ("d1", "q1"), ("d0", "q2")]


def test_what_follows_a_part_does_not_depend_on_whether_it_was_kept(tmp_path):
    class Drawing(Words):
        stop = True

        def index(self, document, tools):
            part = tools.keep("a", lambda: [random.random() for _ in range(3)])
            after = random.random() + part[0]
            if self.stop:
                raise KeyboardInterrupt
            return {"words": ["w0"], "vectors": [0.0, after]}

    data = World(questions=1).dataset()
    method = Drawing(Words.Config())
    with pytest.raises(KeyboardInterrupt):
        go(make_plan(data, method), tmp_path / "stopped")
    method.stop = False
    resumed = read_run(go(make_plan(data, method), tmp_path / "stopped").folder).records[0]
    shutil.rmtree(cache_root())
    whole = read_run(go(make_plan(data, method), tmp_path / "whole").folder).records[0]
    assert comparable(resumed) == comparable(whole)
    assert resumed.steps[0]["scores"]["total"] > 0


class Sharing(Words):
    """Builds its index of a part that is shared."""

    needs: dict[str, Any] = {"text": "three words here", "size": 3, "version": 1}
    index_roles = ("reader",)
    role = "reader"

    def index(self, document, tools):
        part = tools.share("part", self.role, self.needs, self.make(tools))
        return {"words": ["w"], "vectors": [0.0, 0.0], "part": part}

    def make(self, tools):
        def made():
            self.built.append("part")
            return [
                tools.keep(text, lambda text=text: self.part(text, tools))
                for text in ("two words", "one")
            ]

        return made

    def part(self, text, tools):
        tools.model().session().feed(text)
        return len(text)


def sharing(**changes):
    kind = type("Own", (Sharing,), {"index_version": str(len(changes)), **changes})
    return kind(Words.Config(index_size=7))


def shared(method, out, **more):
    """The line of documents.jsonl."""
    return read_run(
        go(make_plan(World(questions=1).dataset(), method, **more), out).folder
    ).index_lines[0]


def test_a_shared_part_is_made_once_and_costs_every_index_the_same(tmp_path):
    first, second = sharing(), sharing(index_version="2")
    lines = [shared(first, tmp_path / "a"), shared(second, tmp_path / "b")]
    assert (first.built, second.built) == (["part"], [])
    assert [line.status for line in lines] == ["built", "built"]
    assert lines[0].usage == lines[1].usage
    assert lines[1].usage["index"]["tokens_in"] == 3
    assert len(list((cache_root() / "shared.part").glob("*/*"))) == 1


OTHERS = {"size": 4, "text": "three words there", "version": 2, "packages": ("numpy",), "seed": 1}


@pytest.mark.parametrize("name", OTHERS)
def test_a_shared_part_is_another_one_for_other_needs(name, tmp_path):
    shared(sharing(), tmp_path / "a")
    changes = {"needs": Sharing.needs | {name: OTHERS[name]}} if name in Sharing.needs else {}
    other = sharing(
        **changes, index_packages=lambda self: OTHERS["packages"] if name == "packages" else ()
    )
    shared(other, tmp_path / "b", seed=1 if name == "seed" else 0)
    assert other.built == ["part"]


def test_a_shared_part_may_use_the_model_of_its_role_alone(tmp_path):
    class Two(Sharing):
        index_roles = ("reader", "builder")
        role = "builder"

    data = World(questions=1).dataset()
    plan = make_plan(data, Two(Words.Config()))
    models = dict.fromkeys(Two.index_roles, plan.models["reader"])
    plan = replace(plan, models=models, identities={role: {"weights": role} for role in models})
    assert "tools.share('part') is for role 'builder', but used reader" in first_error(
        plan, tmp_path
    )
    assert not list(cache_root().glob("shared.part/*/*"))


class Late(Words):
    def answer(self, question, documents, indexes, tools):
        return tools.share("part", "reader", {}, list)


REFUSED = {
    "index_roles": lambda: sharing(role="compressor"),
    "needs a 'version' of its code among its needs": lambda: sharing(
        needs={"text": "three words here"}
    ),
    "it cannot be used while answering": lambda: Late(Words.Config()),
}


@pytest.mark.parametrize("said", REFUSED)
def test_what_cannot_be_shared(said, tmp_path):
    method = REFUSED[said]()
    assert said in first_error(make_plan(World(questions=1).dataset(), method), tmp_path)
    assert "part" not in method.built


def test_a_hit_knows_what_building_cost(tmp_path):
    built = go(make_plan(), tmp_path / "a").summary.index
    hit = go(make_plan(), tmp_path / "b").summary.index
    assert (built.built, hit.hit) == (2, 2)
    assert hit.usage == built.usage
    assert hit.usage["index"]["flops"]["full"] > 0

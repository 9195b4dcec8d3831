import base64
import hashlib
import itertools
import json
import random
import re
import shutil
import subprocess
import zlib
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.config.schema import DatasetConfig
from harness.datasets import load
from harness.storage.run_folder import read_run
from reports import details, markup
from reports.details import PageLimits
from reports.figures import front
from reports.figures.front import points
from reports.gold_rows import read_rows
from reports.main_table import table_rows
from reports.markup import element
from reports.page import PageOptions, page
from tests.reports.build import SCORE, flops, record, span, stored, usage, write_run
from tests.reports.build import step as plain_step
from tests.reports.searches import TEXT, index, keep, searched
from tests.reports.searches import step as made_step

ROOT = Path(__file__).resolve().parents[2]

EVIL = "</script><script>alert(1)</script><!--<img src=x onerror=alert(2)>\"'&${title}$data"


class Page(HTMLParser):
    """What a browser would see: elements, their attributes, the text of scripts and of everything
    else."""

    def __init__(self, source):
        super().__init__()
        self.tags = []
        self.scripts = []
        self.text = ""
        self._inside = ""
        self.feed(source)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._inside = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        self._inside = ""

    def handle_data(self, data):
        if self._inside == "script":
            self.scripts[-1] += data
        elif self._inside != "style":
            self.text += data

    @property
    def data(self):
        """What the page knows of each data set: its head, its list, and its questions and graphs
        unpacked."""
        blocks = dict(zip(self._scripts_ids(), self.scripts, strict=True))
        heads = json.loads(blocks["data"])
        return [self._whole(f"d{i}", head, blocks) for i, head in enumerate(heads)]

    @property
    def code(self):
        """The one script that is run."""
        (code,) = (
            text for name, text in zip(self._scripts_ids(), self.scripts, strict=True) if name == ""
        )
        return code

    def _scripts_ids(self):
        return [attributes.get("id") or "" for tag, attributes in self.tags if tag == "script"]

    def _whole(self, place, head, blocks):
        listed = unpacked(blocks[f"{place}-list"])
        count = head["starts"][-1]
        parts = (unpacked(blocks[f"{place}-part-{i}"]) for i in range(len(head["starts"]) - 1))
        answers = [one for part in parts for one in part]
        assert len(answers) == count
        known = [{k: (listed[k] or {i: None})[i] for k in ("texts", "gold")} for i in range(count)]
        questions = [
            {"id": listed["ids"][i], "answers": answers[i], **known[i]} for i in range(count)
        ]
        graphs = [
            unpacked(text) for name, text in blocks.items() if name.startswith(f"{place}-graph-")
        ]
        return {**head, **listed, "questions": questions, "graphs": graphs}


def unpacked(text):
    """The value that reports.compressed_json.compress_json was given."""
    return json.loads(zlib.decompress(base64.b64decode(text)))


def two(root, **changes):
    return [
        stored(root, [0.1, 0.5, 0.9], method="full-context"),
        stored(root, [0.4, 0.5, None], **changes),
    ]


class TestEscapes:
    def test_hostile_text_everywhere_stays_text(self, tmp_path):
        rows = [
            record(
                i, 0.5, question_id=f"q{i}{EVIL}", document_ids=[EVIL], prediction=EVIL, stop_reason=EVIL,
                shown=[{"kind": "generated", "document_id": "", "start": 0, "end": 0, "text": EVIL, "sources": []}],
                steps=[step(note=EVIL)], scores={SCORE: 0.5, EVIL: 0.1}, notes={"flags": {EVIL: "null"}},
                truncated={"side": EVIL},
            )
            for i in range(3)
        ]  # fmt: skip
        settings_ = {
            "dataset": {"name": EVIL, "format": "f", "scorers": [SCORE]},
            "method": {
                "name": EVIL,
                "implementation": EVIL,
                "view": "document",
                "params": {EVIL: EVIL},
            },
            "model": {"name": EVIL, "backend": "hf", "embedded": True},
        }
        runs = [
            read_run(
                write_run(
                    tmp_path, rows, hash8=h, settings=settings_, manifest={"warnings": [EVIL]}
                )
            )
            for h in ("aaaa0000", "bbbb0000")
        ]
        found = Page(page(runs, PageOptions(title=EVIL)))
        assert {a.get("type") for tag, a in found.tags if tag == "script"} == {
            "application/json",
            "text/plain",
            None,
        }
        kinds = [a.get("type") for tag, a in found.tags if tag == "script"]
        blocks = [
            text for kind, text in zip(kinds, found.scripts, strict=True) if kind == "text/plain"
        ]
        assert blocks
        assert all(re.fullmatch("[A-Za-z0-9+/=]+", text) for text in blocks)
        assert not [
            tag for tag, _ in found.tags if tag in ("img", "iframe", "link", "object", "base")
        ]
        names = {name for _, attributes in found.tags for name in attributes}
        assert not [name for name in names if name.startswith("on") or name in ("src", "style")]
        assert "alert(1)" not in found.code
        assert found.text.count("alert(1)") >= 8
        assert found.data[0]["questions"][0]["answers"][0]["prediction"] == EVIL

    def test_only_the_pages_own_script_and_style_may_run(self, tmp_path, drawn):
        source = page(two(tmp_path))
        found = Page(source)
        policy = next(a["content"] for tag, a in found.tags if tag == "meta" and "http-equiv" in a)
        style = re.search("<style>(.*?)</style>", source, re.DOTALL)
        hashes = [
            "sha256-" + base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
            for code in (found.code, style[1])
        ]
        assert (
            policy
            == f"default-src 'none'; img-src blob:; style-src '{hashes[1]}'; script-src '{hashes[0]}'"
        )

    def test_nothing_is_loaded_from_anywhere(self, tmp_path):
        source = page(two(tmp_path))
        # The name of the SVG namespace is no address that is fetched.
        assert set(re.findall(r"https?://[^\s\"']+", source)) == {"http://www.w3.org/2000/svg"}
        assert not re.search(
            r"@import|url\((?!#)|fetch\(|XMLHttpRequest|innerHTML|insertAdjacent|document\.write",
            source,
        )

    @settings(max_examples=100)
    @given(st.text(), st.text())
    def test_any_text_is_one_element_and_one_json_value(self, name, value):
        source = element("p", value, data_name=name)
        found = Page(source)
        assert [tag for tag, _ in found.tags] == ["p"]
        code = markup._templates().from_string("{{ value | tojson }}").render(value=[name, value])
        assert not re.search("[<>&]", code)
        assert json.loads(code) == [name, value]
        assert source.encode()


def step(**changes):
    return (
        plain_step("visit", 4, scores={"total": 0.25}, tokens=7, p_yes=0.5, flops=flops(2.0))
        | changes
    )


class TestContents:
    def test_every_part_is_there(self, tmp_path):
        found = Page(page(two(tmp_path), PageOptions(title="My runs", description="Who is right?")))
        parts = [
            "My runs",
            "Who is right?",
            "scores highest of 2 methods",
            "musique · tiny",
            "Score against cost",
        ]
        places = [
            found.text.index(part)
            for part in [*parts, "Paired differences: musique", "About these runs"]
        ]
        assert places == sorted(places), "results come first"
        assert "1 of 3 questions failed (scored 0)" in found.text
        kinds = [str(a.get("class")) for tag, a in found.tags if tag == "div"]
        assert [kind for kind in kinds if kind.startswith("on-")] == ["on-wide", "on-narrow"]
        values = [a.get("data-value") for tag, a in found.tags if tag == "td" and "data-value" in a]
        assert "0.5" in values

    def test_scores_and_answers_of_each_question(self, tmp_path):
        found = Page(page(two(tmp_path)))
        (data,) = found.data
        assert [m["label"] for m in data["methods"]] == ["full-context", "pecan"]
        assert data["reference"] == 0
        assert data["values"] == [[0.1, 0.5, 0.9], [0.4, 0.5, 0.0]]
        assert data["questions"][2]["answers"][1]["error"] == "WindowExceeded: too long"
        assert (data["questions"][0]["gold"], data["failed"]) == (None, [[], [2]])
        assert "No gold answers" in found.text

    def test_gold_and_shown_text_come_from_the_data_set(self, tmp_path):
        config = {
            "name": "pocket/musique", "format": "pocket", "options": {"kind": "musique", "tokens": 1000, "hops": [2]},
            "instruction": "Answer.", "max_answer_tokens": 8, "scorers": [SCORE],
        }  # fmt: skip
        rows = load(DatasetConfig.model_validate(config))
        example = rows.examples[0]
        support = example.gold.supporting[0]
        ends = (support.start, support.end, support.end + 20)
        shown = [span(support.document_id, a, b) for a, b in itertools.pairwise(ends)]
        one = record(
            0, 0.5, question_id=example.question.id, shown=shown, steps=[step(shown=shown[0])]
        )
        manifest = {"dataset": {"fingerprint": rows.fingerprint}}
        run = read_run(write_run(tmp_path, [one], settings={"dataset": config}, manifest=manifest))
        found = Page(page([run]))
        (data,) = found.data
        question = data["questions"][0]
        assert question["texts"] == example.question.text
        assert question["gold"] == list(example.gold.answers)
        answer, text = (
            question["answers"][0],
            rows.documents[support.document_id].text[support.start : support.end],
        )
        assert answer["shown"][0]["text"].startswith(text[:500])
        assert [p.get("evidence") for p in answer["shown"]] == [True, None]
        assert answer["steps"][0]["text"].startswith(text[:150])
        assert "No gold answers" not in found.text
        changed = read_run(write_run(tmp_path / "b", [one], settings={"dataset": config}))
        assert "not those the run was made with" in (read_rows(changed).problem or "")

    def test_rows_of_the_hub_are_not_fetched(self, tmp_path, monkeypatch):
        monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "home"))
        monkeypatch.setenv("HF_HUB_OFFLINE", "0")
        config = {
            "name": "musique", "format": "musique", "hub": "nobody/none", "instruction": "Answer.",
            "max_answer_tokens": 8, "scorers": [SCORE],
        }  # fmt: skip
        rows = read_rows(stored(tmp_path, [0.5], settings={"dataset": config}))
        assert "HF_HUB_OFFLINE is set" in (rows.problem or "")

    def test_runs_that_must_not_be_compared_are_shown_with_the_reason(self, tmp_path):
        runs = [stored(tmp_path, [0.1, 0.2], method="full-context"), stored(tmp_path, [0.3])]
        found = Page(page(runs))
        assert "answered different questions" in found.text
        assert found.data[0]["values"] == [[0.1, 0.2], [0.3, None]]


class TestSize:
    def test_a_big_run_stays_small_and_says_what_is_left_out(self, tmp_path, monkeypatch):
        rng = random.Random(0)
        text = [" ".join(f"{rng.randrange(10**6)}" for _ in range(400)) for _ in range(30)]
        shown = {"kind": "generated", "document_id": "", "start": 0, "end": 0, "sources": []}
        rows = [
            record(
                i, 0.5, prediction=rng.choice(text), shown=[{**shown, "text": rng.choice(text)} for _ in range(14)],
                steps=[step(note=rng.choice(text), tokens=rng.randrange(10**6)) for _ in range(90)],
            )
            for i in range(24)
        ]  # fmt: skip
        run = read_run(write_run(tmp_path, rows))
        whole = page([run])
        answer = Page(whole).data[0]["questions"][0]["answers"][0]
        assert answer["prediction"].endswith(f"({len(rows[0]['prediction'])} characters)")
        counts = [
            answer["shown_total"],
            len(answer["shown"]),
            answer["steps_total"],
            len(answer["steps"]),
        ]
        assert counts == [14, 12, 90, 90]
        assert "So that the page stays small" not in Page(whole).text
        source = page([run], PageOptions(limits=PageLimits(max_bytes=75_000)))
        assert len(source) < len(whole) - 60_000
        fewer = Page(source)
        assert "texts are cut at 300 characters, and at most 8 pieces and 40 steps" in fewer.text
        assert len(fewer.data[0]["questions"]) == 24
        monkeypatch.setattr(details, "_MAX_PART_BYTES", 10_000)
        least = Page(page([run], PageOptions(limits=PageLimits(max_bytes=20_000))))
        (data,) = least.data
        kept = len(data["questions"])
        assert 5 < kept < 24
        assert (
            f"Details of {kept} of 24 questions (so that the page stays small); all can be searched"
            in least.text
        )
        assert len(data["values"][0]) == len(data["ids"]) == len(data["predictions"][0]) == 24

    def test_every_question_is_listed_and_details_are_in_parts(self, tmp_path):
        rows = [record(i, i / 300, prediction=f"answer {i} " + "x" * 3000) for i in range(300)]
        (data,) = Page(page([read_run(write_run(tmp_path, rows))])).data
        assert len(data["ids"]) == 300
        assert len(data["starts"]) > 1
        begins = [q["answers"][0]["prediction"][:10] for q in data["questions"]]
        assert begins == [f"answer {i} x"[:10] for i in range(300)]
        (data,) = Page(
            page([read_run(write_run(tmp_path / "b", rows))], PageOptions(limits=PageLimits(3)))
        ).data
        assert len(data["ids"]) == 300
        assert len(data["questions"]) == 3


def priced(root, method, score, tflops, **changes):
    rows = [
        record(i, score + (i % 3 - 1) / 50, usage={"answer": usage(tflops * (1 + i / 20))})
        for i in range(6)
    ]
    return read_run(write_run(root, rows, method=method, **changes))


def random_point(method, dice):
    """A method at a random place, with intervals of 10 % and 30 %."""
    score, cost = dice.beta(3, 4), 10 ** dice.normal()
    return front.MethodPoint(
        dataset="musique",
        method=method,
        model="tiny",
        score=front.Estimate(score, 0.9 * score, 1.1 * score),
        spent=front.Estimate(cost, 0.7 * cost, 1.3 * cost),
        cost="total",
        convention="causal",
        kind=front.BEST,
    )


class TestFront:
    def runs(self, root):
        code = "methods.long_context:FullContext"
        view = {"name": "oracle", "implementation": code, "view": "evidence", "params": {}}
        return [
            priced(root, "cheap", 0.2, 0.01),
            priced(root, "dear", 0.6, 10.0),
            priced(root, "bad", 0.3, 20.0),
            priced(root, "same", 0.6, 10.0),
            priced(root, "oracle", 0.9, 0.005, settings={"method": view}),
        ]

    def test_who_is_beaten_by_whom(self, tmp_path):
        runs = self.runs(tmp_path)
        found = {p.method: p.beaten_by for p in points(table_rows(runs))}
        assert found == {"cheap": (), "dear": (), "bad": ("dear", "same"), "same": (), "oracle": ()}

    def test_a_run_without_a_cost_is_not_drawn(self, tmp_path):
        rows = [record(0, 0.5, usage={"answer": usage(0.0, uncounted=1)})]
        runs = [read_run(write_run(tmp_path, rows))]
        assert points(table_rows(runs)) == []
        assert "No run of this data set" in page(runs)

    def test_a_mark_says_who_it_is_to_a_pointer(self, tmp_path, drawn):
        runs = self.runs(tmp_path)
        marks = points(table_rows(runs))
        kinds = [p.kind for p in marks]
        best = "best for its cost"
        assert kinds == [best, best, "beaten", best, "upper bound"]
        found = Page(front.to_html(marks, SCORE)[0])
        assert "bad (tiny): 30.0 at 22.5 TFLOPs; beaten by dear, same" in found.text
        assert all(name in found.text for name in ("cheap", "dear", "bad", "same", "oracle"))

    @pytest.mark.parametrize(
        "size", [front._WIDE_SIZE, front._NARROW_SIZE], ids=["1400 px", "390 px"]
    )
    def test_no_label_lies_beside_the_mark_of_another_method(self, size, monkeypatch, drawn):
        seen, place = [], front.place_labels

        def placed(anchors, *others):
            seen.append((anchors, place(anchors, *others)))
            return seen[-1][1]

        monkeypatch.setattr(front, "place_labels", placed)
        for seed in range(2):
            dice = np.random.default_rng(seed)
            rows = [random_point(f"raptor k={k}", dice) for k in range(12)]
            front.draw(rows, SCORE, size=size)
            anchors, boxes = seen.pop()
            for i, box in enumerate(boxes):
                away = np.linalg.norm(np.clip(anchors, box[:2], box[2:]) - anchors, axis=1)
                twins = (
                    np.linalg.norm(anchors - anchors[i], axis=1) < 8
                )  # marks that lie on each other
                assert away[~twins].min() >= min(away[i] + 1, 13), (
                    "a line leads to a label that is 14 points away"
                )

    @settings(max_examples=30)
    @given(st.lists(st.tuples(st.floats(70, 900), st.floats(20, 370)), min_size=1, max_size=9))
    def test_labels_do_not_overlap(self, anchors):
        size = np.full((len(anchors), 2), (88.0, 15.0))
        boxes = front.place_labels(np.array(anchors), size, (60, 0, 940, 380), np.zeros((0, 4)))
        for i, (left, low, right, high) in enumerate(boxes):
            assert 60 <= left < right <= 940
            assert 0 <= low < high <= 380
            for other in boxes[:i]:
                wide = min(right, other[2]) - max(left, other[0])
                assert wide <= 1e-6 or min(high, other[3]) - max(low, other[1]) <= 1e-6


def playable(root, monkeypatch, value=None):
    """A run whose search went over a graph that is in the cache."""
    monkeypatch.setenv("HARNESS_CACHE", str(root / "cache"))
    return searched(root / "runs", keep(root / "cache", value))


class TestReplay:
    def test_a_search_comes_with_its_graph_and_its_moves(self, tmp_path, monkeypatch):
        (data,) = Page(page([playable(tmp_path, monkeypatch)])).data
        assert [g["nodes"][6] for g in data["graphs"]] == [[3, "all of it", ["all of it"]]]
        answer = data["questions"][0]["answers"][0]
        assert answer["replay"]["graph"] == 0
        assert [step.get("parent") for step in answer["steps"]] == [None, 0, 1, 0, 3, None, 1]
        assert answer["steps"][1] == {
            "action": "visit", "node": 4, "level": 2, "p_yes": 0.2, "tokens": 5, "tflops": 1.0, "text": TEXT[4],
            "scores": {"attention": 0.25, "similarity": 0.5}, "parent": 0, "edge": 0.7, "evidence": "-",
        }  # fmt: skip
        assert (answer["steps"][6]["later"], answer["steps"][6]["answer"]) == (
            True,
            "a later answer",
        )

    def test_runs_and_questions_on_one_index_share_its_drawing(self, tmp_path, monkeypatch):
        one = playable(tmp_path, monkeypatch)
        other = searched(tmp_path / "runs", one.index_lines[0].key, hash8="aaaa0000")
        (data,) = Page(page([one, other])).data
        assert len(data["graphs"]) == 1
        assert [a["replay"]["graph"] for a in data["questions"][0]["answers"]] == [0, 0]

    def test_a_missing_index_is_a_sentence(self, tmp_path, monkeypatch):
        monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
        found = Page(page([searched(tmp_path, "0" * 64)]))
        assert "replay" not in found.data[0]["questions"][0]["answers"][0]
        assert "1 search cannot be drawn. The index of d0 is not in the cache" in found.text

    def test_graphs_are_bounded_and_what_is_left_out_is_said(self, tmp_path, monkeypatch):
        run = playable(tmp_path, monkeypatch)
        whole = len(page([run]))
        found = Page(page([run], PageOptions(limits=PageLimits(max_graph_bytes=100))))
        assert (
            found.data[0]["graphs"]
            == Page(page([run], PageOptions(limits=PageLimits(0)))).data[0]["graphs"]
            == []
        )
        assert "1 search cannot be played here, so that the page stays small" in found.text
        text = page(
            [
                playable(
                    tmp_path / "b", monkeypatch, index(text=["word " * 4000] * 6 + ["all of it"])
                )
            ]
        )
        assert len(text) < whole + 4000

    def test_hostile_texts_of_nodes_stay_texts(self, tmp_path, monkeypatch):
        value = index(text=[EVIL] * 7)
        monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
        moves = [made_step("start", 6, shown=None, note=EVIL, answer=EVIL)]
        found = Page(
            page([searched(tmp_path / "runs", keep(tmp_path / "cache", value), steps=moves)])
        )
        assert "alert(1)" not in found.code
        assert found.data[0]["graphs"][0]["nodes"][0][1] == EVIL

    @pytest.mark.skipif(
        shutil.which("node") is None, reason="the page's script needs node to be run"
    )
    def test_the_script_plays_the_search(self, tmp_path, monkeypatch):
        """tests/reports/play.js opens the page's script on a stand-in for the browser and presses
        keys."""
        (data,) = Page(page([playable(tmp_path, monkeypatch)])).data
        (tmp_path / "data.json").write_text(json.dumps(data))
        scripts = [
            str(ROOT / "reports/templates" / name) for name in ("page.js", "save.js", "player.js")
        ]
        done = subprocess.run(
            ["node", str(ROOT / "tests/reports/play.js"), str(tmp_path / "data.json"), *scripts],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        seen = json.loads(done.stdout)
        assert seen["first"] == {"step": "Step 0 of 6: start · node #6, level 3 · P(Yes) 0.1 · 5 tokens", "text": "all of it",
                                 "visited": ["6:0"], "later": [], "current": [6], "taken": 0}  # fmt: skip
        later = seen["right, right"]
        assert (later["visited"], later["current"], later["taken"]) == (
            ["1:2", "4:1", "6:0"],
            [1],
            2,
        )
        assert later["step"].startswith(
            "Step 2 of 6: visit · node #1, level 1 · from step 1 over an edge of 0.36"
        )
        assert seen["end"]["later"] == [0]
        assert seen["end"]["taken"] == 5
        assert re.search("behind the stop.*the answer here: a later answer", seen["end"]["step"])
        assert seen["home"] == seen["first"]
        assert seen["slider to 3"]["current"] == [5]
        assert seen["played"]["current"] == [2]
        assert seen["link"] == "#s=2"
        assert seen["linked to 5"]["current"] == [3]
        assert seen["probes"] == 7
        assert "M452 112C452 160 262 160 262 208" in seen["edges"]
        assert len(seen["edges"]) == 6


def test_docstrings_show_what_is_made():
    import doctest

    assert doctest.testmod(markup).failed == 0

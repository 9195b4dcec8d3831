"""Received run folders, under every verb: no name in them is imported, and no cut or flipped byte is a traceback."""

import copy
import io
import json
import random
import re
import shutil
import sys
import traceback
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
import yaml

import harness
from harness.cli.main import main
from harness.storage.run_files import DOCUMENTS, MANIFEST, RECORDS, RUN, SUMMARY, TEXTS
from tests.made_up import musique_rows, write_rows
from tests.reports.searches import steps

NAMED = 15  # names in leaves drawn by a seed, besides every leaf that names a package
PLAIN = (RUN, MANIFEST, RECORDS, DOCUMENTS, SUMMARY)
VERBS = (
    ("report", "{root}"),
    ("report", "{root}", "--paper"),
    ("report", "{root}", "--by", "hops"),
    ("report", "{root}", "--html", "{root}/page.html"),
    *(("report", name, "{root}") for name in ("bands", "curves", "front", "memory", "nodes", "queries", "tokens")),
    ("report", "sweep", "{root}"),
    *(("study", study, "{root}") for study in ("position", "length", "trials", "requests")),
    ("autopsy", "{root}"),
    ("trace", "{run}", "{question}"),
    ("trace", "{run}", "{question}", "--graph", "{root}/graph.svg"),
    ("compare", "{run}", "{run}"),
    ("score", "{run}"),
    ("export", "{run}", "{root}/bundle.zip"),
    ("verify", "{root}/bundle.zip"),
    ("judge", "{run}", "--model", "scripted", "--set", "model.script={root}/script.yaml"),
    ("merge", "{root}"),
    ("show", "--method", "bm25", "--dataset", "musique", "--config", "{run}/run.yaml"),
    ("validate", "--config", "{run}/run.yaml"),
    ("run", "--config", "{run}/run.yaml", "--mlflow", "off", "--out", "{root}/again", "--limit", "1"),
)
NOTHING_TO_SHOW = {"curves", "memory", "sweep", "trials", "--graph"}  # no recorded stop, twin, graph


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A run folder as `harness run` leaves it, with steps of a search, a failed question and a role; what judge needs is beside."""
    folder = tmp_path_factory.mktemp("stored") / "results"
    rows = write_rows(folder.parent / "rows.jsonl", musique_rows(3))
    made = harness.run("bm25", "musique", data=str(rows), model="random", mlflow="off", out=folder)
    run = Path(made.folder)
    content = yaml.safe_load((run / RUN).read_text())
    content["config"]["roles"] = {"builder": copy.deepcopy(content["config"]["model"])}
    (run / RUN).write_text(yaml.safe_dump(content))
    failed = {"error": {"type": "WindowExceeded", "message": "too long"}, "prediction": ""}
    for number in range(3):
        write(run / RECORDS, read(run / RECORDS, number) | {"steps": steps()} | (failed if number == 2 else {}), number)
    shutil.copytree(run, run.with_name("sound--" + run.name))
    (folder / "script.yaml").write_text("replies: [{reply: yes it is}]\n")
    return run


def leaves(value, at=()):
    """The paths of values that hold no other."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path for key, one in inner for path in leaves(one, (*at, key))] or [at]


def read(file, number=0):
    """The value in a file, or in one of its lines."""
    data = file.read_bytes()
    if file.suffix == ".yaml":
        return yaml.load(data, yaml.CSafeLoader)
    return json.loads(data.splitlines()[number] if ".jsonl" in file.name else data)


def write(file, value, number=0):
    """Put the value in the place of the file, or of that line."""
    if file.suffix == ".yaml":
        file.write_text(yaml.dump(value, Dumper=yaml.CSafeDumper))
    elif file.suffix == ".jsonl":
        lines = file.read_text().splitlines()
        file.write_text("\n".join([*lines[:number], json.dumps(value), *lines[number + 1 :]]) + "\n")
    else:
        file.write_text(json.dumps(value))


class Received:
    """Copies of the stored run, each changed and given to one verb; `bad` collects what must not happen."""

    def __init__(self, stored, at):
        self.results = stored.parents[1]
        self.root = at / "results"
        self.run = self.root / stored.relative_to(self.results)
        self.question = read(stored / RECORDS)["question_id"]
        self.bad = []

    def fresh(self):
        """The run, as it was received."""
        shutil.rmtree(self.root, ignore_errors=True)
        shutil.copytree(self.results, self.root)
        return self.run

    def outcome(self, verb):
        """Exit code, stdout and stderr of a verb; what it needs is made from the run as it is."""
        words = [word.format(root=self.root, run=self.run, question=self.question) for word in verb]
        if verb[0] == "verify":
            called(["export", str(self.run), words[1]])
        return called(words)

    def tried(self, verb, what):
        """What `outcome` says; another end than one sentence or a result is bad."""
        code, out, err = self.outcome(verb)
        if code not in (0, 2, 3, 4) or "Traceback" in err:
            self.bad.append(f"{what} {verb}: {code} {re.sub(r'.*File', 'File', err[-700:])}")
        return code, out, err


def called(words):
    """The exit code, stdout and stderr; 1 and the traceback for anything else than an exit."""
    out, said = io.StringIO(), io.StringIO()
    try:
        with redirect_stdout(out), redirect_stderr(said):
            main(words)
    except SystemExit as end:
        return end.code, out.getvalue(), said.getvalue()
    except BaseException:  # noqa: BLE001 - what this test looks for
        return 1, out.getvalue(), traceback.format_exc()
    return None, out.getvalue(), said.getvalue()


def test_every_verb_reads_the_run_as_it_was_received(stored, tmp_path):
    """Otherwise the tests below would try nothing."""
    received = Received(stored, tmp_path)
    for verb in VERBS:
        received.fresh()
        code, _, err = received.outcome(verb)
        expected = 4 if verb[0] == "verify" else 2 if NOTHING_TO_SHOW & {*verb} else 0  # records were changed by hand
        assert code in (expected, 0), (verb, code, err)


def test_no_leaf_of_a_run_is_imported(stored, tmp_path, monkeypatch):
    (tmp_path / "sentinel" / "inner").mkdir(parents=True)
    for package in ("sentinel", "sentinel/inner"):
        (tmp_path / package / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)

    names = ("sentinel.inner", "sentinel:run", "package:sentinel.inner/rows.jsonl")
    draw = random.Random(0)
    pairs = [(file, leaf, verb) for file in PLAIN for leaf in leaves(read(stored / file)) for verb in VERBS]
    drawn = [(file, leaf, draw.choice(names), verb) for file, leaf, verb in draw.sample(pairs, NAMED)]
    cases = [(file, leaf, names[0], verb) for file, leaf, verb in pairs if leaf[-1:] == ("package",)] + drawn
    received = Received(stored, tmp_path)
    for file, leaf, name, verb in cases:
        run = received.fresh()
        value = holder = read(run / file)
        for key in leaf[:-1]:
            holder = holder[key]
        holder[leaf[-1]] = [name] if isinstance(holder[leaf[-1]], list) else name
        write(run / file, value)
        received.tried(verb, f"{file} {leaf} {name}")
        if sys.modules.pop("sentinel", None):
            received.bad.append(f"{file} {leaf} {name} {verb}: IMPORTED")
    assert not received.bad, f"{len(received.bad)} of {len(cases)}:\n" + "\n".join(received.bad[:40])


def _flipped(file, draw):
    data = bytearray(file.read_bytes())
    for _ in range(draw.randint(1, 4)):
        data[draw.randrange(len(data))] = draw.randrange(256)
    file.write_bytes(data)


def _cut(file, draw):
    file.write_bytes(file.read_bytes()[: draw.randrange(len(file.read_bytes()))])


def test_no_damage_ends_in_a_traceback(stored, tmp_path):
    received = Received(stored, tmp_path)
    for case, verb in enumerate(VERBS):
        draw = random.Random(case)
        run = received.fresh()
        damage = draw.choice((_flipped, _cut))
        file = run / draw.choice((*PLAIN, TEXTS))
        damage(file, draw)
        code, out, err = received.tried(verb, f"{case} {damage.__name__} {file.name}")
        if verb == ("report", "{root}"):
            assert "bm25" in out, f"case {case}: the sound run is not shown: {err}"
            assert code == 0 or "left out" in err
    assert not received.bad, f"{len(received.bad)} of {len(VERBS)}:\n" + "\n".join(received.bad)

"""Bad input, its message and its exit code; every fiftieth case in a fresh process, the others in
this one."""

import pickle

import pytest

from harness.cli import validate
from harness.errors import ConfigError, DataError, Missing, UnknownName

ECHO = ["--method", "echo", "--dataset", "pocket/musique", "--mlflow", "off"]
BM25 = ["--method", "bm25", *ECHO[2:]]
MINE = ["--method", "echo", "--dataset", "musique", "--mlflow", "off"]
CLOSED = ["--method", "closed-book", "--dataset", "pocket/musique", "--mlflow", "off", "--set"]
POCKET, OUT = ["--model", "pocket-llama", "--dataset", "pocket/musique"], ["--out", "out"]
TRAIN = ["train", "longrefiner"]
FILES = {
    "typo.yaml": "limt: 3\n",
    "twice.yaml": "seed: 1\nseed: 2\n",
    "their.yaml": "methods: {ecko: {k: 1}}\n",
    "broken.jsonl": '{"id": "a"\n',
    "s.yaml": "replies: [{reply: Paris}]\n",
}

# (arguments, parts of the message)
CASES = [
    (["pockt"], ["error: No such command 'pockt'. Did you mean 'pocket'?  (harness --help)\n"]),
    (
        ["pocket", "evl"],
        ["error: No such command 'evl'. Did you mean 'eval'?  (harness pocket --help)\n"],
    ),
    (["study", "--parts", "3"], ["error: No such option: --parts  (harness study --help)\n"]),
    (["run", "--limt", "3"], ["No such option: --limt", "Did you mean '--limit'?"]),
    (["run", *ECHO, "--limit", "many"], ["--limit", "valid integer  (harness run --help)"]),
    (["run", *ECHO, "--limit", "0"], ["limit=0 (--limit)", "greater than 0"]),
    (["run", *ECHO, "--seed", "-1"], ["seed=-1 (--seed)", "greater than or equal to 0"]),
    (["run"], ["2 mistakes", "name a method: --method NAME", "name a data set: --dataset NAME"]),
    (
        ["run", "--method", "ecko", "--dataset", "pocket/musique"],
        ["unknown method 'ecko'. Did you mean 'echo'"],
    ),
    (
        ["run", "--method", "mine", "--dataset", "pocket/musique"],
        ["unknown method 'mine'", "harness list methods"],
    ),
    (
        ["run", "--method", "echo", "--dataset", "musiqe"],
        ["unknown data set 'musiqe'. Did you mean 'musique'"],
    ),
    (
        ["run", *ECHO, "--model", "lama-3.1"],
        ["unknown model 'lama-3.1'. Did you mean", "harness list models"],
    ),
    (["run", *BM25, "--model", "./smal"], ["no model folder './smal'"]),
    (
        ["run", "--method", "pecan", "--dataset", "pocket/musique"],
        ["method 'pecan': a window of 2048 tokens leaves no room", "(--profile pocket)"],
    ),
    (
        ["run", *BM25, "--model", "http://127.0.0.1:9/v1"],
        ["--model endpoint --set model.base_url=http://127.0.0.1:9"],
    ),
    (["run", "--suite", "first-slce"], ["unknown suite 'first-slce'. Did you mean 'first-slice'?"]),
    (["run", *ECHO, "--set", "k=3"], ["unknown key 'k' (--set). Did you mean 'method.k'?"]),
    (
        ["run", *ECHO, "--set", "model.dtyp=float32"],
        ["unknown key 'model.dtyp' (--set). Did you mean 'dtype'?"],
    ),
    (
        ["run", *ECHO, "--set", "model.dtype=fp8"],
        ["model.dtype='fp8' (--set): should be 'auto', 'float32'"],
    ),
    (
        ["run", *ECHO, "--set", "method.k=many"],
        ["method.k='many' (--set): should be a valid integer"],
    ),
    (["run", *ECHO, "--set", "method.k"], ["'--set method.k' is no assignment; write KEY=VALUE"]),
    (
        ["run", *ECHO, "--set", "method.k=1", "method.k=2"],
        ["'method.k' is set twice: to 1 and to 2"],
    ),
    (["run", *ECHO, "--limit", "1", "--set", "limit=2"], ["'limit' is given twice"]),
    (["run", *ECHO, "--set", "method.k=[1"], ["'[1' is not a YAML list or mapping"]),
    (["run", *ECHO, "--set", "profile=paper"], ["'profile' is chosen with --profile"]),
    (
        ["run", *ECHO, "--set", "methods.bm25.k=2"],
        ["'methods.bm25.k' belongs into a file", "--set method.k=VALUE"],
    ),
    (
        ["run", *ECHO, "--set", "roles.bilder=default"],
        ["unknown role 'bilder'. Did you mean 'builder'?"],
    ),
    (["run", *ECHO, "--set", "roles.reader=default"], ["set the reader with --model"]),
    (["run", *ECHO, "--set", "roles.encoder=minilm"], ["set the encoder with --set encoder=NAME"]),
    (["run", *ECHO, "--set", "roles.builder=3"], ["unknown model '3'"]),
    (["run", *ECHO, "--set", "encoder=null"], ["unknown encoder 'null'"]),
    (
        ["run", *ECHO, "--set", "dataset.scorers=[flashrag.emm]"],
        ["scorer 'flashrag.emm'. Did you mean 'flashrag.em'"],
    ),
    (
        ["run", *ECHO, "--set", "dataset.scorers=[my.own]"],
        ["scorer 'my.own'", "your own: module:function"],
    ),
    (
        ["run", *ECHO, "--set", "dataset.scorers=flashrag.em"],
        ["='flashrag.em' (--set): should be a valid list"],
    ),
    (
        ["run", *ECHO, "--set", "dataset.scorers=[]"],
        ["dataset.scorers=[] (--set): list should have at least 1 item"],
    ),
    (
        ["run", *MINE, "--data", "nowhere.jsonl"],
        ["nowhere.jsonl: no such file", "from the current folder"],
    ),
    (
        ["run", *MINE, "--data", "broken.jsonl"],
        ["error: broken.jsonl, line 1: broken JSON: ", "remove the row\n"],
    ),
    (
        ["run", *ECHO, "--config", "nowhere.yaml"],
        ["nowhere.yaml: cannot be read (No such file or directory)"],
    ),
    (
        ["run", *ECHO, "--config", "typo.yaml"],
        ["unknown key 'limt' (typo.yaml). Did you mean 'limit'?"],
    ),
    (
        ["run", *ECHO, "--config", "twice.yaml"],
        ["twice.yaml, line 2: the key 'seed' is given twice"],
    ),
    (
        ["run", *ECHO, "--config", "their.yaml"],
        ["unknown method 'ecko' (their.yaml). Did you mean 'echo'"],
    ),
    (
        ["run", "--method", "ranks", "--dataset", "pocket/musique"],
        ["'ranks' needs a reranker", "--set reranker=NAME"],
    ),
    (
        ["run", *ECHO, "--dataset", "musique", "--data", "x"],
        ["--data holds the rows of one data set, but 2 are named"],
    ),
    (["run", *MINE], ["could not be fetched", "--data FILE", "--dataset pocket/musique"]),
    (
        ["run", *ECHO, "--data", "rows.jsonl"],
        ["dataset.data: 'pocket/musique' is made up, not read; leave it out"],
    ),
    (["run", *ECHO, "--sweep", "method.kk=1,2"], ["unknown key 'method.kk' (--sweep)"]),
    (["run", *ECHO, "--set", "dataset.answer_prefix=' '"], ["error: dataset.answer_prefix="]),
    (["run", *ECHO, "--keep-texts", "maybe"], ["--keep-texts maybe: should be yes or no"]),
    (
        ["run", *ECHO, "--keep-texts", "no", "--set", "dataset.keep_texts=true"],
        ["'dataset.keep_texts' is given twice"],
    ),
    (["run", *CLOSED, "cache=replies", "dataset.keep_texts=false"], ["dataset.keep_texts forbids"]),
    (
        ["run", *CLOSED, "cache=replies", "model=scripted", "model.script=s.yaml"],
        ["be used with a scripted model"],
    ),
    (["run", *CLOSED, "cache=indexes"], ["cache='indexes'"]),
    (["run", *ECHO[:-1], "carrier-pigeon://x"], ["MLflow does not know 'carrier-pigeon://'"]),
    (["duel", *ECHO[:-2]], ["a duel needs two methods or more"]),
    (["duel", *ECHO[:-2], "dice", "--alpha", "2"], ["--alpha 2: should be between 0 and 1"]),
    (
        ["duel", "walks", "walks-fixed", *ECHO[2:-2]],
        ["make that run, then name its folder: --set method.max_nodes=from:RUN_FOLDER"],
    ),
    (
        ["reproduce", "pecan-tabel1"],
        ["unknown table or figure 'pecan-tabel1'. Did you mean 'pecan-table1'"],
    ),
    (
        ["reproduce"],
        [
            (
                "name a table or figure (harness reproduce --list), or write a page: --html "
                "reproduce.html"
            )
        ],
    ),
    (["reproduce", "--html", "a.html", "--limit", "3"], ["a page of stored runs runs nothing"]),
    (["reproduce", "--html", "a.html", "--margin", "0"], ["--margin 0: should be more than 0"]),
    (["train", "bm25", *OUT], ["'bm25' has no adapters to train"]),
    (
        [*TRAIN, "--task", "analyses", *OUT],
        ["unknown task of 'longrefiner' 'analyses'. Did you mean 'analysis'"],
    ),
    (
        [*TRAIN, "--teacher", "random", *OUT],
        ["name both --teacher MODEL and --dataset NAME, or neither"],
    ),
    ([*TRAIN, "--data", "rows.jsonl", *OUT], ["--data is where the rows of --dataset are"]),
    ([*TRAIN, "--profile", "tiny", *OUT], ["has no profile 'tiny'; it has: paper, pocket"]),
    ([*TRAIN, "--device", "tpu", *OUT], ["unknown device 'tpu'"]),
    ([*TRAIN, "--mlflow", "mlruns", *OUT], ["MLflow no longer writes to a folder ('mlruns')"]),
    ([*TRAIN, "--model", "scripted", *OUT], ["runs on a server, so it cannot be trained here"]),
    ([*TRAIN, "--model", "/no/where", *OUT], ["no model folder '/no/where'"]),
    (
        [*TRAIN, "--profile", "paper", *OUT],
        ["let a teacher label with --teacher MODEL --dataset NAME"],
    ),
    ([*TRAIN, "--eval", *OUT], ["there is no adapter 'analysis' in"]),
    (["show"], ["name what to show"]),
    (["show", "ecko"], ["unknown name 'ecko'. Did you mean 'echo'"]),
    (["show", "stored"], ["'stored' is a run", "harness report stored"]),
    (["show", "echo", "--kind", "methds"], ["unknown kind 'methds'. Did you mean 'methods'"]),
    (["validate", "--method", "ecko"], ["2 mistakes", "Did you mean 'echo'", "name a data set"]),
    (["compare", "nowhere"], ["there is no run folder 'nowhere'"]),
    (["compare", "."], ["'.' holds no run; make one with harness run"]),
    (["report", "nowhere"], ["there is no folder 'nowhere'"]),
    (["report", "results/echo*"], ["no folder matches the pattern 'results/echo*'"]),
    (["trace"], ["Missing argument 'RUN'"]),
]


@pytest.mark.parametrize("number", range(len(CASES)), ids=[" ".join(a) for a, _ in CASES])
def test_bad_input_is_one_clear_message_and_exit_code_2(number, cli, here, tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    arguments, parts = CASES[number]
    if "stored" in arguments:
        (tmp_path / "stored").mkdir()
        (tmp_path / "stored" / "run.yaml").touch()
    done = (here if number % 50 else cli)(*arguments)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr
    for part in parts:
        assert part in done.stderr, done.stderr
    assert not (tmp_path / "results").exists()
    assert not (tmp_path / "out").exists(), "nothing was begun"


def test_harness_configs_that_is_no_folder(cli):
    done = cli("list", HARNESS_CONFIGS="/nowhere").checked(2)
    assert "HARNESS_CONFIGS names '/nowhere', which is no folder" in done.stderr


def test_a_name_of_ones_own_without_harness_configs(here, monkeypatch):
    monkeypatch.delenv("HARNESS_CONFIGS")
    done = here("show", "echo", "--kind", "methods").checked(2)
    assert "(harness list methods; for your own set HARNESS_CONFIGS=FOLDER)" in done.stderr


CODE = {
    "no_name.py": "import json\nfrom harness.method import Methd\n",
    "no_module.py": "from harness.metod import Method\n",
    "no_syntax.py": "class Thing\n    pass\n",
    "no_helper.py": "import divides_by_zero\n",
    "divides_by_zero.py": "def half():\n    return 1 / 0\n\n\nHALF = half()\n",
}
WRONG = [
    (
        "implementation: tests.cli.fakes:Ecko\n",
        ["unknown name in module 'tests.cli.fakes' (", "fakes.py) 'Ecko'", "'Echo'"],
    ),
    (
        "implementation: tests.cli.fakes:NotAMethod\n",
        ["is not a subclass of harness.method.Method"],
    ),
    (
        "implementation: no_name:Thing\n",
        ["no_name.py, line 2: ImportError: cannot import name 'Methd'"],
    ),
    (
        "implementation: no_module:Thing\n",
        ["no_module.py, line 1: ModuleNotFoundError", "named 'harness.metod'"],
    ),
    (
        "implementation: no_syntax:Thing\n",
        ["'no_syntax:Thing' cannot be imported: SyntaxError", "(no_syntax.py, line 1)"],
    ),
    (
        "implementation: no_helper:Thing\n",
        ["divides_by_zero.py, line 5: ZeroDivisionError: division by zero"],
    ),
    (
        "implementation: tests.cli.fakes:Echo\nparam: {k: 1}\n",
        ["'method.param'", "Did you mean 'params'"],
    ),
    ("extends: mine\n", ["extends itself"]),
    ("extends: ecko\n", ["unknown method 'ecko'"]),
    ("params: {k: 1}\n", ["method.implementation is missing"]),
    (
        "implementation: tests.cli.fakes:Echo\nview: evidense\n",
        ["method.view='evidense'", "'evidence'"],
    ),
    (
        "implementation: tests.cli.fakes:Echo\nby_dataset: {musique: {q: 1}}\n",
        ["unknown key 'method.q'"],
    ),
]


@pytest.fixture
def checks(monkeypatch):
    """Let `harness validate` check only what is named so: all other presets, which take seconds,
    are right."""
    check = validate.check_file

    def only(begin):
        monkeypatch.setattr(
            validate,
            "check_file",
            lambda kind, name: check(kind, name) if name.startswith(begin) else None,
        )

    return only


def test_an_unknown_key_beside_a_preset_without_a_class_are_two_mistakes(here, configs):
    (configs / "methods" / "bare.yaml").write_text("params: {k: 1}\n")
    done = here("run", "-m", "bare", "-d", "pocket/musique", "--set", "kk=1").checked(2)
    assert "unknown key 'kk' (--set). Known: cache, " in done.stderr
    assert "method.implementation is missing" in done.stderr


def test_validate_finds_what_is_wrong_in_each_preset(here, configs, checks):
    checks("wrong")
    for name, text in CODE.items():
        (configs / name).write_text(text)
    for number, (text, _) in enumerate(WRONG):
        (configs / "methods" / f"wrong{number}.yaml").write_text(
            text.replace("mine", f"wrong{number}")
        )
    done = here("validate").checked(2)
    lines = done.stderr.splitlines()
    for number, (_, parts) in enumerate(WRONG):
        own = [line for line in lines if f"wrong{number}" in line]
        assert any(all(part in line for part in parts) for line in own), (number, done.stderr)


def test_validate_finds_a_parameter_that_no_method_has_in_a_profile(here, configs, checks):
    checks("bad")
    (configs / "profiles" / "bad.yaml").write_text("methods: {'*': {chunk_token: 3}}\n")
    done = here("validate").checked(2)
    assert "profiles/bad: unknown key 'methods.*.chunk_token'" in done.stderr
    assert "Did you mean 'chunk_tokens'" in done.stderr


@pytest.mark.parametrize(
    "error",
    [
        ConfigError(["a", "b"], ["b"]),
        DataError("rows.jsonl", 3, "id", "is empty"),
        Missing("no weights", "weights of x/y"),
        UnknownName("method", "pecn", ["pecan"]),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_of_a_worker_says_the_same_in_the_command(error):
    copied = pickle.loads(pickle.dumps(error))
    assert (type(copied), str(copied), vars(copied)) == (type(error), str(error), vars(error))

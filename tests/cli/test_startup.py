import os
import resource
import subprocess
import sys

import pytest

HEAVY = ("torch", "transformers", "datasets", "mlflow", "pandas", "matplotlib", "sentence_transformers", "scipy")
# A program that runs a command and reports which heavy packages it imported.
REPORT = f"""
import sys
from harness.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit as e:
    code = e.code
loaded = [m for m in {HEAVY!r} if m in sys.modules]
sys.stderr.write(f"LOADED {{loaded}} {{code}}")
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["list", "methods", "--json"],
        ["show", "pecan", "--dataset", "musique"],
        ["show", "evidence_recall"],
        ["validate"],
        ["validate", "--method", "pecan,bm25", "--dataset", "pocket/musique"],
        ["run", "--method", "pecn", "--dataset", "musique"],
        ["pocket", "--help"],
        ["pocket", "train", "--help"],
        ["pocket", "check", "nowhere"],
    ],
    ids=" ".join,
)
def test_a_light_verb_imports_nothing_heavy(arguments, environment, tmp_path):
    command = [sys.executable, "-c", REPORT, *arguments]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
    code = 2 if "pecn" in arguments or "nowhere" in arguments else 0
    assert done.stderr.endswith(f"LOADED [] {code}"), done.stderr


def test_a_finished_run_that_is_typed_again_loads_no_torch(environment, tmp_path):
    command = [sys.executable, "-c", REPORT, "run", "-m", "closed-book", "-d", "pocket/musique", "--limit", "2"]
    for loads in (True, False):
        done = subprocess.run(
            [*command, "--mlflow", "off"], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert ("'torch'" in done.stderr.rpartition("LOADED")[2]) == loads, done.stderr


@pytest.mark.parametrize(
    ("use", "not_loaded"),
    [
        ("0", ("numpy", "pydantic", "typer")),
        ("harness.load_run", ("numpy",)),
        ("import harness.tracking.track, harness.tracking.background, harness.tracking.metrics", ("numpy",)),
    ],
)
def test_import_harness_is_light(use, not_loaded, environment):
    program = f"import harness, sys; {use}; print([m for m in {(*HEAVY, *not_loaded)!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(("arguments", "times"), [(["--help"], 5), (["list"], 9)], ids=["--help", "list"])
def test_start_up_time(arguments, times, environment, tmp_path):
    """Processor seconds beside a Python that loads pydantic and yaml (a quiet core: 0.07 s, --help 0.08, list 0.25).

    A core that other work shares makes both slower: seconds alone failed beside a second suite (0.70 for `list`).
    """

    def seconds(*command):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *command], env=environment, cwd=tmp_path, capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    light = ["-c", "import pydantic, yaml; pydantic.BaseModel"]
    assert min(seconds("-m", "harness", *arguments) / seconds(*light) for _ in range(5)) < times


@pytest.fixture
def crowded(tmp_path):
    """A working directory with packages named like the project's own."""
    for name in ("methods", "configs", "reports", "pocket"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"raise SystemExit('{name} of the user')")
    return tmp_path


@pytest.mark.parametrize("program", [["-m", "harness", "show", "bm25"], ["-c", "import harness; harness.run"]])
def test_folders_of_the_user_never_shadow_the_project(program, crowded, environment):
    done = subprocess.run([sys.executable, *program], env=environment, cwd=crowded, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_package_of_the_user_that_was_imported_first_is_named(tmp_path, environment):
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports" / "__init__.py").write_text("")
    command = [sys.executable, "-c", "import reports, harness"]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert "ImportError: harness has a package 'reports' too; import harness before" in done.stderr


@pytest.mark.parametrize(("own", "policy"), [({}, "PASSIVE"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE")])
def test_idle_threads_sleep_unless_the_user_says_otherwise(own, policy):
    environment = {k: v for k, v in os.environ.items() if k != "OMP_WAIT_POLICY"} | own
    command = [sys.executable, "-c", "import harness, os; print(os.environ['OMP_WAIT_POLICY'])"]
    assert subprocess.run(command, env=environment, capture_output=True, text=True).stdout.strip() == policy

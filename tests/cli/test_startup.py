import os
import resource
import subprocess
import sys

import pytest

HEAVY = ("torch", "transformers", "datasets", "mlflow", "pandas", "matplotlib", "sentence_transformers", "scipy")
# A program that runs commands, one a line, and reports which heavy packages had been imported behind each.
REPORT = f"""
import sys
from harness.cli import main
main._exit_at_once = sys.exit
for line in sys.argv[1].splitlines():
    try:
        main.main(line.split())
    except SystemExit as e:
        code = e.code
    loaded = [m for m in {HEAVY!r} if m in sys.modules]
    sys.stderr.write(f"\\nLOADED {{loaded}} {{code}} {{line}}\\n")
"""
LIGHT = {
    "--help": 0,
    "list methods --json": 0,
    "show pecan --dataset musique": 0,
    "show evidence_recall": 0,
    "validate --method pecan,bm25 --dataset pocket/musique": 0,
    "run --method pecn --dataset musique": 2,
    "pocket --help": 0,
    "pocket train --help": 0,
    "pocket check nowhere": 2,
    "validate": 0,
}


def loaded(commands, environment, folder):
    """What a fresh process says of each command."""
    command = [sys.executable, "-c", REPORT, "\n".join(commands)]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=True)
    return [line for line in done.stderr.splitlines() if line.startswith("LOADED")]


def test_light_verbs_import_nothing_heavy(environment, tmp_path):
    assert loaded(LIGHT, environment, tmp_path) == [f"LOADED [] {code} {line}" for line, code in LIGHT.items()]


def test_a_finished_run_that_is_typed_again_loads_no_torch(here, environment, tmp_path):
    words = "run -m closed-book -d pocket/musique --limit 2 --mlflow off"
    here(*words.split()).checked()
    (said,) = loaded([words], environment, tmp_path)
    assert said.endswith(f" 0 {words}")
    assert "'torch'" not in said


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
    assert min(seconds("-m", "harness", *arguments) / seconds(*light) for _ in range(3)) < times


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

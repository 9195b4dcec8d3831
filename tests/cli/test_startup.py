import os
import resource
import subprocess
import sys

import pytest

HEAVY = (
    "torch",
    "transformers",
    "datasets",
    "mlflow",
    "pandas",
    "matplotlib",
    "sentence_transformers",
    "scipy",
    "sklearn",
    "nltk",
)
# A program that runs commands, one a line, and reports which heavy packages had been imported
# behind each.
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
    "validate --method pecan,bm25 --dataset pocket/musique --profile pocket": 0,
    "run --method pecn --dataset musique": 2,
    "pocket --help": 0,
    "pocket train --help": 0,
    "pocket check nowhere": 2,
}


def loaded(commands, environment, folder):
    """What a fresh process says of each command."""
    command = [sys.executable, "-c", REPORT, "\n".join(commands)]
    done = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, check=True
    )
    return [line for line in done.stderr.splitlines() if line.startswith("LOADED")]


def test_light_verbs_import_nothing_heavy(environment, tmp_path):
    assert loaded(LIGHT, environment, tmp_path) == [
        f"LOADED [] {code} {line}" for line, code in LIGHT.items()
    ]


def test_the_help_page_reads_no_configuration(environment, tmp_path):
    program = REPORT.replace(repr(HEAVY), repr((*HEAVY, "numpy", "pydantic", "yaml", "nltk")))
    command = [sys.executable, "-c", program, "--help"]
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stderr.splitlines()[-1] == "LOADED [] 0 --help"


def test_a_finished_run_that_is_typed_again_loads_no_torch(here, environment, tmp_path):
    words = "run -m closed-book -d pocket/musique --limit 2 --mlflow off"
    here(*words.split()).checked()
    (said,) = loaded([words], environment, tmp_path)
    assert said.endswith(f" 0 {words}")
    assert "'torch'" not in said


def test_a_run_imports_only_what_its_model_needs(environment, tmp_path):
    words = "run -m bm25 -d pocket/musique --limit 1 --mlflow off --set dataset.tokens=300"
    (said,) = loaded([words], environment, tmp_path)
    # transformers itself imports scipy where it is installed.
    assert said == f"LOADED {['torch', 'transformers', 'scipy']} 0 {words}"


@pytest.mark.parametrize(
    ("use", "not_loaded"),
    [
        ("0", ("numpy", "pydantic", "typer")),
        (
            (
                "harness.load_run, __import__('harness.tracking.track'), "
                "__import__('harness.tracking.background')"
            ),
            ("numpy",),
        ),
    ],
    ids=["import", "used"],
)
def test_import_harness_is_light(use, not_loaded, environment):
    program = f"import harness, sys; {use}; print([m for m in {(*HEAVY, *not_loaded)!r} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_start_up_time(environment, tmp_path):
    """Processor seconds beside a Python that loads pydantic and yaml (a quiet core: 0.07 s, list
    0.25).

    A core that other work shares makes both slower: seconds alone failed beside a second suite
    (0.70 for `list`).
    """

    def seconds(*command):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, *command],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            check=True,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    light = ["-c", "import pydantic, yaml; pydantic.BaseModel"]
    assert any(seconds("-m", "harness", "list") / seconds(*light) < 9 for _ in range(3))


def test_folders_of_the_user_never_shadow_the_project(environment, tmp_path):
    for name in ("methods", "configs", "pocket", "reports"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"raise SystemExit('{name} of the user')")

    def ran(*program):
        command = [sys.executable, *program]
        done = subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True
        )
        return done.returncode, done.stderr

    assert ran("-m", "harness", "show", "bm25") == (0, "")
    (tmp_path / "reports" / "__init__.py").write_text("")
    imported_first = ran("-c", "import reports, harness")[1]
    assert (
        "ImportError: harness has a package 'reports' too; import harness before" in imported_first
    )


@pytest.mark.parametrize(
    ("own", "policy"), [({}, "PASSIVE"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE")]
)
def test_idle_threads_sleep_unless_the_user_says_otherwise(own, policy):
    environment = {k: v for k, v in os.environ.items() if k != "OMP_WAIT_POLICY"} | own
    command = [sys.executable, "-c", "import harness, os; print(os.environ['OMP_WAIT_POLICY'])"]
    assert (
        subprocess.run(command, env=environment, capture_output=True, text=True).stdout.strip()
        == policy
    )

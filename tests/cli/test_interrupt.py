"""The end of an interrupted command, in a process of its own."""

import subprocess
import sys

import pytest

THREAD = "import sys, threading, time; threading.Thread(target=time.sleep, args=(60,)).start()\n"
MAIN = "import harness.cli.main as m; sys.argv = ['harness', 'run', '--method', 'x']\n"


@pytest.mark.parametrize(
    ("ends", "told"),
    [
        ("m._run_command = lambda _: 130", ""),
        ("m._run_command = lambda _: (_ for _ in ()).throw(KeyboardInterrupt)", "harness run --method x"),
    ],
)
def test_an_interrupted_command_waits_for_no_thread_and_ends_with_130(ends, told):
    code = f"{THREAD}{MAIN}{ends}\nm.main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert (done.returncode, "Traceback" in done.stderr) == (130, False)
    assert told in done.stderr

"""The same from Python as on the command line: run, load_run, compare, score; each is reached as harness.<name>.

run = harness.run("bm25", "pocket/musique", limit=10)             a Run
runs = harness.run(["bm25", "pecan"], "pocket/musique")           Runs: a list of them, with a table
run.records                                                       a DataFrame, a row a question
run.compare(other)                                                the paired difference
runs.plot("front.pdf")                                            score against cost
"""

from harness.api.results import Run as Run
from harness.api.results import Runs as Runs
from harness.api.results import compare as compare
from harness.api.results import judge as judge
from harness.api.results import load_run as load_run
from harness.api.results import score as score
from harness.api.running import Settings as Settings
from harness.api.running import run as run
from harness.storage.run_folder import read_run as read_run

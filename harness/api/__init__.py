"""The same from Python as on the command line: run, load_run, compare, score; each is reached as
harness.<name>.

The engine is loaded at the first use of `run`, `score` or `judge`: a stored run is read without it.

run = harness.run("bm25", "pocket/musique", limit=10)             a Run
runs = harness.run(["bm25", "pecan"], "pocket/musique")           Runs: a list of them, with a table
run.records                                                       a DataFrame, a row a question
run.compare(other)                                                the paired difference
runs.plot("front.pdf")                                            score against cost
"""

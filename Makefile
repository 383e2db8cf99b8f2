# What a developer and the CI run. Everything happens in a virtual environment of the checkout's
# own, made on first use and brought up to date when pyproject.toml or constraints.txt change. pip
# and apt are used as they are configured on the machine.

# GNU make 3.81, which macOS has, knows no .SHELLFLAGS.
SHELL := /bin/bash -euo pipefail
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

# Compiled modules are kept, wherever this is run: tests start hundreds of processes, and each would
# compile the library again.
export PYTHONDONTWRITEBYTECODE :=

VENV := .venv
BIN := $(VENV)/bin
# Servers that are unpacked and not installed.
PEERS := .peers
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# The first of these that is recent enough; `make PYTHON=…` names another.
PYTHON ?=
PYTHONS := python3.11 python3 python3.12 python3.13 python3.14
# Test processes: one more than cores, as those that test servers mostly wait. The first that has
# nothing more to do takes over half of what another still has. Further options of pytest.
JOBS ?= 3
WORKERS = -n $(JOBS) --dist worksteal
PYTEST_ARGS ?=
# Tests that wait for servers, processes and time take no core: they have a pass of their own, with
# more processes than cores. Whatever is not named here is in the first pass.
WAITERS ?= 12
WAITING := tests/services tests/delegation/test_start.py tests/delegation/test_group_commit.py \
	tests/pilots/store/test_killed.py $(wildcard $(addprefix tests/pilots/test_,accounts.py \
		binder_bounds.py binder_docs.py binder_grants.py binder_handlers.py binder_server.py \
		binder_tokens.py examples_at_work.py logging_at_work.py node_*.py output.py pilot_*.py protocol_alone.py))
# How many cases must agree with HTCondor in a run of all tests.
CONFORMANCE := 50000
# Options of `make bench`.
BENCH ?=
# How long `make fuzz` searches, and where; all targets by default.
SECONDS ?= 600
TARGETS ?=

SYSTEM_PACKAGES := slapd ldap-utils glue-schema slurm-wlm slurmrestd munge chromium \
	gridengine-master gridengine-client gridengine-exec busybox faketime shellcheck \
	postgresql slurmdbd mariadb-server man-db groff-base openssh-server apache2-bin

# A grid job meets a site: the command that `make demo` runs, and `make wheel-test` from the wheel.
DEMO := broker examples/job.jdl --ldif examples/site.ldif --ce examples/atlfarm006.ad \
	--nodes examples/nodes.ad --lrms slurm --at 2005-10-03T15:05:00Z

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-18s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: $(VENV)/.installed ## Broker the example job, down to the flags for the batch system
	@$(BIN)/classad $(DEMO)

.PHONY: loop
loop: $(VENV)/.installed-dev system-packages ## Take a job all the way on real servers: describe, publish, broker, submit, end
	@PYTHONPATH=. $(BIN)/python examples/loop.py

.PHONY: faults
faults: $(VENV)/.installed-dev system-packages $(PEERS)/condor ## Hand jobs over to real batch systems while they break
	$(BIN)/python -m pytest -q tests/services/test_slurm_faults.py \
		tests/services/test_gridengine_faults.py tests/services/test_condor_faults.py $(PYTEST_ARGS)

.PHONY: test
test: $(VENV)/.installed-dev system-packages $(PEERS)/condor $(PEERS)/moto ## Run all tests, those against real servers too
ifneq ($(PYTEST_ARGS),)
	$(BIN)/python -m pytest $(WORKERS) $(PYTEST_ARGS)
else
	@status=0; set -x; \
	$(BIN)/python -m pytest $(WORKERS) --conformance $(CONFORMANCE) \
		$(addprefix --ignore=,$(WAITING)) || status=1; \
	$(BIN)/python -m pytest -n $(WAITERS) --dist worksteal $(WAITING) || status=1; \
	exit $$status
endif

# Without servers and worker processes, HTCondor's library, random cases in number and the examples of
# documents.
FAST := -m 'not service and not oracle and not slow' \
	$(addprefix --ignore=tests/,oracle property attack services shards test_docs.py test_growth.py \
		test_caches.py cli/test_spread.py cli/test_reader_gone.py cli/test_in_hand.py \
		cli/test_binder.py delegation/test_start.py delegation/test_group_commit.py) \
	$(addprefix --ignore-glob='tests/pilots/test_,node_*' pilot_*' binder_server*' binder_day*' \
		binder_handlers*' examples_at_work*' logging_at_work*' binder_liars*') \
	--ignore=src/matchmaker/testing

.PHONY: test-fast
test-fast: $(VENV)/.installed-dev ## Run in a minute the tests that need no server and no HTCondor
	$(BIN)/python -m pytest -q $(WORKERS) $(FAST) $(PYTEST_ARGS)

.PHONY: test-library
test-library: $(VENV)/.installed-dev ## Run all tests that need no server, as CI does on each Python
	$(BIN)/python -m pytest -q $(WORKERS) -m 'not service' $(PYTEST_ARGS)

.PHONY: test-slow
test-slow: $(VENV)/.installed-dev system-packages $(PEERS)/condor $(PEERS)/moto ## Run all tests, and list the hundred slowest
	-$(BIN)/python -m pytest -q $(WORKERS) --junit-xml=build/tests.xml $(PYTEST_ARGS)
	$(BIN)/python tools/shape.py --tests build/tests.xml

.PHONY: shape
shape: $(VENV)/.installed ## Print the shape of the code: sizes, names, prose, modules a call
	$(BIN)/python tools/shape.py

.PHONY: test-random
test-random: $(VENV)/.installed-dev ## Run the tests in random order; SEED=… repeats one that was printed
	$(BIN)/python -m pytest $(WORKERS) -p randomly $(if $(SEED),--randomly-seed=$(SEED)) $(PYTEST_ARGS)

# How many random cases, and which: a seed that was printed gives the same cases again.
CASES ?= 1000000
SEED ?=

.PHONY: nightly
nightly: $(VENV)/.installed-dev ## Hold a million random expressions to HTCondor's own library, and attack
	$(BIN)/python -m tests.oracle.nightly --cases $(CASES) $(if $(SEED),--seed $(SEED))
	$(BIN)/python -m tests.attack.run $(if $(SEED),--seed $(SEED))
	$(BIN)/python -m tests.delegation.nightly $(if $(SEED),--seed $(SEED))
	MODEL_LEASE=4 $(BIN)/python -m pytest -q tests/delegation/test_model.py -k pause
	FACTORY_CASES=200 $(BIN)/python -m pytest -q tests/pilots/test_factory.py
	PORTAL_ORDERS=1000 PORTAL_SEED=$(SEED) \
		$(BIN)/python -m pytest -q tests/services/test_portal_faults.py
	FACTORY_SECONDS=600 FACTORY_KILLS=60 $(BIN)/python -m pytest -q tests/services/test_factory.py
	PARSER_CASES=20000 $(BIN)/python -m pytest -q tests/property/test_parser.py
	PROPERTY_SCALE=10 $(BIN)/python -m pytest -q -n 2 tests/property
	STREAM_CASES=2000 STREAM_POOLS=20 \
		$(BIN)/python -m pytest -q tests/property/test_streams_alone.py
	PILOT_KILLS=5000 $(BIN)/python -m pytest -q tests/pilots/test_pilot_faults.py
	STORE_TASKS=5000 STORE_CASES=5000 $(BIN)/python -m pytest -q tests/pilots/store
	FLAG_JOBS=300 FLAG_SEED=$(SEED) \
		$(BIN)/python -m pytest -q tests/services/test_slurm_flags.py -k partitions
	SHAPES_SIZE=120 SHAPES_CALLS=99 $(BIN)/python -m pytest -q -n 2 tests/attack/test_shapes.py
	PAIRS=10000 $(BIN)/python -m pytest -q tests/pilots/test_crossing.py \
		tests/pilots/test_protocol_alone.py
	BINDER_MINUTES=1440 $(BIN)/python -m pytest -q tests/pilots/test_binder_day.py
	PROPERTY_SCALE=10 $(BIN)/python -m pytest -q tests/pilots/test_node_slots.py
	BINDER_LIES=200000 $(BIN)/python -m pytest -q tests/pilots/test_binder_liars.py
	SHARD_KILLS=1000 $(BIN)/python -m pytest -q tests/shards/test_faults.py -k any_task

.PHONY: lint
lint: $(VENV)/.installed-dev ## Check style and likely bugs, workflows, forms and CITATION.cff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-issue-forms \
		.github/ISSUE_TEMPLATE/bug.yml .github/ISSUE_TEMPLATE/wish.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-issue-config \
		.github/ISSUE_TEMPLATE/config.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.citation-file-format CITATION.cff
	$(BIN)/zizmor --offline --quiet --pedantic .github/workflows

.PHONY: format
format: $(VENV)/.installed-dev ## Put the code into the one format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: types
types: $(VENV)/.installed-dev ## Check types
	$(BIN)/mypy

.PHONY: coverage
coverage: $(VENV)/.installed-dev ## Measure which lines and branches the tests without servers reach
	$(BIN)/python -m pytest $(WORKERS) -m 'not service' --cov --cov-report=html:build/coverage \
		--cov-report=term:skip-covered $(PYTEST_ARGS)

.PHONY: docs
docs: $(VENV)/.installed-docs ## Build the documentation site in build/site, and check every link
	$(BIN)/python -m zensical build --clean --strict
	$(BIN)/python tools/check_site.py build/site

# Where `make man` writes the pages; ~/.local/share/man/man1 is where man finds them.
MANDIR ?= build/man

.PHONY: pilot
pilot: $(VENV)/.installed-dev ## Build build/pilot.pyz, the pilot as one file for nodes with Python alone
	$(BIN)/python tools/zip_pilot.py build/pilot.pyz

.PHONY: pictures
pictures: $(VENV)/.installed-dev ## Draw the pictures of docs/why.md again, with chromium
	$(BIN)/python tools/pictures.py

.PHONY: man
man: $(VENV)/.installed-dev ## Write the man pages of the command to MANDIR
	$(BIN)/python tools/man_pages.py $(MANDIR)

.PHONY: release-check
release-check: $(VENV)/.installed-release ## Build what a release would upload, and check it
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist .
	$(BIN)/twine check --strict dist/*
	$(BIN)/check-wheel-contents dist/*.whl
	$(BIN)/python tools/check_release.py dist

.PHONY: wheel-test
wheel-test: $(VENV)/.installed-dev ## Build the wheel and try it outside the checkout
	@folder=$$(mktemp -d); trap 'rm -rf "$$folder"' EXIT; \
	$(BIN)/python -m build --no-isolation --outdir "$$folder/dist" . >"$$folder/build.log" 2>&1 \
		|| { cat "$$folder/build.log"; exit 1; }; \
	$(BIN)/python -m venv "$$folder/venv"; \
	"$$folder/venv/bin/python" -m pip --disable-pip-version-check --quiet install \
		-c constraints.txt "$$folder"/dist/*.whl; \
	mkdir "$$folder/elsewhere"; \
	cp -R examples "$$folder/elsewhere/examples"; \
	checkout=$$PWD; cd "$$folder/elsewhere"; \
	"$$folder/venv/bin/python" -I "$$checkout/tests/wheel_smoke.py" \
		"$$checkout" "$$folder/dist" $(DEMO)

.PHONY: bench
bench: $(VENV)/.installed-dev ## Time reading beside HTCondor's library in five minutes; BENCH=--quick in one
	$(BIN)/python benchmarks/reading.py $(BENCH)
	$(BIN)/python benchmarks/information_system.py $(BENCH)

.PHONY: bench-all
bench-all: bench ## Run the other benchmarks too; prints ratios
	$(BIN)/python benchmarks/real_ads.py
	$(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/pools.py
	$(BIN)/python benchmarks/shards.py
	$(BIN)/python benchmarks/merge.py
	$(BIN)/python benchmarks/filling.py
	$(BIN)/python benchmarks/memory_growth.py
	$(PIP) install -c constraints.txt --no-build-isolation -e '.[bench]'
	$(BIN)/python benchmarks/glue.py
	$(BIN)/python benchmarks/flags.py
	$(BIN)/python benchmarks/ledger.py
	$(BIN)/python benchmarks/decide.py
	PYTHONPATH=. $(BIN)/python benchmarks/delegation.py
	$(BIN)/python benchmarks/binder.py
	$(BIN)/python benchmarks/pilots_at_work.py
	PYTHONPATH=. $(BIN)/python benchmarks/pilots_and_slurm.py
	$(BIN)/python benchmarks/pilots.py
	$(BIN)/python benchmarks/stores.py

.PHONY: fuzz
fuzz: $(VENV)/.installed-fuzz ## Search for input that breaks the library, for SECONDS=600
	$(BIN)/python -m fuzz.run --seconds $(SECONDS) $(TARGETS)

.PHONY: clean
clean: ## Remove the environment, builds and caches
	rm -rf $(VENV) $(PEERS) build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src tests examples -name __pycache__ -type d -prune -exec rm -rf {} +

# --- the environment ---------------------------------------------------------------------------

$(VENV)/.created:
	@chosen=''; \
	for python in $(if $(PYTHON),'$(PYTHON)',$(PYTHONS)); do \
		if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
			chosen=$$python; break; \
		fi; \
	done; \
	if [ -z "$$chosen" ]; then \
		echo 'Python 3.11 or newer is needed; tried: $(or $(PYTHON),$(PYTHONS)).' >&2; \
		echo "python3 here is: $$(python3 --version 2>&1 || true)." >&2; \
		echo 'Install one, or name one: make PYTHON=/path/to/python3.11 …' >&2; \
		exit 1; \
	fi; \
	rm -rf $(VENV); \
	"$$chosen" -m venv $(VENV); \
	touch $@

# The build backend comes first and is pinned like the rest, so no build makes an environment of its
# own that the constraints don't reach.
$(VENV)/.backend: $(VENV)/.created constraints.txt
	$(PIP) install -c constraints.txt hatchling
	@touch $@

$(VENV)/.installed: $(VENV)/.backend pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt --no-build-isolation -e .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(PIP) install -c constraints.txt --no-build-isolation -e '.[dev]'
	@touch $@

$(VENV)/.installed-docs: $(VENV)/.installed
	$(PIP) install -c constraints.txt --no-build-isolation -e '.[docs]'
	@touch $@

$(VENV)/.installed-release: $(VENV)/.installed
	$(PIP) install -c constraints.txt --no-build-isolation -e '.[release]'
	@touch $@

$(VENV)/.installed-fuzz: $(VENV)/.installed-dev
	$(PIP) install -c constraints.txt --no-build-isolation -e '.[fuzz]'
	@touch $@

# --- the servers and the browser that service tests start ----------------------------------------

# Only what is missing is installed, and nothing is started: where no policy stands yet, one that
# refuses every start holds during the installation. Without root or apt the tests that need a server
# are skipped, which fails under CI=true.
.PHONY: system-packages
system-packages:
	@missing=''; \
	for package in $(SYSTEM_PACKAGES); do \
		dpkg-query -W -f '$${db:Status-Status}' "$$package" 2>/dev/null | grep -qx installed \
			|| missing="$$missing $$package"; \
	done; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if ! command -v apt-get >/dev/null || [ "$$(id -u)" != 0 ]; then \
		echo "Not installed:$$missing (needs root and apt). Tests that need them will be skipped." >&2; \
		exit 0; \
	fi; \
	policy=/usr/sbin/policy-rc.d; \
	if [ ! -e "$$policy" ]; then \
		trap 'rm -f "$$policy"' EXIT; \
		printf '#!/bin/sh\nexit 101\n' >"$$policy"; \
		chmod 755 "$$policy"; \
	fi; \
	export DEBIAN_FRONTEND=noninteractive; \
	{ apt-get -q update \
		&& apt-get -q install -y --no-install-recommends -o DPkg::Lock::Timeout=300 $$missing; } \
		|| echo "apt could not install:$$missing. Tests that need them will be skipped." >&2

# HTCondor is not in every release of Debian. It needs no root, and is made anew where the script is.
# An S3 server. It wants another dateutil than ours, and so has an environment for itself.
$(PEERS)/moto: | $(VENV)/.created
	@if $(BIN)/python -m venv $@ && $@/bin/python -m pip --disable-pip-version-check --quiet \
		install 'moto[s3,server]>=5'; then exit 0; fi; \
	rm -rf $@; \
	echo 'No S3 server could be installed. Tests that need it will be skipped.' >&2

$(PEERS)/condor: tests/services/unpack_condor.sh | system-packages
	@for attempt in 1 2 3; do \
		if $< $@; then exit 0; fi; \
		sleep $$attempt; \
	done; \
	echo 'HTCondor could not be unpacked. Tests that need it will be skipped.' >&2

# Everything runs in .venv, which the first target to need it creates; `make VENV=FOLDER` takes another folder.
# `make help` lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest
# The whole suite. Four workers on two cores: more than half of its time it waits for disks, sockets and other processes.
SUITE := $(PYTEST) -n 4 --dist loadgroup -q --durations=40 --durations-min=10
# Programs keep what they have compiled, also where the environment has another wish: else each of the hundreds of processes
# of the suite compiles all sources anew, which takes longer than most of what the processes then do.
unexport PYTHONDONTWRITEBYTECODE
# Which Python makes .venv; name one with `make PYTHON=/path/to/python3`. Without it: the first below that will do.
PYTHON ?=
PYTHONS := $(or $(PYTHON),python3 python3.14 python3.13 python3.12 python3.11 python)

.PHONY: help demo test collected distribution test-without test-slow-paths check lint types imports stubs docs bench conformance mutants tck-mutants traceability soak soak20 soak-whole soak-kills soak-cluster soak-cluster-seeds soak-closings soak-backlog soak-network soak-work soak-conformance java postgresql brokers browser unshare stomp-clients amqp-clients maven proton needs history-soak soak-spark clean

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## /\1\t/' | expand -t 15

# ------------------------------------------------------------------------------------------------------------ set-up

# A folder that make has not made is somebody's own, and left alone. `.making` is there while make makes one: what an
# interrupted run has left is made anew.
$(VENV)/.made:
	@if [ -e $(VENV)/.making ]; then rm -rf $(VENV); fi; \
	if [ -e $(VENV) ] || [ -L $(VENV) ]; then \
		found=$$($(BIN)/python -c 'import sys; print("an environment of Python %d.%d" % sys.version_info[:2])' 2>/dev/null) \
			|| found="no environment that works"; \
		printf '%s\n' "There is a $(VENV) that make has not made ($$found). It is left as it is. To go on, choose one:" \
			"  make VENV=.venv-make $(or $(MAKECMDGOALS),TARGET)    to have another one made and used" \
			"  $(BIN)/python -m pip install -e '.[dev]'    to use yours, without make" \
			"  rm -r $(VENV)    to have it made anew" >&2; \
		exit 1; \
	fi; \
	found=""; seen=""; \
	for python in $(PYTHONS); do \
		version=$$("$$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue; \
		seen="$$seen $$python ($$version)"; \
		"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || continue; \
		found=$$python; \
		"$$python" -c 'import venv, ensurepip' 2>/dev/null || continue; \
		echo "Setting up $(VENV) with $$python $$version ..."; \
		mkdir -p $(VENV); touch $(VENV)/.making; \
		"$$python" -m venv $(VENV); mv $(VENV)/.making $@; exit 0; \
	done; \
	if [ -n "$$found" ]; then \
		echo "$$found lacks the module venv. On Debian and Ubuntu: apt-get install python3-venv" >&2; \
	else \
		echo "pyjms needs Python 3.11 or newer; found:$${seen:- none}. Install one, or: make PYTHON=/path/to/python3" >&2; \
	fi; \
	exit 1

# Until 0.2.0 the distribution was called pyjms; what is left of it in an environment would be found beside the new one.
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
INSTALL := $(PIP) uninstall --yes pyjms 2>/dev/null; $(PIP) install --editable

# What the demo needs: the command, and two brokers that other processes reach.
$(VENV)/.run: $(VENV)/.made pyproject.toml
	@$(INSTALL) '.[broker,stomp]'
	@touch $@

# What the targets for developers need.
$(VENV)/.dev: $(VENV)/.made pyproject.toml
	@$(INSTALL) '.[dev]'
	@touch $(VENV)/.run $@

# ----------------------------------------------------------------------------------------------------------- targets

demo: $(VENV)/.run ## a workflow over two sites with a real data set; one site is killed on the way
	@$(BIN)/pyjms demo

test: $(VENV)/.dev ## the whole test suite
	@$(SUITE)

distribution: $(VENV)/.dev ## builds the wheel and the sdist, installs them in empty environments, and tries them
	@$(BIN)/python tools/check_distribution.py

# The folders in which tests need something from outside Python. Those that do are left out; no other may fail.
test-without: $(VENV)/.dev ## the tests that need more than Python, on a PATH without what they need: all are left out
	@$(BIN)/python -m tests.needs without $(PYTEST) -n 2 --dist loadgroup -q \
		tests/brokers tests/pyjms/spark tests/pyjms/telemetry tests/pyjms/forwarding/test_real_brokers.py \
		tests/pyjms/kombu/test_activemq.py tests/provider/clients/stomp/test_real_brokers.py tests/provider/management/console \
		tests/provider/stores/test_postgresql_*.py tests/provider/stores/test_sqlite_disk.py tests/provider/test_postgresql_server.py \
		tests/system/amqp tests/system/network/test_foreign_clients.py tests/tck/report

# A worker that finds the tests compiled has collected them in a third of the time, and there are four.
collected: $(VENV)/.dev ## collects the tests, and leaves them compiled
	@$(PYTEST) --collect-only -q | tail -n 20

# The longer ways beside the short ones (docs/how-to/work-on-pyjms.md). What is about a short way itself is left out.
test-slow-paths: $(VENV)/.dev ## the tests most concerned, with the short ways of hot paths turned off
	@PYJMS_FAST_PATHS=off $(PYTEST) -n 4 -q tests/provider/core --ignore tests/provider/core/test_handing_over.py \
		tests/provider/protocols/stomp/server/test_sending.py tests/provider/protocols/stomp/server/test_native.py \
		tests/provider/protocols/stomp/server/test_fetching.py tests/provider/clients/stomp/native/test_sending.py

check: lint types imports stubs docs ## everything that can be judged without running the tests

lint: $(VENV)/.dev ## ruff: rules and formatting
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(VENV)/.dev ## mypy --strict
	@$(BIN)/mypy

imports: $(VENV)/.dev ## the import contracts
	@$(BIN)/lint-imports --no-cache

stubs: $(VENV)/.dev ## the generated stubs are those of the present sources
	@if [ -f tools/make_stubs.py ]; then $(BIN)/python tools/make_stubs.py --check; fi

docs: $(VENV)/.dev ## the documentation site, in docs/_build/html
	@$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html
	@$(BIN)/python tools/check_site.py docs/_build/html

bench: $(VENV)/.dev ## the benchmarks; fails when one misses its floor
	@failed=0; for script in tests/benchmarks/bench_*.py; do $(BIN)/python "$$script" || failed=1; done; exit $$failed

conformance: $(VENV)/.dev ## the published conformance reports, in docs/conformance
	@$(BIN)/python -m tools.make_conformance

mutants: $(VENV)/.dev ## which share of small faults in core, runtime and stores the tests notice; a fresh random sample of 100 each
	@$(BIN)/python -m tests.mutants.sample

tck-mutants: $(VENV)/.dev ## the kill matrix: which faulty providers the conformance suite notices
	@$(BIN)/python -m tests.tck.broken.matrix

traceability: $(VENV)/.dev ## requirement -> tests -> result; fails when one is not realised
	@$(SUITE) --traceability

soak: soak-kills soak-cluster soak-cluster-seeds soak-closings soak-backlog soak-conformance history-soak soak-spark ## the long tests: kills on each store, and of members of a cluster, closes, histories, the conformance reports of all providers

soak20: $(VENV)/.dev ## the test suite 20 times, each time in another order
	@for run in $$(seq 20); do echo "run $$run of 20"; $(SUITE); done

soak-whole: $(VENV)/.dev ## the test suite with all cases of which it otherwise draws a sample
	@PYJMS_WHOLE=1 PYJMS_CONFORMANCE=whole $(SUITE) --timeout 3600

soak-network: $(VENV)/.dev ## over STOMP and AMQP: cuts connections 2,000 times, kills and stops the broker 50 times, cancels tasks through 50 restarts; serves a million messages
	@PYJMS_CUTS=2000 PYJMS_NETWORK_KILLS=50 PYJMS_CANCELLED=50 PYJMS_LOAD=full $(PYTEST) -n 0 -q --log-cli-level=INFO --timeout 7200 tests/system/network

soak-work: $(VENV)/.dev ## 750 kills: forwarders, over STOMP and AMQP, and the brokers at both ends, and whoever works on a workflow and on requests
	@PYJMS_FORWARD_KILLS=250 $(PYTEST) -n 0 -q --timeout 14400 tests/system/forwarding
	@PYJMS_WORK_KILLS=250 $(PYTEST) -n 0 -q --timeout 14400 tests/system/work

soak-kills: $(VENV)/.dev ## kills a working broker, and a coordinator, 200 times on each store, and judges what clients were told; 5,000 seeds of pipelines, 20,000 of the broker, 1,000 of queues with turns
	@PYJMS_KILLS=200 $(PYTEST) -n 0 -q tests/provider/kill
	@PYJMS_KILLS=200 $(PYTEST) -n 0 -q tests/provider/xa/test_coordinator.py
	@PYJMS_PIPELINE_SEEDS=5000 $(PYTEST) -n 0 -q tests/provider/simulation/test_pipelines.py
	@PYJMS_SIMULATION_SEEDS=20000 $(PYTEST) -n 2 -q --timeout 7200 tests/provider/simulation/test_simulation.py
	@PYJMS_TURNS_SEEDS=1000 $(PYTEST) -n 2 -q --timeout 7200 tests/provider/core/test_queue_turns_model.py

soak-cluster: $(VENV)/.dev ## kills the members of a cluster 200 times while clients work, beside stops, cuts and delays of links, and restarts of PostgreSQL, and judges the histories; measures the pauses of consumers
	@$(BIN)/python -m tests.system.cluster.faults $${PYJMS_CLUSTER_KILLS:-200} $${PYJMS_CLUSTER_SEED:-1}
	@$(BIN)/python -m tests.system.cluster.pauses 40 80

soak-cluster-seeds: $(VENV)/.dev ## 20,000 seeds of a simulated cluster
	@PYJMS_SIMULATED_CLUSTER_SEEDS=20000 $(PYTEST) -n 2 -q --timeout 14400 tests/provider/simulation/cluster

soak-conformance: $(VENV)/.dev ## the published conformance reports of all providers, made again whole and compared
	@PYJMS_CONFORMANCE=whole $(PYTEST) -n 2 -q --timeout 3600 tests/tck/test_golden.py tests/pyjms/aio/test_conformance.py

soak-closings: $(VENV)/.dev ## 100 rounds on each store, and by STOMP, in which threads close what others use
	@PYJMS_CLOSINGS=$${PYJMS_CLOSINGS:-100} $(PYTEST) -n 0 -q tests/provider/closing

soak-backlog: $(VENV)/.dev ## 5 GB of messages through a broker that may keep 200 MB of them in memory
	@PYJMS_BACKLOG_MB=5000 $(PYTEST) -n 0 -q --log-cli-level=INFO tests/system/backlog

# What some tests need from outside Python; the table of it is tests/needs/table.py.
java: ## Java, for the tests on Spark (this and the next: on Debian and Ubuntu; no service is started)
postgresql: ## PostgreSQL's server
brokers: ## ActiveMQ and RabbitMQ
browser: ## Chromium and its driver
unshare: ## what mounts full and read-only disks
stomp-clients: ## STOMP clients of Ruby, Perl and PHP
amqp-clients: ## AMQP clients of Node and Go, and the SDK of Azure Service Bus
maven: ## Maven, a JDK, and what Maven fetches: Joram's tests, Qpid JMS, stompjms, Artemis, ActiveMQ Classic with AMQP, Broker-J
proton: ## Qpid Proton for Python, built with a C compiler: the peer of the AMQP engine
java postgresql brokers browser unshare stomp-clients amqp-clients maven proton: $(VENV)/.made
	@$(BIN)/python -m tests.needs add $@

needs: $(VENV)/.made ## all of these, as far as they are missing
	@$(BIN)/python -m tests.needs add

history-soak: $(VENV)/.dev ## 10,000 random correct histories, which must raise no alarm
	@$(BIN)/python -m tests.pyjms.history.soak 10000

soak-spark: $(VENV)/.dev ## Spark: 200,000 orders, deaths at each point, thousands of histories, 100 million events; PYJMS_... make it shorter
	@PYJMS_SPARK_KILLS=all $(PYTEST) -n 0 -q --timeout 7200 tests/pyjms/spark/test_source.py
	@PYJMS_ORDERS=$${PYJMS_ORDERS:-200000} $(PYTEST) -n 0 -q -rP --timeout 7200 tests/pyjms/spark/commands/test_end_to_end.py
	@$(BIN)/python -m tests.pyjms.spark.killing $${PYJMS_SPARK_ROUNDS:-2}
	@$(BIN)/python -m tests.pyjms.spark.checker.comparing $${PYJMS_HISTORIES:-2000}
	@PYJMS_EVENTS=$${PYJMS_EVENTS:-100000000} $(BIN)/python tests/benchmarks/bench_checker.py

clean: ## removes what the other targets made
	@if [ -e $(VENV)/.made ] || [ -e $(VENV)/.making ]; then rm -rf $(VENV); fi
	@rm -rf build dist docs/_build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .benchmarks
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Every target prepares what it needs: see scripts/setup.
.DEFAULT_GOAL := help
.PHONY: help setup demo test test-on-spark test-the-rest acceptance check parity explore chaos histories soak bench bench-quick clean

PYTHON := .venv/bin/python

help: ## show the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

setup: ## prepare everything: .venv with the project, Java, the jars
	@scripts/setup all
	@echo "Ready: .venv holds the project; try make demo, make test"

demo: ## orders through Kafka and Spark, results on the screen; OPTIONS="--seconds 60" ends it
	@scripts/setup all
	@$(PYTHON) -m headrace demo orders $(OPTIONS)

# Two processes for the two cores: what runs on Spark, and the rest.
ON_SPARK := tests/chaos/test_chaos.py tests/spark tests/upgrades
test: ## run all tests but those of make acceptance
	@scripts/setup all
	@$(MAKE) --no-print-directory -j2 test-on-spark test-the-rest

test-on-spark:
	$(PYTHON) -m pytest -q -m "not acceptance" $(ON_SPARK)

test-the-rest:
	$(PYTHON) -m pytest -q -m "not acceptance" $(ON_SPARK:%=--ignore=%)

acceptance: ## run the tests that start whole applications: instances, demos, the pages of the examples, the dashboard
	@scripts/setup tests
	$(PYTHON) -m pytest -q -m acceptance

check: ## lint, formatting, types, layers
	@scripts/setup python
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy
	.venv/bin/lint-imports

parity: ## compare every operator with Kafka Streams
	@scripts/setup all
	@$(PYTHON) -m tests.oracle.report

explore: ## compare 2,000 new random topologies with Kafka Streams
	@scripts/setup all
	HEADRACE_EXPLORE=2000 $(PYTHON) -m pytest -q -o faulthandler_timeout=0 tests/oracle/test_random_topologies.py

chaos: ## kill drivers, workers and brokers, cut connections, again and again; SEED=… repeats a round, ROUNDS=… says how many
	@scripts/setup all
	@$(PYTHON) -m tests.chaos $(if $(SEED),--seed $(SEED)) $(if $(ROUNDS),--rounds $(ROUNDS))

histories: ## kill instances and check every answer of the others; SECONDS=… says how long, SEED=… repeats a run
	@scripts/setup all
	@$(PYTHON) -m tests.histories $(if $(SECONDS),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED))
	@$(PYTHON) -m tests.histories --rolling 2 $(if $(SEED),--seed $(SEED))

soak: ## an hour of everything at once: three brokers, a bad network, instances that die; SECONDS=… says how long
	@scripts/setup all
	@$(PYTHON) -m tests.soak $(if $(SECONDS),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED))

bench: ## race Kafka Streams and others; latency, recovery, growth, small batches, the service; up to 2.5 hours
	@scripts/setup all
	@$(PYTHON) -m benchmarks

bench-quick: ## race Kafka Streams on fewer records, once
	@scripts/setup all
	@$(PYTHON) -m benchmarks --quick

clean: ## remove .venv and the tools' caches; downloaded jars stay
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests examples -name __pycache__ -type d -prune -exec rm -rf {} +

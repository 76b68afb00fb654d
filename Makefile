# Every target prepares what it needs: see scripts/setup.
.DEFAULT_GOAL := help
.PHONY: help setup demo test check parity explore bench clean

PYTHON := .venv/bin/python

help: ## show the targets
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1\t\2/' | expand -t 16

setup: ## prepare everything: .venv with the project, Java, the jars
	@scripts/setup all
	@echo "Ready: .venv holds the project; try make demo, make test"

demo: ## run a first topology on the test driver
	@scripts/setup python
	@$(PYTHON) examples/first_topology.py

test: ## run all tests
	@scripts/setup all
	$(PYTHON) -m pytest -q

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
	HEADRACE_EXPLORE=2000 $(PYTHON) -m pytest -q tests/oracle/test_random_topologies.py

bench: ## measure the test driver's throughput
	@scripts/setup python
	@$(PYTHON) -m benchmarks

clean: ## remove .venv and the tools' caches; downloaded jars stay
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests examples -name __pycache__ -type d -prune -exec rm -rf {} +

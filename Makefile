# Everything starts here. `make` lists the targets; each one sets up what it needs.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
SYNC_FLAGS ?=

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

# uv comes from PATH, or is installed into .tools of this checkout: nothing outside it is changed.
$(STAMP): pyproject.toml uv.lock tools/bootstrap.py
	@$(PYTHON) tools/bootstrap.py $(SYNC_FLAGS)
	@touch $@

.PHONY: setup
setup: $(STAMP) ## Install Trellis and its tools into .venv
	@$(BIN)/python -m compileall -q src

.PHONY: demo
demo: setup ## Two weeks of a cluster, sized in four ways, with a report to look at
	@$(BIN)/python tools/demo.py

.PHONY: test
test: setup ## Run all tests but the demo in full, on a real control plane too
	@$(BIN)/python tools/all_tests.py

.PHONY: demo-test
demo-test: setup ## Check that the demo prints what the documentation shows
	$(BIN)/python -m pytest tests/docs/test_demo_in_full.py

.PHONY: node-test
node-test: setup ## Run the tests on a real node: kubelet, containerd, runc (needs Linux and root)
	@PYTHONPATH=. $(BIN)/python tools/node_tests.py

.PHONY: install-test
install-test: setup ## Install, upgrade and remove the chart with the real Helm on control planes of its own
	$(BIN)/python -m testbed build helm-4 helm-3 kubeconform kube-score kubectl
	$(BIN)/python -m pytest -n 3 --dist loadfile tests/cluster/install

.PHONY: machines-test
machines-test: setup ## Run the stories of nodes with the real Cluster API, the real Karpenter, and by gRPC
	@$(BIN)/python tools/machine_tests.py

.PHONY: sample
sample: setup ## Run some of the heavy suites (node, demo, install, machines, image), others with each commit, as CI does
	@$(BIN)/python tools/suite_sample.py

.PHONY: unit
unit: setup ## Run the unit tests alone (under a minute)
	$(BIN)/python -m pytest -n 2 tests/unit

.PHONY: cluster
cluster: setup ## Start a real control plane with nodes, for any kubectl; NODE=real: with a node whose pods run
	@$(BIN)/python -m testbed up $(or $(NODE),kwok)

.PHONY: lint
lint: setup ## Check format, style, types, layers and generated files
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/generate.py --check

.PHONY: bench
bench: SYNC_FLAGS := --group bench
bench: ## Measure: ratios against a peer in the same run
	@$(PYTHON) tools/bootstrap.py $(SYNC_FLAGS) && touch $(STAMP)
	@$(BIN)/python -m compileall -q src
	$(BIN)/python -m bench

.PHONY: docs
docs: setup ## Write the generated files anew: CRDs and reference pages
	$(BIN)/python tools/generate.py

.PHONY: site
site: SYNC_FLAGS := --group docs
site: ## Build the documentation as a site, with search, into build/site
	@$(PYTHON) tools/bootstrap.py $(SYNC_FLAGS) && touch $(STAMP)
	@$(BIN)/python tools/docs_site/build.py

.PHONY: image
image: setup ## Build the image as an OCI archive into build/image, by buildah where it is installed
	@$(BIN)/python tools/image/build.py

.PHONY: image-test
image-test: setup ## Start the image as the manifests do; record its size and the time that it takes to start
	IMAGE_RECORD_FILE=docs/images/image.json $(BIN)/python -m pytest -n 0 tests/cluster/deploy/test_image.py

.PHONY: release-files
release-files: setup ## Build what a release publishes into build/release: sdist, wheel, image, SBOM, provenance
	@$(BIN)/python tools/release/build.py

.PHONY: clean
clean: ## Remove everything that make made
	rm -rf $(VENV) .tools .cache .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache dist build
	find src tests testbed bench tools -name __pycache__ -type d -prune -exec rm -rf {} +

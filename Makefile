# Everything is run from .venv, which is rebuilt only when pyproject.toml or constraints.txt changes.
PYTHON ?= python3
BIN    := .venv/bin
STAMP  := .venv/.installed

# Extra arguments, e.g. `make test PYTEST_FLAGS="-k colouring"`.
PYTEST_FLAGS ?=
# Folder of feature files (.npz) that `make figures` and `make bench` measure on.
FEATURES     ?= features
# Experiments whose records the README's figures come from.
FIGURES      := main-table ablation invariance split trust memory distances
# Folders of photos that `make bench-photos` measures on.
PHOTOS       ?= photos
# MkDocs finds docs_site/ in this folder; Material's advertisement is switched off.
MKDOCS       := NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs
# Extras that `make extras` tries; all of them unless named.
EXTRAS       ?=
# Network that `make bench-training` trains.
BACKBONE     ?= hybrid-vit

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test lint docs docs-serve coverage slow examples wheel extras attack kill-serve kill-scale fuzz-serve bench-serve bench bench-photos bench-copies bench-quality bench-training bench-scale figures theory clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z][a-z -]*:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(STAMP)  ## learn letters, digits and Greek in two opposite orders, draw their look-alikes, forget one
	$(BIN)/gddsg demo --folder demo

test: lint  ## linters, types, import direction, then every test not marked slow
	OMP_NUM_THREADS=1 $(BIN)/pytest -n auto --dist loadgroup $(PYTEST_FLAGS)

lint: $(STAMP)  ## ruff, mypy and import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(STAMP)  ## the documentation site, in site/; a warning or a dead link is an error
	$(MKDOCS) build --quiet
	$(BIN)/python -m docs_site.check site

docs-serve: $(STAMP)  ## the same at http://127.0.0.1:8800, made again whenever a page changes
	$(MKDOCS) serve --dev-addr 127.0.0.1:8800

coverage: $(STAMP)  ## the tests once more, and how much of the package they run; fails below the floor in pyproject.toml
	OMP_NUM_THREADS=1 $(BIN)/pytest -n auto --dist loadgroup --cov --cov-report=term:skip-covered $(PYTEST_FLAGS)

slow: $(STAMP)  ## the tests marked slow or datasets
	$(BIN)/pytest -m "slow or datasets" $(PYTEST_FLAGS)

examples: $(STAMP)  ## run the examples and store what they print
	$(BIN)/python -m tests.test_examples

wheel: $(STAMP)  ## build wheel and sdist into dist/, and use both in empty environments; a few minutes
	$(BIN)/python -m tests.install.wheel

extras: $(STAMP)  ## try every extra of the wheel in dist/ in an environment of its own, and what is said without it
	$(BIN)/python -m tests.install.extras $(EXTRAS)

attack: $(STAMP)  ## kills, damage, forgery and hostile input by the thousand; under half an hour
	OMP_WAIT_POLICY=passive $(BIN)/python -m tests.attack

kill-serve: $(STAMP)  ## kill the HTTP service a hundred times under load, and look for what was lost or left behind
	$(BIN)/python -m tests.serve.kills --rounds 100

kill-scale: $(STAMP)  ## kill workers, machines and drivers that learn the first of PHOTOS="folder ..." and FILE=features.npz
	$(BIN)/python -m tests.scale.kills $(firstword $(PHOTOS)) $(FILE)

fuzz-serve: $(STAMP)  ## schemathesis on the HTTP service; needs pip install 'gddsg[fuzz]'
	$(BIN)/python -m tests.serve.fuzz --examples 200

bench-serve: $(STAMP)  ## measure the HTTP service with 32 clients beside bare embedding; leave the machine alone
	$(BIN)/python benchmarks/bench_serve.py

figures: $(STAMP)  ## measure accuracy, order invariance, trust and memory on FEATURES=folder
	$(BIN)/gddsg bench run $(FIGURES:%=experiments/%.toml) --data $(FEATURES)

theory: $(STAMP)  ## run the theory lab: closed forms, orders, Brooks and colours, with real graphs of FEATURES=folder
	$(BIN)/python -m benchmarks.theory_lab $(FEATURES)

bench: $(STAMP)  ## measure speed side by side on FEATURES=folder
	$(BIN)/python benchmarks/bench_learn.py $(FEATURES)

bench-photos: $(STAMP)  ## measure accuracy and speed on PHOTOS="folder ...", each with train/ and test/
	$(BIN)/python benchmarks/bench_photos.py $(PHOTOS)

bench-copies: $(STAMP)  ## measure what near copies of photos do on PHOTOS="folder ..."
	$(BIN)/python benchmarks/bench_copies.py $(PHOTOS) --classes 25

bench-quality: $(STAMP)  ## measure fast, good and best on PHOTOS="folder ..."; needs pip install 'gddsg[lite]'
	$(BIN)/python benchmarks/bench_quality.py $(PHOTOS) --shrink $(firstword $(PHOTOS))

bench-training: $(STAMP)  ## measure the training loop beside a bare one on the first of PHOTOS="folder ..."
	$(BIN)/python benchmarks/bench_training.py $(firstword $(PHOTOS)) --backbone $(BACKBONE)

bench-scale: $(STAMP)  ## measure learning on Ray beside the local engine on the first of PHOTOS="folder ..."; leave the machine alone
	$(BIN)/python benchmarks/bench_scale.py $(firstword $(PHOTOS)) --out benchmarks/records/scale.json

clean:  ## remove the environment, the caches, the site and built packages
	rm -rf .venv build dist demo site htmlcov .coverage .coverage.* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests benchmarks -type d -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -q -c constraints.txt -e '.[dev]'
	@touch $@

# The usual commands. Everything is built into build/ and .venv/, nothing is written elsewhere but system packages.
# `make help` lists the targets; CMake presets (CMakePresets.json) give the other builds.

SHELL := /bin/bash
export PATH := $(CURDIR)/.venv/bin:$(PATH)
PYTHON := .venv/bin/python
READY := .venv/.bootstrapped
RELEASE_PYTHON := python3
SITE := build/site
BUILD := build/release
CXX_FILES = python3 tools/tidy --list .cc .h
# Versions of clang-format disagree; this one decides.
CLANG_FORMAT_MAJOR := 14

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all bench reliability soak lint format clean wheel release site build-product \
	link-environment

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-11s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

$(READY): tools/bootstrap tools/requirements.txt
	tools/bootstrap
	@touch $@

$(BUILD)/build.ninja: CMakePresets.json | $(READY)
	cmake --preset release
	@touch $@

build-product: $(BUILD)/build.ninja
	cmake --build --preset release --target product

# `ebb` on the path of the environment, and `import ebbtide` without PYTHONPATH.
link-environment: build-product
	@ln -sfn ../../$(BUILD)/cli/ebb .venv/bin/ebb
	@site=$$($(PYTHON) -c 'import sysconfig; print(sysconfig.get_path("purelib"))') && \
		printf '%s\n' "$(CURDIR)/python" > "$$site/ebbtide.pth"

setup: link-environment ## install what is missing, build, and put `ebb` and `ebbtide` into .venv
	@echo "setup: done; try .venv/bin/ebb --help, or make demo"

demo: setup ## train a model larger than its memory, beside the same run with unlimited memory
	$(PYTHON) tools/demo.py

# REST=1/12, MINUTES=45: more of the rest, as tools/run_tests has it.
test: setup ## the tests of every day; says what it leaves out, the last line is the total
	@$(PYTHON) tools/run_tests $(if $(REST),--rest $(REST)) $(if $(MINUTES),--minutes $(MINUTES))

test-all: setup ## every test there is; takes hours
	@$(PYTHON) tools/run_tests --rest all

# SWAP=1: also kernel swap, for which swap is made and removed (root). LLAMA=PYTHON: one that has llama_cpp and gguf.
bench: setup ## the side-by-side benchmarks and their tables; takes hours
	@tools/bootstrap --bench
	@cmake --build --preset release
	@failed=0; bench() { echo "bench/$$*"; $(PYTHON) bench/$$* --save || failed=1; }; \
	bench g10.py; bench simulated/loops.py; bench simulated/sequences.py; bench devices.py; bench flash.py; \
	bench streams.py; bench arrays.py; \
	bench allocators.py; bench inference.py; bench inference.py --pipeline; bench inference.py --lora; \
	[[ -z "$(LLAMA)" ]] || bench inference.py --llama "$(LLAMA)"; \
	bench prediction.py; bench run.py $(if $(SWAP),--with-swap); $(PYTHON) bench/tables.py || failed=1; exit $$failed

# MINUTES=60: of fuzzing, instead of 3. TIMES=10: of each fault on the real drivers, instead of 3.
reliability: build-product ## inject faults, in simulation and on the real drivers; docs/reliability.md has what came
	@$(PYTHON) bench/simulated/reliability.py --save $(if $(MINUTES),--minutes $(MINUTES))
	@$(PYTHON) bench/reliability/real.py --save $(if $(TIMES),--times $(TIMES))
	@$(PYTHON) bench/reliability/inputs.py --save $(if $(MINUTES),--minutes $(MINUTES))
	@$(PYTHON) bench/tables.py

# MINUTES=2: instead of 60 under `ebb run`; stock, the same rounds take time of their own.
soak: build-product ## train, generate, fork, save and load for an hour while budgets change; every bit is compared
	@$(PYTHON) bench/reliability/soak.py --save $(if $(MINUTES),--minutes $(MINUTES))
	@$(PYTHON) bench/tables.py

# A wheel is for the Python that makes it: RELEASE_PYTHON=python3.12 for another. Tools come from pip's index.
wheel: ## a wheel for machines without a compiler, with adapters for five versions of torch, into dist/
	@$(RELEASE_PYTHON) tools/release wheel

release: ## all that is given away, each checked: source distribution, wheel, Debian packages; into dist/
	@$(RELEASE_PYTHON) tools/release

$(SITE)/venv/.ready: tools/requirements-site.txt
	@python3 -m venv $(SITE)/venv
	@$(SITE)/venv/bin/pip install -q --disable-pip-version-check -r $<
	@touch $@

# Nothing is compiled for it. mkdocs names its successor in every run; that is for us to know.
site: $(SITE)/venv/.ready ## the documentation as pages, which need no server and no network, into build/site/pages
	@NO_MKDOCS_2_WARNING=1 $(SITE)/venv/bin/mkdocs build --strict --quiet
	@echo "site: $(SITE)/pages/index.html"

lint: $(READY) ## the rules of the house: include directions, lengths, layout, Python syntax
	@python3 tools/tidy
	@python3 tools/mutate --check
	@python3 bench/simulated/ablation.py --check
	@if clang-format --version 2>/dev/null | grep -q 'version $(CLANG_FORMAT_MAJOR)\.'; then \
		$(CXX_FILES) | xargs -r clang-format --dry-run -Werror && echo "clang-format: no differences"; \
	else \
		echo "clang-format: version $(CLANG_FORMAT_MAJOR) is not installed, layout not checked"; \
	fi

format: ## apply the layout of .clang-format
	$(CXX_FILES) | xargs -r clang-format -i

clean: ## remove what was built, but not .venv
	rm -rf build dist python/ebbtide/_C.*.so python/ebbtide/_array.*.so python/ebbtide/_built_for.py
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +

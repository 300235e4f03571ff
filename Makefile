# What people and CI run. Every target installs what it lacks, and says what it does.
# Made for Debian 12 with Python 3.11 and nothing else; elsewhere it names what is missing.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# Bytecode is kept: without it, each worker and each command that a test starts compiles everything anew.
unexport PYTHONDONTWRITEBYTECODE

# The computer's own Python, never one from the internet.
export UV_PYTHON_DOWNLOADS := never
export PATH := $(CURDIR)/.venv/bin:$(PATH)

# uv of this computer, else the one of .uv.txt in a folder of our own: Debian lets nobody install into its Python.
UV := $(or $(shell command -v uv),build/uv/bin/uv)

# command=package: a package is installed only when its command is missing.
MACHINES := systemd-nspawn=systemd-container mmdebstrap=mmdebstrap nft=nftables ip=iproute2 mkfs.ext4=e2fsprogs ssh-keygen=openssh-client
LINTING := shellcheck=shellcheck git=git
TESTING := $(MACHINES) $(LINTING) initdb=postgresql restic=restic bwrap=bubblewrap chromium=chromium
SOAKING := $(MACHINES) git=git qemu-system-x86_64=qemu-system-x86 socat=socat restic=restic
# What the pictures of the chat page are written in.
PICTURING := /usr/share/doc/fonts-inter=fonts-inter
# What other bases than Debian 12's are built with: files, not commands.
BASES := /usr/share/distro-info/ubuntu.csv=distro-info-data /usr/share/keyrings/ubuntu-archive-keyring.gpg=ubuntu-keyring

LINTERS := ruff format mypy arrows ansible yaml shell pipelines secrets
# Half of a worker's time it waits, for machines and for services: three fill two cores.
WORKERS ?= 3
USER_NAME ?= ada

.PHONY: help setup demo test test-fast lint reference pictures coverage mutants bench soak clean pipeline-check pipeline-setup pipeline-approval pipeline-summary $(addprefix lint-,$(LINTERS)) built need-built need-machines need-linting need-testing need-picturing need-soaking need-bases

help: ## This list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 16

setup: .venv/installed ## The Python environment alone, in .venv

demo: .venv/installed need-machines ## From nothing to a user's own agent that answers
	@run() { printf '\n$$'; printf ' %q' "$$@"; printf '\n'; "$$@"; }
	run hermesops local up
	run hermesops image build hermes-base
	run hermesops provision $(USER_NAME) --plan light
	run hermesops instance chat $(USER_NAME) 'RUN: hostname' --reason demo
	printf '\n%s\n' 'next, to watch it: hermesops local up --monitoring'
	hermesops local status | sed -n 's/^chat  */to chat with it in a browser: /p'

test: .venv/installed need-testing need-built ## All tests; T='-k word' chooses among them
	@echo "==> Testing with $(WORKERS) workers; what boots machines runs in one of them, one after the other"
	pytest -n $(WORKERS) --dist loadgroup --no-loadscope-reorder $(T)

built: .venv/installed need-testing ## What tests need and no package brings, built or fetched once: a quarter of an hour on a new computer
	@python -m tests.support.suite.built

test-fast: .venv/installed ## What to run on each save: unit tests, without root, machines and those that take turns
	@pytest -q -n auto --dist load -m 'not (turns or machines)' tests/unit $(T)

lint: $(addprefix lint-,$(LINTERS)) ## Style, types, arrows, roles, YAML, shell, pipelines, and secrets in clear

pipeline-check: lint-pipelines lint-secrets ## Check .github/workflows by their schema, actionlint and zizmor; look for secrets in clear

pipeline-setup: .venv/installed ## In a pipeline: the Python environment, hermesops on the PATH, the signing key in a file
	@[ -z "$${GITHUB_PATH:-}" ] || echo "$(CURDIR)/.venv/bin" >>"$$GITHUB_PATH"
	if [ -n "$${PIPELINE_KEY:-}" ]; then
		umask 077
		printf '%s\n' "$$PIPELINE_KEY" >"$$RUNNER_TEMP/operator"
		echo "HERMESOPS_OPERATOR_KEY=$$RUNNER_TEMP/operator" >>"$$GITHUB_ENV"
	fi

pipeline-approval: ## In a pipeline: the approval that a second operator passed on, from APPROVAL to the file approval
	@printf '%s' "$$APPROVAL" | base64 --decode >approval || { echo "==> APPROVAL is no base64" >&2; exit 2; }

# Indented, and not between fences: no line of the text ends the block, whatever machines and vendors are called.
pipeline-summary: ## In a pipeline: the text on standard input as a block of code of the job's summary
	@{
		echo
		LC_ALL=C tr '\r\f\v' '   ' | LC_ALL=C awk 'NR <= 2000 { print "    " substr($$0, 1, 400) } END { if (NR > 2000) print "    (" NR - 2000 " lines more)" }'
		echo
	} >>"$$GITHUB_STEP_SUMMARY"

reference: .venv/installed ## Write what documents take from the code: runbooks/reference from commands' help, the wings, the pipelines, the API
	@echo "==> Writing runbooks/reference"
	python -m tests.support.documents.command_reference
	python -m tests.support.documents.diagrams
	python -m tests.support.documents.openapi

pictures: .venv/installed need-testing need-picturing ## Make the README's pictures, runbooks/pictures, from real runs on 200 simulated agents
	@echo "==> Making runbooks/pictures"
	python -m tests.support.documents.pictures

coverage: .venv/installed need-testing need-built ## Which lines of hermesops tests run, their children's included; T chooses tests
	@echo "==> Measuring which lines tests run"
	mkdir -p .coverage
	coverage erase
	coverage run -m pytest -n $(WORKERS) --dist loadgroup $(T)
	coverage combine --quiet
	coverage report

mutants: .venv/installed need-testing need-built ## Planted bugs, each of which a test has to notice; T='L12 R01' chooses among them
	@echo "==> Testing the tests with planted bugs"
	python -m tests.support.suite.mutants $(T)

bench: .venv/installed need-machines ## How fast it is, with what it was compared to; T='start engine machines' chooses
	@echo "==> Measuring"
	python -m tests.bench $(T)

# pytest ends with 5 where T chooses none.
soak: .venv/installed need-soaking need-bases need-built ## The full counts of what make test samples, and what needs whole computers
	@echo "==> Soaking"
	pytest tests/soak -s $(T) || [ $$? = 5 ]
	HERMESOPS_TEST_ALL=1 pytest -m 'turns or hypothesis' $(T) || [ $$? = 5 ]
	echo "==> Booting whole computers"
	pytest tests/integration -m qemu $(T) || [ $$? = 5 ]

clean: ## Remove what was built here; the local world is `hermesops local down --purge`
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .ansible .coverage

lint-ruff: .venv/installed
	@echo "==> ruff"
	ruff check .

lint-format: .venv/installed
	@echo "==> ruff format"
	ruff format --check .

lint-mypy: .venv/installed
	@echo "==> mypy"
	mypy
	# Apart and from their folder: seen from here, they would be part of a package ansible.
	cd ansible/plugins
	mypy --config-file ../../pyproject.toml --cache-dir ../../.mypy_cache/plugins --explicit-package-bases action connection filter inventory modules

lint-arrows: .venv/installed
	@echo "==> import-linter"
	lint-imports

# Without an inventory of ours: ansible-lint checks roles, not machines.
lint-ansible: .venv/installed need-linting
	@echo "==> ansible-lint"
	ANSIBLE_CONFIG=ansible/ansible.cfg ANSIBLE_INVENTORY_UNPARSED_FAILED=false ansible-lint -q ansible roles

lint-yaml: .venv/installed need-linting
	@echo "==> yamllint"
	git ls-files '*.yml' '*.yaml' .yamllint .ansible-lint | xargs yamllint --strict

lint-shell: need-linting
	@echo "==> shellcheck"
	git ls-files '*.sh' .ci/run | xargs shellcheck

# Without a network: actionlint is built here from locked source, the schema comes with its checker.
lint-pipelines: .venv/installed need-linting
	@echo "==> check-jsonschema, actionlint and zizmor"
	check-jsonschema --builtin-schema vendor.github-workflows --quiet .github/workflows/*.yml
	python -m tests.support.suite.actionlint .github/workflows/*.yml
	zizmor --offline --quiet --no-progress .github/workflows

# What looks like a secret and is none stands in .secrets.baseline: detect-secrets scan --no-verify --baseline .secrets.baseline
lint-secrets: .venv/installed need-linting
	@echo "==> detect-secrets"
	git ls-files -z | xargs -0 detect-secrets-hook --no-verify --baseline .secrets.baseline

# The stamp is younger than the lock and the metadata, or the environment is brought up to date.
.venv/installed: pyproject.toml uv.lock $(filter build/%,$(UV))
	@echo "==> Installing the Python environment into .venv, as uv.lock says"
	$(UV) sync --locked --all-extras --quiet
	touch $@

build/uv/bin/uv: .uv.txt
	@if ! python3 -c 'import ensurepip' 2>/dev/null; then $(call apt,python3-venv); fi
	echo "==> Installing uv into build/uv"
	python3 -m venv build/uv
	build/uv/bin/pip install --quiet --disable-pip-version-check --no-deps --only-binary=:all: --require-hashes --requirement .uv.txt

# Whoever chooses tests waits only for what those need. What cannot be had is for tests to say: they are skipped, or fail.
need-built: .venv/installed need-testing
	@$(if $(T),,python -m tests.support.suite.built || true)

need-machines:
	@$(call need,$(MACHINES))

need-linting:
	@$(call need,$(LINTING))

need-testing:
	@$(call need,$(TESTING))

need-picturing:
	@$(call need,$(PICTURING))

need-soaking:
	@$(call need,$(SOAKING))

need-bases:
	@$(call need,$(BASES))

# $(call need,command=package …): installs the packages whose commands are missing; a path stands for a file.
define need
missing=()
for pair in $(1); do
	[[ "$${pair%%=*}" == /* && -e "$${pair%%=*}" ]] || PATH="$$PATH:/usr/sbin:/sbin:$$(printf '%s:' /usr/lib/postgresql/*/bin)" command -v "$${pair%%=*}" >/dev/null || missing+=("$${pair##*=}")
done
if [ $${#missing[@]} -gt 0 ]; then $(call apt,$${missing[*]}); fi
endef

# $(call apt,package …): installs them where that is possible, and says what is missing where it is not. Tests start a
# PostgreSQL of their own, so Debian is told not to run one.
define apt
if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
	echo "==> Missing here, and only root on Debian can install it: $(1)" >&2
else
	echo "==> Installing from Debian: $(1)"
	if [[ " $(1) " == *" postgresql "* && ! -e /etc/postgresql-common/createcluster.conf ]]; then
		mkdir -p /etc/postgresql-common
		echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf
	fi
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -qq
	options=()
	if ! apt-get install --simulate -qq $(1) >/dev/null 2>&1; then $(backports); fi
	apt-get install -y -qq --no-install-recommends -o Dpkg::Options::=--force-confold "$${options[@]}" $(1) >/dev/null
fi
endef

# Where a release lacks a package, its backports may have it: asked this once, at the archive that this computer uses
# anyway, without a change of its sources.
define backports
. /etc/os-release
folder=$$(mktemp --directory)
trap 'rm -rf "$$folder"' EXIT
mkdir "$$folder/lists"
chmod 755 "$$folder"
apt-get indextargets --format 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $$(REPO_URI) $$(RELEASE) $$(COMPONENT)' 'Created-By: Packages' |
	sed -n "p; s/ $$VERSION_CODENAME main$$/ $$VERSION_CODENAME-backports main/p" >"$$folder/sources.list"
options=(-o Dir::Etc::SourceList="$$folder/sources.list" -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists="$$folder/lists")
apt-get "$${options[@]}" update -qq
endef

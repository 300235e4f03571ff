"""Pipelines run commands that exist, pin what they take from others, and may do no more than they must."""

import re
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import typer

from hermesops.cli import root
from hermesops.settings import Environment, schema
from tests.support.pipelines.workflows import ROOT, WORD, Workflow, programs, workflow, workflows
from tests.support.suite.cases import each_case

ALL = workflows()
ENVIRONMENTS = ROOT / ".github" / "environments"
_PINNED = re.compile(r"[\w-]+/[\w-]+@[0-9a-f]{40}")
_COMMENTED = re.compile(r"^\s+uses: \S+@[0-9a-f]{40} # v\d+\.\d+\.\d+$")


def commands() -> Iterator[tuple[str, list[str]]]:
    for one in ALL:
        for step in one.steps():
            for words in programs(step.get("run", "")):
                yield f"{one.name}: {' '.join(words)}", words


LINES = dict(commands())


@each_case("line", [line for line, words in LINES.items() if words[0] == "hermesops"])
def test_each_command_exists_with_its_options_and_arguments(line: str) -> None:
    words = LINES[line][1:]
    assert words[:2] == ["--env", WORD], "which environment it acts on is typed in the command itself"
    command: Any = typer.main.get_command(root.app)
    context = typer.Context(command, info_name="hermesops")
    rest = words[2:]
    while hasattr(command, "get_command"):
        name = rest.pop(0)
        command = command.get_command(context, name)
        assert command is not None, f"there is no {name}"
        context = typer.Context(command, parent=context, info_name=name)
        if hasattr(command, "get_command") and rest[0] not in command.list_commands(context):
            break  # a noun that takes what it is about, as drill NAME
    values, extra, _ = command.make_parser(context).parse_args(list(rest))  # raises for an option that is not there
    assert not extra
    assert [one.name for one in command.params if one.required and values.get(one.name) is None] == []


@each_case("line", [line for line, words in LINES.items() if words[0] == "make"])
def test_each_target_of_make_exists(line: str) -> None:
    targets = {word for word in LINES[line][1:] if "=" not in word}
    makefile = (ROOT / "Makefile").read_text()
    assert targets
    for target in targets:
        assert re.search(rf"^{re.escape(target)}:", makefile, re.MULTILINE), target


@each_case("one", ALL, ids=lambda one: one.name)
def test_what_others_wrote_is_pinned_by_its_commit_and_says_its_version(one: Workflow) -> None:
    used = [step["uses"] for step in one.steps() if "uses" in step]
    assert used
    assert [name for name in used if not _PINNED.fullmatch(name)] == []
    lines = [line for line in one.file.read_text().splitlines() if line.strip().startswith("uses:")]
    assert [line for line in lines if not _COMMENTED.match(line)] == []


def test_one_action_has_one_commit() -> None:
    found: dict[str, set[str]] = {}
    for one in ALL:
        for step in one.steps():
            if "uses" in step:
                action, _, commit = step["uses"].partition("@")
                found.setdefault(action, set()).add(commit)
    assert {action: commits for action, commits in found.items() if len(commits) > 1} == {}


@each_case("one", ALL, ids=lambda one: one.name)
def test_rights_are_given_to_jobs_alone_and_are_few(one: Workflow) -> None:
    assert one.content["permissions"] == {}
    for name, job in one.jobs.items():
        assert job["permissions"].items() <= {"contents": "read", "id-token": "write", "actions": "read"}.items(), name
        logs_in = any("configure-aws-credentials" in step.get("uses", "") for step in job["steps"])
        assert ("id-token" in job["permissions"]) is logs_in, name


@each_case("one", ALL, ids=lambda one: one.name)
def test_every_job_ends_and_two_never_work_on_the_same(one: Workflow) -> None:
    for name, job in one.jobs.items():
        assert 0 < job["timeout-minutes"] <= 360, name
        writes = "APPLY_ROLE" in str(job)
        group: Any = job.get("concurrency") or one.content.get("concurrency")
        assert group or not writes, name
        if writes:
            assert group is not None
            assert group["cancel-in-progress"] is False, f"{name}: what changes something is not cut short"


def test_what_changes_an_environment_shares_its_one_group() -> None:
    groups = [
        workflow("apply").jobs["staging"]["concurrency"]["group"],
        workflow("apply").jobs["apply"]["concurrency"]["group"],
        workflow("rollout").jobs["rollout"]["concurrency"]["group"],
    ]
    assert groups == [
        "hermesops-staging",
        "hermesops-production",
        "hermesops-${{ inputs.target }}",
    ]


@each_case("one", ALL, ids=lambda one: one.name)
def test_nothing_that_others_typed_is_put_into_a_script(one: Workflow) -> None:
    assert [step["run"] for step in one.steps() if "${{" in step.get("run", "")] == []


@each_case("one", ALL, ids=lambda one: one.name)
def test_secrets_are_in_variables_of_jobs_that_an_environment_guards(one: Workflow) -> None:
    for name, job in one.jobs.items():
        if "secrets." in str(job):
            assert job.get("environment"), name
        for step in job["steps"]:
            assert "secrets." not in str(step.get("run", "")) + str(step.get("with", "")), name


@each_case("one", ALL, ids=lambda one: one.name)
def test_a_checkout_leaves_no_token_behind(one: Workflow) -> None:
    for step in one.steps():
        if "actions/checkout" in step.get("uses", ""):
            assert step["with"]["persist-credentials"] is False


def test_code_of_a_fork_gets_no_role() -> None:
    assert "pull_request_target" not in str([one.events for one in ALL])
    job = workflow("preview").jobs["preview"]
    assert job["if"] == "github.event.pull_request.head.repo.full_name == github.repository"
    for one in ALL:
        if "pull_request" in one.events:
            assert "APPLY_ROLE" not in one.file.read_text()
            assert "PIPELINE_KEY" not in one.file.read_text()


def test_production_changes_only_by_an_approved_preview_on_main() -> None:
    jobs = workflow("apply").jobs
    changing = {
        name
        for name, job in jobs.items()
        if job.get("environment") == "production"
        for step in job["steps"]
        if "stack up" in step.get("run", "")
    }
    assert changing == {"apply"}
    assert "refs/heads/main" in jobs["apply"]["if"]
    assert jobs["save"]["strategy"]["matrix"]["include"] == [{"stack": "platform"}]
    (line,) = [line for line in LINES if "stack up" in line and "--approved-by" in line]
    assert line.endswith("stack up --from preview.json --approved-by approval")


@pytest.mark.parametrize("name", ["staging", "production"])
def test_committed_settings_are_whole_and_alike(name: str) -> None:
    env = Environment.load(name, {"HOME": "/nonexistent", "HERMESOPS_HOME": str(ENVIRONMENTS)})
    assert env.settings.oidc.subjects == f"repo:example/hermes:environment:{name}"
    assert env.settings.platform.account in env.settings.pulumi.backend
    other = Environment.load(
        {"staging": "production", "production": "staging"}[name],
        {"HOME": "/nonexistent", "HERMESOPS_HOME": str(ENVIRONMENTS)},
    )
    keys = {key for key, source in env.sources.items() if source != "default"}
    others = {key for key, source in other.sources.items() if source != "default"}
    assert keys ^ others <= {"approvals"}
    assert not env.secrets


def test_the_schema_that_editors_use_is_named_in_each_file() -> None:
    assert schema()["title"] == "settings.toml"
    for file in ENVIRONMENTS.glob("*/settings.toml"):
        named = file.read_text().splitlines()[0].removeprefix("#:schema ")
        assert (file.parent / named).resolve() == ROOT / "runbooks" / "settings.schema.json"


# What checks it all, is run for real.


def test_a_secret_in_clear_is_found_with_its_place(tmp_path: Any) -> None:  # noqa: ANN401 - a path
    planted = tmp_path / "settings.toml"
    key = "AKIA" + "IOSFODNN7EXAMPLF"
    planted.write_text(f'region = "hel1"\n\n[backup]\nkey = "{key}"\n')
    pem = tmp_path / "operator"
    pem.write_text("-----BEGIN OPENSSH " + "PRIVATE KEY-----\nb3BlbnNzaC1rZXk\n")
    hook = [
        ROOT / ".venv" / "bin" / "detect-secrets-hook",
        "--no-verify",
        "--baseline",
        ".secrets.baseline",
        planted,
        pem,
    ]

    found = subprocess.run(hook, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)

    assert found.returncode == 1, found.stdout + found.stderr
    assert "AWS Access Key" in found.stdout
    assert f"{planted}:4" in found.stdout
    assert "Private Key" in found.stdout
    assert key not in found.stdout


def test_pre_commit_runs_what_make_lint_runs() -> None:
    import yaml  # noqa: PLC0415 - of this test alone

    config: Mapping[str, Any] = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    hooks = {hook["id"]: hook for repo in config["repos"] for hook in repo["hooks"]}
    assert {"secrets", "ruff", "format", "mypy", "ansible-lint", "yamllint", "shellcheck", "pipelines"} <= hooks.keys()
    assert {repo["repo"] for repo in config["repos"]} == {"local"}, "nothing is fetched"
    makefile = (ROOT / "Makefile").read_text()
    for hook in hooks.values():
        first, *rest = hook["entry"].split()
        if first == "make":
            assert re.search(rf"^{rest[0]}:", makefile, re.MULTILINE)
        elif first.startswith(".venv/"):
            assert (ROOT / first).exists(), first

"""Pipelines run commands that exist, pin what they take from others, and may do no more than they must."""

import os
import re
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import typer
from markdown_it import MarkdownIt

from hermesops.cli import root
from hermesops.settings.environment import Environment
from hermesops.settings.schema import schema
from tests.support.pipelines.reach import environments_of
from tests.support.pipelines.workflows import ROOT, WORD, Workflow, programs, workflows
from tests.support.pipelines.workflows import workflow as workflow_named
from tests.support.suite.cases import each_case

ALL = workflows()
ENVIRONMENTS = ROOT / ".github" / "environments"
_PINNED = re.compile(r"[\w-]+/[\w-]+(/[\w-]+)?@[0-9a-f]{40}")
_COMMENTED = re.compile(r"^\s+uses: \S+@[0-9a-f]{40} # v\d+\.\d+\.\d+$")


def commands() -> Iterator[tuple[str, list[str]]]:
    for workflow in ALL:
        for step in workflow.steps():
            for words in programs(step.get("run", "")):
                yield f"{workflow.name}: {' '.join(words)}", words


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
    assert [param.name for param in command.params if param.required and values.get(param.name) is None] == []


@each_case("line", [line for line, words in LINES.items() if words[0] == "make"])
def test_each_target_of_make_exists(line: str) -> None:
    targets = {word for word in LINES[line][1:] if "=" not in word}
    makefile = (ROOT / "Makefile").read_text()
    assert targets
    for target in targets:
        assert re.search(rf"^{re.escape(target)}:", makefile, re.MULTILINE), target


@each_case("workflow", ALL, ids=lambda workflow: workflow.name)
def test_what_others_wrote_is_pinned_by_its_commit_and_says_its_version(workflow: Workflow) -> None:
    used = [step["uses"] for step in workflow.steps() if "uses" in step]
    assert used
    assert [name for name in used if not _PINNED.fullmatch(name)] == []
    lines = [line for line in workflow.file.read_text().splitlines() if line.strip().startswith("uses:")]
    assert [line for line in lines if not _COMMENTED.match(line)] == []


def test_one_action_has_one_commit() -> None:
    uses: dict[str, set[str]] = {}
    for workflow in ALL:
        for step in workflow.steps():
            if "uses" in step:
                action, _, commit = step["uses"].partition("@")
                uses.setdefault(action, set()).add(commit)
    assert {action: commits for action, commits in uses.items() if len(commits) > 1} == {}


@each_case("workflow", ALL, ids=lambda workflow: workflow.name)
def test_rights_are_given_to_jobs_alone_and_are_few(workflow: Workflow) -> None:
    assert workflow.content["permissions"] == {}
    for name, job in workflow.jobs.items():
        assert job["permissions"].items() <= {"contents": "read", "id-token": "write", "actions": "read"}.items(), name
        logs_in = any("configure-aws-credentials" in step.get("uses", "") for step in job["steps"])
        assert ("id-token" in job["permissions"]) is logs_in, name


@each_case("workflow", ALL, ids=lambda workflow: workflow.name)
def test_every_job_ends_and_two_never_work_on_the_same(workflow: Workflow) -> None:
    for name, job in workflow.jobs.items():
        assert 0 < job["timeout-minutes"] <= 360, name
        writes = "APPLY_ROLE" in str(job)
        group: Any = job.get("concurrency") or workflow.content.get("concurrency")
        assert group or not writes, name
        if writes:
            assert group is not None
            assert group["cancel-in-progress"] is False, f"{name}: what changes something is not cut short"


def test_what_changes_an_environment_shares_its_one_group() -> None:
    groups = [
        workflow_named("apply").jobs["staging"]["concurrency"]["group"],
        workflow_named("apply").jobs["apply"]["concurrency"]["group"],
        workflow_named("rollout").jobs["rollout"]["concurrency"]["group"],
    ]
    assert groups == [
        "hermesops-staging",
        "hermesops-production",
        "hermesops-${{ inputs.target }}",
    ]


@each_case("workflow", ALL, ids=lambda workflow: workflow.name)
def test_nothing_that_others_typed_is_put_into_a_script(workflow: Workflow) -> None:
    assert [step["run"] for step in workflow.steps() if "${{" in step.get("run", "")] == []


@each_case("workflow", ALL, ids=lambda workflow: workflow.name)
def test_secrets_are_in_variables_of_jobs_that_an_environment_guards(workflow: Workflow) -> None:
    for name, job in workflow.jobs.items():
        if "secrets." in str(job):
            assert job.get("environment"), name
        for step in job["steps"]:
            assert "secrets." not in str(step.get("run", "")) + str(step.get("with", "")), name


@each_case("workflow", ALL, ids=lambda workflow: workflow.name)
def test_a_checkout_leaves_no_token_behind(workflow: Workflow) -> None:
    for step in workflow.steps():
        if "actions/checkout" in step.get("uses", ""):
            assert step["with"]["persist-credentials"] is False


def test_each_role_is_of_the_environments_that_settings_let_in() -> None:
    """A job whose environment no pattern names would be refused by AWS, and by hermesops."""
    settings = {
        name: tomllib.loads((ENVIRONMENTS / name / "settings.toml").read_text())["oidc"]
        for name in ("staging", "production")
    }
    let_in = {
        role: {
            pattern.strip().rpartition(":")[2] for setting in settings.values() for pattern in setting[key].split(",")
        }
        for role, key in (("APPLY_ROLE", "subjects"), ("PREVIEW_ROLE", "preview_subjects"))
    }
    for workflow in ALL:
        for name, job in workflow.jobs.items():
            for role, environments in let_in.items():
                if role in str(job):
                    assert environments_of(job, workflow.events) <= environments, f"{workflow.name}: {name}"
    assert not let_in["APPLY_ROLE"] & let_in["PREVIEW_ROLE"]


def test_the_key_that_signs_is_in_two_jobs_of_main_alone() -> None:
    holders = {
        f"{workflow.name}:{name}": job["environment"]
        for workflow in ALL
        for name, job in workflow.jobs.items()
        if "PIPELINE_KEY" in str(job)
    }
    assert holders == {"apply:staging": "staging", "apply:save": "production-save"}


def test_text_of_others_gets_into_a_summary_only_as_code_that_it_cannot_end() -> None:
    for workflow in ALL:
        for step in workflow.steps():
            script = step.get("run", "")
            assert "```" not in script, workflow.name
            for line in script.splitlines():
                if "hermesops " in line and not line.strip().startswith("echo"):
                    assert "GITHUB_STEP_SUMMARY" not in line, line
        if "pipeline-summary" in workflow.file.read_text():
            assert workflow.content["defaults"]["run"]["shell"] == "bash", "else a failure before the pipe is none"


def summed_up(text: str, folder: Path) -> str:
    """What a summary has after a program that prints a text."""
    summary = folder / "summary"
    given = {"PATH": os.defpath, "GITHUB_STEP_SUMMARY": str(summary)}
    words = ["make", "-f", str(ROOT / "Makefile"), "pipeline-summary"]
    subprocess.run(words, input=text.encode(), env=given, cwd=folder, check=True)
    return summary.read_text()


def test_no_name_of_a_vendor_closes_a_block_of_code(tmp_path: Path) -> None:
    """Summaries are Markdown; what is shown is the text of others, whatever they put into names."""
    hostile = (
        "```\n# title\n<img src=x>",
        "a\r```\r<b>",
        "~~~\n",
        "\n\n\n# title\n",
        "- a\n- b",
        "\t```",
        "[l](x)\n    x",
    )
    (tmp_path / "summary").write_text("## cell1 of production\n")
    summed_up("".join(f"{text}\nname {text} end\n" for text in hostile), tmp_path)
    with (tmp_path / "summary").open("a") as file:
        file.write("To approve it:\n")
    shown = MarkdownIt().parse((tmp_path / "summary").read_text())
    kinds = {token.type for token in shown}
    assert kinds == {"heading_open", "inline", "heading_close", "code_block", "paragraph_open", "paragraph_close"}
    assert [token.content for token in shown if token.type == "inline"] == ["cell1 of production", "To approve it:"]


def test_a_summary_is_bounded(tmp_path: Path) -> None:
    text = summed_up(("x" * 10_000 + "\n") * 2_500, tmp_path)
    assert len(text.encode()) < 1 << 20, "GitHub shows nothing of a larger one"
    assert "(500 lines more)" in text


def test_production_changes_only_by_an_approved_preview_on_main() -> None:
    jobs = workflow_named("apply").jobs
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
    assert line.endswith(f"stack up --from {WORD}/saved/preview.json --approved-by approval")


@pytest.mark.parametrize("name", ["staging", "production"])
def test_committed_settings_are_whole_and_alike(name: str) -> None:
    env = Environment.load(name, {"HOME": "/nonexistent", "HERMESOPS_HOME": str(ENVIRONMENTS)})
    assert env.settings.oidc.subjects.startswith(f"repo:example/hermes:environment:{name}")
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

    completed = subprocess.run(hook, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)

    assert completed.returncode == 1, completed.stdout + completed.stderr
    assert "AWS Access Key" in completed.stdout
    assert f"{planted}:4" in completed.stdout
    assert "Private Key" in completed.stdout
    assert key not in completed.stdout


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

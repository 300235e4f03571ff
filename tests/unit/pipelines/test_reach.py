"""No job that unreviewed code reaches has more than everybody may read; and what would notice one that has."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.pipelines.reach import findings
from tests.support.pipelines.workflows import ROOT, workflows

PAGE = ROOT / "runbooks" / "pipelines.md"
CHECKOUT = {"uses": "actions/checkout@x", "with": {"persist-credentials": False}}


def main_only() -> set[str]:
    """The environments that the runbook tells to restrict to main."""
    rows = re.findall(r"^\| (`[^|]+) \| main alone \|", PAGE.read_text(), re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`([\w-]+)`", row)}


def test_unreviewed_code_reaches_nothing_that_is_not_public() -> None:
    assert {workflow.name: findings(workflow.content, main_only=main_only()) for workflow in workflows()} == {
        workflow.name: [] for workflow in workflows()
    }


def test_the_page_restricts_every_environment_that_it_names() -> None:
    assert main_only() >= {"staging", "production", "releases", "production-save", "production-read", "staging-read"}


def test_the_workflow_that_gave_branches_the_keys_of_production_is_noticed() -> None:
    old = yaml.safe_load((Path(__file__).parents[2] / "data" / "pipelines" / "preview-with-keys.yml").read_text())
    for restricted in (set[str](), {"staging-preview", "production-preview"}):
        text = "\n".join(findings(old, main_only=restricted))
        for part in ("secrets", "environment", "permissions id-token: write", "runs on ${{ vars.HERMESOPS_RUNNER"):
            assert f"preview, by pull_request: has {part}" in text or f"preview, by pull_request: {part}" in text


def job(**changed: object) -> dict[str, Any]:
    job = {"runs-on": "ubuntu-24.04", "permissions": {"contents": "read"}, "steps": [CHECKOUT], **changed}
    return {name: value for name, value in job.items() if value is not None}


def wrong(on: object, job: dict[str, Any], **top: object) -> list[str]:
    return findings({"on": on, "permissions": {}, **top, "jobs": {"j": job}}, main_only={"production", "staging"})


SECRET = {"env": {"KEY": "${{ secrets.KEY }}"}}
UNREVIEWED: tuple[Any, ...] = (
    *("pull_request", "pull_request_target", "workflow_run", "issue_comment", "merge_group", "workflow_call"),
    *("release", "repository_dispatch", "push", ["push"], {"push": None}, {"push": {"branches": ["main", "x"]}}),
    *({"push": {"branches": ["**"]}}, {"push": {"branches-ignore": ["x"]}}, {"push": {"tags": ["v*"]}}),
    *({"push": {"branches": ["main"], "tags": ["v*"]}}, {"schedule": [], "pull_request": {"branches": ["main"]}}),
)
MORE: tuple[dict[str, Any], ...] = (
    SECRET,
    {"steps": [{"run": "x", "env": {"A": "${{ toJSON(secrets) }}"}}]},
    {"steps": [{"run": "x", "env": {"A": "${{ secrets['KEY'] }}"}}]},
    {"uses": "./.github/workflows/a.yml", "secrets": "inherit", "runs-on": None},
    {"environment": "production"},
    {"environment": {"name": "production"}},
    {"permissions": {"contents": "read", "id-token": "write"}},
    {"permissions": {"contents": "write"}},
    {"permissions": {"actions": "read"}},
    {"permissions": "read-all"},
    {"permissions": "write-all"},
    {"runs-on": "self-hosted"},
    {"runs-on": ["self-hosted", "linux"]},
    {"runs-on": {"group": "platform"}},
    {"runs-on": "${{ vars.HERMESOPS_RUNNER || 'ubuntu-24.04' }}"},
    {"steps": [{"uses": "actions/cache/save@x", "with": {"path": "p", "key": "k"}}]},
    {"steps": [{"uses": "actions/cache@x", "with": {"path": "p", "key": "k"}}]},
)


def test_every_way_in_to_everything_that_is_more_is_noticed() -> None:
    passed = [(on, more) for on in UNREVIEWED for more in MORE if not wrong(on, job(**more))]
    assert passed == []


def test_a_condition_in_the_file_is_no_wall() -> None:
    own = "github.event.pull_request.head.repo.full_name == github.repository"
    assert wrong("pull_request", job(**SECRET, **{"if": own}))
    by_hand = job(**SECRET, environment="anything", **{"if": "github.ref == 'refs/heads/main'"})
    assert wrong("workflow_dispatch", by_hand) == ["j: environment anything is not for main alone"]


def test_rights_that_a_file_does_not_name_are_the_repositorys() -> None:
    missing = {"on": "pull_request", "jobs": {"j": job(permissions=None)}}
    assert findings(missing, main_only=()) == ["j, by pull_request: has permissions of the repository"]
    assert wrong("pull_request", job(permissions=None)) == []


def test_secrets_of_the_whole_file_are_those_of_each_job() -> None:
    names = wrong("pull_request", job(), env={"KEY": "${{ secrets.KEY }}"})
    assert names == ["j, by pull_request: has secrets", "j: environment none is not for main alone"]


@pytest.mark.parametrize("on", UNREVIEWED)
def test_public_work_may_be_done_by_everybody(on: object) -> None:
    restore = {"uses": "actions/cache/restore@x", "with": {"path": "p", "key": "k"}}
    assert wrong(on, job(steps=[CHECKOUT, restore, {"run": "make lint"}])) == []


ON_MAIN = {"push": {"branches": ["main"]}, "schedule": [{"cron": "1 2 * * *"}]}


def test_main_in_an_environment_for_main_alone_may_have_keys() -> None:
    kept = {"uses": "actions/download-artifact@x", "with": {"path": "${{ runner.temp }}/saved"}}
    good = job(**SECRET, environment="${{ matrix.t }}", strategy={"matrix": {"t": ["staging", "production"]}})
    assert wrong(ON_MAIN, good) == []
    request = {"workflow_dispatch": {"inputs": {"t": {"options": ["staging", "production"]}}}}
    assert wrong(request, job(**SECRET, environment="${{ inputs.t }}", steps=[CHECKOUT, kept])) == []


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({}, "environment none is not for main alone"),
        ({"environment": "other"}, "environment other is not for main alone"),
        ({"environment": "${{ inputs.free }}"}, "environment ${{ inputs.free }} is not for main alone"),
        ({"environment": "${{ matrix.t }}", "strategy": {"matrix": {"t": ["staging", "x"]}}}, "environment x is not"),
        (
            {
                "environment": "production",
                "steps": [{"uses": "actions/checkout@x", "with": {"ref": "${{ inputs.r }}"}}],
            },
            "checks out  ${{ inputs.r }}",
        ),
        (
            {"environment": "production", "steps": [{"uses": "actions/checkout@x", "with": {"repository": "o/n"}}]},
            "checks out o/n",
        ),
        (
            {"environment": "production", "steps": [{"uses": "actions/download-artifact@x", "with": {"run-id": "1"}}]},
            "unpacks an artifact of any run over its checkout",
        ),
        (
            {"environment": "production", "steps": [{"uses": "actions/cache/restore@x", "with": {"path": "p"}}]},
            "unpacks a cache",
        ),
    ],
)
def test_what_lets_others_into_a_job_with_keys_is_noticed(changed: dict[str, Any], message: str) -> None:
    names = wrong({**ON_MAIN, "workflow_dispatch": {"inputs": {"free": {}}}}, job(**SECRET, **changed))
    assert len(names) == 1
    assert message in names[0]

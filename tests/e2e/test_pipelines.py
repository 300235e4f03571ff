"""The scripts of the workflows, run as a pipeline runs them, against a simulated world: exit codes, files, who did it.

What is about AWS is left out by name: the account's bootstrap has tests of its own, and the platform's stack needs one.
"""

import base64
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.pipelines.issuer import URL, job_issuer
from tests.support.pipelines.runner import run_job
from tests.support.pipelines.workflows import ROOT, workflow
from tests.support.real.commands.command import Command, local_world
from tests.support.real.commands.operators import key_of
from tests.support.releases.simulated import built
from tests.support.vendor.outside_changes import resize_behind_its_back

AWS_ALONE = (
    "Compare the platform with what was merged",
    "Compare the account with its bootstrap",
)
SUBJECT = "repo:example/hermes:environment:local"


@dataclass(frozen=True)
class Team:
    """A world in which two have to want a change: the pipeline, whose key signs, and bob."""

    world: Command
    bob: Command
    key: str

    @property
    def pipeline(self) -> Command:
        return self.world


@pytest.fixture(scope="module")
async def team(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Team]:
    folder = tmp_path_factory.mktemp("pipeline-keys")
    keys = {name: key_of(folder, name) for name in ("pipeline", "bob", "eve")}
    allowed = folder / "allowed"
    allowed.write_text(
        "".join(
            f'{name}@example.net namespaces="hermesops-*" {keys[name].with_suffix(".pub").read_text()}'
            for name in ("pipeline", "bob")
        )
    )
    async with local_world(tmp_path_factory.mktemp("pipelines"), driver="sim") as command:
        await command.ok("provision", "ada", "--plan", "light")
        strict = command.with_variables(
            HERMESOPS_ALLOWED_SIGNERS=str(allowed),
            HERMESOPS_OPERATORS="verified",
            HERMESOPS_APPROVALS="required",
            HERMESOPS_OIDC_ISSUER=URL,
            HERMESOPS_OIDC_AUDIENCE="hermesops",
            HERMESOPS_OIDC_SUBJECTS=SUBJECT,
        )
        yield Team(strict, strict.with_variables(HERMESOPS_OPERATOR_KEY=str(keys["bob"])), keys["pipeline"].read_text())


async def test_a_pull_request_is_compared_with_main_and_has_no_secret(team: Team, tmp_path: Path) -> None:
    """The job of a pull request has another home than the world: no registry, state, key or vendor is there."""
    target = {"TARGET": "local"}
    published = await run_job(
        workflow("baseline"), "baseline", team.pipeline, _made(tmp_path / "main"), variables=target
    )
    assert published.failed == [], published.failed
    baseline = (published.folder / "baseline.json").read_text()
    (machine,) = await team.world.machines()
    secrets = [
        file.read_text().strip()
        for file in (team.world.home / "local").rglob("*")
        if file.is_file() and file.suffix in {".key", ".passphrase"}
    ]
    assert secrets
    assert [
        secret for secret in (*secrets, machine["id"], machine["name"], machine["slug"]) if secret in baseline
    ] == []

    async def compared(name: str, **changed: str) -> str:
        folder = _made(tmp_path / name)
        (folder / "baseline.json").write_text(baseline)
        nobody = Command(_made(folder / "home"), changed, said=team.world.said)
        ran = await run_job(workflow("preview"), "preview", nobody, folder, variables=target)
        assert ran.failed == [], ran.failed
        assert [file.name for file in (folder / "home").rglob("*") if file.is_file()] == [], (
            "it made no key or registry"
        )
        return ran.summary

    unchanged = await compared("unchanged")
    assert unchanged.startswith("## What this changes in local\n\n    no changes, compared with the baseline of ")
    assert "\n    cannot know: drift" in unchanged
    larger = await compared("larger", HERMESOPS_DATA_GB="light=44,heavy=80")
    assert " later " in larger
    assert "data_gb" in larger


async def test_settings_and_code_of_aws_are_compared_without_an_account(tmp_path: Path) -> None:
    """The committed environments: what a pull request that halves the database's backups would show."""
    command = Command(_made(tmp_path / "home"), {})
    (tmp_path / "home" / "production").mkdir()
    settings = (ROOT / ".github" / "environments" / "production" / "settings.toml").read_text()
    (tmp_path / "home" / "production" / "settings.toml").write_text(
        settings.replace('home = "aws:hermesops/production"', "")
    )
    file = tmp_path / "baseline.json"
    await command.ok("--env", "production", "stack", "baseline", "--save", str(file))
    text = file.read_text()
    document = json.loads(text)
    for row in document["baseline"]["platform"]:
        if row["type"] == "aws:rds/instance:Instance":
            row["inputs"]["backupRetentionPeriod"] = 99
    file.write_text(json.dumps(document))
    ran = await command.run("--env", "production", "stack", "compare", str(file), "--exit-code", "--json")
    assert ran.exit_code == 7, str(ran)
    (change,) = ran.json["changes"]
    assert (change["stack"], change["kind"], change["name"]) == ("platform", "update", "postgresql")
    assert [row["before"] for row in change["properties"]] == ["99"]
    assert len(ran.json["cannot_know"]) == 4


@pytest.mark.turns(16)
async def test_production_gets_what_a_second_operator_approved_and_nothing_else(team: Team, tmp_path: Path) -> None:
    names = {"TARGET": "local", "STACK": "cell1"}
    listed = await run_job(
        workflow("apply"), "stacks", team.pipeline, _made(tmp_path / "stacks"), variables={"TARGET": "local"}
    )
    assert listed.failed == []
    document = json.loads(listed.output.removeprefix("cells<<END-OF-CELLS\n").removesuffix("END-OF-CELLS\n"))
    assert [stack["cell"] for stack in document["stacks"]] == ["cell1"]

    saved = await run_job(
        workflow("apply"),
        "save",
        team.pipeline,
        _made(tmp_path / "save"),
        variables={**names, "PIPELINE_KEY": team.key},
    )
    assert saved.failed == [], saved.failed
    assert (saved.folder / "operator").stat().st_mode & 0o777 == 0o600
    assert team.key not in saved.summary + "".join(step.said for step in saved.steps)
    assert "approval sign preview.json --save approval" in saved.summary
    preview = saved.folder / "preview.json"
    await team.bob.ok("approval", "sign", str(preview), "--save", str(tmp_path / "approval"), "--yes")
    approval = base64.b64encode((tmp_path / "approval").read_bytes()).decode()

    async def apply(name: str, given: str, **variables: str) -> tuple[int, str]:
        folder = _made(tmp_path / name)
        (_made(folder / "saved") / "preview.json").write_bytes(preview.read_bytes())
        with job_issuer(SUBJECT) as issuer:
            keys = issuer.write_keys(folder / "keys.json")
            ran = await run_job(
                workflow("apply"),
                "apply",
                team.pipeline.with_variables(HERMESOPS_OIDC_KEYS_FILE=str(keys)),
                folder,
                variables={**names, "APPROVAL": given, **issuer.variables(), **variables},
            )
        return ran.steps[-1].exit_code, "".join(step.said for step in ran.steps)

    forged = json.loads((tmp_path / "approval").read_text())
    forged["approval"]["asked"]["by"] = "mallory@example.net"
    code, output = await apply("forged", base64.b64encode(json.dumps(forged).encode()).decode())
    assert (code, "does not hold" in output) == (3, True), output
    code, output = await apply("none", "")
    assert code in {2, 3}, output
    code, output = await apply("expired", approval, HERMESOPS_PREVIEW_LIFE_H="0.000001")
    assert (code, "preview" in output) == (3, True), output
    code, output = await apply("garbled", "%%%")
    assert (code, "APPROVAL is no base64" in output) == (2, True), output

    code, output = await apply("approved", approval)
    assert (code, "approved by bob@example.net" in output) == (0, True), output
    audited = (await team.world.ok("audit", "log", "--json")).stdout
    assert f"{SUBJECT}@oidc:" in audited or "pipeline" in audited


async def test_a_pipeline_of_elsewhere_changes_nothing(team: Team, tmp_path: Path) -> None:
    with job_issuer("repo:example/hermes:pull_request") as issuer:
        stranger = team.world.with_variables(
            HERMESOPS_OIDC_KEYS_FILE=str(issuer.write_keys(tmp_path / "keys.json")), **issuer.variables()
        )
        ran = await stranger.run("rollout", "freeze", "--reason", "test")
    assert (ran.exit_code, "repo:example/hermes:pull_request may not act here" in ran.stderr) == (3, True), str(ran)
    assert issuer.audiences == ["hermesops"]


@pytest.mark.turns(9)
async def test_a_rollout_is_started_and_waited_for_by_exit_code(team: Team, tmp_path: Path) -> None:
    open_world = Command(team.world.home, {"HERMESOPS_LOCAL_DRIVER": "sim"}, said=team.world.said)
    release = await built(open_world, "from-a-pipeline")
    worker = await open_world.start("worker")
    try:
        ran = await run_job(
            workflow("rollout"),
            "rollout",
            open_world,
            tmp_path,
            variables={
                "TARGET": "local",
                "RELEASE": release,
                "SOAK": "1s",
                "VITALS": "none",
                "REASON": "it's due; $(touch broken)",
            },
        )
    finally:
        worker.terminate()
        await worker.communicate()
    assert ran.failed == [], ran.failed
    assert [step.name for step in ran.steps] == ["Install", "Preview", "Start", "Wait for its end"]
    assert not (tmp_path / "broken").exists()
    (row,) = (await open_world.ok("rollout", "list", "--all", "--json")).json["rollouts"]
    assert (row["release"], row["state"]) == (release, "done")


@pytest.mark.turns(20)
async def test_the_nights_look_fails_by_its_exit_code_when_something_differs(team: Team, tmp_path: Path) -> None:
    night = {"TARGET": "local"}
    quiet = await run_job(
        workflow("drift"), "drift", team.pipeline, _made(tmp_path / "quiet"), variables=night, without=AWS_ALONE
    )
    assert quiet.failed == [], quiet.failed

    machine = (await team.world.machines())[0]
    await resize_behind_its_back(team.world.home / "local" / "world", machine["id"])
    job_run = await run_job(
        workflow("drift"), "drift", team.pipeline, _made(tmp_path / "found"), variables=night, without=AWS_ALONE
    )
    codes = {step.name: step.exit_code for step in job_run.steps}
    assert codes["Compare registry, JustAVPS and machines"] == 7, job_run.steps
    assert codes["Check the audit log"] == 0, "what comes after what failed is looked at as well"


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder

"""The platform of a local world, as a new user: brought up, connected, used, its services killed, and left again."""

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hermesops.app import Container
from hermesops.base.waiting import Pending, pause, until
from hermesops.model.ids import MachineId
from hermesops.settings.environment import Environment
from hermesops.vendor.channel import Channel, ToolboxChannel
from tests.support.crash.death import KILLED
from tests.support.platform.users_half import serves_users
from tests.support.real.commands.command import Command, local_world
from tests.support.real.commands.operators import two_operators
from tests.support.vendor.outside_changes import stop_behind_its_back

pytestmark = [pytest.mark.machines, pytest.mark.timeout(3600)]

WHY = ("--reason", "test")
ROTATION = ("--soak", "1s", "--settle", "1s", "--vitals", "none", *WHY)
SERVICES = {
    "hermes-platform-postgresql",
    "hermes-platform-redis",
    "hermes-platform-object-store",
    "hermes-platform-nginx",
    "hermes-platform-router",
    "hermes-platform-router-nginx",
    "hermes-platform-prometheus",
    "hermes-platform-alertmanager",
    "hermesops-worker",
    "hermesops-monitor",
    "hermesops-identity",
    "hermesops-relay",
}
"""What runs before users are served."""


@dataclass
class Platform:
    """A world with its platform."""

    command: Command

    async def on_host(self, line: str) -> str:
        """Run a line on the platform's machine."""
        return await self.on_machine("hermes-local-platform", line)

    async def on_machine(self, name: str, line: str) -> str:
        """Run a line on the machine of a name."""
        container = Container(Environment.load("local", self.command.environ), lambda _: None)
        async with container.vendor() as client:
            [machine] = [listed for listed in await client.list_machines() if listed.name == name]
            channel: Channel = ToolboxChannel(client, MachineId(machine.id))
            return (await channel.run(line, timeout_s=60)).text.strip()

    async def show(self) -> Mapping[str, Any]:
        shown: Mapping[str, Any] = (await self.command.ok("platform", "show", "--json")).json
        return shown

    async def is_healthy(self) -> bool | Pending[bool]:
        shown = await self.command.run("platform", "show", "--json")
        if shown.exit_code:
            return Pending(shown.stderr)
        document = json.loads(shown.stdout)
        ill = {service["service"]: service["state"] for service in document["services"] if not service["healthy"]}
        return True if document["healthy"] else Pending(f"not healthy: {ill}")

    async def approved(self, approver: Command, folder: Path) -> tuple[str, ...]:
        """The command that brings it up as a saved preview has it, which another operator has approved."""
        preview, approval = str(folder / "preview.json"), str(folder / "approval")
        await self.command.ok("stack", "preview", "platform", "--save", preview)
        unseen = await self.command.run("stack", "up", "--from", preview)
        assert (unseen.exit_code, "another operator's approval" in unseen.stderr) == (3, True), str(unseen)
        await approver.ok("approval", "sign", preview, "--save", approval, "--yes")
        return ("stack", "up", "--from", preview, "--approved-by", approval)

    async def asked_router(self, user: str) -> bool:
        """Whether a turn of a user's goes through the platform's model router, as its figures tell."""
        figures = "curl --silent http://127.0.0.1:9109/metrics | grep '^hermes_router_answers_total' || true"
        before = await self.on_host(figures)
        answer = await self.command.ok("instance", "chat", user, "RUN: hostname", "--reason", "test")
        assert answer.stdout.strip()
        return await self.on_host(figures) != before

    async def kill(self, unit: str) -> None:
        """End a service's main process as a crash would, and wait until systemd has it running again."""
        before = await self.on_host(f"systemctl show {unit} --property=MainPID --value")
        await self.on_host(f"systemctl kill --signal=KILL {unit}")

        async def runs_again() -> bool | Pending[bool]:
            now = await self.on_host(f"systemctl show {unit} --property=MainPID,ActiveState --value")
            runs = "active" in now.split() and before not in now.split()
            return True if runs else Pending(f"{unit}: {now}")

        await until(runs_again, what=f"{unit} to run again", timeout_s=90, every_s=1)


@pytest.fixture
async def platform(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Platform]:
    async with local_world(tmp_path_factory.mktemp("platform")) as command:
        yield Platform(command)


async def test_a_platform_is_brought_up_used_and_survives_the_death_of_its_services(
    platform: Platform, tmp_path: Path
) -> None:
    """In an environment whose changes two operators have to want, and whose processes prove who they are."""
    # All tokens are replaced below, and the monitor repairs.
    alone = platform.command.with_variables(HERMESOPS_TWO_PERSON_ABOVE="100", HERMESOPS_MONITORING_ACTIONS="all")
    command, bob = two_operators(alone, tmp_path)
    platform.command = command
    up = await _is_brought_up(platform, bob, tmp_path)
    assert (await command.run("stack", "preview", "platform", "--exit-code")).exit_code == 0
    outputs = (await command.ok("stack", "outputs", "platform", "--json")).json["outputs"]
    assert outputs == (await platform.show())["outputs"]

    # Before, an operator has a user; her rows go with the registry.
    assert (await command.ok("provision", "ada", "--plan", "light", "--json")).json["instance"]["status"] == "running"
    connected = (await command.ok("platform", "connect", "--yes", "--json")).json
    assert connected["rows"] > 10
    once_more = (await command.ok("platform", "connect", "--yes", "--json")).json
    assert (once_more["settings"], once_more["rows"], once_more["files"]) == ([], 0, 0)
    assert (await command.ok("audit", "verify")).exit_code == 0
    assert (await command.ok("registry", "check")).exit_code == 0

    await until(platform.is_healthy, what="the platform's services", timeout_s=120, every_s=2)
    shown = await platform.show()
    assert {service["service"] for service in shown["services"] if service["state"] == "active"} >= SERVICES
    assert (shown["connected"], shown["versions"]["hermesops"]) == (True, "0.1.0")
    assert shown["database_backup"]

    # Used: another user, by this computer and the platform's registry; the worker there runs what is left to it.
    await command.ok("provision", "bea", "--plan", "light")
    left = (await command.ok("instance", "restart", "bea", "--no-wait", "--json")).json

    async def done_by_the_worker() -> bool | Pending[bool]:
        status = (await command.ok("operation", "show", left["operation_id"], "--json")).json["operation"]["status"]
        return True if status == "done" else Pending(f"it is {status}")

    await until(done_by_the_worker, what="the platform's worker to restart bea", timeout_s=120, every_s=1)

    # Agents made since ask the platform's model router; those of before do once their tokens are replaced.
    assert await platform.asked_router("bea")
    assert not await platform.asked_router("ada")
    await command.ok("token", "rotate", "--all", *ROTATION)
    assert await platform.asked_router("ada")

    await _is_rolled_out(alone, tmp_path)
    await _is_repaired(platform, "bea")

    # Backups go to its object store, each machine with a key of its own.
    for user in ("ada", "bea"):
        await command.ok("backup", "create", user)
    assert (await command.ok("backup", "check", "bea")).exit_code == 0

    # Nobody is told of services that only came up, and an alert that was would go on for minutes.
    alerts = {alert["alert"] for alert in (await command.ok("alert", "list", "--json")).json["alerts"]}
    assert "PlatformServiceDown" not in alerts

    # Each in turn.
    for unit in (
        "hermes-platform-postgresql",
        "hermes-platform-redis",
        "hermes-platform-object-store",
        "hermes-platform-router",
    ):
        await platform.kill(unit)
    await until(platform.is_healthy, what="the platform's services", timeout_s=180, every_s=2)
    users = {instance["user"] for instance in (await command.ok("instance", "list", "--json")).json["instances"]}
    assert users == {"ada", "bea"}
    assert (await command.ok("audit", "verify")).exit_code == 0
    for user in ("ada", "bea"):
        answer = await command.ok("instance", "chat", user, "RUN: hostname", "--reason", "test")
        assert answer.stdout.strip()
    await _serves_users(platform, up)
    await _is_taken_back(platform, connected["epoch"])
    assert {
        instance["user"] for instance in (await command.ok("instance", "list", "--json")).json["instances"]
    } == users

    text = "\n".join(f"{ran.stdout}\n{ran.stderr}" for ran in command.said)
    keys = _keys_in(command.home)
    assert len(keys) > 5
    assert [name for name, key in keys if key in text] == []


def _keys_in(home: Path) -> list[tuple[str, str]]:
    """Lines of the world's and the environment's keys, with the names of their files."""
    files = [file for pattern in ("*/*.key", "*/keys/*.key", "*/world/*.key") for file in home.glob(pattern)]
    lines = ((file.name, line) for file in files for line in file.read_text().splitlines())
    return [(name, line) for name, line in lines if len(line) >= 20 and not line.startswith("-----")]


async def _is_brought_up(platform: Platform, bob: Command, folder: Path) -> tuple[str, ...]:
    """By the command that this returns, and that changes nothing once more."""
    command = platform.command
    assert (await command.run("platform", "show")).exit_code == 3, "there is none yet"
    alone = await command.run("stack", "up", "platform")
    assert (alone.exit_code, "needs an approved preview" in alone.stderr) == (3, True), str(alone)
    preview = (await command.ok("stack", "preview", "platform", "--json")).json
    assert [change["kind"] for change in preview["changes"]] == ["create"] * 3

    # Killed in the stack, and in the roles: the state has moved, so what is left is looked at and approved anew.
    up = await platform.approved(bob, folder)
    assert await command.killed_at("create hermes-local-platform", *up) == KILLED
    assert await command.killed_at("hermes_platform_object_store", *await platform.approved(bob, folder)) == KILLED
    await platform.approved(bob, folder)
    ran = await command.ok(*up, "--json")
    assert "signed by ada@example.net, approved by bob@example.net" in ran.stderr
    assert ran.json["machine"] == "hermes-local-platform"
    await platform.approved(bob, folder)
    again = (await command.ok(*up, "--json")).json
    assert (again["changes"], again["changed"]) == ([], [])
    return up


async def _is_rolled_out(command: Command, folder: Path) -> None:
    """A release goes from this computer by the platform's store to all agents; the local world's own key signs it."""
    managed = folder / "managed.json"
    managed.write_text(json.dumps({"config": {"gateway": {"note": "by the platform"}}, "environment": {}}))
    built = (await command.ok("release", "build", "--managed", str(managed), "--note", "test", "--json")).json
    release = built["release"]["id"]
    await command.ok("rollout", "start", release, "--all", "--drill", "no", *ROTATION)
    for user in ("ada", "bea"):
        assert (await command.ok("instance", "show", user, "--json")).json["instance"]["release"] == release


async def _is_repaired(platform: Platform, user: str) -> None:
    """The platform's monitor finds a machine that somebody has switched off, and starts it."""
    command = platform.command
    machine_id = (await command.ok("instance", "show", user, "--json")).json["instance"]["machine_id"]
    await stop_behind_its_back(command.home / "local" / "world", machine_id)

    async def is_repaired() -> bool | Pending[bool]:
        operations = (await command.ok("operation", "list", "--all", "--json")).json["operations"]
        reboots = [operation for operation in operations if operation["kind"] == "reboot"]
        return [reboot["status"] for reboot in reboots] == ["done"] or Pending(str(reboots))

    await until(is_repaired, what=f"the platform's monitor to start the machine of {user}", timeout_s=600, every_s=2)
    assert (await command.ok("instance", "verify", user)).exit_code == 0
    assert "hermesops@platform@ssh:" in (await command.ok("audit", "log", "--json")).stdout


async def _serves_users(platform: Platform, up: tuple[str, ...]) -> None:
    """The host's settings follow those of the environment, which connecting has changed, and users are served.

    Once that is done, nothing changes.
    """
    command = platform.command
    assert await command.killed_at("hermes_platform_api", *up) == KILLED
    links = (await command.ok(*up, "--json")).json["links"]
    assert sorted(links) == ["agents", "api", "chat_page"]
    await serves_users(command, links, platform.on_machine)
    assert (await command.ok(*up, "--json")).json["changed"] == []


async def _is_taken_back(platform: Platform, epoch: int) -> None:
    """By mistake, somebody writes what should not be; the database is taken back to the moment before."""
    command = platform.command
    before = datetime.now(UTC) + timedelta(seconds=1)
    await pause(3)
    await command.ok("rollout", "freeze", "--reason", "a mistake")
    restored = (await command.ok("platform", "restore", "--to", before.isoformat(), *WHY, "--yes", "--json")).json
    assert restored["epoch"] > epoch
    assert (await command.ok("rollout", "freezes", "--json")).json["freezes"] == []
    await until(platform.is_healthy, what="the platform's services", timeout_s=180, every_s=2)
    assert (await command.ok("registry", "check")).exit_code == 0
    await command.ok("instance", "restart", "ada")
    assert await platform.on_host(f"ls -d {restored['set_aside']}") == restored["set_aside"]

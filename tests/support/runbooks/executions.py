"""How tests bring about the faults that take more than one machine, and run their runbooks.

Faults of one machine are brought about by ``hermesops drill``, without a line here.
"""

import asyncio
import json
import os
import shutil
import sqlite3
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import uuid4

import sqlalchemy as sa

from hermesops.app import Container
from hermesops.base.waiting import Pending, cancel, pause, until
from hermesops.model.access.break_glass import BreakGlass
from hermesops.model.api_figures import RequestFigures
from hermesops.model.billing.events import CREATED
from hermesops.model.billing.model_usage import Usage
from hermesops.model.billing.route import ROUTES
from hermesops.model.connections.service import SERVICES
from hermesops.model.fleet.instance import Instance
from hermesops.model.ids import InstanceId, MachineId
from hermesops.model.messaging.messenger import Messenger
from hermesops.settings.environment import Environment
from hermesops.store.message_rows.bot_sessions import BotSessions
from hermesops.store.message_rows.sockets import AgentSockets
from hermesops.store.registry import Registry
from hermesops.store.registry.database import Database
from hermesops.store.registry.repositories.base import insert_if_absent, insert_or_update
from hermesops.store.registry.schema import calling_tables, messaging_tables, tables, user_tables
from hermesops.store.user_rows.api_figures import ApiFigures
from tests.support.billing.many_subscriptions import prepared
from tests.support.billing.stripe_events import USER, event, subscription
from tests.support.real.commands.command import Command, Ran
from tests.support.real.monitoring import alertmanager
from tests.support.releases.simulated import built
from tests.support.runbooks.platform import (
    SCALE,
    OneLedger,
    alerts_until,
    heard,
    monitoring,
    reporting,
    routing,
    watched,
)
from tests.support.runbooks.users_door import registered
from tests.support.vendor.outside_changes import delete_behind_its_back, told, vendor_of

Execution = Callable[[Command], Awaitable[None]]

ELSEWHERE = {
    "backups-late": "tests/e2e/test_runbook.py::test_late_backups_are_made",
    "certificate-ends": "tests/e2e/test_fault_chain.py::test_a_fault_makes_its_alert_fire_and_the_runbook_ends_both",
    "platform-database-lost": (
        "tests/integration/test_platform_restore.py::test_the_registry_goes_on_with_a_new_epoch_that_machines_follow"
    ),
    "machine-cut-off": "tests/e2e/test_break_glass.py::test_the_runbook_gets_onto_a_machine_that_is_cut_off",
    "users-door-shut": (
        "tests/contract/platform/test_platform_up.py::test_a_door_that_does_not_answer_in_time_is_told_with_the_runbook"
    ),
    "release-takes-no-turns": "tests/e2e/test_runbook.py::test_a_halted_rollout_is_ended_once_somebody_picks_that",
}
"""Tests that do so for reasons of their own as well."""

ALONE = frozenset({"registry-lost", "registry-overwritten"})
"""Faults after which a world is not what it was: each has one of its own."""

EXECUTIONS: dict[str, Execution] = {}
"""By the fault's name: brings it about in a simulated world with a running agent ``ada``, and ends it."""

ROLLOUT = ("--all", "--soak", "1s", "--settle", "1s", "--vitals", "none", "--drill", "no", "--reason", "t")
FOR_ADA = ("--instance", "ada")


def execution(name: str) -> Callable[[Execution], Execution]:
    """Register the execution of a fault."""

    def add(function: Execution) -> Execution:
        EXECUTIONS[name] = function
        return function

    return add


async def mended(world: Command, *words: str) -> dict[str, str]:
    """Run a runbook to its end; what became of each step."""
    ran = await world.ok("runbook", "run", *words, "--yes", "--json")
    return outcomes(ran)


async def halted(world: Command, *words: str) -> dict[str, str]:
    """Run a runbook that stops, as what it is about is not over yet; what became of each step."""
    ran = await world.run("runbook", "run", *words, "--yes", "--json")
    assert ran.exit_code == 8, str(ran)
    return outcomes(ran)


def outcomes(ran: Ran) -> dict[str, str]:
    """What became of each step of a run, by its name."""
    steps: list[dict[str, Any]] = ran.json["steps"]
    return {step["step"]: step["outcome"] for step in steps}


@execution("gateways-stopped")
async def gateways_stopped(world: Command) -> None:
    await world.ok("provision", "bob", "--plan", "light")
    for user in ("ada", "bob"):
        await on_machine(world, user, "systemctl stop hermes-gateway.service")
    assert "2 down" in (await world.ok("fleet", "status", "--ask")).stdout
    outcomes = await halted(world, "agent-reachability-burn")
    assert outcomes["status-after"] == "differs"
    for user in ("ada", "bob"):
        await mended(world, "GatewayDown", "--instance", user)
    await mended(world, "agent-reachability-burn", "--from", "status-after")
    await world.ok("instance", "terminate", "bob", "--now", "--without-backup", "--yes", "--reason", "t")


@execution("gateways-restart")
async def gateways_restart(world: Command) -> None:
    loops = await built(world, "loops", "restarts:1.0:36000")
    await world.ok("rollout", "start", loops, *ROLLOUT)
    restarts = [await restarts_of(world, "ada"), await restarts_of(world, "ada")]
    assert restarts[1] > restarts[0], "what GatewayLooping counts"
    outcomes = await mended(world, "GatewayLooping", *FOR_ADA)
    assert outcomes["roll-back"] == "done"
    assert await restarts_of(world, "ada") == 0


@execution("orders-refused")
async def orders_refused(world: Command) -> None:
    await world.ok("local", "fault", "set", "payment-required", "--times", "50")
    stuck = await world.run("provision", "cyd", "--plan", "light")
    await world.ok("local", "fault", "clear")
    assert stuck.exit_code, str(stuck)
    assert "status          provisioning" in (await world.ok("instance", "show", "cyd")).stdout
    outcomes = await mended(world, "ProvisionSlow", "--instance", "cyd")
    assert outcomes["again"] == "done"
    await world.ok("instance", "terminate", "cyd", "--now", "--without-backup", "--yes", "--reason", "t")


@execution("model-token-dead")
async def model_token_dead(world: Command) -> None:
    await world.ok("local", "fault", "set", "server-error", "--path", "/machines/*/toolbox", "--times", "500")
    revoked = await world.run("token", "revoke", "ada", "--models", "--reason", "t")
    assert revoked.exit_code == 6, str(revoked)
    await world.ok("local", "fault", "clear")

    async def is_refused() -> bool | Pending[bool]:
        ran = await world.run("instance", "chat", "ada", "hello", "--reason", "t")
        return ran.exit_code == 4 or Pending(str(ran))

    await until(is_refused, what="the router to hear of it, within its 10 s", timeout_s=20, every_s=0.5)
    assert "none since it was revoked" in (await world.ok("token", "list", "ada")).stdout
    assert (await mended(world, "ModelUnauthorized", *FOR_ADA))["hand"] == "done"


@execution("model-token-leaked")
async def model_token_leaked(world: Command) -> None:
    before = await generation_of(world)
    outcomes = await mended(world, "RouterTokenExpiring", *FOR_ADA, "--from", "revoke")
    assert (outcomes["revoke"], outcomes["turn"]) == ("done", "done")
    assert await generation_of(world) == before + 1


@execution("backup-damaged")
async def backup_damaged(world: Command) -> None:
    backup = (await world.ok("backup", "create", "ada", "--json")).json
    with sqlite3.connect(world.home / "local" / "world" / "machines.db", timeout=30) as store:
        changed = store.execute("UPDATE files SET data = x'00' WHERE owner = ?", (backup["made"]["backup"],))
        assert changed.rowcount
    store.close()
    damaged = await world.run("backup", "check", "ada")
    assert damaged.exit_code == 3, str(damaged)
    outcomes = await mended(world, "backup-does-not-restore", *FOR_ADA)
    assert (outcomes["back-up"], outcomes["check"]) == ("done", "done")


@execution("agent-left-behind")
async def agent_left_behind(world: Command) -> None:
    newer = await built(world, "newer")
    await world.ok("rollout", "start", newer, *ROLLOUT)
    await world.ok("provision", "dee", "--plan", "light")
    assert "dee" in (await world.ok("fleet", "outdated")).stdout
    running = asyncio.create_task(mended(world, "NodeOutdated", "--instance", "dee"))
    while not running.done():  # a rollout soaks for minutes unless a person goes on
        await world.run("rollout", "promote", "--full", "--reason", "t")
        await asyncio.wait({running}, timeout=1)
    assert (await running)["deploy"] == "done"
    await world.ok("instance", "terminate", "dee", "--now", "--without-backup", "--yes", "--reason", "t")


@execution("release-harmful")
async def release_harmful(world: Command) -> None:
    harmful = await built(world, "harmful")
    await world.ok("rollout", "start", harmful, *ROLLOUT)
    await world.ok("release", "revoke", harmful, "--yes", "--reason", "t")
    assert (await mended(world, "revoke-a-release"))["roll-back"] == "done"
    shown = (await world.ok("instance", "show", "ada", "--json")).json
    assert harmful not in json.dumps(shown)


@execution("release-store-older")
async def release_store_older(world: Command) -> None:
    await built(world, "kept")
    [signers] = (world.home / "local").rglob("signers.json")
    held = signers.read_bytes()
    signers.unlink()
    outcomes = await mended(world, "release-key")
    assert outcomes["restore"] == "done"
    assert signers.read_bytes() == held


@execution("cell-deleted")
async def cell_deleted(world: Command) -> None:
    await world.ok("provision", "eve", "--plan", "light")
    for user in ("ada", "eve"):
        await world.ok("backup", "create", user)
    for user in ("ada", "eve"):
        await delete_behind_its_back(world.home / "local" / "world", await machine_of(world, user))
    outcomes = await halted(world, "CellLost")
    assert outcomes["drift-after"] == "differs"
    for user in ("ada", "eve"):
        await mended(world, "machine-gone", "--instance", user)
    await mended(world, "CellLost", "--from", "drift-after")
    await world.ok("instance", "terminate", "eve", "--now", "--without-backup", "--yes", "--reason", "t")


@execution("vendor-silent")
async def vendor_silent(world: Command) -> None:
    await world.ok("local", "fault", "set", "server-error", "--times", "5000")
    outcomes = await halted(world, "vendor-down")
    assert outcomes["status-after"] == "differs"
    await world.ok("local", "fault", "clear")
    await mended(world, "vendor-down", "--from", "status-after")


@execution("toolbox-cut")
async def toolbox_cut(world: Command) -> None:
    await world.ok("local", "fault", "set", "edge-error", "--path", "/machines/*/toolbox", "--times", "5000")
    ran = await world.run("runbook", "run", "VendorDown", "--yes")
    assert (ran.exit_code, "no machine answers by toolbox" in ran.stdout) == (8, True), str(ran)
    assert "(runbook break-glass)" in f"{ran.stdout}{ran.stderr}"
    await world.ok("local", "fault", "clear")
    outcomes = await mended(world, "VendorDown", "--from", "status-after")
    assert outcomes["doctor-after"] == "done"


@execution("vendor-and-reports-away")
async def vendor_and_reports_away(world: Command) -> None:
    users = ("ada", "ike", "jil")
    for user in users[1:]:
        await world.ok("provision", user, "--plan", "light")
    shown = [(await world.ok("instance", "show", user, "--json")).json["instance"] for user in users]
    async with watched(world) as (command, host), monitoring(command):
        async with reporting(host, {instance["instance_id"]: instance["cell"] for instance in shown}):
            await alerts_until(command, lambda names: not names)
        await alerts_until(command, lambda names: names == {"FleetGap"})
        assert set((await mended(command, "FleetGap")).values()) == {"done"}, "agents answer: nothing is done to them"
        async with reporting(host, {instance["instance_id"]: instance["cell"] for instance in shown}):
            await alerts_until(command, lambda names: not names)
    for user in users[1:]:
        await world.ok("instance", "terminate", user, "--now", "--without-backup", "--yes", "--reason", "t")


@execution("worker-killed")
async def worker_killed(world: Command) -> None:
    await world.killed_at("backing up", "instance", "suspend", "ada", "--reason", "t")
    assert "suspend" in (await world.ok("operation", "list")).stdout
    outcomes = await halted(world, "controller-lost", *FOR_ADA)
    assert outcomes["continue"] == "done", outcomes
    await world.ok("instance", "resume", "ada", "--reason", "t")
    await mended(world, "controller-lost", *FOR_ADA, "--from", "operations-after")


@execution("model-broken")
async def model_broken(world: Command) -> None:
    await world.ok("local", "fault", "set", "model-fails", "--times", "500")
    outcomes = await halted(world, "ModelFailing", *FOR_ADA)
    assert outcomes["turn"] == "differs"
    await world.ok("local", "fault", "clear")
    await mended(world, "ModelFailing", *FOR_ADA, "--from", "turn")


@execution("model-limited")
async def model_limited(world: Command) -> None:
    await world.ok("local", "fault", "set", "model-limited", "--times", "500")
    outcomes = await halted(world, "ModelRateLimited", *FOR_ADA)
    assert (outcomes["restart"], outcomes["turn"]) == ("done", "differs")
    await world.ok("local", "fault", "clear")
    await mended(world, "ModelRateLimited", *FOR_ADA, "--from", "turn")


@execution("messenger-lost")
async def messenger_lost(world: Command) -> None:
    settings = world.home / "messengers.yaml"
    settings.write_text('messengers: {TELEGRAM_BOT_TOKEN: "1:x", TELEGRAM_ALLOWED_USERS: "1"}\n')
    await world.ok("instance", "settings", "ada", "--from", str(settings), "--reason", "t")
    async with vendor_of(world.home / "local" / "world") as vendor:
        path = {"path": "/run/simulation/gateway", "mode": "644"}
        upload = f"machines/{await machine_of(world, 'ada')}/toolbox/files/upload"
        (await vendor.post(upload, params=path, content="disconnected")).raise_for_status()
    assert 'hermes_messenger_connected{messenger="telegram"} 0' in await figures_of(world, "ada")
    assert (await mended(world, "MessengerDisconnected", *FOR_ADA))["restart"] == "done"
    assert 'hermes_messenger_connected{messenger="telegram"} 1' in await figures_of(world, "ada")
    settings.write_text("messengers: {}\n")
    await world.ok("instance", "settings", "ada", "--from", str(settings), "--reason", "t")


@execution("monitor-killed")
async def monitor_killed(world: Command) -> None:
    async with watched(world) as (command, _):
        async with monitoring(command) as monitor:
            await alerts_until(command, lambda names: "MonitorDown" not in names)
            monitor.kill()
            await alerts_until(command, lambda names: "MonitorDown" in names)
            outcomes = await halted(command, "MonitorDown")
            assert (outcomes["pass"], outcomes["monitor-after"]) == ("done", "differs")
        async with monitoring(command):
            await alerts_until(command, lambda names: "MonitorDown" not in names)
            await mended(command, "MonitorDown", "--from", "monitor-after")


@execution("many-stopped")
async def many_stopped(world: Command) -> None:
    users = ("ada", "fay", "gus", "hal")
    for user in users[1:]:
        await world.ok("provision", user, "--plan", "light")
    for user in users:
        await stop_behind_its_back(world, user)
    response = await world.ok("monitor", "--once", "--json")
    assert response.json["stopped"], str(response)
    outcomes = await halted(world, "MonitorStoppedActing")
    assert outcomes["status-after"] == "differs"
    for user in users:
        assert (await mended(world, "HeartbeatMissed", "--instance", user))["bring-up"] == "done"
    await mended(world, "MonitorStoppedActing", "--from", "status-after")
    for user in users[1:]:
        await world.ok("instance", "terminate", user, "--now", "--without-backup", "--yes", "--reason", "t")


@execution("monitoring-away")
async def monitoring_away(world: Command) -> None:
    with alertmanager.receiving() as outside:
        async with watched(world, watchdog_url=f"{outside.url}/watchdog") as (command, host):
            await heard(outside, more=2)
            for service in ("nginx", "alertmanager"):
                await asyncio.to_thread(host.stop, service)
            before = len(outside.messages)
            await pause(3 * 60 * SCALE)
            assert len(outside.messages) == before, "what a receiver outside notices"
            assert (await command.run("alert", "list")).exit_code == 4
            assert set((await mended(command, "Watchdog")).values()) == {"done"}
            for service in ("alertmanager", "nginx"):
                host.start(service)
            await heard(outside, more=2)
            await alerts_until(command, lambda _: True)


@execution("platform-service-ended")
async def platform_service_ended(world: Command) -> None:
    async with watched(world) as (command, host):
        await asyncio.to_thread(host.stop, "ingest")
        await alerts_until(command, lambda names: names == {"PlatformServiceDown"})
        outcomes = await halted(command, "PlatformServiceDown")
        assert (outcomes["status"], outcomes["alerts-after"]) == ("done", "differs")
        host.start("ingest")
        await alerts_until(command, lambda names: "PlatformServiceDown" not in names)
        await mended(command, "PlatformServiceDown", "--from", "alerts-after")


@execution("platform-door-ended")
async def platform_door_ended(world: Command) -> None:
    async with watched(world) as (command, host):
        door = registered(host)
        async with door.processes():
            with door.opened():
                await door.answers("edge", "api", "connections")
            await services_down(command, {"edge"})
            with door.opened():
                await services_up(command)


@execution("users-processes-ended")
async def users_processes_ended(world: Command) -> None:
    async with watched(world) as (command, host):
        door = registered(host)
        with door.opened():
            async with door.processes():
                await door.answers("edge", "api", "connections")
            await services_down(command, {"api", "connections"})
            async with door.processes():
                await services_up(command)


async def services_down(command: Command, services: set[str]) -> None:
    """Wait until an alert says that these services are down, and no other one does; run its runbook, which halts."""

    async def told() -> bool | Pending[bool]:
        alerts = (await command.ok("alert", "list", "--json")).json["alerts"]
        down = {(str(alert["alert"]), str(alert["figure"]).partition(":")[0]) for alert in alerts}
        return down == {("PlatformServiceDown", service) for service in services} or Pending(f"{down}")

    await until(told, what=f"alerts about {services}", timeout_s=120, every_s=1)
    assert (await halted(command, "PlatformServiceDown"))["alerts-after"] == "differs"


async def services_up(command: Command) -> None:
    """Wait until no service is down, and run the rest of the runbook."""
    await alerts_until(command, lambda names: "PlatformServiceDown" not in names)
    await mended(command, "PlatformServiceDown", "--from", "alerts-after")


@execution("revocations-unheard")
async def revocations_unheard(world: Command) -> None:
    async with watched(world) as (command, host):
        heard = host.folder / "data/revocations/revoked.map"
        half_an_hour_ago = time.time() - 1800
        os.utime(heard, (half_an_hour_ago, half_an_hour_ago))
        await alerts_until(command, lambda names: "RevocationsStale" in names)
        outcomes = await halted(command, "RevocationsStale")
        assert (outcomes["certificates"], outcomes["alerts-after"]) == ("done", "differs")
        heard.touch()
        await alerts_until(command, lambda names: "RevocationsStale" not in names)
        await mended(command, "RevocationsStale", "--from", "alerts-after")


@execution("platform-certificate-old")
async def platform_certificate_old(world: Command) -> None:
    files = world.home / "host"
    issue = ("identity", "host", "127.0.0.1", "--out", str(files), "--reason", "t")
    async with watched(world, life=timedelta(days=10)) as (command, host):
        await alerts_until(command, lambda names: "PlatformCertificateExpiring" in names)
        outcomes = await halted(command, "PlatformCertificateExpiring")
        assert (outcomes["status"], outcomes["alerts-after"]) == ("done", "differs")
        await world.ok(*issue)
        host.certify(files)
        await alerts_until(command, lambda names: "PlatformCertificateExpiring" not in names)
        await mended(command, "PlatformCertificateExpiring", "--from", "alerts-after")
    assert "all of them are good" in (await world.ok(*issue)).stdout


DATABASE = ("up 1", "repository_up 1", "log_segments_waiting 0")
NOTHING_USED = Usage(InstanceId("0" * 32), date(2026, 1, 1), ROUTES[0].name, ROUTES[0].provider, "200", 1)


@execution("database-log-stuck")
async def database_log_stuck(world: Command) -> None:
    async with watched(world) as (command, host):
        host.figures.database = ("up 1", "repository_up 1", "log_segments_waiting 500")
        await alerts_until(command, lambda names: "PlatformDatabaseLogStuck" in names)
        host.figures.database = ("up 1", "repository_up 0")
        await ended_once(command, "PlatformDatabaseLogStuck", lambda: setattr(host.figures, "database", DATABASE))


@execution("database-backup-old")
async def database_backup_old(world: Command) -> None:
    def backed_up(hours_ago: float) -> None:
        at = time.time() - 3600 * hours_ago
        host.figures.database = (*DATABASE, f'backup_timestamp_seconds{{type="diff"}} {at:.0f}')

    async with watched(world) as (command, host):
        backed_up(27)
        await ended_once(command, "PlatformBackupOverdue", lambda: backed_up(0))


@execution("platform-disk-full")
async def platform_disk_full(world: Command) -> None:
    async with watched(world) as (command, host):
        host.figures.used = 0.97
        await ended_once(command, "PlatformDiskFilling", lambda: setattr(host.figures, "used", 0.3))


@execution("router-cut-off")
async def router_cut_off(world: Command) -> None:
    ledger = OneLedger()
    ledger.problem = "the registry does not answer"
    async with watched(world) as (command, host), routing(host, world.home / "router", ledger):
        await ended_once(command, "RouterAccountsStale", lambda: setattr(ledger, "problem", ""))


@execution("router-folder-gone")
async def router_folder_gone(world: Command) -> None:
    folder = world.home / "spool"
    async with watched(world) as (command, host), routing(host, folder, OneLedger()) as (books, _):
        await alerts_until(command, lambda _: bool(host.query("hermes_router_usage_lost_total")))
        shutil.rmtree(folder)
        books.use(NOTHING_USED)
        await ended_once(command, "RouterUsageLost", folder.mkdir)
        books.use(NOTHING_USED)
        assert books.spool.lost == 1


@execution("provider-key-ended")
async def provider_key_ended(world: Command) -> None:
    status = "401"
    async with watched(world) as (command, host), routing(host, world.home / "router", OneLedger()) as (_, metrics):

        def answered() -> str:
            # As the router's hook counts them; another provider stands in for the one that refuses.
            for route, answer in ((ROUTES[0], status), (ROUTES[1], "200")):
                labels = {"provider": route.provider, "model": route.name, "status": answer}
                metrics.count("hermes_router_provider_answers_total", **labels)
            return metrics.exposition()

        host.figures.router = answered

        def key_is_good() -> None:
            nonlocal status
            status = "200"

        await ended_once(command, "ProviderKeyRefused", key_is_good)


def _begun_earlier(world: Command, earlier: timedelta) -> None:
    """Have every unfinished provision begun that much earlier."""
    rows = tables.operations
    is_it = sa.and_(rows.c.kind == "provision", rows.c.status.in_(["pending", "running"]))
    with Container(Environment.load("local", world.environ), lambda _: None).registry._database.writing() as connection:
        begun = connection.execute(sa.select(rows.c.id, rows.c.created_at).where(is_it)).all()
        assert begun
        for key, at in begun:
            connection.execute(rows.update().where(rows.c.id == key).values(created_at=at - earlier))


@execution("provision-killed")
async def provision_killed(world: Command) -> None:
    await world.killed_at("creating machine", "provision", "ira", "--plan", "light")
    _begun_earlier(world, timedelta(minutes=15))
    async with watched(world) as (command, _):
        monitor = await command.start("monitor", "--every", "1")
        try:
            await alerts_until(command, lambda names: "ProvisionStuck" in names)
            outcomes = await mended(command, "ProvisionStuck", "--instance", "ira")
            assert outcomes["continue"] == "done"
            await alerts_until(command, lambda names: "ProvisionStuck" not in names)
        finally:
            monitor.terminate()
            await monitor.communicate()
    await world.ok("instance", "terminate", "ira", "--now", "--without-backup", "--yes", "--reason", "t")


@execution("sshd-left-open")
async def sshd_left_open(world: Command) -> None:
    # As if a machine had opened: simulated ones have no sshd, and so report no host key to sign an order for.
    registry = Container(Environment.load("local", world.environ), lambda _: None).registry
    instance, now = registry.instances.find("ada"), registry.now()
    registry.break_glass.add(
        BreakGlass(
            "0" * 32,
            instance.id,
            MachineId(instance.machine_id or ""),
            "{}",
            "signed",
            "192.0.2.1/32",
            "ssh-ed25519 AAAA",
            who="",
            why="t",
            created_at=now,
            expires_at=now + timedelta(hours=1),
        )
    )
    registry.close()
    outcomes = await mended(world, "BreakGlassOpen", *FOR_ADA)
    assert outcomes["close"] == "done"
    assert "there is no order" in (await world.ok("instance", "break-glass", "ada", "--close", "--reason", "t")).stdout


@execution("registry-overwritten")
async def registry_overwritten(world: Command) -> None:
    database = world.home / "local" / "registry.db"
    for left in database.parent.glob("registry.db-*"):
        left.unlink()
    assert (await world.ok("registry", "copies", "--json")).json["copies"]
    database.write_bytes(b"rubbish " * 1000)
    outcomes = await mended(world, "registry-damaged")
    assert outcomes["restore"] == "done"


@execution("registry-lost")
async def registry_lost(world: Command) -> None:
    for path in [*(world.home / "local").glob("registry*"), *(world.home / "local").glob("audit*")]:
        for file in [path, *path.rglob("*")] if path.is_dir() else [path]:
            if file.is_file():
                file.unlink()
    outcomes = await mended(world, "registry-rebuilt")
    assert outcomes["rebuild"] == "done"


@execution("rotation-unfinished")
async def rotation_unfinished(world: Command) -> None:
    await world.ok("secrets", "rotate", "registry.key", "--prepare", "--reason", "t")
    outcomes = await mended(world, "registry-key")
    assert outcomes["rotate"] == "done"


@execution("key-leaked")
async def key_leaked(world: Command) -> None:
    assert (await mended(world, "rotate-keys"))["rotate"] == "done"


@execution("pulumi-state-cut")
async def pulumi_state_cut(world: Command) -> None:
    cell = (await world.ok("instance", "show", "ada", "--json")).json["instance"]["cell"]
    state = world.home / "local" / "pulumi" / ".pulumi" / "stacks" / "fleet" / f"{cell}.json"
    state.write_bytes(state.read_bytes()[:100])
    outcomes = await mended(world, "pulumi-state-damaged", *FOR_ADA)
    assert outcomes["put-back"] == "done"


@execution("price-unknown")
async def price_unknown(world: Command) -> None:
    endpoint, knowing = prepared(world)
    unknowing = world.with_variables(HERMESOPS_BILLING_PRICES="price_other=heavy")
    body, signature = endpoint.signed(event(CREATED, subscription("sub_1"), at=datetime.now(UTC)))
    file = world.home / "event.json"
    file.write_bytes(body)
    taken = await unknowing.run("billing", "apply", str(file), "--signature", signature)
    assert taken.exit_code == 7, str(taken)
    assert "do not belong to one plan" in taken.stdout
    came_before(world, timedelta(hours=2))
    async with watched(unknowing) as (command, host), monitoring(command):
        await alerts_until(command, lambda names: "BillingEventsWaiting" in names)
        outcomes = await halted(command, "BillingEventsWaiting")
        assert outcomes["again"] == "differs", "nobody has named the price yet"
        outcomes = await mended(knowing.with_variables(HERMESOPS_MONITORING_URL=host.url), "BillingEventsWaiting")
        assert (outcomes["again"], outcomes["aside-after"]) == ("done", "done")
        await alerts_until(command, lambda names: "BillingEventsWaiting" not in names)
    await knowing.ok("worker", "--once")
    assert USER in (await knowing.ok("instance", "list")).stdout
    await world.ok("instance", "terminate", USER, "--now", "--without-backup", "--yes", "--reason", "t")


async def of_the_api(
    world: Command,
    alert: str,
    *,
    begin: Callable[[Database], object],
    end: Callable[[Database], object],
    reports: Sequence[Instance] = (),
) -> None:
    """Let an alert about the users' half fire and end by rows, and run its runbook before and after.

    Args:
        reports: Instances whose machines report meanwhile.
    """
    registry = registry_of(world)
    database, cells = registry._database, {str(instance.id): str(instance.cell) for instance in reports}
    try:
        async with watched(world) as (command, host), monitoring(command), reporting(host, cells):
            begin(database)
            keeping = asyncio.ensure_future(repeated(lambda: begin(database)))
            await alerts_until(command, lambda names: alert in names)
            outcomes = await halted(command, alert)
            assert (outcomes["status"], outcomes["status-after"]) == ("done", "differs")
            await cancel(keeping)
            end(database)
            keeping = asyncio.ensure_future(repeated(lambda: end(database)))
            await mended(command, alert, "--from", "status-after")
            await alerts_until(command, lambda names: alert not in names)
            await cancel(keeping)
    finally:
        registry.close()


async def repeated(work: Callable[[], object]) -> None:
    """Do something every few seconds, as a process of the API writes its figures."""
    while True:
        await pause(5)
        work()  # not in a thread, which would go on after the end


def told_by_the_api(**figures: int) -> Callable[[Database], object]:
    """Write figures as a process of the API does."""
    return lambda database: ApiFigures(database).put("process-of-a-test", RequestFigures(**figures))


@execution("api-waits")
async def api_waits(world: Command) -> None:
    await of_the_api(world, "ApiSlow", begin=told_by_the_api(users=10, slow_users=4), end=told_by_the_api(users=10))


@execution("webhook-secret-wrong")
async def webhook_secret_wrong(world: Command) -> None:
    await of_the_api(
        world, "WebhooksRefused", begin=told_by_the_api(webhooks_refused=5), end=told_by_the_api(webhooks_taken=1)
    )


@execution("turns-left")
async def turns_left(world: Command) -> None:
    ada = await instance_of(world, "ada")
    turns = user_tables.turns
    is_it = turns.c.client_key == "turn-of-a-test"

    def begin(database: Database) -> None:
        with database.writing() as connection:
            at = database.now(connection) - timedelta(minutes=5)
            row = {
                "id": str(uuid4()),
                "user_id": ada.user_id,
                "instance_id": ada.id,
                "conversation": "left",
                "client_key": "turn-of-a-test",
                "state": "running",
                "created_at": at,
                "carried_until": at,
            }
            insert_if_absent(connection, turns, row)

    def end(database: Database) -> None:
        with database.writing() as connection:
            connection.execute(turns.delete().where(is_it))

    await of_the_api(world, "TurnsOrphaned", begin=begin, end=end)


@execution("connections-ended")
async def connections_ended(world: Command) -> None:
    for user in ("bob", "cyd"):
        await world.ok("provision", user, "--plan", "light")
    instances = [await instance_of(world, user) for user in ("ada", "bob", "cyd")]
    rows = user_tables.user_connections
    is_theirs = rows.c.instance_id.in_([instance.id for instance in instances])

    def begin(database: Database) -> None:
        with database.writing() as connection:
            now = database.now(connection)
            for instance in instances:
                row = {
                    "id": instance.id,
                    "user_id": instance.user_id,
                    "instance_id": instance.id,
                    "service": SERVICES[0].slug,
                    "state": "expired",
                    "account": f"ca_{instance.id}",
                    "created_at": now,
                    "changed_at": now,
                    "link_expires_at": now,
                }
                insert_if_absent(connection, rows, row)

    def end(database: Database) -> None:
        with database.writing() as connection:
            connection.execute(rows.delete().where(is_theirs))

    await of_the_api(world, "ConnectionsExpired", begin=begin, end=end)
    for user in ("bob", "cyd"):
        await world.ok("instance", "terminate", user, "--now", "--without-backup", "--yes", "--reason", "t")


@execution("callers-unreached")
async def callers_unreached(world: Command) -> None:
    ada = await instance_of(world, "ada")
    callers = [f"00000000-0000-4000-8000-{number:012}" for number in range(3)]
    tables_of_tasks = (calling_tables.task_pushes, calling_tables.called_tasks)

    def begin(database: Database) -> None:
        with database.writing() as connection:
            now = database.now(connection)
            of_ada = {"user_id": ada.user_id, "instance_id": ada.id, "created_at": now}
            for id_ in callers:
                key = {"client_key": f"caller-{id_[-4:]}", "key_hash": id_, "content": "", "may_approve": False}
                insert_if_absent(connection, calling_tables.agent_callers, {"id": id_, **of_ada, **key})
                turn = {"conversation": id_, "client_key": id_, "state": "done", "ended_at": now}
                insert_if_absent(connection, user_tables.turns, {"id": id_, **of_ada, **turn})
                task = {"turn_id": id_, "caller_id": id_, "context": "c"}
                insert_if_absent(connection, calling_tables.called_tasks, task)
                push = {"turn_id": id_, "id": "p", "content": "", "created_at": now, "due_at": now}
                insert_or_update(connection, calling_tables.task_pushes, {**push, "tries": 6, "ended_at": now})

    def end(database: Database) -> None:
        with database.writing() as connection:
            for table in tables_of_tasks:
                connection.execute(table.delete().where(table.c.turn_id.in_(callers)))

    await of_the_api(world, "CallerNotificationsUndelivered", begin=begin, end=end)


@execution("connector-halted")
async def connector_halted(world: Command) -> None:
    rows = messaging_tables.incoming_messages

    def begin(database: Database) -> None:
        with database.writing() as connection:
            row = {
                "messenger": "telegram",
                "vendor_id": "message-of-a-test",
                "kind": "message",
                "state": "received",
                "account": "111",
                "vendor_chat": "111",
                "received_at": database.now(connection) - timedelta(minutes=5),
            }
            insert_if_absent(connection, rows, row)

    def end(database: Database) -> None:
        with database.writing() as connection:
            connection.execute(rows.delete())

    await of_the_api(world, "MessagesWaiting", begin=begin, end=end)


@execution("messenger-away")
async def messenger_away(world: Command) -> None:
    await answers_wait(world, "AnswersUndelivered", "away: HTTP 502")


@execution("bot-token-ended")
async def bot_token_ended(world: Command) -> None:
    await answers_wait(world, "MessengerBlocked", "token refused: Unauthorized")


@execution("messenger-hangs")
async def messenger_hangs(world: Command) -> None:
    await answers_wait(world, "AnswersUncertain", "no answer of Telegram: ReadTimeout", state="uncertain")


@execution("jobs-fail")
async def jobs_fail(world: Command) -> None:
    ada, jobs = await instance_of(world, "ada"), {"failed": 2.0, "ok": 1.0}
    async with (
        watched(world) as (command, host),
        monitoring(command),
        reporting(host, {str(ada.id): str(ada.cell)}, jobs),
    ):
        await alerts_until(command, lambda names: "JobsFailing" in names)
        assert (await halted(command, "JobsFailing", *FOR_ADA))["alerts-after"] == "differs"
        jobs.update(failed=0.0, ok=3.0)
        await alerts_until(command, lambda names: "JobsFailing" not in names)
        await mended(command, "JobsFailing", *FOR_ADA, "--from", "alerts-after")


@execution("windows-closed")
async def windows_closed(world: Command) -> None:
    for user in ("bob", "cyd"):
        await world.ok("provision", user, "--plan", "light")
    instances = [await instance_of(world, user) for user in ("ada", "bob", "cyd")]
    rows = messaging_tables.outgoing_messages

    def begin(database: Database) -> None:
        with database.writing() as connection:
            for instance in instances:
                row = {
                    "origin": f"answer-of-a-test/{instance.id}",
                    "part": 0,
                    "messenger": "whatsapp",
                    "vendor_chat": instance.id,
                    "instance_id": instance.id,
                    "state": "waiting",
                    "created_at": database.now(connection) - timedelta(days=1),
                }
                insert_if_absent(connection, rows, row)

    def end(database: Database) -> None:
        with database.writing() as connection:
            connection.execute(rows.delete())

    await of_the_api(world, "AnswersOutsideWindow", begin=begin, end=end)
    for user in ("bob", "cyd"):
        await world.ok("instance", "terminate", user, "--now", "--without-backup", "--yes", "--reason", "t")


@execution("session-ended")
async def session_ended(world: Command) -> None:
    ada = await instance_of(world, "ada")
    accounts, sessions = messaging_tables.messenger_accounts, messaging_tables.bot_sessions

    def begin(database: Database) -> None:
        with database.writing() as connection:
            now = database.now(connection)
            row = {
                "messenger": "discord",
                "account": "111",
                "user_id": ada.user_id,
                "vendor_chat": "111",
                "display": "",
                "linked_at": now,
            }
            insert_if_absent(connection, accounts, row)
            insert_if_absent(connection, sessions, {"messenger": "discord", "seen_at": now - timedelta(hours=1)})

    def end(database: Database) -> None:
        BotSessions(database).note(Messenger.DISCORD)

    await of_the_api(world, "BotWithoutSession", begin=begin, end=end)


async def answers_wait(world: Command, alert: str, detail: str, state: str = "queued") -> None:
    """Let an answer wait for minutes, for a reason that the sender wrote."""
    ada, rows = await instance_of(world, "ada"), messaging_tables.outgoing_messages

    def begin(database: Database) -> None:
        with database.writing() as connection:
            row = {
                "origin": "answer-of-a-test",
                "part": 0,
                "messenger": "telegram",
                "vendor_chat": "111",
                "instance_id": ada.id,
                "state": state,
                "created_at": database.now(connection) - timedelta(minutes=10),
                "detail": detail,
            }
            insert_if_absent(connection, rows, row)

    def end(database: Database) -> None:
        with database.writing() as connection:
            connection.execute(rows.delete())

    await of_the_api(world, alert, begin=begin, end=end)


@execution("socket-secret-wrong")
async def socket_secret_wrong(world: Command) -> None:
    ada = await instance_of(world, "ada")

    def begin(database: Database) -> None:
        sockets = AgentSockets(database)
        sockets.release(ada.id, sockets.take(ada.id, "connector"))

    await of_the_api(
        world,
        "AgentsWithoutSocket",
        begin=begin,
        end=lambda database: AgentSockets(database).take(ada.id, "connector"),
        reports=[ada],
    )


def registry_of(world: Command) -> Registry:
    """The world's registry."""
    return Container(Environment.load("local", world.environ), lambda _: None).registry


async def instance_of(world: Command, user: str) -> Instance:
    """A user's instance."""
    with closing(registry_of(world)) as registry:
        return registry.instances.find(user)


async def ended_once(world: Command, alert: str, mend: Callable[[], object]) -> None:
    """Run the runbook of an alert of the platform's own before and after it is mended."""
    await alerts_until(world, lambda names: alert in names)
    outcomes = await halted(world, alert)
    assert (outcomes["status"], outcomes["alerts-after"]) == ("done", "differs")
    mend()
    await alerts_until(world, lambda names: alert not in names)
    await mended(world, alert, "--from", "alerts-after")


async def on_machine(world: Command, user: str, script: str) -> None:
    """Run a command on an agent's machine."""
    await world.ok("instance", "exec", user, script, "--reason", "t")


async def figures_of(world: Command, user: str) -> str:
    """The figures that an agent's machine writes for Prometheus, written now."""
    await on_machine(world, user, "hermes-node metrics")
    shown = await world.ok("instance", "exec", user, "cat /run/hermes-metrics/hermes.prom", "--reason", "t")
    return shown.stdout


def came_before(world: Command, age: timedelta) -> None:
    """Make every event of billing so much older."""
    registry = Container(Environment.load("local", world.environ), lambda _: None).registry
    with registry._database.writing() as connection:
        at = registry._database.now(connection) - age
        connection.execute(tables.billing_events.update().values(received_at=at))
    registry.close()


async def stop_behind_its_back(world: Command, user: str) -> None:
    """Have an agent's machine switched off at the vendor."""
    machine = await machine_of(world, user)
    async with vendor_of(world.home / "local" / "world") as vendor:
        (await vendor.post(f"machines/{machine}/stop")).raise_for_status()
        await told(vendor, f"machines/{machine}", status="stopped")


async def machine_of(world: Command, user: str) -> str:
    """The id of an agent's machine."""
    return str((await world.ok("instance", "show", user, "--json")).json["instance"]["machine_id"])


async def generation_of(world: Command) -> int:
    """Of ada's model token."""
    tokens = (await world.ok("token", "list", "ada", "--json")).json["tokens"]
    return next(int(token["generation"]) for token in tokens if token["purpose"] == "models")


async def restarts_of(world: Command, user: str) -> int:
    """How often systemd restarted an agent's gateway since somebody last did."""
    shown = await world.ok(
        "instance", "exec", user, "systemctl show -p NRestarts hermes-gateway.service", "--reason", "t"
    )
    await pause(1)
    return int(shown.stdout.partition("=")[2])

"""Runbooks are run against the faults that they are for, by the installed command in a simulated world."""

import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.real.commands.command import Command, Ran, local_world
from tests.support.releases.simulated import built
from tests.support.vendor.outside_changes import delete_behind_its_back, told, vendor_of
from tests.support.worlds.old_rows import grow_old

KEPT = {"HERMESOPS_LAST_BACKUP": "required", "HERMESOPS_GRACE_DAYS": "7", "HERMESOPS_PREVIOUS_DAYS": "1"}
GONE = ("runbook", "run", "machine-gone", "--instance", "ada")
SUSPENDED = ("runbook", "run", "instance-suspended", "--instance", "ada")


@pytest.fixture(scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Command]:
    async with local_world(tmp_path_factory.mktemp("runbook"), driver="sim", variables=KEPT) as command:
        await command.ok("provision", "ada", "--plan", "light")
        await command.ok("backup", "create", "ada")
        yield command


async def machine_of(world: Command) -> str:
    return str((await world.ok("instance", "show", "ada", "--json")).json["instance"]["machine_id"])


async def stop_behind_its_back(world: Command) -> None:
    machine = await machine_of(world)
    async with vendor_of(world.home / "local" / "world") as api:
        (await api.post(f"/machines/{machine}/stop")).raise_for_status()
        await told(api, f"/machines/{machine}", status="stopped")


async def transcript(world: Command) -> dict[str, Any]:
    """The newest one, with its steps by name."""
    entries = (await world.ok("audit", "log", "--json")).json["entries"]
    newest = next(logged for logged in entries if logged["action"] == "runbook_run")
    assert newest["subject"].startswith("instance/")
    return {step["step"]: step for step in newest["after"]["steps"]}


def outcomes(ran: Ran) -> dict[str, str]:
    return {step["step"]: step["outcome"] for step in ran.json["steps"]}


async def test_a_machine_that_is_gone_is_replaced(world: Command) -> None:
    lost = await machine_of(world)
    await delete_behind_its_back(world.home / "local" / "world", lost)

    shown = await world.ok(*GONE, "--dry-run")
    assert "backup restore ada --onto-new-machine --reason 'its machine is gone' --yes" in shown.stdout

    refused = await world.run(*GONE)
    assert refused.exit_code == 3, str(refused)
    assert "machine-restorable  ada" in refused.stdout
    assert "step restore was not confirmed: nothing was changed" in refused.stderr
    assert "hermesops runbook run machine-gone --instance ada --from restore" in refused.stderr
    assert (await transcript(world))["restore"]["outcome"] == "not confirmed"

    assert await world.killed_at("restore: hermesops", *GONE, "--yes", by=signal.SIGINT) == 130
    assert (await transcript(world))["restore"]["outcome"] == "interrupted"

    mended = await world.ok(*GONE, "--from", "restore", "--yes", "--json")
    ended = outcomes(mended)
    # Where the interrupt came early, there is no operation to continue yet.
    assert {ended.pop("restore"), ended.pop("continue")} == {"done", "not needed"}
    assert ended == {"operations": "done", "drift-after": "done", "show-after": "done"}
    assert (await world.ok("fleet", "drift")).stdout == "nothing differs\n"
    assert await machine_of(world) != lost
    restore = (await transcript(world))["restore"]
    assert (restore["exit_code"], restore["command"][:3]) == (0, ["backup", "restore", "ada"])
    assert restore["detail"].startswith("the agent of ada is on ")

    again = await world.run(*GONE, "--yes")
    assert again.exit_code == 8, "a machine is not replaced that is there"
    assert "step drift: it did not print “machine-restorable ada”" in again.stderr


async def test_an_agent_that_was_suspended_is_resumed(world: Command) -> None:
    await world.ok("instance", "suspend", "ada", "--reason", "t")
    mended = await world.ok(*SUSPENDED, "--yes", "--json")
    assert outcomes(mended) == {
        "show": "done",
        "operations": "done",
        "audit": "done",
        "resume": "done",
        "start": "not needed",
        "show-after": "done",
    }


async def test_a_machine_that_was_stopped_is_started(world: Command) -> None:
    await stop_behind_its_back(world)
    mended = await world.ok(*SUSPENDED, "--yes", "--json")
    assert (outcomes(mended)["resume"], outcomes(mended)["start"]) == ("not needed", "done")


async def test_late_backups_are_made(world: Command) -> None:
    grow_old(world)
    mended = await world.ok("runbook", "run", "backups-are-late", "--yes", "--json")
    assert set(outcomes(mended).values()) == {"done"}
    assert (await world.ok("fleet", "status", "--json")).json["backups"]["late"] == 0


async def test_a_dry_run_names_what_nothing_stands_for_yet(world: Command) -> None:
    shown = (await world.ok("runbook", "run", "gateway-down", "--instance", "ada", "--dry-run")).stdout
    assert "$ hermesops operation continue OPERATION\n" in shown
    assert "OPERATION: its oldest unfinished operation; there is none now" in shown


async def test_what_a_run_found_is_told_and_written_down(world: Command) -> None:
    await world.ok("instance", "exec", "ada", "systemctl stop hermes-gateway.service", "--reason", "t")
    mended = await world.ok("runbook", "run", "gateway-down", "--instance", "ada", "--yes", "--json")
    assert mended.json["diagnosis"] == [
        {
            "meaning": "it does not run, or hangs: restart it (step 3)",
            "evidence": ["gateway silent", "machine status ready"],
        }
    ]
    changes = (await world.ok("fleet", "changes", "--since", "1h")).stdout.splitlines()
    assert "steps show done; operations done" in changes[-1]
    assert "'" not in changes[-1]


async def test_a_halted_rollout_is_ended_once_somebody_picks_that(world: Command) -> None:
    bad = await built(world, "bad", "turn:1.0")
    halted = await world.run("rollout", "start", bad, "--all", "--soak", "1s", "--settle", "1s", "--vitals", "none")
    assert halted.exit_code == 8, str(halted)

    unpicked = await world.run("runbook", "run", "rollout-halted", "--yes")
    assert unpicked.exit_code == 3, str(unpicked)
    assert "hermesops runbook run rollout-halted --from abort goes on from there" in unpicked.stderr

    mended = await world.ok("runbook", "run", "rollout-halted", "--from", "abort", "--yes", "--json")
    assert (outcomes(mended)["abort"], outcomes(mended)["roll-back"]) == ("done", "done")
    assert (outcomes(mended)["retry"], outcomes(mended)["promote"]) == ("not needed", "not needed")
    assert (await world.ok("rollout", "list", "--json")).json["rollouts"] == []

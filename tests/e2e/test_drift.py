"""A cell broken in five ways: each is found, named, and repaired by the very commands that were printed."""

import json
import shlex
import uuid
from collections.abc import Mapping
from typing import Any

import pytest

from hermesops.base.waiting import Pending, until
from tests.support.real.commands.command import Command
from tests.support.vendor.outside_changes import told, vendor_of

pytestmark = [pytest.mark.machines, pytest.mark.turns(60)]

ASKING = {"terminate", "remove-orphan"}
"""Verbs that ask; there is no terminal here."""


async def test_a_cell_broken_in_five_ways_is_repaired_by_what_drift_says(world: Command) -> None:
    lost, sound = f"u{uuid.uuid4().hex[:8]}", f"u{uuid.uuid4().hex[:8]}"
    rows = [(await world.ok("provision", user, "--plan", "light", "--json")).json["instance"] for user in (lost, sound)]
    assert await found(world, lost, sound) == {}

    async with vendor_of(world.home / "local" / "world") as api:
        # Behind our back a machine is destroyed, another stopped, and a third ordered that nobody remembers.
        stray = f"hermes-local-{rows[1]['cell']}-{uuid.uuid4().hex[:12]}"
        listed = await told(api, f"/machines/{rows[1]['machine_id']}")
        (await api.delete(f"/machines/{rows[0]['machine_id']}")).raise_for_status()
        (await api.post(f"/machines/{rows[1]['machine_id']}/stop")).raise_for_status()
        order = {"name": stray, "server_type": "starter", "region": listed["region"], "image_id": listed["image_id"]}
        ordered = await api.post("/machines", json=order)
        await told(api, f"/machines/{ordered.raise_for_status().json()['id']}")
        await told(api, f"/machines/{rows[1]['machine_id']}", status="stopped")
    findings = await found(world, lost, sound, stray)
    assert set(findings) == {"machine-missing", "stopped", "orphan"}, findings
    assert (findings["machine-missing"]["subject"], findings["stopped"]["subject"]) == (lost, sound)
    assert (await world.run("fleet", "drift", "--exit-code")).exit_code == 7
    refused = await world.run("fleet", "repair", "adopt", stray)
    assert refused.exit_code == 3, str(refused)
    assert f"hermesops fleet repair remove-orphan {stray}" in refused.stderr
    unconfirmed = await world.run("fleet", "repair", "remove-orphan", stray)
    assert unconfirmed.exit_code == 3, str(unconfirmed)
    await repair(world, findings["machine-missing"]["repair"])
    await repair(world, findings["stopped"]["repair"])
    await repair(world, findings["orphan"]["otherwise"])
    assert await found(world, lost, sound, stray) == {}

    # The machine made anew is rented larger, and the stack's state loses the other one.
    [row] = [i for i in (await world.ok("instance", "list", "--json")).json["instances"] if i["user"] == lost]
    async with vendor_of(world.home / "local" / "world") as api:
        resized = await api.post(f"/machines/{row['machine_id']}/resize", json={"server_type": "basic"})
        resized.raise_for_status()
        await told(api, f"/machines/{row['machine_id']}", server_type="basic")
    await forget(world, rows[1]["cell"], rows[1]["machine_name"])
    findings = await found(world, lost, sound)
    assert {kind: item["subject"] for kind, item in findings.items()} == {"resized": lost, "not-in-stack": sound}
    for finding in findings.values():
        await repair(world, finding["repair"])
    assert await found(world, lost, sound) == {}

    for user in (lost, sound):
        await answered(world, user)  # the vendor's resize ended with a boot
        await world.ok("instance", "terminate", user, "--yes", "--reason", "t")


async def answered(world: Command, user: str) -> None:
    """Wait until an agent answers."""

    async def ask() -> bool | Pending[bool]:
        ran = await world.run("instance", "chat", user, "hello", "--reason", "t")
        return True if ran.exit_code == 0 else Pending(str(ran))

    await until(ask, what=f"the agent of {user}", timeout_s=60)


async def found(world: Command, *about: str) -> dict[str, Mapping[str, Any]]:
    """Findings about these users and machines, by kind; others live in this world too."""
    findings = (await world.ok("fleet", "drift", "--json")).json["findings"]
    return {finding["kind"]: finding for finding in findings if finding["subject"] in about}


async def repair(world: Command, commands: list[str]) -> None:
    for command in commands:
        program, *words = shlex.split(command)
        assert program == "hermesops"
        await world.ok(*words, *(["--yes"] if ASKING & set(words) else []))


async def forget(world: Command, cell: str, machine: str) -> None:
    """Take a machine out of a stack's state, as somebody might who edits states by hand."""
    state = json.loads((await world.ok("stack", "export", cell)).stdout)
    resources = state["deployment"]["resources"]
    state["deployment"]["resources"] = [
        resource for resource in resources if not resource["urn"].endswith(f"::{machine}")
    ]
    edited = world.home / f"{uuid.uuid4().hex}.json"
    edited.write_text(json.dumps(state))
    await world.ok("stack", "import", cell, str(edited), "--yes")

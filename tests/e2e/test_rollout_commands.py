"""What operators say to a rollout under way, by the installed command in a simulated world; and the gate that halts."""

import asyncio
import subprocess
from collections.abc import AsyncIterator
from typing import Any

import pytest

from hermesops.base.waiting import Pending, pause, until
from tests.support.real.commands.command import Command, local_world
from tests.support.releases.simulated import built

USERS = 16
QUICK = ("--all", "--soak", "1s", "--settle", "1s", "--max-unavailable", "50%")


@pytest.fixture(scope="module")
async def fleet(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Command]:
    """Agents on simulated machines, all on one release."""
    home = tmp_path_factory.mktemp("rollout-commands")
    async with local_world(home, driver="sim") as command:
        users = home / "users.csv"
        users.write_text("user,plan,region\n" + "".join(f"user-{number},light,\n" for number in range(USERS)))
        await command.ok("provision", "--from", str(users))
        good = await built(command, "good")
        await command.ok("rollout", "start", good, *QUICK, "--vitals", "none", "--stages", "100%")
        yield command


@pytest.fixture(scope="module")
def operators(fleet: Command, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Command]:
    """Ada and bob, who count as two people there; eve, whose key counts for nothing, and somebody without a key."""
    folder, lines, keys = tmp_path_factory.mktemp("keys"), [], {}
    for name in ("ada", "bob", "eve"):
        keys[name] = folder / name
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(keys[name])], check=True, timeout=30)
        lines.append(f'{name}@example.net namespaces="hermesops-*" {keys[name].with_suffix(".pub").read_text()}')
    allowed = folder / "allowed"
    allowed.write_text("".join(lines[:2]))
    proved = {"HERMESOPS_ALLOWED_SIGNERS": str(allowed), "HERMESOPS_OPERATORS": "verified"}
    named = {"HERMESOPS_ALLOWED_SIGNERS": str(allowed)}
    return {
        "ada": fleet.with_variables(HERMESOPS_OPERATOR_KEY=str(keys["ada"]), **proved),
        "bob": fleet.with_variables(HERMESOPS_OPERATOR_KEY=str(keys["bob"]), **proved),
        "eve": fleet.with_variables(HERMESOPS_OPERATOR_KEY=str(keys["eve"]), **named),
        "nobody": fleet.with_variables(**named),
    }


async def status(command: Command, rollout_id: str = "") -> dict[str, Any]:
    rollout_status: dict[str, Any] = (await command.ok("rollout", "status", *filter(None, [rollout_id]), "--json")).json
    return rollout_status


async def comes_to(command: Command, release: str, state: str, *, reached: int) -> dict[str, Any]:
    """Wait until the rollout of a release is in a state, that many run it, and no machine is changing."""

    async def observe() -> dict[str, Any] | Pending[dict[str, Any]]:
        ran = await command.run("rollout", "status", "--json")
        if ran.exit_code or ran.json["rollout"]["release"] != release:
            return Pending("not begun")
        report: dict[str, Any] = ran.json
        changing = [
            target for target in report["targets"] if target["state"] in {"fetching", "activating", "unconfirmed"}
        ]
        is_there = report["rollout"]["state"] == state and report["progress"]["reached"] >= reached and not changing
        return report if is_there else Pending(str(report["rollout"]))

    return await until(observe, what=f"the rollout is {state}", timeout_s=180, every_s=0.8)


async def changes(command: Command, rollout_id: str) -> list[dict[str, Any]]:
    changes: list[dict[str, Any]] = (await command.ok("rollout", "history", rollout_id, "--json")).json["changes"]
    return changes


@pytest.mark.turns(25)
async def test_canaries_that_get_slower_halt_a_live_rollout_and_it_can_be_replayed(fleet: Command) -> None:
    # A turn takes 0.2 s, and twice that to be noticed on a busy computer: one twice as long would hardly be seen there.
    slow = await built(fleet, "slow", "slow:1:3")
    ran = await fleet.run(
        "rollout", "start", slow, *QUICK, "--stages", "50%,100%", "--vitals", "turn_latency", "--json"
    )
    assert ran.exit_code == 8, ran
    rollout = ran.json["rollout"]
    assert rollout["state"] == "halted"
    assert rollout["reason"].startswith("turn latency is ")
    assert rollout["reason"].endswith(" times what it was before, relative to unchanged agents (limit 1.25)")
    touched = ran.json["progress"]["touched"]
    assert 5 <= touched <= USERS // 2
    assert ran.json["progress"]["failed"] == 0, "none of them alone is slow enough to fail"
    first, *reports, _, _ = ran.stderr.splitlines()
    assert first.startswith(f"rollout {rollout['id']} deploys {slow} to {USERS} instances, begun by ")
    assert all(f" of {USERS} healthy" in line.partition(": ")[0] for line in reports)
    assert any(f"the rollout is halted: {rollout['reason']}" in line for line in reports)
    again = (await fleet.ok("rollout", "replay", rollout["id"], "--json")).json
    assert again["halted"]
    assert 5 <= again["touched"] <= touched
    without = (await fleet.ok("rollout", "replay", rollout["id"], "--vitals", "none", "--json")).json
    assert not without["halted"]
    await fleet.ok("rollout", "abort", "--reason", "too slow")


@pytest.mark.turns(20)
async def test_each_stage_waits_for_another_operators_signature(fleet: Command, operators: dict[str, Command]) -> None:
    ada, bob = operators["ada"], operators["bob"]
    release = await built(fleet, "approved")
    limits = ("--stages", "25%,100%", "--two-person-above", "1", "--vitals", "none")
    process = await ada.start("rollout", "start", release, *QUICK, *limits)
    rollout = (await comes_to(fleet, release, "paused", reached=0))["rollout"]
    assert rollout["reason"].startswith("stage 1 needs a second operator's approval: blast radius")

    for who, problem in (("ada", "cannot approve it"), ("eve", "by no signer"), ("nobody", "no operator_key is set")):
        refused = await operators[who].run("rollout", "approve", rollout["id"], "--stage", "1")
        assert refused.exit_code == 3, refused
        assert problem in refused.stderr
    rollout_status = await status(fleet)
    assert (rollout_status["rollout"], rollout_status["progress"]["touched"]) == (rollout, 0)
    assert "approve" not in {change["what"] for change in await changes(fleet, rollout["id"])}

    approved = (await bob.ok("rollout", "approve", "--stage", "1", "--reason", "looks fine", "--json")).json
    assert (approved["stage"], approved["approved_by"]) == (1, "bob@example.net")
    rollout_status = await comes_to(fleet, release, "paused", reached=USERS // 4)
    assert rollout_status["progress"]["touched"] == USERS // 4
    assert rollout_status["rollout"]["reason"].startswith("stage 2 needs a second operator's approval: blast radius")
    events = (await fleet.ok("rollout", "explain", "--json")).json["events"]
    [event] = [recorded for recorded in events if recorded["decision"].get("verb") == "approve"]
    assert (event["decision"]["who"], event["decision"]["approved"], event["why"]) == (
        "bob@example.net",
        1,
        "looks fine",
    )
    signed = event["evidence"]["approval"]
    assert signed["approval"]["asked"]["by"] == "ada@example.net"
    assert signed["signature"].startswith("-----BEGIN SSH SIGNATURE-----")

    await bob.ok("rollout", "approve", "--stage", "2")
    _, output = await asyncio.wait_for(process.communicate(), 180)
    assert process.returncode == 0, output.decode()
    assert (await status(fleet))["progress"]["reached"] == USERS


@pytest.mark.turns(60)
async def test_a_paused_rollout_touches_nobody_new_until_it_is_resumed(fleet: Command) -> None:
    release = await built(fleet, "paused")
    process = await fleet.start("rollout", "start", release, *QUICK, "--vitals", "none")
    await comes_to(fleet, release, "running", reached=1)
    shown = (await fleet.ok("rollout", "pause", "--reason", "a demonstration", "--json")).json["rollout"]
    assert (shown["state"], shown["reason"]) == ("paused", "a demonstration")
    rollout_status = await comes_to(fleet, release, "paused", reached=1)
    assert rollout_status["progress"]["touched"] < USERS
    await pause(3)
    assert (await status(fleet))["progress"]["touched"] == rollout_status["progress"]["touched"]
    assert (await fleet.run("rollout", "pause")).exit_code == 3
    resumed = await fleet.ok("rollout", "resume", "--reason", "it is over", "--json")
    assert (resumed.json["rollout"]["state"], resumed.json["progress"]["reached"]) == ("done", USERS)
    await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0
    steered = [(change["what"], change["to"], change["why"]) for change in await changes(fleet, shown["id"])]
    assert ("pause", "paused", "a demonstration") in steered
    assert ("resume", "running", "it is over") in steered


@pytest.mark.turns(15)
async def test_those_that_failed_are_tried_again_through_the_same_gates(fleet: Command) -> None:
    release = await built(fleet, "broken", "start:1.0")
    first = await fleet.run("rollout", "start", release, *QUICK, "--vitals", "none", "--stages", "100%", "--json")
    assert first.exit_code == 8, first
    rollout_id = first.json["rollout"]["id"]
    failed = {
        target["user"]: target["touched_at"]
        for target in (await status(fleet))["targets"]
        if target["state"] == "failed"
    }
    assert failed
    again = await fleet.run("rollout", "retry", "--reason", "perhaps the network", "--json")
    assert again.exit_code == 8, again
    now = {target["user"]: target["touched_at"] for target in (await status(fleet))["targets"]}
    # The gates halt it again, on a busy computer before the last of them began anew.
    assert any(now[user] for user in failed)
    assert all(now[user] is None or now[user] > touched_at for user, touched_at in failed.items())
    steered = [(change["what"], change["to"], change["why"]) for change in await changes(fleet, rollout_id)]
    assert ("retry", "running", "perhaps the network") in steered
    assert steered[-1][1] == "halted"
    await fleet.ok("rollout", "abort", "--reason", "broken")
    over = await fleet.run("rollout", "retry", rollout_id)
    assert over.exit_code == 3
    assert "is aborted and cannot be retried" in over.stderr

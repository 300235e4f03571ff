"""Verification of a real agent on a real machine: what it promises, and each known failure, provoked and repaired."""

import hashlib
from collections.abc import AsyncIterator

import pytest

from hermesops.base.waiting import Pending, until
from hermesops.machines.verify.checks.machine import DROP_INS
from hermesops.machines.verify.checks.promise import Expected
from hermesops.machines.verify.failure_catalog import Failure, Finding
from hermesops.machines.verify.verification import Verification, verify
from hermesops.model.check import Verdict
from tests.support.images.builds import Made
from tests.support.real.machines.agents import Agent, living_agent
from tests.support.real.machines.one_by_one import QUICK, verify_one_by_one

pytestmark = [pytest.mark.machines, pytest.mark.turns(90)]

UNIT = "hermes-gateway.service"
OVERRIDE = f"/run/systemd/system/{UNIT}.d/test.conf"


@pytest.fixture(scope="module")
async def agent(built_image: Made) -> AsyncIterator[Agent]:
    async with living_agent(built_image.world, built_image.image_id) as agent:
        yield agent


def expected(agent: Agent) -> Expected:
    return Expected(agent.instance_id, 1, hashlib.sha256(agent.api_server_key.encode()).hexdigest())


async def found(agent: Agent) -> Verification:
    """A verification without the turn."""
    return await verify(agent.channel, expected(agent), QUICK)


def broken(verification: Verification) -> dict[str, str]:
    return {check.name: check.seen for check in verification.checks if not check.verdict.holds}


def warned(verification: Verification) -> dict[str, str]:
    return {check.name: check.seen for check in verification.checks if check.verdict is Verdict.WARNING}


async def recognised(agent: Agent, failure: Failure) -> Finding:
    """Wait until that failure, and no other, is what a verification finds."""

    async def observe() -> Finding | Pending[Finding]:
        findings = (await found(agent)).findings
        return findings[0] if [f.failure for f in findings] == [failure] else Pending(str(findings))

    return await until(observe, what=f"finding {failure}", timeout_s=45, every_s=0.5)


async def repaired(agent: Agent) -> None:
    """Undo whatever a test did to the unit, hand the machine over again, and see that all is well."""
    await agent.run(f"rm -f {OVERRIDE}; systemctl daemon-reload; chown hermes:hermes /var/lib/hermes")
    await agent.run(f"systemctl restart {UNIT}", timeout_s=90)
    await agent.personalise()
    after = await found(agent)
    assert broken(after) == {}
    assert after.findings == ()


async def override(agent: Agent, *lines: str) -> None:
    """Change the unit until the machine restarts or ``repaired``."""
    await agent.channel.put(OVERRIDE, "\n".join(("[Service]", *lines, "")).encode(), mode=0o644)
    await agent.run("systemctl daemon-reload")


async def test_a_living_agent_keeps_every_promise_in_one_round_trip(agent: Agent) -> None:
    verification = await verify(agent.channel, expected(agent))
    assert (broken(verification), warned(verification)) == ({}, {})
    assert verification.is_ok
    assert verification.round_trips == 1


async def test_one_by_one_testinfra_sees_the_same_on_a_living_agent(agent: Agent) -> None:
    batched, single = await found(agent), await verify_one_by_one(agent.channel, expected(agent), QUICK)
    assert [(check.name, check.verdict) for check in batched.checks] == [
        (check.name, check.verdict) for check in single.checks
    ]
    assert single.round_trips > 25


async def test_the_turn_leaves_no_session_behind(agent: Agent) -> None:
    count = (
        "runuser -u hermes -- /opt/hermes/current/venv/bin/python -c 'import sqlite3; print(sqlite3.connect("
        '"file:/var/lib/hermes/state.db?mode=ro", uri=True).execute("select count(*) from sessions").fetchone()[0])\''
    )
    before = await agent.run(count)
    assert broken(await verify(agent.channel, expected(agent))) == {}
    assert await agent.run(count) == before


async def test_a_machine_of_somebody_else_is_told_apart(agent: Agent) -> None:
    other = Expected("0c4f4ab6-4ff9-4bb4-bd2c-9c9b2ac1a001", 1)
    assert set(broken(await verify(agent.channel, other, QUICK))) == {"identity"}


async def test_drift_is_seen_by_both_ways_of_looking(agent: Agent) -> None:
    await agent.run(
        "chmod 644 /etc/hermes/.env && nft add rule inet hermes input tcp dport 22 accept && "
        "systemctl stop hermes-sandbox.socket && systemd-run --unit=stranger python3 -m http.server 9999 && "
        f"mv {DROP_INS[0]} /run/data.conf"
    )
    try:
        # The stranger needs a moment to listen.
        async def listening() -> Verification | Pending[Verification]:
            verification = await found(agent)
            return verification if "ports" in broken(verification) else Pending(str(broken(verification)))

        verification = await until(listening, what="the stranger", timeout_s=20)
        assert set(broken(verification)) == {"secrets", "firewall", "sandbox-socket", "ports", "drop-ins"}
        assert DROP_INS[0] in broken(verification)["drop-ins"]
        assert set(warned(verification)) == {"foreign-units"}
        assert "“stranger.service” since “" in warned(verification)["foreign-units"]
        assert "python3 -m http.server 9999”" in warned(verification)["foreign-units"]
        single = await verify_one_by_one(agent.channel, expected(agent), QUICK)
        assert broken(single) == broken(verification)
    finally:
        await agent.run(
            "systemctl stop stranger; chmod 640 /etc/hermes/.env; nft --file /etc/hermes-firewall.nft; "
            f"systemctl start hermes-sandbox.socket; mv /run/data.conf {DROP_INS[0]}"
        )
    assert broken(await found(agent)) == {}


async def test_a_timer_that_starts_the_gateway_again_and_again_is_named_with_its_command(agent: Agent) -> None:
    # Only that it starts is counted, so that the test needs no five whole starts.
    script = f"systemctl restart --no-block {UNIT}"
    await agent.run(
        # Not each second: systemd refuses a unit its sixth start within ten seconds, and a fast computer comes so far.
        f"systemd-run --unit=again --on-active=1 --on-unit-active=3 --timer-property=AccuracySec=1s {script}"
    )
    try:

        async def counted() -> dict[str, str] | Pending[dict[str, str]]:
            warnings = warned(await found(agent))
            return warnings if "starts" in warnings else Pending(str(warnings))

        starts = await until(counted, what="the starts", timeout_s=90, every_s=1)
        assert "“again.timer” since “" in starts["foreign-units"]
        assert script in starts["foreign-units"]
    finally:
        # Between two starts its service is not loaded.
        await agent.run("systemctl stop again.timer; systemctl stop again.service 2>/dev/null || true")
        # One of its starts may have been refused as the last of too many.
        await agent.run("systemctl reset-failed again.service 2>/dev/null || true")
    await repaired(agent)


# The six rows of the table of failure modes


async def test_a_gateway_that_crashes_at_its_start_failed_its_probe_at_boot(agent: Agent) -> None:
    await agent.run(f"systemctl stop {UNIT}; chown root:root /var/lib/hermes; systemctl start --no-block {UNIT}")
    finding = await recognised(agent, Failure.BOOT_PROBE)
    assert "instance logs" in str(finding.hint)
    await repaired(agent)


async def test_a_gateway_with_another_key_than_its_files_is_a_key_mismatch(agent: Agent) -> None:
    await agent.run(f"sed -i \"s/^API_SERVER_KEY=.*/API_SERVER_KEY='{'0' * 64}'/\" /etc/hermes/.env")
    finding = await recognised(agent, Failure.KEY_MISMATCH)
    assert "another API key than the registry" in finding.seen
    as_the_machine_has_it = Expected(agent.instance_id, 1, hashlib.sha256(b"0" * 64).hexdigest())
    (inside,) = (await verify(agent.channel, as_the_machine_has_it, QUICK)).findings
    assert (inside.failure, "401" in inside.seen) == (Failure.KEY_MISMATCH, True)
    await repaired(agent)


async def test_a_model_that_the_router_refuses_with_400_is_unknown(agent: Agent) -> None:
    await agent.run('sed -i \'s/"default": "claude-haiku"/"default": "claude-opus-9"/\' /etc/hermes/config.yaml')
    finding = await recognised(agent, Failure.UNKNOWN_MODEL)
    assert "claude-opus-9" in finding.seen
    turn = broken(await verify(agent.channel, expected(agent)))
    assert {"model", "chat"} <= set(turn)
    await repaired(agent)


async def test_a_gateway_that_was_killed_after_boot_is_gone(agent: Agent) -> None:
    await override(agent, "Restart=no")
    # It answers before systemd calls it ready; killed in between it would be one that never got there.
    await agent.run(f"systemctl start {UNIT} && systemctl kill --signal=KILL {UNIT}", timeout_s=90)
    finding = await recognised(agent, Failure.GONE_AFTER_BOOT)
    assert "result signal" in finding.seen
    await repaired(agent)


async def test_a_home_that_is_not_kept_loses_skills_between_sessions(agent: Agent) -> None:
    await agent.run(
        f"systemctl stop {UNIT} && mount -t tmpfs -o mode=0700 tmpfs /var/lib/hermes && "
        f"chown hermes:hermes /var/lib/hermes && systemctl start --no-block {UNIT}",
        timeout_s=90,
    )
    finding = await recognised(agent, Failure.SKILLS_NOT_KEPT)
    assert "tmpfs" in finding.seen
    await agent.run(f"systemctl stop {UNIT} && umount /var/lib/hermes", timeout_s=90)
    await repaired(agent)


async def test_settings_of_the_user_that_are_gone_are_noticed(agent: Agent) -> None:
    await agent.run("mv /var/lib/hermes/config.yaml /var/lib/hermes/.config.kept")
    try:
        assert list(broken(await found(agent))) == ["user-settings"]
    finally:
        await agent.run("mv /var/lib/hermes/.config.kept /var/lib/hermes/config.yaml")


async def test_a_token_that_is_not_forwarded_is_named(agent: Agent) -> None:
    await agent.run("sed -i '/^AUXILIARY_HELIUM_API_KEY=/d' /etc/hermes/.env")
    finding = await recognised(agent, Failure.KEY_NOT_FORWARDED)
    assert "AUXILIARY_HELIUM_API_KEY" in finding.seen
    await repaired(agent)

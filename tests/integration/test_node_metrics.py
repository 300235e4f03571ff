"""The figures of a booted machine with the real agent, and its gateway killed, broken, and kept from starting."""

import json
import shlex
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest

from hermesops.base.waiting import Pending, until
from hermesops.model.billing.route import issue_token
from hermesops.wire.protocol import PROGRAM
from tests.support.images.builds import Made
from tests.support.real.machines.agents import Agent, living_agent

pytestmark = [pytest.mark.machines, pytest.mark.turns(200)]

_FILE = "/run/hermes-metrics/hermes.prom"
_UNIT = "hermes-gateway.service"

_ASK = """
import http.client, json, sys
connection = http.client.HTTPConnection("127.0.0.1", 8642, timeout=120)
headers = {"Authorization": "Bearer " + sys.argv[1], "Content-Type": "application/json"}
body = {"model": "agent", "messages": [{"role": "user", "content": sys.argv[2]}]}
connection.request("POST", "/v1/chat/completions", body=json.dumps(body), headers=headers)
print(connection.getresponse().status)
"""

_AGAIN = """
import http.client, os, signal, subprocess, sys, time
unit = "hermes-gateway.service"
if sys.argv[1] == "kill":
    shown = subprocess.run(["systemctl", "show", "-P", "MainPID", unit], capture_output=True, check=True)
    os.kill(int(shown.stdout), signal.SIGKILL)
else:
    subprocess.run(["systemctl", "stop", unit], check=True)
    subprocess.run(["systemctl", "start", "--no-block", unit], check=True)
begun = time.monotonic()
while time.monotonic() < begun + 60:
    time.sleep(0.05)
    try:
        connection = http.client.HTTPConnection("127.0.0.1", 8642, timeout=1)
        connection.request("GET", "/health")
        if connection.getresponse().status == 200:
            break
    except OSError:
        continue
print(time.monotonic() - begun)
"""
"""Ends the gateway, and says how many seconds later it answers again."""


@pytest.fixture(scope="module")
async def agent(built_image: Made) -> AsyncIterator[Agent]:
    async with living_agent(built_image.world, built_image.image_id) as agent:
        yield agent


async def metrics(agent: Agent) -> dict[str, float]:
    """The series that the timer has written, and their values."""
    text = await agent.run(f"cat {_FILE}")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {series: float(value) for series, _, value in (line.rpartition(" ") for line in lines)}


async def shown(agent: Agent, holds: Callable[[dict[str, float]], bool], *, timeout_s: float = 60) -> dict[str, float]:
    """The series once something holds of them."""

    async def observe() -> dict[str, float] | Pending[dict[str, float]]:
        metrics_now = await metrics(agent)
        return metrics_now if holds(metrics_now) else Pending(str(metrics_now))

    return await until(observe, what="the figures to show it", timeout_s=timeout_s, every_s=1)


async def ask(agent: Agent, text: str) -> int:
    done = await agent.run(f"python3 -c {shlex.quote(_ASK)} {agent.api_server_key} {shlex.quote(text)}", timeout_s=150)
    return int(done)


async def node(agent: Agent, command: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(await agent.run(f"{PROGRAM} {command}", timeout_s=150))
    return answer


async def test_the_figures_of_an_agent_that_is_well(agent: Agent) -> None:
    metrics = await shown(
        agent, lambda metrics_now: metrics_now.get("hermes_agent_up") == metrics_now.get("hermes_gateway_up") == 1
    )
    assert (await node(agent, "metrics"))["failed"] == {}
    assert metrics['hermes_agent_health{status="ok"}'] == metrics["hermes_personalised"] == 1
    assert 50e6 < metrics["hermes_gateway_memory_bytes"] < metrics["hermes_gateway_memory_max_bytes"] == 2 << 30
    assert metrics['hermes_data_bytes{state="size"}'] > metrics['hermes_data_bytes{state="used"}']
    assert metrics['hermes_database_bytes{database="state"}'] > 4096
    assert metrics["hermes_router_token_not_after_timestamp_seconds"] > time.time()
    assert metrics["hermes_metrics_errors_total"] == 0
    info = next(series for series in metrics if series.startswith("hermes_node_info"))
    assert 'distribution="debian-12"' in info
    assert [series for series in metrics if series.startswith("hermes_release_info")]


async def test_they_are_written_every_quarter_of_a_minute_and_cost_little(agent: Agent) -> None:
    first = (await metrics(agent))["hermes_metrics_timestamp_seconds"]
    metrics_now = await shown(
        agent, lambda metrics_now: metrics_now["hermes_metrics_timestamp_seconds"] > first + 40, timeout_s=90
    )
    assert metrics_now["hermes_metrics_timestamp_seconds"] - first < 75
    spent = await agent.run(
        f'python3 -c \'import resource, subprocess; subprocess.run(["{PROGRAM}", "metrics"], stdout=-3); '
        "used = resource.getrusage(resource.RUSAGE_CHILDREN); print(used.ru_utime + used.ru_stime)'"
    )
    assert float(spent) < 1.0
    assert "hermes-metrics.service" not in await agent.run("journalctl --no-pager -o cat -b")


async def test_what_stays_makes_way_for_another_program(agent: Agent) -> None:
    before = {name: await main_pid(agent, name) for name in ("metrics", "orders")}
    await agent.run(f"touch {PROGRAM}")
    for name, pid in before.items():
        await another_pid(agent, name, pid)
    first = (await metrics(agent))["hermes_metrics_timestamp_seconds"]
    await shown(agent, lambda metrics_now: metrics_now["hermes_metrics_timestamp_seconds"] > first)
    assert "failed" not in await agent.run("systemctl list-units --plain --no-legend 'hermes-*'")


async def test_what_stays_comes_back_when_killed_and_ends_with_its_timer(agent: Agent) -> None:
    pid = await main_pid(agent, "metrics")
    await agent.run("systemctl kill --signal=KILL hermes-metrics")
    await another_pid(agent, "metrics", pid)
    for name in ("metrics", "orders", "recovery"):
        shows = f"systemctl show -P ActiveState hermes-{name}.service"
        assert (await agent.run(f"systemctl stop hermes-{name}.timer; {shows}")).strip() == "inactive"
        await agent.run(f"systemctl start hermes-{name}.timer")
        await another_pid(agent, name, "0")


async def test_a_program_that_runs_once_is_started_again_and_again(agent: Agent) -> None:
    """As every hermes-node does that does not know the variable of these units: one of an older release."""
    folder = "/run/systemd/system/hermes-metrics.service.d"
    once = f"mkdir -p {folder}; printf '[Service]\nUnsetEnvironment=HERMES_NODE_EVERY_S\n' >{folder}/once.conf"
    await agent.run(f"{once}; systemctl daemon-reload; systemctl restart hermes-metrics.timer")
    try:
        first = (await metrics(agent))["hermes_metrics_timestamp_seconds"]
        metrics_now = await shown(
            agent, lambda metrics_now: metrics_now["hermes_metrics_timestamp_seconds"] > first + 20, timeout_s=90
        )
        assert metrics_now["hermes_metrics_errors_total"] == 0
    finally:
        await agent.run(f"rm -r {folder}; systemctl daemon-reload; systemctl restart hermes-metrics.timer")


async def main_pid(agent: Agent, name: str) -> str:
    return (await agent.run(f"systemctl show -P MainPID hermes-{name}.service")).strip()


async def another_pid(agent: Agent, name: str, before: str) -> None:
    """Wait until a service runs in another process."""

    async def observe() -> bool | Pending[bool]:
        pid = await main_pid(agent, name)
        return True if pid not in {before, "0"} else Pending(pid)

    await until(observe, what=f"another process of hermes-{name}", timeout_s=90, every_s=1)


async def test_the_agents_user_reads_the_figures_and_writes_none(agent: Agent) -> None:
    attempts = (
        f"cat {_FILE} >/dev/null && echo read; echo x >> {_FILE}; echo x > /run/hermes-metrics/x; "
        f"rm -f {_FILE}; cat /run/hermes-metrics/memory.json"
    )
    output = await agent.run(f"su -s /bin/sh hermes -c {shlex.quote(attempts)} 2>&1 || true")
    assert output.count("ermission denied") == 4, output
    assert "read" in output


async def test_turns_and_tokens_of_the_real_agent_are_counted(agent: Agent) -> None:
    before = await metrics(agent)
    assert await ask(agent, "hello") == 200
    answered = 'hermes_turns_total{outcome="answered"}'
    metrics_now = await shown(agent, lambda metrics_now: metrics_now[answered] > before[answered])
    assert metrics_now['hermes_tokens_spent_total{kind="output"}'] > before['hermes_tokens_spent_total{kind="output"}']
    assert metrics_now['hermes_turns_total{outcome="failed"}'] == before['hermes_turns_total{outcome="failed"}']


async def test_a_probes_turn_is_shown(agent: Agent) -> None:
    assert (await node(agent, "probe --turn 60"))["turn"]["ok"]
    assert (
        0 < (await shown(agent, lambda metrics_now: "hermes_turn_seconds" in metrics_now))["hermes_turn_seconds"] < 60
    )


async def test_databases_are_checked_beside_the_running_agent(agent: Agent) -> None:
    await agent.run("systemctl start hermes-databases.service", timeout_s=120)
    assert (await agent.run("systemctl show -P Result hermes-databases.service")).strip() == "success"
    metrics = await shown(agent, lambda metrics_now: 'hermes_database_integrity{database="state"}' in metrics_now)
    metrics_now = {series: value for series, value in metrics.items() if "integrity" in series}
    assert set(metrics_now.values()) == {1}
    assert len(metrics_now) >= 2
    assert await ask(agent, "hello") == 200


async def test_a_killed_gateway_answers_again_within_ten_seconds(agent: Agent) -> None:
    """On a computer that is busy with other things, within what a start takes there and the pause before it."""
    before = await metrics(agent)
    again = f"python3 -c {shlex.quote(_AGAIN)}"
    started = float(await agent.run(f"{again} restart", timeout_s=150))
    killed = float(await agent.run(f"{again} kill", timeout_s=150))
    print(f"killed, and answers again after {killed:.1f} s; a start takes {started:.1f} s")  # noqa: T201 - for people
    assert killed < max(10, 2 * started + 2)
    restarts = "hermes_gateway_restarts_total"
    metrics_now = await shown(
        agent, lambda metrics_now: metrics_now[restarts] > before[restarts] and metrics_now["hermes_agent_up"] == 1
    )
    assert metrics_now[restarts] == before[restarts] + 1


async def test_a_router_that_refuses_the_token_is_told_from_other_failures(agent: Agent, built_image: Made) -> None:
    before = await metrics(agent)
    expired = issue_token(built_image.world.cloud.model_secret, agent.instance_id, 1, int(time.time()) - 60)
    await agent.personalise(replace(agent.payload, secrets=replace(agent.payload.secrets, model_token=expired)))
    await agent.run(f"systemctl restart {_UNIT}", timeout_s=120)
    try:
        await ask(agent, "hello")
        refused, failed = 'hermes_model_errors_total{status="401"}', 'hermes_turns_total{outcome="failed"}'
        metrics_now = await shown(
            agent, lambda metrics_now: metrics_now[refused] > before[refused] and metrics_now[failed] > before[failed]
        )
        assert metrics_now["hermes_router_token_not_after_timestamp_seconds"] < time.time()
        assert (
            metrics_now['hermes_model_errors_total{status="429"}'] == before['hermes_model_errors_total{status="429"}']
        )
    finally:
        await agent.personalise()
        await agent.run(f"systemctl restart {_UNIT}", timeout_s=120)


async def test_a_gateway_that_keeps_ending_is_given_up_and_started_again(agent: Agent) -> None:
    await agent.run("chmod -x /opt/hermes/libexec/hermes-gateway")
    try:
        await agent.run(f"systemctl kill --signal=SIGKILL {_UNIT}")
        await agent.run(
            f"timeout 90 sh -c 'until systemctl is-failed --quiet {_UNIT}; do sleep 0.2; done'", timeout_s=99
        )
        metrics = await shown(agent, lambda metrics_now: metrics_now["hermes_gateway_up"] == 0)
        assert metrics["hermes_agent_up"] == 0
        assert metrics['hermes_agent_health{status="silent"}'] == 1
        tried = "timeout 60 sh -c 'until [ -s /run/hermes-node/recoveries.json ]; do sleep 0.5; done'"
        await agent.run(tried, timeout_s=70)
    finally:
        await agent.run("chmod +x /opt/hermes/libexec/hermes-gateway")
    begun = time.monotonic()
    await shown(
        agent,
        lambda metrics_now: metrics_now["hermes_gateway_up"] == metrics_now["hermes_agent_up"] == 1,
        timeout_s=150,
    )
    print(f"mended, and up again after {time.monotonic() - begun:.0f} s")  # noqa: T201 - a figure for people
    assert "systemd gave it up" in await agent.run("journalctl -u hermes-recovery --no-pager -o cat")


async def test_a_fenced_gateway_is_not_started_by_it(agent: Agent) -> None:
    await node(agent, "fence")
    await agent.run("systemctl start hermes-recovery.service")
    assert (await node(agent, "recover"))["started"] is False
    metrics = await shown(agent, lambda metrics_now: metrics_now["hermes_fenced"] == 1)
    assert metrics["hermes_gateway_up"] == 0
    await node(agent, "unfence")
    assert (await node(agent, "configure"))["healthy"]

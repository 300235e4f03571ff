"""Settings of a running agent, changed by the installed command on a real machine."""

import asyncio
import json
import uuid

import httpx
import pytest

from tests.support.real.commands.command import Command, Ran

pytestmark = [pytest.mark.machines, pytest.mark.turns(60)]

INVOCATION = "systemctl show -p InvocationID --value hermes-gateway"
CONFIG = "cat /etc/hermes/config.yaml"
DROP_IN = "/run/systemd/system/hermes-gateway.service.d/broken.conf"
BREAK = f"mkdir -p $(dirname {DROP_IN}) && printf '[Service]\\nExecStartPre=/bin/false\\n' > {DROP_IN}"
TOKEN = "canary-5b1d-messenger"  # noqa: S105 - what is searched for; in a variable that has no messenger connect


async def test_settings_are_changed_once_kept_secret_and_taken_back(world: Command) -> None:
    user = f"u{uuid.uuid4().hex[:8]}"
    row = (await world.ok("provision", user, "--plan", "light", "--json")).json["instance"]
    assert (await world.run("instance", "settings", user, "--back", "--reason", "t")).exit_code == 3

    # Another model and one tool less: seen on the machine, by verify, and by the router.
    first = await _on_machine(world, user, INVOCATION)
    change = ("instance", "settings", user, "--set", "model=gpt-4o", "--set", "disabled_tools=code_execution")
    await world.ok(*change, "--reason", "t")
    second = await _on_machine(world, user, INVOCATION)
    assert first != second
    config = json.loads(await _on_machine(world, user, CONFIG))
    assert (config["model"]["default"], config["agent"]["disabled_toolsets"]) == ("gpt-4o", ["code_execution"])
    checks = (await world.ok("instance", "verify", user, "--json")).json["checks"]
    assert [check["seen"] for check in checks if check["check"] == "model"] == ["gpt-4o, token accepted"]
    assert (await world.ok("instance", "verify", user, "--failed")).stdout == "everything is ok\n"
    await world.ok("instance", "chat", user, "hello", "--reason", "t")
    assert (await _models_asked_for(world, row["instance_id"]))[-1] == "gpt-4o"

    again = await world.ok(*change, "--reason", "t")
    assert again.stderr == "", "the second time there was something to do"
    assert await _on_machine(world, user, INVOCATION) == second

    # Killed while the machine is handed the rest: the operation finishes it, and nothing secret is told.
    wish = f"model: gpt-4o\npersonality: Terse.\nmessengers: {{GATEWAY_ALLOW_ALL_USERS: {TOKEN}}}\n"
    wished = world.home / f"{user}.yaml"
    wished.write_text(wish)
    await world.killed_at("handing", "instance", "settings", user, "--from", str(wished), "--reason", "t")
    [row] = [o for o in (await world.ok("operation", "list", "--json")).json["operations"] if o["kind"] == "configure"]
    await _until_free(world, "operation", "continue", row["id"])
    assert await _on_machine(world, user, "cat /var/lib/hermes/SOUL.md") == "Terse."
    third = await _on_machine(world, user, INVOCATION)
    assert third != second
    shown = await world.ok("instance", "settings", user)
    assert "GATEWAY_ALLOW_ALL_USERS: '***'" in shown.stdout

    # A gateway that does not come up with a choice: told with its log, and one command goes back.
    await world.ok("instance", "exec", user, "--reason", "t", "--", f"{BREAK} && systemctl daemon-reload")
    hasty = world.with_variables(HERMESOPS_GATEWAY_TIMEOUT_S="3")
    rejected = await hasty.run("instance", "settings", user, "--set", "model=gemini-flash", "--reason", "t")
    assert rejected.exit_code == 4, str(rejected)
    assert "with the new settings: the gateway" in rejected.stderr
    assert f"hermesops instance settings {user} --back" in rejected.stderr
    await world.ok("instance", "exec", user, "--reason", "t", "--", f"rm {DROP_IN} && systemctl daemon-reload")
    back = await world.ok("instance", "settings", user, "--back", "--reason", "t", "--json")
    assert back.json["settings"]["model"] == "gpt-4o"
    assert json.loads(await _on_machine(world, user, CONFIG))["model"]["default"] == "gpt-4o"
    assert not (await world.ok("operation", "list", "--json")).json["operations"]

    assert not [str(ran) for ran in world.said if TOKEN in ran.stdout + ran.stderr]
    await world.ok("instance", "terminate", user, "--yes", "--reason", "t")


async def _on_machine(world: Command, user: str, command: str) -> str:
    return (await world.ok("instance", "exec", user, "--reason", "t", "--", command)).stdout.strip()


async def _models_asked_for(world: Command, instance_id: str) -> list[str]:
    api_url = (await world.ok("local", "status", "--json")).json["api_url"]
    key = (world.home / "local" / "world" / "api.key").read_text().strip()
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {key}"}, trust_env=False) as router:
        answer = await router.get(f"{api_url}/local/model-requests", params={"instance": instance_id})
    return [request["model"] for request in answer.json()["requests"]]


async def _until_free(world: Command, *arguments: str) -> Ran:
    for _ in range(40):
        ran = await world.run(*arguments)
        if ran.exit_code != 3:
            break
        await asyncio.sleep(0.5)  # noqa: TID251 - a test waits for a dead process's lease to expire
    assert ran.exit_code == 0, str(ran)
    return ran

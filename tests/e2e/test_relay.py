"""Services of the platform reach agents through the relay, by commands: simulated machines, the world's real proxy."""

import asyncio
import json
import signal
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from hermesops.model.access.token import PLATFORM
from hermesops.programs.node.system import openssl
from hermesops.wire.tls_key import present
from tests.support.real.commands.command import Command, local_world

ASKED = ("--reason", "test")
CHAT = {"model": "hermes-agent", "messages": [{"role": "user", "content": "canary-of-a-user"}]}


@pytest.fixture
async def simulated(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Command]:
    async with local_world(tmp_path_factory.mktemp("relay"), driver="sim") as command:
        yield command


@asynccontextmanager
async def relay(world: Command, logged: list[str]) -> AsyncIterator[str]:
    """A running relay; where it is."""
    process = await world.start("relay", "serve", "--listen", "127.0.0.1:0")
    assert process.stderr is not None
    where = ""
    while "relaying on " not in where:
        line = await asyncio.wait_for(process.stderr.readline(), 60)
        assert line, logged
        where = line.decode()
        logged.append(where)
    try:
        yield f"https://{where.strip().rpartition('relaying on ')[2]}"
    finally:
        process.send_signal(signal.SIGTERM)
        _, output = await asyncio.wait_for(process.communicate(), 60)
        logged.append(output.decode())
        assert process.returncode == 0, output


async def admitted(world: Command, folder: Path, name: str) -> ssl.SSLContext:
    key = openssl.make()
    request = folder / f"{name}.csr"
    request.write_bytes(openssl.request(key))
    await world.ok("relay", "admit", name, "--request", str(request), "--to", str(folder / name), *ASKED)
    context = ssl.create_default_context(cafile=str(folder / name / "authority.pem"))
    present(context, key, (folder / name / "certificate.pem").read_bytes())
    return context


async def test_a_service_talks_to_agents_and_holds_no_token(simulated: Command, tmp_path: Path) -> None:
    for user in ("ada", "bob"):
        await simulated.ok("provision", user, "--plan", "light")
    await simulated.ok("job", "run", "tokens")
    tokens = (await simulated.ok("token", "list", "--json")).json["tokens"]
    assert {(row["user"], row["holder"]) for row in tokens if row["purpose"] == PLATFORM} == {
        ("ada", "relay"),
        ("bob", "relay"),
    }
    context = await admitted(simulated, tmp_path, "message-router")
    logged: list[str] = []
    async with (
        relay(simulated, logged) as url,
        httpx.AsyncClient(base_url=url, verify=context, timeout=60, trust_env=False) as http,
    ):
        for user in ("ada", "bob"):
            assert (await http.get(f"/agents/{user}/health/detailed")).json()["status"] == "ok"
        response = await http.post("/agents/ada/v1/chat/completions", json=CHAT)
        assert (response.status_code, response.headers["x-relay-from"]) == (200, "agent")
        async with http.stream("POST", "/agents/ada/v1/chat/completions", json={**CHAT, "stream": True}) as stream:
            assert stream.headers["content-type"] == "text/event-stream"
            assert (await stream.aread()).strip().endswith(b"data: [DONE]")
        refused = await http.post("/agents/ada/toolbox/process/execute", json={"command": "id"})
        assert (refused.status_code, refused.json()["code"]) == (404, "not_carried")

        await simulated.ok("instance", "suspend", "ada", *ASKED)
        away = await http.get("/agents/ada/health")
        assert (away.status_code, away.json()["code"]) == (409, "agent_suspended")
        assert (await http.get("/agents/bob/health")).status_code == 200
        await simulated.ok("token", "revoke", "bob", *ASKED)
        away = await http.get("/agents/bob/health")
        assert (away.status_code, away.json()["code"]) == (503, "agent_not_ready")
        await simulated.ok("job", "run", "tokens")
        assert (await http.get("/agents/bob/health")).status_code == 200

        await simulated.ok("relay", "revoke", "message-router", "--yes", *ASKED)
        assert (await http.get("/agents/bob/health")).json()["code"] == "not_a_caller"
        [row] = (await simulated.ok("relay", "list", "--json")).json["certificates"]
        assert (row["service"], row["state"]) == ("message-router", "revoked")
    api_key = (simulated.home / "local" / "world" / "api.key").read_text().strip()
    text = "".join(logged) + json.dumps([ran.stdout + ran.stderr for ran in simulated.said])
    assert "request_ended" in text
    for secret in ("canary-of-a-user", api_key, "PRIVATE KEY"):
        assert secret not in text

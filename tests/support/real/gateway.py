"""hermes-agent's own gateway on loopback, with the configuration that hermes-node writes, and without a machine."""

import asyncio
import os
import secrets
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route as HttpRoute

from hermesops.base import assets
from hermesops.base.waiting import Pending, pause, until
from hermesops.localcloud.model_router import scripted_model
from hermesops.model.ids import InstanceId
from hermesops.programs.node.instance.agent.installation import Base, Route
from hermesops.programs.node.instance.render import managed_config, managed_environment, user_config
from hermesops.wire.protocol import Identity, Payload, Secrets
from hermesops.wire.settings import Settings
from tests.support.real.edge import free_port
from tests.support.real.ends_with_us import KILLED
from tests.support.releases.role_files import defaults_of

HOST = "127.0.0.1"
_STARTS_S = 180.0
_ANSWERS_S = 120.0


@dataclass(frozen=True)
class Gateway:
    """A running one.

    Attributes:
        home: HERMES_HOME.
        key: Of its API.
    """

    home: Path
    port: int
    key: str

    async def answer(self, text: str) -> str:
        """What the agent says to a message."""
        body = {"model": "hermes", "messages": [{"role": "user", "content": text}]}
        headers = {"authorization": f"Bearer {self.key}"}
        async with httpx.AsyncClient(
            base_url=f"http://{HOST}:{self.port}", timeout=_ANSWERS_S, trust_env=False
        ) as http:
            response = await http.post("/v1/chat/completions", json=body, headers=headers)
        assert response.status_code == 200, response.text
        return str(response.json()["choices"][0]["message"]["content"])

    async def get(self, agent: str, path: str) -> Mapping[str, Any]:
        """Read something of its API, as ``RelayClient.get`` does.

        Args:
            agent: Is this one.
        """
        del agent
        headers = {"authorization": f"Bearer {self.key}"}
        async with httpx.AsyncClient(base_url=f"http://{HOST}:{self.port}", timeout=30, trust_env=False) as http:
            response = await http.get(path, headers=headers)
        assert response.status_code == 200, response.text
        content: Mapping[str, Any] = response.json()
        return content

    @property
    def log(self) -> str:
        """What it logged."""
        file = self.home / "logs/agent.log"
        return file.read_text(errors="replace") if file.exists() else ""


def model() -> Starlette:
    """A provider of models that answers by the local world's script."""

    async def reply(request: Request) -> Response:
        body = await request.json()
        tools = frozenset(str(tool["function"]["name"]) for tool in body.get("tools", ()))
        answer = scripted_model.answer_to(body["messages"], tools)
        await pause(answer.after_s)
        content = answer.content
        arguments = (f"chatcmpl-{uuid4().hex}", int(time.time()), str(body["model"]), content, 100)
        if body.get("stream"):
            return StreamingResponse(scripted_model.stream(*arguments), media_type="text/event-stream")
        return JSONResponse(scripted_model.whole(*arguments))

    return Starlette(routes=[HttpRoute("/v1/chat/completions", reply, methods=["POST"])])


@asynccontextmanager
async def running(
    folder: Path,
    python: Path,
    instance: InstanceId,
    model_url: str,
    servers: Mapping[str, Mapping[str, Any]],
    variables: Mapping[str, str] | None = None,
    settings: Settings | None = None,
) -> AsyncIterator[Gateway]:
    """Run a gateway until the block ends.

    Args:
        folder: Is made; its home.
        python: Of an environment with hermes-agent.
        model_url: Of the provider, with ``/v1``.
        servers: Its ``mcp_servers``.
        variables: More of its environment.
        settings: Its user's, in the place of those with the servers alone.
    """
    _complete(python)
    gateway = Gateway(folder, free_port(), secrets.token_hex(32))
    _configure(gateway, instance, model_url, settings or Settings(mcp_servers=servers))
    environment = {
        "HERMES_HOME": str(folder),
        "HOME": str(folder),
        "HERMES_DISABLE_LAZY_INSTALLS": "1",
        "PATH": f"{python.parent}:{os.defpath}",
        **(variables or {}),
    }
    process = _start([str(python), "-P", "-m", "hermes_cli.main", "gateway", "run"], folder, environment)

    async def answers() -> bool | Pending[bool]:
        assert process.poll() is None, (folder / "output").read_text()
        try:
            async with httpx.AsyncClient(timeout=10, trust_env=False) as http:
                response = await http.get(f"http://{HOST}:{gateway.port}/health")
        except httpx.TransportError as error:
            return Pending(str(error))
        return response.status_code == 200 or Pending(response.text)

    try:
        await until(answers, what="the gateway", timeout_s=_STARTS_S, every_s=0.5)
        yield gateway
    finally:
        process.kill()
        await asyncio.to_thread(process.wait, 30)


def _complete(python: Path) -> None:
    """Put what releases have beside their packages into an environment of hermes-agent."""
    [site] = python.parent.parent.glob("lib/python3*/site-packages")
    for file in (assets.folder("roles") / "hermes_gateway" / "files").glob("hermes[-_]changes.*"):
        written = site / f".{file.name}-{secrets.token_hex(4)}"
        shutil.copyfile(file, written)
        written.replace(site / file.name)


def _start(words: list[str], folder: Path, environment: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    with (folder / "output").open("wb") as output:
        return subprocess.Popen([*KILLED, *words], cwd=folder, env=environment, stdout=output, stderr=output)


def _configure(gateway: Gateway, instance: InstanceId, model_url: str, settings: Settings) -> None:
    role = defaults_of("hermes_gateway")
    config = role["__hermes_gateway_config"]
    config["agent"] = {}
    config["terminal"]["cwd"] = str(gateway.home)
    del config["gateway"]["systemd_watchdog_seconds"]
    routes = tuple(Route(route["name"], route["context_tokens"]) for route in role["hermes_gateway_routes"])
    adapters, own = tuple(role["__hermes_gateway_adapters"]), role["__hermes_gateway_user_config"]
    base = Base("none", "none", str(gateway.home), gateway.port, routes, adapters, config, {}, own)
    payload = Payload(
        Identity(instance, str(uuid4()), "light", "cell1", 1),
        Secrets(api_server_key=gateway.key, model_token=secrets.token_hex(16)),
        model_url,
        settings,
    )
    gateway.home.mkdir()
    # One file in the place of two scopes: JSON of one line is YAML beside keys of the other.
    lines = user_config(base).decode().splitlines()
    merged = managed_config(base, payload).decode().rstrip().removesuffix("}")
    more = ",\n".join(f'"{name}": {value}' for name, _, value in (line.partition(": ") for line in lines))
    (gateway.home / "config.yaml").write_text(f"{merged},\n{more}\n}}\n")
    (gateway.home / ".env").write_bytes(managed_environment(base, payload))

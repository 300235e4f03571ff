"""Environments of the processes of users, as a platform's host gives them."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from hermesops.access.secrets.catalog import BILLING_SECRET, CONNECTIONS_KEY, MESSAGES_KEY
from hermesops.access.secrets.keyring.ring import Ring
from hermesops.agents.relay.credential import CallerPem
from hermesops.agents.relay.routes import API
from hermesops.base.files.private_file import replace_secret
from hermesops.base.waiting import Pending, until
from hermesops.programs.node.system import openssl
from hermesops.settings.environment import Environment
from hermesops.store.registry.database import Database
from tests.support.real.ends_with_us import INTERRUPTED
from tests.support.real.relay import HOST
from tests.support.users.api import STRIPE, UsersApi

NAME = "staging"


def messages_key(home: Path, ring: str = "") -> str:
    """Give a process the key of messages; a fresh one unless given. Returns it."""
    text = ring or Ring.fresh().to_text()
    replace_secret(home / NAME / "keys" / MESSAGES_KEY.name, text)
    return text


def environment(home: Path, api: UsersApi, database: Database, origin: str, **more: str) -> Environment:
    """The environment of a process whose pages are at ``origin``.

    Args:
        database: As the process has it.
        more: Settings by the names of their variables.
    """
    url = api.issuer.url
    variables = {
        "HOME": str(home),
        "HERMESOPS_HOME": str(home),
        "HERMESOPS_REGISTRY_URL": database._url.render_as_string(hide_password=False),
        "HERMESOPS_WEB_ORIGIN": origin,
        "HERMESOPS_WEB_ISSUER": url,
        "HERMESOPS_WEB_CLIENT_ID": "hermes-web",
        "HERMESOPS_WEB_KEYS_URL": f"{url}/keys",
        "HERMESOPS_WEB_AUTHORIZE_URL": f"{url}/authorize",
        "HERMESOPS_WEB_TOKEN_URL": f"{url}/token",
        **more,
    }
    return Environment.load(NAME, variables)


def of_api(home: Path, api: UsersApi, origin: str, ring: str = "", **more: str) -> Environment:
    """The environment of a process of the API, with its keys and its certificate for the relay.

    Args:
        more: As of ``environment``.
    """
    key = openssl.make()
    admitted = api.relay.callers.admit(API, openssl.request(key).decode(), why="test")
    replace_secret(home / "relay.pem", CallerPem(key.decode(), admitted.certificate, admitted.authorities).text)
    replace_secret(home / NAME / "keys" / BILLING_SECRET.name, STRIPE.secret)
    messages_key(home, ring)
    relay = {
        "HERMESOPS_RELAY_URL": f"https://{HOST}:{api.relay.port}",
        "HERMESOPS_RELAY_CREDENTIAL_FILE": str(home / "relay.pem"),
    }
    return environment(home, api, api.database, origin, **relay, **more)


def of_connections(home: Path, api: UsersApi, origin: str, agents_url: str, ring: str = "") -> Environment:
    """The environment of the process of connections, with its keys."""
    messages_key(home, ring)
    replace_secret(home / NAME / "keys" / CONNECTIONS_KEY.name, api.composio.key)
    offered = {
        "HERMESOPS_CONNECTIONS_BASE_URL": api.composio.url,
        "HERMESOPS_CONNECTIONS_SERVICES": "gmail=ac_gmail",
        "HERMESOPS_CONNECTIONS_AGENTS_URL": agents_url,
    }
    return environment(home, api, api.connection_rows, origin, **offered)


@asynccontextmanager
async def running(env: Environment, command: Sequence[str], path: Path, log: Path) -> AsyncIterator[None]:
    """``hermesops api …`` as a process of its own on a socket of a path, until the block ends.

    Args:
        command: Its words behind ``hermesops``.
        log: Takes all that it prints.
    """
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        number = listener.fileno()
        words = [*INTERRUPTED, sys.executable, "-m", "hermesops", *command, "--socket", str(number)]
        variables = {**env.variables, "HERMESOPS_ENV": env.name, "PATH": os.defpath}
        process = _start(words, variables, number, log)
    try:
        await until(lambda: _answers(process, path, log), what=" ".join(command), timeout_s=120, every_s=0.2)
        yield
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait, 30)
        os.unlink(path)  # noqa: PTH108 - at once


def _start(words: Sequence[str], variables: Mapping[str, str], number: int, log: Path) -> "subprocess.Popen[bytes]":
    with log.open("wb") as output:
        return subprocess.Popen(words, stdout=output, stderr=output, env=variables, pass_fds=[number])


async def _answers(process: "subprocess.Popen[bytes]", path: Path, log: Path) -> bool | Pending[bool]:
    assert process.poll() is None, f"it ended: {log}"
    transport = httpx.AsyncHTTPTransport(uds=str(path))
    async with httpx.AsyncClient(transport=transport, base_url="http://x", timeout=10) as http:
        try:
            return (await http.get("/")).status_code == 421 or Pending("another answer")
        except httpx.TimeoutException:  # it still loads, and takes no connection
            return Pending("no answer")

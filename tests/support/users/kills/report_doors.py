"""Processes of the users' API that take what Telegram reports, each of which may be killed, behind one address."""

import contextlib
import socket
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx

from hermesops.access.secrets.catalog import REGISTRY_KEY, TELEGRAM_SECRET
from hermesops.agents.relay.credential import CallerPem
from hermesops.agents.relay.routes import API
from hermesops.app import Container
from hermesops.base.files.private_file import replace_secret
from hermesops.base.network.http import own_client
from hermesops.base.waiting import pause
from hermesops.programs.node.system import openssl
from hermesops.settings.environment import Environment
from hermesops.store.registry.schema.role_grants import API as API_ROLE
from hermesops.users.messaging.messengers.telegram.read import SECRET_HEADER
from tests.support.real.commands.command import Command, forks
from tests.support.real.relay import HOST
from tests.support.real.stores.postgresql import as_role
from tests.support.real.stores.registries import RING
from tests.support.users.kills.outside.door import door
from tests.support.users.kills.parts import Program, free_port, running
from tests.support.users.processes import NAME, messages_key

_PROCESSES = 2
_AGAIN_S = 0.5
_SECRET = "hook"  # noqa: S105 - of Telegram's stand-in
_UNUSED = "https://127.0.0.1:1"
"""Of a relay and an issuer: a report needs neither."""


@dataclass(frozen=True)
class ReportDoors:
    """The processes.

    Attributes:
        url: Their one address.
    """

    url: str
    programs: Sequence[Program]

    async def take(self, body: bytes) -> None:
        """Report an update again and again until it was taken, as Telegram does."""
        headers = {SECRET_HEADER: _SECRET, "content-type": "application/json"}
        async with own_client(timeout=10) as http:
            while True:
                with contextlib.suppress(httpx.HTTPError):
                    answer = await http.post(f"{self.url}/webhooks/telegram", content=body, headers=headers)
                    if answer.is_success:
                        return
                    assert answer.status_code in {429, 500, 503}, answer.text
                await pause(_AGAIN_S)


@contextlib.asynccontextmanager
async def report_doors(folder: Path, registry_url: str, redis_port: int) -> AsyncIterator[ReportDoors]:
    """Run them while the block lasts, with the rights of the API in the registry.

    Args:
        registry_url: Of a registry that was made when its server had the API's role.
        redis_port: Of loopback, of the Redis by which they tell the connector of messages.
    """
    operator = Command(folder / "operator", {"HERMESOPS_LOCAL_DRIVER": "sim", "HERMESOPS_REGISTRY_URL": registry_url})
    replace_secret(operator.home / "local" / "keys" / REGISTRY_KEY.name, RING.to_text())
    with socket.create_server((HOST, 0)) as listener:
        listener.setblocking(False)
        port = int(listener.getsockname()[1])
        variables = {
            "HERMESOPS_ENV": NAME,
            "HERMESOPS_REGISTRY_URL": as_role(registry_url, API_ROLE),
            "HERMESOPS_MESSENGERS_TELEGRAM_BOT": "local_bot",
            "HERMESOPS_RELAY_URL": _UNUSED,
            "HERMESOPS_WEB_ORIGIN": f"https://{HOST}:{port}",
            "HERMESOPS_WEB_ISSUER": _UNUSED,
            "HERMESOPS_WEB_CLIENT_ID": "hermes-web",
            "HERMESOPS_WEB_KEYS_URL": f"{_UNUSED}/keys",
            "HERMESOPS_WEB_AUTHORIZE_URL": f"{_UNUSED}/authorize",
            "HERMESOPS_WEB_TOKEN_URL": f"{_UNUSED}/token",
            "HERMESOPS_WEB_REDIS_URL": f"redis://{HOST}:{redis_port}",
        }
        programs = [_program(folder, number, operator, variables) for number in range(_PROCESSES)]
        async with door(listener, [program.port for program in programs]), running(programs):
            yield ReportDoors(f"http://{HOST}:{port}", programs)


def _program(folder: Path, number: int, operator: Command, variables: dict[str, str]) -> Program:
    home, port, key = folder / f"api{number}", free_port(), openssl.make()
    callers = Container(Environment.load("local", operator.environ), lambda _: None).callers
    admitted = callers.admit(API, openssl.request(key).decode(), why="test")
    replace_secret(home / "relay.pem", CallerPem(key.decode(), admitted.certificate, admitted.authorities).text)
    replace_secret(home / NAME / "keys" / TELEGRAM_SECRET.name, _SECRET)
    messages_key(home, RING.to_text())
    own = {**variables, "HERMESOPS_RELAY_CREDENTIAL_FILE": str(home / "relay.pem")}
    words = ("api", "serve", "--bind", f"{HOST}:{port}")
    return Program(f"API {number}", Command(home, own, forks()), words, folder / f"{home.name}.log", port)

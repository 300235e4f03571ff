"""The connector as a process that may be killed, beside its stores, Telegram's stand-in and scripted agents."""

import asyncio
import json
import socket
import sys
from collections.abc import Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import httpx

from hermesops.access.secrets.catalog import CONNECTOR_KEY, TELEGRAM_TOKEN
from hermesops.base.network.http import own_client
from hermesops.connector import serve
from hermesops.errors import UnavailableError
from hermesops.settings.sections import MessengerSettings, WebSettings
from hermesops.store.message_rows.accounts import MessengerAccounts
from hermesops.store.message_rows.agent_files import AgentFiles
from hermesops.store.message_rows.incoming import IncomingMessages
from hermesops.store.message_rows.outgoing import OutgoingMessages
from hermesops.store.registry.database import Database
from hermesops.store.user_rows.accounts import UserAccounts
from hermesops.users.chat.redis_client import redis_client
from hermesops.users.messaging.inbound.shared_bell import SharedBell
from hermesops.users.messaging.outbound.bots import bots_of
from tests.support.real.stores.registries import KEYS

if TYPE_CHECKING:
    from hermesops.access.secrets.store import Secrets
    from hermesops.app.container import Container

HOST = "127.0.0.1"
KEY = "k" * 40
"""Root of the secrets of agents' sockets."""


class ScriptedRelay:
    """Reads of scripted agents, as ``RelayClient`` does of real ones."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def get(self, agent: str, path: str) -> Mapping[str, Any]:
        """Read something of an agent's API."""
        try:
            async with own_client(timeout=10) as http:
                answer = await http.get(f"{self._url}/{agent}{path}")
        except httpx.HTTPError as error:
            raise UnavailableError(type(error).__name__) from None
        if answer.status_code != 200:
            raise UnavailableError(f"HTTP {answer.status_code}")
        content: Mapping[str, Any] = answer.json()
        return content


async def main(facts: Mapping[str, Any]) -> None:
    """Serve until killed."""
    database = Database(facts["registry"])
    named = {"telegram_bot": "local_bot", "telegram_url": facts["telegram"], "agents_url": "https://unused"}
    settings = MessengerSettings.model_validate(named)
    web = WebSettings.model_validate({"redis_url": facts["redis"]})
    texts = {CONNECTOR_KEY.name: KEY, TELEGRAM_TOKEN.name: facts["token"]}
    secrets = cast("Secrets", SimpleNamespace(read=lambda secret: texts[secret.name]))
    container = SimpleNamespace(
        user_rows=database,
        accounts=UserAccounts(database),
        messenger_accounts=MessengerAccounts(database, KEYS),
        incoming_messages=IncomingMessages(database, KEYS),
        outgoing_messages=OutgoingMessages(database, KEYS),
        agent_files=AgentFiles(database, KEYS),
        secrets=secrets,
        messenger_settings=settings,
        message_bell=lambda: SharedBell(redis_client(web)),
    )
    relay = cast("Any", ScriptedRelay(facts["agents"]))
    parts = serve._Parts(cast("Container", container), relay, bots_of(settings, secrets))
    await serve._serve(parts, socket.create_server((HOST, facts["port"]), reuse_port=False))


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))

"""An agent on a machine of its own opens its socket to the connector, through the door's ``/relay`` of a real nginx.

The door has a certificate of the platform's own authority, which the machine knows. The tests build on each other, in
this order.
"""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from hermesops.base.waiting import Pending, until
from hermesops.localcloud.drivers.interface import PLATFORM_SERVICES, PlatformService
from hermesops.model.fleet.instance import Instance
from hermesops.settings.sections import MessengerSettings
from hermesops.store.registry.database import Database
from hermesops.users.messaging.handover import connector_for
from hermesops.users.messaging.inbound.routing import CONNECTED
from hermesops.wire.protocol import PROGRAM, Connector
from tests.support.images.builds import Made
from tests.support.real import edge
from tests.support.real.machines.agents import Agent, living_agent
from tests.support.real.monitoring.platform_host import programs
from tests.support.real.stores.registries import placed, registry_at
from tests.support.suite.prerequisites import require
from tests.support.users.messaging import ROOT, Messaging, messaging

pytestmark = [pytest.mark.machines, pytest.mark.turns(110)]

ADA = 111
_PORT = PLATFORM_SERVICES[PlatformService.USERS].on_gateway
_AUTHORITY = "/etc/hermes-node/authority.crt"
_LATER_S = 120.0


@dataclass
class Rig:
    """An agent on its machine, and a connector behind the door."""

    agent: Agent
    world: Messaging
    ada: Instance
    url: str

    @property
    def connector(self) -> Connector:
        """As hermesops hands it to the agent's machine."""
        settings = MessengerSettings.model_validate({"telegram_bot": "our_bot", "agents_url": self.url})
        return connector_for(settings, ROOT, self.ada.id, generation=1)

    async def hand(self, connector: Connector | None) -> None:
        await self.agent.personalise(replace(self.agent.payload, connector=connector))

    async def socket(self, *, is_open: bool) -> None:
        """Wait until the connector has the agent's socket, or has none."""

        async def look() -> bool | Pending[bool]:
            log = await self.agent.run("journalctl -u hermes-gateway --no-pager -n 15 -o cat")
            return (self.world.running_connector.fence_of(self.ada.id) > 0) is is_open or Pending(log)

        await until(look, what="the agent's socket", timeout_s=_LATER_S, every_s=0.5)

    async def answer(self, text: str, words: str) -> str:
        """Write to the agent as its user, and wait for a text of the bot that has these words."""
        self.world.say(ADA, text)

        async def look() -> str | Pending[str]:
            texts = self.world.telegram.chat(ADA).texts
            return next((each for each in texts if words in each), Pending(repr(texts)))

        return await until(look, what=f"an answer with {words}", timeout_s=_LATER_S, every_s=0.5)


@pytest.fixture(scope="module")
async def rig(built_image: Made, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    root = programs()
    require(root, "Debian's programs")
    assert root
    folder = tmp_path_factory.mktemp("connector")
    address, port = str(built_image.world.driver.gateway), _PORT
    async with AsyncExitStack() as stack:
        ada, database = _rows(folder, stack)
        world = await stack.enter_async_context(messaging(database))
        world.path = folder / "connector.sock"
        await stack.enter_async_context(world.running())
        has = {"hermes_platform_edge_has_connector": True}
        door = stack.enter_context(edge.running(folder, root, [folder / "api.sock"], has, at=(address, port)))
        image_id = built_image.image_id
        agent = await stack.enter_async_context(living_agent(built_image.world, image_id, ada.id))
        await agent.channel.put(_AUTHORITY, door.authorities.encode(), mode=0o600)
        yield Rig(agent, world, ada, door.url)


def _rows(folder: Path, stack: AsyncExitStack) -> tuple[Instance, Database]:
    url = f"sqlite:///{folder}/registry.db"
    ada = placed(registry_at(url))
    database = Database(url)
    stack.callback(database.close)
    return ada, database


async def test_its_user_talks_to_it_in_the_messenger(rig: Rig) -> None:
    await rig.hand(rig.connector)
    await rig.socket(is_open=True)
    rig.world.link(rig.ada, ADA)
    await rig.world.hears(ADA, CONNECTED)
    await rig.answer("good morning", "good morning")
    assert rig.world.incoming.under_way(rig.ada.id) == ()
    assert not any("home channel" in text for text in rig.world.telegram.chat(ADA).texts)


async def test_the_same_payload_again_leaves_its_gateway_alone(rig: Rig) -> None:
    began = await rig.agent.run("systemctl show --property=MainPID --value hermes-gateway")
    await rig.hand(rig.connector)
    assert await rig.agent.run("systemctl show --property=MainPID --value hermes-gateway") == began
    assert '"connector"' in (await rig.agent.run(f"{PROGRAM} status")).partition("takes")[2]


async def test_neither_its_shell_nor_a_log_shows_the_secret(rig: Rig) -> None:
    secret = rig.connector.secret
    shown = await rig.answer("RUN: env | grep -c RELAY_SECRET; echo shown $((6 * 7))x", "shown 42x")
    assert "0\nshown 42x" in shown.replace("\\n", "\n"), shown
    assert (await rig.agent.run("cat /etc/hermes/.env")).count(secret) == 1
    await rig.agent.channel.put("/root/needle", secret.encode(), mode=0o600)
    finding = (
        "grep -rlFf /root/needle /var/lib/hermes /var/log; journalctl --no-pager -q | grep -cFf /root/needle; true"
    )
    assert (await rig.agent.run(finding, timeout_s=120)).split() == ["0"]


@pytest.mark.parametrize("is_away", [True, False], ids=["away", "refuses"])
async def test_it_is_healthy_while_the_connector_is_away_or_refuses_it(rig: Rig, *, is_away: bool) -> None:
    own = rig.connector
    await rig.hand(replace(own, url="https://127.0.0.1:9") if is_away else replace(own, secret="0" * 64))
    await rig.socket(is_open=False)
    assert json.loads(await rig.agent.run(f"{PROGRAM} health"))["ok"]
    await rig.hand(rig.connector)
    await rig.socket(is_open=True)


async def test_its_own_variables_lead_it_to_no_other_connector(rig: Rig) -> None:
    await rig.agent.run("echo GATEWAY_RELAY_URL=https://127.0.0.1:9 >/var/lib/hermes/.env")
    await rig.agent.run("systemctl restart hermes-gateway", timeout_s=120)
    await rig.socket(is_open=True)
    await rig.agent.run("rm /var/lib/hermes/.env")


async def test_without_the_connector_its_socket_closes(rig: Rig) -> None:
    await rig.hand(None)
    await rig.socket(is_open=False)
    assert "RELAY" not in await rig.agent.run("cat /etc/hermes/.env")
    assert "SSL_CERT_FILE" not in await rig.agent.run("cat /etc/hermes/.env")

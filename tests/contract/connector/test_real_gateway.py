"""hermes-agent 0.19.0's own gateway on the connector's socket: messages, answers, a restart in between."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from hermesops.base.network.http import own_client
from hermesops.base.waiting import Pending, pause, until
from hermesops.localcloud.vendors.vendor_files import VendorFile
from hermesops.model.fleet.instance import Instance
from hermesops.model.messaging.message import IncomingState
from hermesops.model.messaging.messenger import Messenger
from hermesops.store.registry.database import Database
from hermesops.users.messaging.inbound.routing import CONNECTED
from hermesops.users.messaging.outbound.answers import HOME
from hermesops.users.messaging.recovery.sweep import Sweep
from hermesops.users.messaging.recovery.transcripts import ChatTranscripts
from tests.support.real import gateway
from tests.support.real.gateway import Gateway
from tests.support.real.python_environments import AGENT
from tests.support.suite.prerequisites import require
from tests.support.users.api import served
from tests.support.users.messaging import Messaging, messaging
from tests.support.users.phones import PHONES, Phone

if TYPE_CHECKING:
    from hermesops.agents.relay.client import RelayClient

pytestmark = [pytest.mark.turns(60), pytest.mark.timeout(600)]

ADA, BEN = 111, 222
LATER_S = 120.0
_READER_S = 20.0
"""Less than hermes-agent waits for a result that it does not read."""


def environment(world: Messaging, instance: Instance) -> Mapping[str, str]:
    """What a machine's gateway is told of the connector."""
    return {
        "GATEWAY_RELAY_URL": world.url,
        "GATEWAY_RELAY_ID": instance.id,
        "GATEWAY_RELAY_SECRET": world.secrets_of(instance.id)[-1],
        "RELAY_HOME_CHANNEL": HOME,
        "GATEWAY_RELAY_PLATFORMS": ",".join(Messenger),
        "GATEWAY_RELAY_BOT_IDS": json.dumps({name: {"botId": "1", "username": "our_bot"} for name in Messenger}),
    }


@dataclass(frozen=True)
class Agents:
    """Starts ada's agent."""

    world: Messaging
    instance: Instance
    model_url: str
    folder: Path
    python: Path

    @contextlib.asynccontextmanager
    async def running(self, name: str) -> AsyncIterator[Gateway]:
        """Run the agent until the block ends, which kills it."""
        variables = environment(self.world, self.instance)
        folder = self.folder / name
        async with gateway.running(folder, self.python, self.instance.id, self.model_url, {}, variables) as agent:
            yield agent


@pytest.fixture
async def agents(database: Database, ada: Instance, tmp_path: Path) -> AsyncIterator[Agents]:
    python = AGENT.python()
    require(python, "uv, to install hermes-agent")
    assert python
    async with contextlib.AsyncExitStack() as stack:
        world = await stack.enter_async_context(messaging(database))
        model_url = await stack.enter_async_context(served(gateway.model()))
        yield Agents(world, ada, f"{model_url}/v1", tmp_path, python)


async def answered(world: Messaging, text: str, user: int = ADA, within_s: float = LATER_S) -> list[str]:
    """Wait until the bot has written a text that has these words."""

    async def look() -> list[str] | Pending[list[str]]:
        texts = world.telegram.chat(user).texts
        return texts if any(text in each for each in texts) else Pending(repr(texts))

    return await until(look, what=f"an answer with {text}", timeout_s=within_s, every_s=0.2)


@pytest.mark.parametrize("registry_url", ["sqlite"], indirect=True)
async def test_the_agent_answers_in_the_messenger(agents: Agents) -> None:
    world = agents.world
    async with world.running():
        world.link(agents.instance, ADA)
        await world.hears(ADA, CONNECTED)
        world.say(ADA, "first words")  # before the agent is there
        async with agents.running("agent") as agent:
            await answered(world, "first words")
            world.say(ADA, "second words")
            texts = await answered(world, "second words")
            assert sum("first words" in text for text in texts) == 1
            assert sum("second words" in text for text in texts) == 1
            assert world.incoming.under_way(agents.instance.id) == ()
            assert environment(world, agents.instance)["GATEWAY_RELAY_SECRET"] not in agent.log


@pytest.mark.parametrize("registry_url", ["sqlite"], indirect=True)
async def test_the_agent_dials_again_when_the_connector_was_away(agents: Agents) -> None:
    world = agents.world
    async with agents.world.running():
        world.link(agents.instance, ADA)
        await world.hears(ADA, CONNECTED)
        async with agents.running("agent"):
            world.say(ADA, "words of before")
            await answered(world, "words of before")
            await world.close_sockets()
            world.say(ADA, "words of after")
            await answered(world, "words of after")
            assert world.incoming.under_way(agents.instance.id) == ()


@pytest.mark.parametrize("registry_url", ["sqlite"], indirect=True)
async def test_an_answer_that_was_finished_while_the_connector_was_away_is_delivered_once(agents: Agents) -> None:
    """hermes-agent 0.19.0 itself never sends it."""
    world = agents.world
    async with agents.running("agent") as agent:
        async with world.running():
            world.link(agents.instance, ADA)
            await world.hears(ADA, CONNECTED)
            world.say(ADA, "SLEEP 3")
            await taken(world, agents.instance)
        await pause(6)
        async with world.running():
            read_chat = ChatTranscripts(cast("RelayClient", agent)).read
            sweep = Sweep(world.incoming, world.outgoing, read_chat, world.agent_of)
            await until(lambda: swept(sweep, world, agents.instance), what="an answer", timeout_s=LATER_S, every_s=0.5)
            await world.hears(ADA, CONNECTED, "SLEPT")
            world.say(ADA, "words of after")
            assert (await answered(world, "words of after")).count("SLEPT") == 1


@pytest.mark.parametrize("registry_url", ["sqlite"], indirect=True)
async def test_a_dangerous_command_is_approved_in_the_chat_while_the_message_is_under_way(
    agents: Agents, tmp_path: Path
) -> None:
    world, victim = agents.world, tmp_path / "victim"
    victim.mkdir()
    async with agents.running("agent"), world.running():
        world.link(agents.instance, ADA)
        await world.hears(ADA, CONNECTED)
        world.say(ADA, f"RUN: rm -rf {victim}")
        await answered(world, "approve")
        assert len(world.incoming.under_way(agents.instance.id)) == 1
        world.say(ADA, "/approve")
        await answered(world, "TOOL SAID")
        assert not victim.exists()
        assert world.incoming.under_way(agents.instance.id) == ()


@pytest.mark.parametrize("registry_url", ["sqlite"], indirect=True)
async def test_commands_are_approved_one_after_the_other_and_in_chats_beside_each_other(
    agents: Agents, tmp_path: Path
) -> None:
    """hermes-agent's reader itself reads nothing for 30 s after such a command; a request has 15 s."""
    world = agents.world
    folders = [tmp_path / name for name in ("first", "second", "third")]
    for folder in folders:
        folder.mkdir()
    async with agents.running("agent"), world.running():
        for user in (ADA, BEN):
            world.link(agents.instance, user)
            await world.hears(user, CONNECTED)
        world.say(BEN, f"RUN: rm -rf {folders[2]}")
        await answered(world, "approve", BEN)
        for folder in folders[:2]:
            world.say(ADA, f"RUN: rm -rf {folder}")
            await answered(world, str(folder), within_s=_READER_S)
            world.say(ADA, "/approve")
            await gone(folder)
        world.say(BEN, "/approve")
        await gone(folders[2])


@pytest.mark.parametrize("registry_url", ["sqlite"], indirect=True)
async def test_one_agent_talks_and_is_approved_and_denied_in_all_messengers_at_once(
    agents: Agents, tmp_path: Path
) -> None:
    world = agents.world
    phones = [make(world) for make in PHONES]
    async with agents.running("agent"), world.running():
        await asyncio.gather(*(_talks(phone, agents.instance, tmp_path) for phone in phones))
        await until(lambda: _ended(world, agents.instance), what="all to be answered", timeout_s=LATER_S, every_s=0.2)
    assert [phone.broken() for phone in phones] == [{}] * len(phones)


async def _talks(phone: Phone, instance: Instance, folder: Path) -> None:
    """Ask for an answer, and for two commands: the first one is denied."""
    phone.link(instance)
    await phone.hears(CONNECTED)
    victim, words = folder / phone.messenger, f"words by {phone.messenger}"
    victim.mkdir()
    phone.say(words)
    await _reads(phone, words)
    phone.say(f"RUN: rm -rf {victim}")
    await _reads(phone, "Deny", is_asked=True)
    phone.press("Deny")
    await _reads(phone, "TOOL SAID")
    assert victim.exists()
    phone.say(f"RUN: rm -rf {victim}")
    await _reads(phone, "Approve", is_asked=True)
    phone.press("Approve")
    await gone(victim)
    assert sum(words in text for text in phone.texts) == 1


async def _reads(phone: Phone, words: str, *, is_asked: bool = False) -> None:
    """Wait for a last text with these words, or with a button of this label."""

    async def look() -> bool | Pending[bool]:
        last = phone.last
        labels = [button["text"] for row in last.keyboard for button in row]
        return words in (labels if is_asked else last.text) or Pending(f"{phone.messenger}: {last.text} {labels}")

    await until(look, what=f"{words} in {phone.messenger}", timeout_s=LATER_S, every_s=0.1)


async def _ended(world: Messaging, instance: Instance) -> bool | Pending[bool]:
    under_way = world.incoming.under_way(instance.id)
    return not under_way or Pending(repr(under_way))


async def gone(folder: Path) -> None:
    async def look() -> bool | Pending[bool]:
        return not await asyncio.to_thread(folder.exists) or Pending(f"{folder} is there")

    await until(look, what="the command's effect", timeout_s=_READER_S, every_s=0.1)


@pytest.mark.parametrize("registry_url", ["sqlite"], indirect=True)
async def test_the_agent_hears_of_a_file_and_is_asked_once(agents: Agents) -> None:
    """hermes-agent 0.19.0 reads no files by itself: its model gets the address, which lets it read."""
    world, photo = agents.world, VendorFile("holiday.txt", b"sun", "text/plain")
    async with agents.running("agent") as agent, world.running():
        world.link(agents.instance, ADA)
        await world.hears(ADA, CONNECTED)
        world.door.take(json.dumps(world.telegram.sending(ADA, photo)).encode(), "hook")
        world.heard.ring()
        text = next(each for each in await answered(world, "Download it: ") if "Download it: " in each)
        url = text.partition("Download it: ")[2].partition("]")[0]
        async with own_client() as http:
            assert (await http.get(url)).content == b"sun"
        view = await ChatTranscripts(cast("RelayClient", agent)).read(agents.instance.id, f"tg.{ADA}")
        assert sum("holiday.txt" in message.text for message in view.transcript.messages if message.role == "user") == 1


async def taken(world: Messaging, instance: Instance) -> None:
    """Wait until the agent has taken a message."""

    async def look() -> bool | Pending[bool]:
        states = [message.state for message in world.incoming.under_way(instance.id)]
        return states == [IncomingState.TAKEN] or Pending(repr(states))

    await until(look, what="the agent to take it", timeout_s=LATER_S, every_s=0.1)


async def swept(sweep: Sweep, world: Messaging, instance: Instance) -> bool | Pending[bool]:
    await sweep.run_all(world.running_connector.fence_of)
    return not world.incoming.under_way(instance.id) or Pending("it is under way")

"""Files both ways in every messenger: read by the agent that they are for, sent to its own user, and nobody else's."""

import asyncio
import socket
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from hermesops.base.network.http import own_client
from hermesops.base.waiting import pause
from hermesops.localcloud.vendors.vendor_files import VendorFile
from hermesops.model.fleet.instance import Instance
from hermesops.model.messaging.files import LARGEST, largest_upload
from hermesops.model.messaging.messenger import Messenger
from hermesops.store.registry import Registry
from hermesops.store.registry.database import Database
from hermesops.users.messaging.files.references import MEDIA
from hermesops.users.messaging.inbound.routing import CONNECTED
from tests.support.real.stores.registries import placed
from tests.support.users.messaging import HOST, Messaging, ScriptedGateway, bearer, dialled, messaging
from tests.support.users.phones import PHONES, Phone

pytestmark = [pytest.mark.turns(40), pytest.mark.parametrize("registry_url", ["sqlite"], indirect=True)]

PNG = b"\x89PNG\r\n\x1a\n" + bytes(2000)
PHOTO = VendorFile("holiday.png", PNG, "image/png")
EACH = pytest.mark.parametrize("make", PHONES)


def signed(world: Messaging, instance: Instance) -> Mapping[str, str]:
    """The header of a gateway's requests."""
    return {"authorization": f"Bearer {bearer(instance.id, world.secrets_of(instance.id)[-1])}"}


async def ask(method: str, url: str, headers: Mapping[str, str] | None = None, content: bytes = b"") -> httpx.Response:
    async with own_client(timeout=30) as http:
        return await http.request(method, url, headers=headers, content=content)


async def upload(world: Messaging, instance: Instance, name: str, content: bytes) -> httpx.Response:
    headers = {**signed(world, instance), "x-media-filename": name}
    return await ask("POST", f"{world.url}{MEDIA}", headers=headers, content=content)


async def linked(phone: Phone, instance: Instance) -> None:
    phone.link(instance)
    await phone.hears(CONNECTED)


async def next_event(gateway: ScriptedGateway) -> Mapping[str, Any]:
    frame = await gateway.next("inbound")
    await gateway.acknowledge(frame)
    event: Mapping[str, Any] = frame["event"]
    return event


async def texts(phone: Phone, number: int) -> list[str]:
    """What the bot wrote, once it is so much."""
    async with asyncio.timeout(30):
        while len(phone.texts) < number:
            await pause(0.05)
    return list(phone.texts)


@EACH
async def test_the_agent_reads_a_file_of_its_user(database: Database, ada: Instance, make: type[Phone]) -> None:
    async with messaging(database) as world, world.running(), dialled(world, ada) as gateway:
        phone = make(world)
        await linked(phone, ada)
        phone.send_file(PHOTO, "what is this?")
        event = await next_event(gateway)
        (url,) = event["media_urls"]
        (described,) = event["media"]
        assert (described["url"], described["mime"], described["filename"]) == (url, "image/png", "holiday.png")
        assert str(event["text"]).endswith("\n\nwhat is this?")
        assert f"Download it: {url}]" in str(event["text"])
        for headers in ({}, signed(world, ada)):
            answer = await ask("GET", url, headers=headers)
            assert (answer.status_code, answer.content) == (200, PNG)
            assert answer.headers["content-disposition"] == 'attachment; filename="holiday.png"'
        assert phone.broken() == {}


@EACH
async def test_a_file_that_comes_again_is_one_message(database: Database, ada: Instance, make: type[Phone]) -> None:
    async with messaging(database) as world, world.running(), dialled(world, ada) as gateway:
        phone = make(world)
        await linked(phone, ada)
        phone.send_file(PHOTO)
        phone.repeat()
        event = await next_event(gateway)
        await gateway.send(phone.chat, "nice", reply_to=str(event["message_id"]))
        phone.say("thanks")
        assert (await next_event(gateway))["text"] == "thanks"


@EACH
async def test_the_agents_file_reaches_its_user(database: Database, ada: Instance, make: type[Phone]) -> None:
    async with messaging(database) as world, world.running(), dialled(world, ada) as gateway:
        phone = make(world)
        await linked(phone, ada)
        id_ = (await upload(world, ada, "../plans/chart.png", PNG)).json()["id"]
        source = f"{world.url}{MEDIA}/{id_}"
        for _ in range(2):  # an agent that repeats a request sends nothing twice
            result = await gateway.send(phone.chat, "the chart", op="send_media", source_url=source, media_kind="image")
            assert result["success"]
        written = await texts(phone, 3)
        assert written == [CONNECTED, "[chart.png, 2008 bytes]", "the chart"]
        assert [(file.name, file.content) for file in phone.files] == [("chart.png", PNG)]
        assert phone.broken() == {}


@EACH
async def test_a_file_that_the_messenger_takes_not_is_one_line(
    database: Database, ada: Instance, make: type[Phone]
) -> None:
    async with messaging(database) as world, world.running(), dialled(world, ada) as gateway:
        phone = make(world)
        await linked(phone, ada)
        largest = min(largest_upload(phone.messenger), 5_000_000 if phone.messenger is Messenger.WHATSAPP else LARGEST)
        answer = await upload(world, ada, "big.png", PNG + bytes(largest - len(PNG) + 1))
        if largest == LARGEST:
            assert answer.status_code == 413
            return
        source = f"{world.url}{MEDIA}/{answer.json()['id']}"
        assert (await gateway.send(phone.chat, "", op="send_media", source_url=source))["success"]
        line = (await texts(phone, 2))[1]
        assert line.startswith("Your agent has sent big.png, which has more than ")
        assert list(phone.files) == []
        assert phone.broken() == {}


async def test_whatsapp_takes_no_archive(database: Database, ada: Instance) -> None:
    async with messaging(database) as world, world.running(), dialled(world, ada) as gateway:
        phone = next(make for make in PHONES if make.__name__ == "WhatsAppPhone")(world)
        await linked(phone, ada)
        id_ = (await upload(world, ada, "all.zip", b"PK\x03\x04" + bytes(100))).json()["id"]
        await gateway.send(phone.chat, "here", op="send_media", source_url=f"{world.url}{MEDIA}/{id_}")
        line = "Your agent has sent all.zip, a kind of file that WhatsApp does not take."
        assert await texts(phone, 3) == [CONNECTED, line, "here"]
        assert phone.broken() == {}


async def test_a_file_of_elsewhere_is_never_asked_for(database: Database, registry: Registry, ada: Instance) -> None:
    bob = placed(registry, "bob")
    with socket.create_server((HOST, 0)) as trap:
        trap.settimeout(0.2)
        port = trap.getsockname()[1]
        async with messaging(database) as world, world.running(), dialled(world, ada) as gateway:
            phone = PHONES[0](world)
            await linked(phone, ada)
            of_bob = (await upload(world, bob, "plan.txt", b"plan")).json()["id"]
            sources = [
                f"http://{HOST}:{port}/picture.png",
                f"http://{HOST}:{port}{MEDIA}/../secret",
                f"{world.url}{MEDIA}/{of_bob}",
                f"file://{MEDIA}/{'0' * 8}-0000-0000-0000-{'0' * 12}",
                "x" * 5000,
            ]
            for number, source in enumerate(sources):
                result = await gateway.send(phone.chat, "psst", f"r{number}", op="send_media", source_url=source)
                assert result == {"success": False, "error": "no_such_file"}
            with pytest.raises(TimeoutError):
                trap.accept()
            assert list(phone.texts) == [CONNECTED]


async def test_a_file_is_for_its_agent_alone(database: Database, registry: Registry, ada: Instance) -> None:
    bob = placed(registry, "bob")
    async with messaging(database) as world, world.running(), dialled(world, ada) as gateway:
        phone = PHONES[0](world)
        await linked(phone, ada)
        phone.send_file(PHOTO)
        (url,) = (await next_event(gateway))["media_urls"]
        head, _, last = str(url).rpartition("-")
        forged = f"{head}-{'0' * len(last)}"
        late = str(url).replace(head.rpartition("-")[2], "1000000000")
        assert [(await ask("GET", each)).status_code for each in (forged, late, f"{url}x")] == [404, 404, 404]
        assert (await ask("GET", url, headers=signed(world, bob))).status_code == 404
        assert (await ask("POST", f"{world.url}{MEDIA}", content=PNG)).status_code == 401
        wrong = {"authorization": f"Bearer {bearer(ada.id, '0' * 64)}"}
        assert (await ask("POST", f"{world.url}{MEDIA}", headers=wrong, content=PNG)).status_code == 401


async def test_a_file_that_is_not_what_its_name_says_is_refused_and_told_once(
    database: Database, ada: Instance
) -> None:
    async with messaging(database) as world, world.running(), dialled(world, ada) as gateway:
        phone = PHONES[0](world)
        await linked(phone, ada)
        phone.send_file(VendorFile("invoice.pdf", b"MZ" + bytes(500), "application/pdf"))
        (url,) = (await next_event(gateway))["media_urls"]
        for _ in range(2):
            assert (await ask("GET", url)).status_code == 415
        line = "invoice.pdf is not what its name says, so your agent does not get it."
        assert await texts(phone, 2) == [CONNECTED, line]
        assert (await upload(world, ada, "invoice.pdf", b"MZ" + bytes(500))).status_code == 415
        await pause(0.5)
        assert len(phone.texts) == 2


@EACH
async def test_a_file_that_is_too_large_is_told_in_one_line(
    database: Database, ada: Instance, make: type[Phone]
) -> None:
    async with messaging(database) as world, world.running(), dialled(world, ada) as gateway:
        phone = make(world)
        await linked(phone, ada)
        phone.send_file(VendorFile("film.bin", bytes(LARGEST + 1)))
        if phone.messenger is Messenger.WHATSAPP:  # names no size
            (url,) = (await next_event(gateway))["media_urls"]
            assert (await ask("GET", url)).status_code == 413
        largest = 20 if phone.messenger is Messenger.TELEGRAM else 26
        line = f"film.bin has more than {largest} MB, so your agent does not get it."
        assert await texts(phone, 2) == [CONNECTED, line]


async def test_a_bomb_is_data_and_an_agents_store_is_bounded(database: Database, ada: Instance) -> None:
    async with messaging(database) as world, world.running(), dialled(world, ada) as gateway:
        phone = PHONES[0](world)
        await linked(phone, ada)
        bomb = VendorFile("bomb.gz", b"\x1f\x8b\x08" + bytes(1000), "application/gzip")
        phone.send_file(bomb)
        (url,) = (await next_event(gateway))["media_urls"]
        assert (await ask("GET", url)).content == bomb.content
        statuses = [(await upload(world, ada, f"{number}.txt", b"x")).status_code for number in range(21)]
        assert statuses == [200] * 20 + [413]


async def test_an_agent_that_sends_slowly_delays_no_other(
    database: Database, registry: Registry, ada: Instance
) -> None:
    """It holds one place, however many files it begins."""
    bob = placed(registry, "bob")
    begun: list[asyncio.StreamWriter] = []
    async with messaging(database) as world, world.running():
        port = httpx.URL(world.url).port
        head = "\r\n".join(f"{name}: {value}" for name, value in signed(world, ada).items())
        for _ in range(4):
            _, writer = await asyncio.open_connection(HOST, port)
            writer.write(f"POST {MEDIA} HTTP/1.1\r\nhost: x\r\n{head}\r\ncontent-length: 1000\r\n\r\nPK".encode())
            await writer.drain()
            begun.append(writer)
        await pause(0.5)
        try:
            kept = await asyncio.wait_for(upload(world, bob, "b.txt", b"words"), 10)
        finally:
            for writer in begun:
                writer.close()
        assert kept.status_code == 200, kept.text

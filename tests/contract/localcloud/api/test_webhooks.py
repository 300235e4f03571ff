"""Webhooks: what is sent, how it is signed, how often it is tried, and what goes wrong with it."""

import asyncio
import contextlib
import hashlib
import hmac
import json
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from hermesops.base.waiting import Pending, until
from tests.support.fakes.machines.driver import PretendDriver
from tests.support.worlds.local.local_server import LocalCloud, serving

Json = dict[str, Any]
SECRET = f"whsec_{secrets.token_hex(8)}"


@dataclass
class Receiver:
    """Takes events; answers what ``answers`` says, then 200."""

    port: int = 0
    answers: list[int] = field(default_factory=list)
    got: list[tuple[dict[str, str], bytes]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    @property
    def told(self) -> list[Json]:
        return [json.loads(body)["data"] for _, body in self.got]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                lines = head.strip().split("\r\n")[1:]
                headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
                body = await reader.readexactly(int(headers["content-length"]))
                self.got.append((headers, body))
                status = self.answers.pop(0) if self.answers else 200
                writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n".encode())
                await writer.drain()

    async def until_told(self, **what: object) -> Json:
        async def observe() -> Json | Pending[Json]:
            documents = [data for data in self.told if data.items() >= what.items()]
            return documents[0] if documents else Pending(str(self.told))

        return await until(observe, what=f"an event {what}", timeout_s=15, every_s=0.02)


@contextlib.asynccontextmanager
async def receiving(port: int = 0) -> AsyncIterator[Receiver]:
    receiver = Receiver()
    async with await asyncio.start_server(receiver.serve, "127.0.0.1", port) as server:
        receiver.port = server.sockets[0].getsockname()[1]
        yield receiver


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as receiver:
        yield receiver


async def hook(cloud: LocalCloud, url: str, *events: str) -> Json:
    answer = await cloud.http.post("/api/v1/webhooks", json={"url": url, "events": events or ["*"], "secret": SECRET})
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


class TestRegistration:
    async def test_a_secret_is_made_unless_given_and_shown_once(self, cloud: LocalCloud) -> None:
        body = {"url": "http://localhost:1/", "events": ["machine.stage_changed"]}
        webhook = (await cloud.http.post("/api/v1/webhooks", json=body)).json()
        assert set(webhook) == {"id", "url", "events", "active", "created_at", "secret"}
        (listed,) = (await cloud.http.get("/api/v1/webhooks")).json()["webhooks"]
        assert listed == {name: value for name, value in webhook.items() if name != "secret"}
        assert (await cloud.http.delete(f"/api/v1/webhooks/{webhook['id']}")).status_code == 204
        assert (await cloud.http.delete(f"/api/v1/webhooks/{webhook['id']}")).status_code == 404

    @pytest.mark.parametrize(
        "fields",
        [
            {"url": "https://example.com/hook"},
            {"url": "http://10.0.0.1/"},
            {"url": "file:///etc/passwd"},
            {"url": "http://127.0.0.1:99999/"},
            {"url": "http://[::1"},
            {"url": 7},
            {"events": ["machine.ready"]},
            {"events": []},
            {"events": "*"},
            {"events": [["*"]]},
        ],
    )
    async def test_what_cannot_be_is_refused(self, cloud: LocalCloud, fields: Json) -> None:
        body = {"url": "http://127.0.0.1:1/", "events": ["*"], **fields}
        assert (await cloud.http.post("/api/v1/webhooks", json=body)).status_code == 400
        assert (await cloud.http.get("/api/v1/webhooks")).json() == {"webhooks": []}


class TestEvents:
    async def test_a_machines_life_is_told_in_order_and_signed(self, cloud: LocalCloud, receiver: Receiver) -> None:
        await hook(cloud, receiver.url)
        machine = await cloud.ready()
        await cloud.http.delete(f"/api/v1/machines/{machine['id']}")
        await receiver.until_told(status="deleted")
        stages = {data["stage"] for data in receiver.told if data["event"] == "machine.stage_changed"}
        assert stages == {
            "server_creating", "server_created", "cloud_init_running", "cloud_init_done", "services_starting",
            "services_ready",
        }  # fmt: skip
        created = next(data for data in receiver.told if data.get("stage") == "server_created")
        assert created["metadata"] == {"ip": machine["ip"]}
        statuses = {data["status"] for data in receiver.told if data["event"] == "machine.status_changed"}
        assert statuses == {"provisioning", "ready", "deleted"}
        assert {data["machineId"] for data in receiver.told} == {machine["id"]}
        for headers, body in receiver.got:
            digest = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
            assert headers["x-justavps-signature"] == digest
            assert headers["x-signature-256"] == f"sha256={digest}"

    async def test_only_what_was_asked_for_is_sent(self, cloud: LocalCloud, receiver: Receiver) -> None:
        await hook(cloud, receiver.url, "machine.status_changed")
        machine = await cloud.ready()
        await cloud.http.post(f"/api/v1/machines/{machine['id']}/stop")
        await receiver.until_told(status="stopped")
        assert {data["event"] for data in receiver.told} == {"machine.status_changed"}

    async def test_a_receiver_that_fails_is_tried_again(self, cloud: LocalCloud, receiver: Receiver) -> None:
        receiver.answers = [500, 503]
        webhook = await hook(cloud, receiver.url)
        answer = await cloud.http.post("/local/webhook-tests", json={"webhook_id": webhook["id"]})
        assert answer.status_code == 204

        async def thrice() -> bool | Pending[bool]:
            return len(receiver.got) == 3 or Pending(str(len(receiver.got)))

        await until(thrice, what="three tries", timeout_s=15, every_s=0.05)
        assert len({body for _, body in receiver.got}) == 1
        assert (
            receiver.told[0].items()
            >= {"event": "machine.test", "machineId": f"{'0' * 8}-0000-0000-0000-{'0' * 12}"}.items()
        )

    async def test_what_was_not_delivered_is_by_the_next_server(self, tmp_path: Path, driver: PretendDriver) -> None:
        async with receiving() as silent:
            port = silent.port
        async with serving(tmp_path / "world", driver) as before:
            await hook(before, f"http://127.0.0.1:{port}/hook", "machine.status_changed")
            machine = await before.ready()
        async with receiving(port) as receiver, serving(tmp_path / "world", driver):
            await receiver.until_told(status="ready", machineId=machine["id"])


class TestFaults:
    async def test_lost_twice_and_unsigned(self, cloud: LocalCloud, receiver: Receiver) -> None:
        await hook(cloud, receiver.url, "machine.status_changed")
        await cloud.fault("webhook-lost", machine="edge", path="machine.status_changed")
        machine = await cloud.ready()
        await receiver.until_told(status="ready")
        assert [data["status"] for data in receiver.told] == ["ready"]  # provisioning never came
        await cloud.fault("webhook-twice")
        await cloud.http.post(f"/api/v1/machines/{machine['id']}/stop")
        await cloud.becomes(machine["id"], "stopped")

        async def twice() -> bool | Pending[bool]:
            return [data["status"] for data in receiver.told].count("stopped") == 2 or Pending(str(receiver.told))

        await until(twice, what="the double", timeout_s=10, every_s=0.02)
        await cloud.fault("webhook-unsigned")
        await cloud.http.delete(f"/api/v1/machines/{machine['id']}")
        await receiver.until_told(status="deleted")
        assert not [name for name in receiver.got[-1][0] if "signature" in name]

    async def test_late_means_after_what_follows(self, cloud: LocalCloud, receiver: Receiver) -> None:
        await hook(cloud, receiver.url, "machine.status_changed")
        await cloud.fault("webhook-late", seconds=3)
        await cloud.ready()
        await receiver.until_told(status="provisioning")
        assert [data["status"] for data in receiver.told] == ["ready", "provisioning"]

    async def test_late_stays_late_though_the_server_starts_anew(
        self, tmp_path: Path, driver: PretendDriver, receiver: Receiver
    ) -> None:
        async with serving(tmp_path / "world", driver) as before:
            await hook(before, receiver.url, "machine.status_changed")
            await before.fault("webhook-late", seconds=3600)
            machine = await before.ready()
            await receiver.until_told(status="ready")
        async with serving(tmp_path / "world", driver) as after:
            await after.http.post(f"/api/v1/machines/{machine['id']}/stop")
            await receiver.until_told(status="stopped")
        assert "provisioning" not in [data["status"] for data in receiver.told]

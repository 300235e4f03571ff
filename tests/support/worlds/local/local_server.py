"""A local world's server inside the test's own loop, on a driver of the test's choice."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import httpx

from hermesops.base.waiting import Pending, until
from hermesops.localcloud.drivers.interface import Driver
from hermesops.localcloud.model_router.router import Upstream
from hermesops.localcloud.server.wiring import Serving, serve
from hermesops.programs.model_router.accounts.books import Ledger

Json = dict[str, Any]


@dataclass
class LocalCloud:
    """A running server and a client of it with the right key."""

    folder: Path
    where: Serving
    http: httpx.AsyncClient = field(repr=False)

    @property
    def port(self) -> int:
        return int(self.where.api_url.rsplit(":", 1)[1])

    @property
    def model_secret(self) -> bytes:
        return (self.folder / "model.key").read_bytes().strip()

    async def order(self, name: str = "edge", **fields: object) -> Json:
        answer = await self.http.post(
            "/api/v1/machines", json={"server_type": "starter", "region": "hel1", "name": name, **fields}
        )
        assert answer.status_code == 202, answer.text
        return cast("Json", answer.json())

    async def becomes(self, machine_id: object, status: str) -> Json:
        async def check() -> Json | Pending[Json]:
            row: Json = (await self.http.get(f"/api/v1/machines/{machine_id}")).json()
            return row if row.get("status") == status else Pending(str(row.get("status")))

        return await until(check, what=f"status {status}", timeout_s=30, every_s=0.1)

    async def ready(self, name: str = "edge", **fields: object) -> Json:
        return await self.becomes((await self.order(name, **fields))["id"], "ready")

    async def image_ends(self, image_id: object) -> Json:
        """The image once it is no longer being taken."""

        async def check() -> Json | Pending[Json]:
            row: Json = (await self.http.get(f"/api/v1/images/{image_id}")).json()
            return Pending("creating") if row["status"] == "creating" else row

        return await until(check, what="the image", timeout_s=60, every_s=0.1)

    async def token(self, machine: Json, **fields: object) -> Json:
        answer = await self.http.post(
            "/api/v1/proxy-tokens", json={"machine_id": machine["id"], "label": "test", **fields}
        )
        assert answer.status_code == 201, answer.text
        return cast("Json", answer.json())

    async def fault(self, kind: str, **fields: object) -> None:
        answer = await self.http.post("/local/faults", json={"kind": kind, **fields})
        assert answer.status_code == 201, answer.text

    def through(self, machine: Json, port: int | None, token: object = "") -> httpx.AsyncClient:
        """A client of the proxy, as one that cannot resolve names under localhost does it."""
        host = f"{machine['slug']}.localhost:{self.port}"
        headers = {"Host": host if port is None else f"{port}--{host}"}
        if token:
            headers["X-Proxy-Token"] = str(token)
        return httpx.AsyncClient(base_url=self.where.api_url, headers=headers, timeout=30)


@contextlib.asynccontextmanager
async def serving(
    folder: Path,
    driver: Driver,
    *,
    model_port: int = 0,
    upstream: Upstream | None = None,
    ledger: Ledger | None = None,
) -> AsyncIterator[LocalCloud]:
    """Run a server until the block ends; machines stay."""
    stop, up = asyncio.Event(), asyncio.Event()
    servers: list[Serving] = []

    def serving_at(where: Serving) -> None:
        servers.append(where)
        up.set()

    server = asyncio.create_task(
        serve(
            folder,
            driver,
            model_port=model_port,
            upstream=upstream,
            ledger=ledger,
            serving=serving_at,
            stop=stop,
        )
    )
    waiting = asyncio.create_task(up.wait())
    await asyncio.wait([server, waiting], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if server.done():
        await server
    (where,) = servers
    key = (folder / "api.key").read_text().strip()
    async with httpx.AsyncClient(
        base_url=where.api_url, headers={"Authorization": f"Bearer {key}"}, timeout=30
    ) as client:
        try:
            yield LocalCloud(folder, where, client)
        finally:
            stop.set()
            await server

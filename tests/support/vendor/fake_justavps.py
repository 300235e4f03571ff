"""A small honest JustAVPS over HTTP: machines in a dict, with the oddities the real one is known for."""

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeVar

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from hermesops.base.waiting import pause_blocking

PRIVATE_KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nplanted-canary\n-----END OPENSSH PRIVATE KEY-----\n"


Fake = TypeVar("Fake", bound="FakeJustAvps")


@dataclass
class FakeJustAvps:
    """The account.

    Attributes:
        key: The API key; anything else gets 401.
        url: Base URL with /api/v1, once served.
        looks_until_ready: GETs of a machine that still answer ``provisioning``; negative: it never becomes ready.
        hidden_looks: GETs of a new machine that answer 404.
        lose_orders: Orders that are carried out and answered with 500.
        refuse_orders: Answer every order with 402.
        orders: Bodies of all orders that arrived.
        can_resize: Whether the resize call exists.
    """

    key: str = field(default_factory=lambda: f"sk_{uuid.uuid4().hex}")
    url: str = ""
    looks_until_ready: int = 1
    hidden_looks: int = 0
    lose_orders: int = 0
    refuse_orders: bool = False
    can_resize: bool = True
    orders: list[dict[str, str]] = field(default_factory=list)
    machines: dict[str, dict[str, object]] = field(default_factory=dict)
    looks: dict[str, int] = field(default_factory=dict)
    images: dict[str, dict[str, object]] = field(default_factory=dict)

    def add(self, name: str, **values: object) -> str:
        """Put a machine there, as if ordered by someone."""
        machine_id = str(uuid.uuid4())
        self.machines[machine_id] = {
            "id": machine_id,
            "slug": f"m-{machine_id[:8]}",
            "name": name,
            "status": "provisioning",
            "provisioning_stage": "server_creating",
            "provider": "cloud",
            "image_id": None,
            "server_type": "starter",
            "region": "hel1",
            "ip": "203.0.113.7",
            "created_at": datetime.now(UTC).isoformat(),
            "ssh_key": {"private_key": PRIVATE_KEY},
            "urls": {"port_template": "https://{port}--{slug}.example.test"},
            **values,
        }
        self.looks[machine_id] = 0
        return machine_id

    def app(self) -> Starlette:
        """The API as an ASGI application."""
        path = "/api/v1/machines/{machine_id}"
        return Starlette(
            routes=[
                Route("/api/v1/machines", self._list, methods=["GET"]),
                Route("/api/v1/machines", self._order, methods=["POST"]),
                Route(path, self._observe, methods=["GET"]),
                Route(path, self._delete, methods=["DELETE"]),
                Route(f"{path}/resize", self._resize, methods=["POST"]),
                Route(f"{path}/image", self._save, methods=["POST"]),
                Route("/api/v1/images", self._list_images, methods=["GET"]),
                Route("/api/v1/images/{image_id}", self._look_at_image, methods=["GET"]),
                Route("/api/v1/images/{image_id}", self._delete_image, methods=["DELETE"]),
            ]
        )

    def _allowed(self, request: Request) -> bool:
        return request.headers.get("authorization") == f"Bearer {self.key}"

    async def _list(self, request: Request) -> Response:
        if not self._allowed(request):
            return JSONResponse({"message": "bad key"}, 401)
        return JSONResponse({"machines": list(self.machines.values())})

    async def _order(self, request: Request) -> Response:
        if not self._allowed(request):
            return JSONResponse({"message": "bad key"}, 401)
        body = await request.json()
        self.orders.append(body)
        if self.refuse_orders:
            return JSONResponse({"requires_checkout": True, "message": "no payment method"}, 402)
        wanted = {k: body[k] for k in ("server_type", "region", "image_id") if k in body}
        machine_id = self.add(body["name"], **wanted)
        if self.lose_orders > 0:
            self.lose_orders -= 1
            return JSONResponse({"message": "internal error"}, 500)
        return JSONResponse(self.machines[machine_id], 202)

    async def _observe(self, request: Request) -> Response:
        if not self._allowed(request):
            return JSONResponse({"message": "bad key"}, 401)
        machine_id = request.path_params["machine_id"]
        machine = self.machines.get(machine_id)
        if machine is None:
            return JSONResponse({"message": "no such machine"}, 404)
        self.looks[machine_id] += 1
        if self.looks[machine_id] <= self.hidden_looks:
            return JSONResponse({"message": "no such machine"}, 404)
        if machine["status"] == "provisioning" and 0 <= self.looks_until_ready < self.looks[machine_id]:
            machine |= {"status": "ready", "provisioning_stage": "services_ready"}
        return JSONResponse(machine)

    async def _delete(self, request: Request) -> Response:
        if not self._allowed(request):
            return JSONResponse({"message": "bad key"}, 401)
        if self.machines.pop(request.path_params["machine_id"], None) is None:
            return JSONResponse({"message": "no such machine"}, 404)
        return Response(status_code=204)

    async def _resize(self, request: Request) -> Response:
        if not self.can_resize:
            return JSONResponse({"message": "not found"}, 404)
        machine = self.machines[request.path_params["machine_id"]]
        machine["server_type"] = (await request.json())["server_type"]
        return JSONResponse({"action": "resize", "status": "pending"}, 202)

    async def _save(self, request: Request) -> Response:
        image_id = str(uuid.uuid4())
        self.images[image_id] = {
            "id": image_id,
            "name": (await request.json())["name"],
            "status": "creating",
            "source_machine_id": request.path_params["machine_id"],
            "provider_image_id": None,
            "created_at": datetime.now(UTC).isoformat(),
        }
        return JSONResponse(self.images[image_id], 202)

    async def _list_images(self, _: Request) -> Response:
        return JSONResponse({"images": list(self.images.values())})

    async def _look_at_image(self, request: Request) -> Response:
        image = self.images.get(request.path_params["image_id"])
        if image is None:
            return JSONResponse({"message": "no such image"}, 404)
        answer = dict(image)
        image |= {"status": "ready", "provider_image_id": "17"}  # by the next look
        return JSONResponse(answer)

    async def _delete_image(self, request: Request) -> Response:
        self.images.pop(request.path_params["image_id"], None)
        return Response(status_code=204)


@contextmanager
def served(fake: Fake) -> Iterator[Fake]:
    """Serve it on a free port of the loopback for the length of a ``with``."""
    server = uvicorn.Server(uvicorn.Config(fake.app(), host="127.0.0.1", port=0, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        if not thread.is_alive():
            raise RuntimeError("the fake API did not start")
        pause_blocking(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    fake.url = f"http://127.0.0.1:{port}/api/v1"
    try:
        yield fake
    finally:
        server.should_exit = True
        thread.join()

"""A local world of simulated machines whose server has a thread and a loop of its own, for tests that block."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx

from hermesops.localcloud.server import Serving, serve
from hermesops.localcloud.sim.driver import SimDriver
from hermesops.waiting import pause_blocking

_PATIENCE_S = 20.0
_LOOK_EVERY_S = 0.05


@dataclass(frozen=True)
class ServedWorld:
    """Where it is, and how to be let in."""

    api_url: str
    key: str

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"}

    def machine(self) -> str:
        """The id of a machine that is ready, with backups on."""
        order = {"server_type": "starter", "region": "hel1", "name": "there", "enable_backups": True}
        with httpx.Client(base_url=f"{self.api_url}/api/v1", headers=self.headers, trust_env=False) as http:
            machine_id = str(http.post("/machines", json=order).json()["id"])
            for _ in range(int(_PATIENCE_S / _LOOK_EVERY_S)):
                if http.get(f"/machines/{machine_id}").json()["status"] == "ready":
                    return machine_id
                pause_blocking(_LOOK_EVERY_S)
        raise TimeoutError(machine_id)


@contextlib.contextmanager
def served_world(folder: Path, *, object_store_program: Path | None = None) -> Iterator[ServedWorld]:
    """Serve until the block ends."""
    told: list[Serving] = []
    up = threading.Event()
    loops: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    def announce(where: Serving) -> None:
        told.append(where)
        up.set()

    async def run() -> None:
        stop = asyncio.Event()
        loops.append((asyncio.get_running_loop(), stop))
        program = (lambda: object_store_program) if object_store_program else None
        await serve(folder, SimDriver(folder), model_port=0, object_store_program=program, serving=announce, stop=stop)

    thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
    thread.start()
    try:
        if not up.wait(_PATIENCE_S):
            raise TimeoutError(folder)
        yield ServedWorld(told[0].api_url, (folder / "api.key").read_text().strip())
    finally:
        for loop, stop in loops:
            loop.call_soon_threadsafe(stop.set)
        thread.join(_PATIENCE_S)

"""A local world of simulated machines whose server is a process of its own, for tests that block.

A thread of a worker would write its log to what pytest captures while pytest reads it: CPython 3.11 crashed that way.
"""

import asyncio
import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx

from hermesops.base.waiting import pause_blocking
from hermesops.localcloud.drivers.sim.driver import SimDriver
from hermesops.localcloud.server.wiring import Serving, serve
from tests.support.real.ends_with_us import KILLED

_TIMEOUT_S = 20.0
_ATTEMPT_EVERY_S = 0.05
_SERVER = (*KILLED, sys.executable, "-m", "tests.support.worlds.local.served")
_ROOT = Path(__file__).parents[4]


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
            for _ in range(int(_TIMEOUT_S / _ATTEMPT_EVERY_S)):
                if http.get(f"/machines/{machine_id}").json()["status"] == "ready":
                    return machine_id
                pause_blocking(_ATTEMPT_EVERY_S)
        raise TimeoutError(machine_id)


@contextlib.contextmanager
def served_world(folder: Path, *, object_store_program: Path | None = None) -> Iterator[ServedWorld]:
    """Serve until the block ends."""
    where, log = folder.with_name(f"{folder.name}.where"), folder.with_name(f"{folder.name}.log")
    folder.parent.mkdir(parents=True, exist_ok=True)
    where.unlink(missing_ok=True)
    command = [*_SERVER, str(folder), str(where), *([str(object_store_program)] if object_store_program else [])]
    with log.open("wb") as output, subprocess.Popen(command, cwd=_ROOT, stdout=output, stderr=output) as server:
        try:
            yield ServedWorld(_told(where, server, log), (folder / "api.key").read_text().strip())
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(_TIMEOUT_S)


def _told(where: Path, server: "subprocess.Popen[bytes]", log: Path) -> str:
    for _ in range(int(_TIMEOUT_S / _ATTEMPT_EVERY_S)):
        if where.exists():
            return where.read_text()
        assert server.poll() is None, log.read_text()
        pause_blocking(_ATTEMPT_EVERY_S)
    raise TimeoutError(log.read_text())


def _serve(folder: Path, where: Path, *program: str) -> None:
    def announce(serving: Serving) -> None:
        written = where.with_suffix(".new")
        written.write_text(serving.api_url)
        written.replace(where)

    path = (lambda: Path(program[0])) if program else None
    asyncio.run(serve(folder, SimDriver(folder), model_port=0, object_store_program=path, serving=announce))


if __name__ == "__main__":
    _serve(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])

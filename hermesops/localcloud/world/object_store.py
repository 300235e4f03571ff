"""The world's object store: versitygw's S3 and IAM as child processes of the server.

Machines reach S3 on their gateway; IAM listens on loopback alone. It must not know what is kept in it.
"""

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

import httpx
import structlog

from hermesops.base.files.private_file import make_private_folder
from hermesops.base.network.http import own_client
from hermesops.base.waiting import Pending, pause, until
from hermesops.errors import HermesError, RefusedError
from hermesops.localcloud.server.background import run_child
from hermesops.localcloud.server.listener import listen_again, port_of
from hermesops.localcloud.store.database import Store
from hermesops.localcloud.world.files import WorldFiles, write_private

REGION = "us-east-1"
"""The region that versitygw's IAM signs with; a local store has no other."""

_HEALTH = "/hermesops-health"
_START_S = 60.0
_ATTEMPT_EVERY_S = 0.05
_RESTART_AFTER_S = 1.0
_WANTED = "object_store"
_LOOPBACK = "127.0.0.1"

log = structlog.get_logger()


@dataclass(frozen=True)
class ObjectStoreFacts:
    """The endpoints of a running object store.

    Attributes:
        endpoint: S3, for this computer and for machines.
        iam_endpoint: IAM, for this computer alone.
        key_file: The root credential, in the form of AWS's shared credentials file.
    """

    endpoint: str
    iam_endpoint: str
    region: str
    key_file: str


class ObjectStore:
    """Runs versitygw after the first request for it.

    Args:
        store: Remembers that it was asked for, and its ports.
        gateway: Where machines find this computer.
        port: Of S3; 0 takes last time's, at first any free one.
        program: Gives the path of versitygw. Callers that ask for the store do not choose what is run as root.
    """

    def __init__(
        self, files: WorldFiles, store: Store, gateway: IPv4Address, port: int, program: Callable[[], Path]
    ) -> None:
        self._files = files
        self._store = store
        self._gateway = gateway
        self._port = port
        self._program = program
        self._keepers: list[asyncio.Task[None]] = []
        self._starting = asyncio.Lock()
        self.facts: ObjectStoreFacts | None = None

    def open(self) -> None:
        """Start the store in the background if it ran before; without its program it waits for a request."""
        if self._store.remembered(_WANTED) and self._program().exists():
            self._keepers.append(asyncio.create_task(self._resume(), name="resume the object store"))

    async def start(self) -> ObjectStoreFacts:
        """Run it, unless it runs, and return once it answers.

        Raises:
            RefusedError: Its program has not been built.
            WaitExpiredError: It does not answer; its log has the reason.
        """
        async with self._starting:
            if self.facts is None:
                program = self._program()
                if not program.is_file():
                    raise RefusedError(f"no program {program}", hint="the same command again builds it")
                self.facts = await self._start(program)
                self._store.remember(_WANTED, "yes")
            return self.facts

    async def close(self) -> None:
        """Stop the processes of the store."""
        keepers, self._keepers, self.facts = self._keepers, [], None
        for keeper in keepers:
            keeper.cancel()
        await asyncio.gather(*keepers, return_exceptions=True)

    async def _resume(self) -> None:
        try:
            await self.start()
        except HermesError as failure:  # machines run without it, and the next command that needs it reports it
            log.warning("object_store_not_started", reason=failure.message)

    async def _start(self, program: Path) -> ObjectStoreFacts:
        folder = self._files.object_store
        folders = {name: folder / name for name in ("data", "versions", "iam")}
        for path in folders.values():
            make_private_folder(path)
        environment = _root_of(self._files.object_store_key)
        with (
            listen_again(self._store, "object_store_port", str(self._gateway), self._port) as s3_socket,
            listen_again(self._store, "iam_port", _LOOPBACK, 0) as iam_socket,
        ):  # they only find out which ports are free
            s3, iam = f"{self._gateway}:{port_of(s3_socket)}", f"{_LOOPBACK}:{port_of(iam_socket)}"
        # An abstract socket has no file to be left behind, and its path may not be too long. Nobody else can have
        # taken a name that did not exist a moment ago.
        private = f"@hermesops-{secrets.token_hex(16)}"
        common = [str(program), "--quiet", "--health", _HEALTH, "--region", REGION]
        tasks = [
            self._keep(
                [*common, "--port", iam, "iam", "--dir", str(folders["iam"]), "--private-ports", private], environment
            )
        ]
        try:
            await _answers(iam)  # S3 waits two seconds before it asks for an IAM a second time
            posix = ["posix", "--versioning-dir", str(folders["versions"]), str(folders["data"])]
            tasks.append(self._keep([*common, "--port", s3, "--iam-standalone-endpoint", private, *posix], environment))
            await _answers(s3)
        except BaseException:
            for task in tasks:
                task.cancel()
            raise
        return ObjectStoreFacts(f"http://{s3}", f"http://{iam}", REGION, str(self._files.object_store_key))

    def _keep(self, command: Sequence[str], environment: Mapping[str, str]) -> asyncio.Task[None]:
        keeper = asyncio.create_task(self._run(command, environment), name=f"keep {command[0]}")
        self._keepers.append(keeper)
        return keeper

    async def _run(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Keep a child running: one that ends is started again."""
        while True:
            with (self._files.object_store / "log").open("ab") as output:
                code = await run_child(command, env=environment, stdout=output, stderr=output)
            log.warning("object_store_ended", exit_code=code)
            await pause(_RESTART_AFTER_S)


async def _answers(where: str) -> None:
    async with own_client(timeout=5) as http:

        async def ask() -> bool | Pending[bool]:
            try:
                answer = await http.get(f"http://{where}{_HEALTH}")
            except httpx.TransportError as error:
                return Pending(type(error).__name__)
            return True if answer.is_success else Pending(f"status {answer.status_code}")

        await until(ask, what=f"the object store at {where}", timeout_s=_START_S, every_s=_ATTEMPT_EVERY_S)


def _root_of(file: Path) -> dict[str, str]:
    """The root credential as versitygw reads it; a missing one is made."""
    if not file.exists():
        access, secret = secrets.token_hex(10).upper(), secrets.token_urlsafe(32)
        text = f"[default]\naws_access_key_id = {access}\naws_secret_access_key = {secret}\n"
        write_private(file, text.encode())
    lines = (line.partition(" = ") for line in file.read_text().splitlines())
    values = {name: value for name, _, value in lines}
    return {
        "ROOT_ACCESS_KEY_ID": values["aws_access_key_id"],
        "ROOT_SECRET_ACCESS_KEY": values["aws_secret_access_key"],
    }

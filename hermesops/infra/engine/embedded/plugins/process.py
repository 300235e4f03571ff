"""Provider plugins as processes: found by name, started, called over gRPC, ended; and the server of their log lines.

Source: pulumi's plugin protocol: the executable gets the engine's address as its argument and prints its port.
"""

import asyncio
import contextlib
import shutil
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

from hermesops.base.network.channels import channel
from hermesops.base.waiting import cancel
from hermesops.errors import RefusedError, UnavailableError
from hermesops.infra.engine.embedded.protocol.plugin import DIED, HalfMade, ProviderFaultError
from hermesops.infra.engine.embedded.protocol.values import Message, from_wire
from hermesops.infra.engine.options import UnsupportedByEmbeddedError

START_LIMIT_S = 30.0
END_LIMIT_S = 5.0
DEATH_LIMIT_S = 0.5
LARGEST_MESSAGE = 400 * 1024 * 1024
KEPT_LINES = 20

OUR_PACKAGE = "justavps"
"""The package whose plugin is installed with hermesops."""


def find_plugin(package: str, folders: Sequence[Path], *, search: str) -> Path:
    """Find the executable of a package's plugin: in these folders first, then on the search path.

    Raises:
        RefusedError: It is nowhere there.
        UnsupportedByEmbeddedError: The same, of one that is not ours: the CLI fetches those.
    """
    name = f"pulumi-resource-{package}"
    for path in (*map(str, folders), search):
        program = shutil.which(name, path=path) if path else None
        if program is not None:
            return Path(program)
    if package != OUR_PACKAGE:
        raise UnsupportedByEmbeddedError(f"resources of {package}", f"the provider plugin {name} is not installed")
    raise RefusedError(
        f"the provider plugin {name} was found neither in {', '.join(map(str, folders))} nor on PATH",
        hint="install hermesops completely (its wheel brings the plugin), then run the same command again",
    )


class PluginProcess:
    """A running plugin, with the gRPC channel to it."""

    def __init__(self, process: asyncio.subprocess.Process, port: int, name: str) -> None:
        from pulumi.runtime.proto import provider_pb2_grpc  # noqa: PLC0415  loads the SDK

        self._process = process
        self._name = name
        self._said: deque[str] = deque(maxlen=KEPT_LINES)
        self._readers = [asyncio.create_task(self._drain(stream)) for stream in (process.stdout, process.stderr)]
        limits = [(f"grpc.max_{way}_message_length", LARGEST_MESSAGE) for way in ("receive", "send")]
        self._channel = channel(f"127.0.0.1:{port}", limits)
        self._stub = provider_pb2_grpc.ResourceProviderStub(self._channel)

    async def call(self, method: str, request: Message) -> Message:
        """Send one request of the provider protocol; any number may be under way at once.

        Raises:
            ProviderFaultError: The plugin refused, failed or died.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()

        def pass_on(pending: Message) -> None:
            with contextlib.suppress(RuntimeError):  # the loop may be gone when a killed run's answer arrives
                loop.call_soon_threadsafe(_settle, answer, pending)

        pending = getattr(self._stub, method).future(request)
        pending.add_done_callback(pass_on)
        try:
            return await answer
        except grpc.RpcError as error:
            raise await self._fault(method, error) from error

    async def _fault(self, method: str, error: Message) -> ProviderFaultError:
        code, message = error.code().name, error.details() or "no details"
        if code == "UNAVAILABLE":
            # The socket closes a moment before the kernel reports the end of the process.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), DEATH_LIMIT_S)
                message = DIED
        return ProviderFaultError(code, message, half_made(error), about=f"{self._name}.{method}")

    async def close(self) -> None:
        """End the process: SIGTERM first, then SIGKILL. Safe to call twice."""
        self._channel.close()
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()
            try:
                await asyncio.wait_for(self._process.wait(), END_LIMIT_S)
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    self._process.kill()
                await self._process.wait()
        await cancel(*self._readers)

    async def _drain(self, stream: asyncio.StreamReader | None) -> None:
        """Keep a pipe from filling up, which would stop the plugin."""
        while stream is not None and (line := await stream.readline()):
            self._said.append(line.decode(errors="replace").rstrip())


def _settle(answer: "asyncio.Future[Any]", pending: Message) -> None:
    if answer.done():
        return
    error = pending.exception()
    if error is None:
        answer.set_result(pending.result())
    else:
        answer.set_exception(error)


def half_made(error: Message) -> HalfMade | None:
    """Read the detail that a plugin attaches when the thing exists all the same."""
    from pulumi.runtime.proto import provider_pb2, status_pb2  # noqa: PLC0415  loads the SDK

    for key, value in error.trailing_metadata() or ():
        if key != "grpc-status-details-bin":
            continue
        status = status_pb2.Status.FromString(value)
        for detail in status.details:
            failure = provider_pb2.ErrorResourceInitFailed()
            if detail.Unpack(failure):
                return HalfMade(failure.id, from_wire(failure.properties), tuple(failure.reasons))
    return None


class ProcessHost:
    """Starts plugin processes.

    Args:
        folders: Searched for plugins before ``PATH``.
        environment: The whole environment of the plugins; nothing is inherited beside it.
        engine_address: Where the engine takes the plugins' log lines.
    """

    def __init__(self, folders: Sequence[Path], environment: Mapping[str, str], engine_address: str) -> None:
        self._folders = tuple(folders)
        self._environment = dict(environment)
        self._engine_address = engine_address
        self._early: dict[str, asyncio.Task[tuple[asyncio.subprocess.Process, int]]] = {}

    def expect(self, package: str) -> None:
        """Start a process that the run will need, while the rest of the run starts."""
        if package not in self._early:
            self._early[package] = asyncio.create_task(self._launch(package))

    async def start(self, package: str) -> PluginProcess:
        """Start a plugin, or return the one that was started early.

        Raises:
            RefusedError: There is no such plugin.
            UnavailableError: It did not start.
        """
        early = self._early.pop(package, None)
        process, port = await (early or self._launch(package))
        return PluginProcess(process, port, package)

    async def close(self) -> None:
        """End processes that were started early and not taken."""
        for task in self._early.values():
            with contextlib.suppress(RefusedError, UnavailableError):
                process, _ = await task
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        self._early.clear()

    async def _launch(self, package: str) -> tuple[asyncio.subprocess.Process, int]:
        path = find_plugin(package, self._folders, search=self._environment.get("PATH", ""))
        try:
            process = await asyncio.create_subprocess_exec(
                str(path),
                self._engine_address,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=self._environment,
                start_new_session=True,  # Ctrl-C is for us; plugins are asked to stop by Cancel
            )
        except OSError as error:
            raise UnavailableError(f"{path} cannot be started: {error.strerror}", hint="reinstall hermesops") from error
        return process, await _port(process, path)


async def _port(process: asyncio.subprocess.Process, path: Path) -> int:
    if process.stdout is None or process.stderr is None:
        raise UnavailableError(f"{path} was started without pipes")
    try:
        line = (await asyncio.wait_for(process.stdout.readline(), START_LIMIT_S)).decode().strip()
    except TimeoutError:
        line = ""
    if line.isdigit():
        return int(line)
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    lines = (await process.stderr.read()).decode(errors="replace").strip().splitlines()
    await process.wait()
    raise UnavailableError(
        f"{path} did not start: {lines[-1] if lines else 'it printed no port'}",
        hint=f"run {path} by hand to see its error",
    )


class LogServer:
    """A gRPC server on loopback that takes the plugins' log lines; other calls are answered as unimplemented.

    Messages are parsed on the first line that comes, so that starting the server does not load the SDK.

    Args:
        log: Takes a parsed ``LogRequest``.
    """

    def __init__(self, log: Callable[[Message], object]) -> None:
        self._log = log
        self._server = grpc.server(ThreadPoolExecutor(max_workers=1))
        handler = grpc.unary_unary_rpc_method_handler(self._take)
        service = grpc.method_handlers_generic_handler("pulumirpc.Engine", {"Log": handler})
        self._server.add_generic_rpc_handlers((service,))
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def _take(self, raw: bytes, _context: Message) -> bytes:
        from pulumi.runtime.proto import engine_pb2  # noqa: PLC0415  see the class

        self._log(engine_pb2.LogRequest.FromString(raw))
        return b""

    def close(self) -> None:
        """Stop serving at once, without waiting for calls."""
        self._server.stop(None)

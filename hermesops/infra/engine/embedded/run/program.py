"""Runs a Pulumi program on the SDK, in a thread and a context of its own, and serves it the monitor and the log.

The SDK keeps its settings in context variables, so any number of stacks can run in one process at once; nothing
of the process's environment is changed for it. It gets its two services as objects in place of gRPC stubs (as its own
mocks do), which saves a round trip through the kernel per call. A call blocks one of the SDK's threads while the
engine's loop works.
Only ``stack_run`` imports this module, once the SDK is loaded.
"""

import asyncio
import concurrent.futures
import contextlib
import contextvars
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf.empty_pb2 import Empty
from pulumi.runtime import settings
from pulumi.runtime.config import set_all_config
from pulumi.runtime.proto import engine_pb2, resource_pb2
from pulumi.runtime.stack import run_in_stack

from hermesops.infra.engine.embedded.protocol.values import Message
from hermesops.infra.engine.embedded.run.events import EventLog
from hermesops.infra.engine.options import Program, StackConfig
from hermesops.model.stack import StackRef

THREADS_PER_OPERATION = 4
"""The SDK blocks a thread per registration under way; the CLI's own host has this factor too."""

FEATURES: Any = range(16)
"""The monitor's features that the recorded CLI claims: numbers 0 to 15 of the protocol's enumeration."""

LOOP_CHECK_S = 1.0
"""How often a waiting thread checks whether the engine's loop still runs."""

ORGANIZATION = "organization"

UNSUPPORTED_CALLS = {
    "ReadResource": "reading a resource that it does not manage (get)",
    "ExistsResource": "asking whether a resource exists",
    "Invoke": "provider functions",
    "Call": "methods of components",
    "RegisterStackTransform": "transforms",
    "RegisterStackInvokeTransform": "transforms",
    "RegisterResourceHook": "resource hooks",
    "RegisterErrorHook": "error hooks",
    "RegisterPackage": "parameterised packages",
}


class StoppedError(grpc.RpcError):
    """The program's error when the engine stops: as if the monitor's server were gone."""

    def code(self) -> grpc.StatusCode:
        """Inform the SDK that no more answers will come."""
        return grpc.StatusCode.UNAVAILABLE

    def details(self) -> str:
        """Return the text of the error."""
        return "the engine has stopped"


@dataclass(frozen=True)
class Registrations:
    """Handlers of the program's registrations; the first two run on the engine's loop.

    Attributes:
        register: Applies one resource; returns the values that the program may read.
        register_outputs: Stores the outputs of a component or of the stack.
        refuse: Records an unsupported request of the program: feature and place.
    """

    register: Callable[[Message], Coroutine[Any, Any, Message]]
    register_outputs: Callable[[Message], Coroutine[Any, Any, None]]
    refuse: Callable[[str, str], None]


class Monitor:
    """The resource monitor, as the SDK calls it."""

    def __init__(self, taker: Registrations, loop: asyncio.AbstractEventLoop, about: dict[str, Any]) -> None:
        self._taker = taker
        self._loop = loop
        self._about = about

    def _on_loop(self, work: Coroutine[Any, Any, Any]) -> Message:
        if self._loop.is_closed():
            work.close()
            raise StoppedError
        pending = asyncio.run_coroutine_threadsafe(work, self._loop)
        while not pending.done():
            concurrent.futures.wait((pending,), timeout=LOOP_CHECK_S)
            if self._loop.is_closed() and not pending.done():
                raise StoppedError  # a loop that has ended runs nothing any more; this thread would wait for ever
        return pending.result()

    def GetDeploymentInfo(self, _request: Message) -> Message:  # noqa: N802  the protocol's name
        """Tell the program where it runs."""
        return resource_pb2.DeploymentInfo(**self._about, supportedFeatures=FEATURES)

    def RegisterResource(self, request: Message) -> Message:  # noqa: N802  the protocol's name
        """Apply one resource, and answer with its outputs."""
        return self._on_loop(self._taker.register(request))

    def RegisterResourceOutputs(self, request: Message) -> Message:  # noqa: N802  the protocol's name
        """Store the outputs of a component or of the stack."""
        self._on_loop(self._taker.register_outputs(request))
        return Empty()

    def SignalAndWaitForShutdown(self, _request: Message) -> Message:  # noqa: N802  the protocol's name
        """Let the program end; deletions do not need it."""
        return Empty()

    def __getattr__(self, method: str) -> Message:
        if method.startswith("_"):
            raise AttributeError(method)

        def refuse(request: Message) -> Message:
            named = (str(getattr(request, name, "")) for name in ("name", "tok", "type"))
            self._taker.refuse(UNSUPPORTED_CALLS.get(method, method), next(filter(None, named), "the program"))
            raise StoppedError

        return refuse


class EngineLog:
    """The engine service: receives log lines of the program."""

    def __init__(self, events: EventLog, loop: asyncio.AbstractEventLoop) -> None:
        self._events = events
        self._loop = loop
        self._root = ""

    def Log(self, request: Message) -> Message:  # noqa: N802  the protocol's name
        """Report a log line of the program."""
        self._events.report_line(request, self._loop)
        return Empty()

    def GetRootResource(self, _request: Message) -> Message:  # noqa: N802  the protocol's name
        """Answer with the URN that ``SetRootResource`` received."""
        return engine_pb2.GetRootResourceResponse(urn=self._root)

    def SetRootResource(self, request: Message) -> Message:  # noqa: N802  the protocol's name
        """Remember the URN of the stack's root."""
        self._root = request.urn
        return engine_pb2.SetRootResourceResponse()

    def RequirePulumiVersion(self, _request: Message) -> Message:  # noqa: N802  the protocol's name
        """Accept every version: the program is ours and made for this engine."""
        return engine_pb2.RequirePulumiVersionResponse()


@dataclass(frozen=True)
class ProgramHost:
    """Runs a Pulumi program in a thread, and serves the SDK's calls."""

    ref: StackRef
    taker: Registrations
    events: EventLog
    parallel: int
    dry: bool
    config: StackConfig

    def start(self, program: Program) -> "asyncio.Future[None]":
        """Start a program; the future ends with the program, and raises its exception."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()
        ended.add_done_callback(asyncio.Future.exception)  # a cancelled run does not ask what the program raised

        def settle(error: BaseException | None) -> None:
            if ended.done():
                return
            if error is None:
                ended.set_result(None)
            else:
                ended.set_exception(error)

        def run() -> None:
            error: BaseException | None = None
            try:
                self._configure_sdk(loop)
                self._drive(program)
            except BaseException as raised:  # noqa: BLE001  the edge of a thread: whatever it was belongs to the caller
                error = raised if isinstance(raised, Exception) else RuntimeError(f"the program ended with {raised!r}")
            with contextlib.suppress(RuntimeError):  # the loop has ended, and with it the run
                loop.call_soon_threadsafe(settle, error)

        context = contextvars.Context()
        threading.Thread(target=context.run, args=(run,), name=f"pulumi-{self.ref.stack}", daemon=True).start()
        return ended

    def _configure_sdk(self, loop: asyncio.AbstractEventLoop) -> None:
        ref, config = self.ref, self.config
        about = {
            "project": ref.project,
            "stack": ref.stack,
            "organization": ORGANIZATION,
            "dryRun": self.dry,
            "parallel": self.parallel,
            "config": dict(config.values),
            "configSecretKeys": sorted(config.secret),
        }
        settings.ROOT.set(None)
        settings.configure(
            settings.Settings(
                project=ref.project,
                stack=ref.stack,
                monitor=Monitor(self.taker, loop, about),
                engine=EngineLog(self.events, loop),
                parallel=self.parallel,
                dry_run=self.dry,
                organization=ORGANIZATION,
                legacy_apply_enabled=False,
            )
        )
        set_all_config(dict(config.values), list(config.secret))

    def _drive(self, program: Program) -> None:
        loop = asyncio.new_event_loop()
        loop.set_exception_handler(lambda _loop, _context: None)  # what matters is raised by run_in_stack
        threads = ThreadPoolExecutor(max_workers=self.parallel * THREADS_PER_OPERATION)
        loop.set_default_executor(threads)
        asyncio.set_event_loop(loop)
        try:
            loop.run_until_complete(run_in_stack(program))
        finally:
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.run_until_complete(asyncio.sleep(0))  # noqa: TID251  lets cancelled tasks end; waits for nothing
            threads.shutdown(wait=False, cancel_futures=True)
            loop.close()

"""The two services that a program running on the SDK talks to: the resource monitor and the engine's log.

The SDK gets them as objects in place of gRPC stubs (as its own mocks do), which saves a round trip through the
kernel per call. A call blocks one of the SDK's threads while the engine's loop works.
"""

import asyncio
import concurrent.futures
from collections.abc import Coroutine
from typing import Any, Protocol

import grpc

from hermesops.engine.embedded.protocol.opaque import Message
from hermesops.engine.embedded.run.events import Diagnostic, EventLog

FEATURES: Any = range(16)
"""The monitor's features that the recorded CLI claims: numbers 0 to 15 of the protocol's enumeration."""

LOOK_S = 1.0
"""How often a waiting thread looks whether the engine's loop still lives."""

SEVERITIES = ("debug", "info", "warning", "error")


class StoppedError(grpc.RpcError):
    """What the program sees when the engine stops: as if the monitor's server had gone."""

    def code(self) -> grpc.StatusCode:
        """Tell the SDK that no more answers come."""
        return grpc.StatusCode.UNAVAILABLE

    def details(self) -> str:
        """Say so in words."""
        return "the engine has stopped"


class Registrations(Protocol):
    """Takes what the program registers."""

    async def register(self, request: Message) -> Message:
        """Bring about one resource; answers what the program may know of it."""

    async def register_outputs(self, request: Message) -> None:
        """Store the outputs of a component or of the stack."""

    def refuse(self, what: str, where: str) -> None:
        """Note that the program asked for something that this engine does not do."""


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
            concurrent.futures.wait((pending,), timeout=LOOK_S)
            if self._loop.is_closed() and not pending.done():
                raise StoppedError  # a loop that has ended runs nothing any more; this thread would wait for ever
        return pending.result()

    def GetDeploymentInfo(self, _request: Message) -> Message:  # noqa: N802  the protocol's name
        """Tell the program where it runs."""
        from pulumi.runtime.proto import resource_pb2  # noqa: PLC0415  loads the SDK

        return resource_pb2.DeploymentInfo(**self._about, supportedFeatures=FEATURES)

    def RegisterResource(self, request: Message) -> Message:  # noqa: N802  the protocol's name
        """Bring about one resource."""
        return self._on_loop(self._taker.register(request))

    def RegisterResourceOutputs(self, request: Message) -> Message:  # noqa: N802  the protocol's name
        """Store outputs."""
        from google.protobuf.empty_pb2 import Empty  # noqa: PLC0415  loads protobuf

        self._on_loop(self._taker.register_outputs(request))
        return Empty()

    def SignalAndWaitForShutdown(self, _request: Message) -> Message:  # noqa: N802  the protocol's name
        """Let the program end; deletions do not need it."""
        from google.protobuf.empty_pb2 import Empty  # noqa: PLC0415  loads protobuf

        return Empty()

    def __getattr__(self, method: str) -> Message:
        if method.startswith("_"):
            raise AttributeError(method)

        def refuse(request: Message) -> Message:
            self._taker.refuse(CALLS.get(method, method), _where(request))
            raise StoppedError

        return refuse


CALLS = {
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


def _where(request: Message) -> str:
    for name in ("name", "tok", "type"):
        if getattr(request, name, ""):
            return str(getattr(request, name))
    return "the program"


class EngineLog:
    """The engine service: takes log lines of the program and of plugins."""

    def __init__(self, events: EventLog, loop: asyncio.AbstractEventLoop) -> None:
        self._events = events
        self._loop = loop
        self._root = ""

    def Log(self, request: Message) -> Message:  # noqa: N802  the protocol's name
        """Pass a line on; debug lines are dropped before they cost anything."""
        from google.protobuf.empty_pb2 import Empty  # noqa: PLC0415  loads protobuf

        if request.severity > 0 and not self._loop.is_closed():
            line = Diagnostic(SEVERITIES[min(request.severity, 3)], request.message, request.urn)
            self._loop.call_soon_threadsafe(self._events.tell, line)
        return Empty()

    def GetRootResource(self, _request: Message) -> Message:  # noqa: N802  the protocol's name
        """Answer what SetRootResource was told."""
        from pulumi.runtime.proto import engine_pb2  # noqa: PLC0415  loads the SDK

        return engine_pb2.GetRootResourceResponse(urn=self._root)

    def SetRootResource(self, request: Message) -> Message:  # noqa: N802  the protocol's name
        """Remember the stack's URN."""
        from pulumi.runtime.proto import engine_pb2  # noqa: PLC0415  loads the SDK

        self._root = request.urn
        return engine_pb2.SetRootResourceResponse()

    def RequirePulumiVersion(self, _request: Message) -> Message:  # noqa: N802  the protocol's name
        """Accept: the program is ours and knows what it runs on."""
        from pulumi.runtime.proto import engine_pb2  # noqa: PLC0415  loads the SDK

        return engine_pb2.RequirePulumiVersionResponse()

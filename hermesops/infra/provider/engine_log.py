"""Sends the plugin's progress to the engine, and through it to the operator.

A lost line never fails the work that it is about.
"""

from typing import cast

import grpc
from pulumi.runtime.proto import engine_pb2 as proto
from pulumi.runtime.proto import engine_pb2_grpc

from hermesops.base.network.channels import async_channel

_TIMEOUT_S = 5


class EngineLog:
    """Sends diagnostics to the engine that started this process.

    Args:
        address: Host and port of the engine; empty without a listener (until ``connect``).
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._engine: engine_pb2_grpc.EngineAsyncStub | None = None

    def connect(self, address: str) -> None:
        """Take another engine from now on; an empty address changes nothing."""
        if address and address != self._address:
            self._address, self._engine = address, None

    async def progress(self, urn: str, message: str) -> None:
        """Send a line that the next one on the same resource replaces."""
        await self._log(proto.LogRequest(severity=proto.INFO, urn=urn, message=message, ephemeral=True))

    async def debug(self, urn: str, message: str) -> None:
        """Send a line that is shown only with debug output on."""
        await self._log(proto.LogRequest(severity=proto.DEBUG, urn=urn, message=message))

    async def _log(self, line: proto.LogRequest) -> None:
        if not self._address:
            return
        if self._engine is None:
            stub = engine_pb2_grpc.EngineStub(async_channel(self._address))
            self._engine = cast("engine_pb2_grpc.EngineAsyncStub", stub)  # what a stub on such a channel is
        try:
            await self._engine.Log(line, timeout=_TIMEOUT_S)
        except grpc.RpcError:
            self._address, self._engine = "", None  # the engine is gone or does not read; the work continues

"""The edge of the plugin: whatever a call raises, the engine gets a status and one line, and nobody a stack trace."""

import inspect
import traceback
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio

from hermesops.errors import HermesError
from hermesops.provider import grpc_errors
from hermesops.provider.engine_log import EngineLog

Handler = Any
"""gRPC's record of how a method is served; it has no type of its own."""


class Edge(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]  # generic in the stubs alone
    """Stands before every method of the protocol.

    Args:
        log: Gets the stack trace of what nobody foresaw, for those who ask for debug output.
    """

    def __init__(self, log: EngineLog) -> None:
        self._log = log

    async def intercept_service(
        self, continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]], details: grpc.HandlerCallDetails
    ) -> Handler:
        """Wrap one method."""
        handler = await continuation(details)
        if handler is None or handler.unary_unary is None:
            return handler
        method, name = handler.unary_unary, details.method.rpartition("/")[2]

        async def guarded(request: Any, context: grpc_errors.Context) -> Any:  # noqa: ANN401  any message of the protocol
            try:
                answer = method(request, context)
                return await answer if inspect.isawaitable(answer) else answer
            except grpc.aio.AbortError:
                raise
            except HermesError as error:
                await grpc_errors.abort(context, error)
            except NotImplementedError:  # what the protocol's generated base class raises
                await context.abort(grpc.StatusCode.UNIMPLEMENTED, f"the justavps provider does not do {name}")
            except Exception as error:  # noqa: BLE001  the edge of the process: an engine shows what it gets
                await self._log.debug(getattr(request, "urn", ""), grpc_errors.without_secrets(traceback.format_exc()))
                await grpc_errors.abort_bug(context, error)

        return grpc.unary_unary_rpc_method_handler(guarded, handler.request_deserializer, handler.response_serializer)

"""Converts every error of a call for the engine: a status, one line for people, details, no stack trace."""

import inspect
import traceback
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import grpc
import grpc.aio
from google.protobuf import any_pb2
from pulumi.runtime.proto import provider_pb2 as proto
from pulumi.runtime.proto import status_pb2

from hermesops.errors import HermesError, RefusedError, UnavailableError, UnknownOutcomeError, UsageError
from hermesops.infra.provider import values
from hermesops.infra.provider.engine_log import EngineLog
from hermesops.infra.provider.observation import HalfMadeError, InterruptedWorkError
from hermesops.infra.provider.resource_types import ResourceType

_CODES: tuple[tuple[type[HermesError], grpc.StatusCode], ...] = (
    (InterruptedWorkError, grpc.StatusCode.CANCELLED),
    (UsageError, grpc.StatusCode.INVALID_ARGUMENT),
    (RefusedError, grpc.StatusCode.FAILED_PRECONDITION),
    (UnavailableError, grpc.StatusCode.UNAVAILABLE),
    (UnknownOutcomeError, grpc.StatusCode.UNKNOWN),
)

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


async def abort(context: Context, error: HermesError) -> None:
    """End the call with the error's line; always raises.

    Source: an engine takes UNKNOWN, INTERNAL and DATA_LOSS of an update, delete or read for a state that may be
    corrupt (recordings of CLI 3.259), so a refusal must not come as one of these.
    """
    code = next((code for kind, code in _CODES if isinstance(error, kind)), grpc.StatusCode.UNKNOWN)
    message = " ".join(error.message.split())
    await context.abort(code, f"{message} (next: {error.hint})" if error.hint else message)


async def abort_half_made(
    context: Context, error: HalfMadeError, kind: ResourceType, inputs: dict[str, object]
) -> None:
    """End the call so that the engine keeps the resource with its id and finishes it next time; always raises."""
    detail = proto.ErrorResourceInitFailed(
        id=error.observed.id,
        properties=values.write(kind.outputs(inputs, error.observed)),
        reasons=[error.message],
        inputs=values.write(inputs),
    )
    packed = any_pb2.Any()
    packed.Pack(detail)
    code = grpc.StatusCode.UNKNOWN
    status = status_pb2.Status(code=code.value[0], message=error.message, details=[packed])
    await context.abort(code, error.message, (("grpc-status-details-bin", status.SerializeToString()),))


def without_secrets(text: str) -> str:
    """Return the text without possible keys, line by line; an unforeseen error may quote anything."""
    from hermesops.vendor.justavps.errors import scrubbed  # noqa: PLC0415  loads the client, which most runs never need

    indents = [line[: len(line) - len(line.lstrip())] for line in text.splitlines()]
    if "PRIVATE KEY" in text.upper():
        return scrubbed(text)
    return "\n".join(indent + scrubbed(line) for indent, line in zip(indents, text.splitlines(), strict=True))


class ErrorInterceptor(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]  # generic in the stubs alone
    """gRPC interceptor of every method: converts its exceptions to statuses.

    Args:
        log: Receives the stack trace of an unforeseen error, as debug output.
    """

    def __init__(self, log: EngineLog) -> None:
        self._log = log

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],  # gRPC's handlers have no type
        details: grpc.HandlerCallDetails,
    ) -> Any:  # noqa: ANN401  as above
        """Wrap one method with the conversion of its errors."""
        handler = await continuation(details)
        if handler is None or handler.unary_unary is None:
            return handler
        method, name = handler.unary_unary, details.method.rpartition("/")[2]

        async def guarded(request: Any, context: Context) -> Any:  # noqa: ANN401  any message of the protocol
            try:
                answer = method(request, context)
                return await answer if inspect.isawaitable(answer) else answer
            except grpc.aio.AbortError:
                raise
            except HermesError as error:
                await abort(context, error)
            except NotImplementedError:  # what the protocol's generated base class raises
                await context.abort(grpc.StatusCode.UNIMPLEMENTED, f"the justavps provider does not do {name}")
            except Exception as error:  # noqa: BLE001  the edge of the process: an engine shows what it gets
                await self._log.debug(getattr(request, "urn", ""), without_secrets(traceback.format_exc()))
                lines = without_secrets(str(error)).splitlines()
                what = ": ".join([type(error).__name__, *lines[:1]])
                bug = f"a bug in the justavps provider: {what} (traceback: debug log)"
                await context.abort(grpc.StatusCode.INTERNAL, bug)

        return grpc.unary_unary_rpc_method_handler(guarded, handler.request_deserializer, handler.response_serializer)

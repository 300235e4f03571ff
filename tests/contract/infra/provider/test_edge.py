"""Whatever any method of the plugin raises, an engine gets a status and one line: no stack trace, no secret."""

import asyncio
import builtins
from collections.abc import AsyncIterator, Iterator
from typing import Any

import grpc
import grpc.aio
import httpx
import pytest
from google.protobuf.empty_pb2 import Empty
from pulumi.runtime.proto import plugin_pb2, provider_pb2_grpc
from pulumi.runtime.proto import provider_pb2 as proto
from pydantic import ValidationError

from hermesops import errors
from hermesops.base.waiting import WaitExpiredError
from hermesops.infra.provider.engine_log import EngineLog
from hermesops.infra.provider.grpc_errors import ErrorInterceptor
from hermesops.infra.provider.machines import Machines
from hermesops.infra.provider.observation import InterruptedWorkError
from hermesops.infra.provider.servicer import Servicer
from hermesops.vendor.justavps import errors as vendor_errors
from hermesops.vendor.justavps.wire import Machine

CANARY = "-----BEGIN OPENSSH PRIVATE KEY-----\nplanted-canary"
TOKEN = "sk_live_" + "a1" * 20
SERVICE = proto.DESCRIPTOR.services_by_name["ResourceProvider"]
REQUESTS: dict[str, Any] = {
    method.name: {"Empty": Empty, "PluginAttach": plugin_pb2.PluginAttach}.get(
        method.input_type.name, getattr(proto, method.input_type.name, None)
    )
    for method in SERVICE.methods
    if not method.server_streaming
}


def _invalid() -> ValidationError:
    try:
        Machine.model_validate({"id": 1, "ssh_key": CANARY})
    except ValidationError as error:
        return error
    raise AssertionError


OTHERWISE = (NotImplementedError, StopIteration)
"""The protocol's word for what is not done, and what Python lets no coroutine raise."""


def _unforeseen() -> Iterator[Exception]:
    for kind in vars(builtins).values():
        if isinstance(kind, type) and issubclass(kind, Exception) and not issubclass(kind, OTHERWISE):
            if issubclass(kind, UnicodeDecodeError):
                yield kind("utf-8", CANARY.encode(), 0, 1, TOKEN)
            elif issubclass(kind, UnicodeEncodeError):
                yield kind("utf-8", TOKEN, 0, 1, CANARY)
            elif issubclass(kind, UnicodeTranslateError):
                yield kind(TOKEN, 0, 1, CANARY)
            elif issubclass(kind, BaseExceptionGroup):
                yield kind(CANARY, [ValueError(TOKEN)])
            else:
                yield kind(f"{CANARY} {TOKEN}")
    yield _invalid()
    yield httpx.ReadTimeout(TOKEN)
    yield httpx.InvalidURL(CANARY)
    yield grpc.RpcError(TOKEN)
    yield asyncio.QueueEmpty(TOKEN)


class _OwnError(Exception):
    def __str__(self) -> str:
        return "\n".join(["first", "Traceback (most recent call last):", f"  {TOKEN}"])


FORESEEN: list[tuple[errors.HermesError, grpc.StatusCode]] = [
    (errors.UsageError("u", hint="do"), grpc.StatusCode.INVALID_ARGUMENT),
    (errors.RefusedError("r"), grpc.StatusCode.FAILED_PRECONDITION),
    (errors.UnavailableError("a"), grpc.StatusCode.UNAVAILABLE),
    (errors.UnknownOutcomeError("o"), grpc.StatusCode.UNKNOWN),
    (errors.PartlyDoneError("p"), grpc.StatusCode.UNKNOWN),
    (errors.HaltedError("h"), grpc.StatusCode.UNKNOWN),
    (errors.BrokenInvariantError("b"), grpc.StatusCode.UNKNOWN),
    (errors.HermesError("several\n  lines"), grpc.StatusCode.UNKNOWN),
    (InterruptedWorkError("i"), grpc.StatusCode.CANCELLED),
    (WaitExpiredError("it", 1, "nothing"), grpc.StatusCode.UNAVAILABLE),
    (vendor_errors.UnreachableError("GET /x", "no route"), grpc.StatusCode.UNAVAILABLE),
    (vendor_errors.LostChangeError("POST /x", "cut"), grpc.StatusCode.UNKNOWN),
    (vendor_errors.RateLimitedError("GET /x", "slow down", status=429), grpc.StatusCode.UNAVAILABLE),
    (vendor_errors.PaymentRequiredError("POST /x", "pay", status=402), grpc.StatusCode.FAILED_PRECONDITION),
]
UNFORESEEN = [*_unforeseen(), _OwnError()]


class Thrower(Servicer):
    """A servicer whose every method raises what it was given."""

    thrown: Exception = RuntimeError()


def _throwing(name: str) -> Any:  # noqa: ANN401  a method of the protocol
    async def method(self: Thrower, request: object, context: object) -> None:
        del request, context
        raise self.thrown

    method.__name__ = name
    return method


for _name in REQUESTS:
    setattr(Thrower, _name, _throwing(_name))


async def serving(servicer: Servicer, log: EngineLog) -> AsyncIterator[Any]:
    server = grpc.aio.server(interceptors=(ErrorInterceptor(log),))
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield provider_pb2_grpc.ResourceProviderStub(channel)
    finally:
        await server.stop(None)


class Heard(EngineLog):
    """What the engine would hear."""

    def __init__(self) -> None:
        super().__init__("")
        self.lines: list[str] = []

    async def debug(self, urn: str, message: str) -> None:
        del urn
        self.lines.append(message)


@pytest.fixture(scope="module")
def heard() -> Heard:
    return Heard()


@pytest.fixture(scope="module")
def thrower(heard: Heard) -> Thrower:
    return Thrower([], heard, asyncio.Event(), "1.2.3")


@pytest.fixture(scope="module")
async def stub(thrower: Thrower, heard: Heard) -> AsyncIterator[Any]:
    async for each in serving(thrower, heard):
        yield each


async def refused(stub: Any, method: str) -> tuple[grpc.StatusCode, str]:  # noqa: ANN401  a generated stub
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await getattr(stub, method)(REQUESTS[method]())
    return caught.value.code(), caught.value.details() or ""


@pytest.mark.parametrize("method", REQUESTS)
async def test_what_is_foreseen_keeps_its_status_and_its_line(stub: Any, thrower: Thrower, method: str) -> None:  # noqa: ANN401
    for error, code in FORESEEN:
        thrower.thrown = error
        refusal = await refused(stub, method)
        line = " ".join(error.message.split())
        assert refusal == (code, f"{line} (next: {error.hint})" if error.hint else line)


@pytest.mark.parametrize("method", REQUESTS)
async def test_what_is_not_foreseen_is_a_bug_in_one_line(
    stub: Any,  # noqa: ANN401  a generated stub
    thrower: Thrower,
    heard: Heard,
    method: str,
) -> None:
    for error in UNFORESEEN:
        thrower.thrown = error
        heard.lines.clear()
        code, output = await refused(stub, method)
        assert code == grpc.StatusCode.INTERNAL
        assert output.startswith(f"a bug in the justavps provider: {type(error).__name__}")
        assert "\n" not in output
        assert "Traceback" not in output
        assert len(heard.lines) == 1
        for text in (output, *heard.lines):
            assert TOKEN not in text
            assert "planted-canary" not in text


@pytest.mark.parametrize("method", ["Parameterize", "Invoke", "Call", "Construct"])
async def test_what_the_plugin_does_not_do_is_said(method: str) -> None:
    async for stub in serving(Servicer([], Heard(), asyncio.Event(), "1.2.3"), Heard()):
        assert await refused(stub, method) == (
            grpc.StatusCode.UNIMPLEMENTED,
            f"the justavps provider does not do {method}",
        )


async def test_nothing_is_mapped_and_attaching_is_taken() -> None:
    async for stub in serving(Servicer([], Heard(), asyncio.Event(), "1.2.3"), Heard()):
        assert await stub.GetMapping(proto.GetMappingRequest(key="terraform")) == proto.GetMappingResponse()
        assert await stub.GetMappings(proto.GetMappingsRequest(key="terraform")) == proto.GetMappingsResponse()
        assert await stub.Attach(plugin_pb2.PluginAttach(address="127.0.0.1:1")) == Empty()
        assert (await stub.GetPluginInfo(Empty())).version == "1.2.3"


class Slow(Machines):
    """A vendor that never answers."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def read(self, machine_id: str, name: str) -> None:
        del machine_id, name
        self.asked.set()
        await asyncio.Event().wait()


READ = proto.ReadRequest(urn="urn:pulumi:a::b::justavps:index:Machine::c", id="1")


async def test_a_read_ends_at_its_timeout_and_at_cancel() -> None:
    resource, stopping = Slow(), asyncio.Event()
    async for stub in serving(Servicer([resource], Heard(), stopping, "1.2.3"), Heard()):
        timed = proto.ReadRequest()
        timed.CopyFrom(READ)
        timed.timeout = 0.05
        with pytest.raises(grpc.aio.AioRpcError) as late:
            await stub.Read(timed)
        assert (late.value.code(), "within 0.05 s" in str(late.value.details())) == (grpc.StatusCode.UNAVAILABLE, True)
        resource.asked.clear()
        call = asyncio.ensure_future(stub.Read(READ))
        await resource.asked.wait()
        await stub.Cancel(Empty())
        with pytest.raises(grpc.aio.AioRpcError) as stopped:
            await call
        assert stopped.value.code() == grpc.StatusCode.CANCELLED

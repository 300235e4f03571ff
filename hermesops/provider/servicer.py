"""The provider protocol, answered: translates each call to a decision or an action on a machine.

Own servicer on the generated stubs: the SDK's experimental base class cannot report a half-made resource, drops the
old inputs, and shows operators stack traces.
"""
# ruff: noqa: N802, ARG002, D102 - the protocol names the methods and their parameters, and says what they do

import functools
import traceback
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

import grpc.aio
from google.protobuf.empty_pb2 import Empty
from pulumi.runtime.proto import plugin_pb2, provider_pb2_grpc
from pulumi.runtime.proto import provider_pb2 as proto

from hermesops.errors import HermesError, UsageError
from hermesops.provider import faults, machine, properties, values
from hermesops.provider.actions import Machines, Tell
from hermesops.provider.engine_log import EngineLog
from hermesops.provider.faults import Context
from hermesops.provider.machine import ChangeKind, Failure
from hermesops.provider.ports import HalfMadeError, Order
from hermesops.provider.schema import schema

_PLAIN = {
    ChangeKind.ADD: proto.PropertyDiff.ADD,
    ChangeKind.DELETE: proto.PropertyDiff.DELETE,
    ChangeKind.UPDATE: proto.PropertyDiff.UPDATE,
}
_REPLACING = {
    ChangeKind.ADD: proto.PropertyDiff.ADD_REPLACE,
    ChangeKind.DELETE: proto.PropertyDiff.DELETE_REPLACE,
    ChangeKind.UPDATE: proto.PropertyDiff.UPDATE_REPLACE,
}


class _Named(Protocol):
    @property
    def urn(self) -> str: ...


Request = TypeVar("Request", bound=_Named)
Answer = TypeVar("Answer")
Method = Callable[["MachineServicer", Request, Context], Awaitable[Answer]]


def _on_machines(method: Method[Request, Answer]) -> Method[Request, Answer]:
    """A method that serves machines only, and answers every failure in one line."""

    @functools.wraps(method)
    async def guarded(self: "MachineServicer", request: Request, context: Context) -> Answer:
        try:
            _refuse_other_types(request.urn)
            return await method(self, request, context)
        except grpc.aio.AbortError:
            raise
        except HermesError as error:
            await faults.abort(context, error)
        except Exception as error:  # noqa: BLE001 - the edge of the process: an engine shows what it gets
            await self.log.debug(request.urn, traceback.format_exc())
            await faults.abort_bug(context, error)
        raise AssertionError  # abort always raises

    return guarded


class MachineServicer(provider_pb2_grpc.ResourceProviderServicer):
    """Serves one engine.

    Args:
        machines: The actions; the vendor behind them is opened when the first of them needs it.
        log: Where narration goes.
        version: Of the plugin.
    """

    def __init__(self, machines: Machines, log: EngineLog, version: str) -> None:
        self.machines = machines
        self.log = log
        self.version = version

    async def Handshake(
        self, request: proto.ProviderHandshakeRequest, context: Context
    ) -> proto.ProviderHandshakeResponse:
        self.log.connect(request.engine_address)
        return proto.ProviderHandshakeResponse(accept_secrets=True, accept_resources=True)

    async def Attach(self, request: plugin_pb2.PluginAttach, context: Context) -> Empty:
        self.log.connect(request.address)
        return Empty()

    async def GetPluginInfo(self, request: Empty, context: Context) -> plugin_pb2.PluginInfo:
        return plugin_pb2.PluginInfo(version=self.version)

    async def GetSchema(self, request: proto.GetSchemaRequest, context: Context) -> proto.GetSchemaResponse:
        return proto.GetSchemaResponse(schema=schema(self.version))

    async def CheckConfig(self, request: proto.CheckRequest, context: Context) -> proto.CheckResponse:
        """Refuse every configuration: a key given here would end up in the state."""
        refused = [
            Failure(name, "the provider takes none: address and key come from hermesops' settings")
            for name in values.read(request.news)
            if name != "version"
        ]
        return proto.CheckResponse(inputs=request.news, failures=_failures(refused))

    async def DiffConfig(self, request: proto.DiffRequest, context: Context) -> proto.DiffResponse:
        return proto.DiffResponse(changes=proto.DiffResponse.DIFF_NONE, hasDetailedDiff=True)

    async def Configure(self, request: proto.ConfigureRequest, context: Context) -> proto.ConfigureResponse:
        return proto.ConfigureResponse(acceptSecrets=True, acceptResources=True, supportsPreview=True)

    @_on_machines
    async def Check(self, request: proto.CheckRequest, context: Context) -> proto.CheckResponse:
        inputs = machine.fill(values.read(request.news), request.name or request.urn.rpartition("::")[2])
        return proto.CheckResponse(inputs=values.write(inputs), failures=_failures(machine.check(inputs)))

    @_on_machines
    async def Diff(self, request: proto.DiffRequest, context: Context) -> proto.DiffResponse:
        difference = machine.compare(values.read(request.old_inputs), values.read(request.news))
        return proto.DiffResponse(
            changes=proto.DiffResponse.DIFF_SOME if difference.changes else proto.DiffResponse.DIFF_NONE,
            diffs=list(difference.changes),
            replaces=difference.replaces,
            deleteBeforeReplace=difference.deletes_first,
            detailedDiff={
                name: proto.PropertyDiff(
                    kind=_REPLACING[kind] if name in difference.replaces else _PLAIN[kind], inputDiff=True
                )
                for name, kind in difference.changes.items()
            },
            hasDetailedDiff=True,
        )

    @_on_machines
    async def Create(self, request: proto.CreateRequest, context: Context) -> proto.CreateResponse:
        inputs = values.read(request.properties)
        if request.preview:
            return proto.CreateResponse(properties=values.write(properties.expected(inputs)))
        order = Order(
            name=values.text(inputs, "name"),
            server_type=values.text(inputs, "server_type"),
            region=values.text(inputs, "region"),
            image_id=values.text(inputs, "image_id"),
        )
        try:
            made = await self.machines.create(order, timeout_s=request.timeout, tell=self._teller(request.urn))
        except HalfMadeError as error:
            await faults.abort_half_made(context, error, inputs)
            raise
        return proto.CreateResponse(id=made.id, properties=values.write(properties.outputs(inputs, made)))

    @_on_machines
    async def Update(self, request: proto.UpdateRequest, context: Context) -> proto.UpdateResponse:
        news, olds = values.read(request.news), values.read(request.olds)
        if request.preview:
            return proto.UpdateResponse(properties=values.write({**olds, **news}))
        try:
            seen = await self.machines.update(
                request.id,
                values.text(olds, "name") or values.text(news, "name"),
                values.text(news, "server_type"),
                timeout_s=request.timeout,
                tell=self._teller(request.urn),
            )
        except HalfMadeError as error:
            await faults.abort_half_made(context, error, news)
            raise
        return proto.UpdateResponse(properties=values.write(properties.outputs(news, seen)))

    @_on_machines
    async def Read(self, request: proto.ReadRequest, context: Context) -> proto.ReadResponse:
        inputs, known = values.read(request.inputs), values.read(request.properties)
        name = values.text(known, "name") or values.text(inputs, "name")
        seen = await self.machines.read(request.id, name)
        if seen is None:
            return proto.ReadResponse()
        return proto.ReadResponse(
            id=seen.id,
            inputs=values.write(properties.observed(inputs, seen)),
            properties=values.write(properties.outputs(inputs, seen)),
        )

    @_on_machines
    async def Delete(self, request: proto.DeleteRequest, context: Context) -> Empty:
        name = values.text(values.read(request.properties), "name") or values.text(
            values.read(request.old_inputs), "name"
        )
        if not name:
            raise UsageError(f"the state does not say how machine {request.id} is named, so it is left alone")
        await self.machines.delete(request.id, name)
        return Empty()

    async def Cancel(self, request: Empty, context: Context) -> Empty:
        """Begin nothing new and give up waits; an order on its way to the vendor is still answered for."""
        self.machines.stopping.set()
        return Empty()

    def _teller(self, urn: str) -> Tell:
        return functools.partial(self.log.progress, urn)


def _refuse_other_types(urn: str) -> None:
    kind = urn.split("::")[2].rpartition("$")[2] if urn.count("::") > 1 else ""
    if kind != machine.TYPE:
        raise UsageError(f"the justavps provider has no resource type {kind!r}; it has {machine.TYPE}")


def _failures(failures: list[Failure]) -> list[proto.CheckFailure]:
    return [proto.CheckFailure(property=failure.name, reason=failure.reason) for failure in failures]

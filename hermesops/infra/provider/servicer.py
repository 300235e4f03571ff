"""The provider protocol, answered: translates each call to a decision or an action.

Own servicer on the generated stubs: the SDK's experimental base class cannot report a half-made resource, drops the
old inputs, and shows operators stack traces.
"""
# ruff: noqa: N802, ARG002, D102 - the protocol names the methods and their parameters, and says what they do

import asyncio
import functools
from collections.abc import Iterable
from typing import TypeAlias

from google.protobuf.empty_pb2 import Empty
from pulumi.runtime.proto import plugin_pb2, provider_pb2_grpc
from pulumi.runtime.proto import provider_pb2 as proto

from hermesops.errors import UnavailableError, UsageError
from hermesops.infra.provider import grpc_errors, values
from hermesops.infra.provider.backoff import Reporter, unless_stopped
from hermesops.infra.provider.engine_log import EngineLog
from hermesops.infra.provider.grpc_errors import Context
from hermesops.infra.provider.images import Images
from hermesops.infra.provider.machines import Machines
from hermesops.infra.provider.observation import HalfMadeError
from hermesops.infra.provider.resource_types import ChangeKind, Failure, schema

Resource: TypeAlias = Machines | Images

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


class Servicer(provider_pb2_grpc.ResourceProviderServicer):
    """Serves one engine.

    The generated base class and ``ErrorInterceptor`` answer all other methods as not implemented.

    ``stopping`` is set by Cancel.
    """

    def __init__(self, resources: Iterable[Resource], log: EngineLog, stopping: asyncio.Event, version: str) -> None:
        self.resources = {resource.type.token: resource for resource in resources}
        self.log = log
        self.stopping = stopping
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

    async def Parameterize(self, request: proto.ParameterizeRequest, context: Context) -> proto.ParameterizeResponse:
        """Refuse: there is one package and nothing to choose about it."""
        raise NotImplementedError

    async def GetMapping(self, request: proto.GetMappingRequest, context: Context) -> proto.GetMappingResponse:
        """Answer that nothing is mapped: this package replaces no package of another tool."""
        return proto.GetMappingResponse()

    async def GetMappings(self, request: proto.GetMappingsRequest, context: Context) -> proto.GetMappingsResponse:
        """Answer without mappings, as ``GetMapping`` does."""
        return proto.GetMappingsResponse()

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

    async def Check(self, request: proto.CheckRequest, context: Context) -> proto.CheckResponse:
        kind = self._resource(request.urn).type
        inputs = kind.fill(values.read(request.news), request.name or request.urn.rpartition("::")[2])
        return proto.CheckResponse(inputs=values.write(inputs), failures=_failures(kind.check(inputs)))

    async def Diff(self, request: proto.DiffRequest, context: Context) -> proto.DiffResponse:
        kind = self._resource(request.urn).type
        difference = kind.compare(values.read(request.old_inputs), values.read(request.news))
        return proto.DiffResponse(
            changes=proto.DiffResponse.DIFF_SOME if difference.changes else proto.DiffResponse.DIFF_NONE,
            diffs=list(difference.changes),
            replaces=difference.replaces,
            deleteBeforeReplace=difference.deletes_first,
            detailedDiff={
                name: proto.PropertyDiff(
                    kind=_REPLACING[change] if name in difference.replaces else _PLAIN[change], inputDiff=True
                )
                for name, change in difference.changes.items()
            },
            hasDetailedDiff=True,
        )

    async def Create(self, request: proto.CreateRequest, context: Context) -> proto.CreateResponse:
        resource, inputs = self._resource(request.urn), values.read(request.properties)
        if request.preview:
            return proto.CreateResponse(properties=values.write(resource.type.outputs(inputs, None)))
        try:
            observed = await resource.order(inputs, timeout_s=request.timeout, report=self._reporter(request.urn))
        except HalfMadeError as error:
            await grpc_errors.abort_half_made(context, error, resource.type, inputs)
            raise
        return proto.CreateResponse(id=observed.id, properties=values.write(resource.type.outputs(inputs, observed)))

    async def Update(self, request: proto.UpdateRequest, context: Context) -> proto.UpdateResponse:
        resource = self._resource(request.urn)
        news, olds = values.read(request.news), values.read(request.olds)
        if request.preview:
            return proto.UpdateResponse(properties=values.write({**olds, **news}))
        name = values.text(olds, "name") or values.text(news, "name")
        try:
            observed = await resource.update(
                request.id, name, news, timeout_s=request.timeout, report=self._reporter(request.urn)
            )
        except HalfMadeError as error:
            await grpc_errors.abort_half_made(context, error, resource.type, news)
            raise
        return proto.UpdateResponse(properties=values.write(resource.type.outputs(news, observed)))

    async def Read(self, request: proto.ReadRequest, context: Context) -> proto.ReadResponse:
        resource = self._resource(request.urn)
        inputs, known = values.read(request.inputs), values.read(request.properties)
        name = values.text(known, "name") or values.text(inputs, "name")
        timeout_s = float(getattr(request, "timeout", 0))  # older protocols have none for reads
        try:
            async with asyncio.timeout(timeout_s or None):
                observed = await unless_stopped(
                    resource.read(request.id, name), self.stopping, f"{resource.type.noun} {request.id} was not read"
                )
        except TimeoutError as error:
            raise UnavailableError(
                f"{resource.type.noun} {request.id} was not read within {timeout_s:g} s", hint="run it again"
            ) from error
        if observed is None:
            return proto.ReadResponse()
        return proto.ReadResponse(
            id=observed.id,
            inputs=values.write(resource.type.observed(inputs, observed)),
            properties=values.write(resource.type.outputs(inputs, observed)),
        )

    async def Delete(self, request: proto.DeleteRequest, context: Context) -> Empty:
        resource = self._resource(request.urn)
        name = values.text(values.read(request.properties), "name") or values.text(
            values.read(request.old_inputs), "name"
        )
        if not name:
            raise UsageError(
                f"the state does not say how {resource.type.noun} {request.id} is named, so it is not changed"
            )
        await resource.delete(request.id, name, timeout_s=request.timeout)
        return Empty()

    async def Cancel(self, request: Empty, context: Context) -> Empty:
        """Start nothing new and end waits; an order in flight to the vendor still gets its answer."""
        self.stopping.set()
        return Empty()

    def _reporter(self, urn: str) -> Reporter:
        return functools.partial(self.log.progress, urn)

    def _resource(self, urn: str) -> Resource:
        token = urn.split("::")[2].rpartition("$")[2] if urn.count("::") > 1 else ""
        if token not in self.resources:
            raise UsageError(
                f"the justavps provider has no resource type {token!r}; it has {', '.join(self.resources)}"
            )
        return self.resources[token]


def _failures(failures: list[Failure]) -> list[proto.CheckFailure]:
    return [proto.CheckFailure(property=failure.name, reason=failure.reason) for failure in failures]

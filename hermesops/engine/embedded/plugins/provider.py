"""One configured provider: the provider protocol's calls in terms of property values.

Source: recordings, semantics §2 (which calls, in which order, with what).
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hermesops.engine.embedded.protocol import urns
from hermesops.engine.embedded.protocol.answers import (
    Difference,
    Differs,
    Found,
    Problem,
    as_variable,
    difference_of,
    marked_again,
)
from hermesops.engine.embedded.protocol.opaque import Message
from hermesops.engine.embedded.protocol.rpc import Connection, ProviderFaultError
from hermesops.engine.embedded.protocol.values import UNKNOWN, Vault, from_wire, revealed, to_wire
from hermesops.engine.embedded.state.deployment import Resource

if TYPE_CHECKING:
    import asyncio

    from google.protobuf.struct_pb2 import Struct

CLI_ONLY = "__internal"
"""A setting of provider resources that the CLI keeps for itself."""


@dataclass
class Provider:
    """A plugin process with its configuration.

    Attributes:
        urn: The provider resource's URN.
        id: The provider resource's id.
        ready: Set once the plugin has answered Configure, or failed to.
    """

    urn: str
    id: str
    connection: Connection
    vault: Vault
    engine_address: str = ""
    accepts_secrets: bool = True
    previews: bool = True
    ready: "asyncio.Future[None] | None" = None
    _handshaken: bool = field(default=False)

    def _request(self, kind: str, **fields: Message) -> Message:
        from pulumi.runtime.proto import provider_pb2  # noqa: PLC0415  loads the SDK

        return getattr(provider_pb2, f"{kind}Request")(**fields)

    def _request_about(self, urn: str, kind: str, **fields: Message) -> Message:
        """A request about what bears that URN."""
        return self._request(kind, urn=urn, name=urns.name_of(urn), type=urns.type_of(urn), **fields)

    def _request_to_change(self, old: Resource, kind: str, **fields: Message) -> Message:
        """A request about a resource that is there, with the inputs that it was given."""
        return self._request_about(old.urn, kind, id=old.id, old_inputs=self._struct(old.inputs), **fields)

    def _struct(self, properties: Mapping[str, Any], *, bare: bool = False) -> "Struct":
        return to_wire(properties, self.vault, secrets=self.accepts_secrets and not bare)

    async def handshake(self, folder: str) -> None:
        """Say who we are; plugins that do not know the call are taken as old ones."""
        request = self._request(
            "ProviderHandshake",
            engine_address=self.engine_address,
            root_directory=folder,
            program_directory=folder,
            configure_with_urn=True,
            supports_views=True,
            supports_refresh_before_update=True,
            invoke_with_preview=True,
            mapper_target=self.engine_address,
            loader_target=self.engine_address,
            resolver_target=self.engine_address,
            accepts_byte_string=True,
        )
        try:
            answer = await self.connection.call("Handshake", request)
        except ProviderFaultError as fault:
            if fault.code != "UNIMPLEMENTED":
                raise
        else:
            self.accepts_secrets = answer.accept_secrets
            self._handshaken = True
        from google.protobuf.empty_pb2 import Empty  # noqa: PLC0415  loads protobuf

        await self.connection.call("GetPluginInfo", Empty())

    async def check_config(
        self, olds: Mapping[str, Any], news: Mapping[str, Any]
    ) -> tuple[dict[str, Any], list[Problem]]:
        """Ask whether a configuration is one; it gets secrets in the clear, and the marks are put back."""
        request = self._request_about(
            self.urn,
            "Check",
            olds=self._struct(olds, bare=True),
            news=self._struct(news, bare=True),
        )
        try:
            answer = await self.connection.call("CheckConfig", request)
        except ProviderFaultError as fault:
            if fault.code != "UNIMPLEMENTED":
                raise
            return dict(news), []
        return marked_again(from_wire(answer.inputs), news), [Problem(f.property, f.reason) for f in answer.failures]

    async def diff_config(
        self, old_inputs: Mapping[str, Any], olds: Mapping[str, Any], news: Mapping[str, Any]
    ) -> Difference:
        """Ask whether a changed configuration can be taken over in place."""
        request = self._request_about(
            self.urn,
            "Diff",
            old_inputs=self._struct(old_inputs, bare=True),
            olds=self._struct(olds, bare=True),
            news=self._struct(news, bare=True),
        )
        try:
            return difference_of(await self.connection.call("DiffConfig", request))
        except ProviderFaultError as fault:
            if fault.code != "UNIMPLEMENTED":
                raise
            return Difference(Differs.UNKNOWN)

    async def configure(self, inputs: Mapping[str, Any]) -> None:
        """Give the plugin its configuration; resource calls wait for the answer."""
        package = urns.package_of(urns.type_of(self.urn))
        inputs = {key: value for key, value in inputs.items() if key != CLI_ONLY}
        plain = revealed(dict(inputs), self.vault)
        variables = {f"{package}:config:{key}": as_variable(value) for key, value in plain.items() if key != "version"}
        request = self._request_about(
            self.urn,
            "Configure",
            id=self.id or UNKNOWN,
            variables=variables,
            args=to_wire(inputs, self.vault, secrets=True),
            acceptSecrets=True,
            acceptResources=True,
            sends_old_inputs=True,
            sends_old_inputs_to_delete=True,
        )
        answer = await self.connection.call("Configure", request)
        if not self._handshaken:
            self.accepts_secrets = answer.acceptSecrets
            self.previews = answer.supportsPreview

    async def check(
        self, urn: str, olds: Mapping[str, Any], news: Mapping[str, Any]
    ) -> tuple[dict[str, Any], list[Problem]]:
        """Ask what a resource's inputs mean; the answer is what will be stored."""
        request = self._request_about(
            urn,
            "Check",
            olds=self._struct(olds),
            news=self._struct(news),
            randomSeed=secrets.token_bytes(32),
        )
        answer = await self.connection.call("Check", request)
        inputs = from_wire(answer.inputs)
        if not self.accepts_secrets:
            inputs = marked_again(inputs, news)
        return inputs, [Problem(f.property, f.reason) for f in answer.failures]

    async def diff(self, old: Resource, news: Mapping[str, Any]) -> Difference:
        """Ask what changing a resource's inputs would take."""
        request = self._request_to_change(old, "Diff", olds=self._struct(old.outputs), news=self._struct(news))
        return difference_of(await self.connection.call("Diff", request))

    async def create(self, urn: str, inputs: Mapping[str, Any], *, preview: bool) -> tuple[str, dict[str, Any]]:
        """Make a resource; in a preview only say what would come out."""
        request = self._request_about(
            urn,
            "Create",
            properties=self._struct(inputs),
            preview=preview,
        )
        answer = await self._changing("Create", request, inputs)
        return answer.id, self._outputs(answer, inputs)

    async def update(self, old: Resource, inputs: Mapping[str, Any], *, preview: bool) -> dict[str, Any]:
        """Change a resource in place."""
        request = self._request_to_change(
            old,
            "Update",
            olds=self._struct(old.outputs),
            news=self._struct(inputs),
            preview=preview,
        )
        return self._outputs(await self._changing("Update", request, inputs), inputs)

    async def look(self, old: Resource) -> Found | None:
        """Look at a resource that the state has; None when it is gone."""
        request = self._request_about(
            old.urn, "Read", id=old.id, inputs=self._struct(old.inputs), properties=self._struct(old.outputs)
        )
        return await self._found(request, old.inputs)

    async def look_up(self, urn: str, resource_id: str) -> Found | None:
        """Look at something that the state does not have, by its id alone; None when it is not there."""
        request = self._request_about(urn, "Read", id=resource_id)
        return await self._found(request, {})

    async def look_up_by_name(self, urn: str, inputs: Mapping[str, Any]) -> Found | None:
        """Find what an interrupted Create with these inputs has made; None when it made nothing.

        Asked as a Read without an id, which only plugins understand that find things by a name in their inputs.
        """
        request = self._request_about(urn, "Read", inputs=self._struct(inputs))
        return await self._found(request, inputs)

    async def _found(self, request: Message, known: Mapping[str, Any]) -> Found | None:
        try:
            answer = await self.connection.call("Read", request)
        except ProviderFaultError as fault:
            if fault.half_made is None:
                raise
            half = fault.half_made
            return Found(half.id, known, self._outputs_of(dict(half.properties), known), half.reasons)
        if not answer.id:
            return None
        inputs = from_wire(answer.inputs) if answer.HasField("inputs") else dict(known)
        if not self.accepts_secrets:
            inputs = marked_again(inputs, known)
        return Found(answer.id, inputs, self._outputs(answer, inputs))

    async def delete(self, old: Resource) -> None:
        """Destroy a resource."""
        request = self._request_to_change(old, "Delete", properties=self._struct(old.outputs))
        await self.connection.call("Delete", request)

    async def cancel(self) -> None:
        """Ask the plugin to end what it is doing."""
        from google.protobuf.empty_pb2 import Empty  # noqa: PLC0415  loads protobuf

        await self.connection.call("Cancel", Empty())

    async def _changing(self, method: str, request: Message, inputs: Mapping[str, Any]) -> Message:
        try:
            return await self.connection.call(method, request)
        except ProviderFaultError as fault:
            if fault.half_made is not None and not self.accepts_secrets:
                half = fault.half_made
                marked = marked_again(dict(half.properties), inputs)
                fault.half_made = type(half)(half.id, marked, half.reasons)
            raise

    def _outputs(self, answer: Message, inputs: Mapping[str, Any]) -> dict[str, Any]:
        return self._outputs_of(from_wire(answer.properties), inputs)

    def _outputs_of(self, outputs: dict[str, Any], inputs: Mapping[str, Any]) -> dict[str, Any]:
        return outputs if self.accepts_secrets else marked_again(outputs, inputs)

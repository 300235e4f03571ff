"""One configured provider: the provider protocol's calls in terms of property values.

Source: recordings, semantics §2 (which calls, in which order, with what).
"""

import json
import secrets
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from hermesops.infra.engine.embedded.plugins.process import PluginProcess
from hermesops.infra.engine.embedded.protocol import urns
from hermesops.infra.engine.embedded.protocol.plugin import (
    Difference,
    Differs,
    Found,
    Problem,
    ProviderFaultError,
    difference_of,
)
from hermesops.infra.engine.embedded.protocol.values import UNKNOWN, Message, from_wire, marked_again, revealed, to_wire
from hermesops.infra.engine.embedded.state.deployment import Resource
from hermesops.infra.engine.embedded.state.secrets import PassphraseVault

if TYPE_CHECKING:
    import asyncio

    from google.protobuf.struct_pb2 import Struct

CLI_ONLY = "__internal"
"""A setting of provider resources that the CLI keeps for itself."""


@dataclass
class Provider:
    """A plugin process with its configuration.

    Attributes:
        id: The provider resource's id; empty while it is not known.
        ready: Set once the plugin has answered Configure, or failed to.
    """

    urn: str
    id: str
    connection: PluginProcess
    vault: PassphraseVault
    engine_address: str = ""
    accepts_secrets: bool = True
    previews: bool = True
    ready: "asyncio.Future[None] | None" = None
    _handshaken: bool = field(default=False)

    @property
    def reference(self) -> str:
        """Name of this provider in resources' state: URN and id."""
        return urns.reference(self.urn, self.id or UNKNOWN)

    def reference_for(self, urn: str) -> str:
        """Return the provider's name in a resource's state; empty for the provider's own resource."""
        return "" if urn == self.urn else self.reference

    def _request(self, kind: str, urn: str, **fields: Message) -> Message:
        from pulumi.runtime.proto import provider_pb2  # noqa: PLC0415  loads the SDK

        request = getattr(provider_pb2, f"{kind}Request")
        return request(urn=urn, name=urns.name_of(urn), type=urns.type_of(urn), **fields)

    def _request_to_change(self, old: Resource, kind: str, **fields: Message) -> Message:
        """A request about a resource that exists, with the inputs that it was given."""
        return self._request(kind, old.urn, id=old.id, old_inputs=self._struct(old.inputs), **fields)

    def _struct(self, properties: Mapping[str, Any], *, bare: bool = False) -> "Struct":
        return to_wire(properties, self.vault, secrets=self.accepts_secrets and not bare)

    async def handshake(self, folder: str) -> None:
        """Send the handshake; plugins without that call count as old ones."""
        from google.protobuf.empty_pb2 import Empty  # noqa: PLC0415  loads protobuf
        from pulumi.runtime.proto import provider_pb2  # noqa: PLC0415  loads the SDK

        request = provider_pb2.ProviderHandshakeRequest(
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
        answer = await self._call_if_known("Handshake", request)
        if answer is not None:
            self.accepts_secrets = answer.accept_secrets
            self._handshaken = True
        await self.connection.call("GetPluginInfo", Empty())

    async def _call_if_known(self, method: str, request: Message) -> Message | None:
        """Call the plugin; None when it lacks the method."""
        try:
            return await self.connection.call(method, request)
        except ProviderFaultError as fault:
            if fault.code != "UNIMPLEMENTED":
                raise
            return None

    async def check_config(
        self, olds: Mapping[str, Any], news: Mapping[str, Any]
    ) -> tuple[dict[str, Any], list[Problem]]:
        """Check a configuration; the plugin gets secrets in the clear, and their marks are restored afterwards."""
        bare = {"olds": self._struct(olds, bare=True), "news": self._struct(news, bare=True)}
        answer = await self._call_if_known("CheckConfig", self._request("Check", self.urn, **bare))
        if answer is None:
            return dict(news), []
        return marked_again(from_wire(answer.inputs), news), [Problem(f.property, f.reason) for f in answer.failures]

    async def diff_config(self, old: Resource, news: Mapping[str, Any]) -> Difference:
        """Ask whether the changed configuration of a provider resource can be taken over in place."""
        sent = {"old_inputs": old.inputs, "olds": old.outputs, "news": news}
        bare = {name: self._struct(properties, bare=True) for name, properties in sent.items()}
        answer = await self._call_if_known("DiffConfig", self._request("Diff", self.urn, **bare))
        return Difference(Differs.UNKNOWN) if answer is None else difference_of(answer)

    async def configure(self, inputs: Mapping[str, Any]) -> None:
        """Give the plugin its configuration; resource calls wait for the answer."""
        package = urns.package_of(urns.type_of(self.urn))
        inputs = {key: value for key, value in inputs.items() if key != CLI_ONLY}
        variables = {
            f"{package}:config:{key}": value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
            for key, value in revealed(dict(inputs), self.vault).items()
            if key != "version"
        }
        request = self._request(
            "Configure",
            self.urn,
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
        """Validate a resource's inputs and fill in defaults; returns the inputs to store."""
        request = self._request(
            "Check", urn, olds=self._struct(olds), news=self._struct(news), randomSeed=secrets.token_bytes(32)
        )
        answer = await self.connection.call("Check", request)
        inputs = self._marked(from_wire(answer.inputs), news)
        return inputs, [Problem(f.property, f.reason) for f in answer.failures]

    async def diff(self, old: Resource, news: Mapping[str, Any]) -> Difference:
        """Compare a resource's stored inputs with new ones."""
        request = self._request_to_change(old, "Diff", olds=self._struct(old.outputs), news=self._struct(news))
        return difference_of(await self.connection.call("Diff", request))

    async def create(self, urn: str, inputs: Mapping[str, Any], *, preview: bool) -> tuple[str, dict[str, Any]]:
        """Make a resource, or in a preview predict its outputs. Returns id and outputs.

        The provider's own resource needs no call: it gets an id, and its outputs are its inputs.
        """
        if urn == self.urn:
            return UNKNOWN if preview else str(uuid.uuid4()), dict(inputs)
        if preview and not self.previews:
            return "", dict(inputs)
        request = self._request("Create", urn, properties=self._struct(inputs), preview=preview)
        answer = await self._changed("Create", request, inputs)
        return answer.id, self._marked(from_wire(answer.properties), inputs)

    async def update(self, old: Resource, inputs: Mapping[str, Any], *, preview: bool) -> dict[str, Any]:
        """Change a resource in place; answers the outputs. See ``create``."""
        if old.urn == self.urn or (preview and not self.previews):
            return dict(inputs)
        request = self._request_to_change(
            old, "Update", olds=self._struct(old.outputs), news=self._struct(inputs), preview=preview
        )
        answer = await self._changed("Update", request, inputs)
        return self._marked(from_wire(answer.properties), inputs)

    async def _changed(self, method: str, request: Message, inputs: Mapping[str, Any]) -> Message:
        try:
            return await self.connection.call(method, request)
        except ProviderFaultError as fault:
            if half := fault.half_made:
                fault.half_made = replace(half, properties=self._marked(dict(half.properties), inputs))
            raise

    async def read(self, old: Resource) -> Found | None:
        """Read a resource that the state has; None when it is gone."""
        request = self._request(
            "Read", old.urn, id=old.id, inputs=self._struct(old.inputs), properties=self._struct(old.outputs)
        )
        return await self._found(request, old.inputs)

    async def read_id(self, urn: str, resource_id: str) -> Found | None:
        """Read something that the state does not have, by its id alone; None when it does not exist."""
        return await self._found(self._request("Read", urn, id=resource_id), {})

    async def find_by_name(self, urn: str, inputs: Mapping[str, Any]) -> Found | None:
        """Find the resource that an interrupted Create with these inputs has made; ``None`` if it made none.

        Asked as a Read without an id, which only plugins understand that find things by a name in their inputs.
        """
        return await self._found(self._request("Read", urn, inputs=self._struct(inputs)), inputs)

    async def _found(self, request: Message, known: Mapping[str, Any]) -> Found | None:
        try:
            answer = await self.connection.call("Read", request)
        except ProviderFaultError as fault:
            half = fault.half_made
            if half is None:
                raise
            return Found(half.id, known, self._marked(dict(half.properties), known), half.reasons)
        if not answer.id:
            return None
        inputs = self._marked(from_wire(answer.inputs), known) if answer.HasField("inputs") else dict(known)
        return Found(answer.id, inputs, self._marked(from_wire(answer.properties), inputs))

    async def delete(self, old: Resource) -> None:
        """Destroy a resource at its provider."""
        request = self._request_to_change(old, "Delete", properties=self._struct(old.outputs))
        await self.connection.call("Delete", request)

    async def cancel(self) -> None:
        """Ask the plugin to stop the calls in flight."""
        from google.protobuf.empty_pb2 import Empty  # noqa: PLC0415  loads protobuf

        await self.connection.call("Cancel", Empty())

    def _marked(self, answer: dict[str, Any], sent: Mapping[str, Any]) -> dict[str, Any]:
        """Put secret marks back where the plugin does not keep them."""
        return answer if self.accepts_secrets else marked_again(answer, sent)

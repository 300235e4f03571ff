"""The desired state of a resource, read from its registration. Pure but for protobuf.

Every option that this engine does not honour is refused here, by name, before anything is called.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hermesops.infra.engine.embedded.protocol import urns
from hermesops.infra.engine.embedded.protocol.values import Message, Property, from_wire, has_asset
from hermesops.infra.engine.embedded.state.deployment import Resource
from hermesops.infra.engine.options import UnsupportedByEmbeddedError
from hermesops.model.stack import StackRef

REFUSED = {
    "remote": "remote components",
    "ignoreChanges": "ignore_changes",
    "replaceOnChanges": "replace_on_changes",
    "retainOnDelete": "retain_on_delete",
    "deletedWith": "deleted_with",
    "replace_with": "replace_with",
    "aliasURNs": "aliases",
    "aliases": "aliases",
    "version": "a version of the provider plugin",
    "pluginDownloadURL": "a plugin download URL",
    "packageRef": "parameterised packages",
    "transforms": "transforms",
    "hideDiffs": "hide_diffs",
    "envVarMappings": "environment mappings of a provider",
    "state_migrations": "state migrations",
}
HOOKS = (*(f"{when}_{what}" for what in ("create", "update", "delete") for when in ("before", "after")), "on_error")


@dataclass(frozen=True)
class Goal:
    """Desired resource, as registered by the program.

    Attributes:
        properties: Properties exactly as the program passed them.
        delete_first: The program's delete-before-replace; None leaves it to the provider.
        import_id: Id of an existing resource to take over; empty for none.
    """

    urn: str
    type: str
    name: str
    custom: bool
    parent: str = ""
    properties: Mapping[str, Any] = field(default_factory=dict)
    dependencies: tuple[str, ...] = ()
    property_dependencies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    protect: bool = False
    provider: str = ""
    delete_first: bool | None = None
    additional_secret_outputs: tuple[str, ...] = ()
    import_id: str = ""

    def resource(self, **more: Property) -> Resource:
        """The resource as the state would have it."""
        return Resource(
            urn=self.urn,
            type=self.type,
            custom=self.custom,
            parent=self.parent,
            dependencies=self.dependencies,
            property_dependencies=self.property_dependencies,
            protect=self.protect,
            additional_secret_outputs=self.additional_secret_outputs,
            import_id=self.import_id,
            **more,
        )


def goal_of(ref: StackRef, request: Message) -> Goal:
    """Read a RegisterResourceRequest.

    Raises:
        UnsupportedByEmbeddedError: It has an option that only the CLI supports.
    """
    urn = urns.urn_of(ref, request.type, request.name, request.parent)
    _refuse(urn, request)
    properties = from_wire(request.object)
    if has_asset(properties):
        raise UnsupportedByEmbeddedError("assets and archives as properties", urn)
    return Goal(
        urn=urn,
        type=request.type,
        name=request.name,
        custom=request.custom,
        parent=request.parent,
        properties=properties,
        dependencies=tuple(request.dependencies),
        property_dependencies={k: tuple(v.urns) for k, v in request.propertyDependencies.items()},
        protect=request.protect,
        provider=request.provider,
        delete_first=request.deleteBeforeReplace if request.deleteBeforeReplaceDefined else None,
        additional_secret_outputs=tuple(request.additionalSecretOutputs),
        import_id=request.importId,
    )


def _refuse(urn: str, request: Message) -> None:
    for name, meaning in REFUSED.items():
        if getattr(request, name):
            raise UnsupportedByEmbeddedError(meaning, urn)
    if request.HasField("replacement_trigger"):
        raise UnsupportedByEmbeddedError("replacement_trigger", urn)
    limits = request.customTimeouts
    if request.HasField("customTimeouts") and (limits.create or limits.update or limits.delete or limits.read):
        raise UnsupportedByEmbeddedError("custom_timeouts", urn)
    if any(getattr(request.hooks, name) for name in HOOKS):
        raise UnsupportedByEmbeddedError("resource hooks", urn)

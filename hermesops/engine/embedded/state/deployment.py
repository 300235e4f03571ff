"""What a stack's state says: resources and operations begun. Pulumi's deployment format, version 3. Pure.

Source: recordings, semantics §4; fields that only describe source code (positions, stack traces) are not kept.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hermesops.engine.embedded.protocol.values import Vault, from_state, to_state
from hermesops.engine.embedded.unsupported import UnsupportedByEmbeddedError

WRITTEN_AS = "v3.259.0"
"""The CLI release whose recordings define this format; an import elsewhere checks it by its hash."""

OTHER_ENGINES_ONLY = {
    "retainOnDelete": "retain_on_delete",
    "deletedWith": "deleted_with",
    "external": "resources that are only read (get)",
    "viewOf": "view resources",
    "replaceWith": "replace_with",
}
"""Flags of the state that change what a deletion means; ignoring one could destroy something."""

KNOWN = {
    "urn", "custom", "delete", "id", "type", "inputs", "outputs", "parent", "protect", "dependencies", "initErrors",
    "provider", "propertyDependencies", "pendingReplacement", "additionalSecretOutputs", "importID", "created",
    "modified",
    "sourcePosition", "sourcePositions", "stackTrace",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Resource:
    """One resource as the state has it; never changed, only replaced by another.

    Attributes:
        import_id: The id that the program says it was imported by, as long as it says so.
    """

    urn: str
    type: str
    custom: bool = False
    id: str = ""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    outputs: Mapping[str, Any] = field(default_factory=dict)
    parent: str = ""
    provider: str = ""
    dependencies: tuple[str, ...] = ()
    property_dependencies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    protect: bool = False
    delete: bool = False
    pending_replacement: bool = False
    init_errors: tuple[str, ...] = ()
    additional_secret_outputs: tuple[str, ...] = ()
    import_id: str = ""
    created: str = ""
    modified: str = ""
    other: Mapping[str, Any] = field(default_factory=dict)

    def needs(self) -> set[str]:
        """URNs that must exist as long as this one does."""
        urns = {self.parent, self.provider.rpartition("::")[0], *self.dependencies}
        for names in self.property_dependencies.values():
            urns.update(names)
        urns.discard("")
        return urns


def differs(old: Resource, new: Resource) -> bool:
    """Whether anything that the state stores differs, apart from times."""
    return _stored(old) != _stored(new)


def _stored(resource: Resource) -> tuple[Any, ...]:
    return (
        resource.urn,
        resource.type,
        resource.custom,
        resource.id,
        dict(resource.inputs),
        dict(resource.outputs),
        resource.parent,
        resource.provider,
        set(resource.dependencies),
        {key: set(value) for key, value in resource.property_dependencies.items()},
        resource.protect,
        resource.delete,
        resource.pending_replacement,
        resource.init_errors,
        set(resource.additional_secret_outputs),
        resource.import_id,
    )


@dataclass(frozen=True)
class Operation:
    """Something begun and not known to have ended: ``creating``, ``updating``, ``deleting`` …."""

    kind: str
    resource: Resource


@dataclass(frozen=True)
class Deployment:
    """A stack's whole state."""

    resources: tuple[Resource, ...] = ()
    pending: tuple[Operation, ...] = ()
    secrets_provider: Mapping[str, Any] | None = None


def resource_from_doc(doc: Mapping[str, Any]) -> Resource:
    """Read one resource.

    Raises:
        UnsupportedByEmbeddedError: It carries a flag that this engine does not honour.
        KeyError, TypeError: It is not a resource.
    """
    for key, meaning in OTHER_ENGINES_ONLY.items():
        if doc.get(key):
            raise UnsupportedByEmbeddedError(meaning, doc["urn"])
    return Resource(
        urn=doc["urn"],
        type=doc["type"],
        custom=bool(doc.get("custom")),
        id=doc.get("id", ""),
        inputs=from_state(doc.get("inputs") or {}),
        outputs=from_state(doc.get("outputs") or {}),
        parent=doc.get("parent", ""),
        provider=doc.get("provider", ""),
        dependencies=tuple(doc.get("dependencies") or ()),
        property_dependencies={k: tuple(v or ()) for k, v in (doc.get("propertyDependencies") or {}).items()},
        protect=bool(doc.get("protect")),
        delete=bool(doc.get("delete")),
        pending_replacement=bool(doc.get("pendingReplacement")),
        init_errors=tuple(doc.get("initErrors") or ()),
        additional_secret_outputs=tuple(doc.get("additionalSecretOutputs") or ()),
        import_id=doc.get("importID", ""),
        created=doc.get("created", ""),
        modified=doc.get("modified", ""),
        other={k: v for k, v in doc.items() if k not in KNOWN},
    )


def resource_to_doc(resource: Resource, vault: Vault) -> dict[str, Any]:
    """Write one resource; what is empty is left out, as the CLI does."""
    doc: dict[str, Any] = {
        "urn": resource.urn,
        "custom": resource.custom,
        "delete": resource.delete,
        "id": resource.id,
        "type": resource.type,
        "inputs": to_state(dict(resource.inputs), vault),
        "outputs": to_state(dict(resource.outputs), vault),
        "parent": resource.parent,
        "protect": resource.protect,
        "dependencies": list(resource.dependencies),
        "initErrors": list(resource.init_errors),
        "provider": resource.provider,
        "propertyDependencies": {k: list(v) for k, v in resource.property_dependencies.items()},
        "pendingReplacement": resource.pending_replacement,
        "additionalSecretOutputs": list(resource.additional_secret_outputs),
        "importID": resource.import_id,
        **resource.other,
        "created": resource.created,
        "modified": resource.modified,
    }
    return {key: value for key, value in doc.items() if value or key == "custom"}


def deployment_from_doc(latest: Mapping[str, Any]) -> Deployment:
    """Read ``checkpoint.latest`` of a state file.

    Raises:
        KeyError, TypeError, ValueError: It is not a deployment.
    """
    return Deployment(
        resources=tuple(resource_from_doc(doc) for doc in latest.get("resources") or ()),
        pending=tuple(
            Operation(doc["type"], resource_from_doc(doc["resource"])) for doc in latest.get("pending_operations") or ()
        ),
        secrets_provider=latest.get("secrets_providers"),
    )


def latest_doc(
    resources: list[dict[str, Any]],
    pending: list[dict[str, Any]],
    *,
    secrets_provider: Mapping[str, Any] | None,
    at: str,
) -> dict[str, Any]:
    """Put ``checkpoint.latest`` together from resources that are already written out."""
    magic = hashlib.sha256(WRITTEN_AS.encode()).hexdigest()
    latest: dict[str, Any] = {"manifest": {"time": at, "magic": magic, "version": WRITTEN_AS}}
    if secrets_provider:
        latest["secrets_providers"] = dict(secrets_provider)
    if resources:
        latest["resources"] = resources
    if pending:
        latest["pending_operations"] = pending
    latest["metadata"] = {}
    return latest

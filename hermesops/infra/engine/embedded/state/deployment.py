"""The state of a stack: resources and pending operations, in Pulumi's deployment format, version 3; its checks.

Source: recordings, semantics §4; fields that only describe source code (positions, stack traces) are not kept.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from hermesops.infra.engine.embedded.protocol import urns
from hermesops.infra.engine.embedded.protocol.values import from_state, to_state
from hermesops.infra.engine.embedded.state.secrets import PassphraseVault
from hermesops.infra.engine.options import UnsupportedByEmbeddedError
from hermesops.model.stack import StackRef

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
        import_id: Id of the import, as long as the program names it.
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

    @property
    def is_external(self) -> bool:
        """True if the resource exists outside the state: not for components and providers."""
        return self.custom and not urns.is_provider(self.type)

    def needs(self) -> set[str]:
        """URNs that must exist as long as this one does."""
        needed = {self.parent, self.provider.rpartition("::")[0], *self.dependencies}
        return needed.union(*self.property_dependencies.values()) - {""}


def differs(old: Resource, new: Resource) -> bool:
    """Return whether stored fields differ, apart from times and the order of lists that are sets."""
    return _stored(old) != _stored(new)


def _stored(resource: Resource) -> dict[str, Any]:
    return {
        **vars(replace(resource, created="", modified="", other={})),
        "inputs": dict(resource.inputs),
        "outputs": dict(resource.outputs),
        "dependencies": set(resource.dependencies),
        "property_dependencies": {key: set(value) for key, value in resource.property_dependencies.items()},
        "additional_secret_outputs": set(resource.additional_secret_outputs),
    }


@dataclass(frozen=True)
class Operation:
    """Something begun and not known to have ended: ``creating``, ``updating``, ``deleting`` …."""

    kind: str
    resource: Resource


@dataclass(frozen=True)
class Deployment:
    """The whole state of one stack."""

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


def resource_to_doc(resource: Resource, vault: PassphraseVault) -> dict[str, Any]:
    """Write one resource without empty fields, as the CLI does."""
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


def forgeries(ref: StackRef, latest: Mapping[str, Any]) -> list[str]:
    """Return signs that a state is not this stack's own: another stack's, or edited without its checksum.

    Source: the checks of the CLI's ``stack import`` and of its snapshots, recordings ``export_import:8-15``.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: The document has not even the form of a state.
    """
    manifest = latest.get("manifest") or {}
    problems = []
    if manifest and manifest["magic"] != hashlib.sha256(manifest["version"].encode()).hexdigest():
        problems.append("its magic is not that of its version")
    prefix = f"urn:pulumi:{ref.stack}::{ref.project}::"
    pending = [operation["resource"] for operation in _listed(latest, "pending_operations")]
    both = [*_listed(latest, "resources"), *pending]
    problems += [f"{r['urn']} does not name a {r['type']}" for r in both if urns.type_of(r["urn"]) != r["type"]]
    strangers = [r["urn"] for r in both if not r["urn"].startswith(prefix)]
    if strangers:
        more = f" and {len(strangers) - 1} more" if len(strangers) > 1 else ""
        problems.append(f"{strangers[0]}{more} belong to another stack than {ref.project}/{ref.stack}")
    return problems


def _listed(latest: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    listed = latest.get(key, [])
    if not isinstance(listed, list):
        raise TypeError(f"its {key} are no list")
    return listed


def flaws(ref: StackRef, latest: Mapping[str, Any]) -> list[str]:
    """Return all reasons for which a state must not replace another one; see ``forgeries``."""
    return [*forgeries(ref, latest), *_dangling(latest.get("resources") or ())]


def _dangling(resources: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    known: set[str] = set()
    for resource in resources:
        urn = resource["urn"]
        for what, needed in _needs(resource):
            if needed not in known:
                yield f"{urn}: its {what} {needed} is missing before it"
        if urn in known and not resource.get("delete"):
            yield f"{urn} is there twice"
        known.add(urn)


def _needs(resource: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if resource.get("parent"):
        yield "parent", resource["parent"]
    if resource.get("provider"):
        yield "provider", resource["provider"].rpartition("::")[0]
    for dependency in resource.get("dependencies") or ():
        yield "dependency", dependency


def now() -> str:
    """The present moment as the state writes it: UTC, RFC 3339 with microseconds."""
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")

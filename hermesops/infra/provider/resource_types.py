"""The resource types ``justavps:index:Machine`` and ``justavps:index:Image``: properties, changes, the schema.

Pure: no clock, no network, no protobuf.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from hermesops.infra.provider.observation import Observed
from hermesops.infra.provider.values import UNKNOWN, unwrap
from hermesops.model.ids import is_machine_name, platform_machine_name


@dataclass(frozen=True)
class Property:
    """One property of a resource.

    Attributes:
        required: True if Check refuses its absence.
        replaces: True if the vendor cannot change it: a change replaces the resource.
        at_order: True if it is sent once, with the order: the vendor does not report it, and a change has no effect.
    """

    name: str
    description: str
    required: bool = False
    replaces: bool = False
    at_order: bool = False


@dataclass(frozen=True)
class Failure:
    """An input that cannot be: which, and why."""

    name: str
    reason: str


class ChangeKind(StrEnum):
    """Kind of difference of one property."""

    ADD = "add"
    DELETE = "delete"
    UPDATE = "update"


@dataclass(frozen=True)
class Difference:
    """Differences between two sets of inputs.

    Attributes:
        changes: Kind of difference, by property.
        replaces: The properties that no update can change.
    """

    changes: Mapping[str, ChangeKind]
    replaces: tuple[str, ...]

    @property
    def deletes_first(self) -> bool:
        """True if the old resource must be deleted before the new one is ordered.

        Orders are found again by their name: while a resource of that name exists, an order adopts it.
        """
        return bool(self.replaces) and "name" not in self.changes


@dataclass(frozen=True)
class ResourceType:
    """A resource type. Each has an input ``name``, by which a lost order is found again.

    Attributes:
        noun: What one is called in errors.
        is_name: Whether a text can be the name of one.
        name_form: How such a name looks, for people.
    """

    token: str
    noun: str
    description: str
    inputs: tuple[Property, ...]
    computed: tuple[Property, ...]
    is_name: Callable[[str], bool]
    name_form: str

    def fill(self, news: Mapping[str, object], resource_name: str) -> dict[str, object]:
        """Add defaults to the inputs that the program left out; marks of secrets are kept."""
        return {"name": resource_name, **news}

    def check(self, inputs: Mapping[str, object]) -> list[Failure]:
        """Validate filled inputs offline: the vendor's own lists are not asked. Returns the problems."""
        known = {p.name for p in self.inputs}
        failures = [
            Failure(name, f"no such property; one of type {self.token} has {', '.join(sorted(known))}")
            for name in inputs
            if name not in known
        ]
        for property_ in self.inputs:
            value = unwrap(inputs.get(property_.name))
            if value is None:
                if property_.required:
                    failures.append(Failure(property_.name, f"is missing: {property_.description}"))
            elif not isinstance(value, str) or not value.strip():
                failures.append(Failure(property_.name, "must be a text that is not empty"))
            elif property_.name == "name" and value != UNKNOWN and not self.is_name(value):
                failures.append(Failure("name", f"{value!r} is not of the form {self.name_form}"))
        return failures

    def compare(self, old: Mapping[str, object], new: Mapping[str, object]) -> Difference:
        """Compare the inputs of the state with new ones; an unknown differs from everything."""
        changes: dict[str, ChangeKind] = {}
        for item in self.inputs:
            before, after = unwrap(old.get(item.name)), unwrap(new.get(item.name))
            if item.at_order or (before == after and after != UNKNOWN):
                continue
            changes[item.name] = (
                ChangeKind.ADD if before is None else ChangeKind.DELETE if after is None else ChangeKind.UPDATE
            )
        return Difference(changes, tuple(p.name for p in self.inputs if p.replaces and p.name in changes))

    def outputs(self, inputs: Mapping[str, object], observed: Observed | None) -> dict[str, object]:
        """Return outputs of an existing resource, or of a preview's order: the vendor's values, else the inputs."""
        if observed is None:
            return {**inputs, **{p.name: UNKNOWN for p in self.computed}}
        return {**self.observed(inputs, observed), **{p.name: str(getattr(observed, p.name)) for p in self.computed}}

    def observed(self, inputs: Mapping[str, object], described: Observed) -> dict[str, object]:
        """Return inputs with the vendor's actual values; an unchanged one keeps its mark of a secret."""
        real = {p.name: str(getattr(described, p.name)) for p in self.inputs if not p.at_order}
        changed = {name: value for name, value in real.items() if value and unwrap(inputs.get(name)) != value}
        return {**inputs, **changed}


def _is_our_machine_name(name: str) -> bool:
    environment = "".join(name.split("-")[1:2])
    return bool(environment) and (is_machine_name(name, environment) or name == platform_machine_name(environment))


MACHINE = ResourceType(
    token="justavps:index:Machine",  # noqa: S106 - of a type, no secret
    noun="machine",
    description="A rented virtual server; billing starts when it is created.",
    inputs=(
        Property("name", "Name in the vendor's list; the resource's own name if left out. Unique.", replaces=True),
        Property("region", "Where it is rented, as hel1.", required=True, replaces=True),
        Property("image_id", "Image it boots from; the vendor's own base if left out.", replaces=True),
        Property("server_type", "Size that is rented, as starter. A change resizes and reboots it.", required=True),
        Property("data_gb", "Gigabytes of its data volume, told to it when it is ordered.", at_order=True),
    ),
    computed=(
        Property("slug", "The vendor's short name of it, part of its proxy host names."),
        Property("status", "The vendor's word for its state when it was last observed."),
        Property("ip", "Its public address; empty while there is none."),
        Property("port_template", "Proxy URL of a port of it, with {port} in place of the number."),
        Property("created_at", "When the vendor accepted the order."),
    ),
    is_name=_is_our_machine_name,
    name_form="hermes-<environment>-<cell>-<12 hex digits>, or hermes-<environment>-platform",
)

_IMAGE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")

IMAGE = ResourceType(
    token="justavps:index:Image",  # noqa: S106 - as above
    noun="image",
    description="A disk saved of a machine as of one instant; machines boot from it. It outlives its machine.",
    inputs=(
        Property("name", "Name in the vendor's list; the resource's own name if left out. Unique.", replaces=True),
        Property("machine_id", "The ready machine whose disk is saved.", required=True, replaces=True),
    ),
    computed=(
        Property("status", "The vendor's word for its state when it was last observed."),
        Property("created_at", "When the vendor began to save it."),
    ),
    is_name=lambda name: _IMAGE_NAME.fullmatch(name) is not None,
    name_form="letters, digits, dots, dashes and underscores, 100 at most",
)


def schema(version: str) -> str:
    """The package's schema as JSON, for ``pulumi package get-schema`` and generated SDKs.

    Source: https://www.pulumi.com/docs/iac/extending-pulumi/schema/ (2026-08).
    """
    return json.dumps(
        {
            "name": "justavps",
            "version": version,
            "displayName": "JustAVPS",
            "description": "Machines rented from JustAVPS, and images of them.",
            "publisher": "hermesops",
            "license": "Apache-2.0",
            "config": {},
            "provider": {"description": "Talks to the API that hermesops' settings name; takes no configuration."},
            "resources": {kind.token: _resource_schema(kind) for kind in (MACHINE, IMAGE)},
        },
        indent=2,
    )


def _resource_schema(kind: ResourceType) -> dict[str, object]:
    outputs = (*kind.inputs, *kind.computed)
    optional = {p.name for p in kind.inputs if not p.required and p.name != "name"}
    return {
        "description": kind.description,
        "properties": _properties(outputs),
        "required": sorted(p.name for p in outputs if p.name not in optional),
        "inputProperties": _properties(kind.inputs),
        "requiredInputs": sorted(p.name for p in kind.inputs if p.required),
    }


def _properties(properties: Iterable[Property]) -> dict[str, object]:
    return {
        p.name: {
            "type": "string",
            "description": p.description,
            **({"willReplaceOnChanges": True} if p.replaces else {}),
        }
        for p in properties
    }

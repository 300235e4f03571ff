"""What the resource ``justavps:index:Machine`` is made of, and what a change to it means.

Pure: no clock, no network, no protobuf.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from hermesops.model.ids import is_machine_name
from hermesops.provider.values import UNKNOWN, unwrap, unwrap_all

TYPE = "justavps:index:Machine"
"""Pulumi's type token."""


@dataclass(frozen=True)
class Property:
    """One property of the resource.

    Attributes:
        required: Check refuses its absence.
        replaces: The vendor cannot change it on a machine: a change means another machine.
    """

    name: str
    description: str
    required: bool = False
    replaces: bool = False


INPUTS = (
    Property("name", "Name in the vendor's list; the resource's own name if left out. Unique.", replaces=True),
    Property("region", "Where it is rented, as hel1.", required=True, replaces=True),
    Property("image_id", "Image it boots from; the vendor's own base if left out.", replaces=True),
    Property("server_type", "Size that is rented, as starter. A change resizes and reboots it.", required=True),
)

COMPUTED = (
    Property("slug", "The vendor's short name of it, part of its proxy host names."),
    Property("status", "The vendor's word for its state when it was last looked at."),
    Property("ip", "Its public address; empty while there is none."),
    Property("port_template", "Proxy URL of a port of it, with {port} in place of the number."),
    Property("created_at", "When the vendor accepted the order."),
)


@dataclass(frozen=True)
class Failure:
    """An input that cannot be: which, and why."""

    name: str
    reason: str


class ChangeKind(StrEnum):
    """How one property differs."""

    ADD = "add"
    DELETE = "delete"
    UPDATE = "update"


@dataclass(frozen=True)
class Difference:
    """What differs between two sets of inputs.

    Attributes:
        changes: How, by property.
        replaces: The properties that no update can change.
    """

    changes: Mapping[str, ChangeKind]
    replaces: tuple[str, ...]

    @property
    def deletes_first(self) -> bool:
        """Whether the old machine must go before the new one is ordered.

        Orders are found again by their name: while a machine of that name is alive, an order adopts it.
        """
        return bool(self.replaces) and "name" not in self.changes


def fill(news: Mapping[str, object], resource_name: str) -> dict[str, object]:
    """The inputs with defaults in place of what the program left out; marks of secrets are kept."""
    return {"name": resource_name, **news}


def check(inputs: Mapping[str, object]) -> list[Failure]:
    """What is wrong with filled inputs, offline: the vendor's own lists are not asked."""
    known = {p.name for p in INPUTS}
    failures = [
        Failure(name, f"no such property; a machine has {', '.join(sorted(known))}")
        for name in inputs
        if name not in known
    ]
    for wanted in INPUTS:
        value = unwrap(inputs.get(wanted.name))
        if value is None:
            if wanted.required:
                failures.append(Failure(wanted.name, f"is missing: {wanted.description}"))
        elif not isinstance(value, str) or not value.strip():
            failures.append(Failure(wanted.name, "must be a text that is not empty"))
        elif wanted.name == "name" and value != UNKNOWN and not _is_ours(value):
            failures.append(
                Failure("name", f"{value!r} is not of the form hermes-<environment>-<cell>-<12 hex digits>")
            )
    return failures


def compare(old: Mapping[str, object], new: Mapping[str, object]) -> Difference:
    """What differs between the inputs in the state and those wanted; an unknown differs from everything."""
    old, new = unwrap_all(old), unwrap_all(new)
    changes: dict[str, ChangeKind] = {}
    for item in INPUTS:
        before, after = old.get(item.name), new.get(item.name)
        if before == after and after != UNKNOWN:
            continue
        changes[item.name] = (
            ChangeKind.ADD if before is None else ChangeKind.DELETE if after is None else ChangeKind.UPDATE
        )
    return Difference(changes, tuple(p.name for p in INPUTS if p.replaces and p.name in changes))


def _is_ours(name: str) -> bool:
    environment = name.split("-")[1:2]
    return bool(environment) and is_machine_name(name, environment[0])

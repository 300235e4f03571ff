"""What a resource type of ours is made of, and what a change to one means.

Pure: no clock, no network, no protobuf.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from hermesops.provider.values import UNKNOWN, unwrap, unwrap_all


@dataclass(frozen=True)
class Property:
    """One property of a resource.

    Attributes:
        required: Check refuses its absence.
        replaces: The vendor cannot change it: a change means another one of the resource.
        at_order: Said once, to what is being made; the vendor does not tell it, and a change means nothing.
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
        """Whether the old one must go before the new one is ordered.

        Orders are found again by their name: while one of that name is alive, an order adopts it.
        """
        return bool(self.replaces) and "name" not in self.changes


@dataclass(frozen=True)
class Kind:
    """A resource type. Each has an input ``name``, by which a lost order is found again.

    Attributes:
        type: Pulumi's type token.
        noun: What one is called in errors.
        description: For the schema.
        computed: What only the vendor knows.
        is_name: Whether a text can be the name of one.
        name_form: How such a name looks, for people.
    """

    type: str
    noun: str
    description: str
    inputs: tuple[Property, ...]
    computed: tuple[Property, ...]
    is_name: Callable[[str], bool]
    name_form: str

    def fill(self, news: Mapping[str, object], resource_name: str) -> dict[str, object]:
        """The inputs with defaults in place of what the program left out; marks of secrets are kept."""
        return {"name": resource_name, **news}

    def check(self, inputs: Mapping[str, object]) -> list[Failure]:
        """What is wrong with filled inputs, offline: the vendor's own lists are not asked."""
        known = {p.name for p in self.inputs}
        failures = [
            Failure(name, f"no such property; one of type {self.type} has {', '.join(sorted(known))}")
            for name in inputs
            if name not in known
        ]
        for wanted in self.inputs:
            value = unwrap(inputs.get(wanted.name))
            if value is None:
                if wanted.required:
                    failures.append(Failure(wanted.name, f"is missing: {wanted.description}"))
            elif not isinstance(value, str) or not value.strip():
                failures.append(Failure(wanted.name, "must be a text that is not empty"))
            elif wanted.name == "name" and value != UNKNOWN and not self.is_name(value):
                failures.append(Failure("name", f"{value!r} is not of the form {self.name_form}"))
        return failures

    def compare(self, old: Mapping[str, object], new: Mapping[str, object]) -> Difference:
        """What differs between the inputs in the state and those wanted; an unknown differs from everything."""
        old, new = unwrap_all(old), unwrap_all(new)
        changes: dict[str, ChangeKind] = {}
        for item in self.inputs:
            before, after = old.get(item.name), new.get(item.name)
            if item.at_order or (before == after and after != UNKNOWN):
                continue
            changes[item.name] = (
                ChangeKind.ADD if before is None else ChangeKind.DELETE if after is None else ChangeKind.UPDATE
            )
        return Difference(changes, tuple(p.name for p in self.inputs if p.replaces and p.name in changes))

"""``--where plan=heavy,cell=cell1``: what of many a command is about. The same words everywhere."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hermesops.errors import UsageError


@dataclass(frozen=True)
class Selector:
    """Which of many; without conditions, all of them.

    Attributes:
        conditions: Each field with the values it may have.
    """

    conditions: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str, *, fields: frozenset[str]) -> "Selector":
        """What an operator typed: ``field=value``, comma-separated; a field named twice may have either value.

        Args:
            text: May be empty.
            fields: What can be selected by here.

        Raises:
            UsageError: It does not read like that, or names another field.
        """
        conditions: dict[str, frozenset[str]] = {}
        for part in filter(None, (piece.strip() for piece in text.split(","))):
            name, equals, value = (piece.strip() for piece in part.partition("="))
            known = ", ".join(sorted(fields))
            if not equals or not value:
                raise UsageError(f"--where {part!r} does not read field=value; fields are {known}")
            if name not in fields:
                raise UsageError(f"--where knows no field {name!r}; there are {known}")
            conditions[name] = conditions.get(name, frozenset()) | {value}
        return cls(conditions)

    def values(self, name: str) -> frozenset[str]:
        """What a field may be; nothing where it may be anything."""
        return self.conditions.get(name, frozenset())

    def takes(self, subject: Mapping[str, str]) -> bool:
        """Whether a subject with these fields is meant; one that lacks a field of the conditions is not."""
        return all(subject.get(name) in values for name, values in self.conditions.items())

"""``--where plan=heavy,cell=cell1``: which of many a command is about; the same syntax everywhere."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hermesops.errors import UsageError

WHERE = "where"
"""Name of the field of a request that is a selector."""


@dataclass(frozen=True)
class Selector:
    """A filter over rows; without conditions it matches all of them.

    Attributes:
        conditions: Each field with the values it may have.
    """

    conditions: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str, *, fields: frozenset[str]) -> "Selector":
        """Parse ``field=value``, comma-separated, or empty; a field named twice may have either value.

        Raises:
            UsageError: The syntax is wrong, or a field is not one of ``fields``.
        """
        conditions: dict[str, frozenset[str]] = {}
        for part in filter(None, (piece.strip() for piece in text.split(","))):
            name, equals, value = (piece.strip() for piece in part.partition("="))
            known = ", ".join(sorted(fields))
            if not equals or not value:
                raise UsageError(f"{part!r} does not read field=value; fields are {known}", field=WHERE)
            if name not in fields:
                raise UsageError(f"there is no field {name!r}; there are {known}", field=WHERE)
            conditions[name] = conditions.get(name, frozenset()) | {value}
        return cls(conditions)

    def values(self, name: str) -> frozenset[str]:
        """The values that a field may have; empty for any."""
        return self.conditions.get(name, frozenset())

    def takes(self, subject: Mapping[str, str]) -> bool:
        """Whether a subject with these fields is selected; one that lacks a field of a condition is not."""
        return all(subject.get(name) in values for name, values in self.conditions.items())

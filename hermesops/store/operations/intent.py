"""The typed intent of an operation and its JSON in the row, from which the operation continues.

A row whose JSON differs from its kind's declaration is refused: nothing is guessed about users' machines.
"""

import types
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import MISSING, dataclass, fields, is_dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from functools import cache
from typing import Any, ClassVar, Self, Union, get_args, get_origin, get_type_hints

from hermesops.errors import BrokenInvariantError, Hint
from hermesops.model.operation import Operation, OperationKind


@dataclass(frozen=True)
class AbandonNote:
    """Result of abandoning an operation: the remains, and the next command.

    Attributes:
        next: The command that cleans up or starts again; fields of the intent are words in capitals, as ``USER``.
    """

    what: str
    next: Hint


@dataclass(frozen=True, kw_only=True)
class Intent:
    """Parameters of one kind of operation. Contains no secrets.

    Attributes:
        abandoned: Note for an abandoned row; ``{name}`` stands for a field of the intent.
    """

    kind: ClassVar[OperationKind]
    title: ClassVar[str]
    abandoned: ClassVar[AbandonNote]

    @classmethod
    def of(cls, operation: Operation) -> Self:
        """Parse the intent of an operation's row.

        Raises:
            BrokenInvariantError: The row is of another kind, or its JSON differs from the kind's declaration.
        """
        if operation.kind is not cls.kind:
            raise BrokenInvariantError(f"operation {operation.id} is of kind {operation.kind}, not {cls.kind}")
        try:
            return cls.from_json(operation.intent)
        except ValueError as error:
            raise BrokenInvariantError(
                f"operation {operation.id} ({operation.kind}) has an unreadable intent: {error}",
                hint=Hint(("operation", "abandon", operation.id, "--reason", "WHY")),
            ) from error

    @classmethod
    def from_json(cls, values: Mapping[str, object]) -> Self:
        """Parse the JSON that ``to_json`` wrote.

        Raises:
            ValueError: A field is missing, unknown or of another type.
        """
        read: Self = _dataclass_of(cls, values, cls.kind.value)
        return read

    def to_json(self) -> dict[str, object]:
        """Convert the intent to JSON for its row; fields that are ``None`` are left out."""
        return _plain_fields(self)


def _plain(value: Any) -> object:  # noqa: ANN401 - any type of a field
    match value:
        case StrEnum():
            return value.value
        case datetime():
            return value.isoformat()
        case Decimal():
            return str(value)
        case AbstractSet():
            return sorted(value)
        case tuple():
            return list(value)
        case _ if is_dataclass(value):
            return _plain_fields(value)
        case _:
            return value


def _plain_fields(value: Any) -> dict[str, object]:  # noqa: ANN401 - any dataclass
    named = {field.name: getattr(value, field.name) for field in fields(value)}
    return {name: _plain(value) for name, value in named.items() if value is not None}


_hints = cache(get_type_hints)


def _dataclass_of(kind: Any, value: object, where: str) -> Any:  # noqa: ANN401 - any dataclass
    if not isinstance(value, Mapping):
        raise ValueError(f"{where} is no object")  # noqa: TRY004 - as every other shape that does not fit
    if unknown := value.keys() - {field.name for field in fields(kind)}:
        raise ValueError(f"{where} has unknown {', '.join(sorted(unknown))}")
    hints, read = _hints(kind), {}
    for field in fields(kind):
        optional = field.default is not MISSING
        if field.name in value:
            read[field.name] = _value_of(hints[field.name], value[field.name], f"{where}.{field.name}")
        elif not optional:
            raise ValueError(f"{where}.{field.name} is missing")
    return kind(**read)


def _value_of(hint: Any, value: object, where: str) -> object:  # noqa: ANN401 - a type, of each sort
    hint = getattr(hint, "__supertype__", hint)
    origin, inner = get_origin(hint), get_args(hint)
    if origin in {Union, types.UnionType}:
        present = next(type_ for type_ in inner if type_ is not type(None))
        return None if value is None else _value_of(present, value, where)
    if origin in {tuple, frozenset}:
        if not isinstance(value, list):
            raise ValueError(f"{where} is no list")
        return origin(_value_of(inner[0], item, where) for item in value)
    if is_dataclass(hint):
        return _dataclass_of(hint, value, where)
    if hint in {datetime, Decimal} or (isinstance(hint, type) and issubclass(hint, StrEnum)):
        return _parsed(hint, value, where)
    expected = origin or hint
    if not isinstance(value, (int, float) if expected is float else expected) or isinstance(value, bool) > (
        expected is bool
    ):
        raise ValueError(f"{where} is no {expected.__name__}")
    return value


def _parsed(hint: Any, value: object, where: str) -> object:  # noqa: ANN401 - a type that is written as text
    try:
        return datetime.fromisoformat(str(value)) if hint is datetime else hint(str(value))
    except (ValueError, InvalidOperation):
        raise ValueError(f"{where} is no {hint.__name__}") from None

"""The intent of an operation, typed and as JSON of its row: enough to continue it.

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
    """What an abandoned operation leaves behind.

    Attributes:
        next: What cleans it up or begins anew; fields of the intent are words in capitals, as ``USER``.
    """

    what: str
    next: Hint


@dataclass(frozen=True, kw_only=True)
class Intent:
    """What one kind of operation is to do. Holds no secrets.

    Attributes:
        abandoned: What an abandoned row leaves behind; ``{name}`` stands for a field of the intent.
    """

    kind: ClassVar[OperationKind]
    title: ClassVar[str]
    abandoned: ClassVar[AbandonNote]

    @classmethod
    def of(cls, operation: Operation) -> Self:
        """The intent of an operation's row.

        Raises:
            BrokenInvariantError: The row is of another kind, or its JSON is not what the kind declares.
        """
        if operation.kind is not cls.kind:
            raise BrokenInvariantError(f"operation {operation.id} is of kind {operation.kind}, not {cls.kind}")
        try:
            return cls.from_json(operation.intent)
        except ValueError as error:
            raise BrokenInvariantError(
                f"operation {operation.id} ({operation.kind}) does not say what it is to do: {error}",
                hint=Hint(("operation", "abandon", operation.id, "--reason", "WHY")),
            ) from error

    @classmethod
    def from_json(cls, told: Mapping[str, object]) -> Self:
        """Read it as ``to_json`` wrote it.

        Raises:
            ValueError: A field is missing, unknown or of another type.
        """
        read: Self = _dataclass_of(cls, told, cls.kind.value)
        return read

    def to_json(self) -> dict[str, object]:
        """As the row keeps it; fields that are ``None`` are left out."""
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
    return {name: _plain(one) for name, one in named.items() if one is not None}


_hints = cache(get_type_hints)


def _dataclass_of(kind: Any, told: object, where: str) -> Any:  # noqa: ANN401 - any dataclass
    if not isinstance(told, Mapping):
        raise ValueError(f"{where} is no object")  # noqa: TRY004 - as every other shape that does not fit
    if unknown := told.keys() - {field.name for field in fields(kind)}:
        raise ValueError(f"{where} has unknown {', '.join(sorted(unknown))}")
    hints, read = _hints(kind), {}
    for field in fields(kind):
        optional = field.default is not MISSING
        if field.name in told:
            read[field.name] = _value_of(hints[field.name], told[field.name], f"{where}.{field.name}")
        elif not optional:
            raise ValueError(f"{where}.{field.name} is missing")
    return kind(**read)


def _value_of(hint: Any, told: object, where: str) -> object:  # noqa: ANN401 - a type, of each sort
    hint = getattr(hint, "__supertype__", hint)
    origin, inner = get_origin(hint), get_args(hint)
    if origin in {Union, types.UnionType}:
        return None if told is None else _value_of(next(one for one in inner if one is not type(None)), told, where)
    if origin in {tuple, frozenset}:
        if not isinstance(told, list):
            raise ValueError(f"{where} is no list")
        return origin(_value_of(inner[0], one, where) for one in told)
    if is_dataclass(hint):
        return _dataclass_of(hint, told, where)
    if hint in {datetime, Decimal} or (isinstance(hint, type) and issubclass(hint, StrEnum)):
        return _parsed(hint, told, where)
    expected = origin or hint
    if not isinstance(told, (int, float) if expected is float else expected) or isinstance(told, bool) > (
        expected is bool
    ):
        raise ValueError(f"{where} is no {expected.__name__}")
    return told


def _parsed(hint: Any, told: object, where: str) -> object:  # noqa: ANN401 - a type that is written as text
    try:
        return datetime.fromisoformat(str(told)) if hint is datetime else hint(str(told))
    except (ValueError, InvalidOperation):
        raise ValueError(f"{where} is no {hint.__name__}") from None

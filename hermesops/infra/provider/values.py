"""Property values as the protocol carries them: secrets and unknowns inside a protobuf ``Struct``.

Source: the markers are constants of Pulumi's wire format (``sdk/go/common/resource/plugin/rpc.go``).
"""

from collections.abc import Mapping
from typing import Any

from google.protobuf import struct_pb2

SIGNATURE = "4dabf18193072939515e22adb298388d"
"""Key of an object that is a marked value and not data."""

SECRET = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105 - the marker's name, not a secret
"""The signature's value for a secret."""

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
"""Stands for a text that is known only once something was really made."""


def read(struct: struct_pb2.Struct) -> dict[str, object]:
    """The struct as plain Python values, marks included; nulls are left out, as if absent."""
    return {name: value for name, field in struct.fields.items() if (value := _read_value(field)) is not None}


def write(values: Mapping[str, Any]) -> struct_pb2.Struct:
    """The values as a struct; those that are ``None`` are left out."""
    struct = struct_pb2.Struct()
    struct.update({name: value for name, value in values.items() if value is not None})
    return struct


def unwrap(value: object) -> object:
    """The value inside a secret, or the value itself."""
    if isinstance(value, Mapping) and value.get(SIGNATURE) == SECRET:
        return value.get("value")
    return value


def text(values: Mapping[str, object], name: str) -> str:
    """The text under a name; empty when it is absent or no text."""
    value = unwrap(values.get(name))
    return value if isinstance(value, str) else ""


def _read_value(value: struct_pb2.Value) -> object:
    match value.WhichOneof("kind"):
        case "struct_value":
            return read(value.struct_value)
        case "list_value":
            return [_read_value(item) for item in value.list_value.values]
        case "string_value":
            return value.string_value
        case "number_value":
            return value.number_value
        case "bool_value":
            return value.bool_value
        case _:
            return None

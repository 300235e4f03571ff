"""Property values in three forms: in memory, on the wire (protobuf Struct), in the state (JSON).

In memory they are plain Python values; a secret is a :class:`Secret`, an unknown one of the protocol's marker strings.
Source: the protocol's special signatures, pulumi SDK ``runtime/rpc.py``; recordings, semantics §6.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from hermesops.engine.embedded.protocol.opaque import Property

if TYPE_CHECKING:
    from google.protobuf.struct_pb2 import Struct, Value

SIGNATURE = "4dabf18193072939515e22adb298388d"
SECRET = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105  a marker of the protocol, no secret
OUTPUT = "d0e6a833031e9bbcd3f4e8bde6ca49a4"
ASSETS = frozenset({"c44067f5952c0a294b673a41bacd8c17", "0def7320c3a5731c473e5ecbe6d01bc7"})

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
UNKNOWNS = frozenset(
    {
        UNKNOWN,
        "3eeb2bf0-c639-47a8-9e75-3b44932eb421",
        "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",
        "030794c1-ac77-496b-92df-f27374a8bd58",
        "e48ece36-62e2-4504-bad9-02848725956a",
        "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",
        "8dbec43e-d64d-4bd2-ac3b-62ec3acee7ef",
    }
)

LARGEST_PLAIN = 1e21
"""From here on Go's JSON prints numbers with an exponent; below it a whole number has no fraction."""


class Vault(Protocol):
    """Encrypts and decrypts what a stack keeps secret."""

    def encrypt(self, plaintext: str) -> str:
        """Turn JSON text into a ciphertext for the state."""

    def decrypt(self, ciphertext: str) -> str:
        """Turn a ciphertext of the state back into JSON text."""


class Secret:
    """A value that must not be shown; read from a state it stays encrypted until somebody needs it."""

    __slots__ = ("ciphertext", "known", "value")

    def __init__(self, value: Property = None, ciphertext: str = "") -> None:
        self.value = value
        self.ciphertext = ciphertext
        self.known = not ciphertext

    def reveal(self, vault: Vault) -> Property:
        """Answer the value in the clear; decrypts once."""
        if not self.known:
            self.value = from_state(json.loads(vault.decrypt(self.ciphertext)))
            self.known = True
        return self.value

    def seal(self, vault: Vault) -> str:
        """Answer the ciphertext; encrypts once."""
        if not self.ciphertext:
            self.ciphertext = vault.encrypt(dumps(to_state(self.value, vault)))
        return self.ciphertext

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        if self.known and other.known:
            return bool(self.value == other.value)
        return bool(self.ciphertext) and self.ciphertext == other.ciphertext

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "Secret(...)"


def dumps(value: Property) -> str:
    """Write JSON on one line, as the state has it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def is_unknown(value: Property) -> bool:
    """Whether a value will only be known after the change; only previews have such."""
    return isinstance(value, str) and value in UNKNOWNS


def has_unknown(value: Property) -> bool:
    """Whether an unknown hides anywhere inside."""
    match value:
        case Secret():
            return value.known and has_unknown(value.value)
        case dict():
            return any(has_unknown(item) for item in value.values())
        case list():
            return any(has_unknown(item) for item in value)
        case _:
            return is_unknown(value)


def has_secret(value: Property) -> bool:
    """Whether a secret hides anywhere inside."""
    match value:
        case Secret():
            return True
        case dict():
            return any(has_secret(item) for item in value.values())
        case list():
            return any(has_secret(item) for item in value)
        case _:
            return False


def from_state(value: Property) -> Property:
    """Read a value of the state file; secrets stay encrypted."""
    match value:
        case dict():
            if value.get(SIGNATURE) == SECRET:
                if "ciphertext" in value:
                    return Secret(ciphertext=value["ciphertext"])
                return Secret(from_state(json.loads(value["plaintext"])))
            return {key: from_state(item) for key, item in value.items()}
        case list():
            return [from_state(item) for item in value]
        case _:
            return value


def to_state(value: Property, vault: Vault) -> Property:
    """Write a value for the state file; secrets are encrypted."""
    match value:
        case Secret():
            return {SIGNATURE: SECRET, "ciphertext": value.seal(vault)}
        case dict():
            return {key: to_state(item, vault) for key, item in value.items()}
        case list():
            return [to_state(item, vault) for item in value]
        case _:
            return value


def masked(value: Property) -> Property:
    """The same value with secrets and unknowns replaced by words, for people and logs."""
    match value:
        case Secret():
            return "[secret]"
        case dict():
            return {key: masked(item) for key, item in value.items()}
        case list():
            return [masked(item) for item in value]
        case _:
            return "[unknown]" if is_unknown(value) else value


def revealed(value: Property, vault: Vault) -> Property:
    """The same value with secrets in the clear and no mark left."""
    match value:
        case Secret():
            return revealed(value.reveal(vault), vault)
        case dict():
            return {key: revealed(item, vault) for key, item in value.items()}
        case list():
            return [revealed(item, vault) for item in value]
        case _:
            return value


def from_wire(struct: "Struct") -> dict[str, Any]:
    """Read what came over gRPC."""
    return {key: _from_value(item) for key, item in struct.fields.items()}


def _from_value(value: "Value") -> Property:
    match value.WhichOneof("kind"):
        case "string_value":
            return value.string_value
        case "struct_value":
            return _from_struct(value.struct_value)
        case "list_value":
            return [_from_value(item) for item in value.list_value.values]
        case "number_value":
            number = value.number_value
            return int(number) if number.is_integer() and abs(number) < LARGEST_PLAIN else number
        case "bool_value":
            return value.bool_value
        case _:
            return None


def _from_struct(struct: "Struct") -> Property:
    plain = {key: _from_value(item) for key, item in struct.fields.items()}
    match plain.get(SIGNATURE):
        case None:
            return plain
        case mark if mark == SECRET:
            return Secret(plain.get("value"))
        case mark if mark == OUTPUT:
            inner = plain.get("value", UNKNOWN)
            return Secret(inner) if plain.get("secret") else inner
        case _:
            return plain


def has_asset(value: Property) -> bool:
    """Whether a file or archive hides anywhere inside; this engine does not carry those."""
    match value:
        case Secret():
            return value.known and has_asset(value.value)
        case dict():
            return value.get(SIGNATURE) in ASSETS or any(has_asset(item) for item in value.values())
        case list():
            return any(has_asset(item) for item in value)
        case _:
            return False


def to_wire(properties: Mapping[str, Any], vault: Vault, *, secrets: bool) -> "Struct":
    """Write what goes over gRPC.

    Args:
        properties: In-memory values.
        vault: Needed when a secret was read from the state and is still encrypted.
        secrets: Whether the other side understands marked secrets; otherwise they travel bare.
    """
    from google.protobuf.struct_pb2 import Struct  # noqa: PLC0415  loaded only by commands that run a program

    return Struct(fields={key: _to_value(item, vault, secrets=secrets) for key, item in properties.items()})


def _to_value(value: Property, vault: Vault, *, secrets: bool) -> "Value":
    from google.protobuf.struct_pb2 import ListValue, Struct, Value  # noqa: PLC0415  as above

    match value:
        case str():
            return Value(string_value=value)
        case None:
            return Value(null_value=0)  # type: ignore[arg-type]  # the stub wants the enum's wrapper
        case bool():
            return Value(bool_value=value)
        case int() | float():
            return Value(number_value=value)
        case dict():
            fields = {key: _to_value(item, vault, secrets=secrets) for key, item in value.items()}
            return Value(struct_value=Struct(fields=fields))
        case list():
            return Value(list_value=ListValue(values=[_to_value(item, vault, secrets=secrets) for item in value]))
        case Secret():
            inner = _to_value(value.reveal(vault), vault, secrets=secrets)
            if not secrets:
                return inner
            mark = {SIGNATURE: Value(string_value=SECRET), "value": inner}
            return Value(struct_value=Struct(fields=mark))
        case _:
            raise TypeError(f"a property cannot hold {type(value).__name__}")

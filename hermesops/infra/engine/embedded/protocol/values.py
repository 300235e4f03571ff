"""Property values in three forms: in memory, on the wire (protobuf Struct), in the state (JSON).

In memory they are plain Python values; a secret is a :class:`Secret`, an unknown one of the protocol's marker strings.
Source: the protocol's special signatures, pulumi SDK ``runtime/rpc.py``; recordings, semantics §6.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from hermesops.infra.engine.embedded.state.secrets import PassphraseVault

if TYPE_CHECKING:
    from google.protobuf.struct_pb2 import Struct, Value

Property: TypeAlias = Any
"""A property's value: str, bool, int, float, None, list, dict, or a Secret."""

Message: TypeAlias = Any
"""A protobuf message; its module may only be imported where the SDK has been loaded."""

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


class Secret:
    """A value that must not be shown; read from a state it stays encrypted until somebody needs it."""

    __slots__ = ("ciphertext", "known", "value")

    def __init__(self, value: Property = None, ciphertext: str = "") -> None:
        self.value = value
        self.ciphertext = ciphertext
        self.known = not ciphertext

    def reveal(self, vault: PassphraseVault) -> Property:
        """Answer the value in the clear; decrypts once."""
        if not self.known:
            self.value = from_state(json.loads(vault.decrypt(self.ciphertext)))
            self.known = True
        return self.value

    def seal(self, vault: PassphraseVault) -> str:
        """Return the ciphertext; encrypts only at the first call."""
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
    """Return whether a value is known only after the change; only previews have such values."""
    return isinstance(value, str) and value in UNKNOWNS


def has_unknown(value: Property) -> bool:
    """Return whether a value contains an unknown, at any depth."""
    if isinstance(value, Secret):
        return value.known and has_unknown(value.value)
    return is_unknown(value) or any(map(has_unknown, _items(value)))


def has_secret(value: Property) -> bool:
    """Return whether a value contains a secret, at any depth."""
    return isinstance(value, Secret) or any(map(has_secret, _items(value)))


def has_asset(value: Property) -> bool:
    """Return whether a value contains a file or archive, at any depth; this engine does not support those."""
    if isinstance(value, Secret):
        return value.known and has_asset(value.value)
    is_asset = isinstance(value, dict) and value.get(SIGNATURE) in ASSETS
    return is_asset or any(map(has_asset, _items(value)))


def _items(value: Property) -> Iterable[Property]:
    match value:
        case dict():
            return value.values()
        case list():
            return value
        case _:
            return ()


def _mapped(value: Property, change: Callable[[Property], Property]) -> Property:
    """Return a dict or list with every item changed; other values as they are."""
    match value:
        case dict():
            return {key: change(item) for key, item in value.items()}
        case list():
            return [change(item) for item in value]
        case _:
            return value


def from_state(value: Property) -> Property:
    """Read a value of the state file; secrets stay encrypted."""
    if isinstance(value, dict) and value.get(SIGNATURE) == SECRET:
        if "ciphertext" in value:
            return Secret(ciphertext=value["ciphertext"])
        return Secret(from_state(json.loads(value["plaintext"])))
    return _mapped(value, from_state)


def to_state(value: Property, vault: PassphraseVault) -> Property:
    """Write a value for the state file; secrets are encrypted."""
    if isinstance(value, Secret):
        return {SIGNATURE: SECRET, "ciphertext": value.seal(vault)}
    return _mapped(value, lambda item: to_state(item, vault))


def masked(value: Property) -> Property:
    """Replace secrets and unknowns in a value by words, for people and logs."""
    if isinstance(value, Secret):
        return "[secret]"
    return "[unknown]" if is_unknown(value) else _mapped(value, masked)


def revealed(value: Property, vault: PassphraseVault) -> Property:
    """Replace secrets in a value by their plain values, without marks."""
    if isinstance(value, Secret):
        return revealed(value.reveal(vault), vault)
    return _mapped(value, lambda item: revealed(item, vault))


def from_wire(struct: "Struct") -> dict[str, Any]:
    """Parse a property value from gRPC."""
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


def to_wire(properties: Mapping[str, Any], vault: PassphraseVault, *, secrets: bool) -> "Struct":
    """Serialise a value for gRPC.

    ``vault`` opens secrets of the state that are still encrypted. ``secrets``: whether the other side understands
    marked secrets; otherwise they are sent without marks.
    """
    from google.protobuf.struct_pb2 import Struct  # noqa: PLC0415  loaded only by commands that run a program

    return Struct(fields={key: _to_value(item, vault, secrets=secrets) for key, item in properties.items()})


def _to_value(value: Property, vault: PassphraseVault, *, secrets: bool) -> "Value":
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


def with_secret_outputs(
    outputs: Mapping[str, Any], inputs: Mapping[str, Any], additional: Iterable[str]
) -> dict[str, Any]:
    """Mark outputs as secret although the provider does not say so.

    Source: recordings, semantics §6: listed in additionalSecretOutputs, or the input of that name is secret.
    """
    named = set(additional)
    return {key: _marked_secret(value, inputs.get(key), by_name=key in named) for key, value in outputs.items()}


def _marked_secret(value: Property, source: Property, *, by_name: bool) -> Property:
    if has_secret(value) and not (by_name and not isinstance(value, Secret)):
        return value
    if by_name or has_secret(source):
        return Secret(value)
    return value


def marked_again(answer: dict[str, Any], sent: Mapping[str, Any]) -> dict[str, Any]:
    """Put secret marks back where the same property was secret before the plugin saw it bare."""
    return {key: _marked_again(value, sent.get(key)) for key, value in answer.items()}


def _marked_again(value: Property, before: Property) -> Property:
    match before:
        case Secret():
            return value if isinstance(value, Secret) else Secret(value)
        case dict() if isinstance(value, dict) and has_secret(before):
            return marked_again(value, before)
        case list() if isinstance(value, list) and has_secret(before):
            padded = [*before, *([None] * len(value))]
            return [_marked_again(item, padded[index]) for index, item in enumerate(value)]
        case _:
            return value

"""Which outputs are secret although the provider does not say so. Pure.

Source: recordings, semantics §6: listed in additionalSecretOutputs, or the input of that name is secret.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from hermesops.engine.embedded.protocol.opaque import Property
from hermesops.engine.embedded.protocol.values import Secret, has_secret


def with_secret_outputs(
    outputs: Mapping[str, Any], inputs: Mapping[str, Any], additional: Iterable[str]
) -> dict[str, Any]:
    """Mark outputs as secret where the program or the inputs say so."""
    named = set(additional)
    return {key: _mark(value, inputs.get(key), by_name=key in named) for key, value in outputs.items()}


def _mark(value: Property, given: Property, *, by_name: bool) -> Property:
    if has_secret(value) and not (by_name and not isinstance(value, Secret)):
        return value
    if by_name or has_secret(given):
        return Secret(value)
    return value

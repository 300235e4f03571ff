"""What something that was seen is in the state: its inputs and its outputs."""

from collections.abc import Mapping

from hermesops.provider.ports import Thing
from hermesops.provider.resource import Kind
from hermesops.provider.values import UNKNOWN, unwrap


def expected(kind: Kind, inputs: Mapping[str, object]) -> dict[str, object]:
    """Outputs of what a preview would order."""
    return {**inputs, **{p.name: UNKNOWN for p in kind.computed}}


def outputs(kind: Kind, inputs: Mapping[str, object], seen: Thing) -> dict[str, object]:
    """Outputs of what exists: what the vendor says, and the inputs where it says nothing."""
    return {**observed(kind, inputs, seen), **{p.name: str(getattr(seen, p.name)) for p in kind.computed}}


def observed(kind: Kind, inputs: Mapping[str, object], seen: Thing) -> dict[str, object]:
    """Inputs as they really are; one that is unchanged keeps its mark of a secret."""
    real = {p.name: str(getattr(seen, p.name)) for p in kind.inputs if not p.at_order}
    return {**inputs, **{name: value for name, value in real.items() if value and unwrap(inputs.get(name)) != value}}

"""What a machine that was seen is in the state: its inputs and its outputs."""

from collections.abc import Mapping

from hermesops.provider.machine import COMPUTED, INPUTS
from hermesops.provider.ports import Seen
from hermesops.provider.values import UNKNOWN, unwrap


def expected(inputs: Mapping[str, object]) -> dict[str, object]:
    """Outputs of a machine that a preview would order."""
    return {**inputs, **{p.name: UNKNOWN for p in COMPUTED}}


def outputs(inputs: Mapping[str, object], seen: Seen) -> dict[str, object]:
    """Outputs of a machine that exists: what the vendor says, and the inputs where it says nothing."""
    return {**observed(inputs, seen), **{p.name: str(getattr(seen, p.name)) for p in COMPUTED}}


def observed(inputs: Mapping[str, object], seen: Seen) -> dict[str, object]:
    """Inputs as they really are; one that is unchanged keeps its mark of a secret."""
    real = {p.name: str(getattr(seen, p.name)) for p in INPUTS}
    return {**inputs, **{name: value for name, value in real.items() if value and unwrap(inputs.get(name)) != value}}

"""Shapes of secrets, never with their values."""

from datetime import datetime
from typing import TYPE_CHECKING

from hermesops.views.timestamps import timestamp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermesops.access.secrets.keyring.rotation import RotationPreview
    from hermesops.access.secrets.store import SecretState
    from hermesops.errors import Hint


def held_secret(state: "SecretState", now: datetime) -> dict[str, object]:
    """The JSON object of a secret: its home, age and purpose, never its value."""
    return {
        "name": state.needed.name,
        "home": state.where,
        "is_there": state.is_there,
        "changed_at": timestamp(state.changed_at),
        "age": f"{(now - state.changed_at).days} d" if state.changed_at else None,
        "setting": state.needed.setting,
        "purpose": state.needed.purpose,
    }


def rotation_preview(preview: "RotationPreview", *, prepare: bool) -> dict[str, object]:
    """A rotation of the registry's key that was not made.

    Args:
        prepare: Whether only a key is added, which seals nothing yet.
    """
    return {
        "sealing": preview.sealing,
        "prepared": preview.prepared or None,
        "sealed_otherwise": preview.left,
        "only_prepares": prepare,
    }


def rotation(name: str, key: str | None, steps: "Sequence[Hint | str]") -> dict[str, object]:
    """A rotated secret, or the steps that only a person can take."""
    return {"name": name, "key": key, "steps": list(steps)}

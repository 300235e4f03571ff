"""Shapes of tokens, never with their values: for the vendor's proxy, and for the model router."""

from typing import TYPE_CHECKING

from hermesops.model.access.token import PLATFORM, purpose_of
from hermesops.views.timestamps import timestamp

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from hermesops.model.access.token import KeptToken
    from hermesops.model.billing.route import PresentToken
    from hermesops.model.fleet.instance import Instance
    from hermesops.model.ids import MachineId, MachineName


def proxy_token(
    owner: "Instance | None", token: "KeptToken", names: "Mapping[MachineId, MachineName]", now: "datetime"
) -> dict[str, object]:
    """A token for the vendor's proxy, without its value.

    Args:
        owner: None of a token for an unassigned machine.
        names: Names of machines by id; a deleted machine has none, and is shown by its id.
        now: The registry's time.
    """
    left = int((token.expires_at - now).total_seconds())
    return {
        "user": owner.title if owner else None,
        "instance_id": owner.id if owner else None,
        "machine_name": names.get(token.machine_id, token.machine_id),
        "machine_id": token.machine_id,
        "purpose": token.purpose,
        "holder": "relay" if purpose_of(token.purpose) == PLATFORM else "commands and workers",
        "generation": None,
        "token_id": token.id,
        "expires_at": timestamp(token.expires_at),
        "left_s": left,
        "left": _left(left),
    }


def model_token(owner: "Instance", token: "PresentToken", now: "datetime") -> dict[str, object]:
    """An agent's token for the model router, without its value; ``now`` is the registry's time."""
    left = int((token.expires_at - now).total_seconds()) if token.expires_at else 0
    return {
        "user": owner.title,
        "instance_id": owner.id,
        "machine_name": owner.machine_name,
        "machine_id": owner.machine_id,
        "purpose": "models",
        "holder": "agent",
        "generation": token.generation,
        "token_id": None,
        "expires_at": timestamp(token.expires_at),
        "handed_at": timestamp(token.handed_at),
        "left_s": left,
        "left": _left(left) if token.expires_at else "none since it was revoked",
    }


def by_user(row: "Mapping[str, object]") -> tuple[str, str, str]:
    """Sort key of a list: by user, then by purpose; tokens of unassigned machines come last, by machine."""
    return str(row["user"] or "\uffff"), str(row["machine_name"] or ""), str(row["purpose"])


def _left(seconds: int) -> str:
    if seconds <= 0:
        return "run out"
    days, hours = seconds // 86400, seconds // 3600
    return f"{days} d {hours % 24} h" if days else f"{hours} h {seconds // 60 % 60} min"


def models_revoked(user: str, generation: int) -> dict[str, object]:
    """An agent whose tokens for the model router are refused below a generation."""
    return {"user": user, "revoked": [], "models_from_generation": generation}

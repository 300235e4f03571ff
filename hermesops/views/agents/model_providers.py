"""Shapes of model providers: those whose keys users may bring, and an agent's own."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermesops.model.providers.choice import ProviderChoice


def offered() -> list[dict[str, object]]:
    """Model providers that can be chosen."""
    from hermesops.model.providers.table import PROVIDERS

    return [
        {
            "id": row.id,
            "title": row.title,
            "address": row.base_url or None,
            "hosts": list(row.hosts),
            "api_mode": row.api_mode,
            "model": row.example,
            "key": " or ".join(f"{beginning}…" for beginning in row.keys) or None,
            "verified_by": row.check.value,
            "agent_id": row.agent_id or None,
            "note": row.note or None,
        }
        for row in PROVIDERS
    ]


def not_offered() -> list[dict[str, object]]:
    """Providers that hermes-agent knows and that no key opens."""
    from hermesops.model.providers.table import FOREIGN_SIGN_INS

    return [
        {"agent_id": row.agent_id, "title": row.title, "why": row.why, "instead": row.instead}
        for row in FOREIGN_SIGN_INS
    ]


def of_instance(user: str, choice: "ProviderChoice | None", outcome: str) -> dict[str, object]:
    """An agent's own model provider, never its key; ``outcome`` is null where it was only read."""
    return {"user": user, "provider": chosen(choice) if choice else None, "outcome": outcome or None}


def chosen(choice: "ProviderChoice") -> dict[str, object]:
    """A choice without its key; ``state`` is unknown where nobody knows whether the provider accepts it.

    A key that its provider refuses is never saved.
    """
    from hermesops.model.providers.table import BY_ID

    row = BY_ID.get(choice.provider)  # a stored choice may be of a provider that the table no longer has
    return {
        "id": choice.provider,
        "title": row.title if row else choice.provider,
        "model": choice.model,
        "address": (row.base_url if row else "") or choice.base_url,
        "state": "accepted" if choice.verified_at else "unknown",
        "verified_at": choice.verified_at or None,
    }

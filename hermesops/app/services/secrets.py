"""Secrets that an operator gives, or has made anew."""

from typing import TYPE_CHECKING

from hermesops.errors import RefusedError, UsageError
from hermesops.secrets.catalog import REGISTRY_KEY, SecretSpec

if TYPE_CHECKING:
    from hermesops.app.container import Container


def set_secret(app: "Container", needed: SecretSpec, text: str, *, why: str) -> str:
    """Keep a new text of a secret; where it is now. That it was done is in the audit, never what.

    Raises:
        UsageError: The text is none, or no ring of keys where one is needed.
        RefusedError: It would lose keys that the registry may need, or its home takes nothing.
    """
    text = text.strip()
    if not text:
        raise UsageError(f"{needed.name}: nothing was given", hint=f"hermesops secrets set {needed.name} --from FILE")
    if needed == REGISTRY_KEY:
        _refuse_lost_keys(app, text)
    else:
        app.registry.now()  # what cannot be written down is not done; a lost key of its own it gets first
    app.secrets.write(needed, text)
    app.registry.audit.append("secret_set", f"secret/{needed.name}", why=why)
    return app.secrets.where(needed)


def _refuse_lost_keys(app: "Container", text: str) -> None:
    from hermesops.keyring.key_ring import parse_ring
    from hermesops.keyring.ring import Ring

    try:
        given = Ring.parse(text)
    except ValueError:
        raise UsageError(
            "that is no ring of the registry's keys", hint="hermesops secrets rotate registry.key makes new keys"
        ) from None
    held = app.secrets.find(REGISTRY_KEY) if app.secrets.held(REGISTRY_KEY).is_there else None
    if held is None:
        return
    lost = parse_ring(held, app.secrets.where(REGISTRY_KEY)).keys.keys() - given.keys.keys()
    if lost:
        raise RefusedError(
            f"that ring lacks {', '.join(sorted(lost))}, which {app.secrets.where(REGISTRY_KEY)} has",
            hint="move the old one aside first if nothing needs these keys; hermesops registry check tells",
        )

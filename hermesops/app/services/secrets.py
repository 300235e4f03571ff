"""Secrets that an operator gives, or has made anew."""

from collections.abc import Callable

from hermesops.errors import RefusedError, UsageError
from hermesops.keyring.key_ring import parse_ring
from hermesops.keyring.ring import Ring
from hermesops.registry import Registry
from hermesops.secrets.catalog import REGISTRY_KEY, SecretSpec
from hermesops.secrets.store import Secrets


def set_secret(secrets: Secrets, registry: Callable[[], Registry], needed: SecretSpec, text: str, *, why: str) -> str:
    """Keep a new text of a secret; where it is now. That it was done is in the audit, never what.

    Args:
        secrets: Where it is kept.
        registry: Opens the registry: its own key may have to be set before.
        needed: Which.
        text: Its text.
        why: For the audit.

    Raises:
        UsageError: The text is none, or no ring of keys where one is needed.
        RefusedError: It would lose keys that the registry may need, or its home takes nothing.
    """
    text = text.strip()
    if not text:
        raise UsageError(f"{needed.name}: nothing was given", hint=f"hermesops secrets set {needed.name} --from FILE")
    if needed == REGISTRY_KEY:
        _refuse_lost_keys(secrets, text)
    else:
        registry().now()  # what cannot be written down is not done; a lost key of its own it gets first
    secrets.write(needed, text)
    registry().append_audit("secret_set", f"secret/{needed.name}", why=why)
    return secrets.where(needed)


def _refuse_lost_keys(secrets: Secrets, text: str) -> None:
    try:
        given = Ring.parse(text)
    except ValueError:
        raise UsageError(
            "that is no ring of the registry's keys", hint="hermesops secrets rotate registry.key makes new keys"
        ) from None
    held = secrets.find(REGISTRY_KEY) if secrets.held(REGISTRY_KEY).is_there else None
    if held is None:
        return
    lost = parse_ring(held, secrets.where(REGISTRY_KEY)).keys.keys() - given.keys.keys()
    if lost:
        raise RefusedError(
            f"that ring lacks {', '.join(sorted(lost))}, which {secrets.where(REGISTRY_KEY)} has",
            hint="move the old one aside first if nothing needs these keys; hermesops registry check tells",
        )

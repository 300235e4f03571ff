"""Composes who signs releases here, and whose signatures count."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hermesops.errors import RefusedError
from hermesops.node.release.documents.signers import NAMESPACES

if TYPE_CHECKING:
    from hermesops.app.container import Container
    from hermesops.identity.signatures import Signers
    from hermesops.release.ports import Store
    from hermesops.release.trust import Trust
    from hermesops.settings import Environment


def trust_of(env: "Environment", store: "Store") -> "Trust":
    """Whose signatures count for the releases of a store; nothing is read but whom the environment allows."""
    from hermesops.identity.signatures import check
    from hermesops.release.trust import StoreMemory, Trust

    allowed = env.settings.allowed_signers
    return Trust(
        store,
        partial(check, revoked=env.settings.revoked_signers),
        StoreMemory(env.keys),
        vouchers=_text(allowed) if allowed else "",
        needs_vouchers=env.is_production,
    )


def first_signers(app: "Container") -> str:
    """Who is to sign where nothing was ever signed: whom the environment allows, or else the key at hand."""
    if allowed := app.env.settings.allowed_signers:
        return _text(allowed)
    return f'releases@{app.env.name} namespaces="{NAMESPACES}" {_made_signer(app).public()}\n'


def can_sign(app: "Container") -> bool:
    """Whether releases can be signed here, be it with a key that the first one makes."""
    from hermesops.secrets.catalog import RELEASE_KEY

    settings = app.env.settings
    given = settings.release_key_file or settings.operator_key
    return bool(given or app.env.is_local) or app.secrets.find(RELEASE_KEY) is not None


def signer_of(app: "Container") -> "Signers | None":
    """Who signs releases here, with a key that is there already; ``None`` where the first release makes one.

    Raises:
        RefusedError: There is nobody.
    """
    from hermesops.identity.signatures import Signers, as_file
    from hermesops.secrets.catalog import RELEASE_KEY

    settings, secrets = app.env.settings, app.secrets
    if key := settings.release_key_file or settings.operator_key:
        return Signers(key)
    text = secrets.find(RELEASE_KEY)
    if text is not None:
        return Signers(secrets.lend(RELEASE_KEY, as_file(text)))
    if app.env.is_local:
        return None
    raise RefusedError(
        f"nobody signs releases in environment {app.env.name}",
        hint="set operator_key or release_key_file, or hermesops secrets set release.key --from FILE",
    )


class KeyAtHand:
    """Signs with a key that is made or looked for when something is signed."""

    def __init__(self, app: "Container") -> None:
        self._app = app

    def sign(self, data: bytes, *, namespace: str) -> str:
        """Sign some bytes; the signature, armored."""
        return _made_signer(self._app).sign(data, namespace=namespace)


def _made_signer(app: "Container") -> "Signers":
    from hermesops.identity.signatures import Signers, as_file, fresh_key
    from hermesops.secrets.catalog import RELEASE_KEY

    return signer_of(app) or Signers(app.secrets.lend(RELEASE_KEY, as_file(app.secrets.made(RELEASE_KEY, fresh_key()))))


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise RefusedError(f"the allowed signers cannot be read from {file}", hint="hermesops settings show") from error

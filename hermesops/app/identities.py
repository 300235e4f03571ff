"""Composes what machines prove themselves with: the authority, its rows, and the way to the machines."""

from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermesops.access.authority import Authority
    from hermesops.access.certificates import Certificates
    from hermesops.app.app import App


def authority_of(app: "App") -> "Authority":
    """What signs machines' certificates; its key is made on first use, and never once machines trust another.

    Raises:
        RefusedError: The key is gone, damaged, or of an authority that nobody trusts.
    """
    from hermesops.access.authority import Authority, fresh_key
    from hermesops.access.needed import AUTHORITY_KEY

    is_first = not app.registry.list_authorities()
    text = app.secrets.made(AUTHORITY_KEY, fresh_key()) if is_first else app.secrets.read(AUTHORITY_KEY)
    source = app.secrets.held(AUTHORITY_KEY).where
    return Authority.load(text, app.registry, environment=app.env.name, source=source)


def certificates_of(app: "App") -> "Certificates | None":
    """What issues machines' certificates; ``None`` where no service is known that takes them."""
    from hermesops.access.certificates import Certificates

    url = app.endpoint.platform_url
    if not url:
        return None
    known: list[Authority] = []

    def authority() -> "Authority":
        if not known:
            known.append(authority_of(app))
        return known[0]

    life = timedelta(days=app.env.settings.certificate_days)
    return Certificates(app.registry, authority, environment=app.env.name, url=url, life=life)

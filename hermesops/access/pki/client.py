"""TLS of hermesops' own processes that connect to a service of the platform: with a certificate that is in no file."""

import ssl
from datetime import timedelta

from hermesops.access.pki.authority import Authority
from hermesops.model.access.certificate import CallerName
from hermesops.wire.tls_key import present


def client_context(authority: Authority, name: CallerName, *, roots: str, life: timedelta) -> ssl.SSLContext:
    """A TLS context that trusts ``roots`` (PEM of each) and no others, and authenticates as ``name``."""
    owned = authority.introduce(name, life=life)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(cadata=roots)
    present(context, owned.key.encode(), owned.pem.encode())
    return context

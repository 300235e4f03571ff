"""Sign-in to the served console, as an environment's settings describe it."""

import ssl
from pathlib import Path

from hermesops.access.sign_in.issuer_client import IssuerAddresses, IssuerClient
from hermesops.access.sign_in.operator_tokens import OperatorClaims, OperatorTokens
from hermesops.access.sign_in.signed_tokens import SignedTokens, TrustedIssuer
from hermesops.base.network.http import blank_context
from hermesops.errors import Hint, RefusedError, UsageError
from hermesops.model.access.console_operator import Groups
from hermesops.settings.sections import ConsoleSettings

_NEEDED = ("origin", "issuer", "client_id", "keys_url", "authorize_url", "token_url")


def issuer_client_of(console: ConsoleSettings) -> IssuerClient:
    """Asks the issuer of operators' tokens.

    Raises:
        UsageError: A setting is missing.
    """
    for name in _NEEDED:
        if not getattr(console, name):
            hint = Hint(("settings", "set", f"console.{name}", "VALUE"))
            raise UsageError(f"missing console.{name}, which the served console needs", hint=hint)
    return IssuerClient(
        IssuerAddresses(
            console.issuer, console.keys_url, console.authorize_url, console.token_url, console.client_id, console.scope
        )
    )


def operator_tokens_of(console: ConsoleSettings) -> OperatorTokens:
    """Verifies operators' ID tokens.

    Raises:
        UsageError: A setting is missing, or no group has a role.
    """
    keys = issuer_client_of(console).keys
    groups = Groups(_words(console.viewers), _words(console.operators), _words(console.admins))
    if not (groups.viewers or groups.operators or groups.admins):
        hint = Hint(("settings", "set", "console.operators", "GROUP"))
        raise UsageError("no group may use the served console", hint=hint)
    claims = OperatorClaims(
        console.client_id, console.name_claim, console.groups_claim, groups, _words(console.allowed)
    )
    return OperatorTokens(SignedTokens([TrustedIssuer(console.issuer, keys)]), claims)


def monitoring_context(folder: Path | None) -> ssl.SSLContext:
    """TLS by which the served console asks monitoring, with its own certificate.

    Args:
        folder: With ``authorities.crt``, ``client.crt`` and ``client.key``.

    Raises:
        RefusedError: They are not there, or cannot be read.
    """
    hint = Hint(("settings", "set", "console.tls_folder", "FOLDER"))
    if folder is None:
        raise RefusedError("the served console has no certificate for monitoring", hint=hint)
    try:
        context = blank_context()
        context.load_verify_locations(cafile=folder / "authorities.crt")
        context.load_cert_chain(folder / "client.crt", folder / "client.key")
    except (OSError, ssl.SSLError) as error:
        problem = f"the served console's certificate for monitoring cannot be read: {error}"
        raise RefusedError(problem, hint=hint) from error
    return context


def _words(text: str) -> frozenset[str]:
    return frozenset(word.strip() for word in text.split(",") if word.strip())

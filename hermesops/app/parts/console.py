"""The served console: its view of the registry, and operators' tokens and requests."""

import ssl
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from hermesops.access.sign_in.issuer_client import IssuerClient
    from hermesops.access.sign_in.operator_tokens import OperatorTokens
    from hermesops.agents.operator_requests.actions import OperatorAction
    from hermesops.agents.operator_requests.carrier import OperatorRequestCarrier
    from hermesops.app.connected import Connected
    from hermesops.app.container import Container
    from hermesops.observability.telemetry.platform_monitoring import PlatformMonitoring
    from hermesops.store.registry import Registry
    from hermesops.store.registry.repositories.operator_requests import OperatorRequestRows

_FILES = ("authorities.crt", "client.crt", "client.key")


def readable_registry(container: "Container") -> "Registry":
    """The registry as its reader sees it. Raises as ``open_for_reading``."""
    return container.registry_place.open_for_reading()


def monitoring(container: "Container") -> "PlatformMonitoring":
    """The platform's monitoring, by a certificate of a file."""
    from hermesops.observability.telemetry.platform_monitoring import PlatformMonitoring

    return PlatformMonitoring(container.env, partial(_context, container), lambda: True)


def _context(container: "Container", _name: str) -> ssl.SSLContext:
    """TLS with the process's own certificate, which names it.

    Raises:
        RefusedError: It cannot be read.
    """
    from hermesops.errors import Hint, RefusedError

    folder = container.env.settings.console.tls_folder
    try:
        authorities, certificate, key = (Path(folder or "/nowhere") / name for name in _FILES)
        context = ssl.create_default_context(cafile=authorities)
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        hint = Hint(("settings", "set", "console.tls_folder", "FOLDER"))
        raise RefusedError(f"the console's certificate for monitoring is not there: {error}", hint=hint) from error
    return context


def issuer_client(container: "Container") -> "IssuerClient":
    """Asks the issuer of operators' tokens.

    Raises:
        UsageError: A setting is missing.
    """
    from hermesops.access.sign_in.issuer_client import IssuerAddresses, IssuerClient
    from hermesops.errors import Hint, UsageError

    console = container.env.settings.console
    for name in ("origin", "issuer", "client_id", "keys_url", "authorize_url", "token_url"):
        if not getattr(console, name):
            hint = Hint(("settings", "set", f"console.{name}", "VALUE"))
            raise UsageError(f"missing console.{name}, which the served console needs", hint=hint)
    addresses = IssuerAddresses(
        console.issuer, console.keys_url, console.authorize_url, console.token_url, console.client_id, console.scope
    )
    return IssuerClient(addresses)


def operator_tokens(container: "Container") -> "OperatorTokens":
    """Verifies operators' ID tokens. Raises as ``issuer_client``."""
    from hermesops.access.sign_in.operator_tokens import OperatorClaims, OperatorTokens
    from hermesops.access.sign_in.signed_tokens import SignedTokens, TrustedIssuer
    from hermesops.errors import Hint, UsageError
    from hermesops.model.access.console_operator import Groups

    console, keys = container.env.settings.console, issuer_client(container).keys
    groups = Groups(_words(console.viewers), _words(console.operators), _words(console.admins))
    if not (groups.viewers or groups.operators or groups.admins):
        hint = Hint(("settings", "set", "console.operators", "GROUP"))
        raise UsageError("no group may use the served console", hint=hint)
    claims = OperatorClaims(
        console.client_id, console.name_claim, console.groups_claim, groups, _words(console.allowed)
    )
    return OperatorTokens(SignedTokens([TrustedIssuer(console.issuer, keys)]), claims)


def operator_request_rows(container: "Container") -> "OperatorRequestRows":
    """Requests of operators, as the served console adds them."""
    from hermesops.store.registry.repositories.operator_requests import OperatorRequestRows

    return OperatorRequestRows(container.registry_place.user_rows())


def carrier(connected: "Connected") -> "OperatorRequestCarrier":
    """Carries out what operators ask for in the served console."""
    from hermesops.agents.operator_requests.carrier import PROOF_S, OperatorRequestCarrier

    container = connected.container
    origin = container.env.settings.console.origin

    async def preview(action: "OperatorAction", user: str) -> str:
        from hermesops.agents.operator_requests.previews import text_of

        dry = connected.dry_run()
        return text_of(await dry.change_previews.of(await action.begin(dry.instance_requests, user, "dry run")))

    return OperatorRequestCarrier(
        registry=container.registry,
        operator_of=partial(operator_tokens(container).operator_of, age_s=PROOF_S) if origin else None,
        host=urlsplit(origin).netloc,
        requests=lambda: connected.instance_requests,
        preview=preview,
        leave=connected.operations.leave,
        hold_lease=container.hold_lease,
    )


def _words(text: str) -> frozenset[str]:
    return frozenset(word.strip() for word in text.split(",") if word.strip())

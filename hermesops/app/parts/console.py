"""The served console: its view of the registry, and operators' tokens and requests."""

from functools import cache, partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import ssl

    from hermesops.access.sign_in.issuer_client import IssuerClient
    from hermesops.access.sign_in.operator_tokens import OperatorTokens
    from hermesops.agents.operator_requests.actions import RequestedAction
    from hermesops.agents.operator_requests.carrier import OperatorRequestCarrier
    from hermesops.agents.operator_requests.links import OperatorLinks
    from hermesops.app.connected import Connected
    from hermesops.app.container import Container
    from hermesops.model.access.console_operator import ConsoleOperator
    from hermesops.model.access.operator_request import OperatorRequest
    from hermesops.model.fleet.instance import Instance
    from hermesops.model.providers.choice import ProviderChoice
    from hermesops.observability.telemetry.platform_monitoring import PlatformMonitoring
    from hermesops.store.registry import Registry
    from hermesops.store.registry.repositories.operator_requests import OperatorRequestRows


def readable_registry(container: "Container") -> "Registry":
    """The registry as its reader sees it. Raises as ``open_for_reading``."""
    return container.registry_place.open_for_reading()


def unread_model_provider(container: "Container", instance: "Instance") -> "ProviderChoice | None":
    """As ``unread``: a user's own provider is sealed with the settings, and this process opens nothing."""
    from hermesops.agents.model_providers.unread import unread

    del container
    return unread(instance)


def monitoring(container: "Container") -> "PlatformMonitoring":
    """The platform's monitoring, by the process's own certificate."""
    from hermesops.access.sign_in.console_sign_in import monitoring_context
    from hermesops.observability.telemetry.platform_monitoring import PlatformMonitoring

    def context(_name: str) -> "ssl.SSLContext":
        return monitoring_context(container.env.settings.console.tls_folder)

    return PlatformMonitoring(container.env, context, lambda: True)


def issuer_client(container: "Container") -> "IssuerClient":
    """Asks the issuer of operators' tokens. Raises as ``issuer_client_of``."""
    from hermesops.access.sign_in.console_sign_in import issuer_client_of

    return issuer_client_of(container.env.settings.console)


def operator_tokens(container: "Container") -> "OperatorTokens":
    """Verifies operators' ID tokens. Raises as ``operator_tokens_of``."""
    from hermesops.access.sign_in.console_sign_in import operator_tokens_of

    return operator_tokens_of(container.env.settings.console)


def operator_request_rows(container: "Container") -> "OperatorRequestRows":
    """Requests of operators, as the served console adds them."""
    from hermesops.store.registry.repositories.operator_requests import OperatorRequestRows

    return OperatorRequestRows(container.registry_place.user_rows())


def carrier(connected: "Connected") -> "OperatorRequestCarrier":
    """Carries out what operators ask for in the served console."""
    from hermesops.agents.operator_requests.carrier import PROOF_S, OperatorRequestCarrier

    container = connected.container
    console = container.env.settings.console
    tokens = cache(partial(operator_tokens, container))

    async def operator_of(proof: str) -> "ConsoleOperator":
        return await tokens().operator_of(proof, age_s=PROOF_S)

    def find_action(request: "OperatorRequest") -> "RequestedAction | None":
        find = container.find_operator_action
        return find(connected, request) if find is not None else None

    return OperatorRequestCarrier(
        registry=container.registry,
        operator_of=operator_of if console.origin else None,
        host=urlsplit(console.origin).netloc,
        find_action=find_action,
        hold_lease=container.hold_lease,
    )


def operator_links(container: "Container") -> "OperatorLinks":
    """Links that operators of the served console keep."""
    from hermesops.agents.operator_requests.links import OperatorLinks

    return OperatorLinks(container.registry)

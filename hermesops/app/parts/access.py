"""Parts for secrets, keys, certificates and break-glass access."""

from datetime import timedelta
from functools import cache, partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from hermesops.access.identity.break_glass import BreakGlassOrders
    from hermesops.access.identity.signatures import Signers
    from hermesops.access.pki.authority import Authority
    from hermesops.access.pki.caller_directory import CallerDirectory
    from hermesops.access.pki.callers import Callers
    from hermesops.access.pki.certificates import Certificates
    from hermesops.access.secrets.endpoint import Endpoint
    from hermesops.access.secrets.instance_keys import InstanceKeys
    from hermesops.access.secrets.service import SecretChanges
    from hermesops.access.secrets.store import Secrets
    from hermesops.access.setting_changes import SettingAudit
    from hermesops.agents.instances.credentials.certificates import (
        CertificateAuthority,
        CertificateRenewal,
        MachineCertificates,
    )
    from hermesops.agents.relay.serve import RelayService
    from hermesops.app.connected import Connected
    from hermesops.app.container import Container
    from hermesops.app.users_container import RowsContainer
    from hermesops.platform.parts.tls import HostCertificates
    from hermesops.platform.parts.user_credentials import UserCredentials


def endpoint(container: "Container") -> "Endpoint":
    """The vendor's API and the model router."""
    from hermesops.access.secrets.environment import endpoint_of

    return endpoint_of(container.env)


def secrets(container: "Container | RowsContainer") -> "Secrets":
    """Keys and passwords that hermesops itself needs."""
    from hermesops.access.secrets.environment import secrets_of

    return secrets_of(container.env)


def setting_audit(container: "Container") -> "SettingAudit":
    """Records changes of settings in the audit log."""
    from hermesops.access.setting_changes import SettingAudit

    return SettingAudit(container.registry_place)


def secret_changes(container: "Container") -> "SecretChanges":
    """Sets this environment's secrets and rotates the key that seals its registry, each with an audit entry."""
    from hermesops.access.secrets.service import SecretChanges

    return SecretChanges(
        container.secrets,
        lambda: container.registry,
        lambda: container.registry_place,
        container.hold_lease,
        container.report,
    )


def api_key_file(container: "Container") -> "Path":
    """A file with the API key, for programs that take nothing else."""
    from hermesops.access.secrets.catalog import API_KEY

    return container.endpoint.api_key_file or container.secrets.lend(API_KEY, container.endpoint.api_key)


def router_keys(container: "Container") -> tuple[bytes, ...]:
    """Keys of agents' tokens for the model router: the first signs, the others are still accepted."""
    from hermesops.access.secrets.environment import router_keys_of

    return router_keys_of(container.env, container.endpoint, container.secrets)


def model_token_life(container: "Container") -> timedelta:
    """Validity of an agent's token for the model router."""
    return timedelta(days=container.env.settings.model.token_days)


def instance_keys(connected: "Connected") -> "InstanceKeys":
    """Issues, renews and records the secrets that instances' machines hold."""
    from hermesops.access.secrets.instance_keys import InstanceKeys

    container = connected.container
    return InstanceKeys(container.registry, lambda: container.router_key, life=container.model_token_life)


def certificate_life(container: "Container") -> timedelta:
    """Validity of certificates of machines and services."""
    return timedelta(days=container.env.settings.certificate_days)


def authority(container: "Container") -> "CertificateAuthority":
    """Signs certificates of machines and services."""
    from hermesops.agents.instances.credentials.certificates import CertificateAuthority

    return CertificateAuthority(container.env, container.registry, container.secrets, certificate_life(container))


def load_authority(container: "Container") -> "Authority":
    """The authority with its key, once it is needed."""
    return container.authority.load()


def host_certificates(container: "Container") -> "HostCertificates":
    """Issues certificates of hosts of the platform as files."""
    from hermesops.platform.parts.tls import HostCertificates

    return HostCertificates(container.env.name, container.registry, partial(load_authority, container))


def user_credentials(container: "Container") -> "UserCredentials":
    """Issues keys and certificates of the users' processes of a host as files."""
    from hermesops.access.secrets.catalog import (
        BILLING_SECRET,
        CONNECTIONS_KEY,
        CONNECTOR_KEY,
        DISCORD_TOKEN,
        MESSAGES_KEY,
        SLACK_SECRET,
        SLACK_TOKEN,
        TELEGRAM_SECRET,
        TELEGRAM_TOKEN,
        WHATSAPP_KEY,
        WHATSAPP_SECRET,
        WHATSAPP_TOKEN,
    )
    from hermesops.access.secrets.keyring.ring import Ring
    from hermesops.platform.parts.connector_keys import made_key, numbers_key
    from hermesops.platform.parts.user_credentials import UserCredentials

    secrets, registry = container.secrets, container.registry
    messengers = container.env.settings.messengers
    has_connector = bool(messengers.bots)

    def keys() -> dict[str, str]:
        texts = {
            MESSAGES_KEY.name: secrets.made(MESSAGES_KEY, Ring.fresh().to_text()),
            BILLING_SECRET.name: secrets.find(BILLING_SECRET) or "",
            CONNECTIONS_KEY.name: (secrets.find(CONNECTIONS_KEY) or "").strip(),
            TELEGRAM_SECRET.name: secrets.find(TELEGRAM_SECRET) or "",
            SLACK_SECRET.name: secrets.find(SLACK_SECRET) or "",
            WHATSAPP_SECRET.name: secrets.find(WHATSAPP_SECRET) or "",
            WHATSAPP_KEY.name: numbers_key(messengers, secrets),
        }
        if has_connector:
            tokens = (TELEGRAM_TOKEN, SLACK_TOKEN, WHATSAPP_TOKEN, DISCORD_TOKEN)
            texts |= {spec.name: secrets.find(spec) or "" for spec in tokens}
            texts[CONNECTOR_KEY.name] = made_key(secrets)
        return texts

    return UserCredentials(
        keys, lambda: container.callers, lambda: "".join(registry.certificates.list_authorities()), has_connector
    )


def certificates(container: "Container") -> "Certificates":
    """Issues machines' certificates; reads the authority's key when it first does."""
    from hermesops.access.pki.certificates import Certificates
    from hermesops.access.secrets.environment import platform_url_of

    return Certificates(
        container.registry,
        cache(partial(load_authority, container)),
        environment=container.env.name,
        url=platform_url_of(container.env),
        life=certificate_life(container),
    )


def machine_certificates(container: "Container") -> "MachineCertificates":
    """Finds machines' certificates in the registry and revokes them."""
    from hermesops.agents.instances.credentials.certificates import MachineCertificates

    return MachineCertificates(container.registry)


def certificate_renewal(connected: "Connected") -> "CertificateRenewal":
    """Replaces machines' certificates before they expire, through the vendor's toolbox."""
    from hermesops.agents.instances.credentials.certificates import CertificateRenewal

    container = connected.container
    return CertificateRenewal(container.registry, connected.instance_client, container.hold_lease)


def caller_directory(container: "Container") -> "CallerDirectory":
    """Certificates of services that may call the relay."""
    from hermesops.access.pki.caller_directory import CallerDirectory

    return CallerDirectory(container.registry)


def callers(container: "Container") -> "Callers":
    """Services that may call the relay."""
    from hermesops.access.pki.callers import Callers

    authority = container.authority
    return Callers(container.registry, authority.load, environment=container.env.name, life=authority.life)


def relay(container: "Container") -> "RelayService":
    """Carries requests of the platform's services to agents."""
    from hermesops.access.secrets.environment import api_url_of
    from hermesops.agents.relay.serve import RelayService

    domain = container.env.settings.proxy_domain
    url = api_url_of(container.env)
    return RelayService(container.registry, container.authority, container.callers, url, domain)


def break_glass(container: "Container") -> "BreakGlassOrders":
    """Signs orders that open a machine's sshd in an emergency, and ends them early."""
    from hermesops.access.identity.break_glass import BreakGlassOrders

    return BreakGlassOrders(container.env, container.registry, partial(_lasting_signer, container))


def _lasting_signer(container: "Container") -> "Signers | None":
    return container.release_key.lasting()

"""The authority that signs the certificates of machines and services, and the service that machines renew theirs at."""

import socket
import ssl
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from hermesops.access.pki.authority import Authority, fresh_key, make_root, read_key
from hermesops.access.pki.certificates import Certificates
from hermesops.access.pki.client import client_context
from hermesops.access.pki.own_certificate import OwnCertificate
from hermesops.access.pki.service import DataKeys, PlatformService
from hermesops.access.secrets.catalog import AUTHORITY_KEY
from hermesops.access.secrets.store import Secrets
from hermesops.agents.instances.remote.power_control import PowerControl
from hermesops.base.fan_out import Limits, problems
from hermesops.base.files.private_file import make_secret, read_secret
from hermesops.errors import Hint, RefusedError, UsageError, require_reason
from hermesops.model.access.certificate import CallerName, Certificate
from hermesops.model.fleet.instance import Instance
from hermesops.model.fleet.unassigned_machine import MachineRole, machine_subject
from hermesops.model.ids import MachineId, instance_subject
from hermesops.observability.telemetry.addresses import ingest_url_of
from hermesops.observability.telemetry.endpoint import CERTIFICATE_S
from hermesops.serving.server import MutualTlsServer
from hermesops.settings.environment import Environment
from hermesops.store.operations.leases.keeper import LeaseKeeper
from hermesops.store.registry import Registry
from hermesops.wire.protocol import Credential

NO_URL = "nobody takes machines' certificates here: neither a platform_url is set nor a local world's"


_RENEWALS = Limits(at_once=16, slow_after_s=20.0, within_s=120.0)


@dataclass(frozen=True)
class CertificateAuthority:
    """Issues and revokes certificates of one environment's machines."""

    env: Environment
    registry: Registry
    secrets: Secrets
    life: timedelta

    def load(self) -> Authority:
        """Read its key. It is made on first use, unless machines trust another authority already.

        Raises:
            RefusedError: The key is gone, damaged, or of an authority that nobody trusts.
        """
        is_first = not self.registry.certificates.list_authorities()
        text = self.secrets.made(AUTHORITY_KEY, fresh_key()) if is_first else self.secrets.read(AUTHORITY_KEY)
        source = self.secrets.held(AUTHORITY_KEY).where
        return Authority.load(text, self.registry, environment=self.env.name, source=source)

    async def service_certificate(self, hosts: Sequence[str]) -> OwnCertificate:
        """The certificate of a service that machines or other services connect to.

        It is made once now, so that a missing key fails the command that serves, and not the first
        connection.

        Args:
            hosts: Names or addresses under which the service is found.

        Raises:
            RefusedError: The authority's key is gone, damaged, or of an authority that nobody trusts.
            UnavailableError: The registry does not answer.
        """
        own = OwnCertificate(self.load(), self.registry, hosts, self.life)
        await own.context()
        return own

    def client_context(self, name: str) -> ssl.SSLContext:
        """TLS with which a process of hermesops connects to the platform's monitoring, for an hour.

        Raises:
            RefusedError: The authority's key is gone, damaged, or of an authority that nobody trusts.
            UnavailableError: The registry does not answer.
        """
        names, authority = CallerName(self.env.name, name), self.load()
        roots = "".join(self.registry.certificates.list_authorities())
        return client_context(authority, names, roots=roots, life=timedelta(seconds=CERTIFICATE_S))

    async def serve(
        self, listener: socket.socket, certificates: Certificates, clock: Callable[[], float] = time.time
    ) -> None:
        """Answer machines until cancelled; needs neither controller nor vendor.

        Args:
            clock: Seconds since 1970, as machines are told.

        Raises:
            UsageError: Machines would not know where to find it.
        """
        if not certificates.url:
            raise UsageError(NO_URL, hint="HERMESOPS_PLATFORM_URL=https://HOST:PORT")
        own = await self.service_certificate([urlsplit(certificates.url).hostname or ""])
        service = PlatformService(
            self.registry,
            certificates,
            DataKeys(self.registry),
            environment=self.env.name,
            ingest_url=partial(ingest_url_of, self.env),
        )
        await MutualTlsServer(service.answer, own.context, clock=clock).serve(listener)

    def trust(self, file: Path) -> int:
        """Make a key for another authority, which machines trust beside the present one.

        Args:
            file: Takes the key; one that is there already is trusted as it is.

        Returns:
            How many authorities are trusted now.

        Raises:
            RefusedError: The file may be read by others, or holds no such key.
        """
        if not self.registry.certificates.list_authorities():
            self.load()
        make_secret(file, fresh_key())
        key = read_key(read_secret(file, what="authority's key"), source=str(file))
        self.registry.certificates.trust_authority(make_root(key, self.env.name))
        return len(self.registry.certificates.list_authorities())


@dataclass(frozen=True)
class Holder:
    """A machine that has, or should have, a certificate.

    Attributes:
        title: User of the instance, or name of an unassigned machine; id of a deleted one.
    """

    title: str
    machine_id: MachineId
    subject: str
    instance: Instance | None = None

    @property
    def machine_name(self) -> str:
        """The machine's name, or its id once it is deleted."""
        return self.instance.machine_name if self.instance else self.title


def holders_of(registry: Registry) -> list[Holder]:
    """Every machine that should have a certificate: instances' and the warm pools'."""
    of_instances = [
        Holder(instance.title, instance.machine_id, instance_subject(instance.id), instance)
        for instance in registry.instances.list()
        if instance.machine_id
    ]
    of_pools = [
        Holder(machine.name, machine.machine_id, machine_subject(machine.name))
        for machine in registry.unassigned.list(role=MachineRole.WARM)
        if machine.machine_id and machine.wanted
    ]
    return of_instances + of_pools


def find_holder(registry: Registry, who: str) -> Holder:
    """The machine of a user, or of that name or id.

    Raises:
        UsageError: There is none.
        RefusedError: The user has none now.
    """
    for holder in holders_of(registry):
        if who in {holder.title, holder.machine_id}:
            return holder
    instance = registry.instances.find(who)
    if instance.machine_id is None:
        raise RefusedError(f"{instance.title} has no machine now", hint=Hint(("instance", "show", who)))
    return Holder(instance.title, instance.machine_id, instance_subject(instance.id), instance)


def newest_certificates(registry: Registry) -> list[tuple[Holder, Certificate]]:
    """The newest certificate of every machine: by user, then machines without an instance."""
    holders = {holder.machine_id: holder for holder in holders_of(registry)}
    newest: dict[MachineId, Certificate] = {}
    for certificate in registry.certificates.list():
        newest.setdefault(certificate.machine_id, certificate)
    pairs = [
        (holders.get(machine_id) or Holder(machine_id, machine_id, ""), certificate)
        for machine_id, certificate in newest.items()
    ]
    return sorted(pairs, key=lambda pair: (pair[0].instance is None, pair[0].title))


@dataclass(frozen=True)
class MachineCertificates:
    """The certificates of machines: found, and revoked."""

    registry: Registry

    def newest(self) -> Sequence[tuple[Holder, Certificate]]:
        """The newest certificate of every machine: by user, then machines without an instance."""
        return newest_certificates(self.registry)

    def find_holder(self, who: str) -> Holder:
        """The machine of a user, or of that name or id.

        Raises:
            UsageError: There is none.
            RefusedError: The user has none now.
        """
        return find_holder(self.registry, who)

    def list(self, holder: Holder) -> tuple[Certificate, ...]:
        """The certificates of one machine, newest first."""
        return self.registry.certificates.list(holder.machine_id)

    def of_instance(self, instance: Instance) -> tuple[Certificate, ...]:
        """The certificates of an instance's present machine, newest first; none where it has no machine."""
        return self.registry.certificates.list(instance.machine_id) if instance.machine_id else ()

    def revoke(self, holder: Holder, *, reason: str) -> int:
        """Revoke what a machine has: no key for its data, no renewal; how many certificates that were.

        Raises:
            UsageError: There is no reason.
        """
        require_reason(reason, "identity", "revoke", holder.title)
        return self.registry.certificates.revoke(holder.machine_id, why=reason)


@dataclass(frozen=True)
class CertificateRenewal:
    """Replaces machines' certificates before they expire."""

    registry: Registry
    instance_client: PowerControl
    hold_lease: Callable[[str], LeaseKeeper]

    async def renew(self, holder: Holder) -> Credential:
        """Renew a machine's certificate through the toolbox, whatever it had.

        Raises:
            LeaseHeldError: Another process works on it.
            RefusedError: Its hermes-node is too old for certificates, or no service here takes them.
        """
        async with self.hold_lease(holder.subject) as turn:
            client = self.instance_client.with_lease(turn.lease)
            if client.certifying is None:
                raise RefusedError(NO_URL, hint=Hint(("settings", "show")))
            channel = client.channel(holder.machine_id)
            certificate = await client.certifying.certify(channel, holder.machine_id, holder.instance)
        if certificate is None:
            raise RefusedError(
                f"hermes-node on the machine of {holder.title} knows of no certificates",
                hint=Hint(("image", "build"), ", and a machine from the new image"),
            )
        return certificate

    async def renew_all(self) -> dict[str, str]:
        """Renew those of all machines; the problem of each by title, empty for none."""
        return await problems({holder.title: holder for holder in holders_of(self.registry)}, self.renew, _RENEWALS)

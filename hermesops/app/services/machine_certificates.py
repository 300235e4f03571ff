"""Composes what machines prove themselves with: the authority, its rows, and the way to the machines."""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from hermesops.errors import RefusedError, UsageError
from hermesops.fan_out import Limits, problems

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

    from hermesops.app.container import Container
    from hermesops.model.certificate import Certificate
    from hermesops.model.ids import CellName, InstanceId, MachineId
    from hermesops.node.protocol import Credential
    from hermesops.pki.authority import Authority
    from hermesops.pki.certificates import Certificates
    from hermesops.pki.server import OwnCertificate

_RENEWALS = Limits(at_once=16, slow_after_s=20.0, within_s=120.0)

_NO_URL = "nobody takes machines' certificates here: neither a platform_url is set nor a local world's"


def authority_of(app: "Container") -> "Authority":
    """What signs machines' certificates; its key is made on first use, and never once machines trust another.

    Raises:
        RefusedError: The key is gone, damaged, or of an authority that nobody trusts.
    """
    from hermesops.pki.authority import Authority, fresh_key
    from hermesops.secrets.catalog import AUTHORITY_KEY

    is_first = not app.registry.certificates.list_authorities()
    text = app.secrets.made(AUTHORITY_KEY, fresh_key()) if is_first else app.secrets.read(AUTHORITY_KEY)
    source = app.secrets.held(AUTHORITY_KEY).where
    return Authority.load(text, app.registry, environment=app.env.name, source=source)


def certificates_of(app: "Container") -> "Certificates | None":
    """What issues machines' certificates; ``None`` where no service is known that takes them."""
    from hermesops.pki.certificates import Certificates

    url = app.endpoint.platform_url
    if not url:
        return None
    known: list[Authority] = []

    def authority() -> "Authority":
        if not known:
            known.append(authority_of(app))
        return known[0]

    return Certificates(app.registry, authority, environment=app.env.name, url=url, life=life_of(app))


def life_of(app: "Container") -> timedelta:
    """For how long a certificate counts that is issued here."""
    return timedelta(days=app.env.settings.certificate_days)


async def own_certificate(app: "Container", hosts: "Sequence[str]") -> "OwnCertificate":
    """The certificate of a service of ours that machines or other services connect to.

    It is made once now, so that a missing key is an error of the command that serves, and not of the first connection.

    Args:
        app: The environment.
        hosts: Names or addresses under which the service is found.

    Raises:
        RefusedError: The authority's key is gone, damaged, or of an authority that nobody trusts.
        UnavailableError: The registry does not answer.
    """
    from hermesops.pki.server import OwnCertificate

    own = OwnCertificate(authority_of(app), app.registry, hosts, life_of(app))
    await own.context()
    return own


async def serve(app: "Container", listener: "socket.socket") -> None:
    """Answer machines until cancelled; no controller and no vendor is needed for it.

    Args:
        app: The environment.
        listener: Listens, and does not block.

    Raises:
        UsageError: Machines would not know where to find it.
    """
    from urllib.parse import urlsplit

    from hermesops.pki.server import MutualTlsServer
    from hermesops.pki.service import DataKeys, PlatformService

    certificates = certificates_of(app)
    if certificates is None:
        raise UsageError(_NO_URL, hint="HERMESOPS_PLATFORM_URL=https://HOST:PORT")
    host = urlsplit(app.endpoint.platform_url).hostname or ""
    own = await own_certificate(app, [host])
    service = PlatformService(app.registry, certificates, DataKeys(app.registry), environment=app.env.name)
    await MutualTlsServer(service.answer, own.context).serve(listener)


@dataclass(frozen=True)
class Holder:
    """A machine that has, or should have, a certificate.

    Attributes:
        title: Whose it is, or the name of a spare one.
        subject: What is leased for a change of it.
    """

    title: str
    machine_id: "MachineId"
    subject: str
    cell: "CellName | None" = None
    instance_id: "InstanceId | None" = None


class Identities:
    """Machines and their certificates.

    Args:
        app: The environment.
    """

    def __init__(self, app: "Container") -> None:
        self._app = app

    def holders(self) -> list[Holder]:
        """Every machine that should have a certificate: instances' and the warm pools'."""
        from hermesops.model.ids import instance_subject
        from hermesops.model.spare import Purpose, spare_subject

        registry = self._app.registry
        of_instances = [
            Holder(one.title, one.machine_id, instance_subject(one.id), one.cell, one.id)
            for one in registry.instances.list()
            if one.machine_id
        ]
        of_pools = [
            Holder(one.name, one.machine_id, spare_subject(one.name))
            for one in registry.spares.list(purpose=Purpose.POOL)
            if one.machine_id and one.wanted
        ]
        return of_instances + of_pools

    def find(self, who: str) -> Holder:
        """The machine of a user, or of that name or id.

        Raises:
            UsageError: There is none.
            RefusedError: The user has none now.
        """
        from hermesops.model.ids import instance_subject

        for holder in self.holders():
            if who in {holder.title, holder.machine_id}:
                return holder
        instance = self._app.registry.instances.find(who)
        if instance.machine_id is None:
            raise RefusedError(f"{instance.title} has no machine now", hint=f"hermesops instance show {who}")
        return Holder(instance.title, instance.machine_id, instance_subject(instance.id), instance.cell, instance.id)

    def newest(self) -> "list[tuple[str, Certificate]]":
        """The newest certificate of every machine, and whose it is; machines that are gone by their ids."""
        titles = {holder.machine_id: holder.title for holder in self.holders()}
        found: dict[MachineId, Certificate] = {}
        for one in self._app.registry.certificates.list():
            found.setdefault(one.machine_id, one)
        return [(titles.get(machine_id, machine_id), one) for machine_id, one in found.items()]

    async def renew(self, holder: Holder) -> "Credential":
        """Give a machine a fresh certificate through the toolbox, whatever it had.

        Raises:
            LeaseHeldError: Somebody works on it.
            RefusedError: Its hermes-node knows of no certificates, or nobody takes them here.
        """
        async with self._app.session() as session, self._app.hold_lease(holder.subject) as turn:
            reach = session.instance_client.with_lease(turn.lease)
            if reach.certifying is None:
                raise RefusedError(_NO_URL, hint="hermesops settings show")
            made = await reach.certifying.certify(
                reach.channel(holder.machine_id), holder.machine_id, cell=holder.cell, instance_id=holder.instance_id
            )
        if made is None:
            raise RefusedError(
                f"hermes-node on the machine of {holder.title} knows of no certificates",
                hint="hermesops image build, and a machine from the new image",
            )
        return made

    async def renew_all(self) -> dict[str, str]:
        """The same for every machine, some at a time; why not, by title, empty for done."""
        holders = self.holders()
        told = await problems(holders, self.renew, _RENEWALS)
        return dict(zip([holder.title for holder in holders], told, strict=True))

    def trust(self, file: Path) -> None:
        """Make a key for another authority, which machines trust beside the one they know.

        Args:
            file: Takes the key; one that is there already is trusted as it is.

        Raises:
            RefusedError: The file may be read by others, or holds no such key.
        """
        from hermesops.pki.authority import fresh_key, make_root, read_key
        from hermesops.private_file import make_secret, read_secret

        if not self._app.registry.certificates.list_authorities():
            authority_of(self._app)
        make_secret(file, fresh_key())
        key = read_key(read_secret(file, what="authority's key"), source=str(file))
        self._app.registry.certificates.trust_authority(make_root(key, self._app.env.name))

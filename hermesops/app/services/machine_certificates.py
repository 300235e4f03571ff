"""Certificates of machines: who holds them, and how they are renewed through the toolbox."""

from collections.abc import Callable
from dataclasses import dataclass

from hermesops.app.services.certificate_authority import NO_URL
from hermesops.errors import RefusedError
from hermesops.fan_out import Limits, problems
from hermesops.instances.remote.power_control import PowerControl
from hermesops.model.certificate import Certificate
from hermesops.model.ids import CellName, InstanceId, MachineId, instance_subject
from hermesops.model.spare import Purpose, spare_subject
from hermesops.node.protocol import Credential
from hermesops.operations.lease import LeaseKeeper
from hermesops.registry import Registry

_RENEWALS = Limits(at_once=16, slow_after_s=20.0, within_s=120.0)


@dataclass(frozen=True)
class Holder:
    """A machine that has, or should have, a certificate.

    Attributes:
        title: Whose it is, or the name of a spare one.
        subject: What is leased for a change of it.
    """

    title: str
    machine_id: MachineId
    subject: str
    cell: CellName | None = None
    instance_id: InstanceId | None = None


def holders_of(registry: Registry) -> list[Holder]:
    """Every machine that should have a certificate: instances' and the warm pools'."""
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
        raise RefusedError(f"{instance.title} has no machine now", hint=f"hermesops instance show {who}")
    return Holder(instance.title, instance.machine_id, instance_subject(instance.id), instance.cell, instance.id)


def newest_certificates(registry: Registry) -> list[tuple[str, Certificate]]:
    """The newest certificate of every machine, and whose it is; machines that are gone by their ids."""
    titles = {holder.machine_id: holder.title for holder in holders_of(registry)}
    found: dict[MachineId, Certificate] = {}
    for one in registry.certificates.list():
        found.setdefault(one.machine_id, one)
    return [(titles.get(machine_id, machine_id), one) for machine_id, one in found.items()]


@dataclass(frozen=True)
class CertificateRenewal:
    """Gives machines fresh certificates."""

    registry: Registry
    instance_client: PowerControl
    hold_lease: Callable[[str], LeaseKeeper]

    async def renew(self, holder: Holder) -> Credential:
        """Give a machine a fresh certificate through the toolbox, whatever it had.

        Raises:
            LeaseHeldError: Somebody works on it.
            RefusedError: Its hermes-node knows of no certificates, or nobody takes them here.
        """
        async with self.hold_lease(holder.subject) as turn:
            client = self.instance_client.with_lease(turn.lease)
            if client.certifying is None:
                raise RefusedError(NO_URL, hint="hermesops settings show")
            made = await client.certifying.certify(
                client.channel(holder.machine_id), holder.machine_id, cell=holder.cell, instance_id=holder.instance_id
            )
        if made is None:
            raise RefusedError(
                f"hermes-node on the machine of {holder.title} knows of no certificates",
                hint="hermesops image build, and a machine from the new image",
            )
        return made

    async def renew_all(self) -> dict[str, str]:
        """Renew those of all machines; the problem of each by title, empty for none."""
        holders = holders_of(self.registry)
        told = await problems(holders, self.renew, _RENEWALS)
        return dict(zip([holder.title for holder in holders], told, strict=True))

"""Composes the way back of one agent: through the registry, or with nothing but the vendor's key."""

from typing import TYPE_CHECKING

from hermesops.model.ids import MachineId, instance_subject
from hermesops.model.operation import LeaseHeldError

if TYPE_CHECKING:
    from hermesops.app.container import Container
    from hermesops.model.instance import Instance
    from hermesops.model.slot import RollbackResult


async def roll_back(
    app: "Container", instance: "Instance", *, to: str, loses: bool, even_revoked: bool, why: str
) -> "RollbackResult":
    """Put one agent back on its release before, under its lease, and write down that it was.

    Raises:
        UsageError: There is no such release on it.
        RefusedError: Somebody else works on it, rows would be lost, or the release was revoked.
        UnavailableError: It does not answer.
    """
    from hermesops.app.adapters.rollout_in_place import machine_of
    from hermesops.instances.remote.releases import ReleaseClient
    from hermesops.instances.rollback import roll_back_release

    subject, machine_id = instance_subject(instance.id), machine_of(instance)
    async with app.session() as session:
        try:
            async with app.hold_lease(subject) as keeper:
                slots = ReleaseClient(session.instance_client.channel, keeper.lease)
                going = roll_back_release(
                    slots, machine_id, to=to, loses=loses, even_revoked=even_revoked, title=instance.title
                )
                done = await keeper.guard(going)
        except LeaseHeldError as held:
            hint = f"hermesops operation list; hermesops rollback {instance.title} --direct goes past whoever is at it"
            raise LeaseHeldError(held.message, hint=hint, holder=held.holder) from held
    app.registry.rollout_targets.record_rolled_back(instance.id, done.release, before=done.before, why=why)
    return done


async def roll_back_directly(
    app: "Container", text: str, *, to: str, loses: bool, even_revoked: bool
) -> "tuple[str, RollbackResult]":
    """The same without a registry: no lease, nothing written down; the machine's name and what came of it.

    Raises:
        UsageError: No machine is meant, or more than one, or there is no such release on it.
        RefusedError: Rows would be lost, or the release was revoked.
        UnavailableError: It does not answer.
    """
    from hermesops.channel import ToolboxChannel
    from hermesops.instances.remote.releases import ReleaseClient
    from hermesops.instances.rollback import find_machine, roll_back_release

    async with app.vendor() as client:

        def channel(machine_id: MachineId) -> ToolboxChannel:
            return ToolboxChannel(client, machine_id)

        machine = await find_machine(client, channel, text, environment=app.env.name)
        slots, machine_id = ReleaseClient(channel), MachineId(machine.id)
        done = await roll_back_release(
            slots, machine_id, to=to, loses=loses, even_revoked=even_revoked, title=machine.name
        )
        return machine.name, done

"""Takes in what operators ask of instances that exist: writes the row that says so, and leaves the doing to others."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from hermesops.errors import RefusedError, UnavailableError, UsageError
from hermesops.instances.ports import Observes
from hermesops.instances.requests.settings_patch import Wish
from hermesops.instances.steps.personalise import asleep, silence, terminated
from hermesops.justavps.wire import Machine
from hermesops.model.ids import InstanceId, MachineId, instance_subject
from hermesops.model.instance import Instance, InstanceSettings, InstanceStatus
from hermesops.model.masking import changed, outline
from hermesops.model.operation import Operation, OperationKind
from hermesops.registry import Registry


class World(Observes, Protocol):
    """What has to be looked at first."""

    async def machine(self, instance: Instance) -> Machine | None:
        """The instance's machine."""


class Gateways(Protocol):
    """The gateways' units."""

    async def invocation(self, machine_id: MachineId) -> str:
        """The id of a gateway's present start."""


class Requests:
    """Turns requests into rows, under the instance's lease: refused for somebody else's means that nothing changed.

    Args:
        registry: The registry.
        world: Machines.
        gateways: Their gateways' units.
        hold_lease: Holds the lease of a subject, or refuses.
        admit: Refuses to end one of too many; else what the operation's intent shall say of that.
    """

    def __init__(
        self,
        registry: Registry,
        world: World,
        gateways: Gateways,
        hold_lease: Callable[[str], AbstractAsyncContextManager[object]],
        admit: Callable[[OperationKind, InstanceId], Mapping[str, object]] = lambda _kind, _id: {},
    ) -> None:
        self._admit = admit
        self._registry = registry
        self._world = world
        self._gateways = gateways
        self._hold_lease = hold_lease

    async def terminate(self, user_text: str, *, keeps_backup: bool, reason: str) -> Operation:
        """Record that an instance shall end now.

        Args:
            user_text: Whose, as typed.
            keeps_backup: Whether its last backup has to be made and proved first; else from here on every run of its
                cell may destroy its machine.
            reason: Why; goes into the audit.

        Raises:
            RefusedError: Somebody is working on the instance, or too many end; nothing was changed.
        """
        instance = self._registry.instances.find(user_text)
        subject = instance_subject(instance.id)
        async with self._hold_lease(subject):
            operation = self._registry.operations.open(
                OperationKind.TERMINATE,
                subject,
                intent={
                    "user": user_text,
                    "machine_name": instance.machine_name,
                    "reason": reason,
                    "keeps_backup": keeps_backup,
                    **self._admit(OperationKind.TERMINATE, instance.id),
                },
                instance_id=instance.id,
            )
            # The one that is under way may say otherwise: then that is ended first.
            if not operation.intent["keeps_backup"]:
                self._registry.instances.mark_for_deletion(instance.id, why=reason or f"terminate {operation.id}")
        return operation

    async def restart(self, user_text: str) -> Operation:
        """Record that a gateway shall be started anew, with the start it is in now.

        Raises:
            UnavailableError: Its machine is not there or does not answer.
            RefusedError: Somebody is working on the instance. In both cases nothing was changed.
        """
        instance = self._registry.instances.find(user_text)
        if instance.status is InstanceStatus.SUSPENDED:
            raise asleep(instance)
        subject = instance_subject(instance.id)
        async with self._hold_lease(subject):
            machine = await self._world.machine(instance)
            if machine is None:
                raise UnavailableError(
                    f"JustAVPS lists no machine {instance.machine_name}", hint=f"hermesops provision {user_text}"
                )
            before = await self._gateways.invocation(MachineId(machine.id))
            return self._registry.operations.open(
                OperationKind.RESTART,
                subject,
                intent={"user": user_text, "before": before},
                instance_id=instance.id,
            )

    async def configure(self, user_text: str, request: Wish | None, *, reason: str) -> Operation:
        """Record an instance's new settings and that its machine shall have them.

        Args:
            user_text: Whose, as typed.
            request: What the settings become; ``None`` means those before.
            reason: Why; goes into the audit.

        Raises:
            UsageError: No reason was given.
            RefusedError: Somebody is working on the instance, it has ended, or there is nothing to go back to.
            UnavailableError: Its machine does not answer. In all these cases nothing was changed.
        """
        if not reason.strip():
            raise UsageError(
                f"settings are a user's own; say why you change those of {user_text}",
                hint='hermesops instance settings … --reason "…"',
            )
        instance = self._registry.instances.find(user_text)
        subject = instance_subject(instance.id)
        async with self._hold_lease(subject):
            observation = await self._world.observe(instance.id)
            if observation.instance.status is InstanceStatus.TERMINATED:
                raise terminated(instance)
            if observation.instance.status is InstanceStatus.SUSPENDED:
                raise asleep(instance)
            if observation.machine is None or observation.node is None:
                raise silence(instance)
            held = self._registry.instance_secrets.settings(instance.id)
            wanted = request(held) if request else self._settings_before(instance)
            intent = {
                "user": user_text,
                "reason": reason.strip(),
                "changed": changed(held, wanted),
                "settings": outline(wanted),
            }
            return self._registry.settings_changes.change(
                instance.id, wanted, subject=subject, intent=intent, why=reason.strip()
            )

    def _settings_before(self, instance: Instance) -> InstanceSettings:
        before = self._registry.instance_secrets.settings_before(instance.id)
        if before is None:
            raise RefusedError(f"the settings of {instance.title} were never changed: there is nothing to go back to")
        return before

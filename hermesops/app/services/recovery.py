"""Composes what gives machines back to instances, removes orphans, and rebuilds a registry that was lost."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hermesops.app.container import Container
    from hermesops.channel import Channel
    from hermesops.drift.machine_identity import Forgotten, Generation
    from hermesops.drift.orphans import Holder
    from hermesops.drift.rebuild import Rebuild
    from hermesops.justavps import Client, Machine
    from hermesops.model.ids import CellName, InstanceId, MachineId, MachineName
    from hermesops.model.recovery import Recovered
    from hermesops.registry import Registry

_AT_ONCE, _SLOW_S, _LONGEST_S = 16, 10.0, 120.0
"""Machines that are asked at once, and the seconds for which one holds up others and for which it is asked."""


class Orphans:
    """Machines of ours that no instance is on.

    Args:
        app: The environment.
        client: JustAVPS.
    """

    def __init__(self, app: "Container", client: "Client") -> None:
        self._app = app
        self._client = client

    async def find(self, name: str, machine_id: str = "") -> "Machine":
        """The orphan that is meant; see ``drift.orphans.chosen``."""
        from hermesops.drift.orphans import chosen

        return chosen(await self._all(), name, machine_id)

    async def _all(self) -> "list[Machine]":
        from hermesops.drift.fleet_snapshot import Rented

        registry = self._app.registry
        # Spares before and after: what changes hands meanwhile is in one of the three, and so no orphan.
        before, rows, after = registry.spares.list(), registry.fleet.list_ordered(), registry.spares.list()
        machines = Rented(await self._client.list_machines())
        return machines.orphans(rows, (*before, *after), self._app.env.name)

    async def adopt(self, machine: "Machine", *, reason: str, contested: bool = False) -> str:
        """Give an orphan to the instance it says it belongs to; one line about what was done.

        Args:
            machine: The orphan.
            reason: Why, for the audit.
            contested: Whether a person says that it is the right one, whatever it or other orphans can prove.
        """
        from hermesops.drift.orphans import Recover, adoption
        from hermesops.model.ids import instance_subject

        told, holder = await self._asked(machine)
        rivals = [] if contested else await self._rivals(told)
        decided = adoption(told, holder, rivals=rivals, contested=contested)
        registry = self._app.registry
        instance_id = decided.instance.id if isinstance(decided, Recover) else decided.instance_id
        async with self._app.hold_lease(instance_subject(instance_id)):
            if isinstance(decided, Recover):
                if not registry.recovery.recover_instance(decided.instance, why=reason):
                    raise _has_another(decided.instance)
                return f"{machine.name} is instance {instance_id} of user {decided.instance.user_id} again"
            taken = decided.machine
            registry.recovery.take_machine(instance_id, taken.machine_id, taken.machine_name, why=reason)
            return f"instance {instance_id} is on {machine.name} now"

    async def remove(self, machine: "Machine", *, forget: bool, reason: str) -> None:
        """Destroy an orphan for good; written down before it is done.

        Raises:
            RefusedError: It holds, or may hold, a user's memory, and that was not named.
        """
        from hermesops.drift.orphans import refuse_removal

        if not forget:
            refuse_removal(*await self._asked(machine))
        async with self._app.hold_lease(f"machine/{machine.id}"):
            self._app.registry.audit.append(
                "orphan_removed", f"machine/{machine.name}", why=reason, before={"id": machine.id, "forget": forget}
            )
            await self._client.delete_machine(machine.id)

    async def _asked(self, machine: "Machine") -> "tuple[Recovered | Forgotten, Holder | None]":
        from hermesops.drift.machine_identity import Forgotten
        from hermesops.drift.orphans import Holder

        (told,) = await read_identities(self._app, self._client, [machine])
        if isinstance(told, Forgotten):
            return told, None
        row = next((i for i in self._app.registry.instances.list(terminated=True) if i.id == told.id), None)
        if row is None:
            return told, None
        own = (row.machine_id, row.machine_name)
        machines = await self._client.list_machines()
        held = next((one for one in machines if (one.id, one.name) == own and one.id != machine.id), None)
        return told, Holder(row, held is not None, await self._doubt(held, told.id) if held else "")

    async def _doubt(self, machine: "Machine", instance_id: "InstanceId") -> str:
        """Why a machine does not prove that it is the instance's; empty when it does."""
        from hermesops.drift.machine_identity import Forgotten

        (told,) = await read_identities(self._app, self._client, [machine])
        if isinstance(told, Forgotten):
            return told.why
        return told.doubt or ("" if told.id == instance_id else f"it says that it is instance {told.id}")

    async def _rivals(self, told: "Recovered | Forgotten") -> "list[Recovered]":
        """Other orphans that say that they are the same instance, or of the same user."""
        from hermesops.drift.machine_identity import Forgotten

        if isinstance(told, Forgotten):
            return []
        others = [one for one in await self._all() if one.id != told.machine_id]
        return [
            one
            for one in await read_identities(self._app, self._client, others)
            if not isinstance(one, Forgotten) and (one.id == told.id or one.user_id == told.user_id)
        ]


class Rebuilding:
    """A registry made anew from vendor and machines.

    Args:
        app: The environment.
    """

    def __init__(self, app: "Container") -> None:
        self._app = app

    async def plan(self, aliases: "Sequence[str]") -> "Rebuild":
        """Ask every machine of ours what it remembers; nothing is changed anywhere, and no registry is opened."""
        from hermesops.drift.rebuild import plan_rebuild
        from hermesops.image.machines import is_build_machine
        from hermesops.model.ids import is_machine_name

        name = self._app.env.name
        async with self._app.vendor() as client:
            machines = [
                machine
                for machine in await client.list_machines()
                if is_machine_name(machine.name, name) and not is_build_machine(machine.name, name)
            ]
            self._app.tell(f"asking {len(machines)} machines what they remember")
            told = await read_identities(self._app, client, machines)
        return plan_rebuild(told, aliases=aliases, in_stacks=await self._in_stacks())

    def require_loss(self) -> None:
        """Go on only where there is no registry that is whole and has something in it.

        Raises:
            RefusedError: There is one.
        """
        from hermesops.errors import BrokenInvariantError, RefusedError

        place = self._app.registry_place
        if place.file and not place.file.exists():
            return  # opening it would make one
        try:
            holds = place.open().audit.list(limit=1)
        except BrokenInvariantError:
            return  # gone though there was one, or damaged
        if holds:
            raise RefusedError(
                f"the registry of {self._app.env.name} is whole: rebuilding it would forget what only it knows",
                hint="hermesops registry check; hermesops fleet adopt NAME takes single machines in",
            )

    def apply(self, rebuild: "Rebuild", *, reason: str) -> int:
        """Write the new registry, under a new epoch; how many instances it holds.

        What is left of a damaged SQLite file is set aside, not deleted.

        Raises:
            RefusedError: There is a registry that is whole and not empty.
        """
        from hermesops.registry.maintenance.restore import set_aside

        self.require_loss()
        place = self._app.registry_place
        if place.file:
            set_aside(place.file)
        # The anchor may be lost too. Epochs rise by one: no other one has come as far as the minutes since 1970.
        minutes = int(datetime.now(UTC).timestamp() // 60)
        registry: Registry = place.open_anew(reason, above=minutes)
        return sum(registry.recovery.recover_instance(one, why=reason) for one in rebuild.instances)

    async def _in_stacks(self) -> "dict[MachineName, CellName]":
        """Machines that the states of cells hold, where any are left."""
        from hermesops.cells.stack.state import PROJECT, machines_in
        from hermesops.errors import HermesError
        from hermesops.model.ids import CellName

        held = {}
        try:
            for stack in await self._app.engine.stacks(PROJECT):
                state = await self._app.engine.export(stack)
                held.update(dict.fromkeys(machines_in(state), CellName(stack.stack)))
        except HermesError as error:
            self._app.tell(f"the stacks cannot be read: {error.message}")
        return held


async def read_identities(
    app: "Container", client: "Client", machines: "Sequence[Machine]"
) -> "list[Recovered | Forgotten]":
    """What each machine says of itself, in their order; one that hangs costs only its own answer."""
    from hermesops.drift.machine_identity import Forgotten, read_identity
    from hermesops.errors import HermesError
    from hermesops.fan_out import Limits, fan_out
    from hermesops.model.ids import MachineName

    channel, read = channel_to(client), generation_of(app)

    async def one(machine: "Machine") -> "Recovered | Forgotten":
        return await read_identity(channel(_id(machine)), machine, read)

    answers = await fan_out(machines, one, Limits(_AT_ONCE, slow_after_s=_SLOW_S, within_s=_LONGEST_S))
    return [
        Forgotten(_id(machine), MachineName(machine.name), said.message) if isinstance(said, HermesError) else said
        for machine, said in zip(machines, answers, strict=True)
    ]


def channel_to(client: "Client") -> "Callable[[MachineId], Channel]":
    """Ways to machines."""
    from hermesops.channel import ToolboxChannel

    return lambda machine_id: ToolboxChannel(client, machine_id)


def generation_of(app: "Container") -> "Generation":
    """Reads tokens for the model router."""
    from functools import partial

    from hermesops.model.route import read_token

    return partial(read_token, app.router_key)


def _id(machine: "Machine") -> "MachineId":
    from hermesops.model.ids import MachineId

    return MachineId(machine.id)


def _has_another(one: "Recovered") -> Exception:
    from hermesops.errors import RefusedError

    return RefusedError(
        f"user {one.user_id} has another living instance than {one.id}, which {one.machine_name} says it is",
        hint=f"hermesops instance show {one.user_id}, then hermesops fleet remove-orphan {one.machine_name}",
    )

"""Repairs after losses: adopts and removes orphans, and rebuilds a lost registry."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import UTC, datetime

from hermesops.app.container_parts.registry import RegistryPlace
from hermesops.cells.stack.state import PROJECT, machines_in
from hermesops.channel import ToolboxChannel
from hermesops.drift.fleet_snapshot import Rented
from hermesops.drift.machine_identity import Forgotten, read_identity
from hermesops.drift.orphans import Holder, Recover, adoption, chosen, doubt_of, refuse_removal, rivals_of
from hermesops.drift.rebuild import Rebuild, plan_rebuild
from hermesops.engine.interface import Engine
from hermesops.errors import BrokenInvariantError, HermesError, Hint, RefusedError
from hermesops.fan_out import Limits, fan_out
from hermesops.image.machines import is_build_machine
from hermesops.justavps import Client, Machine
from hermesops.model.ids import CellName, MachineId, MachineName, instance_subject, is_machine_name
from hermesops.model.recovery import Recovered
from hermesops.model.route import ModelToken, read_token
from hermesops.operations.lease import LeaseKeeper
from hermesops.registry import Registry
from hermesops.registry.maintenance.restore import set_aside

_AT_ONCE, _SLOW_S, _LONGEST_S = 16, 10.0, 120.0
"""Machines that are asked at once, and the seconds for which one holds up others and for which it is asked."""


async def read_identities(
    client: Client, router_keys: Callable[[], Sequence[bytes]], machines: Sequence[Machine]
) -> list[Recovered | Forgotten]:
    """What each machine says of itself, in their order; one that hangs costs only its own answer.

    Args:
        router_keys: Reads what signed agents' tokens for the model router: they prove which instance a machine is.
    """
    keys = router_keys()

    def read(text: str) -> ModelToken | None:
        return next((token for key in keys if (token := read_token(key, text))), None)

    async def one(machine: Machine) -> Recovered | Forgotten:
        return await read_identity(ToolboxChannel(client, MachineId(machine.id)), machine, read)

    answers = await fan_out(machines, one, Limits(_AT_ONCE, slow_after_s=_SLOW_S, within_s=_LONGEST_S))
    return [
        Forgotten(MachineId(machine.id), MachineName(machine.name), said.message)
        if isinstance(said, HermesError)
        else said
        for machine, said in zip(machines, answers, strict=True)
    ]


@dataclass(frozen=True)
class Orphans:
    """Machines of this environment without an instance."""

    environment: str
    registry: Registry
    client: Client
    read: Callable[[Sequence[Machine]], Awaitable[list[Recovered | Forgotten]]]
    hold_lease: Callable[[str], LeaseKeeper]

    async def find(self, name: str, machine_id: str = "") -> Machine:
        """The orphan that is meant; see ``drift.orphans.chosen``."""
        return chosen(await self._all(), name, machine_id)

    async def _all(self) -> list[Machine]:
        registry = self.registry
        # Unassigned machines before and after: what is assigned meanwhile is in one of the three.
        before, rows, after = registry.unassigned.list(), registry.fleet.list_ordered(), registry.unassigned.list()
        machines = Rented(await self.client.list_machines())
        return machines.orphans(rows, (*before, *after), self.environment)

    async def adopt(self, machine: Machine, *, reason: str, contested: bool = False) -> str:
        """Assign an orphan to the instance that it reports; returns one line about it.

        Args:
            contested: Whether an operator decided that it is the right one, whatever proofs it or others have.
        """
        told, holder = await self._asked(machine)
        rivals: list[Recovered] = []
        if not contested and isinstance(told, Recovered):
            others = [one for one in await self._all() if one.id != machine.id]
            rivals = rivals_of(told, await self.read(others))
        decided = adoption(told, holder, rivals=rivals, contested=contested)
        registry = self.registry
        instance_id = decided.instance.id if isinstance(decided, Recover) else decided.instance_id
        async with self.hold_lease(instance_subject(instance_id)):
            if isinstance(decided, Recover):
                if not registry.recovery.recover_instance(decided.instance, why=reason):
                    raise RefusedError(
                        f"user {decided.instance.user_id} has another living instance than {instance_id}, which "
                        f"{machine.name} says it is",
                        hint=Hint(
                            ("instance", "show", decided.instance.user_id),
                            ", then",
                            ("fleet", "remove-orphan", machine.name),
                        ),
                    )
                return f"{machine.name} is instance {instance_id} of user {decided.instance.user_id} again"
            taken = decided.machine
            registry.recovery.take_machine(instance_id, taken.machine_id, taken.machine_name, why=reason)
            return f"instance {instance_id} is on {machine.name} now"

    async def remove(self, machine: Machine, *, forget: bool, reason: str) -> None:
        """Destroy an orphan for good; written down before it is done.

        Raises:
            RefusedError: It holds, or may hold, a user's memory, and that was not named.
        """
        if not forget:
            refuse_removal(*await self._asked(machine))
        async with self.hold_lease(f"machine/{machine.id}"):
            self.registry.audit.append(
                "orphan_removed", f"machine/{machine.name}", why=reason, before={"id": machine.id, "forget": forget}
            )
            await self.client.delete_machine(machine.id)

    async def _asked(self, machine: Machine) -> tuple[Recovered | Forgotten, Holder | None]:
        (told,) = await self.read([machine])
        if isinstance(told, Forgotten):
            return told, None
        row = next((i for i in self.registry.instances.list(terminated=True) if i.id == told.id), None)
        if row is None:
            return told, None
        own = (row.machine_id, row.machine_name)
        machines = await self.client.list_machines()
        held = next((one for one in machines if (one.id, one.name) == own and one.id != machine.id), None)
        if held is None:
            return told, Holder(row, has_machine=False)
        (answer,) = await self.read([held])
        return told, Holder(row, has_machine=True, machine_doubt=doubt_of(answer, told.id))


@dataclass(frozen=True)
class RegistryRebuild:
    """Rebuilds a registry from vendor and machines."""

    environment: str
    place: RegistryPlace
    vendor: Callable[[], AbstractAsyncContextManager[Client]]
    engine: Callable[[], Engine]
    router_keys: Callable[[], Sequence[bytes]]
    report: Callable[[str], None]

    async def plan(self, aliases: Sequence[str]) -> Rebuild:
        """Ask every machine of the environment what it remembers; changes nothing and opens no registry."""
        name = self.environment
        async with self.vendor() as client:
            machines = [
                machine
                for machine in await client.list_machines()
                if is_machine_name(machine.name, name) and not is_build_machine(machine.name, name)
            ]
            self.report(f"asking {len(machines)} machines what they remember")
            told = await read_identities(client, self.router_keys, machines)
        return plan_rebuild(told, aliases=aliases, in_stacks=await self._in_stacks())

    def require_loss(self) -> None:
        """Refuse while there is an intact registry with content.

        Raises:
            RefusedError: There is one.
        """
        place = self.place
        if place.file and not place.file.exists():
            return  # opening it would make one
        try:
            holds = place.open().audit.list(limit=1)
        except BrokenInvariantError:
            return  # missing though there was one, or damaged
        if holds:
            raise RefusedError(
                f"the registry of {self.environment} is whole: rebuilding it would forget what only it knows",
                hint=Hint(("registry", "check"), ";", ("fleet", "adopt", "NAME"), "takes single machines in"),
            )

    def apply(self, rebuild: Rebuild, *, reason: str) -> int:
        """Write the new registry, under a new epoch; how many instances it holds.

        What is left of a damaged SQLite file is set aside, not deleted.

        Raises:
            RefusedError: There is a registry that is whole and not empty.
        """
        self.require_loss()
        place = self.place
        if place.file:
            set_aside(place.file)
        # The anchor may be lost too. Epochs rise by one, so the minutes since 1970 exceed every earlier epoch.
        minutes = int(datetime.now(UTC).timestamp() // 60)
        registry = place.open_anew(reason, above=minutes)
        return sum(registry.recovery.recover_instance(one, why=reason) for one in rebuild.instances)

    async def _in_stacks(self) -> dict[MachineName, CellName]:
        """Machines that the states of cells hold, where any are left."""
        held = {}
        try:
            engine = self.engine()
            for stack in await engine.stacks(PROJECT):
                state = await engine.export(stack)
                held.update(dict.fromkeys(machines_in(state), CellName(stack.stack)))
        except HermesError as error:
            self.report(f"the stacks cannot be read: {error.message}")
        return held

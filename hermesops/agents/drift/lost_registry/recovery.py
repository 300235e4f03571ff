"""Repairs after losses: adopts and removes orphans, and rebuilds a lost registry."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum

from hermesops.access.registry_place import RegistryPlace
from hermesops.agents.backup.recovery_records import StoredRecords
from hermesops.agents.cells.stack.state import PROJECT, machines_in
from hermesops.agents.drift.fleet_snapshot import Rented
from hermesops.agents.drift.lost_registry.rebuild import Rebuild, Records, plan_rebuild
from hermesops.agents.drift.machine_identity import Forgotten, read_identity
from hermesops.agents.drift.orphans import Holder, Recover, Take, adoption, chosen, doubt_of, refuse_removal, rivals_of
from hermesops.agents.instances.remote import node_commands
from hermesops.base.fan_out import Limits, fan_out
from hermesops.base.narration import counted
from hermesops.errors import BrokenInvariantError, HermesError, Hint, RefusedError, UsageError, problem_of
from hermesops.infra.engine.interface import Engine
from hermesops.machines.image.machines import is_build_machine
from hermesops.model.billing.route import ModelToken, read_token
from hermesops.model.ids import CellName, InstanceId, MachineId, MachineName, UserId, instance_subject, is_machine_name
from hermesops.model.recovery.recovered import Recovered
from hermesops.store.operations.leases.keeper import LeaseKeeper
from hermesops.store.registry import Registry
from hermesops.store.registry.maintenance.restore import set_aside
from hermesops.vendor.channel import ToolboxChannel
from hermesops.vendor.justavps import Client, Machine

_AT_ONCE, _SLOW_S, _LONGEST_S = 16, 10.0, 120.0
"""Machines that are asked at once, and the seconds for which one holds up others and for which it is asked."""


async def read_identities(
    client: Client, router_keys: Callable[[], Sequence[bytes]], machines: Sequence[Machine]
) -> list[Recovered | Forgotten]:
    """Ask machines for their identity, in their order; one that hangs costs only its own answer.

    Args:
        router_keys: Reads the keys that signed agents' tokens for the model router: a token proves its instance.
    """
    keys = router_keys()

    def read(text: str) -> ModelToken | None:
        return next((token for key in keys if (token := read_token(key, text))), None)

    async def identify(machine: Machine) -> Recovered | Forgotten:
        return await read_identity(ToolboxChannel(client, MachineId(machine.id)), machine, read)

    answers = await fan_out(machines, identify, Limits(_AT_ONCE, slow_after_s=_SLOW_S, within_s=_LONGEST_S))
    return [
        Forgotten(MachineId(machine.id), MachineName(machine.name), answer.message)
        if isinstance(answer, HermesError)
        else answer
        for machine, answer in zip(machines, answers, strict=True)
    ]


async def _serving(client: Client, identities: Sequence[Recovered | Forgotten]) -> dict[MachineId, bool]:
    """Of machines that say that they are the same instance, whether their gateways are not fenced."""
    claims = [claim for claim in identities if isinstance(claim, Recovered)]
    same = Counter(claim.id for claim in claims)
    contested = [claim.machine_id for claim in claims if same[claim.id] > 1]

    async def is_serving(machine_id: MachineId) -> bool:
        status = await node_commands.status(ToolboxChannel(client, machine_id), timeout_s=_SLOW_S)
        return status is not None and not status.get("fenced")

    answers = await fan_out(contested, is_serving, Limits(_AT_ONCE, slow_after_s=_SLOW_S, within_s=_LONGEST_S))
    answered = zip(contested, answers, strict=True)
    return {machine_id: answer for machine_id, answer in answered if not isinstance(answer, HermesError)}


@dataclass(frozen=True)
class Orphans:
    """Machines of this environment without an instance."""

    environment: str
    registry: Registry
    client: Client
    read: Callable[[Sequence[Machine]], Awaitable[list[Recovered | Forgotten]]]
    hold_lease: Callable[[str], LeaseKeeper]
    take_back: Callable[[InstanceId], Awaitable[object]]

    async def find(self, name: str, machine_id: str = "") -> Machine:
        """The orphan that is meant; see ``drift.orphans.chosen``."""
        return chosen(await self._all(), name, machine_id)

    async def is_there(self, name: str, machine_id: str = "") -> bool:
        """Whether there is an orphan of that name, and of that id where one is given."""
        return any(orphan.name == name and machine_id in {"", orphan.id} for orphan in await self._all())

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
        decided, registry = await self.adoption_of(machine, contested=contested), self.registry
        instance_id = adopted_by(decided)
        async with self.hold_lease(instance_subject(instance_id)):
            if isinstance(decided, Recover):
                if not registry.recovery.recover_instance(decided.instance, why=reason):
                    raise RefusedError(
                        f"user {decided.instance.user_id} already has another instance than {instance_id}, which "
                        f"{machine.name} reports",
                        hint=Hint(
                            ("instance", "show", decided.instance.user_id),
                            ", then",
                            ("fleet", "repair", "remove-orphan", machine.name),
                        ),
                    )
                known = f"{machine.name} is instance {instance_id} of user {decided.instance.user_id} again"
                problem = await problem_of(self.take_back(instance_id))
                return f"{known}; its recovery record was not restored: {problem}" if problem else known
            taken = decided.machine
            registry.recovery.take_machine(instance_id, taken.machine_id, taken.machine_name, why=reason)
            return f"instance {instance_id} is on {machine.name} now"

    async def adoption_of(self, machine: Machine, *, contested: bool = False) -> Recover | Take:
        """How an orphan gets an instance; raises as ``adoption``, and changes nothing."""
        identity, holder = await self._asked(machine)
        rivals: list[Recovered] = []
        if not contested and isinstance(identity, Recovered):
            others = [orphan for orphan in await self._all() if orphan.id != machine.id]
            rivals = rivals_of(identity, await self.read(others))
        return adoption(identity, holder, rivals=rivals, contested=contested)

    async def refuse_removal(self, machine: Machine, *, forget: bool) -> None:
        """Return if an orphan may be destroyed.

        Raises:
            RefusedError: It holds, or may hold, a user's memory, and that was not named.
        """
        if not forget:
            refuse_removal(*await self._asked(machine))

    async def remove(self, machine: Machine, *, forget: bool, reason: str) -> None:
        """Destroy an orphan for good; written down before it is done. Raises as ``refuse_removal``."""
        await self.refuse_removal(machine, forget=forget)
        async with self.hold_lease(f"machine/{machine.id}"):
            self.registry.audit.append(
                "orphan_removed", f"machine/{machine.name}", why=reason, before={"id": machine.id, "forget": forget}
            )
            await self.client.delete_machine(machine.id)

    async def _asked(self, machine: Machine) -> tuple[Recovered | Forgotten, Holder | None]:
        (identity,) = await self.read([machine])
        if isinstance(identity, Forgotten):
            return identity, None
        row = next((i for i in self.registry.instances.list(terminated=True) if i.id == identity.id), None)
        if row is None:
            return identity, None
        own = (row.machine_id, row.machine_name)
        machines = await self.client.list_machines()
        own_machine = next(
            (listed for listed in machines if (listed.id, listed.name) == own and listed.id != machine.id), None
        )
        if own_machine is None:
            return identity, Holder(row, has_machine=False)
        (answer,) = await self.read([own_machine])
        return identity, Holder(row, has_machine=True, machine_doubt=doubt_of(answer, identity.id))


def adopted_by(decided: Recover | Take) -> InstanceId:
    """The instance that gets a machine."""
    return decided.instance.id if isinstance(decided, Recover) else decided.instance_id


@dataclass(frozen=True)
class OrphanRepairs:
    """Repairs of machines without an instance, by name.

    Attributes:
        connect: Connects to JustAVPS, for one repair.
    """

    connect: Callable[[], AbstractAsyncContextManager[Orphans]]

    async def adopt(self, name: str, machine_id: str = "", *, contested: bool, reason: str) -> str:
        """Assign an orphan to the instance that it reports; returns one line about it.

        Args:
            machine_id: Its id, where two machines have the name.
            contested: As of ``Orphans.adopt``.
        """
        async with self.connect() as orphans:
            return await orphans.adopt(await orphans.find(name, machine_id), reason=reason, contested=contested)

    async def preview_adoption(self, name: str, machine_id: str = "", *, contested: bool) -> InstanceId:
        """The instance to which ``adopt`` would assign an orphan now; raises as it does, and changes nothing."""
        async with self.connect() as orphans:
            machine = await orphans.find(name, machine_id)
            return adopted_by(await orphans.adoption_of(machine, contested=contested))

    async def preview_removal(self, name: str, machine_id: str = "", *, forget: bool) -> Machine:
        """The machine that ``remove`` would destroy now; raises as it does, and changes nothing."""
        async with self.connect() as orphans:
            machine = await orphans.find(name, machine_id)
            await orphans.refuse_removal(machine, forget=forget)
            return machine

    async def is_there(self, name: str, machine_id: str = "") -> bool:
        """Whether there is an orphan of that name, and of that id where one is given."""
        async with self.connect() as orphans:
            return await orphans.is_there(name, machine_id)

    async def remove(
        self, name: str, machine_id: str = "", *, forget: bool, reason: str, consent: Callable[[Machine], None]
    ) -> None:
        """Destroy an orphaned machine and its disk for good.

        Args:
            machine_id: As of ``adopt``.
            consent: Asks the operator about the machine that was found; raises to keep it.

        Raises:
            RefusedError: As ``Orphans.remove``.
        """
        async with self.connect() as orphans:
            machine = await orphans.find(name, machine_id)
            consent(machine)
            await orphans.remove(machine, forget=forget, reason=reason)


_SUBJECT = "registry/rebuild"
_BEGUN = "registry_rebuild_begun"


class RegistryState(Enum):
    """State of the registry before a rebuild."""

    LOST = "missing, damaged or empty"
    BEGUN = "a rebuild was cut short"
    WHOLE = "intact, with content"


@dataclass(frozen=True)
class RegistryRebuild:
    """Rebuilds a registry from vendor and machines."""

    environment: str
    place: RegistryPlace
    vendor: Callable[[], AbstractAsyncContextManager[Client]]
    engine: Callable[[], Engine]
    router_keys: Callable[[], Sequence[bytes]]
    records: Callable[[], StoredRecords | None]
    report: Callable[[str], None]

    async def plan(self, aliases: Sequence[str], state: RegistryState = RegistryState.LOST) -> Rebuild:
        """Read the identity of every machine of the environment; changes nothing, and opens no lost registry.

        Args:
            state: Of the registry, as ``state`` found it.
        """
        users = self._users() if state is RegistryState.WHOLE else None
        name = self.environment
        async with self.vendor() as client:
            machines = [
                machine
                for machine in await client.list_machines()
                if is_machine_name(machine.name, name) and not is_build_machine(machine.name, name)
            ]
            self.report(f"asking {counted(len(machines), 'machine')} for their identity")
            identities = await read_identities(client, self.router_keys, machines)
            serving = await _serving(client, identities)
        records = await self._records([identity.id for identity in identities if isinstance(identity, Recovered)])
        stacks = await self._in_stacks()
        return plan_rebuild(
            identities,
            aliases=aliases,
            in_stacks=stacks,
            records=records,
            serving=serving,
            users=users,
            environment=name,
        )

    def _users(self) -> dict[UserId, str]:
        registry = self.place.open()
        try:
            return {user.id: user.alias for user in registry.users.list() if user.alias}
        finally:
            registry.close()

    async def _records(self, claimed: Sequence[InstanceId]) -> Records:
        """The recovery records, and which of the claimed instances have a repository and none."""
        stored = self.records()
        if stored is None:
            return Records()
        try:
            sealer = self.place.sealer()
        except HermesError as error:
            hint = Hint(("secrets", "check", "registry.key"), "; then", ("job", "run", "recovery-records"))
            return Records(problem=error.message, hint=hint)
        try:
            self.report("reading recovery records from the object store")
            newest = await stored.all(sealer)
            others = [id_ for id_ in dict.fromkeys(claimed) if id_ not in newest.records and id_ not in newest.unread]
            locked = [id_ for id_ in others if await stored.has_repository(id_)]
        except HermesError as error:
            return Records(problem=error.message)
        return Records(newest.records, newest.unread, frozenset(locked))

    def state(self, over: str = "") -> RegistryState:
        """Find the state of the registry; refuses an intact one that ``over`` does not name.

        A rebuild that was killed is continued.

        Raises:
            UsageError: ``over`` names another environment.
            RefusedError: There is one, and it is not named.
        """
        if over and over != self.environment:
            raise UsageError(f"{over} is another environment than this one, {self.environment}", field="over")
        state = self._state()
        if state is RegistryState.WHOLE and not over:
            name = self.environment
            raise RefusedError(
                f"the registry of {name} is intact and may contain more than machines report",
                hint=Hint(
                    ("registry", "rebuild", "--over", name),
                    "copies it first, then adds missing instances;",
                    ("fleet", "repair", "adopt", "NAME"),
                    "adopts a single machine",
                ),
            )
        return state

    def _state(self) -> RegistryState:
        if self.place.file and not self.place.file.exists():
            return RegistryState.LOST  # opening it would make one
        try:
            registry = self.place.open()
        except BrokenInvariantError:
            return RegistryState.LOST  # missing though there was one, or damaged
        try:
            newest = registry.audit.list(limit=2)
            if not newest:
                return RegistryState.LOST
            if [entry.action for entry in newest] == ["epoch_opened"]:
                return RegistryState.BEGUN
            done = (entry.action for entry in registry.audit.list(subject=_SUBJECT, limit=1))
            return RegistryState.BEGUN if next(done, "") == _BEGUN else RegistryState.WHOLE
        finally:
            registry.close()

    def apply(self, rebuild: Rebuild, *, over: str = "", reason: str) -> int:
        """Write missing rows into the registry, a new one under a new epoch; returns the number of added instances.

        A damaged SQLite file is set aside; a whole one is copied first, and keeps its rows and audit.
        Killed anywhere, it goes on when it is repeated.

        Raises:
            RefusedError: There is a registry that is whole, and ``over`` does not name it.
        """
        registry = self._opened(self.state(over), reason)
        try:
            registry.audit.append(_BEGUN, _SUBJECT, why=reason)
            added = sum(registry.recovery.recover_instance(instance, why=reason) for instance in rebuild.instances)
            for record in rebuild.records:
                registry.recovery_records.take_back(record)
            for instance in rebuild.instances:
                registry.recovery.call_user(instance.user_id, instance.user_alias, why=reason)
            after: dict[str, object] = {"instances": added, "records": len(rebuild.records)}
            registry.audit.append("registry_rebuilt", _SUBJECT, why=reason, after=after)
        finally:
            registry.close()
        return added

    def _opened(self, state: RegistryState, reason: str) -> Registry:
        place = self.place
        if state is RegistryState.WHOLE and place.file:
            place.copies.take("before-rebuild")
        if state is not RegistryState.LOST:
            return place.open()
        if place.file:
            set_aside(place.file)
        # The anchor may be lost too. Epochs rise by one, so the minutes since 1970 exceed every earlier epoch.
        return place.open_anew(reason, above=int(datetime.now(UTC).timestamp() // 60))

    async def _in_stacks(self) -> dict[MachineName, CellName]:
        """Machines that the states of cells hold, where any are left."""
        machines = {}
        try:
            engine = self.engine()
            for stack in await engine.stacks(PROJECT):
                state = await engine.export(stack)
                machines.update(dict.fromkeys(machines_in(state), CellName(stack.stack)))
        except HermesError as error:
            self.report(f"the stacks cannot be read: {error.message}")
        return machines

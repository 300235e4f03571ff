"""Composes warm pools: who fills them, who takes machines out of them."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from hermesops.model.ids import CellName, MachineName
from hermesops.model.operation import Lease, Operation, OperationKind
from hermesops.model.plan import Plan
from hermesops.model.spare import Purpose, Spare, SpareStatus, pool_subject, spare_subject
from hermesops.operations.kinds import PoolFillIntent

if TYPE_CHECKING:
    from hermesops.app.container_parts.connected import Connected
    from hermesops.cells.coalescing import StillWanted
    from hermesops.instances.observation import NodeState
    from hermesops.justavps import Machine
    from hermesops.model.cell import Cell
    from hermesops.model.ids import ImageId, MachineId
    from hermesops.model.instance import Instance
    from hermesops.model.user import User
    from hermesops.operations.lease import LeaseKeeper
    from hermesops.pool.decide import Target
    from hermesops.pool.workflow import PoolFill

_SHORTLY_S = 20.0
"""Seconds to wait for whoever takes the very machine that a pool is about to give up."""


class Pools:
    """The warm pools of an environment.

    Args:
        session: Connections to vendor and machines.
    """

    def __init__(self, session: "Connected") -> None:
        self._session = session
        self._app = session.app
        self._settings = session.app.env.settings

    # Who comes

    async def claim(
        self, user: "Callable[[], User]", plan: Plan, *, server_type: str, image_id: "ImageId", region: str
    ) -> "Instance | None":
        """Give a newcomer a machine of a pool; ``None`` when none is ready, and a word about it where a pool is wanted.

        What was taken is replaced by a worker.
        """
        from hermesops.pool.claims import Claims
        from hermesops.pool.decide import Target

        size = self._settings.pool_size.get(plan, 0)
        claims = Claims(self._app.registry, self.is_up, self._app.hold_lease)
        instance = await claims.claim(user, Target(plan, size, server_type, image_id), region=region)
        if instance is None:
            if size:
                self._app.tell(
                    f"no {plan} machine is ready in the warm pools of {region}: one is made, which takes longer"
                )
            return None
        self._app.tell(f"took {instance.machine_name} out of the warm pool of {instance.cell}")
        if size:
            self._session.operations.leave(self.open(instance.cell))
        return instance

    def ready(self, plan: Plan | None = None) -> list[Spare]:
        """The machines that could be taken, of a plan or of any; the one that has waited longest first."""
        spares = self._app.registry.spares.list(purpose=Purpose.POOL)
        return [one for one in spares if one.wanted and one.status is SpareStatus.READY and plan in {None, one.plan}]

    async def is_up(self, spare: Spare) -> bool:
        """Whether the vendor has it and calls it ready; what it says itself is asked by whoever hands it over."""
        from hermesops.justavps.errors import NotFoundError
        from hermesops.justavps.wire import MachineStatus

        try:
            machine = await self._session.client.get_machine(spare.machine_id or "")
        except NotFoundError:
            return False
        return machine.name == spare.name and machine.status is MachineStatus.READY

    # Who fills

    def cells(self, names: Sequence[str], *, opening: bool) -> "list[Cell]":
        """The cells whose pools are meant: those named, else all.

        Args:
            names: As typed.
            opening: Whether the cells that newcomers would open are opened for their pools.

        Raises:
            UsageError: There is none of a name.
        """
        from hermesops.cells.scheduling import choose_cell
        from hermesops.model.cell import parse_cell

        registry, settings = self._app.registry, self._settings
        if names:
            return [registry.cells.get(parse_cell(name)) for name in names]
        for plan, size in settings.pool_size.items():
            if size and opening:
                region = settings.plan_regions.get(plan, settings.region)
                choose = partial(
                    choose_cell, plan=plan, region=region, size=settings.cell_size, plans_apart=settings.plans_apart
                )
                registry.cells.open(choose(registry.cells.list()))
        return list(registry.cells.list())

    def short(self) -> "list[CellName]":
        """The cells whose pools are not what settings say, as far as rows tell, and that nobody is at."""
        from hermesops.pool.decide import is_at_rest, is_short

        registry = self._app.registry
        if not any(self._settings.pool_size.values()) and not registry.spares.list(purpose=Purpose.POOL):
            return []
        fills = registry.operations.list(kind=OperationKind.POOL_FILL)
        found = []
        for cell in registry.cells.list():
            of_cell = [one for one in fills if one.subject == pool_subject(cell.name)]
            room = max(0, self._settings.cell_size - cell.machines)
            spares = registry.spares.list(cell=cell.name)
            if is_at_rest(of_cell, registry.now()) and is_short(self._targets(cell.name), spares, room=room):
                found.append(cell.name)
        return found

    def open(self, cell: CellName) -> Operation:
        """Write down that a cell's pool shall be filled, or find the row that says so."""
        return self._open(cell, grow=True)

    async def drain(self, cell: CellName, *, reason: str) -> Operation:
        """Give up every machine of a cell's pool, and write down that the cell shall be rid of them.

        One that somebody takes at this very moment is theirs.
        """
        from hermesops.model.operation import LeaseHeldError

        registry = self._app.registry
        for spare in registry.spares.list(cell=cell, purpose=Purpose.POOL):
            try:
                async with self._shortly_alone(spare_subject(spare.name)):
                    registry.spares.retire(spare.name, why=reason)
            except LeaseHeldError:
                self._app.tell(f"{spare.name} is being worked on and stays")
        return self._open(cell, grow=False)

    def _open(self, cell: CellName, *, grow: bool) -> Operation:
        intent = PoolFillIntent(cell=cell, grow=grow).to_json()
        return self._app.registry.operations.open(OperationKind.POOL_FILL, pool_subject(cell), intent=intent)

    def work_of(self, operation: Operation, _lease: Lease) -> "PoolFill":
        """What fills a pool, from its row."""
        from hermesops.pool.workflow import PoolFill

        app, intent = self._app, PoolFillIntent.of(operation)
        targets = self._targets(intent.cell) if intent.grow else []
        return PoolFill(intent.cell, targets, self._settings.cell_size, app.registry, self, self, self._shortly_alone)

    def _targets(self, cell: CellName) -> "list[Target]":
        """What the cell's pool should hold; without an image nothing can be made, and nothing is given up."""
        from hermesops.pool.decide import Target

        settings, registry = self._settings, self._app.registry
        image = registry.images.latest(settings.image)
        only = registry.cells.get(cell).only_plan
        return [
            Target(plan, size, settings.server_types[plan], image.id if image else None)
            for plan, size in sorted(settings.pool_size.items())
            if size and only in {None, plan}
        ]

    def _shortly_alone(self, subject: str) -> "LeaseKeeper":
        from hermesops.operations.lease import LeaseKeeper

        return LeaseKeeper(self._app.registry, subject, wait_s=_SHORTLY_S)

    # The world, as filling sees it

    async def listed(self) -> "Mapping[MachineName, Machine]":
        """The vendor's list, by name; of several of a name the newest."""
        from hermesops.justavps.ordering import newest_named

        machines = await self._session.client.list_machines()
        names = {machine.name for machine in machines}
        found = {MachineName(name): newest_named([one for one in machines if one.name == name], name) for name in names}
        return {name: machine for name, machine in found.items() if machine}

    async def node(self, machine_id: "MachineId") -> "NodeState | None":
        """What hermes-node says."""
        return await self._session.instance_client.node(machine_id)

    async def await_machine(self, spare: Spare) -> None:
        """Return once it is ready and hermes-node answers."""
        reach = self._session.instance_client
        if spare.machine_id:
            await reach.await_named(spare.name, spare.machine_id)

    async def faults(self, machine_id: "MachineId") -> Sequence[str]:
        """What a machine without a user should promise, and does not."""
        from hermesops.localcloud.world.files import is_simulated

        env = self._app.env
        if env.is_local and is_simulated(env.world):
            return ()  # it has none of what the roles put on machines
        return await self._session.verify_nobodys(machine_id, tell=lambda _: None)

    async def warm(self, machine_id: "MachineId", lease: Lease) -> str:
        """Start its gateway with a placeholder."""
        from hermesops.instances.remote.prewarm import WarmUp

        warm_up = WarmUp(
            self._session.instance_client.channel,
            router_url=self._app.endpoint.router_url,
            gateway_timeout_s=self._settings.gateway_timeout_s,
        )
        key = await warm_up.warm(machine_id, lease)
        # Not of the way to its user: who comes finds a key that is known, and a certificate in the payload.
        if certifying := self._session.instance_client.with_lease(lease).certifying:
            await certifying.certify(self._session.instance_client.channel(machine_id), machine_id)
        return key

    async def held(self, cell: CellName) -> frozenset[MachineName]:
        """The machines in the cell's state."""
        from hermesops.cells.stack.state import machines_in

        return frozenset(machines_in(await self._app.cell_stacks.state(cell)))

    async def apply(self, cell: CellName, *, still_wanted: "StillWanted") -> object:
        """Run the cell's stack."""
        return await self._app.cell_stacks.apply(cell, still_wanted=still_wanted)

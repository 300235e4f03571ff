"""Takes a wish for an agent in: checks everything that can be checked first, then writes the rows that make it real.

Nothing is half-made by a bad wish: the first row is written after the last question was answered.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from hermesops.errors import RefusedError, UsageError
from hermesops.lifecycle.handover import asleep, under_way
from hermesops.lifecycle.ports import Intents
from hermesops.model.cell import Cell, Placement
from hermesops.model.ids import ImageId, InstanceId, UserId, instance_subject
from hermesops.model.image import Image
from hermesops.model.instance import Instance, InstanceStatus
from hermesops.model.operation import Operation, OperationKind
from hermesops.model.plan import Plan
from hermesops.model.user import User, parse_user

_AT_REST = frozenset(
    {
        OperationKind.SUSPEND,
        OperationKind.RESUME,
        OperationKind.RESIZE,
        OperationKind.RELOCATE,
        OperationKind.FAREWELL,
        OperationKind.TERMINATE,
    }
)
"""Kinds of operations during which a gateway rests on purpose."""


class Rows(Intents, Protocol):
    """The registry, as far as admission reads and writes it."""

    def resolve_user(self, text: str, *, create: bool = False) -> User:
        """The user meant by an alias or id."""

    def instance_of_user(self, user_id: UserId) -> Instance | None:
        """The user's instance that is not terminated."""

    def list_operations(
        self, *, unfinished: bool = False, instance_id: InstanceId | None = None
    ) -> Sequence[Operation]:
        """Operations, newest first."""

    def latest_image(self, name: str) -> Image | None:
        """The image of that name that was asked for last."""

    def place_instance(
        self,
        user: User,
        *,
        plan: Plan,
        server_type: str,
        image_id: ImageId | None,
        choose: Callable[[Sequence[Cell]], Placement],
    ) -> Instance:
        """Write the instance's row into the cell chosen, or find the one that lives."""


class Vendor(Protocol):
    """What the vendor is asked before anything is written."""

    async def is_bootable(self, image_id: ImageId) -> bool:
        """Whether the image still exists and machines can boot from it."""

    async def sells(self, server_type: str, region: str) -> bool:
        """Whether machines of that type can be rented there now."""


class ChooseCell(Protocol):
    """Where a new machine goes."""

    def __call__(self, cells: Sequence[Cell], *, plan: Plan, region: str, size: int, plans_apart: bool) -> Placement:
        """Choose a cell."""


@dataclass(frozen=True)
class Policy:
    """What the environment's settings say about new instances.

    Attributes:
        image: Name of the image.
        region: Where machines are rented.
        plan_regions: The same for single plans, where they differ.
        server_types: Of each plan.
        cell_size: Machines a cell holds at most.
        plans_apart: Whether a new cell takes one plan only.
    """

    image: str
    region: str
    server_types: Mapping[Plan, str]
    cell_size: int
    plan_regions: Mapping[Plan, str] = field(default_factory=dict)
    plans_apart: bool = False

    def region_of(self, plan: Plan) -> str:
        """Where a machine of that plan is rented unless somebody says otherwise."""
        return self.plan_regions.get(plan, self.region)


class Pool(Protocol):
    """Machines that wait for newcomers."""

    async def claim(
        self, user: Callable[[], User], plan: Plan, *, server_type: str, image_id: ImageId, region: str
    ) -> Instance | None:
        """Make a ready one the user's, whose row is made then; ``None`` when there is none."""


class Purse(Protocol):
    """What may be spent."""

    async def refuse_unaffordable(self, server_type: str, region: str) -> None:
        """Raise RefusedError when another machine of that kind would pass the budget."""


def parse_plan(text: str) -> Plan:
    """The plan a person means.

    Raises:
        UsageError: There is none of that name.
    """
    try:
        return Plan(text)
    except ValueError:
        raise UsageError(f"unknown plan {text!r}: plans are {', '.join(Plan)}") from None


class Admission:
    """Turns wishes into rows.

    Args:
        rows: The registry.
        vendor: JustAVPS.
        choose_cell: Placement.
        purse: The budget.
        pool: Machines that are ready.
        policy: Settings.
    """

    def __init__(
        self, rows: Rows, vendor: Vendor, choose_cell: ChooseCell, purse: Purse, pool: Pool, policy: Policy
    ) -> None:
        self._rows = rows
        self._vendor = vendor
        self._choose_cell = choose_cell
        self._purse = purse
        self._pool = pool
        self._policy = policy

    async def admit(self, user_text: str, plan: Plan, *, region: str = "") -> tuple[Instance, Operation]:
        """Write the rows of a wished-for agent, or find those of an earlier wish.

        Args:
            user_text: Alias or id as typed.
            plan: What the user bought.
            region: Where its machine is rented; empty: where the settings say. An earlier wish keeps its own.

        Raises:
            UsageError: ``user_text`` can be neither.
            RefusedError: The user has an agent of the other plan, there is no image to boot from, JustAVPS does not
                sell the plan's machine there, or it would pass the budget.
            UnavailableError: JustAVPS does not answer.
        """
        parse_user(user_text)  # nonsense is refused before anything is asked
        known = self._known(user_text)
        if known is not None:
            self._refuse_resting(known)
        else:
            where = region or self._policy.region_of(plan)
            new_user = partial(self._rows.resolve_user, user_text, create=True)
            # A machine of the pool is bought, booted and checked already: nothing is left to ask the vendor.
            known = await self._pool.claim(
                new_user, plan, server_type=self._policy.server_types[plan], image_id=self._image().id, region=where
            ) or await self._order(new_user, plan, where)
        if known.plan is not plan:
            raise RefusedError(
                f"{user_text} already has an agent of plan {known.plan}",
                hint=f"hermesops provision {user_text} --plan {known.plan} continues it",
            )
        operation = self._rows.open_operation(
            OperationKind.PROVISION,
            instance_subject(known.id),
            intent={"user": user_text, "plan": plan.value, "machine_name": known.machine_name},
            instance_id=known.id,
        )
        return known, operation

    def _refuse_resting(self, known: Instance) -> None:
        """An agent that sleeps, or is being put to sleep, moved or ended, is not brought up by the way."""
        if known.status is InstanceStatus.SUSPENDED:
            raise asleep(known)
        for operation in self._rows.list_operations(unfinished=True, instance_id=known.id):
            if operation.kind in _AT_REST:
                raise under_way(known, operation)

    async def _order(self, new_user: Callable[[], User], plan: Plan, where: str) -> Instance:
        await self._refuse_unsold(plan, where)
        await self._purse.refuse_unaffordable(self._policy.server_types[plan], where)
        image = self._image()
        if not await self._vendor.is_bootable(image.id):
            name = self._policy.image
            raise RefusedError(
                f"JustAVPS no longer has image {name} {image.id}", hint=f"hermesops image build {name} makes it again"
            )
        return self._create(new_user(), plan, image.id, where)

    def _known(self, user_text: str) -> Instance | None:
        try:
            user = self._rows.resolve_user(user_text)
        except UsageError:
            return None  # a new one
        return self._rows.instance_of_user(user.id)

    async def _refuse_unsold(self, plan: Plan, region: str) -> None:
        server_type = self._policy.server_types[plan]
        if not await self._vendor.sells(server_type, region):
            raise RefusedError(
                f"JustAVPS sells no {server_type} in {region} now, which plan {plan} is",
                hint="hermesops settings show lists region, plan_regions and server_types; --region names another",
            )

    def _image(self) -> Image:
        name = self._policy.image
        image = self._rows.latest_image(name)
        if image is None:
            raise RefusedError(f"no image {name} has been built", hint=f"hermesops image build {name}")
        return image

    def _create(self, user: User, plan: Plan, image_id: ImageId, region: str) -> Instance:
        policy = self._policy
        return self._rows.place_instance(
            user,
            plan=plan,
            server_type=policy.server_types[plan],
            image_id=image_id,
            choose=partial(
                self._choose_cell,
                plan=plan,
                region=region,
                size=policy.cell_size,
                plans_apart=policy.plans_apart,
            ),
        )

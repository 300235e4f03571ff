"""Takes a request for an agent in: checks everything that can be checked first, then writes the rows that make it real.

Nothing is half-made by a bad request: the first row is written after the last question was answered.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from hermesops.errors import UsageError
from hermesops.instances.requests.preflight import Policy, ProvisionPreflight, refuse_other_plan
from hermesops.model.cell import Cell, Placement
from hermesops.model.ids import ImageId, instance_subject
from hermesops.model.instance import Instance
from hermesops.model.operation import Operation, OperationKind
from hermesops.model.plan import Plan
from hermesops.model.user import User
from hermesops.registry import Registry


class ChooseCell(Protocol):
    """Where a new machine goes."""

    def __call__(self, cells: Sequence[Cell], *, plan: Plan, region: str, size: int, plans_apart: bool) -> Placement:
        """Choose a cell."""


class Pool(Protocol):
    """Machines that wait for newcomers."""

    async def claim(
        self, user: Callable[[], User], plan: Plan, *, server_type: str, image_id: ImageId, region: str
    ) -> Instance | None:
        """Make a ready one the user's, whose row is made then; ``None`` when there is none."""


def parse_plan(text: str) -> Plan:
    """The plan a person means.

    Raises:
        UsageError: There is none of that name.
    """
    try:
        return Plan(text)
    except ValueError:
        raise UsageError(f"unknown plan {text!r}: plans are {', '.join(Plan)}") from None


class ProvisionAdmission:
    """Turns requests into rows.

    Args:
        registry: The registry.
        preflight: What is asked first.
        choose_cell: Placement.
        pool: Machines that are ready.
        policy: Settings.
    """

    def __init__(
        self, registry: Registry, questions: ProvisionPreflight, choose_cell: ChooseCell, pool: Pool, policy: Policy
    ) -> None:
        self._registry = registry
        self._preflight = questions
        self._choose_cell = choose_cell
        self._pool = pool
        self._policy = policy

    async def admit(self, user_text: str, plan: Plan, *, region: str = "") -> tuple[Instance, Operation]:
        """Write the rows of a wished-for agent, or find those of an earlier request.

        Args:
            user_text: Alias or id as typed.
            plan: What the user bought.
            region: Where its machine is rented; empty: where the settings say. An earlier request keeps its own.

        Raises:
            UsageError: ``user_text`` can be neither.
            RefusedError: The user has an agent of the other plan, there is no image to boot from, JustAVPS does not
                sell the plan's machine there, or it would pass the budget.
            UnavailableError: JustAVPS does not answer.
        """
        known = self._preflight.known(user_text, plan)
        if known is None:
            where = region or self._policy.region_of(plan)
            new_user = partial(self._registry.users.resolve, user_text, create=True)
            image = self._preflight.image()
            # A machine of the pool is bought, booted and checked already: nothing is left to ask the vendor.
            known = await self._pool.claim(
                new_user, plan, server_type=self._policy.server_types[plan], image_id=image.id, region=where
            ) or await self._order(new_user, plan, where)
            refuse_other_plan(user_text, known, plan)  # another request may have been faster
        operation = self._registry.operations.open(
            OperationKind.PROVISION,
            instance_subject(known.id),
            intent={"user": user_text, "plan": plan.value, "machine_name": known.machine_name},
            instance_id=known.id,
        )
        return known, operation

    async def _order(self, new_user: Callable[[], User], plan: Plan, where: str) -> Instance:
        image = await self._preflight.refuse_unrentable((plan, where))
        return self._create(new_user(), plan, image.id, where)

    def _create(self, user: User, plan: Plan, image_id: ImageId, region: str) -> Instance:
        policy = self._policy
        return self._registry.placements.place(
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

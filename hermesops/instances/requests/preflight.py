"""What is asked before a request for an agent is written down. Nothing here writes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from hermesops.errors import RefusedError, UsageError
from hermesops.instances import refusals
from hermesops.instances.eligibility import refuse_ineligible
from hermesops.instances.ports import Budget
from hermesops.instances.remote.instance_client import InstanceClient
from hermesops.model.ids import InstanceId, UserId
from hermesops.model.image import Image
from hermesops.model.instance import Instance
from hermesops.model.operation import Operation
from hermesops.model.plan import Plan
from hermesops.model.user import User, parse_user
from hermesops.operations.kinds import ProvisionIntent


class Rows(Protocol):
    """The registry, as far as it is asked."""

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


class ProvisionPreflight:
    """Asks whether a request can come true.

    Args:
        rows: The registry.
        client: Asks JustAVPS.
        budget: The budget.
        policy: Settings.
    """

    def __init__(self, rows: Rows, client: InstanceClient, budget: Budget, policy: Policy) -> None:
        self._rows = rows
        self._client = client
        self._budget = budget
        self._policy = policy

    def known(self, user_text: str, plan: Plan) -> Instance | None:
        """The agent of an earlier request; ``None`` for a newcomer.

        Raises:
            UsageError: ``user_text`` is neither an alias nor an id.
            RefusedError: It is suspended, is being changed, or is of the other plan.
        """
        parse_user(user_text)
        try:
            user = self._rows.resolve_user(user_text)
        except UsageError:
            return None  # a new one
        instance = self._rows.instance_of_user(user.id)
        if instance is not None:
            unfinished = self._rows.list_operations(unfinished=True, instance_id=instance.id)
            refuse_ineligible(ProvisionIntent, instance, unfinished)
            refuse_other_plan(user_text, instance, plan)
        return instance

    def image(self) -> Image:
        """What a new machine boots from.

        Raises:
            RefusedError: None was built.
        """
        name = self._policy.image
        image = self._rows.latest_image(name)
        if image is None:
            raise refusals.no_image(name)
        return image

    async def refuse_unrentable(self, *wished: tuple[Plan, str]) -> Image:
        """Let machines of these plans and regions be wished for only where they can be had, all of them; their image.

        Raises:
            RefusedError: JustAVPS does not sell one of them there, they would pass the budget, or there is no image to
                boot from.
            UnavailableError: JustAVPS does not answer.
        """
        for plan, region in dict.fromkeys(wished):
            await refuse_unsold(self._client, self._policy.server_types[plan], region)
        await self._budget.refuse_unaffordable(*((self._policy.server_types[plan], region) for plan, region in wished))
        image = self.image()
        if not await self._client.is_bootable(image.id):
            name = self._policy.image
            raise RefusedError(
                f"JustAVPS no longer has image {name} {image.id}", hint=f"hermesops image build {name} makes it again"
            )
        return image


async def refuse_unsold(client: InstanceClient, server_type: str, region: str) -> None:
    """Raise RefusedError when no such machines can be rented there now."""
    if not await client.sells(server_type, region):
        raise refusals.not_sold(server_type, region)


def refuse_other_plan(user_text: str, known: Instance, plan: Plan) -> None:
    """Raise RefusedError when a user's agent is of another plan than the one wished for."""
    if known.plan is not plan:
        raise RefusedError(
            f"{user_text} already has an agent of plan {known.plan}",
            hint=f"hermesops provision {user_text} --plan {known.plan} continues it",
        )

"""What is asked before a request for an agent is written down. Nothing here writes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from hermesops.errors import RefusedError, UsageError
from hermesops.instances.steps.personalise import asleep, refuse_at_rest
from hermesops.model.ids import ImageId
from hermesops.model.image import Image
from hermesops.model.instance import Instance, InstanceStatus
from hermesops.model.plan import Plan
from hermesops.model.user import parse_user
from hermesops.registry import Registry


class Vendor(Protocol):
    """What the vendor is asked before anything is written."""

    async def is_bootable(self, image_id: ImageId) -> bool:
        """Whether the image still exists and machines can boot from it."""

    async def sells(self, server_type: str, region: str) -> bool:
        """Whether machines of that type can be rented there now."""


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


class Budget(Protocol):
    """What may be spent."""

    async def refuse_unaffordable(self, *rented: tuple[str, str]) -> None:
        """Raise RefusedError when more machines of these server types and regions would pass the budget."""


class ProvisionPreflight:
    """Asks whether a request can come true.

    Args:
        registry: The registry.
        vendor: JustAVPS.
        budget: The budget.
        policy: Settings.
    """

    def __init__(self, registry: Registry, vendor: Vendor, budget: Budget, policy: Policy) -> None:
        self._registry = registry
        self._vendor = vendor
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
            user = self._registry.users.resolve(user_text)
        except UsageError:
            return None  # a new one
        instance = self._registry.instances.of_user(user.id)
        if instance is not None:
            self._refuse_resting(instance)
            refuse_other_plan(user_text, instance, plan)
        return instance

    def _refuse_resting(self, known: Instance) -> None:
        """An agent that is suspended, or is being suspended, moved or ended, is not brought up by the way."""
        if known.status is InstanceStatus.SUSPENDED:
            raise asleep(known)
        refuse_at_rest(known, self._registry.operations.list(unfinished=True, instance_id=known.id))

    def image(self) -> Image:
        """What a new machine boots from.

        Raises:
            RefusedError: None was built.
        """
        name = self._policy.image
        image = self._registry.images.latest(name)
        if image is None:
            raise RefusedError(f"no image {name} has been built", hint=f"hermesops image build {name}")
        return image

    async def refuse_unrentable(self, *wished: tuple[Plan, str]) -> Image:
        """Let machines of these plans and regions be wished for only where they can be had, all of them; their image.

        Raises:
            RefusedError: JustAVPS does not sell one of them there, they would pass the budget, or there is no image to
                boot from.
            UnavailableError: JustAVPS does not answer.
        """
        for plan, region in dict.fromkeys(wished):
            await self._refuse_unsold(plan, region)
        await self._budget.refuse_unaffordable(*((self._policy.server_types[plan], region) for plan, region in wished))
        image = self.image()
        if not await self._vendor.is_bootable(image.id):
            name = self._policy.image
            raise RefusedError(
                f"JustAVPS no longer has image {name} {image.id}", hint=f"hermesops image build {name} makes it again"
            )
        return image

    async def _refuse_unsold(self, plan: Plan, region: str) -> None:
        server_type = self._policy.server_types[plan]
        if not await self._vendor.sells(server_type, region):
            raise RefusedError(
                f"JustAVPS sells no {server_type} in {region} now, which plan {plan} is",
                hint="hermesops settings show lists region, plan_regions and server_types; --region names another",
            )


def refuse_other_plan(user_text: str, known: Instance, plan: Plan) -> None:
    """Raise RefusedError when a user's agent is of another plan than the one wished for."""
    if known.plan is not plan:
        raise RefusedError(
            f"{user_text} already has an agent of plan {known.plan}",
            hint=f"hermesops provision {user_text} --plan {known.plan} continues it",
        )

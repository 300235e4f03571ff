"""Takes in requests for new agents: checks everything that can be checked first, then writes the rows.

Nothing is half-made by a bad request: the first row is written after the last question was answered.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from hermesops.agents.cells.changes.environment_guard import Guards
from hermesops.agents.cells.scheduling import choose_cell
from hermesops.agents.instances.remote.instance_client import InstanceClient
from hermesops.agents.instances.requests.eligibility import PROVISION
from hermesops.agents.instances.requests.placement import latest_image, refuse_unsold
from hermesops.agents.instances.steps.ports import Pool
from hermesops.errors import Hint, RefusedError, UsageError
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.fleet.user import DRILLS, User, is_of_drill, parse_user
from hermesops.model.ids import instance_subject
from hermesops.model.image import Image
from hermesops.model.operation import Operation, OperationKind
from hermesops.model.plan import Plan
from hermesops.store.operations.kinds.agents import ProvisionIntent
from hermesops.store.registry import Registry


@dataclass(frozen=True)
class Policy:
    """The environment's settings about new instances.

    Attributes:
        plan_regions: Where machines of a plan are rented, where that differs from ``region``.
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


@dataclass
class ProvisionPreflight:
    """Checks whether a request is possible."""

    registry: Registry
    client: InstanceClient
    budget: Guards
    policy: Policy

    def known(self, user_text: str, plan: Plan) -> Instance | None:
        """The agent of an earlier request; ``None`` for a new user.

        Raises:
            UsageError: ``user_text`` is neither an alias nor an id, or begins the id of a user.
            RefusedError: It is suspended, is being changed, or is of the other plan.
        """
        parse_user(user_text)
        try:
            user = self.registry.users.resolve(user_text)
        except UsageError:
            if ids := self.registry.instances.users_whose_id_begins(user_text):
                hint = Hint(("provision", ids[0], "--plan", plan.value))
                raise UsageError(f"{user_text} begins the id of a user; no new one is called so", hint=hint) from None
            return None  # a new one
        instance = self.registry.instances.of_user(user.id)
        if instance is not None:
            unfinished = self.registry.operations.list(unfinished=True, instance_id=instance.id)
            PROVISION.refuse(instance, unfinished)
            refuse_other_plan(user_text, instance, plan)
        return instance

    async def refuse_unrentable(self, *sizes: tuple[Plan, str]) -> Image:
        """The image of new machines of these plans and regions, where all of them can be rented.

        Raises:
            RefusedError: JustAVPS does not sell one of them there, they would pass the budget, or there is no image to
                boot from.
            UnavailableError: JustAVPS does not answer.
        """
        for plan, region in dict.fromkeys(sizes):
            await refuse_unsold(self.client, self.policy.server_types[plan], region)
        await self.budget.refuse_unaffordable(*((self.policy.server_types[plan], region) for plan, region in sizes))
        name = self.policy.image
        image = latest_image(self.registry, name)
        if not await self.client.is_bootable(image.id):
            raise RefusedError(
                f"JustAVPS no longer has image {name} {image.id}", hint=Hint(("image", "build", name), "makes it again")
            )
        return image


@dataclass
class ProvisionAdmission:
    """Checks provision requests and writes their rows."""

    registry: Registry
    preflight: ProvisionPreflight
    pool: Pool
    policy: Policy

    async def admit(
        self,
        user_text: str,
        plan: Plan,
        *,
        region: str = "",
        is_drill: bool = False,
        subscription: str = "",
        reason: str | None = None,
    ) -> tuple[Instance, Operation]:
        """Write the rows of a requested agent, or find those of an earlier request.

        Args:
            region: Where its machine is rented; empty: where the settings say. An earlier request keeps its own.
            is_drill: Whether a drill asks, whose aliases nobody else gets.
            subscription: Stripe's id of what pays for a new agent; empty for none. An earlier one keeps its own.
            reason: Of the request; ``None`` for one that has none.

        Raises:
            UsageError: ``user_text`` can be neither, or is a drill's.
            RefusedError: The user has an agent of the other plan, there is no image to boot from, JustAVPS does not
                sell the plan's machine there, or it would pass the budget.
            UnavailableError: JustAVPS does not answer.
        """
        known = self.preflight.known(user_text, plan)
        if known is None:
            if not is_drill:
                refuse_drill(user_text)
            where = region or self.policy.region_of(plan)
            new_user = partial(self.registry.users.resolve, user_text, create=True)
            image = latest_image(self.registry, self.policy.image)
            # A machine of the pool is bought, booted and checked already: nothing is left to ask the vendor.
            known = await self.pool.claim(
                new_user,
                plan,
                server_type=self.policy.server_types[plan],
                image_id=image.id,
                region=where,
                subscription=subscription,
            ) or await self._order(new_user, plan, where, subscription)
            refuse_other_plan(user_text, known, plan)  # another request may have been faster
        named = ProvisionIntent(user=user_text, plan=plan, machine_name=known.machine_name, reason=reason)
        intent = named.to_json()
        subject = instance_subject(known.id)
        operation = self.registry.operations.open(OperationKind.PROVISION, subject, intent=intent, instance_id=known.id)
        return known, operation

    async def _order(self, new_user: Callable[[], User], plan: Plan, region: str, subscription: str) -> Instance:
        image, policy = await self.preflight.refuse_unrentable((plan, region)), self.policy
        choose = partial(choose_cell, plan=plan, region=region, size=policy.cell_size, plans_apart=policy.plans_apart)
        return self.registry.placements.place(
            new_user(),
            plan=plan,
            server_type=policy.server_types[plan],
            image_id=image.id,
            choose=choose,
            subscription=subscription,
        )


def parse_plan(text: str) -> Plan:
    """The plan a person means.

    Raises:
        UsageError: There is none of that name.
    """
    try:
        return Plan(text)
    except ValueError:
        raise UsageError(f"unknown plan {text!r}: plans are {', '.join(Plan)}") from None


def refuse_drill(user_text: str) -> None:
    """Raise UsageError for an alias that only drills use."""
    if is_of_drill(parse_user(user_text)):
        raise UsageError(f"aliases that begin with {DRILLS} are those of drills", hint="choose another one")


def refuse_other_plan(user_text: str, known: Instance, plan: Plan) -> None:
    """Raise RefusedError when a user's agent is of another plan than the requested one."""
    if known.plan is plan:
        return
    starts = known.status is InstanceStatus.PROVISIONING  # before its first start there is nothing to resize
    raise RefusedError(
        f"{user_text} already has an agent of plan {known.plan}",
        hint=Hint(("provision", user_text, "--plan", known.plan), "continues it")
        if starts
        else Hint(("instance", "resize", user_text, "--plan", plan, "--reason", "WHY"), "changes it"),
    )

"""Agents' tokens for the model router: renewed while agents run, revoked on request."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from hermesops.errors import RefusedError, problem_of
from hermesops.fan_out import Limits, problems
from hermesops.instances import refusals
from hermesops.instances.eligibility import refuse_stopped
from hermesops.instances.remote.power_control import PowerControl
from hermesops.model.ids import MachineId, instance_subject
from hermesops.model.instance import Instance, InstanceStatus
from hermesops.model.route import PresentToken
from hermesops.operations.lease import LeaseKeeper
from hermesops.registry import Registry

_HANDOVERS = Limits(at_once=8, slow_after_s=30.0, within_s=240.0)
"""Each is an upload, a command of hermes-node, and a throw-away turn of the agent, by which it reads the token."""


@dataclass(frozen=True)
class ModelTokens:
    """Tokens for the model router.

    Attributes:
        life: For how long a token counts.
    """

    registry: Registry
    instance_client: PowerControl
    hold_lease: Callable[[str], LeaseKeeper]
    life: timedelta

    def of(self, instance: Instance | None = None) -> list[tuple[Instance, PresentToken]]:
        """The present token of one instance, or of each that is not terminated."""
        instances = [instance] if instance else self.registry.instances.list()
        return [(one, self.registry.model_tokens.get(one.id)) for one in instances]

    def due(self) -> Sequence[Instance]:
        """Running instances whose token has lived half its life, or that lack the present one."""
        return self.registry.model_tokens.instances_due(life=self.life)

    async def renew_due(self) -> dict[str, str]:
        """Hand a fresh one to each that is due; the problem of each by user, empty for none."""
        due = self.due()
        told = await problems(due, self.hand, _HANDOVERS)
        return dict(zip([one.title for one in due], told, strict=True))

    async def hand(self, instance: Instance) -> None:
        """Give a running agent its present token, or a fresh one where that has lived half its life, without a restart.

        Raises:
            LeaseHeldError: Somebody works on the instance.
            RefusedError: Its gateway rests on purpose, or the machine is not its own; whoever resumes it hands it one.
            UnavailableError: Its machine does not answer, or the agent did not read the token.
        """
        async with self.hold_lease(instance_subject(instance.id)) as turn:
            instance = self.registry.instances.get(instance.id)
            if instance.status is not InstanceStatus.RUNNING:
                raise refusals.suspended(instance)
            refuse_stopped(instance, self.registry.operations.list(unfinished=True, instance_id=instance.id))
            client = self.instance_client.with_lease(turn.lease)
            seen = await client.observe(instance.id)
            if seen.machine is None or seen.node is None:
                raise refusals.machine_silent(instance)
            if seen.node.instance_id != instance.id:
                raise refusals.other_instance(instance, seen.node.instance_id)
            if seen.node.fenced:
                raise RefusedError(
                    f"the gateway of {instance.title} rests", hint=f"hermesops instance show {instance.title}"
                )
            await client.personalise(instance, MachineId(seen.machine.id), None)


async def revoke_model_tokens(
    registry: Registry, instance: Instance, hand: Callable[[Instance], Awaitable[None]], *, reason: str
) -> tuple[int, str]:
    """Revoke all tokens of an instance, then hand a running agent another.

    The first needs the registry alone, whatever is away. Killed in between, the agent is due for a token, as is one
    whose machine did not answer.

    Args:
        registry: Keeps the oldest generation that counts.
        hand: Connects, and hands the agent another token.

    Returns:
        The oldest generation that counts, and why the agent was not handed another token; empty where it was, or is to
        have none.
    """
    generation = registry.model_tokens.revoke(instance.id, why=reason)
    return generation, await problem_of(hand(instance)) if instance.status is InstanceStatus.RUNNING else ""

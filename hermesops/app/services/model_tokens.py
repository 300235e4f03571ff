"""Composes agents' tokens for the model router: renewed while agents run, revoked on request."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hermesops.errors import RefusedError, problem_of
from hermesops.fan_out import Limits, problems
from hermesops.model.ids import MachineId, instance_subject
from hermesops.model.instance import Instance, InstanceStatus

if TYPE_CHECKING:
    from hermesops.app.container import Container
    from hermesops.app.container_parts.connected import Connected
    from hermesops.model.route import PresentToken

_HANDOVERS = Limits(at_once=8, slow_after_s=30.0, within_s=240.0)
"""Each is an upload, a command of hermes-node, and a throw-away turn of the agent, by which it reads the token."""


class ModelTokens:
    """Tokens for the model router of one session's instances.

    Args:
        session: What reaches machines.
    """

    def __init__(self, session: "Connected") -> None:
        self._session = session
        self._app = session.app
        self._registry = session.app.registry

    def of(self, instance: Instance | None = None) -> "list[tuple[Instance, PresentToken]]":
        """The present token of one instance, or of each that is not terminated."""
        instances = [instance] if instance else self._registry.instances.list()
        return [(one, self._registry.model_tokens.get(one.id)) for one in instances]

    def due(self) -> Sequence[Instance]:
        """Running instances whose token has lived half its life, or that lack the present one."""
        return self._registry.model_tokens.instances_due(life=self._app.model_token_life)

    async def renew_due(self) -> dict[str, str]:
        """Hand each a fresh one; why not, by user, empty for done."""
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
        from hermesops.instances import refusals
        from hermesops.instances.eligibility import refuse_stopped

        subject = instance_subject(instance.id)
        async with self._app.hold_lease(subject) as turn:
            instance = self._registry.instances.get(instance.id)
            if instance.status is not InstanceStatus.RUNNING:
                raise refusals.suspended(instance)
            refuse_stopped(instance, self._registry.operations.list(unfinished=True, instance_id=instance.id))
            reach = self._session.instance_client.with_lease(turn.lease)
            seen = await reach.observe(instance.id)
            if seen.machine is None or seen.node is None:
                raise refusals.machine_silent(instance)
            if seen.node.instance_id != instance.id:
                raise refusals.other_instance(instance, seen.node.instance_id)
            if seen.node.fenced:
                raise RefusedError(
                    f"the gateway of {instance.title} rests", hint=f"hermesops instance show {instance.title}"
                )
            await reach.personalise(instance, MachineId(seen.machine.id), None)


async def revoke_model_tokens(app: "Container", instance: Instance, *, reason: str) -> tuple[int, str]:
    """Let no token of an instance count that was made by now, then hand a running agent another.

    The first needs the registry alone, whatever is away. Killed in between, the agent is due for a token, as is one
    whose machine did not answer.

    Args:
        app: The environment.
        instance: Whose.
        reason: For the audit.

    Returns:
        The oldest generation that counts, and why the agent was not handed another token; empty where it was, or is to
        have none.
    """

    async def hand() -> None:
        async with app.session() as session:
            await ModelTokens(session).hand(instance)

    generation = app.registry.model_tokens.revoke(instance.id, why=reason)
    return generation, await problem_of(hand()) if instance.status is InstanceStatus.RUNNING else ""

"""The machines of a rollout of tokens: each agent is handed another token for the model router, then the old one ends.

Nothing is stopped, and no turn is cut off; but an agent of a platform with a connector restarts, after its turn: the
secret of its socket has the token's generation, and it reads that at its start. Until an agent is confirmed both of its
tokens count, so one that a rollout leaves behind goes on with the token that it has.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from hermesops.agents.instances.remote import node_commands
from hermesops.agents.instances.remote.power_control import PowerControl
from hermesops.agents.rollout.machines.slots import held_is_unavailable, machine_of, refuse_if_worked_on, unwell
from hermesops.errors import UnavailableError
from hermesops.model.billing.route import TokenRotation
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.ids import InstanceId
from hermesops.model.rollout.records import GateResult, ReleaseStatus, Target
from hermesops.model.rollout.release import ReleaseId
from hermesops.model.rollout.spec import Spec
from hermesops.store.operations.db_thread import in_db_thread
from hermesops.store.registry import Registry

_STATUS_S = 20.0
_PROXY_S = 20.0
"""Seconds in which the gateway has to answer through the proxy before the old token ends."""


@dataclass(frozen=True)
class TokenMachines:
    """``hermesops.agents.rollout.ports.Machines`` for tokens.

    Attributes:
        hand: Gives a running agent its present token, under its instance's lease; the agent takes a turn with it.
        rotation: The name of this one.
        purpose: The reason in the audit, as ``rollout ID``.
    """

    registry: Registry
    instance_client: PowerControl
    hand: Callable[[Instance], Awaitable[None]]
    rotation: ReleaseId
    purpose: str

    async def observe(self, instance_id: InstanceId) -> ReleaseStatus:
        """Read which generation counts, and ask hermes-node whether the machine answers."""
        instance = await in_db_thread(self.registry.instances.get, instance_id)
        if instance.status is not InstanceStatus.RUNNING:
            return ReleaseStatus("", absent=instance.status.value)
        channel = self.instance_client.channel(machine_of(instance))
        if await node_commands.status(channel, timeout_s=_STATUS_S) is None:
            await refuse_if_worked_on(self.registry, instance)
            raise UnavailableError(f"hermes-node on {instance.machine_name} gives no answer")
        return status_of(await in_db_thread(self.registry.model_tokens.rotation, instance_id), self.rotation)

    async def observe_agent(self, target: Target) -> str:
        """Ask the gateway through the proxy, and hermes-node; another token would not make the agent well."""
        return await unwell(self.registry, self.instance_client, target)

    async def fetch(self, target: Target, release: ReleaseId) -> None:
        """Do nothing: a token is made when it is handed over."""

    async def activate(self, target: Target, release: ReleaseId, spec: Spec) -> None:  # noqa: ARG002 - of the port
        """Hand the agent a token of another generation; the one that it has goes on counting."""
        await in_db_thread(self.registry.model_tokens.rotate, target.instance_id, release)
        await self._hand(target)

    async def cancel(self, target: Target) -> None:
        """Do nothing: an agent with two good tokens is no worse than one with one."""

    async def confirm(self, target: Target, release: ReleaseId) -> None:
        """See the machine have the token and the gateway answer through the proxy; then the token before ends."""
        rotation = await in_db_thread(self.registry.model_tokens.rotation, target.instance_id)
        if not rotation.is_handed:
            await self._hand(target)
        instance = await in_db_thread(self.registry.instances.get, target.instance_id)
        what = f"the gateway of {instance.title} through the proxy"
        await self.instance_client.await_health(instance, what=what, timeout_s=_PROXY_S, every_s=0.5)
        end = self.registry.model_tokens.end_rotation
        await in_db_thread(lambda: end(target.instance_id, release, why=self.purpose))

    async def roll_back(
        self,
        target: Target,
        *,
        lose: bool,  # noqa: ARG002 - nothing is lost by it
        even_revoked: bool = False,  # noqa: ARG002 - a token that ended does not come back
    ) -> tuple[str, ...]:
        """Take the agent out of the rotation and hand it a token again; an ended token stays ended."""
        await in_db_thread(self.registry.model_tokens.leave_rotation, target.instance_id, self.rotation)
        await self._hand(target)
        return ()

    async def drill(self, release: ReleaseId, before: str) -> tuple[GateResult, str]:  # noqa: ARG002 - of the port
        """Nothing to rehearse: machines of a pool have no token."""
        return GateResult.NOT_EXERCISED, "machines of a pool have no token"

    async def _hand(self, target: Target) -> None:
        with held_is_unavailable():
            await self.hand(await in_db_thread(self.registry.instances.get, target.instance_id))


def status_of(tokens: TokenRotation, rotation: ReleaseId) -> ReleaseStatus:
    """An agent's tokens as rollouts read them: its release is the last rotation that ended the tokens before. Pure."""
    if tokens.is_old_valid and tokens.rotation == rotation:
        return ReleaseStatus("", activation=rotation, phase="unconfirmed", reverts=False)
    return ReleaseStatus("" if tokens.is_old_valid else ReleaseId(tokens.rotation))

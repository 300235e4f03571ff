"""Agents' tokens for the model router: renewed while agents run, revoked on request."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property

from hermesops.access.proxy_tokens.renewal import Due, TokenRenewal, due_of, machines_in_use, renew_each
from hermesops.agents.instances import refusals
from hermesops.agents.instances.credentials.token_directory import TokenDirectory
from hermesops.agents.instances.remote.power_control import PowerControl
from hermesops.agents.instances.requests.eligibility import refuse_stopped
from hermesops.base.fan_out import Limits, problems
from hermesops.errors import Hint, RefusedError, UnavailableError, problem_of
from hermesops.model.access.token import LONGEST_ADDRESS, PLATFORM, PURPOSES, KeptToken, purpose_of
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.ids import MachineId, instance_subject
from hermesops.model.plan import Plan
from hermesops.model.unknown_name import unknown_name
from hermesops.store.operations.leases.keeper import LeaseKeeper
from hermesops.store.registry import Registry
from hermesops.store.registry.repositories.credentials.model_usage import Budget
from hermesops.vendor.channel.agent import AgentApi
from hermesops.vendor.justavps import Client

_HANDOVERS = Limits(at_once=8, slow_after_s=30.0, within_s=240.0)
"""Each is an upload, a command of hermes-node, and a throw-away turn of the agent, by which it reads the token."""


_AT_ONCE = 8

_DROPS = Limits(_AT_ONCE, slow_after_s=10.0, within_s=120.0)


@dataclass(frozen=True)
class ModelTokens:
    """Hands agents their tokens for the model router."""

    registry: Registry
    instance_client: PowerControl
    hold_lease: Callable[[str], LeaseKeeper]
    life: timedelta
    budgets: Mapping[Plan, Budget]

    def plans_due(self) -> list[Plan]:
        """Plans whose budget for models is another one in the registry than in settings."""
        budgets = self.registry.model_usage.budgets()
        return [plan for plan in Plan if budgets.get(plan, Budget()) != self.budgets.get(plan, Budget())]

    def write_budgets(self) -> None:
        """Write the budgets of settings where model routers read them."""
        budgets = {plan: self.budgets.get(plan, Budget()) for plan in Plan}
        self.registry.model_usage.set_budgets(budgets, why="settings")
        self.registry.model_usage.forget_batches()

    def due(self) -> Sequence[Instance]:
        """Running instances whose token has lived half its life, or that lack the present one."""
        return self.registry.model_tokens.instances_due(life=self.life)

    async def renew_due(self) -> dict[str, str]:
        """Hand a fresh one to each that is due; the problem of each by user, empty for none."""
        return await problems({instance.title: instance for instance in self.due()}, self.hand, _HANDOVERS)

    async def hand(self, instance: Instance) -> None:
        """Give a running agent its present token, or a fresh one where that has lived half its life, without a restart.

        Raises:
            LeaseHeldError: Somebody works on the instance.
            RefusedError: Its gateway is stopped on purpose (resuming hands the token), or the machine is not its own.
            UnavailableError: Its machine does not answer, or the agent did not read the token.
        """
        async with self.hold_lease(instance_subject(instance.id)) as turn:
            instance = self.registry.instances.get(instance.id)
            if instance.status is not InstanceStatus.RUNNING:
                raise refusals.suspended(instance)
            refuse_stopped(instance, self.registry.operations.list(unfinished=True, instance_id=instance.id))
            client = self.instance_client.with_lease(turn.lease)
            observation = await client.observe(instance.id)
            if observation.machine is None or observation.node is None:
                raise refusals.unreachable(observation)
            if observation.node.instance_id != instance.id:
                raise refusals.other_instance(instance, observation.node.instance_id)
            if observation.node.fenced:
                raise RefusedError(
                    f"the gateway of {instance.title} rests", hint=Hint(("instance", "show", instance.title))
                )
            # A token must reach it also before its hermes-node is brought up to date.
            handing = client if observation.node.takes_connector else client.without_connector()
            await handing.personalise(instance, MachineId(observation.machine.id), None)


@dataclass(frozen=True)
class ModelTokenRevocation:
    """Revokes agents' tokens for the model router.

    Attributes:
        hand: Hands a running agent another token; makes the connections that this needs.
    """

    registry: Registry
    hand: Callable[[Instance], Awaitable[None]]

    async def revoke(self, instance: Instance, *, reason: str) -> tuple[int, str]:
        """Revoke all tokens of an instance, then hand a running agent another.

        The first needs the registry alone, whatever is away. Killed in between, the agent is due for a token, as is one
        whose machine did not answer.

        Returns:
            The oldest generation that counts, and why the agent was not handed another token; empty where it was, or is
            to have none.
        """
        generation = self.registry.model_tokens.revoke(instance.id, why=reason or "revoked")
        return generation, await problem_of(self.hand(instance)) if instance.status is InstanceStatus.RUNNING else ""


@dataclass(frozen=True)
class ProxyTokens:
    """Tokens that are kept in the registry."""

    registry: Registry
    client: Client
    agents: AgentApi

    @cached_property
    def renewal(self) -> TokenRenewal:
        """Renews and revokes proxy tokens of instances."""
        return TokenRenewal(self.client, self.registry, self._opens, self._address)

    async def _address(self, machine_id: MachineId) -> str:
        address = (await self.client.get_machine(machine_id)).address_of_ports
        if not 0 < len(address) <= LONGEST_ADDRESS:
            raise UnavailableError(f"JustAVPS does not say how ports of machine {machine_id} are reached")
        return address

    async def _opens(self, machine_id: MachineId, token: str) -> bool:
        return await self.agents.opens(await self.client.get_machine(machine_id), token)

    def due(self) -> Due:
        """Tokens to renew and to drop now."""
        running, used = machines_in_use(self.registry.instances.list(), self.registry.unassigned.list())
        return due_of(running, used, self.registry.proxy_tokens.kept(), self.registry.now())

    async def renew_due(self) -> dict[str, str]:
        """Renew and drop what is due; the problem of each by user or machine, empty for none."""
        due = self.due()
        titles = {owner.machine_id: owner.title for owner in self.registry.instances.list()}
        dropped = await problems(
            {f"{token.purpose} of {token.machine_id}": token for token in due.drop}, self.renewal.drop, _DROPS
        )
        failures = {token: problem for token, problem in dropped.items() if problem}
        machines = {machine: titles[machine] for machine in due.renew if machine in titles}
        return failures | await renew_each(machines, self.renewal.renew, at_once=_AT_ONCE)

    async def revoke(self, instance: Instance, purpose: str, *, reason: str) -> Sequence[KeptToken]:
        """Revoke an instance's tokens, of one purpose or of all, with a line in the audit; those that were revoked.

        Raises:
            UsageError: No token is for that.
        """
        _refuse_unknown(instance, purpose or PLATFORM)
        kept = TokenDirectory(self.registry).proxy_tokens(instance)
        tokens = [token for _, token in kept if purpose in {"", purpose_of(token.purpose)}]
        for token in tokens:
            await self.renewal.drop(token)
        self._note(instance, "tokens_revoked", reason, [token.purpose for token in tokens])
        return tokens

    async def renew(self, instance: Instance, purpose: str, *, reason: str) -> None:
        """Replace an instance's token of a purpose, with a line in the audit.

        Raises:
            UsageError: No token is for that.
            UnavailableError: The instance is on no machine, or the new one could not be tried.
        """
        _refuse_unknown(instance, purpose)
        if instance.machine_id is None:
            raise UnavailableError(f"the agent of {instance.title} is on no machine")
        await self.renewal.renew(instance.machine_id, purpose)
        self._note(instance, "token_renewed", reason, [purpose])

    def _note(self, instance: Instance, action: str, reason: str, purposes: list[str]) -> None:
        self.registry.audit.append(action, instance_subject(instance.id), why=reason, after={"purposes": purposes})


def _refuse_unknown(instance: Instance, purpose: str) -> None:
    if purpose not in PURPOSES:
        raise unknown_name("token", purpose, PURPOSES, of=instance.title)

"""Tokens that open machines through JustAVPS's proxy: listed, renewed and revoked."""

from collections.abc import Sequence
from functools import cached_property

from hermesops.channel.agent import AgentApi
from hermesops.errors import UnavailableError
from hermesops.fan_out import Limits, problems
from hermesops.justavps import Client
from hermesops.model.ids import MachineId, instance_subject
from hermesops.model.instance import Instance
from hermesops.model.token import LONGEST_ADDRESS, PLATFORM, PURPOSES, KeptToken, purpose_of
from hermesops.model.unknown_name import unknown_name
from hermesops.proxy_tokens.renewal import Due, TokenRenewal, due_of, machines_in_use, renew_each
from hermesops.registry import Registry

_AT_ONCE = 8
_DROPS = Limits(_AT_ONCE, slow_after_s=10.0, within_s=120.0)


class ProxyTokens:
    """Tokens that are kept in the registry."""

    def __init__(self, registry: Registry, client: Client, agents: AgentApi) -> None:
        self._registry = registry
        self._client = client
        self._agents = agents

    @cached_property
    def renewal(self) -> TokenRenewal:
        """Renews and revokes."""
        return TokenRenewal(self._client, self._registry, self._opens, self._address)

    async def _address(self, machine_id: MachineId) -> str:
        address = (await self._client.get_machine(machine_id)).address_of_ports
        if not 0 < len(address) <= LONGEST_ADDRESS:
            raise UnavailableError(f"JustAVPS does not say how ports of machine {machine_id} are reached")
        return address

    async def _opens(self, machine_id: MachineId, token: str) -> bool:
        return await self._agents.opens(await self._client.get_machine(machine_id), token)

    def of(self, instance: Instance | None = None) -> list[tuple[Instance | None, KeptToken]]:
        """The tokens of one instance or of all, each with its instance."""
        owners = {one.machine_id: one for one in self._registry.instances.list()}
        kept = self._registry.proxy_tokens.kept()
        return [
            (owners.get(one.machine_id), one) for one in kept if not instance or one.machine_id == instance.machine_id
        ]

    def due(self) -> Due:
        """Tokens to renew and to drop now."""
        running, used = machines_in_use(self._registry.instances.list(), self._registry.spares.list())
        return due_of(running, used, self._registry.proxy_tokens.kept(), self._registry.now())

    async def renew_due(self) -> dict[str, str]:
        """Renew and drop what is due; the problem of each by user or machine, empty for none."""
        due = self.due()
        titles = {one.machine_id: one.title for one in self._registry.instances.list()}
        told: dict[str, str] = {}
        for token, problem in zip(due.drop, await problems(due.drop, self.renewal.drop, _DROPS), strict=True):
            if problem:
                told[f"{token.purpose} of {token.machine_id}"] = problem
        machines = {machine: titles[machine] for machine in due.renew if machine in titles}
        return told | await renew_each(machines, self.renewal.renew, at_once=_AT_ONCE)

    async def revoke(self, instance: Instance, purpose: str, *, reason: str) -> Sequence[KeptToken]:
        """Revoke an instance's tokens, of one purpose or of all, with a line in the audit; those that were revoked.

        Raises:
            UsageError: No token is for that.
        """
        _refuse_unknown(instance, purpose or PLATFORM)
        found = [token for _, token in self.of(instance) if purpose in {"", purpose_of(token.purpose)}]
        for token in found:
            await self.renewal.drop(token)
        self._note(instance, "tokens_revoked", reason, [token.purpose for token in found])
        return found

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
        self._registry.audit.append(action, instance_subject(instance.id), why=reason, after={"purposes": purposes})


def _refuse_unknown(instance: Instance, purpose: str) -> None:
    if purpose not in PURPOSES:
        raise unknown_name("token", purpose, PURPOSES, of=instance.title)

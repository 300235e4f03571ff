"""Composes the tokens that open machines, the relay's among them: who has one, who needs another."""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from hermesops.errors import UnavailableError
from hermesops.fan_out import Limits, problems
from hermesops.model.ids import MachineId
from hermesops.model.instance import Instance, InstanceStatus
from hermesops.model.spare import Purpose
from hermesops.model.token import LONGEST_ADDRESS, PLATFORM, PURPOSES, KeptToken, purpose_of
from hermesops.model.unknown_name import unknown_name

if TYPE_CHECKING:
    from hermesops.app.container_parts.connected import Connected
    from hermesops.proxy_tokens.renewal import Due, TokenRenewal

_AT_ONCE = 8
_DROPS = Limits(_AT_ONCE, slow_after_s=10.0, within_s=120.0)


class Tokens:
    """Proxy tokens of one session's instances.

    Args:
        session: What reaches the vendor and its proxy.
    """

    def __init__(self, session: "Connected") -> None:
        self._session = session
        self._registry = session.app.registry

    @cached_property
    def renewal(self) -> "TokenRenewal":
        """Renews and revokes."""
        from hermesops.proxy_tokens.renewal import TokenRenewal

        return TokenRenewal(self._session.client, self._registry, self._opens, self._address)

    async def _address(self, machine_id: MachineId) -> str:
        address = (await self._session.client.get_machine(machine_id)).address_of_ports
        if not 0 < len(address) <= LONGEST_ADDRESS:
            raise UnavailableError(f"JustAVPS does not say how ports of machine {machine_id} are reached")
        return address

    async def _opens(self, machine_id: MachineId, token: str) -> bool:
        return await self._session.agents.opens(await self._session.client.get_machine(machine_id), token)

    def of(self, instance: Instance | None = None) -> list[tuple[Instance | None, KeptToken]]:
        """The tokens that are remembered, of one instance or of all, with whose machine they open."""
        owners = {one.machine_id: one for one in self._registry.instances.list()}
        kept = self._registry.proxy_tokens.kept()
        return [
            (owners.get(one.machine_id), one) for one in kept if not instance or one.machine_id == instance.machine_id
        ]

    def due(self) -> "Due":
        """What has fallen due."""
        from hermesops.proxy_tokens.renewal import due_of

        living = self._registry.instances.list()
        running = [one.machine_id for one in living if one.status is InstanceStatus.RUNNING and one.machine_id]
        spares = self._registry.spares.list()
        beside = [one.machine_id for one in spares if one.wanted and one.purpose is not Purpose.FORMER]
        used = {one for one in (*(each.machine_id for each in living), *beside) if one}
        return due_of(running, used, self._registry.proxy_tokens.kept(), self._registry.now())

    async def renew_due(self) -> dict[str, str]:
        """Do what has fallen due; why not, by user or machine, empty for done."""
        from hermesops.proxy_tokens.renewal import renew_each

        due = self.due()
        titles = {one.machine_id: one.title for one in self._registry.instances.list()}
        told: dict[str, str] = {}
        for token, problem in zip(due.drop, await problems(due.drop, self.renewal.drop, _DROPS), strict=True):
            if problem:
                told[f"{token.purpose} of {token.machine_id}"] = problem
        machines = {machine: titles[machine] for machine in due.renew if machine in titles}
        return told | await renew_each(machines, self.renewal.renew, at_once=_AT_ONCE)

    async def revoke(self, instance: Instance, purpose: str, *, reason: str) -> Sequence[KeptToken]:
        """Revoke an instance's tokens, of one purpose or of all, and write down who did; those that were.

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
        """Replace an instance's token of a purpose, and write down who did.

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
        from hermesops.model.ids import instance_subject

        self._registry.audit.append(action, instance_subject(instance.id), why=reason, after={"purposes": purposes})


def _refuse_unknown(instance: Instance, purpose: str) -> None:
    if purpose not in PURPOSES:
        raise unknown_name("token", purpose, PURPOSES, of=instance.title)

"""Operators on users' agents and machines: each access has a reason, which is audited before anything is sent."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermesops.agents.instances.remote.data_export import export_data
from hermesops.errors import Hint, Parameter, UsageError
from hermesops.model.ids import instance_subject
from hermesops.vendor.channel.shell import Shell

if TYPE_CHECKING:
    from hermesops.agents.instances.remote.power_control import PowerControl
    from hermesops.model.fleet.instance import Instance
    from hermesops.store.registry import Registry
    from hermesops.vendor.channel import Completed
    from hermesops.vendor.channel.agent import Piece


@dataclass(frozen=True)
class OperatorAccess:
    """Accesses agents and machines of one environment for an operator.

    Every method raises UsageError without a reason: then nothing was recorded or sent. Texts, commands and answers are
    private to the user and not recorded.
    """

    registry: "Registry"
    machines: "PowerControl"

    async def chat(self, instance: "Instance", text: str, *, session_id: str, reason: str) -> "AsyncIterator[Piece]":
        """Send a message to an agent and yield its answer in pieces."""
        self._record(instance, "chat", reason)
        async for piece in self.machines.chat(instance, text, session_id=session_id):
            yield piece

    async def run(self, instance: "Instance", command: str, *, user: str, timeout_s: float, reason: str) -> "Completed":
        """Run a shell command on a machine, as a user of that machine."""
        self._record(instance, "exec", reason)
        channel = await self.machines.channel_to(instance)
        return await channel.run(command, user=user, timeout_s=timeout_s, binary=True)

    async def shell(self, instance: "Instance", *, reason: str) -> Shell:
        """Open a line-by-line shell on a machine."""
        self._record(instance, "shell", reason)
        return Shell(await self.machines.channel_to(instance))

    async def export(self, instance: "Instance", write: Callable[[bytes], object], *, reason: str) -> dict[str, int]:
        """Export all data of a user, line by line, as ``export_data`` does; the number of rows of each table."""
        self._record(instance, "export", reason)
        return await export_data(await self.machines.channel_to(instance), write)

    def _record(self, instance: "Instance", how: str, reason: str) -> None:
        if not reason.strip():
            raise UsageError(
                f"{how} touches what belongs to {instance.title}; say why", hint=Hint(Parameter("reason", "WHY"))
            )
        self.registry.audit.append(f"{how}_opened", instance_subject(instance.id), why=reason.strip())

"""The gateway's systemd unit on a machine: state, restart, fence, log."""

import shlex
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import datetime

from hermesops.agents.instances.observation import MachineState
from hermesops.agents.instances.remote.node_commands import admit
from hermesops.errors import UnavailableError
from hermesops.model.ids import MachineId
from hermesops.model.operation import Lease
from hermesops.vendor.channel import SILENT, Channel, last_words
from hermesops.vendor.channel.lines import stdout_lines
from hermesops.vendor.justavps.wire import MachineStatus

UNIT = "hermes-gateway.service"

_LOOK_S = 10.0
_CHANGE_S = 150.0
"""Longer than the unit's own limit for finishing turns."""

_FOLLOW_S = 600.0
"""Seconds for which one connection follows a log; nothing but this ends its command when the reader has gone."""


@dataclass(frozen=True)
class GatewayService:
    """The gateway of each machine, through its systemd unit."""

    channel_to: Callable[[MachineId], Channel]
    lease: Lease | None = None

    async def is_stopped(self, machine: MachineState | None) -> bool | None:
        """Whether the gateway is stopped and no boot starts it; ``None`` when the machine does not answer."""
        if machine is None or machine.status is not MachineStatus.READY:
            return None
        command = f"systemctl is-enabled {UNIT}; systemctl is-active {UNIT}"
        try:
            states = (await self.channel_to(machine.id).run(command, timeout_s=_LOOK_S)).text.split()
        except SILENT:
            return None
        # A machine that was never made into a user's has no unit, and systemctl no word for that.
        return states[:1] != ["enabled"] and states[-1:] != ["active"]

    async def invocation(self, machine_id: MachineId) -> str:
        """The id systemd gave the gateway's present start; empty when it is not running."""
        done = await self.channel_to(machine_id).run(
            f"systemctl show -p ActiveState -p InvocationID {UNIT}", timeout_s=_LOOK_S
        )
        properties = dict(line.split("=", 1) for line in done.text.splitlines() if "=" in line)
        return properties.get("InvocationID", "") if properties.get("ActiveState") == "active" else ""

    async def restart(self, machine_id: MachineId) -> None:
        """Restart the gateway after its running turns end.

        Raises:
            UnavailableError: It did not start.
        """
        await self._change(machine_id, "restart", failure="did not start")

    async def start(self, machine_id: MachineId) -> None:
        """Start the gateway unless it runs.

        Raises:
            UnavailableError: It did not start.
        """
        await self._change(machine_id, "start", failure="did not start")

    async def fence(self, machine_id: MachineId) -> None:
        """Stop the gateway so that no boot starts it again.

        Raises:
            UnavailableError: It did not stop.
        """
        await self._change(machine_id, "disable --now", failure="did not stop")

    async def log_tail(self, machine_id: MachineId, *, lines: int) -> list[str]:
        """Its last log lines; empty when the machine is silent."""
        try:
            done = await self.channel_to(machine_id).run(_journal(lines), timeout_s=_LOOK_S)
        except SILENT:
            return []
        return done.stdout.decode(errors="replace").splitlines()

    async def log(
        self, machine_id: MachineId, *, lines: int | None, follow: bool, since: datetime | None = None, unit: str = UNIT
    ) -> AsyncIterator[str]:
        """Yield its log line by line, or another unit's, or all; with ``follow`` also new lines, for ten minutes.

        Args:
            lines: The newest ones, so many; ``None`` for all.
            unit: Empty for all units.
        """
        command = _journal(lines, since, unit) + (" -f" if follow else "")
        async for line in stdout_lines(self.channel_to(machine_id).stream(command, timeout_s=_FOLLOW_S)):
            yield line

    async def _change(self, machine_id: MachineId, verb: str, *, failure: str) -> None:
        channel = self.channel_to(machine_id)
        await admit(channel, self.lease)
        # Who asks for a start gets one, however often systemd has started it lately.
        done = await channel.run(f"systemctl reset-failed {UNIT}; systemctl {verb} {UNIT}", timeout_s=_CHANGE_S)
        if done.exit_code != 0:
            raise UnavailableError(f"the gateway on machine {machine_id} {failure}: {last_words(done)}")


def _journal(lines: int | None, since: datetime | None = None, unit: str = UNIT) -> str:
    begin = f" --since=@{since.timestamp():.0f}" if since else ""
    of = f" -u {shlex.quote(unit)}" if unit else ""
    return f"journalctl{of} -n {'all' if lines is None else lines} --no-pager -o short-iso{begin}"

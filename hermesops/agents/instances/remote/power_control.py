"""Stops and starts gateways and machines, by hermes-node's commands and the vendor's API."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from hermesops.agents.instances.observation import MachineState
from hermesops.agents.instances.remote import data_volume, node_commands
from hermesops.agents.instances.remote.data_volume import DataRoom
from hermesops.agents.instances.remote.instance_client import InstanceClient
from hermesops.base import waiting
from hermesops.errors import Hint, UnavailableError
from hermesops.model.fleet.instance import Instance
from hermesops.model.ids import MachineId, MachineName
from hermesops.model.recovery.state import State
from hermesops.vendor.channel import SILENT, Completed, NoSuchFileError, last_words, object_in, understood
from hermesops.vendor.justavps.wire import MachineStatus
from hermesops.wire import strict_json
from hermesops.wire.errors import ExitCode
from hermesops.wire.layout import Layout
from hermesops.wire.protocol import PROGRAM

_DRAIN_S = 60.0
"""Seconds for running turns to end before the gateway is stopped; its unit adds some more."""

_STOP_S = 150.0
_STATE_S = 120.0
_SNAPSHOT = 64
"""Characters of a backup's id."""

_OFF_S = 300.0
_IGNORED_S = 60.0
"""Seconds for which a machine may be listed as ready after a stop; to repeat the stop is harmless."""

_QUICK_S = 20.0
_NO_WARM = b"invalid choice: 'warm'"
_WARM_S = 60.0
"""Seconds hermes-node has beyond those of the gateway, for a first turn of a prewarmed agent."""


@dataclass(frozen=True, kw_only=True)
class PowerControl(InstanceClient):
    """An instance client that also stops and starts gateways and machines."""

    async def fence(self, instance: Instance, machine_id: MachineId) -> None:
        """Let turns under way end, then stop the gateway for good.

        Raises:
            UnavailableError: It did not stop.
        """
        channel = self.channel(machine_id)
        drained = await node_commands.change(
            channel, f"drain --deadline {_DRAIN_S:g}", self.lease, timeout_s=_DRAIN_S + _QUICK_S
        )
        if drained.exit_code == ExitCode.UNFINISHED:
            self.report(f"{instance.title} is still busy after {_DRAIN_S:g} s; its gateway gives turns some more")
        await self._command(machine_id, "fence", timeout_s=_STOP_S)

    async def silence(self, machine_id: MachineId) -> None:
        """Stop the gateway of a machine without an instance, for good.

        Raises:
            UnavailableError: It did not stop.
        """
        await self._command(machine_id, "fence", timeout_s=_STOP_S)

    async def machine_named(self, name: MachineName, machine_id: MachineId | None) -> MachineState | None:
        """A machine that need not be an instance's, as the vendor lists it; ``None`` when it lists none."""
        machine = await self._named(name, machine_id)
        return MachineState.of(machine) if machine else None

    async def release(self, machine_id: MachineId) -> None:
        """Take the fence away and start the gateway.

        Raises:
            UnavailableError: It did not start.
        """
        await self._command(machine_id, "unfence", timeout_s=_STOP_S)
        await self._command(machine_id, "undrain", timeout_s=_QUICK_S)
        await self.gateways.start(machine_id)

    async def warm_up(self, machine_id: MachineId) -> str:
        """Prewarm a machine without an instance: its gateway starts with a placeholder and takes a turn.

        The placeholder opens nothing: no router ever issued it. A hermes-node that cannot do this leaves the machine
        as it is; safe to call again.

        Returns:
            The API key that the machine made; empty where it stays cold.

        Raises:
            UnavailableError: The gateway did not become well.
        """
        channel, wait_s = self.channel(machine_id), self.gateway_timeout_s
        words = f"warm --model-base-url {self.router_url} --wait {wait_s:g}"
        done = await node_commands.change(channel, words, self.lease, timeout_s=wait_s + _WARM_S)
        if done.exit_code == ExitCode.BAD_REQUEST and _NO_WARM in done.stderr:
            return ""
        if done.exit_code != 0:
            raise UnavailableError(
                f"machine {machine_id} was not warmed up: {last_words(done)}",
                hint=f"{PROGRAM} status there says more",
            )
        try:
            content = await channel.get(str(Layout().warm))
        except NoSuchFileError as error:
            raise UnavailableError(f"machine {machine_id} says that it is warm, and holds no key") from error
        with understood(machine_id, "warm"):
            return str(strict_json.parse_object(content)["secrets"]["api_server_key"])

    async def state(self, machine_id: MachineId) -> State | None:
        """The state on a machine, as counts and hashes; ``None`` when it does not answer."""
        answer = await self._stated(machine_id)
        with understood(machine_id, "state"):
            if answer is None:
                return None
            restored = answer.get("restored")
            return replace(
                State.from_json(answer["state"]), restored=None if restored is None else str(restored)[:_SNAPSHOT]
            )

    async def bytes_in_use(self, machine_id: MachineId) -> int | None:
        """Bytes that the instance's data takes on a machine; ``None`` when it does not answer."""
        answer = await self._stated(machine_id)
        with understood(machine_id, "state"):
            return None if answer is None else int(answer["bytes"])

    async def room(self, machine_id: MachineId) -> DataRoom | None:
        """How much room its user's data have on a machine; ``None`` when it does not answer, or cannot tell yet."""
        try:
            return await data_volume.observe(self.channel(machine_id))
        except SILENT:
            return None

    async def want_room(self, machine_id: MachineId, gigabytes: int) -> None:
        """Have a machine's data volume be that large from its next boot on."""
        await data_volume.want(self.channel(machine_id), gigabytes, self.lease)

    async def _stated(self, machine_id: MachineId) -> dict[str, Any] | None:
        try:
            done = await self.channel(machine_id).run(f"{PROGRAM} state", timeout_s=_STATE_S)
        except SILENT:
            return None
        if done.exit_code != 0:
            raise UnavailableError(
                f"hermes-node on machine {machine_id} cannot report its state: {last_words(done)}",
                hint=Hint(("instance", "verify", "USER")),
            )
        return object_in(done, machine_id, "state")

    async def stop_machine(self, instance: Instance, machine_id: MachineId) -> None:
        """Switch a machine off; return once the vendor lists it as stopped.

        Returns too if the vendor ignores the command for a minute: observe and repeat it.

        Raises:
            WaitExpiredError: Not within five minutes; the same command continues to wait.
        """
        await self.vendor.stop_machine(machine_id)
        told_at = time.monotonic()

        async def observe() -> bool | waiting.Pending[bool]:
            machine = await self.machine(instance)
            if machine is None or machine.status in {MachineStatus.STOPPED, MachineStatus.DELETED}:
                return True
            is_ignored = machine.status is MachineStatus.READY and time.monotonic() >= told_at + _IGNORED_S
            return is_ignored or waiting.Pending(machine.status.value)

        what = f"machine {instance.machine_name} to stop"
        await waiting.until(observe, what=what, timeout_s=_OFF_S, every_s=0.5, report=self.report)

    async def reboot_machine(self, machine_id: MachineId) -> None:
        """Reboot a machine the hard way; how it comes back, the caller has to observe."""
        await self.vendor.reboot_machine(machine_id)

    async def prepare(self, instance: Instance, machine_id: MachineId, request: str | None) -> None:
        """Personalise a machine for the instance, with the gateway fenced.

        Raises:
            RefusedError: The node refuses it; its words are repeated.
        """
        await self._hand(instance, machine_id, request, wait_s=0)
        await self._command(machine_id, "fence", timeout_s=_STOP_S)

    async def hand(self, machine_id: MachineId, verb: str, payload: bytes, *, timeout_s: float) -> Mapping[str, Any]:
        """Run a command of hermes-node that reads a file of secrets: one upload to a tmpfs, one command with its path.

        Raises:
            RefusedError: The node refuses; its words are repeated.
            UnavailableError: It could not; safe to repeat.
        """
        done = await node_commands.hand(self.channel(machine_id), verb, payload, self.lease, timeout_s=timeout_s)
        return object_in(node_commands.well(done, machine_id, verb), machine_id, verb)

    async def _command(self, machine_id: MachineId, words: str, *, timeout_s: float) -> Completed:
        done = await node_commands.change(self.channel(machine_id), words, self.lease, timeout_s=timeout_s)
        return node_commands.well(done, machine_id, words.split(maxsplit=1)[0])

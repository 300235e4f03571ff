"""Prewarms a machine without an instance: its gateway runs with a placeholder, and lacks only a user's files."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass

from hermesops.channel import Channel, NoSuchFileError, last_words, understood
from hermesops.errors import UnavailableError
from hermesops.instances.remote.node_commands import change
from hermesops.model.ids import MachineId
from hermesops.model.operation import Lease
from hermesops.node.errors import ExitCode
from hermesops.node.layout import Layout
from hermesops.node.protocol import PROGRAM
from hermesops.node.untrusted import strict_json

_UNKNOWN = b"invalid choice: 'warm'"
_NODE_S = 60.0
"""Seconds hermes-node has beyond those of the gateway, for a first turn."""


@dataclass(frozen=True)
class WarmUp:
    """Starts gateways of machines without users.

    Attributes:
        gateway_timeout_s: Seconds a gateway has to become healthy.
    """

    channel: Callable[[MachineId], Channel]
    _: KW_ONLY
    router_url: str
    gateway_timeout_s: float

    async def warm(self, machine_id: MachineId, lease: Lease) -> str:
        """Start the gateway with a placeholder, let it take a turn, and answer the API key that the machine made.

        The placeholder opens nothing: no router ever issued it. A hermes-node that cannot do this leaves the machine
        as it is; safe to call again.

        Returns:
            The key; empty where the machine stays cold.

        Raises:
            UnavailableError: The gateway did not become well.
        """
        channel = self.channel(machine_id)
        wait_s = self.gateway_timeout_s
        words = f"warm --model-base-url {self.router_url} --wait {wait_s:g}"
        done = await change(channel, words, lease, timeout_s=wait_s + _NODE_S)
        if done.exit_code == ExitCode.BAD_REQUEST and _UNKNOWN in done.stderr:
            return ""
        if done.exit_code != 0:
            raise UnavailableError(
                f"machine {machine_id} was not warmed up: {last_words(done)}",
                hint=f"{PROGRAM} status there says more",
            )
        try:
            kept = await channel.get(str(Layout().warm))
        except NoSuchFileError as error:
            raise UnavailableError(f"machine {machine_id} says that it is warm, and holds no key") from error
        with understood(machine_id, "warm"):
            return str(strict_json.parse_object(kept)["secrets"]["api_server_key"])

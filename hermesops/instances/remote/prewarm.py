"""Prewarms a machine without an instance: its gateway runs with a placeholder, and lacks only a user's files."""

from hermesops.channel import Channel, NoSuchFileError, last_words, understood
from hermesops.errors import UnavailableError
from hermesops.instances.remote.node_commands import change
from hermesops.model.operation import Lease
from hermesops.node.errors import ExitCode
from hermesops.node.layout import Layout
from hermesops.node.protocol import PROGRAM
from hermesops.node.untrusted import strict_json

_UNKNOWN = b"invalid choice: 'warm'"
_NODE_S = 60.0
"""Seconds hermes-node has beyond those of the gateway, for a first turn."""


async def warm_up(channel: Channel, lease: Lease, *, router_url: str, gateway_timeout_s: float) -> str:
    """Start the gateway with a placeholder, let it take a turn, and answer the API key that the machine made.

    The placeholder opens nothing: no router ever issued it. A hermes-node that cannot do this leaves the machine
    as it is; safe to call again.

    Returns:
        The key; empty where the machine stays cold.

    Raises:
        UnavailableError: The gateway did not become well.
    """
    words = f"warm --model-base-url {router_url} --wait {gateway_timeout_s:g}"
    done = await change(channel, words, lease, timeout_s=gateway_timeout_s + _NODE_S)
    if done.exit_code == ExitCode.BAD_REQUEST and _UNKNOWN in done.stderr:
        return ""
    if done.exit_code != 0:
        raise UnavailableError(
            f"machine {channel.machine_id} was not warmed up: {last_words(done)}",
            hint=f"{PROGRAM} status there says more",
        )
    try:
        kept = await channel.get(str(Layout().warm))
    except NoSuchFileError as error:
        raise UnavailableError(f"machine {channel.machine_id} says that it is warm, and holds no key") from error
    with understood(channel.machine_id, "warm"):
        return str(strict_json.parse_object(kept)["secrets"]["api_server_key"])

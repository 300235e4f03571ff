"""gRPC channels between processes of this computer. gRPC would take them through a proxy for the internet."""

from collections.abc import Sequence

import grpc
import grpc.aio

DIRECT = ("grpc.enable_http_proxy", 0)

Option = tuple[str, object]


def channel(address: str, options: Sequence[Option] = ()) -> grpc.Channel:
    """A channel to a process of this computer, past every proxy."""
    return grpc.insecure_channel(address, options=[DIRECT, *options])


def async_channel(address: str) -> grpc.aio.Channel:
    """An asyncio channel to a process of this computer, past every proxy."""
    return grpc.aio.insecure_channel(address, options=[DIRECT])


def keep_pulumi_direct() -> None:
    """Have channels that Pulumi's SDK opens in this process, to the CLI beside it, pass by every proxy too."""
    from pulumi.runtime._grpc_settings import _GRPC_CHANNEL_OPTIONS  # noqa: PLC0415 - the SDK's only way

    options: list[Option] = _GRPC_CHANNEL_OPTIONS  # type: ignore[assignment]  # inferred as of numbers only
    if DIRECT not in options:
        options.append(DIRECT)

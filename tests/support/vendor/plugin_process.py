"""The plugin as a process, started and spoken to as an engine does it."""

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import grpc.aio
from pulumi.runtime.proto import provider_pb2_grpc

from tests.support.vendor.fake_justavps import FakeJustAvps

PLUGIN = Path(sys.executable).with_name("pulumi-resource-justavps")


@asynccontextmanager
async def plugin_of(vendor: FakeJustAvps, home: Path) -> AsyncIterator["provider_pb2_grpc.ResourceProviderAsyncStub"]:
    """A plugin whose machines come from that vendor; ended with the block."""
    key = home / "api.key"
    key.write_text(vendor.key)
    key.chmod(0o600)
    environment = {"HERMESOPS_API_URL": vendor.url, "HERMESOPS_API_KEY_FILE": str(key), "HOME": str(home)}
    process = subprocess.Popen(  # noqa: ASYNC220 - a start; its one line comes at once
        [PLUGIN], env={"PATH": "/usr/bin:/bin", **environment}, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = provider_pb2_grpc.ResourceProviderStub(channel)
            yield cast("provider_pb2_grpc.ResourceProviderAsyncStub", stub)
    finally:
        process.terminate()
        process.wait()

"""Makes and deletes many machines through the plugin at once, as an engine does, whatever goes wrong on the way."""

import asyncio
from collections import Counter
from dataclasses import dataclass

import grpc
import grpc.aio
from pulumi.runtime.proto import provider_pb2 as proto
from pulumi.runtime.proto import provider_pb2_grpc

from hermesops.infra.provider import values
from hermesops.infra.provider.resource_types import MACHINE


@dataclass
class Tally:
    """What it took.

    Attributes:
        made: Ids by machine name.
        repeated: Calls that were answered with an error and were made again.
    """

    made: dict[str, str]
    repeated: Counter[grpc.StatusCode]


def names(count: int) -> list[str]:
    """As many machine names."""
    return [f"hermes-local-cell1-{number:012x}" for number in range(count)]


async def make(stub: "provider_pb2_grpc.ResourceProviderAsyncStub", count: int, *, tries: int = 20) -> Tally:
    """Create machines side by side; an engine's next run repeats what failed, and so does this."""
    repeated: Counter[grpc.StatusCode] = Counter()

    async def create(name: str) -> str:
        inputs = {"name": name, "region": "hel1", "server_type": "starter"}
        request = proto.CreateRequest(urn=_urn(name), properties=values.write(inputs), timeout=60)
        for _ in range(tries):
            try:
                response: proto.CreateResponse = await stub.Create(request)
            except grpc.aio.AioRpcError as error:
                repeated[error.code()] += 1
            else:
                return response.id
        raise AssertionError(f"{name} was not made in {tries} tries")

    ids = await asyncio.gather(*map(create, names(count)))
    return Tally(dict(zip(names(count), ids, strict=True)), repeated)


async def delete(stub: "provider_pb2_grpc.ResourceProviderAsyncStub", tally: Tally, *, tries: int = 20) -> None:
    """Delete them side by side, repeating what failed."""

    async def remove(name: str, machine_id: str) -> None:
        request = proto.DeleteRequest(id=machine_id, urn=_urn(name), properties=values.write({"name": name}))
        for _ in range(tries):
            try:
                await stub.Delete(request)
            except grpc.aio.AioRpcError as error:
                tally.repeated[error.code()] += 1
            else:
                return
        raise AssertionError(f"{name} was not deleted in {tries} tries")

    await asyncio.gather(*(remove(name, machine_id) for name, machine_id in tally.made.items()))


def _urn(name: str) -> str:
    return f"urn:pulumi:cell1::fleet::{MACHINE.token}::{name}"

"""Asks addresses with every kind of client that the product has, under one set of variables after another.

A process of its own, since libraries keep what variables said when they first looked, and the tests share a TLS
context. Reads a list of ``[variables, url, address]`` as JSON from stdin; writes for each what every client came to.
"""

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import grpc
import httpx

from hermesops.agents.backup.store.object_store import ObjectStore
from hermesops.agents.backup.store.repository import Bucket
from hermesops.agents.health.prometheus import Prometheus
from hermesops.agents.rollout.watch.webhooks import ask_service
from hermesops.base.network.channels import async_channel, channel, keep_pulumi_direct
from hermesops.base.network.http import blocking_client
from hermesops.errors import HermesError
from hermesops.model.fleet.vitals import Vital
from hermesops.observability.telemetry.client import MonitoringClient, Question
from hermesops.users.billing.current import StripeSubscriptions
from hermesops.users.billing.stripe_api import StripeApi
from hermesops.vendor.justavps.connections import http_client

ANSWERED = "answered"
_CALL = "/echo/Echo"


async def _httpx(url: str) -> None:
    async with http_client(httpx.URL(url)) as http:
        await http.get(url)


async def _blocking(url: str) -> None:
    with blocking_client(timeout=5) as http:
        http.get(url)


async def _monitoring(url: str) -> None:
    await MonitoringClient(url, is_ours=False).ask(Question("/"))


async def _prometheus(url: str) -> None:
    await Prometheus(url).require_vital(next(iter(Vital)))


async def _stripe(url: str) -> None:
    try:
        await StripeSubscriptions(StripeApi("sk_test_x", url), "user").get("sub_1")
    except HermesError as error:
        if not error.message.startswith("Stripe's answer"):
            raise


async def _hook(url: str) -> None:
    result, why = await ask_service(url, {}, timeout_s=5)
    if result != "pass":
        raise HermesError(why)


async def _store(url: str) -> None:
    with tempfile.NamedTemporaryFile("w") as key:
        key.write("[default]\naws_access_key_id = a\naws_secret_access_key = b\n")
        key.flush()
        ObjectStore(Bucket("copies", endpoint=url, region="r"), Path(key.name)).answers()


CLIENTS: dict[str, Callable[[str], Awaitable[None]]] = {
    "httpx": _httpx,
    "blocking": _blocking,
    "monitoring": _monitoring,
    "prometheus": _prometheus,
    "stripe": _stripe,
    "hook": _hook,
    "store": _store,
}


async def _channels(address: str) -> dict[str, str]:
    """The same of gRPC, one channel of Pulumi's SDK among them."""
    from pulumi.runtime._grpc_settings import _GRPC_CHANNEL_OPTIONS  # noqa: PLC0415 - what the SDK opens with

    keep_pulumi_direct()
    channels = dict[str, str]()
    for name, opened in (("grpc", channel(address)), ("sdk", grpc.insecure_channel(address, _GRPC_CHANNEL_OPTIONS))):
        channels[name] = str(await asyncio.to_thread(opened.unary_unary(_CALL, None, None), b"", timeout=10), "ascii")
    async with async_channel(address) as opened_async:
        channels["grpc.aio"] = str(await opened_async.unary_unary(_CALL, None, None)(b"", timeout=10), "ascii")
    return channels


async def _case(variables: dict[str, str], url: str, address: str) -> dict[str, str]:
    os.environ.update(variables)  # noqa: TID251 - the shell of this case
    try:
        answers = await _channels(address) if address else {}
        for name, ask in CLIENTS.items():
            try:
                await ask(url)
                answers[name] = ANSWERED
            except (HermesError, httpx.HTTPError) as error:
                answers[name] = f"{type(error).__name__}: {error}"
        return answers
    finally:
        for name in variables:
            del os.environ[name]  # noqa: TID251 - as above


async def main() -> None:
    """Ask in each case."""
    json.dump([await _case(*case) for case in json.load(sys.stdin)], sys.stdout)


if __name__ == "__main__":
    asyncio.run(main())

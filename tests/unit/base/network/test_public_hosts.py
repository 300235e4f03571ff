"""Hosts of strangers are resolved beside the threads of the database, and within some seconds."""

import asyncio
import socket
import threading
from collections.abc import Iterator

import pytest

from hermesops.base import blocking
from hermesops.base.network import public_hosts
from hermesops.base.network.public_hosts import addresses_of


@pytest.fixture
def goes_on(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Hosts of evil.example never have an answer until the test ends."""
    goes_on, real = threading.Event(), socket.getaddrinfo

    def answered(host: str, port: int, *more: int, **named: int) -> object:
        if host.endswith(".evil.example"):
            goes_on.wait(60)
            raise socket.gaierror("timed out")
        return real("127.0.0.1", port, *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", answered)
    yield goes_on
    goes_on.set()


async def test_hosts_that_hang_hold_no_call_of_the_database_and_no_other_host(goes_on: threading.Event) -> None:
    blocking.give_threads()
    hung = [asyncio.ensure_future(addresses_of(f"h{number}.evil.example")) for number in range(100)]
    async with asyncio.timeout(4):
        await asyncio.to_thread(lambda: None)
        assert await addresses_of("good.example.com") == ["127.0.0.1"]
    goes_on.set()
    outcomes = await asyncio.gather(*hung, return_exceptions=True)
    assert all(isinstance(outcome, OSError) for outcome in outcomes)


async def test_a_host_that_hangs_has_no_address_and_gets_a_bounded_number_of_threads(
    goes_on: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(public_hosts, "_RESOLVED_S", 0.05)
    before = threading.active_count()
    for _ in range(40):
        with pytest.raises(OSError, match=r"no answer within|have not ended"):
            await addresses_of("same.evil.example")
    assert threading.active_count() - before < 20
    assert not any("evil" in thread.name for thread in threading.enumerate())
    goes_on.set()

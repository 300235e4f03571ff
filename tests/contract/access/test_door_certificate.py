"""The certificate of a server whose clients have none: whoever trusts the authority connects, after a renewal too."""

import asyncio
import contextlib
import ssl
from datetime import timedelta
from pathlib import Path

import pytest

from hermesops.access.pki.authority import Authority
from hermesops.access.pki.door_certificate import DoorCertificate
from hermesops.base.network.http import blank_context
from hermesops.base.waiting import Pending, cancel, pause, until
from tests.support.fakes.credentials import authority_in

HOST = "127.0.0.1"


async def shown(context: ssl.SSLContext, roots: str) -> bytes:
    """The certificate that a server with this context shows to a client that trusts these roots."""

    async def close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(close, HOST, 0, ssl=context)
    trusting = blank_context()
    trusting.load_verify_locations(cadata=roots)
    async with server:
        port = server.sockets[0].getsockname()[1]
        _, writer = await asyncio.open_connection(HOST, port, ssl=trusting, server_hostname=HOST)
        certificate: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    return certificate


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return authority_in(tmp_path)


async def test_a_client_without_a_certificate_connects_and_gets_a_newer_one_later(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    async def third_of_a_life(seconds: float) -> None:
        pauses.append(seconds)
        await pause(0.2)

    monkeypatch.setattr("hermesops.access.pki.door_certificate.pause", third_of_a_life)
    certificate = DoorCertificate(authority, [HOST], timedelta(days=1))
    first = await shown(certificate.context, authority.certificate)
    keeping = asyncio.ensure_future(certificate.keep())

    async def renewed() -> bool | Pending[bool]:
        return await shown(certificate.context, authority.certificate) != first or Pending("the same")

    try:
        await until(renewed, what="another certificate", timeout_s=10, every_s=0.1)
    finally:
        await cancel(keeping)
    assert set(pauses) == {timedelta(days=1).total_seconds() / 3}


async def test_a_handshake_during_a_renewal_gets_a_certificate_with_its_own_key(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def at_once(_: float) -> None:
        await pause(0)

    monkeypatch.setattr("hermesops.access.pki.door_certificate.pause", at_once)
    certificate = DoorCertificate(authority, [HOST], timedelta(days=1))
    keeping = asyncio.ensure_future(certificate.keep())
    try:
        certificates = {await shown(certificate.context, authority.certificate) for _ in range(100)}
    finally:
        await cancel(keeping)
    assert len(certificates) > 1


async def test_who_trusts_another_authority_does_not_connect(authority: Authority, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = authority_in(tmp_path / "other")
    certificate = DoorCertificate(authority, [HOST], timedelta(days=1))
    with pytest.raises(ssl.SSLCertVerificationError):
        await shown(certificate.context, other.certificate)

"""An internet of its own in a network namespace: addresses, names that change, and hosts with TLS; and what a sender of
notifications does there, with the resolver and the network that it has in production.

``unshare --net --mount python -m tests.support.network.pretended_internet FOLDER`` writes ``happened.json`` there.
Nothing of this computer's network is touched: the addresses are on the loopback of the namespace.
"""

import asyncio
import contextlib
import json
import os
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from hermesops.base.network.public_hosts import internet
from hermesops.base.waiting import pause
from hermesops.model.chat.caller import Caller
from hermesops.model.ids import InstanceId, UserId
from hermesops.store.calling_rows.pushes import Push
from hermesops.users.callers import pushes
from hermesops.users.callers.pushes import PushRefusedError, PushSender

PUBLIC, PUBLIC6, PRIVATE, METADATA = "93.184.216.34", "2606:2800:220:1::1", "10.1.2.3", "169.254.169.254"
HOSTNAME = "hooks.example.com"
_SOON_S = 1.0
_A, _AAAA = 1, 28


class Names(asyncio.DatagramProtocol):
    """A server of names that answers each question for an address with the next of its answers; the last one stays.

    Attributes:
        answers: Addresses, one set for each question.
        questions: How many questions for an address of IPv4 there were.
    """

    answers: Sequence[Sequence[str]] = ()
    questions = 0
    transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way to answer."""
        self.transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:  # noqa: ANN401 - asyncio's
        """Answer one question. Source: RFC 1035, section 4.1."""
        end = data.index(b"\0", 12) + 5
        kind = int.from_bytes(data[end - 4 : end - 2], "big")
        current = self.answers[min(self.questions, len(self.answers) - 1)]
        self.questions += kind == _A
        of_kind = [address for address in current if (":" in address) == (kind == _AAAA)] if kind in {_A, _AAAA} else []
        records = b"".join(
            b"\xc0\x0c" + kind.to_bytes(2, "big") + b"\0\1\0\0\0\0" + len(raw).to_bytes(2, "big") + raw
            for raw in (socket.inet_pton(socket.AF_INET6 if ":" in each else socket.AF_INET, each) for each in of_kind)
        )
        head = data[:2] + b"\x81\x80\0\1" + len(of_kind).to_bytes(2, "big") + b"\0\0\0\0"
        self.transport.sendto(head + data[12:end] + records, addr)


@dataclass
class Host:
    """A host with TLS at an address.

    Attributes:
        answer: Bytes of its answers; ``None`` for silence.
        is_endless: Whether the head of its answers has no end.
        pace_s: Seconds between two characters of such a head; 0 for lines as fast as they are read.
        heads: First lines and names of the requests that it took.
        opened: Connections, also those that ended before a request.
    """

    answer: bytes | None = b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n"
    is_endless: bool = False
    pace_s: float = 0.0
    heads: list[str] = field(default_factory=list)
    opened: int = 0

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        self.opened += 1
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            named = next(line for line in head.split("\r\n") if line.lower().startswith("host:"))
            self.heads.append(f"{head.splitlines()[0]} {named}")
            if self.answer is None:
                await reader.read()
            else:
                writer.write(self.answer)
                while self.is_endless:
                    writer.write(b"x" if self.pace_s else b"x: " + b"y" * 1_000 + b"\r\n")
                    await writer.drain()
                    await pause(self.pace_s)
                await writer.drain()
        writer.close()


@dataclass
class Internet:
    """The namespace's hosts and names."""

    names: Names
    public: Host
    private: Host
    metadata: Host
    plain: Host

    async def notified(self, *answers: Sequence[str], host: str = HOSTNAME) -> dict[str, Any]:
        """What one notification does while names are answered so."""
        hosts = {"public": self.public, "private": self.private, "metadata": self.metadata, "plain": self.plain}
        for each in hosts.values():
            each.heads, each.opened = [], 0
        self.names.answers, self.names.questions = answers, 0
        unused: Any = None
        sender = PushSender(unused, unused, unused, unused, internet())
        caller = Caller("c", UserId("u"), InstanceId("i"), "bob", (host,), False, datetime.now(UTC), key_hash="k")
        began = asyncio.get_running_loop().time()
        try:
            outcome: object = await sender._send(caller, Push("t", "p", f"https://{host}/task?of=ada"), b"{}")
        except PushRefusedError as error:
            outcome = str(error)
        seconds = asyncio.get_running_loop().time() - began
        reached = {name: each.heads for name, each in hosts.items() if each.heads}
        opened = sorted(name for name, each in hosts.items() if each.opened)
        looks = self.names.questions
        return {"outcome": outcome, "reached": reached, "opened": opened, "looks": looks, "seconds": seconds}


class Authority:
    """An authority, as those that browsers trust."""

    def __init__(self, name: str) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.certificate = self._signed(self.name, self.key, None)

    def _signed(self, name: x509.Name, key: ec.EllipticCurvePrivateKey, host: str | None) -> x509.Certificate:
        now = datetime.now(UTC)
        builder = x509.CertificateBuilder(
            self.name, name, key.public_key(), x509.random_serial_number(), now - timedelta(hours=1), now + timedelta(1)
        ).add_extension(x509.BasicConstraints(ca=host is None, path_length=None), critical=True)
        if host:
            builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        return builder.sign(self.key, hashes.SHA256())

    def context(self, folder: Path, host: str) -> ssl.SSLContext:
        """TLS of a host that this authority certifies."""
        key = ec.generate_private_key(ec.SECP256R1())
        signed = self._signed(x509.Name([]), key, host)
        pem, private = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        file = folder / f"{host}-{id(self)}.pem"
        text = key.private_bytes(pem, private, serialization.NoEncryption()) + signed.public_bytes(pem)
        file.write_bytes(text)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context


@contextlib.asynccontextmanager
async def _internet(context: ssl.SSLContext) -> AsyncIterator[Internet]:
    names, public, private, metadata, plain = Names(), Host(), Host(), Host(), Host()
    places = {(PUBLIC, 443): public, (PUBLIC6, 443): public, (PRIVATE, 443): private, (METADATA, 443): metadata}
    async with contextlib.AsyncExitStack() as stack:
        for (address, port), host in places.items():
            server = await asyncio.start_server(host.take, address, port, ssl=context)
            await stack.enter_async_context(server)
        await stack.enter_async_context(await asyncio.start_server(plain.take, PUBLIC, 80))
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(lambda: names, ("127.0.0.1", 53))
        stack.callback(transport.close)
        yield Internet(names, public, private, metadata, plain)


async def _happened(folder: Path) -> dict[str, Any]:
    trusted, unknown = Authority("trusted"), Authority("unknown")
    file = folder / "trusted.pem"
    await asyncio.to_thread(file.write_bytes, trusted.certificate.public_bytes(serialization.Encoding.PEM))
    os.environ["SSL_CERT_FILE"] = str(file)  # noqa: TID251 - as an operator sets it
    pushes._WITHIN_S = _SOON_S
    happened: dict[str, Any] = {}
    async with _internet(trusted.context(folder, HOSTNAME)) as net:
        happened["taken"] = await net.notified([PUBLIC])
        happened["taken by IPv6"] = await net.notified([PUBLIC6])
        happened["rebound"] = await net.notified([PUBLIC], [PRIVATE])
        happened["private"] = await net.notified([PRIVATE])
        happened["metadata"] = await net.notified([METADATA])
        happened["both"] = await net.notified([PUBLIC, PRIVATE])
        happened["own"] = await net.notified(["127.0.0.1"])
        happened["no address"] = await net.notified([])
        happened["another name"] = await net.notified([PUBLIC], host="other.example.com")
        for place in (f"https://{PRIVATE}/", f"http://{PUBLIC}/", f"https://{HOSTNAME}/again"):
            net.public.answer = f"HTTP/1.1 307 Moved\r\nlocation: {place}\r\ncontent-length: 0\r\n\r\n".encode()
            happened[f"redirect to {place}"] = await net.notified([PUBLIC])
        net.public.answer = None
        happened["silence"] = await net.notified([PUBLIC])
        net.public.answer, net.public.is_endless = b"HTTP/1.1 200 OK\r\n", True
        happened["endless head"] = await net.notified([PUBLIC])
        net.public.pace_s = _SOON_S / 5
        happened["slow head"] = await net.notified([PUBLIC])
    async with _internet(unknown.context(folder, HOSTNAME)) as net:
        happened["unknown authority"] = await net.notified([PUBLIC])
    return happened


def main() -> None:
    """Make the namespace's addresses and resolver, and write what happens."""
    folder = Path(sys.argv[1])
    (resolver := folder / "resolv.conf").write_text("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")
    (order := folder / "nsswitch.conf").write_text("hosts: files dns\n")
    commands = [["ip", "link", "set", "lo", "up"]]
    commands += [["ip", "addr", "add", f"{address}/32", "dev", "lo"] for address in (PUBLIC, PRIVATE, METADATA)]
    commands += [["ip", "addr", "add", f"{PUBLIC6}/128", "dev", "lo", "nodad"]]
    commands += [["mount", "--make-rprivate", "/"]]
    commands += [["mount", "--bind", str(file), f"/etc/{file.name}"] for file in (resolver, order)]
    for command in commands:
        subprocess.run(command, check=True, capture_output=True)
    (folder / "happened.json").write_text(json.dumps(asyncio.run(_happened(folder))))


if __name__ == "__main__":
    main()

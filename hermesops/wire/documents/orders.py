"""Messages between platform and machine about orders. Pure.

The platform alone decides the target of metrics and logs. SSH access also needs the signature of a signer that the
machine knows (``node.orders.break_glass``).
"""

import json
import re
import time
from dataclasses import asdict, dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Literal

from hermesops.wire.documents.handout import Signed
from hermesops.wire.documents.lock import canonical
from hermesops.wire.documents.signers import type_of_key
from hermesops.wire.errors import BadRequestError
from hermesops.wire.strict_json import exactly, mapping, matching, object_in, one_line, whole_number

PATH = "/v1/orders"
FORMAT = 1
MAX_BYTES = 16 * 1024
"""Of an answer, and of a report."""

LONGEST_S = 4 * 3600
"""Seconds from the first to the last moment at which an order to open sshd is valid, at most."""

_MOST_V4, _MOST_V6 = 24, 48
"""The shortest prefixes that an order may open sshd for."""

_URL = re.compile(r"(?:https://[A-Za-z0-9.\[\]:_-]{1,256})?")
_ID = re.compile(r"[0-9a-f]{32}")
_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
_KEY = re.compile(
    r"(?P<type>ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(?:256|384|521)"
    r"|sk-(?:ssh-ed25519|ecdsa-sha2-nistp256)@openssh\.com) (?P<key>[A-Za-z0-9+/]{40,4096}={0,2})"
)
_LONGEST_WHY = 300


@dataclass(frozen=True)
class BreakGlassOrder:
    """An order to open sshd of one machine for one key from one network; an operator signs ``to_json()``.

    Attributes:
        id: 32 hexadecimal digits; a machine carries out each id once.
        instance: Id of the instance that the machine belongs to.
        key: The public SSH key that may log in as root, as ``ssh-ed25519 AAAA…``.
        source: The network that may connect, as ``192.0.2.7/32``.
        not_before: Seconds since 1970, like ``expires``.
    """

    id: str
    environment: str
    instance: str
    machine: str
    key: str
    source: str
    not_before: int
    expires: int

    def to_json(self) -> bytes:
        """The canonical bytes of the order, which are signed."""
        return canonical({"format": FORMAT, **asdict(self)})

    @property
    def network(self) -> IPv4Network | IPv6Network:
        """``source``, parsed as an IPv4 or IPv6 network."""
        return ip_network(self.source)

    @classmethod
    def from_json(cls, data: bytes) -> "BreakGlassOrder":
        """Parse and check an order; its signature is not checked.

        Raises:
            BadRequestError: It is malformed, too long or for too wide a network; the message names the field.
        """
        fields = object_in(data, "order", largest=MAX_BYTES)
        if fields.pop("format", None) != FORMAT:
            raise BadRequestError(f"order: its format is not understood, only {FORMAT}")
        exactly(fields, "order", required=set(cls.__dataclass_fields__))
        order = cls(
            id=matching(fields["id"], _ID, "order.id"),
            key=ssh_key(fields["key"], "order.key"),
            source=_source(fields["source"]),
            not_before=whole_number(fields["not_before"], "order.not_before"),
            expires=whole_number(fields["expires"], "order.expires"),
            **{name: matching(fields[name], _NAME, f"order.{name}") for name in ("environment", "instance", "machine")},
        )
        if not 0 < order.expires - order.not_before <= LONGEST_S:
            raise BadRequestError(f"order.expires: not within {LONGEST_S // 3600} h after order.not_before")
        if order.to_json() != data:
            raise BadRequestError("order: not canonical (sorted keys, no blanks, a newline at the end)")
        return order


def ssh_key(raw: object, where: str) -> str:
    """Check a public SSH key without comment and options, as ``ssh-ed25519 AAAA…``; return it.

    Raises:
        BadRequestError: It is no such key.
    """
    text = matching(raw, _KEY, where)
    kind, _, key = text.partition(" ")
    if type_of_key(key) != kind:
        raise BadRequestError(f"{where}: its data have another type")
    return text


def _source(raw: object) -> str:
    text = one_line(raw, "order.source")
    try:
        network = ip_network(text)
    except ValueError:
        raise BadRequestError("order.source: not a network, as 192.0.2.7/32") from None
    if str(network) != text:
        raise BadRequestError(f"order.source: spelled {network}")
    if network.prefixlen < (_MOST_V4 if network.version == 4 else _MOST_V6):  # noqa: PLR2004 - of IP
        raise BadRequestError(f"order.source: wider than /{_MOST_V4}, or /{_MOST_V6} of IPv6")
    if network.is_loopback or network.is_multicast or network.is_unspecified or network.is_link_local:
        raise BadRequestError("order.source: no address that can reach a machine")
    return text


@dataclass(frozen=True)
class Orders:
    """The platform's answer to a request for orders.

    Attributes:
        ingest: Target of metrics and logs, ``https://host:port``; empty for none.
        break_glass: A signed order to open sshd; ``None`` closes it.
    """

    ingest: str = ""
    break_glass: Signed | None = None

    def to_json(self) -> bytes:
        """The JSON that the platform answers."""
        return json.dumps(asdict(self), sort_keys=True).encode()

    @classmethod
    def from_json(cls, data: bytes) -> "Orders":
        """Parse an answer; the signature is not checked.

        Raises:
            BadRequestError: It is malformed; the message names the field.
        """
        fields = object_in(data, "orders", largest=2 * MAX_BYTES)
        exactly(fields, "orders", required={"ingest", "break_glass"})
        signed = fields["break_glass"]
        return cls(
            matching(fields["ingest"], _URL, "orders.ingest"),
            None if signed is None else Signed.parse(signed, "orders.break_glass"),
        )


State = Literal["open", "closed", "refused"]
_STATES = re.compile("open|closed|refused")


@dataclass(frozen=True)
class SshReport:
    """The outcome of an order to open sshd.

    Attributes:
        order: Its id; empty where the order could not be read.
        why: Reason for refusing or closing it.
        address: Of the machine, while sshd listens at it.
    """

    order: str
    state: State
    why: str = ""
    address: str = ""


@dataclass(frozen=True)
class SshHost:
    """The host key and the address of a machine's sshd.

    Attributes:
        key: The public host key, as ``ssh-ed25519 AAAA…``; empty where the machine has none.
        address: The machine's own address, as the platform's host sees it; empty if unknown.
    """

    key: str = ""
    address: str = ""


@dataclass(frozen=True)
class Report:
    """The report of a machine in its request for orders.

    Attributes:
        break_glass: ``None`` while sshd is closed and no order is there.
    """

    host: SshHost = SshHost()
    break_glass: SshReport | None = None

    def to_json(self) -> bytes:
        """The JSON that a machine sends."""
        return json.dumps(asdict(self), sort_keys=True).encode()

    @classmethod
    def from_json(cls, data: bytes) -> "Report":
        """Parse a report.

        Raises:
            BadRequestError: It is malformed; the message names the field.
        """
        fields = object_in(data, "report", largest=MAX_BYTES)
        exactly(fields, "report", required={"host", "break_glass"})
        ssh = fields["break_glass"]
        return cls(_host(fields["host"]), None if ssh is None else _ssh_report(ssh))


def _host(raw: object) -> SshHost:
    fields = mapping(raw, "report.host")
    exactly(fields, "report.host", required={"key", "address"})
    key, address = fields["key"], fields["address"]
    return SshHost(
        ssh_key(key, "report.host.key") if key else "", _address(address, "report.host.address") if address else ""
    )


def _ssh_report(raw: object) -> SshReport:
    fields = mapping(raw, "report.break_glass")
    exactly(fields, "report.break_glass", required={"order", "state", "why", "address"})
    order = fields["order"]
    state = matching(fields["state"], _STATES, "report.break_glass.state")
    return SshReport(
        matching(order, _ID, "report.break_glass.order") if order else "",
        "open" if state == "open" else "closed" if state == "closed" else "refused",
        one_line(fields["why"], "report.break_glass.why")[:_LONGEST_WHY],
        _address(fields["address"], "report.break_glass.address") if fields["address"] else "",
    )


def _address(raw: object, where: str) -> str:
    text = one_line(raw, where)
    try:
        return str(ip_address(text))
    except ValueError:
        raise BadRequestError(f"{where}: no address") from None


def timestamp(seconds: float) -> str:
    """A time as text, for messages."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))

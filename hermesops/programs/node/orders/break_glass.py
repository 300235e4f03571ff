"""Break glass: opens sshd for the key and the network of a signed order, and closes it when the order ends.

It is the way in if the vendor's toolbox and proxy fail. An order is valid if a release signer of the machine has signed
it whose line allows the namespace ``hermesops-break-glass``; signers change only by a signature of an earlier signer.
Each order works once.

It closes without the platform: systemd ends sshd with all its sessions, and the kernel forgets the address, each after
a time of its own. Everything that opens it is below ``/run``, so a boot closes it.

Source: sshd_config(5), sshd(8), "AUTHORIZED_KEYS FILE FORMAT", of OpenSSH 9.2; systemd.service(5).
"""

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from hermesops.programs.node.machine import Machine
from hermesops.programs.node.system.files import PRIVATE, Access
from hermesops.programs.node.system.sshd import PORT
from hermesops.wire import strict_json
from hermesops.wire.documents.handout import Signed
from hermesops.wire.documents.orders import LONGEST_S, BreakGlassOrder, SshHost, SshReport, timestamp
from hermesops.wire.documents.signers import AllowedSigners, Kind
from hermesops.wire.errors import NodeError, RefusedError
from hermesops.wire.layout import BREAK_GLASS_UNIT as UNIT
from hermesops.wire.layout import Layout

SKEW_S = 300
"""Seconds by which this machine's clock may be behind an operator's."""

_SPENT_DAYS = 90
_READABLE = Access(0o644)


@dataclass(frozen=True)
class Opened:
    """The open access, as stored in a file below ``/run``.

    Attributes:
        order: Its id.
        expires: Seconds since 1970.
        address: Of this machine, which sshd listens at.
        by: The signer, as named in the allowed signers.
    """

    order: str
    expires: int
    source: str
    address: str
    by: str

    def to_json(self) -> bytes:
        """The content of the file of open access."""
        return json.dumps({"open": True, **asdict(self)}, sort_keys=True).encode()


def opened(machine: Machine) -> Opened | None:
    """The open access according to the file; ``None`` if sshd is closed."""
    data = machine.files.read(machine.layout.break_glass)
    if data is None:
        return None
    try:
        fields = strict_json.parse_object(data)
        fields.pop("open")
        return Opened(**fields)
    except (ValueError, TypeError, KeyError):
        return Opened("", 0, "", "", "")  # damaged: it is closed at the next opportunity


def report(machine: Machine) -> SshReport | None:
    """The report about open access for the platform; ``None`` if sshd is closed."""
    opening = opened(machine)
    return SshReport(opening.order, "open", address=opening.address) if opening and opening.order else None


def close_expired(machine: Machine) -> None:
    """Close an access that has expired or whose sshd has ended; needs no answer of the platform."""
    opening = opened(machine)
    if opening is not None and (machine.system.now() >= opening.expires or not _is_running(machine)):
        with suppress(NodeError):  # it is tried again with the next question
            close(machine)


def carry_out(machine: Machine, names: tuple[str, ...], signed: Signed | None) -> SshReport | None:
    """Open sshd, leave it open or close it, according to the platform's answer; return a report.

    Args:
        names: Those of the machine's certificate.
        signed: The order; ``None`` closes.
    """
    opening = opened(machine)
    if signed is None:
        if opening is None:
            return None
        close(machine)
        return SshReport(opening.order, "closed", "the access was ended early")
    order = ""
    try:
        requested = BreakGlassOrder.from_json(signed.text.encode())
        order = requested.id
        if opening is not None and opening.order == order:
            machine.ssh.let_in(opening.source, _left(machine, opening.expires))  # the rules may have been loaded anew
            return report(machine)
        if opening is not None:
            close(machine)
        _open(machine, requested, _verified(machine, names, requested, signed))
        return report(machine)
    except NodeError as refused:
        with suppress(NodeError):  # rules of before break glass let nobody in
            close(machine)
        return SshReport(order, "refused", " ".join(str(refused).split())[:300])


def close(machine: Machine) -> None:
    """Close sshd and end its sessions; safe where it is closed."""
    layout = machine.layout
    machine.system.systemctl("stop", UNIT, check=False)
    for path in (layout.break_glass, layout.break_glass_config, layout.break_glass_keys):
        machine.remove(path)
    machine.ssh.shut_out()


def _verified(machine: Machine, names: tuple[str, ...], order: BreakGlassOrder, signed: Signed) -> str:
    """The signer of an order that is valid here and now, and is new.

    Raises:
        RefusedError: The order is not valid, or was used before.
    """
    data = machine.files.read(machine.layout.signers)
    if data is None:
        raise RefusedError("this machine knows no signers yet: its first release brings them")
    lines = AllowedSigners.from_json(data).lines
    who = machine.slots.verify(signed.text.encode(), signed.signature, lines, Kind.BREAK_GLASS)
    for kind, name in (("machine", order.machine), ("instance", order.instance)):
        if f"hermesops://{order.environment}/{kind}/{name}" not in names:
            raise RefusedError(f"the order is for {kind} {name} of {order.environment}, not for this machine")
    now = machine.system.now()
    if now < order.not_before - SKEW_S:
        raise RefusedError(f"the order is valid from {timestamp(order.not_before)} on; here it is {timestamp(now)}")
    if now >= order.expires:
        raise RefusedError(f"the order expired at {timestamp(order.expires)}; here it is {timestamp(now)}")
    if order.id in _spent(machine):
        raise RefusedError("the order was used before; each opens sshd once")
    return who


def _open(machine: Machine, order: BreakGlassOrder, by: str) -> None:
    layout = machine.layout
    seconds = _left(machine, order.expires)
    address = machine.ssh.own_address(str(order.network.network_address))
    # First of all: whatever happens to us from here on, this order opens nothing again.
    spent = {**_spent(machine), order.id: order.expires}
    machine.files.write_if_changed(layout.break_glass_spent, json.dumps(spent, sort_keys=True).encode(), PRIVATE)
    key = f'restrict,pty,from="{order.source}" {order.key} {order.id}\n'
    machine.files.write_if_changed(layout.break_glass_keys, key.encode(), PRIVATE)
    machine.files.write_if_changed(layout.break_glass_config, _config(layout, address).encode(), PRIVATE)
    machine.files.write_if_changed(layout.break_glass_unit, _unit(layout, seconds).encode(), _READABLE)
    state = Opened(order.id, order.expires, order.source, address, by)
    machine.files.write_if_changed(layout.break_glass, state.to_json(), PRIVATE)
    machine.system.systemctl("daemon-reload")
    machine.system.systemctl("start", UNIT)
    machine.ssh.let_in(order.source, seconds)


def _left(machine: Machine, expires: int) -> int:
    """Seconds until ``expires``, bounded in case the clock is wrong."""
    return max(1, min(LONGEST_S, expires - int(machine.system.now())))


def _is_running(machine: Machine) -> bool:
    return machine.system.systemctl("is-active", UNIT, check=False).strip() == "active"


def _spent(machine: Machine) -> dict[str, int]:
    """Used orders with their times of expiry; orders that expired long ago are left out.

    Raises:
        RefusedError: The file is damaged: the used orders are unknown.
    """
    data = machine.files.read(machine.layout.break_glass_spent)
    try:
        orders: dict[str, Any] = strict_json.parse_object(data) if data else {}
        since = machine.system.now() - _SPENT_DAYS * 86400
        return {order: expired for order, expired in orders.items() if int(expired) > since}
    except (ValueError, TypeError) as error:
        raise RefusedError(f"{machine.layout.break_glass_spent} is damaged: used orders are unknown") from error


def ssh_host(machine: Machine, platform: str) -> SshHost:
    """Key and address of sshd on this machine, for the platform to store.

    Makes the host key if there is none. Unknown facts are empty: the rest of the orders matters more.

    Args:
        platform: Name or address of its host, which tells the addresses of this machine apart.
    """
    key = address = ""
    with suppress(NodeError):
        key = _host_key(machine)
    with suppress(NodeError):
        address = machine.ssh.own_address(platform)
    return SshHost(key, address)


def _host_key(machine: Machine) -> str:
    layout = machine.layout
    public = machine.files.read(layout.ssh_host_public)
    if public is None or machine.files.read(layout.ssh_host_key) is None:
        key, public = machine.ssh.make_key()
        machine.files.write_if_changed(layout.ssh_host_key, key, PRIVATE)
        machine.files.write_if_changed(layout.ssh_host_public, public, PRIVATE)
    return public.decode(errors="replace").strip()


def _config(layout: Layout, address: str) -> str:
    return f"""\
Port {PORT}
ListenAddress {address}
HostKey {layout.ssh_host_key}
PidFile none
LogLevel VERBOSE
AllowUsers root
PermitRootLogin prohibit-password
AuthenticationMethods publickey
PubkeyAuthentication yes
PasswordAuthentication no
KbdInteractiveAuthentication no
AuthorizedKeysFile {layout.break_glass_keys}
# PAM would move sessions out of this unit, and then they would outlive it.
UsePAM no
DisableForwarding yes
PermitTunnel no
PermitUserRC no
PermitUserEnvironment no
MaxAuthTries 3
MaxSessions 4
MaxStartups 4:50:8
LoginGraceTime 20
ClientAliveInterval 15
ClientAliveCountMax 4
"""


def _unit(layout: Layout, seconds: int) -> str:
    """The unit of sshd. It has no sandbox: a root shell that repairs a machine needs all of it."""
    left = f"{layout.break_glass} {layout.break_glass_config} {layout.break_glass_keys}"
    return f"""\
[Unit]
Description=sshd for one operator, until the order expires
# Ended by its time, it is no failed unit.
CollectMode=inactive-or-failed

[Service]
Type=notify
NotifyAccess=main
ExecStart=/usr/sbin/sshd -D -e -f {layout.break_glass_config}
ExecStopPost=-/usr/sbin/nft flush set inet hermes break_glass_ipv4
ExecStopPost=-/usr/sbin/nft flush set inet hermes break_glass_ipv6
ExecStopPost=-/usr/bin/rm -f {left}
RuntimeDirectory=sshd
RuntimeDirectoryMode=0755
RuntimeMaxSec={seconds}
TimeoutStartSec=20
TimeoutStopSec=2
KillMode=control-group
Restart=no
"""

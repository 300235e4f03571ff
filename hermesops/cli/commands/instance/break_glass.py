"""``hermesops instance break-glass``: onto a machine by SSH when the vendor's toolbox and proxy are gone."""

import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.base import typed_values as values
from hermesops.cli.console import (
    Reason,
    advice,
    is_json,
    require_reason,
    require_typed_environment,
    result,
    say,
    write_bytes,
)
from hermesops.cli.options.instance import User, find_instance
from hermesops.errors import UnavailableError, UsageError
from hermesops.views.access import break_glass as shapes

if TYPE_CHECKING:
    from pathlib import Path

    from hermesops.access.identity.break_glass import BreakGlassOrders
    from hermesops.model.access.break_glass import BreakGlass
    from hermesops.model.fleet.instance import Instance

_LARGEST = 48 << 20
"""Bytes of output that are kept for ``--json``: as many as the toolbox gives."""


def break_glass(
    user: User,
    command: Annotated[list[str] | None, typer.Argument(help="Run this instead of a shell; after --.")] = None,
    for_: Annotated[str, typer.Option("--for", help="Closed by itself after this time, 4h at most.")] = "30m",
    source: Annotated[
        str, typer.Option(help="Address, or network, that it is open to; without it, this computer's.")
    ] = "",
    address: Annotated[str, typer.Option(help="Where the machine is, if not where it says.")] = "",
    print_: Annotated[bool, typer.Option("--print", help="Print the ssh command instead of connecting.")] = False,
    keep_open: Annotated[bool, typer.Option("--keep-open", help="Leave it open until its time is over.")] = False,
    close: Annotated[bool, typer.Option("--close", help="End it early, and every session with it.")] = False,
    reason: Reason = "",
) -> int:
    """Open a machine's sshd for a key made for this and for your address, log in as root, and close it again.

    For when toolbox and proxy are gone: the machine itself asks the platform about twice a minute for an order that an
    operator has signed (operator_key). It closes by itself, its sessions end with it, and all of it is audited.
    """
    require_reason(reason, "instance", "break-glass", user)
    container, instance = find_instance(user)
    orders = container.break_glass
    if close:
        return _close(orders, instance, reason)
    seconds = values.seconds(for_, "--for")
    if is_json() and not print_ and not command:
        raise UsageError("--json goes with --print, --close or a command after --")
    require_typed_environment(spared=f"the machine of {instance.title} stays closed")
    order = orders.make(instance, orders.signers(), source=source, seconds=seconds, why=reason)
    key = orders.key_of(order.id)
    say(f"order {order.id[:8]} is signed; the machine of {instance.title} asks for it within half a minute")
    opened = orders.wait_open(instance, order)
    place = address or opened.address
    say(f"sshd of {instance.title} is open at {place} for {opened.source} until {opened.expires_at:%H:%M:%S} UTC")
    if print_:
        return _print(opened, key, place)
    code = _session(opened, key, place, shlex.join(command) if command and len(command) > 1 else "".join(command or ()))
    if keep_open:
        say(advice(("instance", "break-glass", user, "--close", "--reason", "WHY"), "ends it early"))
    else:
        orders.end(instance, order, why="the session is over")
        say("the machine closes sshd when it asks the next time, within half a minute")
    return code


def _close(orders: "BreakGlassOrders", instance: "Instance", reason: str) -> int:
    ended = orders.close(instance, why=reason)
    lines = [f"order {order.id[:8]} is ended; the machine closes sshd within half a minute" for order in ended]
    result("break-glass-closed", shapes.closed(instance, ended), lines or [f"there is no order for {instance.title}"])
    return 0


def _print(order: "BreakGlass", key: "Path", place: str) -> int:
    known = f"/bin/echo {place} {order.host_key}"
    options = ("IdentitiesOnly=yes", "StrictHostKeyChecking=yes", "UserKnownHostsFile=/dev/null")
    words = ["ssh", "-i", str(key)]
    for option in (*options, f"KnownHostsCommand={known}"):
        words += ["-o", option]
    line = shlex.join([*words, f"root@{place}"])
    result("break-glass", shapes.order(order, place, line), [line])
    return 0


def _session(order: "BreakGlass", key: "Path", place: str, command: str) -> int:
    from hermesops.access.identity.signatures import Signers
    from hermesops.vendor.channel.ssh import SshMachine, connected

    printed: list[tuple[bytes, bool]] = []

    def write(piece: bytes, is_error: bool) -> None:
        if is_json():
            printed.append((piece, is_error))
            if sum(len(output) for output, _ in printed) > _LARGEST:
                raise UnavailableError(f"the command prints more than {_LARGEST} bytes", hint="without --json")
        else:
            write_bytes(piece, to_stderr=is_error)

    with connected(SshMachine(place, order.host_key), key, Signers(key).public()) as session:
        code = session.run(command, write) if command else session.terminal()
    if is_json():
        stdout, stderr = (
            b"".join(piece for piece, is_error in printed if is_error == is_stderr).decode(errors="replace")
            for is_stderr in (False, True)
        )
        result("break-glass", shapes.session(order, code, stdout, stderr))
    return code

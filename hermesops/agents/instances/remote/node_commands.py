"""Runs commands of hermes-node: reads its status, and changes its machine under a lease.

A machine that was shown a newer lease refuses: then every change here, and in the modules that use this one, raises
``LeaseLostError``.
"""

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from hermesops.errors import Hint, RefusedError, UnavailableError
from hermesops.model.ids import MachineId
from hermesops.model.operation import Lease, LeaseLostError
from hermesops.vendor.channel import SILENT, Channel, Completed, last_words, object_in
from hermesops.wire.errors import ExitCode
from hermesops.wire.protocol import PROGRAM, FencingToken

INBOX = "/run/hermes-node"
"""The tmpfs of a machine for files with secrets."""

_REFUSED = frozenset({ExitCode.BAD_REQUEST, ExitCode.REFUSED})
_ADMIT_S = 20.0


async def status(channel: Channel, *, timeout_s: float) -> Mapping[str, Any] | None:
    """hermes-node's report of its machine; ``None`` while it does not answer.

    Raises:
        UnavailableError: Its answer is not understood.
    """
    try:
        done = await channel.run(f"{PROGRAM} status", timeout_s=timeout_s)
    except SILENT:
        return None
    return object_in(done, channel.machine_id, "status") if done.exit_code == 0 else None


async def change(channel: Channel, words: str, lease: Lease | None, *, timeout_s: float) -> Completed:
    """Run a command of hermes-node that changes its machine.

    Raises:
        LeaseLostError: Somebody with a newer lease has been there; nothing was touched.
    """
    if lease is None:
        return await channel.run(f"{PROGRAM} {words}", timeout_s=timeout_s)
    done = await channel.run(f"{PROGRAM} {words} --lease {_token(lease)}", timeout_s=timeout_s)
    _refuse_outranked(done)
    return done


async def hand(
    channel: Channel, verb: str, payload: bytes, lease: Lease | None, *, options: str = "", timeout_s: float
) -> Completed:
    """Run a command of hermes-node that reads a file of secrets: one upload to a tmpfs, one command with its path.

    Raises:
        LeaseLostError: Somebody with a newer lease has been there; nothing was touched.
    """
    path = f"{INBOX}/{uuid4().hex}.json"
    await channel.put(path, payload, mode=0o600)
    return await change(channel, f"{verb} {path}{options}", lease, timeout_s=timeout_s)


def well(done: Completed, machine_id: MachineId, verb: str) -> Completed:
    """A command of hermes-node that has ended, when it ended well.

    Raises:
        RefusedError: hermes-node refused it; its words are repeated.
        UnavailableError: It did not work; safe to repeat.
    """
    if done.exit_code == 0:
        return done
    message = f"hermes-node on machine {machine_id}, {verb}: {last_words(done)}"
    if done.exit_code in _REFUSED:
        raise RefusedError(message)
    raise UnavailableError(message, hint="the same command again")


async def admit(channel: Channel, lease: Lease | None) -> None:
    """Show a machine the lease before it is changed by other ways than hermes-node's; without one nothing is shown.

    Raises:
        RefusedError: The machine is another instance's.
        UnavailableError: Nobody there could say whether it is not.
    """
    if lease is not None:
        done = await channel.run(f"{PROGRAM} admit --lease {_token(lease)}", timeout_s=_ADMIT_S)
        _refuse_outranked(done)
        well(done, MachineId(channel.machine_id), "admit")


def _refuse_outranked(done: Completed) -> None:
    if done.exit_code != ExitCode.OUTRANKED:
        return
    raise LeaseLostError(
        f"a newer lease was shown to the machine: {last_words(done)}",
        hint=Hint(
            ("operation", "list"),
            "shows the operation with the lease; if none has it, the registry is older than the lease on the machine:",
            ("registry", "restore", "--already-restored", "--reason", "WHY"),
        ),
    )


def _token(lease: Lease) -> str:
    return str(FencingToken(lease.subject, lease.epoch, lease.counter, lease.holder))

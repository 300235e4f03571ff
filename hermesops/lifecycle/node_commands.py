"""Commands of hermes-node: what it tells of its machine, and changes of it, run under a lease.

A machine that knows of a later lease refuses.
"""

import json
from collections.abc import Mapping
from typing import Any, Protocol
from uuid import uuid4

from hermesops.channel import SILENT, Channel, Completed
from hermesops.errors import RefusedError, UnavailableError
from hermesops.model.ids import MachineId
from hermesops.model.operation import Lease, LeaseLostError
from hermesops.node.protocol import PROGRAM, FencingToken

INBOX = "/run/hermes-node"
"""The tmpfs of a machine that files with secrets are put into."""

_OUTRANKED = 9
_MISUSED = 2
_REFUSED = frozenset({_MISUSED, 3})
_ADMIT_S = 20.0
_UNKNOWN = b"unrecognized arguments: --lease"


class Runs(Protocol):
    """A channel, as far as commands go."""

    async def run(self, command: str, *, timeout_s: float) -> Completed:
        """Run a command on a machine."""


async def status(channel: Runs, *, timeout_s: float) -> Mapping[str, Any] | None:
    """What hermes-node tells of its machine; ``None`` while it does not answer."""
    try:
        done = await channel.run(f"{PROGRAM} status", timeout_s=timeout_s)
    except SILENT:
        return None
    return dict(json.loads(done.stdout)) if done.exit_code == 0 else None


async def change(channel: Runs, words: str, lease: Lease | None, *, timeout_s: float) -> Completed:
    """Run a command of hermes-node that changes its machine.

    A node of before leases does not know the option; it says so before it does anything and is asked without.

    Args:
        channel: The way to the machine.
        words: The command and its arguments.
        lease: Under which it is done; ``None`` for none.
        timeout_s: Seconds it may take.

    Raises:
        LeaseLostError: Somebody with a newer lease has been there; nothing was touched.
    """
    if lease is None:
        return await channel.run(f"{PROGRAM} {words}", timeout_s=timeout_s)
    done = await channel.run(f"{PROGRAM} {words} --lease {_token(lease)}", timeout_s=timeout_s)
    if done.exit_code == _MISUSED and _UNKNOWN in done.stderr:
        return await channel.run(f"{PROGRAM} {words}", timeout_s=timeout_s)
    _refuse_outranked(done)
    return done


async def hand(
    channel: Channel, verb: str, payload: bytes, lease: Lease | None, *, options: str = "", timeout_s: float
) -> Completed:
    """Run a command of hermes-node that reads a file of secrets: one upload to a tmpfs, one command with its path.

    Args:
        channel: The way to the machine.
        verb: The command.
        payload: The file; hermes-node removes it before it does anything.
        lease: Under which it is done; ``None`` for none.
        options: What else the command is given.
        timeout_s: Seconds the command may take.

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
    said = f"hermes-node on machine {machine_id}, {verb}: {words_of(done.stderr or done.stdout)}"
    if done.exit_code in _REFUSED:
        raise RefusedError(said)
    raise UnavailableError(said, hint="the same command again")


def words_of(output: bytes) -> str:
    """The last line of what hermes-node said."""
    lines = output.decode(errors="replace").strip().splitlines()
    return lines[-1].removeprefix("hermes-node: ")[:300] if lines else "it said nothing"


async def admit(channel: Runs, lease: Lease | None) -> None:
    """Show a machine the lease before it is changed by other ways than hermes-node's.

    A machine whose hermes-node knows no leases, or that has none, is changed without: there is nobody to ask.

    Raises:
        LeaseLostError: Somebody with a newer lease has been there.
    """
    if lease is not None:
        _refuse_outranked(await channel.run(f"{PROGRAM} admit --lease {_token(lease)}", timeout_s=_ADMIT_S))


def _refuse_outranked(done: Completed) -> None:
    if done.exit_code != _OUTRANKED:
        return
    said = done.stderr.decode(errors="replace").strip().splitlines()
    raise LeaseLostError(
        said[-1].removeprefix("hermes-node: ") if said else "a newer lease was shown to the machine",
        hint="hermesops operation list says who is at it; when nobody is, the registry is an older copy than the "
        "machine has seen: hermesops registry restored --reason …",
    )


def _token(lease: Lease) -> str:
    return str(FencingToken(lease.subject, lease.epoch, lease.counter, lease.holder))

"""The size of a machine's data volume: reads it, requests another, refuses one that does not fit."""

from dataclasses import dataclass

from hermesops.agents.instances.remote.node_commands import change
from hermesops.errors import Hint, RefusedError, UnavailableError
from hermesops.model.fleet.instance import Instance
from hermesops.model.operation import Lease
from hermesops.model.plan import GB
from hermesops.model.recovery.backup import Backup
from hermesops.vendor.channel import Channel, Completed, last_words, object_in, understood
from hermesops.wire.errors import ExitCode
from hermesops.wire.protocol import PROGRAM

_QUICK_S = 20.0


@dataclass(frozen=True)
class DataRoom:
    """The volume of a machine's user data, in bytes."""

    size: int
    used: int

    @property
    def free(self) -> int:
        """Bytes that are free on the volume."""
        return max(0, self.size - self.used)


async def observe(channel: Channel) -> DataRoom | None:
    """Ask a machine; ``None`` where hermes-node is older than data volumes.

    Raises:
        UnavailableError: It cannot say.
    """
    done = await channel.run(f"{PROGRAM} volume show", timeout_s=_QUICK_S)
    if done.exit_code == ExitCode.BAD_REQUEST:  # an older hermes-node without the command
        return None
    _refuse_failed(done)
    answer = object_in(done, channel.machine_id, "volume show")
    with understood(channel.machine_id, "volume show"):
        return DataRoom(int(answer["size"]), int(answer["used"])) if answer else None


async def want(channel: Channel, gigabytes: int, lease: Lease | None) -> None:
    """Have a machine's volume be that large from its next boot on; one without a volume keeps its folder.

    Raises:
        UnavailableError: It was not said; safe to repeat.
    """
    done = await change(channel, f"volume want {gigabytes}", lease, timeout_s=_QUICK_S)
    if done.exit_code != ExitCode.BAD_REQUEST:
        _refuse_failed(done)


def refuse_without_room(instance: Instance, backup: Backup, room: DataRoom | None) -> None:
    """Refuse a restore unless the backup fits beside the present state, which stays until the end. Pure.

    Args:
        room: On its machine; ``None`` if unknown, then the machine itself checks.

    Raises:
        RefusedError: It does not fit; nothing was changed.
    """
    if room is None or backup.bytes <= room.free:
        return
    raise RefusedError(
        f"backup {backup.id[:8]} takes {backup.bytes / GB:.1f} GB, and {instance.title} has {room.free / GB:.1f} GB"
        f" of {room.size / GB:.1f} GB free for it",
        hint=Hint(("backup", "restore", instance.title, "--snapshot", backup.id[:8], "--onto-new-machine")),
    )


def _refuse_failed(done: Completed) -> None:
    if done.exit_code:
        raise UnavailableError(
            f"the machine does not say how much room its data have: {last_words(done)}",
            hint="the same command again",
        )

"""A backup: an encrypted, consistent copy of one instance's state, kept outside the vendor."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from hermesops.model.ids import InstanceId
from hermesops.model.state import State

RPO = timedelta(hours=24)
"""How much of what a user said may be lost with a machine."""

BEFORE_RESTORE = "before restore"
"""Why a backup was made, in its first words, of a state that a restore was about to replace."""


@dataclass(frozen=True)
class Backup:
    """A row of ``backups``.

    Attributes:
        id: Of restic's snapshot, in full.
        why: ``daily``, ``manual``, ``last`` or ``before <what> <operation>``.
        bytes: Size of what was copied.
        added: Bytes that the repository grew by.
        state: What was copied.
        checked_at: When it was last restored somewhere and compared; ``None`` never.
        checked: What came of it: empty for nothing wrong.
    """

    id: str
    instance_id: InstanceId
    at: datetime
    why: str
    bytes: int
    added: int
    state: State
    checked_at: datetime | None = None
    checked: str = ""

    @property
    def is_proved(self) -> bool:
        """Whether it was restored and found to be what was copied."""
        return self.checked_at is not None and not self.checked

    @property
    def was_replaced(self) -> bool:
        """Whether a restore made it of the state that it was about to replace."""
        return self.why.startswith(f"{BEFORE_RESTORE} ")


def newest_to_restore(backups: Iterable[Backup]) -> Backup | None:
    """The newest backup of a state that no restore replaced: the same restore, repeated, must not undo itself.

    Args:
        backups: Of one instance, newest first.
    """
    return next((backup for backup in backups if not backup.was_replaced), None)


@dataclass(frozen=True)
class Loss:
    """What would be lost with all machines now: how long ago the agents that run were backed up.

    Attributes:
        agents: How many run. Suspended ones are told nothing, and their last backup is all of their state.
        oldest_s: Seconds since the newest backup of the one that would lose most, or since it was made; 0 for none.
        late: How many would lose more than the objective allows.
        never: How many have no backup yet.
        objective_s: Seconds that may be lost.
    """

    agents: int
    oldest_s: int
    late: int
    never: int
    objective_s: int


@dataclass(frozen=True)
class Credential:
    """What opens an object store.

    Attributes:
        session_token: Goes with a credential that expires by itself; empty for others.
    """

    access_key: str
    secret_key: str = field(repr=False)
    session_token: str = field(default="", repr=False)


@dataclass(frozen=True)
class RepositoryKeys:
    """What opens one instance's repository.

    Attributes:
        password: Encrypts what is in it.
        credential: Reads it and adds to it; ``None`` while none has been issued.
    """

    password: str = field(repr=False)
    credential: Credential | None = None

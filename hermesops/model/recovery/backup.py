"""A backup: an encrypted, consistent copy of one instance's state, kept outside the vendor."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from hermesops.model.ids import InstanceId
from hermesops.model.recovery.state import State

RPO = timedelta(hours=24)
"""Recovery point objective: how much of a user's data may be lost with a machine."""

BEFORE_RESTORE = "before restore"
"""First words of the reason of a backup that a restore makes of the state that it replaces."""


@dataclass(frozen=True)
class Backup:
    """A row of ``backups``.

    Attributes:
        id: Of restic's snapshot, in full.
        why: ``daily``, ``manual``, ``last`` or ``before <what> <operation>``.
        bytes: Size of what was copied.
        added: Bytes that the repository grew by.
        checked_at: Time of its last test restore; ``None`` before the first.
        checked: The problem found then; empty if there was none.
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
        """Whether a test restore returned the backed-up state."""
        return self.checked_at is not None and not self.checked

    @property
    def was_replaced(self) -> bool:
        """Whether a restore made it of the state that it replaced."""
        return self.why.startswith(f"{BEFORE_RESTORE} ")


def newest_to_restore(backups: Iterable[Backup]) -> Backup | None:
    """The first of one instance's backups, newest first, that no restore made.

    A restore that is repeated must not undo itself.
    """
    return next((backup for backup in backups if not backup.was_replaced), None)


@dataclass(frozen=True)
class Loss:
    """Data loss if all machines failed now.

    Attributes:
        agents: How many run. Suspended ones receive nothing, and their last backup has all of their state.
        oldest_s: The most seconds since an agent's newest backup, or since it was made; 0 for no agents.
        late: How many would lose more than the objective allows.
        objective_s: Seconds that may be lost.
    """

    agents: int
    oldest_s: int
    late: int
    never: int
    objective_s: int


@dataclass(frozen=True)
class Credential:
    """Access to an object store.

    Attributes:
        session_token: Of a credential that expires; empty for others.
    """

    access_key: str
    secret_key: str = field(repr=False)
    session_token: str = field(default="", repr=False)


@dataclass(frozen=True)
class RepositoryKeys:
    """The keys of one instance's repository.

    Attributes:
        password: Encrypts its content.
        credential: May read and append; ``None`` while none was issued.
    """

    password: str = field(repr=False)
    credential: Credential | None = None

"""A difference: its kind and severity, the observed and expected value, and the repairing commands. Pure."""

from dataclasses import dataclass
from enum import StrEnum

from hermesops.errors import Hint


class Severity(StrEnum):
    """How bad; the order is that of reading."""

    CRITICAL = "critical"
    WARNING = "warning"
    UNKNOWN = "unknown"
    INFO = "info"


class Kind(StrEnum):
    """Kinds of differences. Names are stable: alerts and runbooks refer to them."""

    MACHINE_MISSING = "machine-missing"
    MACHINE_RESTORABLE = "machine-restorable"
    MACHINE_REPLACED = "machine-replaced"
    UNFINISHED = "unfinished"
    LEAVING = "leaving"
    RESIZED = "resized"
    WRONG_IMAGE = "wrong-image"
    STOPPED = "stopped"
    IN_ERROR = "in-error"
    NOT_READY = "not-ready"
    ORPHAN = "orphan"
    ORPHAN_ENDED = "orphan-ended"
    DUPLICATE = "duplicate"
    UNKNOWN_MACHINE = "unknown-machine"
    OPERATION_OPEN = "operation-open"
    WARM_UNFINISHED = "warm-unfinished"
    MACHINE_LEFT = "machine-left"
    NOT_IN_STACK = "not-in-stack"
    STACK_DIFFERS = "stack-differs"
    STACK_BEHIND = "stack-behind"
    ONLY_IN_STACK = "only-in-stack"
    STACK_INTERRUPTED = "stack-interrupted"
    STACK_UNSEEN = "stack-unseen"
    IMAGE_GONE = "image-gone"
    SNAPSHOT_LEFT = "snapshot-left"
    REBOOTED = "rebooted"
    SILENT = "silent"
    FOREIGN_IDENTITY = "foreign-identity"
    NOT_PERSONALISED = "not-personalised"
    PAYLOAD_DIFFERS = "payload-differs"
    FILES_CHANGED = "files-changed"
    ROLES_UNSEEN = "roles-unseen"
    CHECK_FAILED = "check-failed"
    CHECK_UNSEEN = "check-unseen"


@dataclass(frozen=True)
class Finding:
    """One difference.

    Attributes:
        subject: Name that people use: a user, a machine, a cell or an image.
        machine: Name of the machine it is about; empty when it is about none.
        difference: The observed and the expected value, in one line without secrets.
        repair: Commands, to be run in this order.
        otherwise: Commands to use instead; empty when there are none.
    """

    kind: Kind
    severity: Severity
    subject: str
    cell: str
    machine: str
    difference: str
    repair: tuple[Hint, ...]
    otherwise: tuple[Hint, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether an operator has to act or to investigate."""
        return self.severity is not Severity.INFO

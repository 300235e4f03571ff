"""Kinds of operations on the fleet: stacks, warm pools and rollouts."""

from dataclasses import dataclass
from decimal import Decimal

from hermesops.errors import Hint
from hermesops.model.ids import CellName, MachineName
from hermesops.model.operation import OperationKind
from hermesops.model.rollout.records import RolloutId
from hermesops.model.rollout.release import ReleaseId
from hermesops.store.operations.intent import AbandonNote, Intent


@dataclass(frozen=True, kw_only=True)
class StackUpIntent(Intent):
    """Bring a cell's machines to its rows.

    Attributes:
        only: The machines to change; empty means all.
        named: Machines that may be changed beyond the limits.
        share: The share of a cell's machines that may be destroyed, where one was named.
        saved: The file of a signed preview, which is to happen and nothing else; empty for none.
        approval: The file with which another operator approved that preview; empty for none.
        reason: Of the request that opened it; ``None`` for one that has none.
    """

    kind = OperationKind.STACK_UP
    title = "stack up"
    abandoned = AbandonNote(
        "{cell} may be partly applied; a killed engine may have left its lock",
        Hint(("stack", "preview", "CELL"), "shows what is missing"),
    )

    cell: CellName
    only: frozenset[MachineName] = frozenset()
    named: frozenset[MachineName] = frozenset()
    share: float | None = None
    budget: Decimal | None = None
    saved: str = ""
    approval: str = ""
    reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class PoolFillIntent(Intent):
    """Fill a cell's warm pool; without ``grow`` only delete machines that are marked for deletion.

    Attributes:
        reason: Of the request that opened it; ``None`` for one that has none.
    """

    kind = OperationKind.POOL_FILL
    title = "pool fill"
    abandoned = AbandonNote(
        "the warm pool of {cell} is unchanged; machines may be partly made, and are billed then",
        Hint(("job", "run", "pools", "CELL"), "goes on with it"),
    )

    cell: CellName
    grow: bool
    reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class JobRunIntent(Intent):
    """Run a scheduled job once, whenever it ran last, and bring the operations that it opens to their end.

    Attributes:
        reason: For the audit of whatever the job destroys.
    """

    kind = OperationKind.JOB_RUN
    title = "job run"
    abandoned = AbandonNote(
        "job {job} may have done a part; its other work is due as before",
        Hint(("job", "run", "JOB"), "goes on with it"),
    )

    job: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class RolloutIntent(Intent):
    """Bring a release to many instances; the rollout's own row has the rest."""

    kind = OperationKind.ROLLOUT
    title = "rollout"
    abandoned = AbandonNote(
        "rollout {rollout} stops; updated instances stay on its release",
        Hint(("rollout", "status", "ROLLOUT")),
    )

    rollout: RolloutId
    release: ReleaseId

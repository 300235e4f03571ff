"""What an operator asks to roll out, and which instances and which unfinished rollout that means. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from hermesops.errors import UsageError
from hermesops.model.ids import InstanceId
from hermesops.model.release import ReleaseId
from hermesops.model.rollout import Rollout, Target
from hermesops.model.rollout_spec import Action, DrillPolicy, Spec
from hermesops.model.selector import Selector
from hermesops.rollout.plan.targets import SELECTABLE, select


@dataclass(frozen=True)
class RolloutRequest:
    """A rollout as an operator asks for it.

    Attributes:
        release: An id, the beginning of one, or an agent's version; for whole machines an image's id or name.
        where: A selector; empty for all.
        all_running: Whether an empty ``where`` is meant.
    """

    release: str
    where: str
    all_running: bool
    spec: Spec
    action: Action
    reason: str

    @property
    def selector(self) -> Selector:
        """The selector of ``where``.

        Raises:
            UsageError: It cannot be read, or is empty and ``all_running`` is false.
        """
        if not self.where and not self.all_running:
            raise UsageError(
                "to whom? --where plan=light,cell=…, or --all for every running instance",
                hint="hermesops rollout preview RELEASE --all shows what would happen",
            )
        return Selector.parse(self.where, fields=SELECTABLE)

    def select(self, running: Iterable[Target]) -> tuple[Target, ...]:
        """The targets that it means.

        Raises:
            UsageError: None is meant.
        """
        targets = select(running, self.selector)
        if not targets:
            who = f"no running instance is {self.where!r}" if self.where else "no instance is running"
            raise UsageError(f"{who}: there is no target", hint="hermesops instance list")
        return targets

    def spec_with(self, *, pool: bool) -> Spec:
        """The spec; without a warm pool, a required rehearsal becomes one where possible.

        A pool has machines of the image that new instances get, so another image cannot be rehearsed on it either.
        """
        if self.spec.drill is not DrillPolicy.REQUIRED or (pool and self.action is Action.SLOT):
            return self.spec
        return replace(self.spec, drill=DrillPolicy.IF_POSSIBLE)


def find_same(unfinished: Iterable[tuple[Rollout, str]], release: ReleaseId, request: RolloutRequest) -> Rollout | None:
    """The rollout that an equal request began and that has not ended: asking again goes on with it.

    Args:
        unfinished: Rollouts, each with the selector that it was asked for with.
    """
    wanted = (release, request.action, request.where)
    return next((one for one, where in unfinished if (one.release, one.action, where) == wanted), None)


def find_overlapping(
    unfinished: Iterable[tuple[Rollout, Iterable[InstanceId]]], targets: Iterable[Target]
) -> Rollout | None:
    """A rollout that has not ended and has one of these targets."""
    wanted = {target.instance_id for target in targets}
    return next((one for one, its in unfinished if not wanted.isdisjoint(its)), None)

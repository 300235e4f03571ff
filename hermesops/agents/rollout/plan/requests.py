"""An operator's request of a rollout; its instances, and the unfinished rollout that it continues. Pure."""

import shlex
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from hermesops.errors import Hint, Parameter, UsageError
from hermesops.model.fleet.instance import InstancePolicy, InstanceStatus
from hermesops.model.fleet.overview import Ordered
from hermesops.model.fleet.selector import Selector
from hermesops.model.ids import InstanceId
from hermesops.model.rollout.records import Rollout, Target
from hermesops.model.rollout.release import ReleaseId
from hermesops.model.rollout.spec import Action, DrillPolicy, Spec

SELECTABLE = frozenset({"plan", "cell", "region", "release", "user"})
"""Fields of ``--where``."""


@dataclass(frozen=True)
class RolloutRequest:
    """An operator's request of a rollout.

    Attributes:
        release: An id, the beginning of one, or an agent's version; for whole machines an image's id or name; for
            tokens empty, or the name of a rotation that goes on.
        where: A selector; empty for all.
        all_running: Whether an empty ``where`` is intended.
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
                "missing: no instances are chosen",
                hint=Hint(
                    "use",
                    Parameter("where", "plan=light,cell=…"),
                    ", or",
                    Parameter("all"),
                    "for every running instance;",
                    ("rollout", "preview", "RELEASE", "--all"),
                    "previews the rollout",
                ),
                field="where",
            )
        return Selector.parse(self.where, fields=SELECTABLE)

    def select(self, running: Iterable[Target]) -> tuple[Target, ...]:
        """The targets that it means.

        Raises:
            UsageError: None is meant.
        """
        targets = select(running, self.selector)
        if not targets:
            words = f"no running instance matches {self.where!r}" if self.where else "no instance is running"
            raise UsageError(words, hint=Hint(("instance", "list")))
        return targets

    def spec_with(self, *, pool: bool) -> Spec:
        """The spec; without a warm pool, a required rehearsal becomes one where possible.

        A pool has machines of the image that new instances get, so another image cannot be rehearsed on it either.
        """
        if self.spec.drill is not DrillPolicy.REQUIRED or (pool and self.action is Action.SLOT):
            return self.spec
        return replace(self.spec, drill=DrillPolicy.IF_POSSIBLE)


def find_same(unfinished: Iterable[tuple[Rollout, str]], release: ReleaseId, request: RolloutRequest) -> Rollout | None:
    """The unfinished rollout of an equal request: repeating the request continues it.

    Args:
        unfinished: Rollouts with their selectors.
    """
    key = (release, request.action, request.where)
    return next((rollout for rollout, where in unfinished if (rollout.release, rollout.action, where) == key), None)


_NAMES = {
    "stages": "stages",
    "max_unavailable": "max unavailable",
    "most_unavailable": "at once",
    "settle_s": "settle",
    "soak_s": "soak",
    "confirm_s": "confirm within",
    "drain_s": "drain",
    "attempt_s": "attempt within",
    "defer_s": "defer",
    "windows": "windows",
    "on_halt": "on halt",
    "drill": "drill",
    "two_person_above": "two person above",
    "emergency": "emergency",
    "despite_alerts": "despite alerts",
}
"""Names of a spec's fields in narration."""


def continued(begun: Rollout, who: str, request: RolloutRequest) -> str:
    """That a request continues a rollout, and with which values that goes on where the request has others.

    Args:
        who: Who began it.
    """
    words = f"continues rollout {begun.id}, started by {who} at {begun.created_at:%Y-%m-%d %H:%M} UTC"
    spec, requested = begun.spec, request.spec
    if spec.drill is DrillPolicy.IF_POSSIBLE:
        requested = request.spec_with(pool=False)
    others = [
        f"{label} {_typed(name, getattr(spec, name))}"
        for name, label in _NAMES.items()
        if getattr(spec, name) != getattr(requested, name)
    ]
    others += ["its own gates"] if spec.gates != requested.gates else []
    return f"{words} with {', '.join(others)}; the values of this request are ignored" if others else words


_SHARES = frozenset({"stages", "max_unavailable"})


def _typed(name: str, value: object) -> str:
    """A value of a spec as a request has it."""
    if isinstance(value, tuple):
        return ",".join(_typed(name, item) for item in value) or "none"
    if isinstance(value, float):
        return f"{100 * value:g}%" if name in _SHARES else f"{value:g}{'s' if name.endswith('_s') else ''}"
    return shlex.quote(str(value)) if value else "none"


def find_overlapping(
    unfinished: Iterable[tuple[Rollout, Iterable[InstanceId]]], targets: Iterable[Target]
) -> Rollout | None:
    """A rollout that has not ended and has one of these targets."""
    ids = {target.instance_id for target in targets}
    return next((rollout for rollout, its in unfinished if not ids.isdisjoint(its)), None)


@dataclass(frozen=True)
class Fleet:
    """Instances according to the registry.

    Attributes:
        releases: The release that each was last seen to run; unknown ones are absent.
        exposures: The releases that each was among the first to get, of those that count.
        busy: Instances of rollouts that have not ended.
    """

    ordered: tuple[Ordered, ...]
    releases: Mapping[InstanceId, ReleaseId] = field(default_factory=dict)
    policies: Mapping[InstanceId, InstancePolicy] = field(default_factory=dict)
    exposures: Mapping[InstanceId, Collection[ReleaseId]] = field(default_factory=dict)
    busy: frozenset[InstanceId] = frozenset()


def running_targets(fleet: Fleet, action: Action = Action.SLOT) -> tuple[Target, ...]:
    """Every running instance; for whole machines, the release before is the image that its machine boots."""
    running = (ordered for ordered in fleet.ordered if ordered.instance.status is InstanceStatus.RUNNING)
    return tuple(_target(fleet, ordered, action) for ordered in running)


def select(targets: Iterable[Target], selector: Selector) -> tuple[Target, ...]:
    """The targets that match a selector."""
    return tuple(
        target
        for target in targets
        if selector.takes(
            {
                "plan": target.plan.value,
                "cell": target.cell,
                "region": target.region,
                "release": target.release_before,
                "user": target.user,
            }
        )
    )


def _before(action: Action, release: ReleaseId, ordered: Ordered) -> str:
    """The release or image of a target before the rollout; empty for tokens."""
    match action:
        case Action.SLOT:
            return release
        case Action.MACHINE:
            return ordered.image_id or ""
        case Action.TOKENS:
            return ""


def _target(fleet: Fleet, ordered: Ordered, action: Action) -> Target:
    instance = ordered.instance
    policy = fleet.policies.get(instance.id, InstancePolicy())
    release = fleet.releases.get(instance.id, ReleaseId(""))
    return Target(
        instance.id,
        instance.title,
        instance.plan,
        instance.cell,
        ordered.region,
        release_before=_before(action, release, ordered),
        agent_version=release.rpartition("-")[0],
        opted_in=policy.opted_in,
        protected=policy.protected,
        exposures=len(fleet.exposures.get(instance.id, ())),
        quiet=policy.quiet,
    )

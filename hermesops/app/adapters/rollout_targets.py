"""Whom a release may be brought to: what the registry knows of running instances, and machines of the others."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from hermesops.errors import HermesError
from hermesops.fan_out import Limits, fan_out
from hermesops.model.ids import InstanceId
from hermesops.model.instance import InstanceStatus
from hermesops.model.instance_policy import InstancePolicy
from hermesops.model.release import ReleaseId
from hermesops.model.rollout import Target
from hermesops.model.rollout_spec import Action
from hermesops.model.selector import Selector
from hermesops.operations.db_thread import in_db_thread

if TYPE_CHECKING:
    from hermesops.app.container_parts.connected import Connected
    from hermesops.registry import Registry

FIELDS = frozenset({"plan", "cell", "region", "release", "user"})
"""By which targets are selected."""

_AT_ONCE = 32
_LOOK_S = 20.0
"""Seconds for which one machine's answer holds up others."""


def candidates(registry: "Registry", action: Action = Action.SLOT) -> tuple[Target, ...]:
    """Every running instance, as a rollout would freeze it now; by machine name.

    Args:
        registry: What knows them.
        action: What a rollout would change: of whole machines, what ran before is the image.
    """
    releases, policies, exposures = (
        registry.rollout_targets.instance_releases(),
        registry.policies.list(),
        registry.rollout_targets.exposures(),
    )
    found = []
    for ordered in registry.fleet.list_ordered():
        instance = ordered.instance
        if instance.status is not InstanceStatus.RUNNING:
            continue
        policy = policies.get(instance.id, InstancePolicy())
        release = releases.get(instance.id, ReleaseId(""))
        found.append(
            Target(
                instance.id,
                instance.title,
                instance.plan,
                instance.cell,
                ordered.region,
                release_before=release if action is Action.SLOT else (ordered.image_id or ""),
                agent_version=agent_version(release),
                opted_in=policy.opted_in,
                protected=policy.protected,
                exposures=len(exposures.get(instance.id, ())),
                quiet=policy.quiet,
            )
        )
    return tuple(found)


def selected(targets: Iterable[Target], selector: Selector) -> tuple[Target, ...]:
    """Those that a selector means."""
    return tuple(target for target in targets if selector.takes(_fields(target)))


def agent_version(release: str) -> str:
    """The agent's version in a release's id; empty for none."""
    return release.rpartition("-")[0]


async def look_at_unknown(session: "Connected", targets: Sequence[Target]) -> None:
    """Ask the machines of those whose release nobody knows, and write down what they say; silence is no error."""
    from hermesops.instances.remote.releases import ReleaseClient

    registry = session.app.registry
    slots = ReleaseClient(session.instance_client.channel)

    async def look(instance_id: InstanceId) -> ReleaseId | None:
        instance = await in_db_thread(registry.instances.get, instance_id)
        if instance.machine_id is None:
            return None
        seen = await slots.observe(instance.machine_id)
        return seen.current if seen else None

    unknown = [target.instance_id for target in targets if not target.release_before]
    answers = await fan_out(unknown, look, Limits(_AT_ONCE, slow_after_s=_LOOK_S, within_s=2 * _LOOK_S))
    told = {
        instance_id: release
        for instance_id, release in zip(unknown, answers, strict=True)
        if release and not isinstance(release, HermesError)
    }
    await in_db_thread(registry.rollout_targets.record_releases, told)


def _fields(target: Target) -> dict[str, str]:
    return {
        "plan": target.plan.value,
        "cell": target.cell,
        "region": target.region,
        "release": target.release_before,
        "user": target.user,
    }

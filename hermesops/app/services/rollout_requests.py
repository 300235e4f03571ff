"""Holds a request for a rollout against the registry and the store of releases."""

from typing import TYPE_CHECKING

from hermesops.app.adapters.rollout_store import fleet_of, start_of
from hermesops.app.services.selection import refuse_unknown
from hermesops.errors import RefusedError
from hermesops.model.release import ReleaseId
from hermesops.model.rollout_spec import Action
from hermesops.model.unknown_name import unknown_name
from hermesops.rollout.plan.admission import refuse_raised, refuse_spec
from hermesops.rollout.plan.requests import find_overlapping, find_same
from hermesops.rollout.plan.targets import running_targets

if TYPE_CHECKING:
    from hermesops.app.container_parts.unconnected import Unconnected
    from hermesops.model.rollout import Rollout, Target
    from hermesops.registry import Registry
    from hermesops.rollout.plan.preview import RolloutPreview
    from hermesops.rollout.plan.requests import RolloutRequest

_SHOWN = 3
"""Damaged files that are named."""


def check_wanted(app: "Unconnected", request: "RolloutRequest") -> ReleaseId:
    """The release of a request, or its image for whole machines, if it may be rolled out.

    Raises:
        UsageError: There is no such release or image.
        RefusedError: As ``check_release``.
    """
    return (
        check_release(app, request.release) if request.action is Action.SLOT else _image(app.registry, request.release)
    )


def check_release(app: "Unconnected", text: str) -> ReleaseId:
    """The release of an id, the beginning of one or an agent's version, if it may be rolled out.

    Raises:
        UsageError: There is none.
        RefusedError: It is revoked, below the floor or needs a newer hermes-node, or its signature is bad.
    """
    from hermesops.node import protocol

    lock = app.releases.find(text)
    app.releases.refuse_revoked(lock)
    if lock.node.protocol > protocol.VERSION:
        raise RefusedError(
            f"release {lock.id} needs a hermes-node of protocol {lock.node.protocol}; this hermesops speaks "
            f"{protocol.VERSION}",
            hint="install the hermesops that the release was built with",
        )
    return ReleaseId(lock.id)


def refuse_damaged(app: "Unconnected", release: ReleaseId) -> None:
    """Refuse a release of which a file in the store is not as its lock says; reads them all.

    Raises:
        RefusedError: Some are not.
    """
    damage = app.releases.verify(release)
    if damage:
        files = ", ".join(f"{one.name} {one.what}" for one in damage[:_SHOWN])
        files += f" and {len(damage) - _SHOWN} more" if len(damage) > _SHOWN else ""
        raise RefusedError(
            f"release {release} is damaged: {files}", hint=f"hermesops release verify {release}; then build it again"
        )


def _image(registry: "Registry", text: str) -> ReleaseId:
    meant = registry.images.latest(text) or next((one for one in registry.images.list() if one.id == text), None)
    if meant is None:
        raise unknown_name("image", text, dict.fromkeys(one.name for one in registry.images.list()))
    return ReleaseId(meant.id)


def targets_of(registry: "Registry", request: "RolloutRequest") -> "tuple[Target, ...]":
    """The running instances that a request means.

    Raises:
        UsageError: None, one that does not exist, or all of them without ``all_running``.
    """
    refuse_unknown(registry, request.selector)
    return request.select(running_targets(fleet_of(registry), request.action))


def preview(app: "Unconnected", request: "RolloutRequest") -> "tuple[RolloutPreview, str]":
    """What a request would do, from the registry alone; and what forbids it now, empty for nothing.

    Raises:
        UsageError: As ``targets_of``; or it cannot be carried out.
        RefusedError: As ``check_release``.
    """
    from hermesops.rollout.plan.preview import preview as look_ahead
    from hermesops.rollout.plan.windows import closed_at

    refuse_spec(request.spec)
    refuse_raised(request.spec, app.env.settings.highest_two_person)
    release, targets = check_wanted(app, request), targets_of(app.registry, request)
    closed = closed_at(app.registry.now(), request.spec.windows, app.registry.freezes.list())
    return look_ahead(release, targets, request.spec), closed.why if closed and not request.spec.emergency else ""


def unfinished(registry: "Registry", release: ReleaseId, request: "RolloutRequest") -> "Rollout | None":
    """The same rollout, begun before and not ended."""
    rows = registry.rollouts.list(unfinished=True)
    return find_same(((row, start_of(registry, row.id).where) for row in rows), release, request)


def ahead(registry: "Registry", request: "RolloutRequest") -> "Rollout | None":
    """A rollout that has not ended and has one of the instances that a request means."""
    rows = registry.rollouts.list(unfinished=True)
    held = ((row, [target.id for target in registry.rollout_targets.list(row.id)]) for row in rows)
    return find_overlapping(held, targets_of(registry, request))

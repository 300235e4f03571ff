"""What an operator wants rolled out, held against what there is: the release, whom it means, who is at it already."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermesops.app.adapters.rollout_store import asked_of
from hermesops.app.adapters.rollout_targets import FIELDS, candidates, selected
from hermesops.app.services.selection import refuse_unknown
from hermesops.errors import RefusedError, UsageError
from hermesops.model.release import ReleaseId
from hermesops.model.rollout import Rollout, Target
from hermesops.model.rollout_spec import Action, Spec
from hermesops.model.selector import Selector
from hermesops.model.unknown_name import unknown_name
from hermesops.rollout.plan.admission import refuse_raised, refuse_spec

if TYPE_CHECKING:
    from hermesops.app.container import Container
    from hermesops.registry import Registry
    from hermesops.rollout.plan.preview import RolloutPreview

_SHOWN = 3
"""Damaged files that are named."""


@dataclass(frozen=True)
class RolloutRequest:
    """What an operator asks for.

    Attributes:
        release: An id, the beginning of one, or an agent's version; for whole machines an image's id or name.
        where: Whom, as ``--where`` reads; empty for everybody.
        everybody: That this is meant.
        reason: Goes into the audit.
    """

    release: str
    where: str
    everybody: bool
    spec: Spec
    action: Action
    reason: str


def check_wanted(app: "Container", request: RolloutRequest) -> ReleaseId:
    """The release that is meant, or the image for whole machines, if it may be rolled out.

    Raises:
        UsageError: There is no such release or image.
        RefusedError: As ``check_release``.
    """
    return (
        check_release(app, request.release) if request.action is Action.SLOT else _image(app.registry, request.release)
    )


def check_release(app: "Container", text: str) -> ReleaseId:
    """The release that is meant, if it may be rolled out.

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


def refuse_damaged(app: "Container", release: ReleaseId) -> None:
    """Go on when every file of a release is in the store as its lock says; reads them all.

    Raises:
        RefusedError: Some are not.
    """
    damage = app.releases.verify(release)
    if damage:
        told = ", ".join(f"{one.name} {one.what}" for one in damage[:_SHOWN])
        told += f" and {len(damage) - _SHOWN} more" if len(damage) > _SHOWN else ""
        raise RefusedError(
            f"release {release} is not whole: {told}", hint=f"hermesops release verify {release}; then build it again"
        )


def _image(registry: "Registry", text: str) -> ReleaseId:
    meant = registry.images.latest(text) or next((one for one in registry.images.list() if one.id == text), None)
    if meant is None:
        raise unknown_name("image", text, dict.fromkeys(one.name for one in registry.images.list()))
    return ReleaseId(meant.id)


def meant(registry: "Registry", request: RolloutRequest) -> tuple[Target, ...]:
    """Whom a request is about.

    Raises:
        UsageError: Nobody, somebody who is not there, or everybody without a word that says so.
    """
    if not request.where and not request.everybody:
        raise UsageError(
            "to whom? --where plan=light,cell=…, or --all for every running instance",
            hint="hermesops rollout preview RELEASE --all shows what would happen",
        )
    selector = Selector.parse(request.where, fields=FIELDS)
    refuse_unknown(registry, selector)
    targets = selected(candidates(registry, request.action), selector)
    if not targets:
        who = f"no running instance is {request.where!r}" if request.where else "no instance is running"
        raise UsageError(f"{who}: there is nobody to bring it to", hint="hermesops instance list")
    return targets


def preview(app: "Container", request: RolloutRequest) -> "tuple[RolloutPreview, str]":
    """What a request would lead to, from the registry alone; and what forbids it now, empty for nothing.

    Raises:
        UsageError: As ``meant``; or it cannot be carried out.
        RefusedError: As ``check_release``.
    """
    from hermesops.rollout.plan.preview import preview as look_ahead
    from hermesops.rollout.plan.windows import closed_at

    refuse_spec(request.spec)
    refuse_raised(request.spec, app.env.settings.highest_two_person)
    release, targets = check_wanted(app, request), meant(app.registry, request)
    closed = closed_at(app.registry.now(), request.spec.windows, app.registry.freezes.list())
    return look_ahead(release, targets, request.spec), closed.why if closed and not request.spec.emergency else ""


def unfinished(registry: "Registry", release: ReleaseId, request: RolloutRequest) -> Rollout | None:
    """The same rollout, begun before and not ended: whoever asks again goes on with it."""
    for rollout in registry.rollouts.list(unfinished=True):
        same = (rollout.release, rollout.action) == (release, request.action)
        if same and asked_of(registry, rollout.id).get("where") == request.where:
            return rollout
    return None


def ahead(registry: "Registry", targets: Sequence[Target]) -> Rollout | None:
    """A rollout that has not ended and has one of these instances."""
    ours = {target.instance_id for target in targets}
    for rollout in registry.rollouts.list(unfinished=True):
        if ours & {target.id for target in registry.rollout_targets.list(rollout.id)}:
            return rollout
    return None

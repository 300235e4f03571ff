"""A second operator's word for stages of a rollout that could hurt many: a signature, kept with the decision."""

import json
from typing import TYPE_CHECKING

from hermesops.access.approval import Asked, digest_of
from hermesops.app.approvals import Approvals
from hermesops.app.rollout_rows import asked_of
from hermesops.app.rollout_steering import steer
from hermesops.model.rollout import Rollout

if TYPE_CHECKING:
    from hermesops.app.app import App
    from hermesops.rollout.controls import Said, Steered
    from hermesops.rollout.ports import Records

_PROVED = "@ssh:"
"""Behind it stands the host, in the name of somebody whom a key proved."""


def approve(app: "App", text: str, stage: int, *, why: str) -> tuple[Rollout, str]:
    """Approve stages with the operator's key; the rollout, and who that was.

    Raises:
        UsageError: There is no such rollout.
        RefusedError: The key does not sign, counts for nobody here, or is that of who started it; or it has ended.
    """
    from dataclasses import replace

    from hermesops.rollout import controls

    row = app.registry.find_rollout(text)
    approval, approver = Approvals(app.env).sign(_asked(app, row, stage))

    def word(seen: "Records", said: "Said") -> "Steered":
        steered = controls.approve(seen.rollout, stage, replace(said, who=approver))
        event = replace(steered.event, evidence={**steered.event.evidence, "approval": json.loads(approval)})
        return replace(steered, event=event)

    return steer(app, row.id, word, why=why), approver


def _asked(app: "App", row: Rollout, stage: int) -> Asked:
    """What is asked for, by its content: this release to these instances up to that stage."""
    targets = [target.id for target in app.registry.rollout_targets(row.id) if target.stage < stage]
    content = json.dumps({"rollout": row.id, "release": row.release, "stage": stage, "targets": targets})
    who = str(asked_of(app.registry, row.id).get("who") or row.who).split(_PROVED)[0]
    return Asked(f"stage {stage} of rollout {row.id}", app.env.name, digest_of(content.encode()), who)

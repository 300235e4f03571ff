"""Shapes of a lost registry that is rebuilt."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermesops.agents.drift.lost_registry.rebuild import Rebuild


def rebuild(planned: "Rebuild", *, written: int) -> dict[str, object]:
    """Instances that a lost registry holds again, and records that stay lost; no secret is in it."""
    return {
        "instances": [
            {
                "instance_id": instance.id,
                "user": instance.user_alias or instance.user_id,
                "plan": instance.plan.value,
                "cell": instance.cell,
                "machine_name": instance.machine_name,
                "machine_id": instance.machine_id,
                "epoch": instance.epoch,
            }
            for instance in planned.instances
        ],
        "left": [{"name": item.name, "why": item.why, "hint": item.hint} for item in planned.left],
        "gone": list(planned.gone),
        "written": written,
    }

"""Lines about a registry that ``registry rebuild`` makes again."""

from typing import TYPE_CHECKING

from hermesops.base.narration import counted
from hermesops.cli.console import advice

if TYPE_CHECKING:
    from hermesops.agents.drift.lost_registry.rebuild import Rebuild


def rebuild_lines(planned: "Rebuild") -> list[str]:
    """Lines about a rebuilt registry for people."""
    known = [
        f"  {instance.user_alias or instance.user_id}  {instance.plan}  {instance.cell}  {instance.machine_name}"
        for instance in planned.instances
    ]
    left = [line for item in planned.left for line in (f"  {item.name}: {item.why}", f"    $ {advice(item.hint)}")]
    return [
        f"known again: {counted(len(known), 'instance')}",
        *known,
        f"not known: {counted(len(planned.left), 'item')}",
        *left,
        *(["lost in any case:", *(f"  {what}" for what in planned.gone)] if planned.gone else []),
    ]

"""What ``--where`` names, held against what there is."""

from typing import TYPE_CHECKING

from hermesops.model.cell import parse_cell

if TYPE_CHECKING:
    from hermesops.model.selector import Selector
    from hermesops.registry import Registry


def refuse_unknown(registry: "Registry", selector: "Selector") -> None:
    """Go on when every user and every cell that a selector names is there.

    Raises:
        UsageError: One is not: nothing would be found about it, which reads like good news.
    """
    for user in sorted(selector.values("user")):
        registry.instances.find(user)
    for cell in sorted(selector.values("cell")):
        registry.cells.get(parse_cell(cell))

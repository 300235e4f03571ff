"""Links of the served console's operators: read from the registry, and written by workers for who is proved."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermesops.console.actions.links import ABOUT, FORGET, KEEP
from hermesops.console.operators.gate import operator_shown
from hermesops.console.saved_links import parse_link, parse_name

if TYPE_CHECKING:
    from hermesops.console.operators.requested import RequestedActions


@dataclass(frozen=True)
class LinksOfOperators:
    """The links of the operator of the present request; no other operator's are read."""

    requested: "RequestedActions"

    def list(self) -> Sequence[tuple[str, str]]:
        """Name and page of each, as ``SavedLinks.list``."""
        operator = operator_shown()
        return self.requested.container.operator_links.list(operator.name) if operator else []

    async def add(self, name: str, page: str) -> None:
        """Have a worker keep a page, as ``SavedLinks.add``."""
        name, page = parse_link(name, page)
        await self.requested.ask(ABOUT, KEEP, {"name": name, "page": page}, "a saved link")

    async def remove(self, name: str) -> None:
        """Have a worker forget a link, as ``SavedLinks.remove``."""
        await self.requested.ask(ABOUT, FORGET, {"name": parse_name(name)}, "a saved link")

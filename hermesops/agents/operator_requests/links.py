"""Links to pages that operators of the served console keep, each their own."""

from collections.abc import Sequence
from dataclasses import dataclass

from hermesops.store.registry import Registry


@dataclass(frozen=True)
class OperatorLinks:
    """Links by the names of their operators; whoever calls has proved who acts."""

    registry: Registry

    def list(self, operator: str) -> Sequence[tuple[str, str]]:
        """Name and page of each link of an operator, in the order of the names."""
        return self.registry.operator_links.list(operator)

    def keep(self, operator: str, name: str, page: str) -> None:
        """Keep a page by a name; one of that name is replaced.

        Raises:
            UsageError: The operator has too many.
        """
        self.registry.operator_links.keep(operator, name, page)

    def forget(self, operator: str, name: str) -> None:
        """Forget a link; nothing happens where the operator has none of that name."""
        self.registry.operator_links.forget(operator, name)

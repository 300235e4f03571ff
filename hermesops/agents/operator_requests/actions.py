"""Actions that operators may ask for in the served console, as workers preview and begin them.

The console's table has the actions, and stands above this package: pages and workers share its rows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from hermesops.model.access.console_operator import ConsoleOperator, Role
from hermesops.model.access.operator_request import OperatorRequest
from hermesops.model.ids import OperationId


@dataclass(frozen=True)
class BegunAction:
    """An action that has begun, and was left to the workers.

    Attributes:
        page: Path of the page that shows it, below the console's.
        operation_id: Its operation; ``None`` where it has none of its own.
    """

    page: str
    operation_id: OperationId | None = None


class RequestedAction(Protocol):
    """The action of a request. Nothing of the request counts before its operator is proved."""

    @property
    def role(self) -> Role:
        """The role that it needs."""

    @property
    def needs_recent_sign_in(self) -> bool:
        """Whether the operator must have proved within the last ten minutes who they are."""

    async def preview(self) -> str:
        """Its preview, as the text of a row; nothing is written.

        Raises:
            HermesError: It is refused now, or has a value that no page sends.
        """

    async def find_begun(self, reason: str) -> BegunAction | None:
        """Whatever a worker that died has begun for this reason, left to the workers; ``None`` for nothing."""

    async def begin(self, operator: ConsoleOperator, reason: str) -> BegunAction:
        """Begin it, or find what has begun for the same reason, and leave that to the workers.

        Args:
            operator: Who was proved.
            reason: Names the request, so that a worker that died begins nothing twice.

        Raises:
            HermesError: As ``preview``.
        """


FindAction = Callable[[OperatorRequest], RequestedAction | None]
"""Finds the action of a request; ``None`` for one that the served console does not offer."""

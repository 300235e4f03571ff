"""The revocation of a caller's key: an agent of others calls a user's agent no more."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermesops.console.actions.action import About, Action, ActionRequest, Begun, Preview
from hermesops.store.operations.db_thread import in_db_thread
from hermesops.views.users import callers as shapes

if TYPE_CHECKING:
    from hermesops.app.connected import Connected
    from hermesops.app.container import Container


@dataclass(frozen=True)
class RevokeCallerWork:
    """The end of a caller's key."""

    async def preview(self, container: "Container", request: ActionRequest) -> Preview:
        """The caller with the use of its key; refused where it is revoked."""
        record = await in_db_thread(container.calling_agents.preview_revocation, request.subject.name)
        return Preview("caller", shapes.revocation_preview(record))

    async def begin(self, connected: "Connected", request: ActionRequest) -> Begun:
        """Revoke it; its next request is refused."""
        callers = connected.container.calling_agents
        await in_db_thread(lambda: callers.revoke(request.subject.name, reason=request.reason))
        return Begun("callers")


ACTIONS = (
    Action(
        About.CALLER,
        "revoke",
        "Revoke its key",
        ("user", "caller", "revoke"),
        RevokeCallerWork(),
        left_because="the role of its database reads no rows of callers",
    ),
)

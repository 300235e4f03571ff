"""The acknowledgement of an alert: an operator works on it, and nobody is told of it again for a while."""

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from hermesops.base.typed_values import seconds
from hermesops.console.actions.action import About, Action, ActionRequest, ActionValue, Begun, Preview
from hermesops.store.operations.db_thread import in_db_thread
from hermesops.views.observability import alerts as shapes

if TYPE_CHECKING:
    from hermesops.app.connected import Connected
    from hermesops.app.container import Container
    from hermesops.model.fleet.instance import Instance

_LENGTH = "4h"
"""As the command has it by default."""


@dataclass(frozen=True)
class AcknowledgeWork:
    """The acknowledgement of an open alert, of all instances or of one."""

    async def preview(self, container: "Container", request: ActionRequest) -> Preview:
        """The open alerts that it is about."""
        _length(request)
        instance, now = await in_db_thread(_instance, container, request), await in_db_thread(container.now)
        alerts = await container.alerts().list(instance=instance, severities=(), everything=False)
        rows = [shapes.alert(alert, now) for alert in alerts]
        return Preview("alerts", {"alerts": [row for row in rows if row["alert"] == request.subject.name]})

    async def begin(self, connected: "Connected", request: ActionRequest) -> Begun:
        """Write it to Alertmanager and to the audit."""
        container = connected.container
        instance = await in_db_thread(_instance, container, request)
        await container.alerts().acknowledge(
            request.subject.name, instance, length=_length(request), reason=request.reason
        )
        return Begun("alerts")


def _instance(container: "Container", request: ActionRequest) -> "Instance | None":
    user = request.value("instance")
    return container.instances.find(user) if user else None


def _length(request: ActionRequest) -> timedelta:
    return timedelta(seconds=seconds(request.value("length") or _LENGTH, "--for"))


ACTIONS = (
    Action(
        About.ALERT,
        "acknowledge",
        "Acknowledge",
        ("alert", "ack"),
        AcknowledgeWork(),
        (ActionValue("instance", "Only of user", "--instance"), ActionValue("length", "For, as 4h", "--for")),
    ),
)

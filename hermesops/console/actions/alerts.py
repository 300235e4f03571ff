"""The acknowledgement of an alert: an operator works on it, and nobody is told of it again for a while."""

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from hermesops.base.typed_values import seconds
from hermesops.console.actions.action import About, Action, ActionRequest, ActionValue, Begun, Preview
from hermesops.console.actions.operations import DRY_RUN
from hermesops.model.access.console_operator import Role
from hermesops.store.operations.db_thread import in_db_thread
from hermesops.views.observability import alerts as shapes

if TYPE_CHECKING:
    from hermesops.app.connected import Connected
    from hermesops.app.container import Container
    from hermesops.model.fleet.instance import Instance

_LENGTH, _SILENCE = "4h", "2h"
"""As the commands have them by default."""


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

    async def find_begun(self, connected: "Connected", request: ActionRequest) -> Begun | None:
        """The page of alerts, where one was acknowledged for the same reason."""
        return await _begun(connected, request)


@dataclass(frozen=True)
class SilenceWork:
    """A silence of alerts with some labels: nobody is told of them, and they hold no rollout."""

    async def preview(self, container: "Container", request: ActionRequest) -> Preview:
        """The open alerts that it takes."""
        instance, now = await in_db_thread(_instance, container, request), await in_db_thread(container.now)
        alerts = await container.alerts().preview_silence(
            request.value("where"), instance, length=_length(request, _SILENCE), reason=DRY_RUN
        )
        return Preview("silenced", {"alerts": [shapes.alert(alert, now) for alert in alerts]})

    async def begin(self, connected: "Connected", request: ActionRequest) -> Begun:
        """Write it to Alertmanager and to the audit."""
        container = connected.container
        instance = await in_db_thread(_instance, container, request)
        await container.alerts().silence(
            request.value("where"), instance, length=_length(request, _SILENCE), reason=request.reason
        )
        return Begun("alerts")

    async def find_begun(self, connected: "Connected", request: ActionRequest) -> Begun | None:
        """The page of alerts, where some were silenced for the same reason."""
        return await _begun(connected, request)


async def _begun(connected: "Connected", request: ActionRequest) -> Begun | None:
    return Begun("alerts") if await connected.container.alerts().find_made(request.reason) else None


def _instance(container: "Container", request: ActionRequest) -> "Instance | None":
    user = request.value("instance")
    return container.instances.find(user) if user else None


def _length(request: ActionRequest, default: str = _LENGTH) -> timedelta:
    return timedelta(seconds=seconds(request.value("length") or default, "--for"))


ACTIONS = (
    Action(
        About.ALERT,
        "acknowledge",
        "Acknowledge",
        ("alert", "ack"),
        AcknowledgeWork(),
        (ActionValue("instance", "Only of user", "--instance"), ActionValue("length", "For, as 4h", "--for")),
        role=Role.OPERATOR,
    ),
    Action(
        About.FLEET,
        "silence",
        "Silence alerts",
        ("alert", "silence"),
        SilenceWork(),
        (
            ActionValue("where", "Alerts, as alert=GatewayDown,cell=cell1", "--where", is_required=True),
            ActionValue("instance", "Only of user", "--instance"),
            ActionValue("length", "For, as 2h", "--for"),
        ),
        role=Role.OPERATOR,
    ),
)

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
        instance, now = await in_db_thread(_instance, container, request), await in_db_thread(container.now)
        alerts = await container.alerts().preview_acknowledgement(
            request.subject.name, instance, length=_length(request), reason=DRY_RUN
        )
        return Preview("alerts", shapes.about(alerts, now))

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
        return Preview("silenced", shapes.about(alerts, now))

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


@dataclass(frozen=True)
class LiftWork:
    """The end of a silence or of an acknowledgement."""

    async def preview(self, container: "Container", request: ActionRequest) -> Preview:
        """The silence, and the open alerts that it takes."""
        silence, alerts = await container.alerts().preview_lift(request.subject.id)
        return Preview("lifted", shapes.lift_preview(silence, alerts, await in_db_thread(container.now)))

    async def begin(self, connected: "Connected", request: ActionRequest) -> Begun:
        """End it in Alertmanager, and write that to the audit."""
        await connected.container.alerts().lift(request.subject.id, reason=request.reason)
        return Begun("alerts")


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
        (ActionValue("instance", "Only for user", "--instance"), ActionValue("length", "Duration, as 4h", "--for")),
        role=Role.OPERATOR,
    ),
    Action(
        About.FLEET,
        "silence",
        "Silence alerts",
        ("alert", "silence"),
        SilenceWork(),
        (
            ActionValue("where", "Labels of the alerts, as alert=GatewayDown,cell=cell1", "--where", is_required=True),
            ActionValue("instance", "Only for user", "--instance"),
            ActionValue("length", "Duration, as 2h", "--for"),
        ),
        role=Role.OPERATOR,
    ),
    Action(
        About.SILENCE,
        "lift",
        "End the silence",
        ("alert", "silence"),
        LiftWork(),
        subject_option="--lift",
        left_because="an ended silence is gone, so that no worker could tell whether a request was carried out",
    ),
)

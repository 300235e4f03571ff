"""Open alerts for rollouts: asks the platform's monitoring, and keeps its answer for a while."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from hermesops.agents.rollout.plan.open_alerts import held_by_alerts, holding
from hermesops.agents.rollout.ports import AlertState
from hermesops.errors import HermesError
from hermesops.model.fleet.alert import Alert
from hermesops.model.rollout.records import RolloutTarget
from hermesops.model.rollout.spec import Spec
from hermesops.observability.telemetry.alerts.alertmanager import Alertmanager
from hermesops.observability.telemetry.client import MonitoringClient
from hermesops.observability.telemetry.metrics.prometheus import Metrics

COUNTS = timedelta(seconds=90)
"""How long an answer counts while none comes: three heartbeats, as for everything else that falls silent."""

_EVERY = timedelta(seconds=10)
"""How often it is asked at most; a runner observes each second."""

_WITHIN_S = 3.0
"""Seconds for one answer: a runner does nothing else meanwhile."""


@dataclass
class RolloutAlerts:
    """``hermesops.agents.rollout.ports.CheckAlerts``.

    Attributes:
        client: ``None`` where the environment has no monitoring: then no alert holds a rollout.
    """

    client: MonitoringClient | None
    now: Callable[[], datetime]
    _asked_at: datetime | None = field(default=None, init=False)
    _answer: tuple[datetime, tuple[Alert, ...]] | None = field(default=None, init=False)
    _problem: str = field(default="", init=False)

    async def check(self) -> AlertState:
        """The open alerts that hold rollouts; why they are not known where no answer came for a while."""
        if self.client is None:
            return AlertState()
        if self._asked_at is None or self.now() - self._asked_at >= _EVERY:
            self._asked_at = self.now()
            await self._ask(self.client)
        if self._answer and self.now() - self._answer[0] <= COUNTS:
            return AlertState(self._answer[1])
        return AlertState(unknown=self._problem)

    async def _ask(self, client: MonitoringClient) -> None:
        manager = Alertmanager(client)
        try:
            alerts = await manager.alerts(muted=True, within_s=_WITHIN_S)
            silences = await manager.silences(within_s=_WITHIN_S) if any(alert.silenced_by for alert in alerts) else ()
            acknowledgements = [silence.id for silence in silences if silence.is_acknowledgement]
            holders = holding(alerts, acknowledgements)
            if holders:
                holders = holding(alerts, acknowledgements, await Metrics(client).ending(alerts))
        except HermesError as error:
            self._problem = error.message
            return
        self._answer = (self.now(), holders)


async def held_now(
    client: Callable[[], MonitoringClient | None],
    targets: Sequence[RolloutTarget],
    spec: Spec,
    now: Callable[[], datetime],
) -> str:
    """The open alerts that would hold a rollout if it began now, or the reason why they are unknown; empty for none.

    Args:
        client: Of the platform's monitoring, as ``RolloutAlerts`` has it; may raise that it is not up.
    """
    try:
        state = await RolloutAlerts(client(), now).check()
    except HermesError as error:
        state = AlertState(unknown=error.message)
    return held_by_alerts(state, targets, spec)

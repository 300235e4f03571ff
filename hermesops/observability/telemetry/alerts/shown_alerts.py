"""Alerts of the platform's monitoring as an operator sees and silences them: with users, not ids of instances."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING

from hermesops.errors import HermesError, Hint, UsageError
from hermesops.model.fleet.alert import ACKNOWLEDGED, INSTANCE, NAME, Alert, Matcher, Severity, Silence
from hermesops.model.fleet.cell import parse_cell
from hermesops.model.fleet.selector import WHERE
from hermesops.model.ids import InstanceId, instance_subject
from hermesops.model.unknown_name import find_by_id, unknown_name
from hermesops.observability.telemetry.alerts import silencing
from hermesops.observability.telemetry.alerts.alertmanager import Alertmanager
from hermesops.observability.telemetry.metrics.prometheus import Metrics

if TYPE_CHECKING:
    from hermesops.model.access.audit import AuditEntry
    from hermesops.model.fleet.instance import Instance
    from hermesops.observability.telemetry.client import MonitoringClient
    from hermesops.store.registry import Registry


_KNOWN_WITHIN_S = 5.0
"""Seconds for alerts that a command can do without."""

_SEARCHED = 50
"""Newest audit entries of a subject among which that of a silence is looked for."""


class Steps(Enum):
    """Scopes of the steps of runbooks: none, one named instance, or the fleet."""

    NONE = "none"
    OF_INSTANCE = "of an instance"
    """Its steps are about one instance, which has to be named."""
    OF_ALL = "of all"


_ENDS = Hint("nothing: the cause is over, and the alert ends by itself")


@dataclass(frozen=True)
class OpenAlert:
    """An alert with the user of its instance.

    Attributes:
        user: Alias, else id; empty where it is about no instance that the registry knows.
        next: What is next: a command, or nothing where the cause is over.
        stands_for: Users of the alerts of that name which it hides; empty for an alert of one instance.
        ending: Whether what it is about does not hold any more, so that it ends by itself; ``None`` for not known.
        acknowledged: By whom, why and until when, where somebody works on it; of several, that which ends last.
    """

    alert: Alert
    user: str
    next: Hint
    stands_for: tuple[str, ...] = ()
    ending: bool | None = None
    acknowledged: Silence | None = None


@dataclass(frozen=True)
class KnownAlerts:
    """Open alerts, for a command that can do without them.

    Attributes:
        unread: Why they are not known; empty where they are, or where there is no monitoring.
    """

    open: tuple[OpenAlert, ...] = ()
    unread: str = ""


@dataclass(frozen=True)
class KnownSilences:
    """Silences that hold or are to come.

    Attributes:
        unread: Why they are not known; empty where they are.
    """

    silences: tuple[Silence, ...] = ()
    unread: str = ""


@dataclass(frozen=True)
class Alerts:
    """Alerts of one environment.

    Attributes:
        steps_of: What the runbook of a name has to run; ``None`` where there is no such runbook.
    """

    registry: "Registry"
    client: "MonitoringClient"
    steps_of: Callable[[str], Steps | None]

    async def list(
        self, *, instance: "Instance | None" = None, severities: Collection[Severity] = (), everything: bool = False
    ) -> tuple[OpenAlert, ...]:
        """Open alerts, the most urgent and oldest first, also those that somebody acknowledged.

        Args:
            instance: Only about it, also those that another alert hides.
            severities: Only these; without any, all that somebody is told of.
            everything: Silenced and inhibited ones, and those that nobody is told of, as well.

        Raises:
            RefusedError: Alertmanager does not answer us.
            UnavailableError: It does not answer, or not with alerts.
        """
        chosen = set(severities) or ({*Severity} if everything else {Severity.PAGE, Severity.TICKET})
        firing = await Alertmanager(self.client).alerts(muted=True)
        ending = await Metrics(self.client).ending(firing)
        acknowledged = await self._acknowledged(firing)
        chosen_alerts = [
            alert
            for alert in firing
            if (everything or instance or not alert.is_muted or acknowledged(alert))
            # A severity that we do not know may be the most urgent.
            and (alert.severity in chosen or (alert.severity is None and not severities))
            and (instance is None or alert.instance == instance.id)
        ]
        users = await asyncio.to_thread(self.users) if any(alert.instance for alert in firing) else {}
        shown = (replace(self._open(alert, users, firing), acknowledged=acknowledged(alert)) for alert in chosen_alerts)
        return tuple(_as_it_ends(alert, ending=ending(alert.alert)) for alert in shown)

    async def known(self) -> KnownAlerts:
        """Open alerts, unless they cannot be read within seconds."""
        try:
            async with asyncio.timeout(_KNOWN_WITHIN_S):
                return KnownAlerts(await self.list())
        except TimeoutError:
            return KnownAlerts(unread=f"monitoring did not answer within {_KNOWN_WITHIN_S:g} s")
        except HermesError as error:
            return KnownAlerts(unread=error.message)

    async def _acknowledged(self, firing: Collection[Alert]) -> Callable[[Alert], Silence | None]:
        """The acknowledgement of an alert that nothing else mutes."""
        silences = await Alertmanager(self.client).silences() if any(alert.silenced_by for alert in firing) else ()
        of_id = {silence.id: silence for silence in silences if silence.is_acknowledgement}

        def acknowledged(alert: Alert) -> Silence | None:
            acknowledgements = [of_id[silence_id] for silence_id in alert.silenced_by if silence_id in of_id]
            is_only_that = len(acknowledgements) == len(alert.silenced_by) and not alert.inhibited_by
            return max(acknowledgements, key=lambda silence: silence.ends_at, default=None) if is_only_that else None

        return acknowledged

    async def acknowledge(self, name: str, instance: "Instance | None", *, length: timedelta, reason: str) -> Silence:
        """Say that somebody works on an alert: nobody is told of it again for a while, and rollouts stay held.

        Raises:
            UsageError: It is not open, or there is no reason, or the time is too long.
            RefusedError: Alertmanager does not take it.
            UnavailableError: It does not answer; nothing was changed.
            UnknownOutcomeError: It may have been acknowledged.
        """
        wanted, _ = await self._acknowledgement(name, instance, length, reason)
        silence = await Alertmanager(self.client).silence(wanted)
        self._note_made(silence, reason)
        return silence

    async def preview_acknowledgement(
        self, name: str, instance: "Instance | None", *, length: timedelta, reason: str
    ) -> tuple[OpenAlert, ...]:
        """Open alerts that ``acknowledge`` would take now; raises as it does, and changes nothing."""
        _, taken = await self._acknowledgement(name, instance, length, reason)
        users = await asyncio.to_thread(self.users)
        return tuple(self._open(alert, users, taken) for alert in taken)

    async def _acknowledgement(
        self, name: str, instance: "Instance | None", length: timedelta, reason: str
    ) -> tuple[Silence, tuple[Alert, ...]]:
        """The silence that acknowledges an alert, and the open alerts that it takes."""
        matchers, taken = silencing.acknowledged(
            await Alertmanager(self.client).alerts(muted=True),
            name,
            instance.id if instance else "",
            instance.title if instance else "",
        )
        return self._silence_of(matchers, length, reason, is_acknowledgement=True), taken

    async def silence(self, where: str, instance: "Instance | None", *, length: timedelta, reason: str) -> Silence:
        """Silence alerts for a while.

        Args:
            where: Conditions, as ``alert=GatewayDown,cell=cell1``.
            instance: A further condition.

        Raises:
            UsageError: A name of a label, alert, user or cell is unknown, or there is no reason.
            RefusedError: It takes too much, or Alertmanager does not take it.
            UnavailableError: Alertmanager or Prometheus does not answer; nothing was changed.
            UnknownOutcomeError: It may have been made.
        """
        silence = await self._wanted(where, instance, length, reason)
        silence = await Alertmanager(self.client).silence(silence)
        self._note_made(silence, reason)
        return silence

    async def find_made(self, reason: str) -> Silence | None:
        """The silence or acknowledgement that holds and was made for a reason that no other has; ``None`` for none.

        Its audit entry is written where the process died that made it.

        Raises:
            RefusedError: Alertmanager does not answer us.
            UnavailableError: It does not answer.
        """
        silences = await Alertmanager(self.client).silences()
        silence = next((each for each in silences if each.comment.removeprefix(ACKNOWLEDGED) == reason), None)
        if silence and not any(entry.why == reason for entry in self._entries(silence)):
            self._note_made(silence, reason)
        return silence

    def _entries(self, silence: Silence) -> "Sequence[AuditEntry]":
        return self.registry.audit.list(subject=_subject_of(silence), limit=_SEARCHED)

    async def preview_silence(
        self, where: str, instance: "Instance | None", *, length: timedelta, reason: str
    ) -> tuple[OpenAlert, ...]:
        """Open alerts that ``silence`` would take now; raises as it does, and changes nothing."""
        silence = await self._wanted(where, instance, length, reason)
        alerts = await self.list()
        return tuple(alert for alert in alerts if all(each.takes(alert.alert.labels) for each in silence.matchers))

    async def _wanted(self, where: str, instance: "Instance | None", length: timedelta, reason: str) -> Silence:
        """The silence of these conditions."""
        conditions = dict(silencing.selector_of(where).conditions)
        for cell in conditions.get("cell", ()):
            self.registry.cells.get(parse_cell(cell))
        users = frozenset(self.registry.instances.find(user).id for user in conditions.get("user", ()))
        if instance and users - {instance.id}:
            raise UsageError("the instance and the selector name different users", field=WHERE)
        users |= {instance.id} if instance else frozenset()
        matchers = silencing.matchers_of({**conditions, **({"user": users} if users else {})})
        silence = self._silence_of(matchers, length, reason)
        await self._refuse_unknown(conditions.get("alert", frozenset()))
        return silence

    def _silence_of(
        self, matchers: tuple[Matcher, ...], length: timedelta, reason: str, *, is_acknowledgement: bool = False
    ) -> Silence:
        return silencing.silence_of(
            matchers,
            now=self.registry.now(),
            length=length,
            who=self.registry.actor,
            reason=reason,
            is_acknowledgement=is_acknowledgement,
        )

    async def lift(self, silence_id: str, *, reason: str) -> Silence:
        """End a silence now, by its id or an unambiguous beginning of it.

        Raises:
            UsageError: There is none of that id.
            UnavailableError: Alertmanager does not answer; nothing was changed.
            UnknownOutcomeError: It may have ended.
        """
        meant = await self._meant(silence_id)
        await Alertmanager(self.client).lift(meant.id)
        self._note("silence_lifted", f"silence/{meant.id}", meant, reason)
        return meant

    async def preview_lift(self, silence_id: str) -> tuple[Silence, tuple[OpenAlert, ...]]:
        """The silence that ``lift`` would end, and the open alerts that it takes; raises as it does."""
        meant = await self._meant(silence_id)
        alerts = await self.list(everything=True)
        return meant, tuple(alert for alert in alerts if meant.id in alert.alert.silenced_by)

    async def _meant(self, silence_id: str) -> Silence:
        silences = {silence.id: silence for silence in await Alertmanager(self.client).silences()}
        return silences[find_by_id("silence", silence_id, silences)]

    async def known_silences(self) -> KnownSilences:
        """Silences that hold or are to come, unless they cannot be read within seconds."""
        try:
            async with asyncio.timeout(_KNOWN_WITHIN_S):
                return KnownSilences(await self.silences())
        except TimeoutError:
            return KnownSilences(unread=f"monitoring did not answer within {_KNOWN_WITHIN_S:g} s")
        except HermesError as error:
            return KnownSilences(unread=error.message)

    async def silences(self) -> tuple[Silence, ...]:
        """Silences that hold or are to come, the one that ends first before others.

        Raises:
            RefusedError: Alertmanager does not answer us.
            UnavailableError: It does not answer.
        """
        return await Alertmanager(self.client).silences()

    async def _refuse_unknown(self, names: Collection[str]) -> None:
        if not names:
            return
        known = await Metrics(self.client).alert_names()
        for name in sorted(names):
            if name not in known:
                raise unknown_name("alert", name, known)

    def users(self) -> Mapping[str, str]:
        """Users by the ids of their instances, terminated ones too."""
        return {instance.id: instance.title for instance in self.registry.instances.list(terminated=True)}

    def _open(self, alert: Alert, users: Mapping[str, str], firing: Collection[Alert]) -> OpenAlert:
        user = users.get(alert.instance, "")
        same = (
            (other for other in firing if other.name == alert.name and other.inhibited_by) if not alert.instance else ()
        )
        hidden = tuple(sorted({users[other.instance] for other in same if other.instance in users}))
        return OpenAlert(alert, user, self._next(alert, user or next(iter(hidden), "")), hidden)

    def _next(self, alert: Alert, user: str) -> Hint:
        steps = self.steps_of(alert.runbook) if alert.runbook else None
        if steps is Steps.OF_INSTANCE:
            return Hint(("runbook", "run", alert.runbook, "--instance", user or "USER"))
        if steps is Steps.OF_ALL:
            return Hint(("runbook", "run", alert.runbook, *(("--instance", user) if user else ())))
        if steps is Steps.NONE:
            return Hint(("runbook", "show", alert.runbook))
        return Hint(("instance", "show", user) if user else ("fleet", "status"))

    def _note_made(self, silence: Silence, reason: str) -> None:
        action = "alert_acknowledged" if silence.is_acknowledgement else "alert_silenced"
        self._note(action, _subject_of(silence), silence, reason)

    def _note(self, action: str, subject: str, silence: Silence, reason: str) -> None:
        after = {
            "silence": silence.id,
            "matchers": [str(matcher) for matcher in silence.matchers],
            "until": silence.ends_at.isoformat(),
        }
        self.registry.audit.append(action, subject, after=after, why=reason)


def _subject_of(silence: Silence) -> str:
    """The subject of the audit entry of a silence that was made: its instance, if it is about one."""
    only = {matched.label: matched.value for matched in silence.matchers if not matched.is_regex}
    if instance_id := only.get(INSTANCE):
        return instance_subject(InstanceId(instance_id))
    return f"alert/{only.get(NAME, '')}" if silence.is_acknowledgement else f"silence/{silence.id}"


def _as_it_ends(alert: OpenAlert, *, ending: bool | None) -> OpenAlert:
    """Add to an alert whether its condition is over; then no next step is shown."""
    return replace(alert, ending=ending, next=_ENDS) if ending else replace(alert, ending=ending)

"""Alerts and silences of Alertmanager's API v2."""

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from hermesops.errors import Hint, UnavailableError
from hermesops.model.fleet.alert import NAME, SEVERITY, Alert, Matcher, Severity, Silence
from hermesops.observability.telemetry.client import MonitoringClient, Question

_API = "/alertmanager/api/v2"
_MOST = 50_000
"""Alerts, or silences, of an answer that are read."""

_LABELS = 64
_TEXT = 4096
"""Labels of an alert, and characters of a label, annotation or comment."""

_RUNBOOK = re.compile(r"(?:^|/)([a-z0-9][a-z0-9-]{0,80})\.md(?:[#?].*)?$")
_WRONG = (ValueError, LookupError, TypeError, AttributeError, OverflowError)
"""What reading an answer of another shape raises."""


class Alertmanager:
    """One Alertmanager, behind the platform's monitoring."""

    def __init__(self, client: MonitoringClient) -> None:
        self._client = client

    async def alerts(self, *, muted: bool = False, within_s: float = 10.0) -> tuple[Alert, ...]:
        """Alerts that fire, the most urgent and oldest first.

        Args:
            muted: Silenced and inhibited ones as well.

        Raises:
            RefusedError: It does not answer us.
            UnavailableError: It does not answer, or not with alerts.
        """
        flag = str(muted).lower()
        params = (("active", "true"), ("silenced", flag), ("inhibited", flag))
        answer = await self._client.ask(Question(f"{_API}/alerts", params, within_s=within_s))
        alerts = [alert for alert in map(_alert, _listed(answer, "alerts")) if muted or not alert.is_muted]
        order = list(Severity)
        return tuple(
            sorted(
                alerts,
                key=lambda alert: (
                    order.index(alert.severity) if alert.severity else -1,
                    alert.since,
                    alert.name,
                    sorted(alert.labels.items()),
                ),
            )
        )

    async def silences(self, *, within_s: float = 10.0) -> tuple[Silence, ...]:
        """Silences that hold or are to come, the one that ends first before others.

        Raises:
            RefusedError: It does not answer us.
            UnavailableError: It does not answer, or not with silences.
        """
        answer = await self._client.ask(Question(f"{_API}/silences", within_s=within_s))
        silences = map(_silence, _listed(answer, "silences"))
        return tuple(
            sorted(
                (silence for silence in silences if silence.state != "expired"),
                key=lambda silence: (silence.ends_at, silence.id),
            )
        )

    async def silence(self, silence: Silence) -> Silence:
        """Make a silence, and return it with its id.

        Raises:
            RefusedError: It does not take it.
            UnavailableError: It does not answer; nothing was sent.
            UnknownOutcomeError: It may have been made.
        """
        body = {
            "matchers": [
                {
                    "name": matcher.label,
                    "value": matcher.value,
                    "isRegex": matcher.is_regex,
                    "isEqual": matcher.is_equal,
                }
                for matcher in silence.matchers
            ],
            "startsAt": silence.begins_at.isoformat(),
            "endsAt": silence.ends_at.isoformat(),
            "createdBy": silence.who,
            "comment": silence.comment,
        }
        question = Question(f"{_API}/silences", method="POST", body=body, changes=True)
        answer = await self._client.ask(question)
        try:
            return replace(silence, id=_text(answer["silenceID"]))
        except _WRONG as error:
            raise _unreadable("the id of a silence", error) from error

    async def lift(self, silence_id: str) -> None:
        """End a silence now; safe to repeat.

        Raises:
            RefusedError: It does not end it.
            UnavailableError: It does not answer, or has no such silence.
            UnknownOutcomeError: It may have ended it.
        """
        path = f"{_API}/silence/{quote(silence_id, safe='')}"
        await self._client.ask(Question(path, method="DELETE", changes=True))


def _listed(answer: object, what: str) -> Iterator[Any]:
    if not isinstance(answer, list) or len(answer) > _MOST:
        raise _unreadable(f"a list of at most {_MOST} {what}", None)
    return iter(answer)


def _alert(raw: Any) -> Alert:  # noqa: ANN401 - JSON has no narrower type
    try:
        labels, notes = _texts(raw["labels"]), _texts(raw["annotations"])
        status = raw["status"]
        runbook = _RUNBOOK.search(notes.get("runbook_url", ""))
        return Alert(
            name=labels[NAME],
            labels=labels,
            since=_timestamp(raw["startsAt"]),
            severity=_severity(labels.get(SEVERITY, "")),
            summary=notes.get("summary", ""),
            figure=notes.get("figure", ""),
            runbook=runbook[1] if runbook else "",
            silenced_by=tuple(map(_text, status["silencedBy"] or ())),
            inhibited_by=tuple(map(_text, status["inhibitedBy"] or ())),
            fingerprint=_text(raw.get("fingerprint", "")),
        )
    except _WRONG as error:
        raise _unreadable("alerts", error) from error


def _silence(raw: Any) -> Silence:  # noqa: ANN401 - as above
    try:
        return Silence(
            id=_text(raw["id"]),
            state=_text(raw["status"]["state"]),
            matchers=tuple(
                Matcher(
                    _text(part["name"]),
                    _text(part["value"]),
                    is_regex=part["isRegex"] is True,
                    is_equal=part.get("isEqual", True) is True,  # Alertmanager before 0.22 does not have it
                )
                for part in raw["matchers"]
            ),
            begins_at=_timestamp(raw["startsAt"]),
            ends_at=_timestamp(raw["endsAt"]),
            who=_text(raw["createdBy"]),
            comment=_text(raw["comment"]),
        )
    except _WRONG as error:
        raise _unreadable("silences", error) from error


def _texts(raw: Any) -> dict[str, str]:  # noqa: ANN401 - as above
    if len(raw) > _LABELS:
        raise ValueError("too many labels")
    return {_text(name): _text(value) for name, value in raw.items()}


def _text(raw: object) -> str:
    if not isinstance(raw, str) or len(raw) > _TEXT:
        raise ValueError("no text, or too long")
    return raw


def _timestamp(raw: object) -> datetime:
    timestamp = datetime.fromisoformat(_text(raw))
    if timestamp.tzinfo is None:
        raise ValueError("a time without a zone")
    return timestamp.astimezone(UTC)


def _severity(word: str) -> Severity | None:
    return Severity(word) if word in set(Severity) else None


def _unreadable(what: str, error: Exception | None) -> UnavailableError:
    why = f" ({type(error).__name__})" if error else ""
    return UnavailableError(
        f"Alertmanager answers with something else than {what}{why}",
        hint=Hint(("settings", "show"), "names monitoring.url"),
    )

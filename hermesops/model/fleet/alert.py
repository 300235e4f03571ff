"""Alerts of the platform's monitoring and their silences. Pure.

Source: Alertmanager's API v2 (``api/v2/openapi.yaml`` of prometheus/alertmanager 0.25).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

NAME = "alertname"
INSTANCE = "instance_id"
CELL = "cell"
SEVERITY = "severity"
SCOPE = "scope"
"""The label that says how far an alert reaches: ``instance``, ``cell`` or ``fleet``."""

ACKNOWLEDGED = "acknowledged: "
"""How the comment of a silence begins that an operator made by saying that somebody works on an alert."""

WATCHDOG = "Watchdog"
"""The alert that always fires: what receives it notices when it stops."""


class Severity(StrEnum):
    """Urgency of alerts, the most urgent first."""

    PAGE = "page"
    """Whoever is on call, at once."""
    TICKET = "ticket"
    """Its owner, in working hours."""
    NONE = "none"
    """Nobody."""


@dataclass(frozen=True)
class Alert:
    """An alert that fires.

    Attributes:
        severity: ``None`` for a word that we do not know.
        figure: What was measured, with its unit and limit; empty where the rule says nothing.
        runbook: Name of the runbook, without ``.md``; empty where the rule names none.
        silenced_by: Ids of silences that hold for it.
        inhibited_by: Fingerprints of alerts that hide it.
        fingerprint: Alertmanager's name of it; empty where it gave none.
    """

    name: str
    labels: Mapping[str, str]
    since: datetime
    severity: Severity | None
    summary: str = ""
    figure: str = ""
    runbook: str = ""
    silenced_by: tuple[str, ...] = ()
    inhibited_by: tuple[str, ...] = ()
    fingerprint: str = ""

    @property
    def instance(self) -> str:
        """Id of the instance that it is about; empty for none."""
        return self.labels.get(INSTANCE, "")

    @property
    def cell(self) -> str:
        """Name of the cell that it is about; empty for none."""
        return self.labels.get(CELL, "")

    @property
    def is_muted(self) -> bool:
        """Whether nobody is told of it: silenced, or hidden by another alert."""
        return bool(self.silenced_by or self.inhibited_by)


@dataclass(frozen=True)
class Matcher:
    """A condition on one label.

    Attributes:
        value: A text, or a regular expression of the whole text.
        is_equal: Whether the label must match; otherwise it must not.
    """

    label: str
    value: str
    is_regex: bool = False
    is_equal: bool = True

    def takes(self, labels: Mapping[str, str]) -> bool:
        """Whether an alert with these labels meets the condition; one that lacks the label has an empty text."""
        text = labels.get(self.label, "")
        is_so = re.fullmatch(self.value, text) is not None if self.is_regex else text == self.value
        return is_so == self.is_equal

    def __str__(self) -> str:
        sign = f"{'=' if self.is_equal else '!'}{'~' if self.is_regex else '=' if not self.is_equal else ''}"
        return f"{self.label}{sign}{self.value}"


@dataclass(frozen=True)
class Silence:
    """A span of time in which nobody is told of alerts that match.

    Attributes:
        id: Empty for one that is still to be made.
        state: ``active``, ``pending`` or ``expired``.
        who: Who made it, in their own words: anybody who reaches Alertmanager can write any name.
    """

    id: str
    state: str
    matchers: tuple[Matcher, ...]
    begins_at: datetime
    ends_at: datetime
    who: str
    comment: str

    @property
    def is_acknowledgement(self) -> bool:
        """Whether an operator made the silence by acknowledging an alert."""
        return self.comment.startswith(ACKNOWLEDGED)


def matcher(label: str, values: Sequence[str]) -> Matcher:
    """The condition that a label has one of these values."""
    if len(values) == 1:
        return Matcher(label, values[0])
    # RE2 takes re.escape's backslashes before signs; letters, digits and _ get none.
    return Matcher(label, "|".join(re.escape(value) for value in sorted(values)), is_regex=True)

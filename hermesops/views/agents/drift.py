"""Shapes of differences between registry and machines, of an instance's history, and of applied roles."""

from collections import Counter
from typing import TYPE_CHECKING

from hermesops.views.timestamps import timestamp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermesops.agents.drift.finding import Finding
    from hermesops.agents.drift.history.changes import Happening
    from hermesops.machines.converge import Converged


def drift(findings: "Sequence[Finding]") -> dict[str, object]:
    """The JSON object of differences, the most severe first, with counts by severity."""
    return {
        "findings": [
            {
                "kind": finding.kind.value,
                "severity": finding.severity.value,
                "subject": finding.subject,
                "cell": finding.cell or None,
                "machine": finding.machine or None,
                "seen": finding.difference,
                "repair": list(finding.repair),
                "otherwise": list(finding.otherwise),
            }
            for finding in findings
        ],
        "by_severity": dict(Counter(finding.severity.value for finding in findings)),
    }


def converged(ran: "Converged") -> list[dict[str, object]]:
    """Result of the roles for each instance."""
    return [
        {
            "instance": host.host,
            "status": host.status,
            "changed": len(host.changed),
            "failure": f"{host.failure.task}: {host.failure.message}" if host.failure else None,
        }
        for host in ran.hosts.values()
    ]


def changes(happenings: "Sequence[Happening]") -> list[dict[str, object]]:
    """Events, oldest first; ``who`` is null for a change that was only observed."""
    return [
        {
            "at": timestamp(happening.at),
            "who": happening.who or None,
            "what": happening.what,
            "subject": happening.subject,
            "detail": happening.detail,
        }
        for happening in happenings
    ]


def repair_preview(
    repair: str, subject: str, *, instance_id: str = "", machine_id: str = "", server_type: str = ""
) -> dict[str, object]:
    """A repair that was not made.

    Args:
        subject: Machine, or user of ``accept-size``.
        instance_id: The instance that gets the machine.
        machine_id: The machine that is destroyed.
        server_type: The size that becomes the ordered one.
    """
    return {
        "repair": repair,
        "subject": subject,
        "instance_id": instance_id or None,
        "machine_id": machine_id or None,
        "server_type": server_type or None,
    }


def repaired(repair: str, subject: str, outcome: str) -> dict[str, object]:
    """The outcome of a repair by its name."""
    return {"repair": repair, "subject": subject, "outcome": outcome}

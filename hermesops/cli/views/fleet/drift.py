"""Differences, changes, and results of their repairs."""

from collections import Counter
from typing import TYPE_CHECKING

from hermesops.base.narration import counted
from hermesops.cli.console import advice
from hermesops.views.timestamps import timestamp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermesops.agents.drift.finding import Finding
    from hermesops.agents.drift.history.changes import Happening
    from hermesops.errors import Hint
    from hermesops.machines.converge import Converged


def accepted_size(user: str, before: str, now: str) -> str:
    """The size of an agent's machine, once it was accepted."""
    return f"{user} has a {now}, " + ("as ordered" if before == now else f"ordered as {before} before")


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


def drift_lines(findings: "Sequence[Finding]") -> list[str]:
    """Differences for people, each above the commands that repair it."""
    lines = []
    for finding in findings:
        where = f" ({finding.machine})" if finding.machine and finding.machine != finding.subject else ""
        lines += [f"{finding.severity}  {finding.kind}  {finding.subject}{where}", f"    {finding.difference}"]
        lines += _steps(finding.repair) + _steps(finding.otherwise, "or ")
    counts = Counter(finding.severity.value for finding in findings)
    sums = ", ".join(f"{count} {severity}" for severity, count in counts.items())
    return [*lines, f"{counted(len(findings), 'difference')}: {sums}"] if findings else ["nothing differs"]


def _steps(commands: "Sequence[Hint]", lead: str = "") -> list[str]:
    """Commands as people type them; more than one are numbered: each is of use only after those before it."""
    if len(commands) == 1:
        return [f"    {lead}$ {advice(commands[0])}"]
    return [f"    {lead}{number}. $ {advice(command)}" for number, command in enumerate(commands, 1)]


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

"""Lines about differences and their repairs."""

from collections import Counter
from typing import TYPE_CHECKING

from hermesops.base.narration import counted
from hermesops.cli.console import advice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermesops.agents.drift.finding import Finding
    from hermesops.errors import Hint


def accepted_size(user: str, before: str, now: str) -> str:
    """The size of an agent's machine, once it was accepted."""
    return f"{user} has a {now}, " + ("as ordered" if before == now else f"ordered as {before} before")


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

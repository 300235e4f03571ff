"""Shapes of runbooks: their steps and runs."""

from typing import TYPE_CHECKING

from hermesops.errors import Hint

if TYPE_CHECKING:
    from hermesops.errors import HermesError
    from hermesops.model.fleet.instance import Instance
    from hermesops.observability.runbook.document import Runbook, Step
    from hermesops.observability.runbook.run import RunbookRun


def listed(runbook: "Runbook") -> dict[str, object]:
    """A runbook in a list; ``steps`` counts them."""
    return {
        "runbook": runbook.name,
        "alerts": list(runbook.alerts),
        "steps": len(runbook.steps),
        "title": runbook.title,
    }


def runbook(document: "Runbook") -> dict[str, object]:
    """A whole runbook, with its text and its steps."""
    return {
        "runbook": document.name,
        "alerts": list(document.alerts),
        "title": document.title,
        "text": document.text,
        "steps": [step(each) for each in document.steps],
    }


def dry_run(document: "Runbook", user: str, first: int) -> dict[str, object]:
    """The steps that a run would take; ``first`` is the number of the first one."""
    return {
        "runbook": document.name,
        "user": user or None,
        "unfilled": unfilled(document),
        "by_hand": list(document.by_hand),
        "steps": [step(each) for each in document.steps[first:]],
    }


def run(ended: "RunbookRun", instance: "Instance | None", failure: "HermesError | None") -> dict[str, object]:
    """A run with its transcript, and its failure where it has one."""
    return {
        **ended.transcript(),
        "user": instance.title if instance else None,
        "problem": failure.message if failure else None,
        "hint": failure.hint if failure else None,
    }


def step(row: "Step") -> dict[str, object]:
    """A step: its command, its guards and the texts that it must and must not show."""
    return {
        "step": row.name,
        "kind": row.kind.value,
        "command": Hint(row.command),
        "guards": [str(guard) for guard in row.guards],
        "expect": list(row.expected),
        "absent": list(row.absent),
        "undo": row.undo or None,
    }


def unfilled(document: "Runbook") -> dict[str, str]:
    """Placeholders without a value now, each with the meaning of its value."""
    from hermesops.observability.runbook.document import VALUES

    return {name: f"{VALUES[name]}; there is none now" for name in sorted(document.values)}

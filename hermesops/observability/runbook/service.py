"""Inputs of a runbook run: its instance, values and environment variables; and its audit entry."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermesops.base.child_environment import BUCKET, GO, PACKAGES, PULUMI, SSH_AGENT
from hermesops.errors import Hint, UsageError
from hermesops.model.ids import instance_subject
from hermesops.observability.runbook.document import load, names
from hermesops.settings.fields import is_secret

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from hermesops.model.fleet.instance import Instance
    from hermesops.observability.runbook.document import Runbook
    from hermesops.observability.telemetry.alerts.shown_alerts import Steps
    from hermesops.settings.environment import Environment
    from hermesops.store.registry import Registry

_OF_INSTANCE = frozenset({"USER", "INSTANCE", "PLAN", "CELL", "OPERATION"})


def is_about_instance(runbook: "Runbook") -> bool:
    """Whether its steps need an instance."""
    return bool(runbook.values & _OF_INSTANCE)


def alert_steps(folder: "Path", name: str) -> "Steps | None":
    """Scope of the steps of the runbook that an alert names; ``None`` if there is no such runbook.

    Args:
        folder: Of the runbooks.
    """
    # Lazily: loads the clients of monitoring, which a runbook that is only shown does not need.
    from hermesops.observability.telemetry.alerts.shown_alerts import Steps  # noqa: PLC0415

    if name not in names(folder):
        return None
    runbook = load(folder, name)
    if not runbook.steps:
        return Steps.NONE
    return Steps.OF_INSTANCE if is_about_instance(runbook) else Steps.OF_ALL


def values_of(registry: "Registry", runbook: "Runbook", instance: "Instance | None") -> dict[str, str]:
    """Values for the placeholders in a runbook's steps, by placeholder.

    Raises:
        UsageError: It is about an instance and none is given, or about a rollout and there was none.
    """
    needed = runbook.values
    if is_about_instance(runbook) and instance is None:
        hint = Hint(("runbook", "run", runbook.name, "--instance", "USER"))
        raise UsageError(f"missing, and {runbook.name} is about one instance", hint=hint, field="instance")
    values = _values_of_instance(registry, instance) if instance else {}
    if "ROLLOUT" in needed:
        values["ROLLOUT"] = registry.rollouts.find("").id
    return {name: str(value) for name, value in values.items()}


def _values_of_instance(registry: "Registry", instance: "Instance") -> dict[str, object]:
    unfinished = registry.operations.list(unfinished=True, instance_id=instance.id)
    values: dict[str, object] = {
        "USER": instance.title,
        "INSTANCE": instance.id,
        "PLAN": instance.plan.value,
        "CELL": instance.cell,
    }
    # A step that names one is guarded by the list of operations.
    return {**values, "OPERATION": unfinished[0].id} if unfinished else values


def variables_of(env: "Environment") -> dict[str, str]:
    """The environment of its commands: any command of the same operator's, so with every setting and every key."""
    secrets = [name for name in env.variables if is_secret(name)]
    return env.for_hermesops(PACKAGES, GO, PULUMI, BUCKET, SSH_AGENT, secrets=secrets)


def note(registry: "Registry", runbook: "Runbook", instance: "Instance | None", done: "Mapping[str, object]") -> None:
    """Write the transcript of a run to the audit."""
    subject = instance_subject(instance.id) if instance else f"runbook/{runbook.name}"
    registry.audit.append("runbook_run", subject, why=f"runbook {runbook.name}", after=done)


@dataclass(frozen=True)
class RunbookRecords:
    """Fills runbooks from the registry and keeps the transcripts of their runs in its audit.

    Attributes:
        registry: Opens it, and only where something is read or written: it may be what is broken.
    """

    registry: "Callable[[], Registry]"

    def filled(self, runbook: "Runbook", instance: "Instance | None") -> "Runbook":
        """The runbook with values for the words in capitals of its steps.

        Raises:
            UsageError: As ``values_of``.
        """
        return runbook.filled(values_of(self.registry(), runbook, instance)) if runbook.values else runbook

    def keep(self, runbook: "Runbook", instance: "Instance | None", transcript: "Mapping[str, object]") -> None:
        """Write the transcript of a run to the audit."""
        note(self.registry(), runbook, instance, transcript)

"""Describes the process that works on a subject, its operation and its start, for a process that waits."""

import re
from collections.abc import Iterable

from hermesops.errors import HermesError, Hint
from hermesops.model.ids import InstanceId
from hermesops.model.operation import Lease, LeaseHeldError, Operation
from hermesops.store.operations.kinds.table import KINDS
from hermesops.store.operations.leases.holder import is_gone
from hermesops.store.registry import Registry

_PROCESS = re.compile(r"(?P<host>[^:]+):(?P<pid>[0-9]{1,9}):.+")
_INSTANCE = "instance/"

AGAIN = Hint("run the same command again after that;", ("operation", "list"), "shows it")
"""What is next where another process works on the same."""


def refuse_held(registry: Registry, lease: Lease | None) -> None:
    """Let only a subject be changed that no process works on; a lease of a process that is gone does not count.

    Raises:
        LeaseHeldError: A process works on it; with the message that a request gets.
    """
    if lease and not is_gone(lease.holder):
        words = f"{lease.subject} is being worked on by {lease.holder}"
        raise held_by(registry, LeaseHeldError(words, holder=lease.holder), lease.subject)


def held_by(registry: Registry, refusal: LeaseHeldError, subject: str) -> LeaseHeldError:
    """Return the refusal for a held lease, with the operation it is held for; unchanged for an unknown holder."""
    if not refusal.holder:
        return refusal
    try:
        operations = [operation for operation in registry.operations.unfinished() if operation.subject == subject]
        began = [
            (operation, {step.holder for step in registry.operations.steps(operation.id)}) for operation in operations
        ]
        operation = _of_holder(began, refusal.holder)
        title = _title(registry, operation, subject)
    except HermesError:  # the refusal matters more than its words
        return refusal
    return LeaseHeldError(in_words(title, operation, refusal.holder), hint=AGAIN, holder=refusal.holder)


def in_words(title: str, operation: Operation | None, holder: str) -> str:
    """Describe as ``ben is being worked on by process 25827 on vm: backup since 2026-01-02 04:46 UTC``. Pure."""
    match = _PROCESS.fullmatch(holder)
    who = f"process {match['pid']} on {match['host']}" if match else holder or "another process"
    words = f"{title} is being worked on by {who}"
    if operation is None:
        return words
    return f"{words}: {KINDS[operation.kind].title} since {operation.created_at:%Y-%m-%d %H:%M} UTC"


def _of_holder(began: Iterable[tuple[Operation, set[str]]], holder: str) -> Operation | None:
    """Return the operation of which the holder did a step, or that was opened just now; ``None`` if there is none."""
    began = list(began)
    operations = (operation for operation, holders in began if holder in holders)
    return next(operations, None) or next((operation for operation, holders in began if not holders), None)


def _title(registry: Registry, operation: Operation | None, subject: str) -> str:
    if subject.startswith(_INSTANCE):
        return registry.instances.get(InstanceId(subject.removeprefix(_INSTANCE))).title
    named = operation.intent.get("cell") if operation else None
    return str(named or subject)

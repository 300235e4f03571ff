"""Who works on something, on what and since when, in words for whoever has to wait."""

import re
from collections.abc import Iterable

from hermesops.errors import HermesError, Hint
from hermesops.model.ids import InstanceId
from hermesops.model.operation import LeaseHeldError, Operation
from hermesops.store.operations.kinds import KINDS
from hermesops.store.registry import Registry

_PROCESS = re.compile(r"(?P<host>[^:]+):(?P<pid>[0-9]{1,9}):.+")
_INSTANCE = "instance/"

AGAIN = Hint("the same command again, once that has ended;", ("operation", "list"), "shows it")
"""What is next where another process works on the same."""


def held_by(registry: Registry, held: LeaseHeldError, subject: str) -> LeaseHeldError:
    """The refusal of a held lease, with the operation for which it is held; as it was where the holder is unknown."""
    if not held.holder:
        return held
    try:
        operations = [one for one in registry.operations.unfinished() if one.subject == subject]
        began = [(one, {step.holder for step in registry.operations.steps(one.id)}) for one in operations]
        operation = _of_holder(began, held.holder)
        title = _title(registry, operation, subject)
    except HermesError:  # the refusal matters more than its words
        return held
    return LeaseHeldError(in_words(title, operation, held.holder), hint=AGAIN, holder=held.holder)


def in_words(title: str, operation: Operation | None, holder: str) -> str:
    """For people: ``ben is being worked on by process 25827 on vm: backup since 2026-01-02 04:46 UTC``. Pure."""
    found = _PROCESS.fullmatch(holder)
    who = f"process {found['pid']} on {found['host']}" if found else holder or "another process"
    words = f"{title} is being worked on by {who}"
    if operation is None:
        return words
    return f"{words}: {KINDS[operation.kind].title} since {operation.created_at:%Y-%m-%d %H:%M} UTC"


def _of_holder(began: Iterable[tuple[Operation, set[str]]], holder: str) -> Operation | None:
    """The operation of which the holder did a step, or that was opened just now; none where it works without one."""
    began = list(began)
    found = (operation for operation, holders in began if holder in holders)
    return next(found, None) or next((operation for operation, holders in began if not holders), None)


def _title(registry: Registry, operation: Operation | None, subject: str) -> str:
    if subject.startswith(_INSTANCE):
        return registry.instances.get(InstanceId(subject.removeprefix(_INSTANCE))).title
    named = operation.intent.get("cell") if operation else None
    return str(named or subject)

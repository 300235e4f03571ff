"""Shapes of one operation with its history."""

from collections.abc import Iterable, Mapping

from hermesops.cli.console import in_environment
from hermesops.cli.views.shapes import fields, moment, operation
from hermesops.model.audit import AuditEntry
from hermesops.model.operation import Lease, Operation, OperationStep


def detail(
    row: Operation,
    steps: Iterable[OperationStep],
    lease: Lease | None,
    audit: Iterable[AuditEntry],
    hint: str,
) -> dict[str, object]:
    """An operation with its steps, who is at it now, and what the audit says of its subject since.

    Args:
        row: The operation.
        steps: Oldest first.
        lease: Of its subject, when somebody holds it.
        audit: Newest first.
        hint: The next command.
    """
    return {
        **operation(row),
        "intent": dict(row.intent),
        "lease": (
            {"holder": lease.holder, "token": lease.token, "expires_at": moment(lease.expires_at)} if lease else None
        ),
        "steps": [
            {"at": moment(one.at), "step": one.step, "holder": one.holder or None, "problem": one.problem or None}
            for one in steps
        ],
        "audit": [{"at": moment(one.at), "who": one.who, "action": one.action, "why": one.why} for one in audit],
        "hint": in_environment(hint) or None,
    }


def lines(shown: Mapping[str, object]) -> list[str]:
    """What a person reads of ``detail``."""
    plain = {name: value for name, value in shown.items() if name not in {"intent", "lease", "steps", "audit", "hint"}}
    told = fields(plain)
    intent, lease = shown["intent"], shown["lease"]
    if isinstance(intent, Mapping):
        told += [f"intent      {name}: {value}" for name, value in intent.items()]
    told.append(
        f"at it now   {lease['holder']}, token {lease['token']}" if isinstance(lease, Mapping) else "at it now   nobody"
    )
    told += ["", "steps"] + [_step(one) for one in _list(shown["steps"])]
    told += ["", "audit"] + [
        f"  {one['at']}  {one['who']}  {one['action']}  {one['why']}" for one in _list(shown["audit"])
    ]
    return told + (["", f"next: {shown['hint']}"] if shown["hint"] else [])


def _step(one: Mapping[str, object]) -> str:
    problem = f"\n{'':29}{one['problem']}" if one["problem"] else ""
    return f"  {one['at']}  {one['step']}  ({one['holder'] or 'no lease'}){problem}"


def _list(value: object) -> list[Mapping[str, object]]:
    return value if isinstance(value, list) else []

"""How a run ended, in the words of the rest of hermesops: changes, and the error that says what to do next."""

from hermesops.engine.embedded.protocol import urns
from hermesops.engine.embedded.protocol.rpc import DIED
from hermesops.engine.embedded.run.events import COUNTED, Diagnostic, Op
from hermesops.engine.embedded.run.stack_run import Run
from hermesops.engine.interface import stopped
from hermesops.errors import HermesError, PartlyDoneError, RefusedError, UnavailableError, UnknownOutcomeError
from hermesops.model.stack import Change, ChangeKind

KINDS = {
    Op.SAME: ChangeKind.SAME,
    Op.CREATE: ChangeKind.CREATE,
    Op.UPDATE: ChangeKind.UPDATE,
    Op.REPLACE: ChangeKind.REPLACE,
    Op.DELETE: ChangeKind.DELETE,
    Op.IMPORT: ChangeKind.IMPORT,
}
UNCLEAR = frozenset({"DEADLINE_EXCEEDED"})


def changes_of(run: Run) -> tuple[Change, ...]:
    """List what changed, or would change; what stays as it is does not count, nor do providers nobody asked for."""
    return tuple(
        Change(
            kind=KINDS[step.op],
            urn=step.urn,
            type=urns.type_of(step.urn),
            name=urns.name_of(step.urn),
            id=resource_id,
            properties=step.keys or step.diffs,
        )
        for step, resource_id in run.applier.finished
        if step.op in COUNTED and step.op is not Op.SAME and not urns.is_default_provider(step.urn)
    )


def error_of(run: Run, what: str) -> Exception | None:
    """Choose the error that a run ends with; None when it ended well."""
    # Components and the stack itself exist only in the state: what counts is what a provider did.
    changed = tuple(change for change in changes_of(run) if change.id and not run.dry)
    if run.verdict is not None:
        if isinstance(run.verdict, HermesError):
            return stopped(run.verdict, what, run.journal.ref, changed)
        return run.verdict
    errors = run.halt.failures
    if not errors:
        return None
    message = f"{what} of stack {run.journal.ref.stack} failed: {_told(errors)}"
    if any(fault.code in UNCLEAR or fault.message == DIED for fault in run.halt.faults) and not run.dry:
        return UnknownOutcomeError(message, hint="run the same command again: it looks for what was made first")
    if changed:
        done = ", ".join(f"{change.name} ({change.kind})" for change in changed)
        return PartlyDoneError(f"{message}; done before: {done}", hint="mend that, then run the same command again")
    if any(fault.half_made for fault in run.halt.faults) and not run.dry:
        return PartlyDoneError(message, hint="run the same command again: it goes on with what is half made")
    if any(fault.code == "UNAVAILABLE" for fault in run.halt.faults):
        return UnavailableError(message, hint="run the same command again")
    return RefusedError(message, hint="mend that, then run the same command again")


def _told(errors: list[Diagnostic]) -> str:
    first = errors[0]
    text = " ".join(first.message.split())
    about = f"{urns.name_of(first.urn)} ({urns.type_of(first.urn)}): " if first.urn else ""
    rest = len({error.urn for error in errors}) - 1
    return f"{about}{text}" + (f" (and {rest} more)" if rest else "")

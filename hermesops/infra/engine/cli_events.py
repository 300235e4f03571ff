"""Translates the pulumi CLI's event log into our changes, narration and errors."""

import re
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hermesops.errors import (
    HermesError,
    PartlyDoneError,
    RefusedError,
    UnavailableError,
    UnknownOutcomeError,
)
from hermesops.infra.engine.embedded.protocol.plugin import DIED
from hermesops.infra.engine.options import REPEAT, Progress, Reporter, listed
from hermesops.model.stack import Change, ChangeKind, StackRef

KINDS = frozenset({"create", "update", "replace", "delete", "read", "import"})
CREATES = {"create", "create-replacement"}
REFRESHED = {"update", "delete"}
CHANGING = frozenset({"up", "destroy", "import"})
"""What may have changed something at a vendor."""

FROM_PATH = "using pulumi-resource-"
"""Beginning of the CLI's warning about a plugin on the search path, where ours is on purpose."""

LOCKED = "the stack is currently locked by"
KILLED = re.compile(r"\s*code: -(\d+)\b")
"""Begins what the Automation API says of a command that a signal ended."""

LABELS = re.compile(r"^ *(code: -?\d+|stdout:|stderr:)", re.MULTILINE)
"""Stand before what the Automation API cites of a command's output."""

LOST = re.compile(r"UNAVAILABLE\b.{0,2000}?(Connection refused|failed to connect to all addresses)", re.DOTALL)
"""What the program's library says where the engine does not take its connection, which is gRPC's."""

TRACEBACK = "Traceback (most recent call last):"
PASSPHRASES = ("incorrect passphrase", "passphrase must be set")


@dataclass
class CliEvents:
    """Collects the events of one command.

    Attributes:
        begun: Steps by URN and operation; a preview tells nothing more of deletions.
        refreshed: Resources that a refresh found changed or deleted.
        provided: URNs of resources of a provider; all others exist only in the state.
        has_half_made: True if a resource exists although its create failed: it has an id then.
        errors: Error lines with the URN that they are about, if any.
        at_first: Called at the first event: the CLI holds the stack's lock by then.
    """

    report: Reporter | None = None
    begun: list[Change] = field(default_factory=list)
    refreshed: list[Change] = field(default_factory=list)
    provided: set[str] = field(default_factory=set)
    failed: set[tuple[str, str]] = field(default_factory=set)
    has_half_made: bool = False
    errors: list[tuple[str, str]] = field(default_factory=list)
    at_first: Callable[[], None] | None = None
    _refreshing: set[str] = field(default_factory=set)

    @property
    def has_failures(self) -> bool:
        """True if a resource failed, by a step or before it."""
        return bool(self.failed) or any(urn for urn, _ in self.errors)

    def take(self, event: Any) -> None:  # noqa: ANN401  the SDK's type needs the SDK
        """Take one event of the Automation API."""
        if self.at_first:
            self.at_first()
            self.at_first = None
        if event.resource_pre_event:
            self._step("begun", event.resource_pre_event.metadata)
        elif event.res_outputs_event:
            self._step("done", event.res_outputs_event.metadata)
        elif event.res_op_failed_event:
            self._step("failed", event.res_op_failed_event.metadata)
        elif event.diagnostic_event:
            self._line(event.diagnostic_event)

    def _step(self, phase: str, metadata: Any) -> None:  # noqa: ANN401  as above
        op = str(metadata.op.value if hasattr(metadata.op, "value") else metadata.op)
        urn = metadata.urn
        if metadata.type.startswith("pulumi:providers:") and urn.endswith("::default"):
            return
        if metadata.provider:
            self.provided.add(urn)
        if phase == "failed":
            self.failed.add((urn, op))
            self.has_half_made = self.has_half_made or (op in CREATES and bool(metadata.new and metadata.new.id))
        if phase == "begun" and op == "refresh":
            self._refreshing.add(urn)
        elif phase == "begun" and op in KINDS:
            self.begun.append(_change(ChangeKind(op), metadata))
        elif phase == "done" and urn in self._refreshing and op in REFRESHED:
            self.refreshed.append(_change(ChangeKind(op), metadata))
        if self.report:
            self.report(Progress(phase, op, metadata.type, urn.rpartition("::")[2]))

    def _line(self, event: Any) -> None:  # noqa: ANN401  as above
        severity = event.severity.removeprefix("info#")
        if severity == "error":
            self.errors.append((event.urn or "", event.message.strip()))
        is_news = severity in {"info", "warning", "error"} and not event.message.startswith(FROM_PATH)
        if self.report and is_news:
            name = (event.urn or "").rpartition("::")[2]
            self.report(Progress(severity, name=name, message=event.message.strip()))


def _change(kind: ChangeKind, metadata: Any) -> Change:  # noqa: ANN401  as above
    state = metadata.old or metadata.new
    return Change(
        kind=kind,
        urn=metadata.urn,
        type=metadata.type,
        name=metadata.urn.split("::", 3)[3],
        id=state.id if state else "",
        properties=tuple(metadata.keys or metadata.diffs or ()),
    )


def changes_of(events: CliEvents) -> tuple[Change, ...]:
    """List the changes, or for a preview the expected ones."""
    return tuple(change for change in events.begun if (change.urn, str(change.kind)) not in events.failed)


def done_by(events: CliEvents, what: str) -> tuple[Change, ...]:
    """List the changes made or begun at a vendor; empty for a preview or a refresh."""
    if what not in CHANGING:
        return ()
    return tuple(change for change in changes_of(events) if change.urn in events.provided)


def is_lost(events: CliEvents, output: str) -> bool:
    """Return whether the program lost the engine, or never reached it: nothing was refused."""
    return any(LOST.search(text) for text in (output, *(text for _, text in events.errors)))


def error_of(events: CliEvents, what: str, ref: StackRef, output: str) -> HermesError:
    """Choose the error of a failed command.

    ``what`` is the command, as ``preview of destroy``; ``output`` is the Automation API's text: exit code, stdout,
    stderr.
    """
    if LOCKED in output:
        line = next(line for line in output.splitlines() if LOCKED in line)
        return UnavailableError(
            f"stack {ref.stack}: {line[line.index(LOCKED) :].strip()}",
            hint="wait for it to end; `pulumi cancel` only if that process is surely gone",
        )
    if any(words in output for words in PASSPHRASES):
        return RefusedError(
            f"stack {ref.stack}: incorrect passphrase",
            hint="use the passphrase with which the stack was created; nothing was changed",
        )
    killed = KILLED.match(output)
    if not killed:
        return _failed_error(events, what, ref, output)
    number = int(killed[1])
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    message = f"{what} of stack {ref.stack}: the pulumi CLI was killed by {name}"
    if what in {*CHANGING, "refresh"}:
        return UnknownOutcomeError(message, hint=REPEAT)
    return UnavailableError(message, hint="run the same command again")


def _failed_error(events: CliEvents, what: str, ref: StackRef, output: str) -> HermesError:
    about = [(urn, text) for urn, text in events.errors if urn] or events.errors
    text = " ".join(about[0][1].partition(TRACEBACK)[0].split()) if about else _last_line(output)
    name = about[0][0].rpartition("::")[2] + ": " if about and about[0][0] else ""
    message = f"{what} of stack {ref.stack} failed: {name}{text}"
    if what in CHANGING and any(DIED in line for _, line in events.errors):
        return UnknownOutcomeError(message, hint=REPEAT)
    done = done_by(events, what)
    if done:
        return PartlyDoneError(
            f"{message}; begun before: {listed(done)}", hint="fix that, then run the same command again"
        )
    if what in CHANGING and events.has_half_made:
        return PartlyDoneError(message, hint="run the same command again: it continues with partly made resources")
    if is_lost(events, output):
        lost = f"{what} of stack {ref.stack} stopped: its program did not reach the engine"
        return UnavailableError(lost, hint="run the same command again")
    if "Unavailable" in output:
        return UnavailableError(message, hint="run the same command again")
    return RefusedError(message, hint="fix that, then run the same command again")


def _last_line(output: str) -> str:
    lines = [line.strip() for line in LABELS.sub("", output).splitlines() if line.strip()]
    return lines[-1].removeprefix("error: ") if lines else "the CLI printed no message"

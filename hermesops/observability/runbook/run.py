"""Runs a runbook's steps: each is shown, run and compared with what the runbook expects, until one differs."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from hermesops.base import waiting
from hermesops.errors import HaltedError, HermesError, Hint, PartlyDoneError, RefusedError
from hermesops.observability.runbook.command import Ended
from hermesops.observability.runbook.document import Guard, Kind, Runbook, Step
from hermesops.observability.runbook.matching import shows
from hermesops.wire.foreign_text import one_line, quoted

_NOTED = 300
"""Characters of a line in the transcript."""

SHOWN_LINES = 60
"""Lines of what a reading step printed that are shown, the last ones: as many as those of ``instance show``."""

_ARMOUR = re.compile(r"-----BEGIN ([A-Z ]{1,40})-----[A-Za-z0-9+/=\s\\]{0,20000}-----END \1-----(?:\\n)?")
"""What PEM puts around a certificate or a request, on lines of its own or within a string of JSON."""

_NEVER = "-"
"""A time that nothing has recorded."""

_AGAIN_S = 5.0
"""Between two runs of a step that reads and does not show yet what is expected."""


@dataclass(frozen=True)
class Diagnosis:
    """A row of the runbook's table that fits what was seen.

    Attributes:
        meaning: What it is, by the row.
        evidence: The row's texts by which it fits: lines that have them may quote a user.
    """

    meaning: str
    evidence: tuple[str, ...]


class Outcome(StrEnum):
    """What became of a step. ``not needed``: its guard does not hold; ``left out``: a person picked another way."""

    DONE = "done"
    NOT_NEEDED = "not needed"
    LEFT_OUT = "left out"
    NOT_CONFIRMED = "not confirmed"
    DIFFERS = "differs"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class StepResult:
    """What became of a step.

    Attributes:
        detail: Why; of one that is done the lines that were expected. Without secrets.
        exit_code: Of its command; ``None`` where that did not run or did not end.
    """

    step: Step
    outcome: Outcome
    detail: str = ""
    exit_code: int | None = None


Execute = Callable[[tuple[str, ...]], Ended]
"""Runs a command of hermesops, given its words."""

Ask = Callable[[Step], bool | None]
"""Asks whether to run a step that changes something; ``None`` where nobody is there to answer."""


def unseen(_: str) -> None:
    """Drop output where nobody reads it."""


class RunbookRun:
    """One run of a runbook.

    Args:
        runbook: With its values filled in.
        user: Of the instance that it is about, for hints; empty without one.
        execute: Runs a command; of one that only reads it shows nothing.
        report: Told what is done next, as parts of a hint: commands name the environment only where people read them.
        show: Takes the end of what a reading step printed.
    """

    def __init__(
        self,
        runbook: Runbook,
        user: str,
        *,
        execute: Execute,
        ask: Ask,
        report: Callable[[Hint], None],
        show: Callable[[str], None] = unseen,
    ) -> None:
        self._runbook = runbook
        self._user = user
        self._execute = execute
        self._ask = ask
        self._report = report
        self._show = show
        self._read: dict[str, Ended] = {}  # by step, since the last change
        self._changed_at = _now()  # before it began, nothing that it finds counts as newer
        self.results: list[StepResult] = []
        self.diagnosis: tuple[Diagnosis, ...] | None = None
        """Rows that fit; ``None`` where nothing was read, or there is no table."""

    def run(self, begin: str = "") -> None:
        """Run its steps from one on, or all.

        Raises:
            HaltedError: Reality differs from the runbook.
            RefusedError: A change was not confirmed, and none was made before.
            PartlyDoneError: A change was not confirmed after another one was made.
            UsageError: There is no such step.
        """
        first = self._runbook.begin_at(begin)
        for number, step in enumerate(self._runbook.steps[first:], first):
            if number == self._runbook.diagnosed:
                self._diagnose()
            try:
                self._do(step)
            except HaltedError:
                if number < self._runbook.diagnosed:
                    self._diagnose()
                raise
            except KeyboardInterrupt:
                self.results.append(StepResult(step, Outcome.INTERRUPTED))
                raise

    def next_hint(self, step: Step) -> Hint:
        """How the run goes on from a step."""
        about = ("--instance", self._user) if self._user else ()
        return Hint(("runbook", "run", self._runbook.name, *about, "--from", step.name), "goes on from there")

    def transcript(self) -> dict[str, object]:
        """What was done, for the audit: commands and the lines that decided, no other output. JSON, without secrets."""
        return {
            "runbook": self._runbook.name,
            "diagnosis": None
            if self.diagnosis is None
            else [
                {
                    "meaning": one_line(one.meaning, longest=_NOTED),
                    "evidence": [one_line(text, longest=_NOTED) for text in one.evidence],
                }
                for one in self.diagnosis
            ],
            "steps": [
                {
                    "step": one.step.name,
                    "command": [one_line(word, longest=_NOTED) for word in one.step.command],
                    "outcome": one.outcome.value,
                    "exit_code": one.exit_code,
                    "detail": one_line(one.detail, longest=_NOTED),
                }
                for one in self.results
            ],
        }

    def _diagnose(self) -> None:
        """Say which rows of the table fit what was read."""
        if not self._read or not self._runbook.cases:
            return
        outputs = {name: ended.output for name, ended in self._read.items()}
        fitting = ((one.meaning, one.evidence(outputs)) for one in self._runbook.cases)
        self.diagnosis = tuple(Diagnosis(meaning, texts) for meaning, texts in fitting if texts)
        for found in self.diagnosis:
            seen = " and ".join(map(quoted, found.evidence))
            self._report(Hint(f"diagnosis: {found.meaning}; printed was {seen}"))
        if not self.diagnosis:
            show = ("runbook", "show", self._runbook.name)
            self._report(Hint("diagnosis: no row of the table fits by outputs alone;", show, "has those to judge"))

    def _do(self, step: Step) -> None:
        if why := self._why_not_needed(step):
            self._report(Hint(f"{step.name}: not needed, {why}"))
            self.results.append(StepResult(step, Outcome.NOT_NEEDED, why))
            return
        if step.kind is not Kind.READ and not self._is_confirmed(step):
            return
        ended, problem = self._compared(step)
        outcome = Outcome.DIFFERS if problem else Outcome.DONE
        detail = problem or "; ".join(shows(ended.output, text) for text in step.expected)
        self.results.append(StepResult(step, outcome, detail, ended.exit_code))
        if problem:
            raise self._halted(step, problem)

    def _compared(self, step: Step) -> tuple[Ended, str]:
        """What a step did, and how it differs from what the runbook expects, once it does not or its time is over."""
        begun, is_awaited = time.monotonic(), False
        self._report(Hint(f"{step.name}:", step.command))
        ended = self._command(step)
        while True:
            problem = problem_of(step, ended) or age_problem(step, ended, self._changed_at)
            if not problem or time.monotonic() - begun >= step.within_s:
                self._show_end(step, ended)
                for name in step.newer:
                    if _time_of(name, ended) == _NEVER:
                        self._report(Hint(f"{step.name}: no {name} is recorded here, so none was waited for"))
                return ended, problem
            if not is_awaited:
                self._report(Hint(f"{step.name}: {problem}; it is repeated for {step.within_s} s"))
                is_awaited = True
            waiting.pause_blocking(_AGAIN_S)
            ended = self._command(step)

    def _why_not_needed(self, step: Step) -> str:
        """Which guard does not hold; what it depends on is read again once anything was changed."""
        for guard in step.guards:
            if not holds(guard, self._reading(step, guard)):
                return f"{guard.step} {'does not show' if guard.is_shown else 'shows'} {quoted(guard.text)}"
        return ""

    def _reading(self, step: Step, guard: Guard) -> Ended:
        if guard.step not in self._read:
            source = next(one for one in self._runbook.steps if one.name == guard.step)
            self._report(Hint(f"{step.name}: is it needed?"))
            self._report(Hint(f"{source.name}:", source.command))
            ended = self._command(source)
            self._show_end(source, ended)
            failure = _failure(source, ended)
            if failure or ended.is_cut:
                problem = f"{guard.step}, on which it depends: {failure or 'it printed too much to be compared'}"
                self.results.append(StepResult(step, Outcome.DIFFERS, problem, None))
                raise self._halted(step, problem)
        return self._read[guard.step]

    def _is_confirmed(self, step: Step) -> bool:
        answer = self._ask(step)
        if answer:
            return True
        if answer is False and step.kind is Kind.DECIDE:
            self.results.append(StepResult(step, Outcome.LEFT_OUT))
            return False
        if answer is None and step.is_optional:
            self._report(Hint(f"{step.name}: left out, nobody picked it;", step.command))
            self.results.append(StepResult(step, Outcome.LEFT_OUT))
            return False
        self.results.append(StepResult(step, Outcome.NOT_CONFIRMED))
        changed = [
            one.step.name for one in self.results if one.step.kind is not Kind.READ and one.exit_code is not None
        ]
        kind = PartlyDoneError if changed else RefusedError
        spared = f"done before: {', '.join(changed)}" if changed else "nothing was changed"
        confirms = "--yes confirms it" if step.kind is Kind.CHANGE else "with --yes that picks this step"
        raise kind(f"step {step.name} was not confirmed: {spared}", hint=Hint(self.next_hint(step), ",", confirms))

    def _command(self, step: Step) -> Ended:
        if step.kind is not Kind.READ:
            self._read.clear()
        ended = self._execute(step.command)
        if step.kind is Kind.READ:
            self._read[step.name] = ended
        else:
            self._changed_at = _now()
        return ended

    def _show_end(self, step: Step, ended: Ended) -> None:
        """Show the last lines of what a reading step printed; a change shows its own as they come."""
        if step.kind is not Kind.READ:
            return
        lines = ended.output.splitlines(keepends=True)
        if left := len(lines[:-SHOWN_LINES]):
            self._report(Hint(f"{step.name}: {left} lines before these are left out;", step.command, "prints all"))
        self._show(without_armour("".join(lines[-SHOWN_LINES:])))

    def _halted(self, step: Step, problem: str) -> HermesError:
        undo = Hint("; undo:", step.undo) if step.undo else Hint()
        show = Hint(("runbook", "show", self._runbook.name), "says what else it may be;")
        return HaltedError(f"step {step.name}: {problem}", hint=Hint(show, self.next_hint(step), undo))


def without_armour(output: str) -> str:
    """An output without the text of certificates and requests in it, which are for programs: what they are stays."""
    return _ARMOUR.sub(r"(\1)", output)


def holds(guard: Guard, ended: Ended) -> bool:
    """Whether what a reading step printed satisfies a guard."""
    return bool(shows(ended.output, guard.text)) == guard.is_shown


def problem_of(step: Step, ended: Ended) -> str:
    """How what a step did differs from what the runbook expects; empty when it does not."""
    if failure := _failure(step, ended):
        return failure
    for text in step.expected:
        if not shows(ended.output, text):
            return f"it did not print {quoted(text)}"
    for text in step.absent:
        if line := shows(ended.output, text):
            return f"it should not print {quoted(text)}, but printed {quoted(line)}"
        if ended.is_cut:
            return f"it printed too much to be sure that {quoted(text)} is not there"
    return ""


def age_problem(step: Step, ended: Ended, since: datetime) -> str:
    """How a time that a step printed is not newer than the last change; empty when all are.

    A time that is ``-`` is of what nothing records, as heartbeats without monitoring: nothing could be waited for.
    """
    for name in step.newer:
        told = _time_of(name, ended)
        if told == _NEVER:
            continue
        try:
            at = datetime.fromisoformat(told)
        except ValueError:
            return f"it did not print a time as {quoted(name)}"
        if at.astimezone(UTC) <= since:
            when = f"before {since:%H:%M:%S} UTC, when the last change ended or the run began"
            return f"its {name} is of {at.astimezone(UTC):%H:%M:%S}, {when}"
    return ""


def _time_of(name: str, ended: Ended) -> str:
    line = shows(ended.output, name)
    return line.rpartition(name.rsplit(maxsplit=1)[-1])[2].strip() if line else ""


def _now() -> datetime:
    return datetime.now(UTC)


def _failure(step: Step, ended: Ended) -> str:
    """How a command failed, with its own error; empty when it ended as its step may."""
    if ended.exit_code in {0, *step.exit_codes}:
        return ""
    said = [line.removeprefix("error: ") for line in ended.output.splitlines() if line.startswith("error: ")]
    why = f": {one_line(said[-1])}" if said else ""
    return f"it ended with exit code {ended.exit_code}{why}"

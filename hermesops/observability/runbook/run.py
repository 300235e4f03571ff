"""Runs a runbook's steps: shows each, runs it and compares its output with the runbook, until one differs."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from hermesops.base import waiting
from hermesops.errors import HaltedError, HermesError, Hint, Parameter, PartlyDoneError, RefusedError
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
    """A row of the runbook's table that fits the observed output.

    Attributes:
        meaning: What it is, by the row.
        evidence: The row's texts by which it fits: lines that have them may quote a user.
    """

    meaning: str
    evidence: tuple[str, ...]


class Outcome(StrEnum):
    """Results of steps. ``not needed``: its guard does not hold; ``left out``: the operator chose another step."""

    DONE = "done"
    NOT_NEEDED = "not needed"
    LEFT_OUT = "left out"
    NOT_CONFIRMED = "not confirmed"
    DIFFERS = "differs"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class StepResult:
    """The result of one step.

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


def agreed(step: Step, picked: str) -> bool | None:
    """The answer of an operator who agreed to every change beforehand, and picked a step; ``None`` for no answer.

    Args:
        picked: Name of the step with which the run begins; empty for none.
    """
    return True if step.kind is Kind.CHANGE or step.name == picked else None


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
        """The command that continues the run from a step."""
        about = ("--instance", self._user) if self._user else ()
        return Hint(("runbook", "run", self._runbook.name, *about, "--from", step.name), "goes on from there")

    def transcript(self) -> dict[str, object]:
        """The record of a run for the audit: commands and the decisive lines of their output. JSON, without secrets."""
        return {
            "runbook": self._runbook.name,
            "diagnosis": None
            if self.diagnosis is None
            else [
                {
                    "meaning": one_line(diagnosis.meaning, longest=_NOTED),
                    "evidence": [one_line(text, longest=_NOTED) for text in diagnosis.evidence],
                }
                for diagnosis in self.diagnosis
            ],
            "steps": [
                {
                    "step": result.step.name,
                    "command": [one_line(word, longest=_NOTED) for word in result.step.command],
                    "outcome": result.outcome.value,
                    "exit_code": result.exit_code,
                    "detail": one_line(result.detail, longest=_NOTED),
                }
                for result in self.results
            ],
        }

    def _diagnose(self) -> None:
        """Report the rows of the table that fit the outputs so far."""
        if not self._read or not self._runbook.cases:
            return
        outputs = {name: ended.output for name, ended in self._read.items()}
        fitting = ((case.meaning, case.evidence(outputs)) for case in self._runbook.cases)
        self.diagnosis = tuple(Diagnosis(meaning, texts) for meaning, texts in fitting if texts)
        for diagnosis in self.diagnosis:
            evidence = " and ".join(map(quoted, diagnosis.evidence))
            self._report(Hint(f"diagnosis: {diagnosis.meaning}; evidence: {evidence}"))
        if not self.diagnosis:
            show = ("runbook", "show", self._runbook.name)
            self._report(Hint("diagnosis: the outputs alone match no row;", show, "shows the rows to check by hand"))

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
        """Run a step's command until its output is as expected or its time is over; output and difference."""
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
        """The first guard of a step that does not hold; empty when all hold. After a change, guards are read again."""
        for guard in step.guards:
            if not holds(guard, self._reading(step, guard)):
                return f"{guard.step} {'does not show' if guard.is_shown else 'shows'} {quoted(guard.text)}"
        return ""

    def _reading(self, step: Step, guard: Guard) -> Ended:
        if guard.step not in self._read:
            source = next(reading for reading in self._runbook.steps if reading.name == guard.step)
            self._report(Hint(f"{step.name}: checking whether it is needed"))
            self._report(Hint(f"{source.name}:", source.command))
            ended = self._command(source)
            self._show_end(source, ended)
            failure = _failure(source, ended)
            if failure or ended.is_cut:
                problem = f"{guard.step}, which it depends on: {failure or 'its output is too long to compare'}"
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
            self._report(Hint(f"{step.name}: skipped, not selected;", step.command))
            self.results.append(StepResult(step, Outcome.LEFT_OUT))
            return False
        self.results.append(StepResult(step, Outcome.NOT_CONFIRMED))
        changed = [
            result.step.name
            for result in self.results
            if result.step.kind is not Kind.READ and result.exit_code is not None
        ]
        kind = PartlyDoneError if changed else RefusedError
        spared = f"done before: {', '.join(changed)}" if changed else "nothing was changed"
        confirms = "confirms it" if step.kind is Kind.CHANGE else "confirms it, with this step picked"
        hint = Hint(self.next_hint(step), ",", Parameter("yes"), confirms)
        raise kind(f"step {step.name} was not confirmed: {spared}", hint=hint)

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
        """Show the last lines of a reading step's output; the output of a change is shown while it runs."""
        if step.kind is not Kind.READ:
            return
        lines = ended.output.splitlines(keepends=True)
        if left := len(lines[:-SHOWN_LINES]):
            self._report(Hint(f"{step.name}: {left} earlier lines are omitted;", step.command, "prints all"))
        self._show(without_armour("".join(lines[-SHOWN_LINES:])))

    def _halted(self, step: Step, problem: str) -> HermesError:
        undo = Hint("; undo:", step.undo) if step.undo else Hint()
        show = Hint(("runbook", "show", self._runbook.name), "shows other causes;")
        return HaltedError(f"step {step.name}: {problem}", hint=Hint(show, self.next_hint(step), undo))


def without_armour(output: str) -> str:
    """Remove the PEM text of certificates and requests from an output; their headers stay."""
    return _ARMOUR.sub(r"(\1)", output)


def holds(guard: Guard, ended: Ended) -> bool:
    """Whether the output of a reading step satisfies a guard."""
    return bool(shows(ended.output, guard.text)) == guard.is_shown


def problem_of(step: Step, ended: Ended) -> str:
    """The difference between a step's output and the runbook's expectation; empty when they agree."""
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
    """The problem of a time in a step's output that is not newer than the last change; empty for none.

    A time of ``-`` means that nothing records it, as heartbeats without monitoring: waiting for it is useless.
    """
    for name in step.newer:
        shown = _time_of(name, ended)
        if shown == _NEVER:
            continue
        try:
            at = datetime.fromisoformat(shown)
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
    """The failure of a command with the command's own error; empty when its exit code is allowed."""
    if ended.exit_code in {0, *step.exit_codes}:
        return ""
    errors = [line.removeprefix("error: ") for line in ended.output.splitlines() if line.startswith("error: ")]
    why = f": {one_line(errors[-1])}" if errors else ""
    return f"it ended with exit code {ended.exit_code}{why}"

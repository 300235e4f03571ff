"""A drill: a fault is brought about on a machine that no user has, its runbook is run, and the fault has to be gone."""

from collections.abc import Callable
from dataclasses import dataclass

from hermesops.errors import HaltedError, Hint
from hermesops.observability.runbook.document import Kind, Runbook, Step
from hermesops.observability.runbook.fault import Action, Fault, Sign
from hermesops.observability.runbook.matching import shows
from hermesops.observability.runbook.run import Execute, Outcome, RunbookRun, unseen

SHOWN_S = 120.0
"""Seconds within which a fault has to show, once it was brought about."""

_EVERY_S = 1.0


@dataclass(frozen=True)
class World:
    """Effects of a drill on its surroundings.

    Attributes:
        execute: Runs a command of hermesops; what one prints that changes something is shown.
        watch: The same without showing it.
        inject: Carries out an action on the machine.
        clock: Seconds, of any beginning.
        pause: Waits for so many seconds.
        report: Told what is done next.
        show: Takes what a step that reads printed.
    """

    execute: Execute
    watch: Execute
    inject: Callable[[Action], None]
    clock: Callable[[], float]
    pause: Callable[[float], None]
    report: Callable[[Hint], None]
    show: Callable[[str], None] = unseen


@dataclass(frozen=True)
class Drilled:
    """The result of a drill.

    Attributes:
        shown_s: Seconds from the fault until it showed.
        ended_s: Seconds from the runbook's first step to its last one, which found all well.
        changes: The steps that changed something.
    """

    shown_s: float
    ended_s: float
    changes: tuple[str, ...]


def run(fault: Fault, runbook: Runbook, user: str, world: World) -> Drilled:
    """Bring a fault about, see that it shows, run its runbook to its end.

    Args:
        fault: One of one machine, with its values filled in, as those of ``runbook``.
        user: Whom the machine stands for.

    Raises:
        HaltedError: The fault does not show, or shows beforehand, or a step differs from what the runbook expects.
        HermesError: It could not be brought about.
    """
    if fault.sign is None:
        raise ValueError(f"{fault.name} is about more than one machine")
    for command in fault.prepare:
        world.report(Hint(command.words))
        if code := world.execute(command.words).exit_code:
            raise HaltedError(f"no fault was injected: {' '.join(command.words)} ended with exit code {code}")
    if _is_shown(fault.sign, world):
        raise HaltedError(
            f"no fault was injected: {fault.name} is visible already", hint=Hint(fault.sign.words, "shows it")
        )
    world.report(Hint(f"fault {fault.name}: {fault.meaning}"))
    began = world.clock()
    for action in fault.inject:
        world.inject(action)
    while not _is_shown(fault.sign, world):
        if world.clock() - began > SHOWN_S:
            problem = f"{fault.name} is not visible after {SHOWN_S:.0f} s"
            raise HaltedError(problem, hint=Hint(fault.sign.words, f"should print “{fault.sign.text}”"))
        world.pause(_EVERY_S)
    shown_s = world.clock() - began
    world.report(Hint(f"it shows after {shown_s:.0f} s:", fault.sign.words, f"prints “{fault.sign.text}”"))

    def confirm(step: Step) -> bool:
        return step.kind is not Kind.DECIDE or step.name == fault.picked

    began = world.clock()
    execution = RunbookRun(runbook, user, execute=world.execute, ask=confirm, report=world.report, show=world.show)
    execution.run(fault.picked)
    changes = [
        result.step.name
        for result in execution.results
        if result.step.kind is not Kind.READ and result.outcome is Outcome.DONE
    ]
    return Drilled(shown_s, world.clock() - began, tuple(changes))


def _is_shown(sign: Sign, world: World) -> bool:
    ended = world.watch(sign.words)
    is_there = bool(shows(ended.output, sign.text))
    # A command that failed printed nothing, which proves nothing about what is absent.
    return not ended.exit_code and not is_there if sign.is_absent else is_there

"""``hermesops runbook``: lists, shows and runs ``runbooks/*.md``."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.base.narration import counted
from hermesops.cli import context
from hermesops.cli.console import (
    Yes,
    advice,
    complain,
    confirm,
    require_typed_environment,
    result,
    say,
    table,
)
from hermesops.cli.groups.noun import Noun
from hermesops.cli.options.runbook import execute, folder
from hermesops.cli.options.runbook import show as show_output
from hermesops.errors import HermesError, Hint
from hermesops.views.observability import runbooks as shapes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hermesops.app import Container
    from hermesops.model.fleet.instance import Instance
    from hermesops.observability.runbook.document import Runbook, Step
    from hermesops.observability.runbook.run import RunbookRun

app = Noun(no_args_is_help=True)


def _begins(incomplete: str) -> list[str]:
    from hermesops.observability.runbook.document import names

    return [name for name in names(folder()) if name.startswith(incomplete)]


Name = Annotated[str, typer.Argument(help="Of runbook list, or of an alert.", autocompletion=_begins)]


@app.command("list")
def list_() -> None:
    """List runbooks, with the alerts that lead to each; one without steps is to be followed by hand."""
    from hermesops.observability.runbook.document import load, names

    runbooks = (load(folder(), name) for name in names(folder()))
    rows = [shapes.listed(runbook) for runbook in runbooks]
    table("runbook-list", "runbooks", ("runbook", "steps", "alerts", "title"), rows, "no runbooks")


@app.command()
def show(name: Name) -> None:
    """Show a runbook: its symptoms, diagnosis and steps."""
    from hermesops.observability.runbook.document import load

    runbook = load(folder(), name)
    result("runbook", shapes.runbook(runbook), runbook.text.splitlines())


@app.command()
def run(
    name: Name,
    user: Annotated[str, typer.Option("--instance", metavar="USER", help="Whose: user id, alias or instance id.")] = "",
    begin: Annotated[
        str,
        typer.Option("--from", metavar="STEP", help="Begin with this step; with --yes this also picks it."),
    ] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the steps, with what they are about.")] = False,
    yes: Yes = False,
) -> int:
    """Run a runbook's steps and compare their output with the expected one; stop at the first difference.

    Steps that only read run at once. One that changes something asks; without a terminal the answer is no. Where the
    runbook has several ways, you pick one, which --yes alone does not. The rows of its table that fit what was printed
    are told before anything is changed. A transcript goes into the audit.
    """
    from hermesops.observability.runbook.document import load
    from hermesops.observability.runbook.run import RunbookRun

    runbook = load(folder(), name)
    first = runbook.begin_at(begin)
    container = context.compose()
    instance = container.instances.find(user) if user else None
    runbook = container.runbook_records.filled(runbook, instance)
    if dry_run:
        lines = [line for step in runbook.steps[first:] for line in _lines(step)]
        remarks = _remarks(shapes.unfilled(runbook))
        result("runbook-steps", shapes.dry_run(runbook, user, first), [*lines, *_left(runbook), *remarks])
        return 0
    runbook_run = RunbookRun(
        runbook,
        user,
        execute=lambda words: execute(container, words),
        ask=lambda step: _ask(step, yes=yes, picked=begin),
        report=lambda hint: say(advice(hint)),
        show=show_output,
    )
    try:
        runbook_run.run(begin)
    except HermesError as error:
        return _finish(container, runbook_run, runbook, instance, error)
    except KeyboardInterrupt:
        say(advice(runbook_run.next_hint(runbook_run.results[-1].step)))
        _note(container, runbook_run, runbook, instance)
        raise
    return _finish(container, runbook_run, runbook, instance, None)


def _finish(
    container: "Container",
    runbook_run: "RunbookRun",
    runbook: "Runbook",
    instance: "Instance | None",
    failure: HermesError | None,
) -> int:
    _note(container, runbook_run, runbook, instance)
    done = [step_result.step.kind.value for step_result in runbook_run.results if step_result.outcome.value == "done"]
    changes = len(done) - done.count("read")
    steps = f"{counted(len(done), 'step')} done, {counted(changes, 'change')}"
    words = f"runbook {runbook.name}: {steps}, each with the expected result"
    result("runbook-run", shapes.run(runbook_run, instance, failure), [] if failure else [words])
    if failure is None:
        if runbook.alerts:
            say(advice(Hint("its alert ends by itself, some minutes after its cause:", ("alert", "list"))))
        return 0
    for line in _left(runbook):
        say(line)
    complain(failure)
    return failure.exit_code


def _note(container: "Container", runbook_run: "RunbookRun", runbook: "Runbook", instance: "Instance | None") -> None:
    """Write the transcript into the audit; a failure is reported and ignored, as the registry may be broken."""
    try:
        container.runbook_records.keep(runbook, instance, runbook_run.transcript())
    except HermesError as error:
        say(f"the audit has no transcript of this run: {error.message}")


def _ask(step: "Step", *, yes: bool, picked: str) -> bool | None:
    """Whether a step may run; ``None`` where nobody is there to answer."""
    from hermesops.observability.runbook.document import Kind
    from hermesops.observability.runbook.run import agreed

    spared = f"step {step.name} did not run"
    if yes and agreed(step, picked):
        require_typed_environment(spared=spared)
        return True
    if not sys.stdin.isatty():
        return None
    what = "This changes something" if step.kind is Kind.CHANGE else "This is one of several ways"
    question = advice(f"{what}:", step.command, "; undo:", step.undo)
    if not confirm(f"{question}.", expect="yes"):
        return False
    require_typed_environment(spared=spared)
    return True


def _remarks(unfilled: "Mapping[str, str]") -> "Iterator[str]":
    for name, why in unfilled.items():
        yield f"{name}: {why}"


def _left(runbook: "Runbook") -> "Iterator[str]":
    """Commands that a run leaves to a person."""
    if runbook.by_hand:
        yield f"left to you, where it is needed ({advice(Hint(('runbook', 'show', runbook.name)))} says when):"
        yield from (f"  $ {line}" for line in runbook.by_hand)


def _lines(step: "Step") -> "Iterator[str]":
    yield f"{step.name} ({step.kind})"
    yield f"  {advice('$', step.command)}"
    yield from (f"  {guard}" for guard in step.guards)
    yield from (f"  expects {text}" for text in step.expected)
    yield from (f"  must not show {text}" for text in step.absent)
    yield from (f"  expects a {name} that is newer than the last change" for name in step.newer)
    if step.is_optional:
        yield "  optional: runs only when picked"
    if step.undo:
        yield f"  {advice('undo:', step.undo)}"

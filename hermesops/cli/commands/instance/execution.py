"""``hermesops instance exec``: run a command on one machine, or on many at once."""

import math
import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.base.narration import counted
from hermesops.cli import context
from hermesops.cli.console import Reason, Yes, agree, is_json, result, say, table, write, write_bytes
from hermesops.cli.options.instances import All, Where, choose_instances
from hermesops.cli.views.instance import execution
from hermesops.errors import Hint, UsageError, require_reason
from hermesops.views.agents import executions as shapes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermesops.agents.instances.remote.several import Outcome
    from hermesops.app import Container
    from hermesops.model.fleet.instance import Instance
    from hermesops.vendor.channel import Completed


def exec_(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="USER[,USER]... COMMAND...",
            help="Whose machines, then command and arguments after --; with --where or --all only the command.",
        ),
    ],
    reason: Reason = "",
    where: Where = "",
    everything: All = False,
    as_user: Annotated[str, typer.Option("--user", help="Run as this user of the machine.")] = "root",
    timeout: Annotated[float, typer.Option(help="Seconds until it is ended.")] = 60,
    yes: Yes = False,
) -> int:
    """Run a command on a user's machine, and exit with its exit code.

    On several machines, 32 at once, and one that hangs delays no other: each line of output begins with its user, what
    exceeds 200 lines or 64 KiB of one is left out, a table with all exit codes follows, and the greatest one becomes
    ours. --where and --all ask before they run it.
    """
    if not 0 < timeout < math.inf:
        raise UsageError(f"--timeout {timeout}: a number of seconds above 0")
    container = context.compose()
    is_chosen = bool(where) or everything
    users, command = ([], words) if is_chosen else (words[0].split(","), words[1:])
    if not command:
        raise UsageError("missing COMMAND", hint=Hint(("instance", "exec", "USER", "COMMAND", "--reason", "WHY")))
    line = command[0] if len(command) == 1 else shlex.join(command)
    instances = choose_instances(container, users, where, everything=everything, only_running=True)
    if len(users) == 1:
        return _one(container, instances[0], line, as_user, timeout, reason)
    chosen = ("--where", where) if where else ("--all",) if everything else words[:1]
    require_reason(reason, "instance", "exec", *chosen, "COMMAND")
    if is_chosen:
        machines = counted(len(instances), "machine")
        question = f"This runs {line!r} as {as_user} on {machines} of environment {container.env.name}."
        agree(question, expect=container.env.name, spared="nothing was run", yes=yes)
    return _several(container, instances, line, as_user, timeout, reason)


def _one(container: "Container", instance: "Instance", line: str, as_user: str, timeout: float, reason: str) -> int:
    done = context.run_connected(
        container,
        lambda connected: connected.operator_access.run(instance, line, user=as_user, timeout_s=timeout, reason=reason),
    )
    if is_json():
        result("exec", shapes.completed(done))
    else:
        write_bytes(done.stdout)
        write_bytes(done.stderr, to_stderr=True)
    return done.exit_code


def _several(
    container: "Container",
    instances: "Sequence[Instance]",
    line: str,
    as_user: str,
    timeout: float,
    reason: str,
) -> int:
    from hermesops.agents.instances.remote.several import on_each

    def ended(outcome: "Outcome[Completed]") -> None:
        for text in () if is_json() else execution.lines(outcome):
            write(f"{text}\n")

    outcomes = context.run_connected(
        container,
        lambda connected: on_each(
            instances,
            lambda instance: connected.operator_access.run(
                instance, line, user=as_user, timeout_s=timeout, reason=reason
            ),
            within_s=timeout,
            ended=ended,
        ),
    )
    if is_json():
        result("exec-several", {"command": line, "instances": [shapes.execution(outcome) for outcome in outcomes]})
    else:
        write("\n")
        table("exec-several", "instances", execution.COLUMNS, [execution.row(outcome) for outcome in outcomes], "")
    codes = [outcome.result.exit_code for outcome in outcomes]
    say(f"{codes.count(0)} of {len(codes)} ended with 0")
    return max(codes)

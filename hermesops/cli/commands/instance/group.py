"""``hermesops instance``: list and show agents, talk to one, reach its machine, verify it, export its data."""

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.base import typed_values as values
from hermesops.cli import context
from hermesops.cli.commands.instance import execution, lifecycle, model_provider, overview, settings, verification
from hermesops.cli.commands.instance.break_glass import break_glass
from hermesops.cli.console import Reason, Why, is_json, result, say, table, write, write_bytes
from hermesops.cli.groups.noun import Noun
from hermesops.cli.options.instance import DryRun, NoWait, User, Wait, change_instance, find_instance
from hermesops.errors import Hint, RefusedError, UsageError
from hermesops.views.agents import drift as drift_shapes
from hermesops.views.agents import instances as instance_shapes
from hermesops.wire.foreign_text import one_line

if TYPE_CHECKING:
    from hermesops.app import Container
    from hermesops.app.connected import Connected
    from hermesops.model.fleet.instance import Instance
    from hermesops.observability.telemetry.logs.instance_logs import LogQuestion, LogSource

_GATEWAY = "hermes-gateway.service"

_EXIT = re.compile(r"exit(?:\s+(\d{1,3}))?")
"""A line that leaves the shell, with the exit code that it names."""

app = Noun(no_args_is_help=True)
app.command()(settings.settings)
app.command()(settings.policy)
app.command("model-provider")(model_provider.model_provider)
app.command("model-providers", lists=True)(model_provider.model_providers)


app.command(lists=True)(verification.verify)


@app.command()
def export(
    user: User,
    to: Annotated[
        Path | None,
        typer.Option("--to", metavar="FILE", help="Write it here, readable by you alone.", dir_okay=False),
    ] = None,
    reason: Reason = "",
) -> None:
    """Export a user's state as lines of JSON: sessions, conversations, skills, memory, cron, pairings.

    The last line counts the others; what arrived is compared with it. With --to the file appears once it is whole.
    """
    if is_json() and to is None:
        raise UsageError("--json goes with --to FILE; without it standard output is lines of JSON already")
    container, instance = find_instance(user)

    def export_to(write: Callable[[bytes], object]) -> dict[str, int]:
        return context.run_connected(
            container, lambda connected: connected.operator_access.export(instance, write, reason=reason)
        )

    if to is None:
        counts = export_to(write_bytes)
        sys.stdout.flush()
    else:
        with _whole_or_not_at_all(to) as write:
            counts = export_to(write)
    say(", ".join(f"{count} {table}" for table, count in counts.items()))
    if to is not None:
        result("export", instance_shapes.export(user, to, counts), [f"wrote {to}"])


for _verb in (
    lifecycle.suspend,
    lifecycle.resume,
    lifecycle.reboot,
    lifecycle.resize,
    lifecycle.move,
    lifecycle.terminate,
):
    app.command()(_verb)


app.command("list")(overview.list_)
app.command()(overview.show)


@app.command(lists=True)
def timeline(
    user: User,
    since: Annotated[
        str, typer.Option(help="An age (90m, 12h, 7d) or a time in ISO 8601 (UTC by default); all without it.")
    ] = "",
) -> None:
    """List the history of one instance, the newest last: audit, steps of operations, rollouts, restarts, alerts.

    Messages of its user in messengers are counted by the hour. From the registry, and where there is monitoring, also
    from that: alerts, and restarts of the gateway, of the last 7 days without --since. Without it, restarts are known
    from health samples, which rollouts and `fleet status --ask` record and which are kept for 7 days.
    """
    begin = values.since(since) if since else None
    container, instance = find_instance(user)
    past = context.run(container.timelines.of(instance, begin))
    rows = drift_shapes.changes(past.happenings)
    columns = ("at", "who", "what", "detail")  # its subject is this instance, or an operation or rollout of it
    beside = {"user": instance.title, "problem": past.problem or None}
    table("instance-timeline", "timeline", columns, rows, "nothing happened", beside=beside)
    if past.problem:
        say(f"alerts are not known: {past.problem}")


@app.command()
def chat(
    user: User,
    message: Annotated[str, typer.Argument(help="What to say; without it, standard input.")] = "",
    reason: Reason = "",
    session_id: Annotated[str, typer.Option("--session", help="Go on with this conversation.")] = "",
) -> None:
    """Send a message to a user's agent through the proxy and stream its answer."""
    container = context.compose()
    prompt = message or sys.stdin.read().strip()
    if not prompt:
        raise UsageError(
            "missing MESSAGE: an argument, or standard input",
            hint=Hint(("instance", "chat", "USER", "hello", "--reason", "WHY")),
        )
    answer: list[str] = []
    instance = container.instances.find(user)

    async def work(connected: "Connected") -> None:
        pieces = connected.operator_access.chat(instance, prompt, session_id=session_id, reason=reason)
        async for piece in pieces:
            if piece.is_tool:
                say(f"[{one_line(piece.text, longest=80)}]")
                continue
            # The agent puts blank lines between its tools and its words.
            text = piece.text if answer else piece.text.lstrip()
            if text:
                answer.append(text)
                if not is_json():
                    write(text)

    context.run_connected(container, work)
    result("chat", {"user": user, "answer": "".join(answer)}, [""])


@app.command()
def logs(
    user: User,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, max=100_000, help="Lines from the end.")] = 80,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as new lines come.")] = False,
    since: Annotated[
        str, typer.Option(help="Only from then on: an age (90m, 12h) or a time in ISO 8601 (UTC by default).")
    ] = "",
    grep: Annotated[str, typer.Option(metavar="REGEX", help="Only lines in which this is found.")] = "",
    unit: Annotated[str, typer.Option(help="Of this unit of systemd; all for every one.")] = _GATEWAY,
    source: Annotated[
        str,
        typer.Option("--from", help="Ask this first: machine, monitoring.", show_default="monitoring with --since …"),
    ] = "",
) -> None:
    """Show the gateway's log, the newest last; the instance's own keys are masked.

    The machine has all of it. With --since, --grep or --unit the platform's monitoring is asked first, which answers
    for a dead machine too, and has of a gateway's lines only level and category. Each stands in for the other where
    that does not answer or has nothing, and it says which it was.
    --follow reads on the machine, or in monitoring by --from, until Ctrl-C, and connects again where the connection
    breaks; as JSON it prints one object a line.
    """
    from hermesops.observability.telemetry.logs.instance_logs import LogQuestion, LogSource

    begin = values.since(since) if since else None
    question = LogQuestion(lines, unit, begin, grep)
    is_search = bool(since or grep or unit != _GATEWAY)
    usual = LogSource.MONITORING if is_search else LogSource.MACHINE
    first = values.one_of(LogSource, source, "--from") if source else usual
    container = context.compose()
    instance = container.instances.find(user)
    if follow:
        _follow(container, instance, question, first if source else LogSource.MACHINE)
        return

    excerpt = context.run_connected(
        container, lambda connected: connected.instance_logs.read(instance, question, first=first)
    )
    result("logs", instance_shapes.log_excerpt(user, excerpt), excerpt.lines, verbatim=True)
    if excerpt.note or is_search:
        where = "the machine" if excerpt.source is LogSource.MACHINE else "the platform's monitoring"
        say(f"from {where}" + (f": {excerpt.note}" if excerpt.note else ""))


def _follow(container: "Container", instance: "Instance", question: "LogQuestion", source: "LogSource") -> None:
    from hermesops.cli.printing.followed import show_lines, until_interrupted

    async def work(connected: "Connected") -> None:
        lines = connected.instance_logs.follow(instance, question, source=source, report=say)
        await show_lines(lines, "log-line", user=instance.title, source=source.value)

    until_interrupted(lambda: context.run_connected(container, work))


app.command("exec")(execution.exec_)


@app.command()
def shell(user: User, reason: Reason = "") -> int:
    """A line-by-line shell on a user's machine (the toolbox has no terminal): cd works, full-screen programs do not."""
    container, instance = find_instance(user)

    async def work(connected: "Connected") -> int:
        remote = await connected.operator_access.shell(instance, reason=reason)
        while True:
            write(f"{user}:{remote.folder}# " if sys.stdin.isatty() else "")
            line = sys.stdin.readline()
            leaves = _EXIT.fullmatch(line.strip())
            if not line or leaves:
                return int(leaves[1]) & 0xFF if leaves and leaves[1] else remote.last_exit_code
            done = await remote.run(line)
            write_bytes(done.stdout)
            write_bytes(done.stderr, to_stderr=True)

    return context.run_connected(container, work)


@app.command()
def restart(user: User, reason: Why = "", dry_run: DryRun = False, no_wait: NoWait = False, wait: Wait = "") -> None:
    """Restart a user's gateway and wait until it is healthy again."""
    change_instance(
        "restart",
        user,
        lambda s: s.instance_requests.restart(user, reason=reason),
        no_wait=no_wait,
        wait=wait,
        dry_run=dry_run,
    )


app.command("break-glass")(break_glass)


@contextmanager
def _whole_or_not_at_all(file: Path) -> Iterator[Callable[[bytes], object]]:
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with suppress(FileNotFoundError):
            beside.unlink()
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise RefusedError(f"{file} cannot be written: {error.strerror}") from None
    try:
        with os.fdopen(descriptor, "wb") as target:
            yield target.write
            target.flush()
            os.fsync(target.fileno())
        beside.replace(file)
    except OSError as error:
        raise RefusedError(f"{file} cannot be written: {error.strerror}") from None
    finally:
        beside.unlink(missing_ok=True)

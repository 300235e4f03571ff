"""``hermesops instance``: look at one user's agent, talk to it, repair it, end it."""

import math
import shlex
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.cli import context
from hermesops.cli.command_group import Noun
from hermesops.cli.commands.instance import export, lifecycle, policy, settings, verify
from hermesops.cli.console import Reason, is_json, result, say, table, write, write_bytes
from hermesops.cli.options.no_wait import NoWait, run_or_leave
from hermesops.cli.views import shapes
from hermesops.errors import UsageError
from hermesops.node.untrusted.foreign_text import one_line

if TYPE_CHECKING:
    from hermesops.channel import Completed
    from hermesops.model.instance import InstanceStatus
    from hermesops.model.plan import Plan

app = Noun(no_args_is_help=True)
app.command("settings")(settings.settings)
app.command()(policy.policy)
app.command()(verify.verify)
app.command()(export.export)
app.command()(lifecycle.suspend)
app.command()(lifecycle.resume)
app.command()(lifecycle.resize)
app.command()(lifecycle.move)
app.command()(lifecycle.terminate)

User = Annotated[str, typer.Argument(help="User id, alias or instance id.")]


@app.command("list")
def list_(
    status: Annotated[str, typer.Option(help="Only of this status.")] = "",
    plan: Annotated[str, typer.Option(help="Only of this plan.")] = "",
    cell: Annotated[str, typer.Option(help="Only of this cell.")] = "",
    everything: Annotated[bool, typer.Option("--all", help="Terminated ones as well.")] = False,
) -> None:
    """List instances."""
    from hermesops.model.cell import parse_cell

    registry = context.compose().registry
    rows = registry.instances.list(
        status=_status(status) if status else None,
        plan=_plan(plan) if plan else None,
        cell=registry.cells.get(parse_cell(cell)).name if cell else None,
        terminated=everything,
    )
    table(
        "instance-list",
        "instances",
        ("user", "plan", "status", "cell", "machine_name", "created_at"),
        [shapes.instance(row) for row in rows],
        "no instances; hermesops provision USER --plan light makes one",
    )


@app.command()
def show(user: User) -> None:
    """Show one instance: its row, and what the vendor and the machine say."""
    composed = context.compose()

    async def work() -> dict[str, object]:
        instance = composed.registry.instances.find(user)
        async with composed.session() as session:
            return shapes.observation(await session.instance_client.observe(instance.id))

    data = context.run(work())
    result("instance", {"instance": data}, shapes.fields(data))


@app.command()
def chat(
    user: User,
    message: Annotated[str, typer.Argument(help="What to say; without it, standard input.")] = "",
    reason: Reason = "",
    session_id: Annotated[str, typer.Option("--session", help="Go on with this conversation.")] = "",
) -> None:
    """Say something to a user's agent through the proxy and stream its answer."""
    composed = context.compose()
    said = message or sys.stdin.read().strip()
    if not said:
        raise UsageError("nothing to say", hint='hermesops instance chat USER "hello" --reason …')
    answer: list[str] = []

    async def work() -> None:
        instance = composed.registry.instances.find(user)
        async with composed.session() as session:
            session.audited_access.enter(instance, how="chat", reason=reason)
            async for piece in session.instance_client.chat(instance, said, session_id=session_id):
                if piece.is_tool:
                    say(f"[{one_line(piece.text, longest=80)}]")
                    continue
                # The agent puts blank lines between its tools and its words.
                text = piece.text if answer else piece.text.lstrip()
                if text:
                    answer.append(text)
                    if not is_json():
                        write(text)

    context.run(work())
    result("chat", {"user": user, "answer": "".join(answer)}, [""])


@app.command()
def logs(
    user: User,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, max=100_000, help="Lines from the end.")] = 80,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as new lines come.")] = False,
) -> None:
    """Show the gateway's log; the instance's own keys are masked."""
    composed = context.compose()
    kept: list[str] = []

    async def work() -> None:
        instance = composed.registry.instances.find(user)
        async with composed.session() as session:
            async for line in session.instance_client.log(instance, lines=lines, follow=follow):
                if is_json():
                    kept.append(line)
                else:
                    write(line + "\n")

    context.run(work())
    if is_json():
        result("logs", {"user": user, "lines": kept})


@app.command("exec")
def exec_(
    user: User,
    command: Annotated[list[str], typer.Argument(help="Command and arguments; after --.")],
    reason: Reason = "",
    as_user: Annotated[str, typer.Option("--user", help="Run as this user of the machine.")] = "root",
    timeout: Annotated[float, typer.Option(help="Seconds until it is ended.")] = 60,
) -> int:
    """Run a command on a user's machine; its exit code becomes ours."""
    if not 0 < timeout < math.inf:
        raise UsageError(f"--timeout {timeout}: a number of seconds above 0")
    composed = context.compose()
    line = command[0] if len(command) == 1 else shlex.join(command)

    async def work() -> "Completed":
        instance = composed.registry.instances.find(user)
        async with composed.session() as session:
            session.audited_access.enter(instance, how="exec", reason=reason)
            channel = await session.instance_client.channel_to(instance)
            return await channel.run(line, user=as_user, timeout_s=timeout, binary=True)

    done = context.run(work())
    if is_json():
        result(
            "exec",
            {
                "exit_code": done.exit_code,
                "stdout": done.stdout.decode(errors="replace"),
                "stderr": done.stderr.decode(errors="replace"),
            },
        )
    else:
        write_bytes(done.stdout)
        write_bytes(done.stderr, to_stderr=True)
    return done.exit_code


@app.command()
def shell(user: User, reason: Reason = "") -> int:
    """A line-by-line shell on a user's machine (the toolbox has no terminal): cd works, full-screen programs do not."""
    composed = context.compose()

    async def work() -> int:
        from hermesops.channel.shell import Shell

        instance = composed.registry.instances.find(user)
        async with composed.session() as session:
            session.audited_access.enter(instance, how="shell", reason=reason)
            remote = Shell(await session.instance_client.channel_to(instance))
            while True:
                write(f"{user}:{remote.folder}# " if sys.stdin.isatty() else "")
                line = sys.stdin.readline()
                if not line or line.strip() == "exit":
                    return remote.last_exit_code
                done = await remote.run(line)
                write_bytes(done.stdout)
                write_bytes(done.stderr, to_stderr=True)

    return context.run(work())


@app.command()
def restart(user: User, no_wait: NoWait = False) -> None:
    """Restart a user's gateway and wait until it is healthy again."""
    composed = context.compose()
    composed.registry.instances.find(user)

    async def work() -> str:
        async with composed.session() as session:
            operation = await session.instance_requests.restart(user)
            return await run_or_leave(session.operations, operation, no_wait=no_wait)

    outcome = context.run(work())
    result("restart", {"user": user, "outcome": outcome}, [outcome])


def _plan(text: str) -> "Plan":
    from hermesops.instances.requests.provision import parse_plan

    return parse_plan(text)


def _status(text: str) -> "InstanceStatus":
    from hermesops.model.instance import InstanceStatus

    try:
        return InstanceStatus(text)
    except ValueError:
        raise UsageError(f"unknown status {text!r}: statuses are {', '.join(InstanceStatus)}") from None

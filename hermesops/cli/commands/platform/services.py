"""``hermesops platform show|logs|open|restart``: the platform's services."""

from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.cli import context
from hermesops.cli.console import Why, Yes, agree, is_json, result, say, table
from hermesops.cli.printing.followed import show_lines, until_interrupted
from hermesops.cli.views import platform as view
from hermesops.errors import UsageError
from hermesops.views import platform as shapes

if TYPE_CHECKING:
    from hermesops.app import Container
    from hermesops.app.platform import PlatformParts
    from hermesops.platform.services import ServiceLog
    from hermesops.platform.state import ServiceState

Service = Annotated[str, typer.Argument(metavar="[SERVICE]", help="As in platform show.", show_default=False)]


def show() -> None:
    """Show the platform's services with address and health, users' links, and the age of the database's newest backup.

    Of a local world that has its monitoring alone, it shows the services of that.
    """
    from hermesops.platform.connection.settings import is_connected

    container = context.compose()
    if container.env.is_local:
        outputs, links, host = context.run_platform(container, lambda parts: parts.overview())
    else:
        (outputs, links), host = context.run(container.aws_platform_stack.addresses()), None
    connected = is_connected(container.env)
    shown = shapes.show(outputs, links, host, connected=connected)
    lines = view.lines(outputs, links, host, connected=connected)
    if is_json() or host is None:
        result("platform-show", shown, lines)
        return
    columns = ("service", "state", "healthy", "restarts")
    rows = shapes.services([service for service in host.services if not service.is_passing or not service.is_healthy])
    table("platform-show", "services", columns, rows, "no services")
    result("platform-show", shown, lines)


def logs(
    service: Service = "",
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, max=1000, help="Lines of each, from the end.")] = 40,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as new lines of SERVICE come.")] = False,
) -> None:
    """Show the newest lines of a service's log; without SERVICE, of each service that is down.

    --follow goes on until Ctrl-C, and connects again where the connection breaks; as JSON it prints one object a line.
    """
    from hermesops.platform.services import unread

    container = _with_host("journalctl shows its log")
    if follow:

        async def followed(parts: "PlatformParts") -> None:
            await show_lines((await parts.services()).follow(service, lines, say), "platform-log-line", service=service)

        until_interrupted(lambda: context.run_platform(container, followed))
        return

    async def work(parts: "PlatformParts") -> "list[ServiceLog]":
        return await (await parts.services()).logs(service, lines)

    service_logs = context.run_platform(container, work)
    result(
        "platform-logs",
        {"services": shapes.logs(service_logs)},
        view.log_lines(service_logs) or [view.NONE_DOWN],
        verbatim=True,
    )
    if problem := unread(service_logs):
        raise problem


def open_(
    service: Annotated[str, typer.Argument(help="grafana.")] = "grafana",
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open it in this computer's browser.")] = True,
) -> None:
    """Open Grafana of the platform in a browser, until Ctrl-C.

    A proxy on a random port of 127.0.0.1 presents a certificate of yours to the platform. Its address has a token that
    counts once, for one browser; it passes on what is read, and no other service.
    """
    import webbrowser

    from hermesops.cli.listener import listen, serve_until_signal
    from hermesops.observability.browser import LOOPBACK, BrowserGate, BrowserProxy, require_service

    prefix = {"grafana": "/grafana/"}.get(service)
    if prefix is None:
        raise UsageError(f"{service!r} has no page for a browser; grafana has")
    container = context.compose()
    endpoint = container.monitoring.require_endpoint()

    async def work() -> None:
        await require_service(endpoint.url, endpoint.context(), prefix)
        listener = listen(f"{LOOPBACK}:0", "platform", "open")
        gate = BrowserGate(f"{LOOPBACK}:{listener.getsockname()[1]}", prefix)
        result("platform-open", {"url": gate.url}, [gate.url])
        if browser and not is_json():
            webbrowser.open(gate.url)
        await serve_until_signal(listener, BrowserProxy(endpoint.url, endpoint.context, gate).serve(listener), service)

    context.run(work())


def restart(reason: Why, service: Service = "", yes: Yes = False) -> None:
    """Restart a service of the platform, and verify that it stays up; without SERVICE, each that is down.

    Agents go on meanwhile, except that nobody's turn is answered while router or postgresql start.
    """
    container = _with_host("systemctl restarts it")
    agree(
        f"This restarts {service or 'every service that is down'} of environment {container.env.name}'s platform.",
        expect=container.env.name,
        spared="nothing was restarted",
        yes=yes,
    )

    async def work(parts: "PlatformParts") -> "list[ServiceState]":
        return await (await parts.services()).restart(service, reason)

    done = context.run_platform(container, work)
    lines = [f"{service.name} is {service.state}" for service in done] or [view.NONE_DOWN]
    result("platform-restart", {"services": shapes.services(done)}, lines)


def _with_host(by_hand: str) -> "Container":
    """The environment, whose platform is on a machine of its local world; on AWS an operator does it by hand there."""
    container = context.compose()
    if not container.env.is_local:
        raise UsageError(
            f"the platform's hosts of environment {container.env.name} are on AWS",
            hint=f"Session Manager opens a shell on one (aws ssm start-session), where {by_hand}",
        )
    return container

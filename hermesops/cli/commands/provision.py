"""``hermesops provision``: give one user, or many, a running agent."""

from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.cli import context
from hermesops.cli.console import complain, result, table
from hermesops.cli.options.files import read
from hermesops.cli.options.instance import DryRun, NoWait, Wait, print_preview, run_operation, run_or_leave
from hermesops.errors import Hint, PartlyDoneError, UsageError
from hermesops.views.agents import instances as instance_shapes

if TYPE_CHECKING:
    from hermesops.agents.instances.preview.change_preview import ChangePreview
    from hermesops.agents.instances.requests.bulk import ProvisionResult
    from hermesops.app.connected import Connected
    from hermesops.model.operation import Operation


def provision(
    user: Annotated[str, typer.Argument(help="User id (UUID) or alias.", show_default=False)] = "",
    plan: Annotated[str, typer.Option(help="light or heavy.", show_default=False)] = "",
    region: Annotated[
        str, typer.Option(help="Where its machine is rented; as the settings say by default.", show_default=False)
    ] = "",
    source: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="FILE",
            help="Many: CSV with a first line user,plan,region, or one user a line; - reads stdin.",
            show_default=False,
        ),
    ] = "",
    dry_run: DryRun = False,
    no_wait: NoWait = False,
    wait: Wait = "",
) -> int:
    """Give a user a running agent. To finish an interrupted command, run it again.

    With --from many users at once: every line is judged before anything is begun, --plan and --region count for lines
    that name none. Some that fail end in exit 6; the same command again does the rest.
    """
    example = Hint(("provision", user or "USER", "--plan", "light"), ", or --plan heavy")
    if bool(user) == bool(source):
        raise UsageError("missing USER: name one user, or use --from FILE", hint=example)
    if source and wait:
        raise UsageError("--wait goes with one USER; with --from, the same command again does the rest")
    if source:
        if dry_run:
            return _preview_many(source, plan, region)
        return _many(source, plan, region, no_wait=no_wait)
    if not plan:
        raise UsageError("missing --plan (light or heavy)", hint=example)
    if dry_run:
        _preview(user, plan, region)
    else:
        _one(user, plan, region, no_wait=no_wait, wait=wait)
    return 0


def _one(user: str, plan: str, region: str, *, no_wait: bool, wait: str) -> None:
    from hermesops.agents.instances.requests.provision import parse_plan
    from hermesops.model.fleet.user import parse_user

    bought = parse_plan(plan)
    parse_user(user)
    container = context.compose()

    async def begin(connected: "Connected") -> "Operation":
        return (await connected.admission.admit(user, bought, region=region))[1]

    operation, outcome = run_operation(container, begin, no_wait=no_wait, wait=wait)
    instance = container.instances.find(user)
    result("instance", {"instance": instance_shapes.instance(instance), "operation_id": operation.id}, [outcome])


def _preview(user: str, plan: str, region: str) -> None:
    from hermesops.agents.instances.requests.provision import parse_plan

    bought = parse_plan(plan)

    async def work(connected: "Connected") -> "ChangePreview":
        return await connected.agent_previews.of(user, bought, region=region)

    print_preview(context.run_connected(context.compose(), work))


def _preview_many(source: str, plan: str, region: str) -> int:
    from hermesops.agents.instances.requests.bulk import parse_requests
    from hermesops.cli.views.instance import change_preview

    requests = parse_requests(read(source), plan=plan, region=region)

    async def work(connected: "Connected") -> "list[ChangePreview]":
        await connected.bulk_provision.judge(requests)
        return [
            await connected.agent_previews.of(request.user, request.plan, region=request.region) for request in requests
        ]

    previews = context.run_connected(context.compose(), work)
    rows = [change_preview.row(preview) for preview in previews]
    table("change-preview-list", "previews", change_preview.ROW, rows, "")
    return 0


def _many(source: str, plan: str, region: str, *, no_wait: bool) -> int:
    from hermesops.agents.instances.requests.bulk import parse_requests

    requests = parse_requests(read(source), plan=plan, region=region)
    container = context.compose()

    async def work(connected: "Connected") -> "tuple[ProvisionResult, ...]":
        await connected.bulk_provision.judge(requests)
        return await connected.bulk_provision.run(
            requests, lambda operation: run_or_leave(connected.operations, operation, no_wait=no_wait)
        )

    provision_results = context.run_connected(container, work)
    rows = [
        instance_shapes.provision_result(
            outcome, container.instances.get(outcome.instance.id) if outcome.instance else None
        )
        for outcome in provision_results
    ]
    failures = [outcome.failure.message for outcome in provision_results if outcome.failure]
    columns = ("user", "plan", "status", "cell", "machine_name", "outcome")
    table("provision-list", "arrivals", columns, rows, "", beside={"failed": len(failures)})
    if not failures:
        return 0
    complain(
        PartlyDoneError(
            f"{len(failures)} of {len(provision_results)} were not provisioned: {failures[0]}",
            hint=Hint("the same command again does the rest;", ("operation", "list"), "shows what is left"),
        )
    )
    return PartlyDoneError.exit_code

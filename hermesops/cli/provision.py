"""``hermesops provision``: a user to a living agent."""

from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.cli import context, render
from hermesops.cli.console import result
from hermesops.cli.no_wait import NoWait, run_or_leave

if TYPE_CHECKING:
    from hermesops.model.instance import Instance
    from hermesops.model.operation import Operation


def provision(
    user: Annotated[str, typer.Argument(help="User id (UUID) or alias.")],
    plan: Annotated[str, typer.Option(help="light or heavy.")],
    region: Annotated[
        str, typer.Option(help="Where its machine is rented; as the settings say by default.", show_default=False)
    ] = "",
    no_wait: NoWait = False,
) -> None:
    """Give a user a living agent. The same command finishes what a killed one began."""
    from hermesops.lifecycle.admission import parse_plan
    from hermesops.model.user import parse_user

    bought = parse_plan(plan)
    parse_user(user)
    app = context.compose()

    async def work() -> "tuple[Instance, Operation, str]":
        async with app.session() as session:
            instance, operation = await session.admission.admit(user, bought, region=region)
            outcome = await run_or_leave(session.operations, operation, no_wait=no_wait)
        return app.registry.get_instance(instance.id), operation, outcome

    instance, operation, outcome = context.run(work())
    result("instance", {"instance": render.instance(instance), "operation_id": operation.id}, [outcome])

"""``hermesops provision``: a user to a living agent."""

from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.cli import context, render
from hermesops.cli.console import result

if TYPE_CHECKING:
    from hermesops.model.instance import Instance


def provision(
    user: Annotated[str, typer.Argument(help="User id (UUID) or alias.")],
    plan: Annotated[str, typer.Option(help="light or heavy.")],
    region: Annotated[
        str, typer.Option(help="Where its machine is rented; as the settings say by default.", show_default=False)
    ] = "",
) -> None:
    """Give a user a living agent. The same command finishes what a killed one began."""
    from hermesops.lifecycle.admission import parse_plan
    from hermesops.model.user import parse_user

    bought = parse_plan(plan)
    parse_user(user)
    app = context.compose()

    async def work() -> "Instance":
        async with app.session() as session:
            instance, operation = await session.admission.admit(user, bought, region=region)
            await session.operations.run(operation)
        return app.registry.get_instance(instance.id)

    instance = context.run(work())
    result(
        "instance",
        {"instance": render.instance(instance)},
        [f"{instance.user_alias or instance.user_id} has a living agent on {instance.machine_name}"],
    )

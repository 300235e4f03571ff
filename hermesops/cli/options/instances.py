"""Options of commands about several instances: users, a selector, or all of them."""

from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.errors import Hint, RefusedError, UsageError
from hermesops.model.fleet.instance import InstanceStatus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermesops.app import Container
    from hermesops.model.fleet.instance import Instance

Users = Annotated[
    list[str] | None,
    typer.Argument(metavar="[USER]...", help="User ids, aliases or instance ids.", show_default=False),
]
Where = Annotated[
    str,
    typer.Option(
        "--where",
        help="Instances with plan=heavy,cell=cell1,health=down,region=…,release=…,status=…,user=…",
        show_default=False,
    ),
]
All = Annotated[bool, typer.Option("--all", help="Every instance that should run.")]


def choose_instances(
    container: "Container", users: "Sequence[str] | None", where: str, *, everything: bool, only_running: bool
) -> "tuple[Instance, ...]":
    """The instances that the options choose, each once.

    Args:
        only_running: Whether a selector without ``status`` takes only instances that should run.

    Raises:
        UsageError: They choose in two ways or in none, or a name is of nobody.
        RefusedError: The selector takes none.
    """
    if sum((bool(users), bool(where), everything)) != 1:
        raise UsageError("name one or more USERs, or give --where or --all", hint=Hint(("instance", "list")))
    if users:
        named = [container.instances.find(user) for user in users]
        return tuple({instance.id: instance for instance in named}.values())
    selector = container.instance_list.selector(where)
    is_limited = everything or (only_running and not selector.values("status"))
    status = InstanceStatus.RUNNING if is_limited else None
    chosen = tuple(row.instance for row in container.instance_list.read(selector, status=status))
    if not chosen:
        raise RefusedError(
            "no instance matches", hint=Hint(("instance", "list", *(("--where", where) if where else ())))
        )
    return chosen

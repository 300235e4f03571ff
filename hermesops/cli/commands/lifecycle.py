"""``hermesops lifecycle apply``: terminations whose grace period is over, and machines no longer needed."""

from typing import TYPE_CHECKING

from hermesops.cli import context
from hermesops.cli.command_group import Noun
from hermesops.cli.console import Yes, agree, say, table
from hermesops.cli.options.instance import ApprovedBy, ListOption, approved_list
from hermesops.errors import Hint, PartlyDoneError

if TYPE_CHECKING:
    from hermesops.app.container_parts.runtime import Runtime

app = Noun(no_args_is_help=True)


@app.command()
def apply(yes: Yes = False, listed: ListOption = None, approved_by: ApprovedBy = None) -> None:
    """Terminate agents whose grace period is over, and delete previous machines; run it daily, as cron does."""
    composed = context.compose()
    composed.approved_list = approved_list(listed, approved_by)

    async def work(session: "Runtime") -> dict[str, str]:
        due = session.upkeep.due()
        for instance in due.ends:
            say(f"{instance.title}: its days of grace are over; machine {instance.machine_name} is destroyed")
        for row in due.leaves:
            say(f"{row.name}: unassigned; it will be destroyed")
        if count := len(due.ends) + len(due.leaves):
            agree(
                f"This destroys {count} machines in environment {composed.env.name}.",
                expect=composed.env.name,
                spared="nothing was changed",
                yes=yes,
            )
        return await session.upkeep.apply(due)

    done = context.run_connected(composed, work)
    rows = [{"what": what, "outcome": problem or "done"} for what, problem in done.items()]
    table("lifecycle-apply", "done", ("what", "outcome"), rows, "nothing is due")
    if failed := [f"{what}: {problem}" for what, problem in done.items() if problem]:
        raise PartlyDoneError(
            f"{len(failed)} of {len(done)} were not done: {'; '.join(failed)}",
            hint=Hint(("lifecycle", "apply"), "again"),
        )

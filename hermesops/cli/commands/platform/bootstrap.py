"""``hermesops platform bootstrap``: prepares the cloud account of an environment."""

from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.base.narration import counted
from hermesops.cli import context
from hermesops.cli.console import Yes, advice, agree, is_json, result, say, table, table_lines
from hermesops.errors import CHANGES_REMAIN, UsageError
from hermesops.views import platform as shapes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermesops.platform.bootstrap.decide import Step
    from hermesops.platform.bootstrap.runner import Bootstrap, Preview

_COLUMNS = ("thing", "step")


def bootstrap(
    account: Annotated[
        str, typer.Option("--account", help="AWS account, 12 digits; by default platform.account.", show_default=False)
    ] = "",
    region: Annotated[
        str, typer.Option("--region", help="AWS region; by default platform.region.", show_default=False)
    ] = "",
    preview: Annotated[bool, typer.Option("--preview", help="Only show what would be done.")] = False,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="With --preview: exit 7 when something is left.")
    ] = False,
    undo: Annotated[
        bool, typer.Option("--undo", help="Delete all of it, while the bucket is empty and nothing else uses it.")
    ] = False,
    yes: Yes = False,
) -> int:
    """Prepare an AWS account for Pulumi: state bucket, its key, and the roles that pipelines take by OIDC.

    Shows first what would be made or mended, and asks. What is there already stays; killed at any moment, the same
    command goes on.
    """
    from hermesops.automation.doctor.environments import require_known
    from hermesops.platform.bootstrap.service import bootstrap_of

    if exit_code and not preview:
        raise UsageError("--exit-code goes with --preview")
    env = context.environment()
    require_known(env)
    setup = bootstrap_of(env, account=account, region=region, undo=undo, report=say)
    bootstrap_preview = context.run(setup.preview())
    if preview:
        _show(setup, bootstrap_preview)
        return CHANGES_REMAIN if exit_code and bootstrap_preview.steps else 0
    if bootstrap_preview.steps:
        for line in (*table_lines(_COLUMNS, shapes.steps(bootstrap_preview.steps), ""), *bootstrap_preview.notes):
            say(line)
        verb = "deletes" if undo else "changes"
        agree(
            f"As {bootstrap_preview.caller}, this {verb} account {setup.spec.account} "
            f"({env.name}, {setup.spec.region}).",
            expect=setup.spec.account,
            spared="nothing was touched",
            yes=yes,
        )
    done = context.run(setup.run(bootstrap_preview.steps))
    _report(setup, bootstrap_preview, done)
    return 0


def _show(setup: "Bootstrap", bootstrap_preview: "Preview") -> None:
    table(
        "platform-bootstrap-preview",
        "steps",
        _COLUMNS,
        shapes.steps(bootstrap_preview.steps),
        f"nothing to do in account {setup.spec.account}",
        beside=shapes.bootstrap_preview(setup.spec, bootstrap_preview),
    )
    for line in () if is_json() else bootstrap_preview.notes:
        say(line)


def _report(setup: "Bootstrap", bootstrap_preview: "Preview", done: "Sequence[Step]") -> None:
    spec = setup.spec
    shape = shapes.bootstrap(spec, bootstrap_preview, done)
    if setup.undo:
        lines = [f"account {spec.account}: {counted(len(done), 'step')} done, nothing of the bootstrap is left"]
    else:
        lines = [
            f"account {spec.account} is ready: {counted(len(done), 'step')} done",
            f"  pulumi.backend   {shape['backend']}",
            f"  role of previews {shape['preview_role']}",
            f"  role of applies  {shape['apply_role']}",
            advice(("platform", "bootstrap", "--preview", "--exit-code"), "verifies that later"),
        ]
    result("platform-bootstrap", shape, [*lines, *bootstrap_preview.notes])

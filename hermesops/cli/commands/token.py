"""``hermesops token``: tokens that open the vendor's proxy to one machine, or the model router to one agent.

A token for the model router has the purpose ``models``: it counts for days and is renewed while the agent runs.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.base.narration import counted
from hermesops.cli import context
from hermesops.cli.console import Why, result, table
from hermesops.cli.groups.noun import Noun
from hermesops.cli.options import rollout as options
from hermesops.cli.options.dry_run import DryRun
from hermesops.cli.options.instance import User, find_instance
from hermesops.errors import Hint, PartlyDoneError, UsageError
from hermesops.views.access import tokens as shapes

if TYPE_CHECKING:
    from hermesops.app.container import Container
    from hermesops.model.fleet.instance import Instance
    from hermesops.model.rollout.spec import Spec

app = Noun(no_args_is_help=True)


@app.command("list")
def list_(user: Annotated[str, typer.Argument(help="Only this one's.")] = "") -> None:
    """List the tokens in use and their holders, never their values.

    Each is root on its machine: it opens JustAVPS's toolbox there, and every port of the machine's loopback.
    """
    container = context.compose()
    now = container.now()

    instance = container.instances.find(user) if user else None
    directory = container.token_directory
    names = directory.machine_names()
    proxy = [shapes.proxy_token(owner, token, names, now) for owner, token in directory.proxy_tokens(instance)]
    models = [shapes.model_token(owner, token, now) for owner, token in directory.model_tokens(instance)]
    rows = sorted([*proxy, *models], key=shapes.by_user)
    empty = "no tokens; workers make those that the relay needs, commands those that they need"
    columns = ("user", "purpose", "left", "expires_at", "machine_name", "holder", "generation")
    table("token-list", "tokens", columns, rows, empty)


@app.command()
def renew(
    user: User,
    purpose: Annotated[str, typer.Option(help="Whose of the agent's tokens: platform, health, chat …")] = "platform",
    reason: Why = "",
) -> None:
    """Replace a token by a new one that is tried through the proxy first; the old one is revoked after that."""
    container, instance = find_instance(user)
    why = reason or "renewed by hand"
    context.run_connected(container, lambda connected: connected.proxy_tokens.renew(instance, purpose, reason=why))
    words = f"the token {purpose} of {user} is replaced: the new one opens the proxy, the old one is revoked"
    result("token-renew", {"user": user, "purpose": purpose}, [words])


@app.command()
@options.takes_spec("confirm_within", "drain", "drill", "windows")
def rotate(
    *,
    where: options.Where = "",
    everybody: options.Everybody = False,
    spec: "Spec",
    queue: Annotated[bool, typer.Option("--queue", help="Wait for a rollout that has some of them already.")] = False,
    reason: Why = "",
    detach: options.Detach = False,
    dry_run: DryRun = False,
) -> int:
    """Replace agents' tokens for the model router, in the stages and behind the gates of a rollout.

    Each agent is handed another token while it runs, and once it answers with that the old one ends. `rollout status`,
    `pause`, `resume`, `abort` and `explain` are for this rollout too. Exit 8: a gate halted it; tokens not yet replaced
    are good until they run out.
    """
    from hermesops.agents.rollout.plan.requests import RolloutRequest
    from hermesops.cli.commands.rollout import follow, preview
    from hermesops.model.rollout.spec import Action

    request = RolloutRequest("", where, everybody, spec, Action.TOKENS, reason or "tokens are rotated")
    if dry_run:
        preview.show(request)
        return 0
    return follow.start(request, queue=queue, detach=detach)


@app.command()
def revoke(
    user: User,
    purpose: Annotated[str, typer.Option(help="Only this one; else all of the agent's that open the proxy.")] = "",
    models: Annotated[
        bool, typer.Option("--models", help="Those for the model router instead; a running agent gets another at once.")
    ] = False,
    reason: Why = "",
) -> None:
    """Revoke tokens now, as after a leak; their holders get new ones."""
    if models and purpose:
        raise UsageError("--models and --purpose name different tokens", hint=Hint(("token", "list", user)))
    container, instance = find_instance(user)
    if models:
        _revoke_models(container, user, instance, reason or "revoked")
        return
    why = reason or "revoked"
    revoked = context.run_connected(container, lambda s: s.proxy_tokens.revoke(instance, purpose, reason=why))
    gone = [token.purpose for token in revoked]
    result("token-revoke", {"user": user, "revoked": gone}, [f"revoked {counted(len(gone), 'token')} of {user}"])


def _revoke_models(container: "Container", user: str, instance: "Instance", reason: str) -> None:
    generation, problem = context.run(container.model_token_revocation.revoke(instance, reason=reason))
    words = [f"no model token of {user} made before now is valid; the router refuses them within 10 seconds"]
    result("token-revoke", shapes.models_revoked(user, generation), words)
    if problem:
        raise PartlyDoneError(
            f"the agent of {user} has no new model token yet: {problem}",
            hint=Hint(("job", "run", "model-tokens"), "; a worker does it by itself within minutes"),
        )

"""``hermesops instance model-provider|model-providers``: a user's own model provider, and those that can be chosen."""

from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.cli.console import Reason, result, say, table
from hermesops.cli.options.files import read
from hermesops.cli.options.instance import DryRun, User, Wait, find_instance, preview_operation, run_operation, why
from hermesops.cli.views.instance.model_provider import provider_lines
from hermesops.errors import Hint, UsageError, require_reason
from hermesops.views.agents import model_providers as shapes

if TYPE_CHECKING:
    from hermesops.app import Container
    from hermesops.app.connected import Connected
    from hermesops.model.operation import Operation
    from hermesops.model.providers.choice import ProviderChoice

_LISTING = Hint(("instance", "model-providers"), "lists them")


def model_provider(
    user: User,
    provider: Annotated[str, typer.Option("--provider", metavar="ID", help="Use this one.", show_default=False)] = "",
    model: Annotated[str, typer.Option("--model", help="Its model; the present one without it.")] = "",
    key_from: Annotated[
        str, typer.Option("--key-from", metavar="FILE", help="Its key; - reads stdin. The present one without it.")
    ] = "",
    base_url: Annotated[
        str, typer.Option("--base-url", metavar="URL", help="Address of the account, where it has its own.")
    ] = "",
    unverified: Annotated[
        bool, typer.Option("--unverified", help="Save a key that the provider neither accepted nor refused.")
    ] = False,
    clear: Annotated[bool, typer.Option("--clear", help="Return to the platform's models; forget the key.")] = False,
    reason: Reason = "",
    dry_run: DryRun = False,
    wait: Wait = "",
) -> None:
    """Show or change the model provider that a user's agent asks with the user's own key.

    Without one, the agent uses the platform's models. The provider is asked about the key before anything is saved, by
    one request. An agent with its own provider uses no budget of the platform.
    """
    others = bool(model or key_from or base_url or unverified)
    if clear and (provider or others):
        raise UsageError("--clear excludes the other options of a provider")
    if others and not provider:
        raise UsageError("missing --provider: which one", hint=_LISTING)
    if dry_run and not (provider or clear):
        raise UsageError("--dry-run needs a change: --provider or --clear")
    key = read(key_from).strip() if key_from else ""
    container, instance = find_instance(user)
    if not (provider or clear):
        choice = container.model_providers.of(instance)
        result("instance-model-provider", shapes.of_instance(user, choice, ""), provider_lines(choice))
        return
    reason = why(reason, dry_run=dry_run)
    require_reason(reason, "instance", "model-provider", user, *(("--clear",) if clear else ("--provider", provider)))
    chosen = None
    if provider:
        chosen = container.model_providers.completed(instance, provider, model=model, key=key, base_url=base_url)
    _change(container, user, chosen, reason, unverified=unverified, dry_run=dry_run, wait=wait)


def _change(
    container: "Container",
    user: str,
    choice: "ProviderChoice | None",
    reason: str,
    *,
    unverified: bool,
    dry_run: bool,
    wait: str,
) -> None:
    from hermesops.agents.model_providers.service import using

    verified: list[ProviderChoice] = []  # a change that waits for its turn is begun again, and the provider asked once

    async def change(connected: "Connected") -> "Operation":
        if choice and not verified:
            await connected.instance_requests.refuse_provider(user)
            verified.append(await container.model_providers.verified(choice, may_be_unknown=unverified))
        return await connected.instance_requests.configure(
            user, using(verified[0] if verified else None), reason=reason
        )

    if dry_run:
        preview_operation(container, change)
        return
    outcome = run_operation(container, change, no_wait=False, wait=wait)[1]
    saved = verified[0] if verified else None
    result("instance-model-provider", shapes.of_instance(user, saved, outcome), [outcome])


def model_providers() -> None:
    """List the model providers whose keys users may bring, and those that no key opens."""
    rows, closed = shapes.offered(), shapes.not_offered()
    columns = ("id", "title", "model", "key", "verified_by", "note")
    table("model-providers", "providers", columns, rows, "none", beside={"not_offered": closed})
    say(f"no key opens {', '.join(str(row['agent_id']) for row in closed)}: --json says why, and what to use instead")

"""``hermesops token``: what opens the vendor's proxy to single machines."""

from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.cli import context
from hermesops.cli.console import Why, result, table
from hermesops.cli.noun import Noun
from hermesops.cli.render import moment
from hermesops.model.token import PLATFORM, purpose_of

if TYPE_CHECKING:
    from datetime import datetime

    from hermesops.model.instance import Instance
    from hermesops.model.token import KeptToken

app = Noun(no_args_is_help=True)

User = Annotated[str, typer.Argument(help="User id, alias or instance id.")]


@app.callback()
def group() -> None:
    """Tokens: what opens JustAVPS's proxy to one machine, for one purpose and six hours at most."""


@app.command("list")
def list_(user: Annotated[str, typer.Argument(help="Only this one's.")] = "") -> None:
    """List the tokens that are in use and who holds them, never what they say.

    Each is root on its machine: it opens JustAVPS's toolbox there, and every port of the machine's loopback.
    """
    composed = context.compose()
    now = composed.registry.now()

    async def work() -> "list[dict[str, object]]":
        from hermesops.app.tokens import Tokens

        instance = composed.registry.find_instance(user) if user else None
        async with composed.session() as session:
            return [shape(owner, token, now) for owner, token in Tokens(session).of(instance)]

    rows = context.run(work())
    empty = "no tokens; workers make those that the relay needs, commands those that they need"
    table("token-list", "tokens", ("user", "purpose", "holder", "machine_id", "expires_at", "left"), rows, empty)


@app.command()
def renew(
    user: User,
    purpose: Annotated[str, typer.Option(help="Whose of the agent's tokens: platform, health, chat …")] = "platform",
    reason: Why = "",
) -> None:
    """Replace a token by a new one that is tried through the proxy first; the old one is revoked after that."""
    composed = context.compose()
    instance = composed.registry.find_instance(user)

    async def work() -> None:
        from hermesops.app.tokens import Tokens

        async with composed.session() as session:
            await Tokens(session).renew(instance, purpose, reason=reason or "renewed by hand")

    context.run(work())
    words = f"the token {purpose} of {user} is another one now, and opens the proxy; the old one is revoked"
    result("token-renew", {"user": user, "purpose": purpose}, [words])


@app.command()
def revoke(
    user: User,
    purpose: Annotated[str, typer.Option(help="Only this one; else all of the agent's.")] = "",
    reason: Why = "",
) -> None:
    """End tokens now, as after one was seen where it should not be; who needs one gets another."""
    composed = context.compose()
    instance = composed.registry.find_instance(user)

    async def work() -> list[str]:
        from hermesops.app.tokens import Tokens

        async with composed.session() as session:
            return [one.purpose for one in await Tokens(session).revoke(instance, purpose, reason=reason or "revoked")]

    gone = context.run(work())
    result("token-revoke", {"user": user, "revoked": gone}, [f"revoked {len(gone)} tokens of {user}"])


def shape(owner: "Instance | None", token: "KeptToken", now: "datetime") -> dict[str, object]:
    """A token as everybody may see it."""
    left = int((token.expires_at - now).total_seconds())
    return {
        "user": owner.title if owner else None,
        "instance_id": owner.id if owner else None,
        "machine_id": token.machine_id,
        "purpose": token.purpose,
        "holder": "relay" if purpose_of(token.purpose) == PLATFORM else "commands and workers",
        "token_id": token.id,
        "expires_at": moment(token.expires_at),
        "left_s": left,
        "left": f"{left // 3600} h {left // 60 % 60} min" if left > 0 else "run out",
    }

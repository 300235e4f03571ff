"""``hermesops release signers``: whose signatures count for releases."""

from typing import Annotated

import typer

from hermesops.cli import context
from hermesops.cli.command_group import Noun
from hermesops.cli.console import Why, Yes, agree, result
from hermesops.cli.options import input_file

signers = Noun(no_args_is_help=True)


@signers.command()
def show() -> None:
    """Show who may sign releases, in OpenSSH's format, and how often that changed."""
    trust = context.compose().releases.trust
    number, text = len(trust.chain()), trust.current()
    lines = text.splitlines() or ["nobody has signed a release yet; hermesops release build"]
    result("release-signers", {"signers": text.splitlines(), "number": number}, lines)


@signers.command("set")
def set_(
    file: Annotated[str, typer.Argument(help="Allowed signers, in OpenSSH's format; - reads standard input.")],
    reason: Why,
    sign_again: Annotated[
        bool, typer.Option(help="Sign again with your key what a removed signer had signed.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Change who signs releases. Your key must be valid before and after, so that nobody is locked out.

    Machines take the new signers with the next release that is brought to them.
    """
    composed = context.compose()
    allowed = input_file.read(file)
    agree("Whoever that file names signs releases.", expect="signers", spared="the signers are as they were", yes=yes)
    left = context.run(composed.release_changes.set_signers(allowed, sign_again=sign_again, reason=reason))
    lines = [f"{len(allowed.splitlines())} lines of signers count from now on"]
    lines += [f"{release} is vouched for by none of them: machines refuse it" for release in left]
    result("release-signers-set", {"signers": allowed.splitlines(), "unsigned": list(left)}, lines)


@signers.command()
def restore(reason: Why, yes: Yes = False) -> None:
    """Write the signers and revocations that this computer remembers into a store that lost them or was restored.

    What a store says of signers and revocations only ever rises; one that says less was changed by somebody.
    """
    composed = context.compose()
    agree(
        "This replaces what the store says of signers and revocations by what this computer remembers.",
        expect="signers",
        spared="the store is as it was",
        yes=yes,
    )
    written = context.run(composed.release_changes.restore(reason=reason))
    lines = [f"restored: {', '.join(written)}"] if written else ["the store knows all that this computer remembers"]
    result("release-signers-restored", {"restored": list(written)}, lines)

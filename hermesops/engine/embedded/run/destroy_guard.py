"""Who may be destroyed: the caller's word, asked before anything is."""

from collections.abc import Collection, Iterable

from hermesops.engine.embedded.protocol import urns
from hermesops.engine.embedded.state.deployment import Resource
from hermesops.engine.interface import MayDestroy
from hermesops.errors import RefusedError


def guarded(resource: Resource) -> bool:
    """Whether destroying it destroys something outside the state: not components, not providers."""
    return resource.custom and not urns.is_provider(resource.type)


def refuse_unnamed(victims: Iterable[Resource], may_destroy: MayDestroy | None) -> None:
    """Refuse when something would be destroyed that nobody named.

    Raises:
        RefusedError: Lists what would be destroyed and was not named.
    """
    if may_destroy is None:
        return
    unnamed = sorted({victim.urn for victim in victims if guarded(victim) and not may_destroy(victim.urn)})
    if unnamed:
        raise refusal([f"{urns.name_of(urn)} ({urns.type_of(urn)})" for urn in unnamed])


def refusal(unnamed: Collection[str]) -> RefusedError:
    """Say what would be destroyed and was not named."""
    return RefusedError(
        f"{len(unnamed)} resource(s) would be destroyed that nobody named: {', '.join(unnamed)}",
        hint="look at the preview; name each one that really is to go, or put it back into what is wanted",
    )

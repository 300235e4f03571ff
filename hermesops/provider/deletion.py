"""Deletes one thing at the vendor: the one that the state means and no other, and until it is seen to be gone."""

import asyncio
from collections.abc import Awaitable, Callable

from hermesops.errors import RefusedError, UnknownOutcomeError
from hermesops.provider.backoff import go_on, patiently, unless_stopped
from hermesops.provider.ports import Thing
from hermesops.waiting import Pending


async def delete(
    what: str,
    name: str,
    *,
    read: Callable[[], Awaitable[Thing | None]],
    order: Callable[[], Awaitable[None]],
    timeout_s: float,
    stopping: asyncio.Event,
) -> None:
    """Delete it for good and wait until the vendor knows none of that id; what is gone already is success.

    Args:
        what: The kind of thing, as ``machine``.
        name: How it must be named.
        read: Looks at it; answers None when it is gone.
        order: Asks the vendor to delete it.
        timeout_s: For it to vanish.
        stopping: Set when the engine wants an end.

    Raises:
        RefusedError: It bears another name than the state says, or the vendor said no.
        UnavailableError: It could not be seen to go; safe to repeat.
        InterruptedWorkError: The engine stopped before it was seen to go; safe to repeat.
    """
    go_on(stopping, f"{what} {name} was not deleted")
    thing = await read()
    if thing is None:
        return
    refuse_stranger(what, thing, name)
    lost = ""
    try:
        await order()
    except UnknownOutcomeError as error:
        lost = f" (the answer was lost: {error.message})"

    async def look() -> bool | Pending[bool]:
        seen = await read()
        return seen is None or Pending(seen.status)

    it = f"{what} {name} ({thing.id})"
    await unless_stopped(
        patiently(look, what=f"{it} to be gone{lost}", timeout_s=timeout_s),
        stopping,
        f"{it} was not seen to go{lost}",
    )


def refuse_stranger(what: str, thing: Thing, name: str) -> None:
    """Refuse to touch what the state calls otherwise.

    Raises:
        RefusedError: It bears another name.
    """
    if thing.name != name:
        raise RefusedError(
            f"{what} {thing.id} is named {thing.name!r} at the vendor, and {name!r} in the state: left alone",
            hint="hermesops stack export shows what the state says",
        )

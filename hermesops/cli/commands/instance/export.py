"""``hermesops instance export``: everything of a user's, to take away."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import typer

from hermesops.cli import context
from hermesops.cli.console import Reason, is_json, result, say, write_bytes
from hermesops.errors import RefusedError, UsageError


def export(
    user: Annotated[str, typer.Argument(help="User id, alias or instance id.")],
    to: Annotated[
        Path | None,
        typer.Option("--to", metavar="FILE", help="Write it here, readable by you alone.", dir_okay=False),
    ] = None,
    reason: Reason = "",
) -> None:
    """Export a user's state as lines of JSON: sessions, conversations, skills, memory, cron, pairings.

    The last line counts the others; what arrived is held against it. With --to the file appears once it is whole.
    """
    if is_json() and to is None:
        raise UsageError("--json tells of --to FILE; without it standard output is lines of JSON already")
    composed = context.compose()

    async def work(write: Callable[[bytes], object]) -> dict[str, int]:
        from hermesops.instances.remote.data_export import export_data

        instance = composed.registry.instances.find(user)
        async with composed.session() as session:
            session.audited_access.enter(instance, how="export", reason=reason)
            return await export_data(await session.instance_client.channel_to(instance), write)

    if to is None:
        counts = context.run(work(write_bytes))
        sys.stdout.flush()
    else:
        with _whole_or_not_at_all(to) as write:
            counts = context.run(work(write))
    say(", ".join(f"{count} {table}" for table, count in counts.items()))
    if to is not None:
        result("export", {"user": user, "file": str(to), "counts": counts}, [f"wrote {to}"])


@contextmanager
def _whole_or_not_at_all(file: Path) -> Iterator[Callable[[bytes], object]]:
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with suppress(FileNotFoundError):
            beside.unlink()
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise RefusedError(f"{file} cannot be written: {error.strerror}") from None
    try:
        with os.fdopen(descriptor, "wb") as target:
            yield target.write
            target.flush()
            os.fsync(target.fileno())
        beside.replace(file)
    except OSError as error:
        raise RefusedError(f"{file} cannot be written: {error.strerror}") from None
    finally:
        beside.unlink(missing_ok=True)

"""One search for canaries: planted, commands run and watched, then everything looked through."""

import os
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.hostile.canaries import canary_commands
from tests.support.hostile.canaries.planted import Canaries, Leak, in_files, in_output, watching
from tests.support.real.commands.command import INSTALLED, Command, Ran
from tests.support.real.stores import postgresql
from tests.support.worlds.local.left_worlds import remember_world

_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - looked at, never written


@dataclass(frozen=True)
class Searched:
    """What came of it.

    Attributes:
        leaks: Canaries where they do not belong.
        ran: The commands.
        seen: Programs that were watched, by label, with the number of looks.
    """

    leaks: set[Leak]
    ran: Sequence[Ran]
    seen: dict[str, int]

    def table(self) -> str:
        """Every program that was watched."""
        return "".join(f"watched {label}: {looks} looks\n" for label, looks in sorted(self.seen.items()))


async def search(folder: Path, lines: Sequence[str]) -> Searched:
    """Plant canaries in a simulated world of a folder, run commands, and look for them.

    Args:
        folder: Takes the world, the temporary files, and what is planted as files.
        lines: Of ``canary_commands.COMMANDS``.
    """
    with postgresql.running() as database:
        canaries = Canaries.planted(database.new_database())
        async with _world(folder, canaries) as (command, known):
            with watching(canaries) as watcher:
                ran = await canary_commands.run(command, lines, known)
        leaks = watcher.leaks | in_output(canaries, command.said)
        leaks |= in_files(canaries, folder, *_postgres(database), *_memory())
    return Searched(leaks, ran, watcher.seen)


@asynccontextmanager
async def _world(folder: Path, canaries: Canaries) -> AsyncIterator[tuple[Command, dict[str, str]]]:
    home, temporary = folder / "home", folder / "tmp"
    (home / "local").mkdir(parents=True)
    temporary.mkdir()
    messengers = '[messengers]\ntelegram_bot = "our_bot"\nagents_url = "https://10.0.0.1:18091"\n'
    (home / "local" / "settings.toml").write_text(f'[rollout.hooks]\nsmoke = "env"\n{messengers}')
    managed = folder / "managed.json"
    managed.write_text('{"config": {}, "environment": {}}')
    given = {"HERMESOPS_LOCAL_DRIVER": "sim", "HERMESOPS_SECRETS_HOME": "environment", "TMPDIR": str(temporary)}
    command = Command(home, {**given, **canaries.variables}, INSTALLED)  # processes of their own, to be looked at
    remember_world(home / "local" / "world")
    try:
        yield (
            command,
            {
                "managed": str(managed),
                "signers": str(managed),
                "trust": str(folder / "trust.pem"),
                "host_files": str(folder / "host"),
            },
        )
    finally:
        await command.run("local", "down", "--purge", "--yes")


def _postgres(database: postgresql.PostgreSql) -> list[Path]:
    """The server's files: rows, its log of statements, its write-ahead log."""
    return [database._socket_folder]


def _memory() -> list[Path]:
    """Where secrets are lent as files, which are gone when their command is."""
    places = [_SHARED_MEMORY / f"hermesops-{os.getuid()}", Path(tempfile.gettempdir()) / f"hermesops-{os.getuid()}"]
    return [place for place in places if place.is_dir()]

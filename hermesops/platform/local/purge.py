"""Purges a local world, with its instances in the registry and its stacks."""

import shutil
from collections.abc import Callable, Collection
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from hermesops.access.registry_place import RegistryPlace
from hermesops.errors import HermesError, Hint, PartlyDoneError, RefusedError, UnavailableError
from hermesops.localcloud.world.local_world import World
from hermesops.platform.connection.connect import take_back
from hermesops.platform.connection.settings import is_connected
from hermesops.settings.environment import Environment
from hermesops.store.registry.transactions.purge import Fleet

_WHY = "the local world was purged"
_PURGE = Hint(("local", "down", "--purge"))


@dataclass(frozen=True)
class Losses:
    """Counts of things that a purge removes for good; ``None`` for an unknown count.

    Attributes:
        users: With an agent that is not terminated.
    """

    users: int | None
    machines: int | None
    images: int | None
    backups: int | None

    def __bool__(self) -> bool:
        """Whether anything is lost, or may be."""
        return any(count != 0 for count in vars(self).values())

    def __str__(self) -> str:
        """The counts above zero as one line, as ``2 users, 3 machines``."""
        parts = (_counted(count, name[:-1]) for name, count in vars(self).items() if count != 0)
        return ", ".join(parts) or "nothing"


@dataclass(frozen=True)
class WorldPurge:
    """Removes the local world, then its instances from the registry.

    Killed anywhere, the same once more finishes: rows end last, and all at once. A world with the environment's
    platform takes that with it; the settings and the registry from before count again.

    Args:
        reopened: Makes the same for the settings as they are then.
    """

    env: Environment
    world: World
    place: RegistryPlace
    report: Callable[[str], None]
    reopened: Callable[[], "WorldPurge"]

    async def losses(self) -> Losses:
        """Count the things that the purge would remove.

        Raises:
            RefusedError: The registry is shared, and users of it are on machines of this world.
        """
        there = await self.world.contents()
        machines, images = (len(there.machines), there.images) if there else (None, None)
        if self._is_shared:
            self._refuse_users_elsewhere(there.machines if there else frozenset())
            return Losses(0, machines, images, 0)
        try:
            known = self._known()
        except HermesError as problem:
            self.report(f"the registry cannot be read: {problem.message}")
            return Losses(None, machines, images, None)
        users, backups = (known.instances, known.backups) if known else (0, 0)
        return Losses(users, machines, images, backups if self._are_backups_local else 0)

    async def run(self) -> None:
        """Remove it all. Users, cells, releases, keys and the audit stay.

        A registry that another hermesops made cannot be told of it: it is moved away as it is.

        Raises:
            RefusedError: Not root.
            PartlyDoneError: The world is gone, and the registry could not be told.
        """
        await self.world.down(purge=True, report=self.report)
        if is_connected(self.env):
            take_back(self.env)
            await self.reopened().run()
            return
        if self._is_shared:
            return
        try:
            self._remove_files()
            if aside := self._set_aside():
                self.report(f"the registry was made by another hermesops: moved to {aside}, and a new one begins")
            else:
                self._end_rows()
        except HermesError as problem:
            raise PartlyDoneError(
                f"the local world is deleted, but the registry still lists it: {problem.message}",
                hint=Hint(problem.hint or ("registry", "check"), "; then again:", _PURGE),
            ) from problem

    def left_over(self, machines: Collection[object]) -> Hint:
        """A hint for a new world if the registry still has instances of one that is gone; empty if not."""
        if self._is_shared or not self._has_registry:
            return Hint()
        try:
            with closing(self.place.open()) as registry:
                known, fleet = registry.world.known_machines(), registry.world.count()
        except HermesError:
            return Hint()  # every other command says what is wrong with it
        if not known or known & frozenset(machines):
            return Hint()
        users = _counted(fleet.instances, "user")
        return Hint(f"the registry knows {users} of a local world that is gone; to begin anew:", _PURGE)

    @property
    def _is_shared(self) -> bool:
        """Whether other computers may use the registry too: then the purge changes nothing in it."""
        return self.env.settings.registry.url is not None and not is_connected(self.env)

    @property
    def _are_backups_local(self) -> bool:
        return not self.env.settings.backup.bucket or is_connected(self.env)

    @property
    def _has_registry(self) -> bool:
        return is_connected(self.env) or (self.place.file is not None and self.place.is_there())

    def _known(self) -> Fleet | None:
        if not self._has_registry:
            return None
        with closing(self.place.open()) as registry:
            return registry.world.count()

    def _refuse_users_elsewhere(self, machines: frozenset[str]) -> None:
        if not machines:
            return
        with closing(self.place.open()) as registry:
            here = registry.world.known_machines() & machines
        if here:
            raise RefusedError(
                f"{_counted(len(here), 'machine')} of this world are in the registry of registry.url, which others "
                "may share: a purge ends nothing there",
                hint=Hint("end them there first:", ("instance", "terminate", "USER"), "and", ("pool", "drain", "CELL")),
            )

    def _end_rows(self) -> None:
        if not self._has_registry:
            return
        with closing(self.place.open()) as registry:
            ended = registry.world.purge(with_backups=self._are_backups_local, why=_WHY)
        if ended:
            self.report(f"the registry has ended {_counted(ended.instances, 'user')} of it; the audit says so")

    def _set_aside(self) -> Path | None:
        return self.place.set_aside_foreign() if self._has_registry and not is_connected(self.env) else None

    def _remove_files(self) -> None:
        """Remove states of stacks and manifests of images: they name machines and images that are gone."""
        env = self.env
        _remove(env.folder / "manifests")
        if env.settings.pulumi.backend:
            self.report(f"stacks in {env.settings.pulumi.backend} are not this world's alone, and stay")
        else:
            _remove(env.folder / "pulumi")


def _remove(folder: Path) -> None:
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return
    except OSError as error:
        raise UnavailableError(f"{folder} cannot be removed: {error.strerror}", hint="see that it may be") from error


def _counted(count: int | None, what: str) -> str:
    if count is None:
        return f"an unknown number of {what}s"
    return f"{count} {what}{'' if count == 1 else 's'}"

"""The place of an environment's registry, and of its key, its copies and the audit's heads."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from hermesops.access.identity.current_operator import who_acts
from hermesops.access.secrets.catalog import MESSAGES_KEY, REGISTRY_KEY
from hermesops.access.secrets.environment import secrets_of
from hermesops.access.secrets.keyring.key_ring import KeyRing
from hermesops.access.secrets.keyring.ring import Ring
from hermesops.base.files.disk import is_refusal, not_written
from hermesops.base.files.private_file import close_to_others, make_private_folder
from hermesops.base.narration import Warn
from hermesops.base.network.web_address import with_verified_tls
from hermesops.errors import Hint, RefusedError, UnavailableError, UsageError
from hermesops.model.access.audit import ChainReport
from hermesops.settings.environment import Environment
from hermesops.store.registry import Registry, open_registry
from hermesops.store.registry.audit.anchor import Anchor
from hermesops.store.registry.database import Database
from hermesops.store.registry.maintenance.backup import Copies
from hermesops.store.registry.maintenance.log_archive import archive_words
from hermesops.store.registry.maintenance.restore import restore
from hermesops.store.registry.maintenance.write_guard import refuse_moved
from hermesops.store.registry.open import migrate_registry, open_for_reading
from hermesops.store.registry.schema import schema_version

if TYPE_CHECKING:
    from hermesops.store.registry.maintenance.restore import Restored


_OF_USERS_S = 30.0
"""Seconds of a statement of the users' half. Each waits with a connection; some more of them, and nobody gets one."""


@dataclass(frozen=True)
class RestoredEpoch:
    """Epoch that began with a registry from a restored database.

    Attributes:
        audit: Check of the restored entries against the heads outside the database.
    """

    epoch: int
    audit: ChainReport


class RegistryPlace:
    """Opens, migrates and restores an environment's registry."""

    def __init__(self, env: Environment, warn: Warn) -> None:
        self._env = env
        self._warn = warn
        self._url = registry_url(env)
        url = self._url if env.settings.registry.url else ""
        self.anchor = Anchor(env.settings.audit_anchor or env.folder / _anchor_name(url))
        self.file = _sqlite_file(self._url)
        self._copies = Copies(self.file, env.settings.registry.copies) if self.file else None

    @property
    def copies(self) -> Copies:
        """The copies of an SQLite registry.

        Raises:
            RefusedError: It is PostgreSQL.
        """
        if self._copies is None:
            raise RefusedError(
                f"this registry is in PostgreSQL, which has its own backups; {self._archive()}",
                hint=Hint(
                    ("platform", "show"),
                    "shows the age of the platform's newest backup; after a restore there:",
                    ("registry", "restore", "--already-restored", "--reason", "WHY"),
                ),
            )
        return self._copies

    def _archive(self) -> str:
        database = Database(self._url)
        try:
            return archive_words(database)
        finally:
            database.close()

    def is_there(self) -> bool:
        """Whether opening the registry finds one; an SQLite registry that is not there would be made."""
        return self.file is None or (self.file.exists() and self.file.stat().st_size > 0)

    def sealer(self) -> KeyRing:
        """The key that seals secrets, which outlives the registry.

        Raises:
            RefusedError: It is missing, damaged, or readable by others.
        """
        return self._key_ring(False)

    def user_rows(self) -> Database:
        """The tables of the users' half; what they hold is sealed with another key than the registry's.

        Nothing is read yet. Whoever uses them has opened the registry, which checks or makes the tables.
        """
        database = Database(self._url, statement_s=_OF_USERS_S)
        if database.is_sqlite:
            database.in_write = refuse_moved
        return database

    def messages(self) -> KeyRing:
        """The key ring that seals what users say; made on first use.

        Raises:
            RefusedError: It is damaged, or readable by others.
        """
        secrets = secrets_of(self._env)
        secrets.made(MESSAGES_KEY, Ring.fresh().to_text())
        return KeyRing.kept(partial(secrets.read, MESSAGES_KEY), source=secrets.where(MESSAGES_KEY))

    def open(self) -> Registry:
        """Open the registry, as ``open_registry`` does."""
        return self._open_at(self._url, anchor=self.anchor, copies=self._copies)

    def open_for_reading(self) -> Registry:
        """Open the registry without its key, as ``open_for_reading`` of the store does."""
        return open_for_reading(self._url, environment=self._env.name)

    def highest_epoch(self) -> int:
        """The newest epoch of every registry that this environment had on this computer.

        A database that was restored on another host is found at another URL, with an anchor that knows nothing yet.
        """
        return max(Anchor(file).highest_epoch() for file in {self.anchor.path, *self._env.folder.glob("audit*.anchor")})

    def anchor_at(self, url: str) -> Anchor:
        """The audit's heads of this environment's registry where it is kept at another URL."""
        own = f"sqlite:///{self._env.folder / 'registry.db'}"
        return Anchor(self._env.settings.audit_anchor or self._env.folder / _anchor_name("" if url == own else url))

    def open_at(self, url: str) -> Registry:
        """Open this environment's registry where it is kept at another URL; with that one's own anchor."""
        file = _sqlite_file(url)
        copies = Copies(file, self._env.settings.registry.copies) if file else None
        return self._open_at(url, anchor=self.anchor_at(url), copies=copies)

    def set_aside_foreign(self) -> Path | None:
        """Move this environment's own registry away if another hermesops made its tables; a new one begins then.

        Its audit's heads and its copies go with it: beside them, a new registry looks like a loss. The file itself goes
        last, so the same once more finishes it.

        Returns:
            Its new folder; ``None`` where the registry stays: it is no file of this environment's folder, or readable.

        Raises:
            HermesError: It does not open at all.
            UnavailableError: Its files cannot be moved.
        """
        own = self._env.folder
        if self.file != own / "registry.db" or self._copies is None or not self._copies.folder.is_relative_to(own):
            return None
        database = Database(self._url)
        try:
            if not schema_version.is_foreign(database):
                return None
        finally:
            database.close()
        aside = own / f"registry-of-another-hermesops-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
        parts = (*(self.file.with_name(f"registry.db{end}") for end in ("-wal", "-shm")), self._copies.folder)
        try:
            make_private_folder(aside)
            for path in (*parts, self.anchor.path, self.file):
                if path.exists():
                    path.rename(aside / path.name)
        except OSError as error:
            raise UnavailableError(f"{path} cannot be moved to {aside}: {error.strerror}") from error
        return aside

    def open_anew(self, why: str, *, above: int = 0) -> Registry:
        """Open an empty registry after a loss of all copies, with an epoch above all known ones.

        Move the remains of an SQLite file away first.

        Args:
            above: An epoch that the new one exceeds, beside those in the audit's anchor.

        Raises:
            RefusedError: There is a registry.
        """
        migrate_registry(self._url)
        registry = self._open_at(self._url, anchor=self.anchor, copies=None)
        if registry.audit.list(limit=1):
            registry.close()
            raise RefusedError("the registry exists and is not empty", hint=Hint(("registry", "check")))
        registry.epochs.open(why, above=above)
        registry.close()
        return self.open()

    def record_restored(self, why: str) -> RestoredEpoch:
        """Begin an epoch in a registry whose database was restored, so that every lease from before has ended.

        Its audit is verified against the anchor, which was not restored; a broken audit does not stop the epoch.
        """
        registry = self.open()
        try:
            epoch = registry.epochs.open(why, above=self.highest_epoch())
            return RestoredEpoch(epoch, registry.audit.check())
        finally:
            registry.close()

    def migrate(self) -> tuple[str, str]:
        """Bring its tables to this code's revision; the revisions before and now."""
        return migrate_registry(self._url, anchor=self.anchor, copies=self._copies)

    def copy_or_newest(self, copy: Path | None) -> Path:
        """Return ``copy``, or the newest copy for ``None``.

        Raises:
            RefusedError: There is no copy.
        """
        taken = () if copy else self.copies.list()
        if copy is None and not taken:
            raise RefusedError(
                f"there is no copy in {self.copies.folder}",
                hint=Hint(("registry", "rebuild"), ", from vendor, machines and recovery records"),
            )
        return copy or taken[0].file

    def restore(self, copy: Path | None, *, over: str, why: str) -> "Restored":
        """Restore a copy of the registry.

        Args:
            copy: ``None`` takes the newest.
            over: The environment's name, if a healthy registry may be overwritten.
        """
        if over and over != self._env.name:
            raise UsageError(f"{over} is another environment than this one, {self._env.name}", field="over")
        copy = self.copy_or_newest(copy)
        open_at = partial(self._open_at, anchor=None, copies=None)
        return restore(self.copies, copy, open_at=open_at, anchor=self.anchor, over_healthy=bool(over), why=why)

    def _open_at(self, url: str, *, anchor: Anchor | None, copies: Copies | None) -> Registry:
        return open_registry(
            url,
            environment=self._env.name,
            actor=self._actor,
            sealer=self._key_ring,
            anchor=anchor,
            copies=copies,
            warn=self._warn,
        )

    def _actor(self) -> str:
        return who_acts(self._env)

    @property
    def _key_ring(self) -> Callable[[bool], KeyRing]:
        secrets = secrets_of(self._env)
        file = self._env.settings.registry.key_file or secrets.home.path(REGISTRY_KEY.name)
        if file is not None:
            return lambda is_new: KeyRing.load(file, create=is_new)

        def kept(is_new: bool) -> KeyRing:  # noqa: FBT001 - as the registry calls it
            if is_new:
                secrets.made(REGISTRY_KEY, Ring.fresh().to_text())
            return KeyRing.kept(partial(secrets.read, REGISTRY_KEY), source=secrets.home.title)

        return kept


def registry_url(env: Environment) -> str:
    """SQLAlchemy's URL of an environment's registry."""
    url = env.settings.registry.url
    return url.get_secret_value() if url else f"sqlite:///{_folder_of(env) / 'registry.db'}"


def queue_url(env: Environment) -> str:
    """URL of the workers' queue: in the registry's PostgreSQL, which many computers reach; else a file of this one."""
    url = env.settings.registry.url.get_secret_value() if env.settings.registry.url else ""
    return with_verified_tls(url) if url.startswith("postgresql") else f"sqlite:///{env.folder / 'worker.db'}"


_WHO = ("user", "password", "sslcert", "sslkey", "sslpassword", "sslrootcert")
"""Parameters of a URL's query that identify the client, or what it trusts, not the registry."""


def _anchor_name(url: str) -> str:
    """The anchor belongs to the registry: another URL, another file."""
    if not url:
        return "audit.anchor"
    try:
        which = sa.make_url(url).set(username=None, password=None).difference_update_query(_WHO).render_as_string()
    except sa.exc.ArgumentError:
        which = ""  # opening it reports the problem
    return f"audit-{hashlib.sha256(which.encode()).hexdigest()[:8]}.anchor"


def _sqlite_file(url: str) -> Path | None:
    try:
        parsed = sa.make_url(url)
    except sa.exc.ArgumentError:
        return None
    return Path(parsed.database) if parsed.get_backend_name() == "sqlite" and parsed.database else None


def _folder_of(env: Environment) -> Path:
    try:
        make_private_folder(env.folder)
        close_to_others(env.folder)
    except OSError as error:
        if is_refusal(error):
            raise not_written(env.folder, error) from error
        raise RefusedError(
            f"the folder {env.folder} cannot be used: {error.strerror}",
            hint="set HERMESOPS_HOME to a folder this user may write to",
        ) from error
    return env.folder

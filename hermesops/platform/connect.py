"""Points an environment of this computer at its platform: settings, keys, and the registry's rows."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from hermesops.access.pki.authority import Authority
from hermesops.base.files.private_file import make_private_folder, replace_secret
from hermesops.errors import Hint, RefusedError, UnavailableError
from hermesops.infra.engine.embedded.state.bucket import BucketAccess
from hermesops.infra.engine.embedded.state.folder_copy import FolderCopy
from hermesops.infra.engine.embedded.state.storage import open_storage
from hermesops.infra.stacks.platform.outputs import PlatformOutputs
from hermesops.model.access.audit import ChainReport
from hermesops.model.access.certificate import CallerName
from hermesops.platform.host import run_on_host
from hermesops.platform.parts.control import DATABASE_USER, OPERATOR, STORE_KEYS
from hermesops.platform.parts.tls import client_pair, is_of_caller
from hermesops.platform.parts.users import USERS_DOWN
from hermesops.settings.edited_text import edited
from hermesops.settings.environment import Environment
from hermesops.settings.fields import value_of, variable_of
from hermesops.store.registry import Registry
from hermesops.store.registry.audit.anchor import Anchor
from hermesops.store.registry.audit.entries import check_chain
from hermesops.store.registry.database import Database
from hermesops.store.registry.maintenance import transfer
from hermesops.store.registry.schema import schema_version
from hermesops.vendor.channel import Channel

UNITS = tuple(f"hermesops-{process}.service" for process in ("worker", "monitor", "identity", "relay"))
"""Of role ``hermes_platform_control``: they work with a registry that has this environment's rows, and no other."""

_STORE = "/etc/hermes-platform/secrets/object-store"
_BUCKETS = ("backups", "releases", "pulumi-state")
_BEFORE = "settings.toml.before-platform"
_CELL_STATES = tuple(f".pulumi/{kind}/fleet" for kind in ("stacks", "history", "backups"))
_COMMAND_S = 120.0
_BROKEN = Hint(
    ("audit", "verify"),
    "shows more;",
    ("platform", "connect", "--broken-audit", "WHY"),
    "moves it, and it stays broken",
)


@dataclass(frozen=True)
class SettingChange:
    """A setting that connecting changes.

    Attributes:
        before: Empty for the default.
    """

    name: str
    before: str
    after: str


@dataclass(frozen=True)
class Connected:
    """The result of connecting.

    Attributes:
        rows: Rows of the registry that were copied; 0 when they had been before.
        epoch: The registry's, which began with it; 0 where everything was as it should be.
        files: Files of releases and of Pulumi's state that were copied.
        audit: What was verified of the audit, in a line; empty where no row was moved.
        moves_backups: Whether backups go to the platform's store.
    """

    settings: Sequence[SettingChange]
    rows: int
    epoch: int
    files: int
    moves_backups: bool
    audit: str = ""


@dataclass(frozen=True)
class Disconnected:
    """The result of disconnecting.

    Attributes:
        epoch: The registry's, which began with it.
        audit: What was verified of the audit, in a line.
    """

    epoch: int
    audit: str


class PlatformFiles:
    """Files of an environment with which it reaches its platform.

    Attributes:
        authorities: Who may have signed the platform's certificates.
        certificate: Of this computer for the registry, with its key.
        store_keys: To buckets of releases and of Pulumi's state, a profile each.
        before: The settings before they were changed.
    """

    def __init__(self, env: Environment) -> None:
        self.folder = env.folder / "platform"
        self.authorities = self.folder / "authorities.crt"
        self.certificate = self.folder / "registry-client.crt"
        self.key = self.folder / "registry-client.key"
        self.store_keys = self.folder / STORE_KEYS
        self.backup_key = self.folder / "backup.key"
        self.settings = env.folder / "settings.toml"
        self.before = env.folder / _BEFORE


def is_connected(env: Environment) -> bool:
    """Whether an environment's registry is its platform's."""
    files, url = PlatformFiles(env), env.settings.registry.url
    return files.before.exists() and url is not None and url.get_secret_value().startswith("postgresql")


def settings_of(
    env: Environment, outputs: PlatformOutputs[str], *, iam_endpoint: str, moves_backups: bool
) -> dict[str, str]:
    """The settings with which this computer uses its platform, by name.

    Args:
        iam_endpoint: Of the object store, as this computer reaches it.
        moves_backups: Whether backups go to the platform's store from now on.
    """
    files = PlatformFiles(env)
    tls = f"sslmode=verify-full&sslrootcert={files.authorities}&sslcert={files.certificate}&sslkey={files.key}"
    where = f"{outputs.database_host}:{outputs.database_port}/{outputs.database_name}"
    settings = {
        "registry.url": f"postgresql://{DATABASE_USER}@{where}?{tls}",
        "releases": outputs.releases_url,
        "pulumi.backend": outputs.pulumi_state_url,
        "platform.key_file": str(files.store_keys),
        "platform.ca_file": str(files.authorities),
        "monitoring.url": outputs.monitoring_url,
        "monitoring.ingest_url": outputs.ingest_url,
        "platform_url": outputs.identity_url,
        "router.url": outputs.router_url,
    }
    if moves_backups:
        settings |= {
            "backup.bucket": outputs.backup_bucket,
            "backup.endpoint": outputs.object_store_endpoint,
            "backup.iam_endpoint": iam_endpoint,
            "backup.region": outputs.region,
            "backup.key_file": str(files.backup_key),
            "backup.ca_file": str(files.authorities),
        }
    return settings


@dataclass(frozen=True)
class PlatformConnection:
    """Connects and disconnects one environment.

    Killed anywhere, the same once more finishes.

    Args:
        wanted: The settings with the platform, by name.
        channel: To the platform's host.
        source: The registry in SQLite.
        open_target: Opens the registry at a URL.
        anchor_at: The heads of the audit of the registry at a URL.
        folders: What is copied: from a folder of this computer, into the platform's bucket, names under these folders.
    """

    env: Environment
    wanted: Mapping[str, str]
    channel: Channel
    load_authority: Callable[[], Authority]
    authorities: Callable[[], str]
    source_url: str
    open_target: Callable[[str], Registry]
    anchor_at: Callable[[str], Anchor]
    copies: Callable[[], Sequence["FolderCopy"]]
    report: Callable[[str], None]

    def changes(self) -> tuple[SettingChange, ...]:
        """Settings that connecting would change, with their values before and after.

        Raises:
            RefusedError: A variable sets one of them, and would win.
        """
        changes = []
        for name, after in self.wanted.items():
            if self.env.sources[name] == "environment":
                raise RefusedError(
                    f"{variable_of(name)} is set and wins over settings.toml", hint=f"unset {variable_of(name)}"
                )
            before = _text(value_of(self.env.settings, name))
            if before != after:
                changes.append(SettingChange(name, before if self.env.sources[name] != "default" else "", after))
        return tuple(changes)

    async def connect(self, *, despite: str = "") -> Connected:
        """Write the settings of the platform and copy the registry to it.

        Args:
            despite: Why a registry with a broken audit is moved, for the audit; it stays broken. Empty refuses it.

        Raises:
            RefusedError: An operation is open, the audit is broken, or the platform's registry has rows of its own.
            UnavailableError: The platform's host or its database does not answer.
        """
        files, changes, moves_backups = PlatformFiles(self.env), self.changes(), "backup.bucket" in self.wanted
        await self._lay_files(files)
        if is_connected(self.env) and not changes:
            await run_on_host(self.channel, f"systemctl enable --now {' '.join(UNITS)}")
            return Connected((), 0, 0, 0, moves_backups)
        source = await asyncio.to_thread(self._verified, despite)  # before anything stops
        await self._stop()  # nobody there may write what is replaced now
        self.report("copying the registry's rows")
        rows, epoch = await asyncio.to_thread(self._move_registry, source, despite)
        copied = 0
        for copy in self.copies():
            self.report(f"copying {copy.what}")
            copied += await asyncio.to_thread(copy.run)
        _write_settings(files, self.wanted)
        await run_on_host(self.channel, f"systemctl enable --now {' '.join(UNITS)}")
        return Connected(changes, rows, epoch, copied, moves_backups, source.told if source else "")

    async def undo(self, *, despite: str = "") -> Disconnected:
        """Go back to the settings from before, and to the registry in SQLite as it was then.

        Args:
            despite: As in ``connect``: somebody may have edited the file meanwhile.

        Raises:
            RefusedError: The environment is not connected, the file's audit is broken, or an operation is open.
        """
        files = PlatformFiles(self.env)
        if not files.before.exists():
            raise RefusedError(f"environment {self.env.name} is not connected to a platform")
        source = await asyncio.to_thread(self._verified, despite)
        await self._stop()
        done = await asyncio.to_thread(self._take_registry_back, source, despite)
        files.before.replace(files.settings)
        return done

    async def _stop(self) -> None:
        """Stop what works with the platform's registry. Users are served again once roles are applied the next time."""
        await run_on_host(self.channel, USERS_DOWN)
        await run_on_host(self.channel, f"systemctl disable --now {' '.join(UNITS)}")

    async def _lay_files(self, files: PlatformFiles) -> None:
        make_private_folder(files.folder)
        replace_secret(files.authorities, self.authorities())
        authority, caller = self.load_authority(), CallerName(self.env.name, OPERATOR)
        shown = files.certificate.read_text() if files.certificate.exists() else ""
        if not is_of_caller(shown, caller, authority, datetime.now(UTC)):
            pair = client_pair(authority, caller)
            replace_secret(files.key, pair.key)
            replace_secret(files.certificate, pair.pem)
        keys = {name: await self._read(f"{_STORE}/{name}") for name in _BUCKETS}
        replace_secret(files.backup_key, keys["backups"])
        profiles = (keys[name].replace("[default]", f"[{name}]") for name in _BUCKETS[1:])
        replace_secret(files.store_keys, "\n".join(profiles))

    def _verified(self, despite: str) -> ChainReport | None:
        """The audit of the registry in SQLite, verified against its own anchor; ``None`` where there is no registry.

        Raises:
            RefusedError: It is broken, and that is not to be carried over.
        """
        source = Database(self.source_url)
        try:
            if source.is_missing() or schema_version.current(source) is None:
                return None
            report = check_chain(source, self.anchor_at(self.source_url))
        finally:
            source.close()
        if report.doubt and not despite:
            raise RefusedError(
                f"the audit of the registry {source.title} is broken: {report.doubt}; nothing was moved",
                hint=_BROKEN,
            )
        return report

    def _move_registry(self, verified: ChainReport | None, despite: str) -> tuple[int, int]:
        source, target = Database(self.source_url), Database(self.wanted["registry.url"])
        try:
            if source.is_missing():
                return 0, self._begin_epoch(0, verified, despite)
            moved = 0 if transfer.moved_to(source) else transfer.transfer(source, target).total
            try:
                return moved, self._begin_epoch(transfer.epoch_of(source), verified, despite)
            except RefusedError:
                transfer.unmark_moved(source)
                raise
        finally:
            source.close()
            target.close()

    def _begin_epoch(self, before: int, verified: ChainReport | None, despite: str) -> int:
        """Open the platform's registry, with an epoch above the one before; anchored heads go on to bind its audit."""
        url = self.wanted["registry.url"]
        self.anchor_at(url).take_over(self.anchor_at(self.source_url))
        registry = self.open_target(url)
        try:
            epoch = registry.epochs.now()
            if epoch <= before:
                epoch = registry.epochs.open("moved to the platform", above=before)
            self._require_audit(registry, verified, despite)
            return epoch
        finally:
            registry.close()

    def _require_audit(self, registry: Registry, verified: ChainReport | None, despite: str) -> ChainReport:
        """The audit of a registry that counts from now on; a break that is carried over is noted in it.

        Raises:
            RefusedError: It is broken, and that is not to be carried over.
        """
        report = registry.audit.check()
        if report.doubt and not despite:
            raise RefusedError(
                f"the audit of the moved registry is broken: {report.doubt}", hint=Hint(("audit", "verify"))
            )
        if doubt := report.doubt or (verified.doubt if verified else ""):
            after = {"findings": len(report.findings), "first": doubt}
            registry.audit.append("broken_audit_carried_over", "registry", why=despite, after=after)
        return report

    def _take_registry_back(self, verified: ChainReport | None, despite: str) -> Disconnected:
        target, source = Database(self.wanted["registry.url"]), Database(self.source_url)
        try:
            known = transfer.epoch_of(target)
            transfer.refuse_open(target)
        except UnavailableError as error:
            self.report(f"the platform's registry does not answer, so its epoch is not known: {error.message}")
            known = 0
        try:
            transfer.unmark_moved(source)
        finally:
            source.close()
            target.close()
        # What was written since is missed by the heads that were stored of it.
        self.anchor_at(self.source_url).take_over(self.anchor_at(self.wanted["registry.url"]))
        registry = self.open_target(self.source_url)
        try:
            epoch = registry.epochs.open("back from the platform", above=known)
            return Disconnected(epoch, self._require_audit(registry, verified, despite).told)
        finally:
            registry.close()

    async def _read(self, file: str) -> str:
        done = await self.channel.run(f"cat {file}", timeout_s=_COMMAND_S)
        if done.exit_code:
            raise UnavailableError(f"the platform's host has no {file}", hint=Hint(("stack", "up", "platform")))
        return done.text


def folder_copies(env: Environment, settings: Mapping[str, str]) -> list[FolderCopy]:
    """Copies of this computer's releases and Pulumi states into the platform's buckets.

    Args:
        settings: With the platform, by name.
    """
    files = PlatformFiles(env)
    access = BucketAccess(files.store_keys, files.authorities)
    releases = open_storage(settings["releases"], setting="releases", access=access)
    states = open_storage(settings["pulumi.backend"], access=access)
    return [
        FolderCopy("releases", env.folder / "releases", releases),
        *(FolderCopy("Pulumi's state", env.folder / "pulumi", states, below) for below in _CELL_STATES),
    ]


def moves_backups(env: Environment, registry: Registry) -> bool:
    """Whether backups go to the platform's store: not if machines use backups that are elsewhere."""
    return bool(env.settings.backup.bucket) or not registry.backups.list()


def _text(value: object) -> str:
    if value is None:
        return ""
    getter = getattr(value, "get_secret_value", None)
    return str(getter()) if getter else str(value)


def _write_settings(files: PlatformFiles, values: Mapping[str, str]) -> None:
    present = files.settings.read_text() if files.settings.exists() else ""
    if not files.before.exists():
        replace_secret(files.before, present)
    changed = edited(present, values)
    if changed != present:
        replace_secret(files.settings, changed)


def take_back(env: Environment) -> None:
    """Have the settings and the registry from before count again, where the platform is gone."""
    files = PlatformFiles(env)
    source = Database(f"sqlite:///{env.folder / 'registry.db'}")
    try:
        if not source.is_missing():
            transfer.unmark_moved(source)
    finally:
        source.close()
    files.before.replace(files.settings)

"""Rows of ``settings_copies``: what users may set of their agents, for processes without the registry's key."""

import json
from dataclasses import asdict, dataclass, field
from datetime import datetime

import sqlalchemy as sa

from hermesops.errors import RefusedError, UnavailableError
from hermesops.model.fleet.instance import InstanceSettings
from hermesops.model.ids import InstanceId, UserId
from hermesops.model.providers.choice import from_values
from hermesops.store.registry.database import Database
from hermesops.store.registry.encryption.sealing import Sealer, place
from hermesops.store.registry.repositories.base import insert_or_update
from hermesops.store.registry.schema.tables import LIVING, hermes_instances, instance_details
from hermesops.store.registry.schema.user_tables import settings_copies

_COLUMNS = settings_copies.c
_COPIED = ("model", "personality", "disabled_tools")
NEVER_SET = 0
"""Revision of settings that nobody has changed: every one has its default."""


class CopyMissingError(UnavailableError):
    """No worker has copied the settings yet, or the key that sealed the copy is gone."""


@dataclass(frozen=True)
class SettingsCopy:
    """Settings of a user's agent as a worker last copied them.

    Attributes:
        settings: Those that a user may set; the others have their defaults, and the provider has no key.
        copied_at: ``None`` for settings that were never set, of which no copy is needed.
        is_stale: Whether they were changed since.
    """

    instance_id: InstanceId
    settings: InstanceSettings = field(repr=False)
    copied_at: datetime | None
    is_stale: bool


class SettingsCopies:
    """Copies of settings.

    Args:
        messages: The key ring that seals them.
    """

    def __init__(self, database: Database, messages: Sealer) -> None:
        self._database = database
        self._messages = messages

    def get(self, user_id: UserId) -> SettingsCopy | None:
        """The settings of the user's agent; ``None`` where the user has no agent.

        Raises:
            CopyMissingError: See there.
            UnavailableError: The database does not answer.
        """
        instances, details = hermes_instances.c, instance_details.c
        query = (
            sa.select(instances.id, details.settings_revision, _COLUMNS.settings, _COLUMNS.revision, _COLUMNS.copied_at)
            .select_from(hermes_instances)
            .join(instance_details, details.instance_id == instances.id)
            .outerjoin(settings_copies, _COLUMNS.instance_id == instances.id)
            .where(instances.user_id == user_id, LIVING)
        )
        with self._database.reading() as connection:
            row = connection.execute(query).one_or_none()
        if row is None:
            return None
        instance_id = InstanceId(row.id)
        if row.settings is None:
            if row.settings_revision != NEVER_SET:
                raise CopyMissingError("the settings of your agent are not here yet; try again in a few seconds")
            return SettingsCopy(instance_id, InstanceSettings(), None, is_stale=False)
        settings = self._opened(instance_id, row.settings)
        return SettingsCopy(instance_id, settings, row.copied_at, is_stale=row.revision != row.settings_revision)

    def put(self, instance_id: InstanceId, settings: InstanceSettings, revision: int) -> None:
        """Replace the copy of an instance's settings.

        Args:
            revision: Of these settings; a change meanwhile makes the copy stale, and the next look replaces it.
        """
        values = {name: getattr(settings, name) for name in _COPIED}
        values["provider"] = asdict(settings.provider.without_key()) if settings.provider else None
        sealed = self._messages.seal(json.dumps(values), place=_place(instance_id))
        with self._database.writing() as connection:
            row = {"settings": sealed, "revision": revision, "copied_at": self._database.now(connection)}
            insert_or_update(connection, settings_copies, {"instance_id": instance_id, **row})

    def _opened(self, instance_id: InstanceId, sealed: str) -> InstanceSettings:
        try:
            values = json.loads(self._messages.unseal(sealed, place=_place(instance_id)))
        except RefusedError as error:
            raise CopyMissingError("the settings of your agent cannot be shown now") from error
        tools = tuple(map(str, values["disabled_tools"]))
        provider = values.get("provider")  # copies of before have none
        return InstanceSettings(
            model=str(values["model"]),
            personality=str(values["personality"]),
            disabled_tools=tools,
            provider=from_values(provider) if provider else None,
        )


def _place(instance_id: InstanceId) -> str:
    return place(settings_copies.name, "settings", instance_id)

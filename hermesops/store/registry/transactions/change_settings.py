"""Changes an instance's settings: the settings, the operation and the audit entry, in one transaction."""

from collections.abc import Mapping
from dataclasses import replace

from hermesops.model.access.masking import changed, outline
from hermesops.model.fleet.instance import InstanceSettings
from hermesops.model.ids import InstanceId
from hermesops.model.operation import Operation, OperationKind, OperationStatus
from hermesops.store.registry.repositories.base import Repository, WriteContext
from hermesops.store.registry.repositories.instances.instance import InstanceSecretRepository, update_details
from hermesops.store.registry.repositories.operations import OperationRepository, last_in
from hermesops.store.registry.schema.tables import instance_details

_KIND = OperationKind.CONFIGURE


class SettingsTransactions(Repository):
    """Changes of instances' settings, with the operation that applies them."""

    def __init__(self, context: WriteContext) -> None:
        super().__init__(context)
        self._operations = OperationRepository(context)
        self._secrets = InstanceSecretRepository(context)

    def change(
        self,
        instance_id: InstanceId,
        settings: InstanceSettings,
        *,
        subject: str,
        intent: Mapping[str, object],
        why: str,
    ) -> Operation:
        """Replace the settings and open the operation that applies them, or return the unfinished one.

        The caller holds the lease of ``subject``. An unfinished change to other settings is abandoned. The settings
        before are the last ones with a successful operation, never those that the machine rejected. A key that its
        user removed is in neither: nothing goes back to it.
        """
        with self._database.writing() as connection:
            before = self._secrets.settings_in(connection, instance_id, lock=True)
            fields = changed(before, settings)
            if fields:
                last = last_in(connection, _KIND, subject)
                values: dict[str, object] = {
                    "settings": self._secrets.seal_settings_in(connection, settings, "settings", instance_id),
                    "settings_revision": instance_details.c.settings_revision + 1,
                }
                is_proved = last is None or last.status is OperationStatus.DONE
                kept = before if is_proved else self._secrets.settings_before_in(connection, instance_id)
                if kept is not None:
                    values["settings_before"] = self._secrets.seal_settings_in(
                        connection, kept if settings.provider else _keyless(kept), "settings_before", instance_id
                    )
                if last is not None and not last.status.has_ended:
                    self._operations.move_in(
                        connection, last.id, status=OperationStatus.ABANDONED, outcome="other settings were chosen"
                    )
                update_details(connection, instance_id, **values)
                # Settings hold tokens and users' texts: the audit has only the changed fields and their outline.
                self._note(
                    connection,
                    "settings_changed",
                    subject,
                    before=outline(before),
                    after={**outline(settings), "changed": fields},
                    why=why,
                )
            return self._operations.open_in(connection, _KIND, subject, intent=intent, instance_id=instance_id)


def _keyless(settings: InstanceSettings) -> InstanceSettings:
    return replace(settings, provider=None)

"""Copies of settings on either database: sealed, without tokens, and stale as soon as the settings change."""

from dataclasses import replace

import pytest

from hermesops.access.secrets.keyring.key_ring import KeyRing
from hermesops.model.fleet.instance import Instance, InstanceSettings
from hermesops.model.providers.table import BY_ID
from hermesops.store.registry import Registry
from hermesops.store.registry.database import Database
from hermesops.store.registry.schema.user_tables import settings_copies
from hermesops.store.user_rows.settings_copies import CopyMissingError, SettingsCopies
from hermesops.users.agent_settings.copies import SettingsCopying
from hermesops.users.agent_settings.service import tag_of
from tests.support.real.stores.registries import KEYS, placed
from tests.support.users.model_provider import choice_of

SETTINGS = InstanceSettings(
    personality="secretly kind", disabled_tools=("browser",), messengers={"TELEGRAM_BOT_TOKEN": "42:secret"}
)


@pytest.fixture
def rows(database: Database) -> SettingsCopies:
    return SettingsCopies(database, KEYS)


@pytest.fixture
def copying(registry: Registry, rows: SettingsCopies) -> SettingsCopying:
    return SettingsCopying(registry, lambda: rows)


def changed(registry: Registry, instance: Instance, settings: InstanceSettings) -> None:
    subject = f"instance/{instance.id}"
    registry.settings_changes.change(instance.id, settings, subject=subject, intent={}, why="test")


def test_settings_that_nobody_changed_need_no_copy(
    registry: Registry, rows: SettingsCopies, copying: SettingsCopying
) -> None:
    ada = placed(registry)
    copy = rows.get(ada.user_id)
    assert copy is not None
    assert (copy.settings, copy.copied_at, copy.is_stale) == (InstanceSettings(), None, False)
    assert copying.due() == []


def test_a_changed_setting_is_copied_once_and_is_stale_after_the_next_change(
    registry: Registry, rows: SettingsCopies, copying: SettingsCopying
) -> None:
    ada = placed(registry)
    changed(registry, ada, SETTINGS)
    with pytest.raises(CopyMissingError, match="are not here yet"):
        rows.get(ada.user_id)
    assert copying.due() == [f"settings of {ada.id}"]
    assert [copying.run(), copying.run()] == [1, 0]
    copy = rows.get(ada.user_id)
    assert copy is not None
    assert copy.settings == InstanceSettings(personality="secretly kind", disabled_tools=("browser",))
    assert not copy.is_stale
    changed(registry, ada, InstanceSettings())
    stale = rows.get(ada.user_id)
    assert stale is not None
    assert (stale.settings, stale.is_stale) == (copy.settings, True)


def test_a_change_while_a_copy_is_made_is_copied_by_the_next_look(
    registry: Registry, rows: SettingsCopies, copying: SettingsCopying
) -> None:
    ada = placed(registry)
    changed(registry, ada, SETTINGS)
    settings, revision = registry.instance_secrets.settings_and_revision(ada.id)
    changed(registry, ada, InstanceSettings())
    rows.put(ada.id, settings, revision)
    assert copying.run() == 1
    copy = rows.get(ada.user_id)
    assert copy is not None
    assert (copy.settings, copy.is_stale) == (InstanceSettings(), False)


def test_a_copy_has_no_token_of_a_messenger_and_no_word_in_clear(
    registry: Registry, database: Database, copying: SettingsCopying
) -> None:
    ada = placed(registry)
    changed(registry, ada, SETTINGS)
    copying.run()
    with database.reading() as connection:
        [row] = connection.execute(settings_copies.select())
    assert "kind" not in row.settings
    opened = KEYS.unseal(row.settings, place=f"settings_copies/settings/{ada.id}")
    assert "secret" not in opened.replace("secretly", "")


def test_a_copy_of_another_key_is_missing_and_one_of_a_terminated_agent_is_gone(
    registry: Registry, database: Database, copying: SettingsCopying
) -> None:
    ada = placed(registry)
    changed(registry, ada, SETTINGS)
    copying.run()
    with pytest.raises(CopyMissingError, match="cannot be shown now"):
        SettingsCopies(database, KeyRing("k2", {"k2": bytes(32)})).get(ada.user_id)
    registry.terminations.terminate(ada.id, why="test")
    with database.reading() as connection:
        assert connection.execute(settings_copies.select()).all() == []


def test_a_copy_names_the_users_own_provider_without_its_key(
    registry: Registry, rows: SettingsCopies, copying: SettingsCopying
) -> None:
    ada = placed(registry)
    choice = choice_of(BY_ID["openai"])
    changed(registry, ada, replace(SETTINGS, provider=choice))
    copying.run()
    copy = rows.get(ada.user_id)
    assert copy is not None
    assert copy.settings.provider == choice.without_key()
    assert tag_of(copy.settings) == tag_of(registry.instance_secrets.settings(ada.id))

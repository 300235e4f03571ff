"""Which bots an environment has: those of its settings, or of its local world's stand-ins where it sets none."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hermesops.access.secrets.catalog import CONNECTOR_KEY, TELEGRAM_SECRET, TELEGRAM_TOKEN
from hermesops.access.secrets.environment import secrets_of
from hermesops.app.parts.messaging import link_addresses, messenger_settings
from hermesops.model.messaging.messenger import Messenger
from hermesops.settings.environment import Environment
from tests.support.fakes.parts import part

PHONE = "http://127.0.0.1:1/phone/"
WORLD: Mapping[str, Any] = {
    "messengers": {"telegram_url": "http://127.0.0.1:1/telegram", "telegram_bot": "local_hermes_bot"},
    "connector_url": "https://10.0.0.1:18092",
    "door_url": "",
    "phone_url": PHONE,
}


def container(home: Path, name: str = "local", *, vendors: bool = True, **settings: str) -> Any:  # noqa: ANN401 - it stands for the container
    given = {"HOME": str(home), "HERMESOPS_HOME": str(home)}
    given |= {f"HERMESOPS_MESSENGERS_{key.upper()}": value for key, value in settings.items()}
    if name != "local":
        given["HERMESOPS_API_URL"] = "https://api.example.org/api/v1"
    env = Environment.load(name, given)
    facts = WORLD if vendors else {**dict.fromkeys(WORLD, ""), "messengers": {}}
    container_ = part(env=env, endpoint=part(**facts))
    container_.messenger_settings = messenger_settings(container_)
    return container_


def test_a_local_world_with_vendors_offers_its_own_bot_at_its_own_connector(tmp_path: Path) -> None:
    container_ = container(tmp_path)
    settings = container_.messenger_settings
    assert (settings.telegram_bot, settings.telegram_url) == ("local_hermes_bot", "http://127.0.0.1:1/telegram")
    assert settings.agents_url == "https://10.0.0.1:18092"
    assert link_addresses(container_)[Messenger.TELEGRAM].format(bot="b", code="CODE") == f"{PHONE}#/telegram/CODE"


def test_agents_open_their_sockets_at_the_door_of_the_worlds_platform_once_it_serves_users(tmp_path: Path) -> None:
    container_ = container(tmp_path)
    container_.endpoint.door_url = "https://10.0.0.1:18091"
    assert messenger_settings(container_).agents_url == "https://10.0.0.1:18091"


def test_the_operators_own_bot_wins(tmp_path: Path) -> None:
    container_ = container(tmp_path, telegram_bot="our_bot")
    assert (container_.messenger_settings.telegram_bot, container_.messenger_settings.telegram_url) == ("our_bot", "")
    assert link_addresses(container_)[Messenger.TELEGRAM].startswith("https://t.me/")


@pytest.mark.parametrize(("name", "vendors"), [("local", False), ("staging", True)])
def test_without_stand_ins_there_is_no_bot(tmp_path: Path, name: str, vendors: bool) -> None:  # noqa: FBT001 - a parameter
    assert container(tmp_path, name, vendors=vendors).messenger_settings.telegram_bot == ""


def test_secrets_of_the_stand_in_are_the_worlds_files_in_a_local_world_alone(tmp_path: Path) -> None:
    texts = {TELEGRAM_TOKEN: "1:token", TELEGRAM_SECRET: "hook", CONNECTOR_KEY: "k" * 43}
    for name in ("local", "staging"):
        folder = tmp_path / name / "world"
        folder.mkdir(parents=True)
        for spec, text in texts.items():
            (folder / spec.name).write_text(text)
            (folder / spec.name).chmod(0o600)
        (folder / "world.json").write_text(json.dumps(WORLD))
        secrets = secrets_of(container(tmp_path, name).env)
        assert {spec: secrets.find(spec) for spec in texts} == (texts if name == "local" else dict.fromkeys(texts))

"""Which connector a machine is handed: one secret for each agent and generation, and none without all that it needs."""

from dataclasses import replace

import pytest

from hermesops.errors import UsageError
from hermesops.model.ids import InstanceId
from hermesops.settings.sections import MessengerSettings
from hermesops.users.messaging.handover import ConnectorHandover
from hermesops.users.messaging.relay_secrets import derive
from hermesops.wire.protocol import Connector

ADA, BOB = InstanceId("7a0d3b52-4d5c-4bd0-9c8b-0d5f6d1f2a11"), InstanceId("8b0d3b52-4d5c-4bd0-9c8b-0d5f6d1f2a22")
NEW, OLD = "n" * 32, "o" * 32
SETTINGS = MessengerSettings.model_validate({"telegram_bot": "our_bot", "agents_url": "https://agents.example"})
HANDOVER = ConnectorHandover(SETTINGS, lambda: f"{NEW}\n{OLD}\n", lambda _: 3)


def secret_of(handover: ConnectorHandover, instance_id: InstanceId = ADA) -> str:
    connector = handover.of_instance(instance_id)
    assert connector
    return connector.secret


def test_the_newest_key_signs_and_the_bot_and_the_url_are_those_of_settings() -> None:
    expected = Connector("https://agents.example", derive(NEW.encode(), ADA, 3), {"telegram": "our_bot"})
    assert HANDOVER.of_instance(ADA) == expected


def test_another_agent_generation_or_key_is_another_secret() -> None:
    others = [
        secret_of(HANDOVER, BOB),
        secret_of(replace(HANDOVER, generation=lambda _: 4)),
        secret_of(replace(HANDOVER, key=lambda: OLD)),
    ]
    assert len({secret_of(HANDOVER), *others}) == 4


@pytest.mark.parametrize(
    "handover",
    [
        replace(HANDOVER, settings=SETTINGS.model_copy(update={"telegram_bot": ""})),
        replace(HANDOVER, settings=SETTINGS.model_copy(update={"agents_url": ""})),
        replace(HANDOVER, key=lambda: None),
    ],
)
def test_without_a_bot_a_url_or_a_key_no_socket_is_opened(handover: ConnectorHandover) -> None:
    assert handover.of_instance(ADA) is None


def test_the_key_is_not_read_where_no_socket_is_opened() -> None:
    def unread() -> str:
        raise AssertionError

    assert replace(HANDOVER, settings=MessengerSettings.model_validate({}), key=unread).of_instance(ADA) is None


@pytest.mark.parametrize("text", ["", "\n", "short", f"{NEW}\nshort"])
def test_a_short_key_derives_nothing(text: str) -> None:
    with pytest.raises(UsageError, match=r"connector\.key"):
        replace(HANDOVER, key=lambda: text).of_instance(ADA)


def test_no_secret_shows_in_a_representation() -> None:
    assert NEW not in repr(HANDOVER)
    assert secret_of(HANDOVER) not in repr(HANDOVER.of_instance(ADA))

import json
from dataclasses import asdict, fields
from typing import Any

import pytest

from hermesops.model.instance import InstanceSettings
from hermesops.node.errors import BadRequestError
from hermesops.node.protocol import Identity, Payload, Secrets, Settings

_CANARY = "CANARY" * 8


def a_payload(settings: Settings) -> Payload:
    return Payload(
        Identity("0b9f3a52-5d1c", "u-1", "light", "c1", 3),
        Secrets(_CANARY, "hm1.x.1.0123456789abcdef"),
        "http://10.0.0.1:18080/v1",
        settings,
    )


def changed(path: str, value: object) -> bytes:
    raw: dict[str, Any] = json.loads(a_payload(Settings()).to_json())
    *folders, last = path.split(".")
    place = raw
    for folder in folders:
        place = place[folder]
    place[last] = value
    return json.dumps(raw).encode()


def test_a_payload_survives_the_way_to_the_machine() -> None:
    payload = a_payload(
        Settings(
            model="gpt-4o",
            personality="Terse.\nKind.",
            messengers={"TELEGRAM_BOT_TOKEN": "1:x"},
            mcp_servers={"notes": {"url": "http://127.0.0.1:1/mcp"}},
            cron=({"cron": "0 9 * * *", "prompt": "Good morning", "enabled": False},),
            disabled_tools=("browser",),
        )
    )
    assert Payload.from_json(payload.to_json()) == payload


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("version", 0),
        ("surprise", 1),
        ("identity.epoch", True),
        ("identity.epoch", -1),
        ("identity.instance", "../etc"),
        ("secrets.api_server_key", "short"),
        ("secrets.api_server_key", _CANARY + "\nINJECTED=1"),
        ("secrets.model_token", ""),
        ("model_base_url", "file:///etc/shadow"),
        ("settings.messengers", {"TELEGRAM_BOT_TOKEN": _CANARY + "\nAPI_SERVER_KEY=x"}),
        ("settings.messengers", {"lower": _CANARY}),
        ("settings.messengers", {"NOBODY_TOKEN": _CANARY}),
        ("settings.messengers", {"SLACK_BOT_TOKEN": _CANARY + "'"}),
        ("settings.mcp_servers", {"notes": _CANARY}),
        ("settings.mcp_servers", {"notes": {"headers": {"a": _CANARY}}}),
        ("settings.mcp_servers", {"notes": {"url": "http://x", "command": _CANARY}}),
        ("settings.cron", [{"cron": _CANARY, "prompt": "x"}]),
        ("settings.cron", [{"cron": "* * * * *"}]),
        ("settings.disabled_tools", [{"x": _CANARY}]),
    ],
)
def test_what_is_not_a_payload_is_refused_without_repeating_it(path: str, value: object) -> None:
    with pytest.raises(BadRequestError) as caught:
        Payload.from_json(changed(path, value))
    assert _CANARY not in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b"\xff", b"null"])
def test_what_is_no_object_is_refused(data: bytes) -> None:
    with pytest.raises(BadRequestError):
        Payload.from_json(data)


def test_secrets_do_not_show_in_a_representation() -> None:
    assert _CANARY not in repr(
        a_payload(Settings(messengers={"TELEGRAM_BOT_TOKEN": _CANARY}, mcp_servers={"a": {"k": _CANARY}}))
    )


def test_the_users_settings_have_the_fields_and_defaults_of_the_model() -> None:
    assert [field.name for field in fields(Settings)] == [field.name for field in fields(InstanceSettings)]
    assert asdict(Settings()) == asdict(InstanceSettings())
    assert [field.repr for field in fields(Settings)] == [field.repr for field in fields(InstanceSettings)]


def test_what_is_left_out_of_settings_is_the_default() -> None:
    assert Settings.parse({}) == Settings()

"""Nothing secret is in what is shown, and all of it is in what is searched for."""

import json
from dataclasses import replace

from hermesops.model.access.masking import changed, has_mask, masked, outline, secrets_in
from hermesops.model.fleet.instance import InstanceSettings
from hermesops.model.providers.table import BY_ID
from tests.support.users.model_provider import choice_of

CANARY = "canary-3f9b"
SETTINGS = InstanceSettings(
    model="gpt-4o",
    personality="Terse.",
    messengers={"TELEGRAM_BOT_TOKEN": f"{CANARY}-1"},
    mcp_servers={
        "files": {
            "command": "uvx",
            "args": ["-y", "--key", f"{CANARY}-2"],
            "env": {"A": f"{CANARY}-3", "PIN": 12345678, "auth": f"{CANARY}-A", "command": f"{CANARY}-B"},
        },
        "notes": {
            "url": f"https://me:{CANARY}-4@example.org:8443/hook/{CANARY}-5?key={CANARY}-6",
            "headers": {"Authorization": f"Bearer {CANARY}-7", "auth": f"{CANARY}-C"},
            "timeout": 5,
            "enabled": True,
            "tools": {"include": ["read"]},
            "new_in_some_release": {"deep": [f"{CANARY}-8"]},
        },
        "shell": {"command": f"sh -c {CANARY}-9"},
    },
    cron=({"cron": "0 9 * * *", "prompt": "Good morning", "enabled": True},),
)


def test_what_is_shown_holds_no_secret() -> None:
    shown = masked(SETTINGS)
    assert CANARY not in json.dumps(shown)
    assert "12345678" not in json.dumps(shown)
    assert shown["messengers"] == {"TELEGRAM_BOT_TOKEN": "***"}
    assert shown["mcp_servers"] == {
        "files": {
            "command": "uvx",
            "args": ["***", "***", "***"],
            "env": {"A": "***", "PIN": "***", "auth": "***", "command": "***"},
        },
        "notes": {
            "url": "https://example.org:8443/***",
            "headers": {"Authorization": "***", "auth": "***"},
            "timeout": 5,
            "enabled": True,
            "tools": {"include": ["read"]},
            "new_in_some_release": {"deep": ["***"]},
        },
        "shell": {"command": "***"},
    }


def test_the_outline_holds_neither_secrets_nor_words() -> None:
    text = json.dumps(outline(SETTINGS))
    assert not [word for word in (CANARY, "Terse", "Good morning") if word in text]
    assert outline(SETTINGS)["cron"] == ["0 9 * * *"]


def test_every_secret_is_known_to_whoever_scrubs_a_log() -> None:
    line = " ".join(f"{CANARY}-{n}" for n in "123456789ABC")
    for secret in sorted(secrets_in(SETTINGS), key=len, reverse=True):
        line = line.replace(secret, "***")
    assert CANARY not in line
    assert not [secret for secret in secrets_in(SETTINGS) if len(secret) < 8]


def test_a_mask_given_back_is_noticed() -> None:
    assert not has_mask(SETTINGS)
    assert has_mask(InstanceSettings(messengers={"SLACK_BOT_TOKEN": "***"}))
    assert has_mask(InstanceSettings(mcp_servers={"a": {"url": "https://example.org/***"}}))


def test_fields_that_differ_are_named() -> None:
    assert changed(InstanceSettings(), SETTINGS) == ["model", "personality", "messengers", "mcp_servers", "cron"]
    assert changed(SETTINGS, SETTINGS) == []


def test_no_header_and_no_variable_is_harmless_whatever_it_is_called() -> None:
    entry = {"headers": {"auth": CANARY}, "env": {"command": CANARY}, "auth": "oauth"}
    settings = InstanceSettings(mcp_servers={"notes": entry})
    shown = masked(settings)["mcp_servers"]
    assert shown == {"notes": {"headers": {"auth": "***"}, "env": {"command": "***"}, "auth": "oauth"}}
    assert secrets_in(settings).count(CANARY) >= 2


def test_a_users_key_for_models_is_shown_nowhere_and_searched_for() -> None:
    choice = choice_of(BY_ID["openai"], key=f"sk-proj-{CANARY}-000000")
    settings = replace(SETTINGS, provider=choice)
    assert CANARY not in json.dumps(outline(settings))
    assert outline(settings)["provider"] == {
        "id": "openai",
        "model": "gpt-5.2",
        "base_url": None,
        "verified_at": None,
    }
    assert "provider" not in outline(SETTINGS)
    assert masked(settings) == masked(SETTINGS), "these are the settings that one file replaces"
    assert choice.key in secrets_in(settings)
    assert changed(SETTINGS, settings) == ["provider"]
    assert choice.key not in repr(settings)

"""Stand-ins of messengers before a door whose API is away, and after another start of the world."""

from typing import Any

import httpx
import pytest

from hermesops.localcloud.vendors import telegram
from hermesops.localcloud.vendors.discord import LocalDiscord
from hermesops.localcloud.vendors.telegram import LocalTelegram
from tests.support.fakes.parts import part


async def test_an_update_outlives_a_page_of_the_door_in_the_place_of_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telegram, "_AGAIN_S", 0.0)
    answers = [httpx.Response(502, text="<html>Bad Gateway</html>"), httpx.Response(204)]

    async def request(*_: object, **__: object) -> httpx.Response:
        return answers.pop(0)

    door: Any = part(request=request)
    vendor = LocalTelegram(webhook="https://door.test/webhooks/telegram", door=lambda: door)
    assert await vendor.deliver(vendor.message(1, "hello")) == 2


def test_discords_public_key_is_the_same_after_another_start() -> None:
    assert LocalDiscord("token").public_key == LocalDiscord("token").public_key
    assert LocalDiscord("token").public_key != LocalDiscord("other").public_key

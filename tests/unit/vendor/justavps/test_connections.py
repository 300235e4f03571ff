"""Connections say nothing of where they lead, whatever logging is configured around them."""

import logging

import httpx
import pytest

from hermesops.localcloud.proxy import broker
from hermesops.vendor.justavps.connections import http_client
from tests.support.vendor.listed_answers import Answers, json


async def test_no_address_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with http_client(httpx.URL("http://vendor.invalid"), transport=Answers(json(200, {}))) as http:
        await http.get("http://vendor.invalid/?__proxy_token=CANARY")
    assert "CANARY" not in caplog.text


@pytest.mark.parametrize("name", ["httpx", "httpcore.connection", "httpcore.http11", "httpcore.proxy"])
def test_the_libraries_below_say_warnings_only(name: str) -> None:
    assert broker
    assert not logging.getLogger(name).isEnabledFor(logging.INFO)

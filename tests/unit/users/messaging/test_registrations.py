"""Whether a bot and its webhook are right, by what the messenger says of them."""

import pytest

from hermesops.model.check import Verdict
from hermesops.users.messaging.messengers.telegram.send import Webhook
from hermesops.users.messaging.messengers.whatsapp.send import Number
from hermesops.users.messaging.registrations import whatsapp
from hermesops.users.messaging.registrations.telegram import judged_name, judged_webhook

URL = "https://agents.test/webhooks/telegram"


def test_a_token_is_of_the_bot_that_the_settings_name() -> None:
    assert judged_name("our_bot", "our_bot").verdict is Verdict.OK
    other = judged_name("other_bot", "our_bot")
    assert (other.verdict, "messengers.telegram_bot other_bot" in str(other.hint)) == (Verdict.FAILED, True)


@pytest.mark.parametrize(
    ("webhook", "expected", "verdict", "words"),
    [
        (Webhook(URL), URL, Verdict.OK, URL),
        (Webhook(URL), "", Verdict.OK, URL),
        (Webhook(""), URL, Verdict.FAILED, "no address"),
        (Webhook("https://old.test/webhooks/telegram"), URL, Verdict.FAILED, "not to https://agents.test"),
        (Webhook(URL, problem="Wrong response from the webhook: 401"), URL, Verdict.WARNING, "401"),
        (Webhook(URL, waiting=101), URL, Verdict.WARNING, "101 updates wait"),
        (Webhook(URL, waiting=100), URL, Verdict.OK, URL),
    ],
)
def test_a_webhook_is_ours_and_takes_updates(webhook: Webhook, expected: str, verdict: Verdict, words: str) -> None:
    check = judged_webhook(webhook, expected)
    assert (check.verdict, words in check.seen) == (verdict, True), check
    if verdict is Verdict.FAILED:
        assert "messenger register telegram" in str(check.hint)


@pytest.mark.parametrize(
    ("number", "verdict", "words"),
    [
        (Number("15550001111", "GREEN"), Verdict.OK, "+15550001111"),
        (Number("15550001111", "RED"), Verdict.WARNING, "many people have blocked"),
        (Number("15550002222"), Verdict.FAILED, "the settings name +15550001111"),
    ],
)
def test_a_number_at_whatsapp_is_that_of_the_settings(number: Number, verdict: Verdict, words: str) -> None:
    check = whatsapp.judged_number(number, "15550001111")
    assert (check.verdict, words in check.seen) == (verdict, True), check


@pytest.mark.parametrize(
    ("url", "expected", "verdict"),
    [
        (URL, URL, Verdict.OK),
        (URL, "", Verdict.OK),
        ("", URL, Verdict.FAILED),
        ("https://old.test/webhooks/whatsapp", URL, Verdict.FAILED),
    ],
)
def test_reports_of_whatsapp_come_to_us(url: str, expected: str, verdict: Verdict) -> None:
    check = whatsapp.judged_webhook(url, expected)
    assert check.verdict is verdict
    if verdict is Verdict.FAILED:
        assert "messenger register whatsapp" in str(check.hint)

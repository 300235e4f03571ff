"""What Stripe's API says of a subscription, by Stripe's own client, is one more event: the newest."""

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from hermesops.errors import HermesError, RefusedError, UnavailableError
from hermesops.model.billing.events import DELETED
from hermesops.settings.sections import BillingSettings
from hermesops.users.billing.current import StripeSubscriptions
from hermesops.users.billing.secrets import rules_of, stripe_api
from hermesops.users.billing.stripe_api import StripeApi
from tests.support.billing.stripe_events import USER, subscription
from tests.support.fakes.parts import part

KEY = "rk_test_of_this_test"
SETTINGS = BillingSettings.model_validate({})


@dataclass
class Answers:
    """What the server answers next, and what it was asked."""

    status: int = 200
    body: Any = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    url: str = ""

    def api(self) -> StripeSubscriptions:
        return StripeSubscriptions(StripeApi(KEY, self.url), "user_id")


@pytest.fixture
def answers() -> Iterator[Answers]:
    answers = Answers()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answers.asked.append((self.path, self.headers["Authorization"]))
            body = json.dumps(answers.body).encode()
            self.send_response(answers.status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    answers.url = f"http://127.0.0.1:{server.server_port}"
    yield answers
    server.shutdown()
    server.server_close()


async def test_a_subscription_is_read_as_it_is(answers: Answers) -> None:
    answers.body = subscription("sub_1", price="price_heavy", status="past_due")
    fact = await answers.api().get("sub_1")
    assert (fact.user_id, fact.prices, fact.status, fact.event_id) == (USER, ("price_heavy",), "past_due", "")
    assert answers.asked == [("/v1/subscriptions/sub_1", f"Bearer {KEY}")]
    answers.body = subscription("sub_1", status="canceled")
    assert (await answers.api().get("sub_1")).type == DELETED


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (401, {"error": {"message": "Invalid API Key", "type": "invalid_request_error"}}, RefusedError),
        (403, {"error": {"message": "not allowed"}}, RefusedError),
        (404, {"error": {"message": "No such subscription", "type": "invalid_request_error"}}, RefusedError),
        (429, {"error": {"message": "slow down"}}, UnavailableError),
        (500, {}, UnavailableError),
        (200, {"object": "subscription", "id": "sub_1"}, UnavailableError),
        (200, subscription("sub_1", user="ada"), RefusedError),
    ],
)
async def test_what_it_cannot_say_is_an_error_without_the_key(
    answers: Answers, status: int, body: object, error: type[HermesError]
) -> None:
    answers.status, answers.body = status, body
    with pytest.raises(error) as failed:
        await answers.api().get("sub_1")
    assert KEY not in f"{failed.value}{failed.value.hint}"


async def test_nobody_there_is_no_answer() -> None:
    with pytest.raises(UnavailableError, match="Stripe does not answer"):
        await StripeSubscriptions(StripeApi(KEY, "http://127.0.0.1:9"), "user_id").get("sub_1")


@pytest.mark.parametrize(
    ("key", "is_production", "works"),
    [("rk_test_x", False, True), ("sk_live_x", True, True), ("rk_live_x", False, False), ("pk_test_x", False, False)],
)
def test_a_key_of_the_other_mode_is_refused(key: str, is_production: bool, works: bool) -> None:  # noqa: FBT001 - pytest's
    secrets = part(find=lambda _: key)
    if works:
        assert stripe_api(SETTINGS, secrets, is_production=is_production) is not None
        return
    with pytest.raises(RefusedError, match="mode"):
        stripe_api(SETTINGS, secrets, is_production=is_production)


def test_nothing_is_asked_without_a_key() -> None:
    assert stripe_api(SETTINGS, part(find=lambda _: None), is_production=True) is None


@pytest.mark.parametrize(
    ("livemode", "is_production", "live"),
    [("auto", True, True), ("auto", False, False), ("test", True, False), ("live", False, True)],
)
def test_live_events_are_productions(livemode: str, is_production: bool, live: bool) -> None:  # noqa: FBT001 - pytest's
    settings = BillingSettings.model_validate({"livemode": livemode})
    rules = rules_of(settings, part(read=lambda _: "whsec_new\n\nwhsec_old\n"), is_production=is_production)
    assert (rules.livemode, rules.secrets) == (live, ("whsec_new", "whsec_old"))


@pytest.mark.parametrize("text", ["sk_live_x", "whsec_a\nrubbish", "\n"])
def test_something_else_than_a_signing_secret_is_refused(text: str) -> None:
    secrets = part(read=lambda _: text, where=lambda _: "keys/billing.secret")
    with pytest.raises(RefusedError, match=r"keys/billing\.secret has something else") as refused:
        rules_of(SETTINGS, secrets, is_production=True)
    assert "rubbish" not in refused.value.message

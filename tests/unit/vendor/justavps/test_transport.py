import traceback

import httpx
import pytest
from structlog.testing import capture_logs

from hermesops.errors import RefusedError, UnavailableError, UnknownOutcomeError
from hermesops.vendor.justavps import Client, MachineOrder, errors
from tests.support.vendor.listed_answers import Answer, Answers, json

URL = "https://vendor.invalid/api/v1"
KEY = "sk_live_CANARYAPIKEY"
ROOT_KEY = "CANARYROOTKEYCANARYROOTKEYCANARYROOTKEYCANARYROOTKEYCANARYROOTKEYCANARYROOTKEY"
PEM = f"-----BEGIN OPENSSH PRIVATE KEY-----\n{ROOT_KEY}\n-----END OPENSSH PRIVATE KEY-----"
ORDER = MachineOrder(name="n", server_type="starter", region="hel1")


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds of each wait, none of which is waited for."""
    waited: list[float] = []

    async def pause(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr("hermesops.vendor.justavps.transport.pause", pause)
    return waited


def _client(*answers: Answer) -> tuple[Client, Answers]:
    transport = Answers(*answers)
    return Client(URL, KEY, transport=transport), transport


@pytest.mark.parametrize(
    ("status", "kind", "operator"),
    [
        (400, errors.NotAllowedError, RefusedError),
        (401, errors.UnauthorisedError, RefusedError),
        (402, errors.PaymentRequiredError, RefusedError),
        (403, errors.ForbiddenError, RefusedError),
        (404, errors.NotFoundError, RefusedError),
        (408, errors.CommandTimedOutError, UnknownOutcomeError),
        (409, errors.ConflictError, RefusedError),
        (413, errors.TooLargeError, RefusedError),
        (422, errors.UnprocessableError, RefusedError),
        (429, errors.RateLimitedError, UnavailableError),
        (301, errors.ChangeNotJsonError, UnknownOutcomeError),
    ],
)
async def test_each_refusal_is_a_type_that_says_what_to_do(
    status: int, kind: type[errors.AnswerError], operator: type[Exception]
) -> None:
    client, _ = _client(json(status, {"error": True, "message": "because", "status": status}))
    with pytest.raises(kind, match="because") as raised:
        await client.stop_machine("m1")
    assert isinstance(raised.value, operator)
    assert raised.value.status == status
    assert raised.value.request_id


@pytest.mark.parametrize(("code", "hint"), [("", "run the same command again"), ("file_exists", "")])
@pytest.mark.parametrize("status", [404, 409])
async def test_a_machine_that_is_unknown_or_being_changed_can_be_asked_again_and_a_file_cannot(
    status: int, code: str, hint: str
) -> None:
    document = {"error": "because", "code": code} if code else {"message": "because", "status": status}
    client, _ = _client(json(status, document))
    with pytest.raises((errors.ConflictError, errors.NotFoundError), match="because") as raised:
        await client.stop_machine("m1")
    assert (hint in str(raised.value.hint), bool(raised.value.hint)) == (True, bool(hint))


async def test_a_5xx_to_a_change_is_unknown_and_to_a_read_is_not() -> None:
    client, _ = _client(json(503, {"message": "later"}))
    with pytest.raises(errors.ChangeServerError, match="503, later") as change:
        await client.stop_machine("m1")
    assert isinstance(change.value, UnknownOutcomeError)
    with pytest.raises(errors.ReadServerError, match="503, later") as read:
        await client.get_machine("m1")
    assert isinstance(read.value, UnavailableError)
    assert all("run the same command again" in str(raised.value.hint) for raised in (change, read))


@pytest.mark.parametrize(
    "cause", [httpx.ReadTimeout(""), httpx.RemoteProtocolError("hung up"), httpx.ReadError(""), httpx.WriteError("")]
)
async def test_a_lost_answer_to_a_change_is_unknown(cause: Exception) -> None:
    client, answers = _client(cause)
    with pytest.raises(errors.LostChangeError, match=r"stop: no answer"):
        await client.stop_machine("m1")
    assert len(answers.requests) == 1


@pytest.mark.parametrize("cause", [httpx.ConnectError("refused"), httpx.ConnectTimeout(""), httpx.PoolTimeout("")])
async def test_what_was_never_sent_is_safe_to_repeat(cause: Exception) -> None:
    client, _ = _client(cause)
    with pytest.raises(errors.UnreachableError, match="stop: not reachable") as raised:
        await client.stop_machine("m1")
    assert isinstance(raised.value, UnavailableError)


@pytest.mark.parametrize("first", [httpx.ConnectError(""), httpx.ReadTimeout(""), json(502, {}), json(429, {})])
async def test_reads_are_tried_again(first: Answer) -> None:
    client, answers = _client(first, first, json(200, {"id": "m1"}))
    assert (await client.get_machine("m1")).id == "m1"
    assert len(answers.requests) == 3


@pytest.mark.parametrize(
    ("expected", "least", "most"),
    [("7", 7, 7), ("86400", 30, 30), ("9" * 400, 30, 30), ("", 0, 2), ("-5", 0, 2), ("soon", 0, 2)],
)
async def test_the_vendor_says_when_to_ask_again_within_reason(
    waits: list[float], expected: str, least: float, most: float
) -> None:
    busy = httpx.Response(429, headers={"retry-after": expected}, json={})
    client, _ = _client(busy, busy, json(200, {"id": "m1"}))
    assert (await client.get_machine("m1")).id == "m1"
    assert len(waits) == 2
    assert all(least <= wait <= most for wait in waits)


async def test_reads_are_not_tried_for_ever() -> None:
    client, answers = _client(json(500, {}))
    with pytest.raises(errors.ReadServerError, match="GET /images: 500"):
        await client.list_images()
    assert len(answers.requests) == 3


async def test_a_refused_read_is_not_tried_again() -> None:
    client, answers = _client(json(401, {}))
    with pytest.raises(errors.UnauthorisedError, match="GET /account: 401"):
        await client.get_account()
    assert len(answers.requests) == 1


async def test_payment_names_where_to_pay() -> None:
    body = {"requires_checkout": True, "checkout_url": "https://pay.invalid/1", "message": "no card"}
    client, _ = _client(json(200, {"machines": []}), json(402, body))
    with pytest.raises(errors.PaymentRequiredError, match="402, no card") as raised:
        await client.create_machine(ORDER)
    assert raised.value.checkout_url == "https://pay.invalid/1"
    assert "https://pay.invalid/1" in str(raised.value.hint)


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b"<html>Bad gateway</html>", "an answer that is not JSON"),
        (b"[1, 2]", r"of an unknown form \(at its top\)"),
        (b'"text"', r"of an unknown form \(at its top\)"),
        (b"null", r"of an unknown form \(at its top\)"),
        (b'{"machine": {}}', r"of an unknown form \(at id\)"),
        (b"{broken", "an answer that is not JSON"),
        (b"[" * 100_000, "an answer that is not JSON"),
    ],
)
async def test_what_is_not_the_json_we_know_is_named(body: bytes, named: str) -> None:
    client, _ = _client(httpx.Response(200, content=body))
    with pytest.raises(errors.NotJsonError, match=named):
        await client.get_machine("m1")


@pytest.mark.parametrize("body", [b"<html>", b"[" * 100_000])
async def test_a_refusal_that_is_not_json_is_a_refusal(body: bytes) -> None:
    client, _ = _client(httpx.Response(409, content=body))
    with pytest.raises(errors.ConflictError, match="409, an answer that is not JSON"):
        await client.stop_machine("m1")


async def test_content_type_is_sent_with_a_body_only() -> None:
    client, answers = _client(json(202, {"id": "i1"}))
    await client.stop_machine("m1")
    await client.save_image("m1", name="n")
    assert "content-type" not in answers.requests[0].headers
    assert answers.requests[1].headers["content-type"] == "application/json"


async def test_each_request_has_an_id_of_its_own() -> None:
    client, answers = _client(json(500, {}))
    with pytest.raises(errors.ReadServerError, match="GET /images: 500"):
        await client.list_images()
    ids = {request.headers["x-request-id"] for request in answers.requests}
    assert len(ids) == 3


def _leaking(status: int, body: bytes) -> list[Answer]:
    return [httpx.Response(status, content=body)]


@pytest.mark.parametrize(
    "body",
    [
        f'{{"error": true, "message": "cannot store {PEM}", "status": 500}}'.replace("\n", "\\n").encode(),
        f'{{"error": "{ROOT_KEY}", "code": "{ROOT_KEY}"}}'.encode(),
        f'{{"ssh_key": {{"private_key": "{ROOT_KEY}"}}}}'.encode(),
        f"<html>{PEM}</html>".encode(),
        f'{{"id": {{"private_key": "{ROOT_KEY}"}}, "created_at": "{ROOT_KEY}"}}'.encode(),
        f'{{"message": "key {KEY} is odd"}}'.encode(),
    ],
)
@pytest.mark.parametrize("status", [200, 422, 500])
async def test_no_error_and_no_log_repeats_a_key(status: int, body: bytes) -> None:
    client, _ = _client(*_leaking(status, body))
    with capture_logs() as logs, pytest.raises(errors.JustAvpsError, match=f"GET /machines/m1: {status}") as raised:
        await client.get_machine("m1")
    chain: BaseException | None = raised.value
    text = str(logs) + "".join(traceback.format_exception(raised.value))
    while chain is not None:
        text += repr(chain) + str(vars(chain))
        chain = chain.__cause__ or chain.__context__
    assert "CANARY" not in text
    assert logs


async def test_a_log_line_has_path_and_outcome_and_neither_query_nor_body() -> None:
    client, _ = _client(json(200, {"exit_code": 0, "stdout": "CANARYOUT"}))
    with capture_logs() as logs:
        await client.toolbox.upload("m1", "/run/CANARYPATH", b"CANARYCONTENT")
    assert [(line["method"], line["path"], line["outcome"]) for line in logs] == [
        ("POST", "/machines/m1/toolbox/files/upload", 200)
    ]
    assert "CANARY" not in str(logs)


def test_a_client_does_not_show_its_key() -> None:
    client, _ = _client(json(200, {}))
    assert KEY not in repr(client) + repr(vars(client)) + repr(client.toolbox)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\n b\tc", "a b c"),
        (f"x {ROOT_KEY} y", "x […] y"),
        ("key sk_live_abc123 unknown", "key sk_[…] unknown"),
        ("-----BEGIN RSA PRIVATE KEY-----", "(withheld: the answer carries key material)"),
        ("bell\x07", r"bell\x07"),
    ],
)
def test_words_are_scrubbed_before_they_are_shown(text: str, shown: str) -> None:
    assert errors.scrubbed(text) == shown


def test_long_words_are_cut() -> None:
    assert len(errors.scrubbed("word " * 1000)) < 400

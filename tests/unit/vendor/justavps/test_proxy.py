import httpx
import pytest

from hermesops.vendor.justavps import Machine, Port, ProxyClient, errors
from tests.support.suite.cases import each_case
from tests.support.vendor.listed_answers import Answer, Answers, json

API = "http://127.0.0.1:4100/api/v1"


def _machine(template: str) -> Machine:
    return Machine.model_validate({"id": "m1", "slug": "edge", "urls": {"port_template": template}})


LOCAL = _machine("http://{port}--edge.localhost:4100")
RENTED = _machine("https://{port}--edge.example.net")


def _proxy(*answers: Answer) -> tuple[ProxyClient, Answers]:
    transport = Answers(*answers)
    return ProxyClient(API, transport=transport), transport


async def test_a_name_under_localhost_is_reached_at_the_apis_address() -> None:
    proxy, answers = _proxy(json(200, {"status": "ok"}))
    answer = await proxy.request(Port.of(LOCAL, 8642, "t"), "GET", "/health?deep=1")
    assert (answer.ok, answer.json()) == (True, {"status": "ok"})
    request = answers.requests[0]
    assert str(request.url) == "http://127.0.0.1:4100/health?deep=1"
    assert request.headers["host"] == "8642--edge.localhost:4100"


async def test_any_other_name_is_left_to_the_resolver() -> None:
    answers = Answers(json(200, {}))
    proxy = ProxyClient("https://api.example.com/v1", domain="example.net", transport=answers)
    await proxy.request(Port.of(RENTED, 8642, "t"), "GET", "/health")
    assert str(answers.requests[0].url) == "https://8642--edge.example.net/health"
    assert answers.requests[0].headers["host"] == "8642--edge.example.net"


@each_case(
    "template",
    [
        "http://{port}--edge.vendor.example",  # in clear
        "ftp://{port}--edge.vendor.example",
        "https://{port}--edge.attacker.example",
        "https://{port}--edge.notvendor.example",
        "https://vendor.example.attacker.example/{port}",
        "https://vendor.example:x@attacker.example/{port}",
        "https://{port}@edge.vendor.example",
        "https://{port}--edge.localhost",
        "https://127.0.0.1/{port}",
        "https://[::1]/{port}",
        "https://10.0.0.1/{port}",
        "//{port}.vendor.example",
        "{port}",
        "https://edge vendor.example\n/{port}",
        "https://[{port}",
    ],
)
async def test_a_port_that_the_vendor_places_elsewhere_gets_no_token(template: str) -> None:
    answers = Answers(json(200, {}))
    proxy = ProxyClient("https://vendor.example/api/v1", transport=answers)
    with pytest.raises(errors.UnreachableError, match="no token is sent there") as raised:
        await proxy.request(Port.of(_machine(template), 8642, "CANARY"), "GET", "/health")
    assert "proxy_domain" in str(raised.value.hint)
    assert answers.requests == []


async def test_ports_are_served_below_the_apis_own_host_or_the_domain_that_is_set() -> None:
    for domain, template in (
        ("", "https://{port}--e.vendor.example"),
        ("cloud.example", "https://{port}.cloud.example"),
    ):
        answers = Answers(json(200, {}))
        proxy = ProxyClient("https://vendor.example/api/v1", domain=domain, transport=answers)
        assert (await proxy.request(Port.of(_machine(template), 8642, "t"), "GET", "/")).ok


async def test_the_token_goes_in_its_header_beside_the_services_own() -> None:
    proxy, answers = _proxy(json(200, {}))
    await proxy.request(Port.of(LOCAL, 1, "CANARY"), "POST", "/x", headers={"Authorization": "Bearer b"}, body={"a": 1})
    request = answers.requests[0]
    assert (request.headers["x-proxy-token"], request.headers["authorization"]) == ("CANARY", "Bearer b")
    assert "CANARY" not in str(request.url)
    assert request.content == b'{"a":1}'


async def test_what_a_service_answers_is_not_judged() -> None:
    proxy, _ = _proxy(httpx.Response(502, content=b"<html>"))
    answer = await proxy.request(Port.of(LOCAL, 1, "t"), "GET", "/")
    assert (answer.status, answer.ok, answer.json(), answer.body) == (502, False, None, b"<html>")


async def test_events_are_read_as_they_come() -> None:
    proxy, _ = _proxy(httpx.Response(200, content=b"data: one\n\ndata: [DONE]\n\n"))
    async with proxy.stream(Port.of(LOCAL, 1, "t"), "POST", "/chat", body={}) as stream:
        assert stream.status == 200
        assert [event.data async for event in stream.events()] == ["one", "[DONE]"]


@pytest.mark.parametrize(
    ("cause", "method", "kind", "message"),
    [
        (httpx.ConnectError("refused"), "POST", errors.UnreachableError, r"not reachable \(refused\)"),
        (httpx.ReadTimeout(""), "POST", errors.LostChangeError, "no answer"),
        (httpx.ReadTimeout(""), "GET", errors.LostReadError, "no answer"),
    ],
)
async def test_silence_is_named_without_token_or_query(
    cause: Exception, method: str, kind: type[Exception], message: str
) -> None:
    proxy, _ = _proxy(cause)
    port = Port.of(LOCAL, 1, "CANARY")
    with pytest.raises(kind, match=message) as raised:
        await proxy.request(port, method, "/x?secret=CANARY")
    assert "CANARY" not in str(raised.value) + repr(port)


def test_without_a_template_there_is_no_address() -> None:
    with pytest.raises(errors.NotJsonError, match=r"no urls\.port_template"):
        Port.of(Machine.model_validate({"id": "m1"}), 1, "t")

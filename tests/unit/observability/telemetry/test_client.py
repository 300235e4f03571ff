"""Whatever monitoring answers, a question ends in time, and with an error of ours or with JSON."""

import pytest

from hermesops.base.waiting import pause
from hermesops.errors import HermesError, RefusedError, UnavailableError, UnknownOutcomeError
from hermesops.observability.telemetry.client import MonitoringClient, Question, WrongQuestionError
from tests.support.fakes.monitoring import Answer, fake_monitoring
from tests.support.suite.cases import each_case

ASK = Question("/prometheus/api/v1/query", (("query", 'up{job="x"} > 0'),), within_s=0.3, largest=1000)
CHANGE = Question("/alertmanager/api/v2/silences", method="POST", body={"a": 1}, within_s=0.3, changes=True)


async def test_question_and_answer_arrive_whole() -> None:
    async with fake_monitoring() as monitoring:
        monitoring.answers["GET /prometheus/"] = Answer({"data": [1, "Å"]})
        assert await monitoring.client.ask(ASK) == {"data": [1, "Å"]}
        assert monitoring.asked[0].params == ASK.params
        monitoring.answers["POST /alertmanager/"] = Answer(b"")
        assert await monitoring.client.ask(CHANGE) is None
        assert monitoring.asked[1].body == b'{"a":1}'


@each_case(
    ("answer", "kind", "words"),
    [
        (Answer(b"<html>"), UnavailableError, "not JSON"),
        (Answer(b'{"a": NaN}'), UnavailableError, "NaN"),
        (Answer(b"[" * 500 + b"]" * 500), UnavailableError, "deeper"),
        (Answer(b" " * 1001), UnavailableError, "1000 bytes"),
        (Answer(b"[]", drips=True), UnavailableError, "not whole after 0.3 s"),
        (Answer(b"[]", late_s=9), UnavailableError, "0.3 s"),
        (Answer({"error": "parse error: \x1b[2J"}, 400), WrongQuestionError, "“parse error: \\x1b[2J”"),
        (Answer(b"no\nsuch thing", 404), UnavailableError, "status 404: “no such thing”"),
        (Answer(b"go away", 403), RefusedError, "status 403"),
        (Answer(b"", 502), UnavailableError, "status 502"),
        (Answer(b"", 302), UnavailableError, "status 302"),
    ],
    ids=str,
)
async def test_a_wrong_answer_to_a_reading_question(answer: Answer, kind: type[HermesError], words: str) -> None:
    async with fake_monitoring() as monitoring:
        monitoring.answers["GET /"] = answer
        with pytest.raises(kind) as caught:
            await monitoring.client.ask(ASK)
        assert words in caught.value.message
        assert type(caught.value) is kind


@pytest.mark.parametrize(
    "answer", [Answer(b"<html>"), Answer(b"", 500), Answer(b"[]", late_s=9), Answer(b"[", drips=True)], ids=str
)
async def test_a_lost_answer_to_a_change_is_an_unknown_outcome(answer: Answer) -> None:
    async with fake_monitoring() as monitoring:
        monitoring.answers["POST /"] = answer
        with pytest.raises(UnknownOutcomeError, match=r"may have done it|status 500"):
            await monitoring.client.ask(CHANGE)


async def test_a_change_that_was_never_sent_may_be_repeated() -> None:
    async with fake_monitoring() as monitoring:
        port = monitoring.port
    await pause(0)
    with pytest.raises(UnavailableError, match="gives no answer"):
        await MonitoringClient(f"http://127.0.0.1:{port}").ask(CHANGE)


async def test_without_its_certificate_nobody_is_trusted_over_tls() -> None:
    async with fake_monitoring() as monitoring:
        with pytest.raises(UnavailableError, match="gives no answer"):
            await MonitoringClient(f"https://127.0.0.1:{monitoring.port}").ask(ASK)

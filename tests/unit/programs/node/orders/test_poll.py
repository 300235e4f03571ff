"""The machine asks the platform what to do: where metrics go, and by how much the clocks differ."""

import json
from collections.abc import Callable
from dataclasses import replace
from email.utils import formatdate
from pathlib import Path

import pytest

from hermesops.programs.node.orders import poll
from hermesops.programs.node.orders.poll import MAX_OFFSET_S, clock_offset
from hermesops.programs.node.system.https import PlatformAnswer
from hermesops.wire.errors import BadRequestError, NotReadyError
from tests.support.fakes.machines.polled_machine import BORN, PolledMachine, polled_machine

URL = "https://10.0.0.1:8443"


@pytest.fixture
def polled(tmp_path: Path) -> PolledMachine:
    return polled_machine(tmp_path)


def environment_of(polled: PolledMachine) -> str | None:
    file = polled.layout.ingest
    return file.read_text() if file.exists() else None


def test_collectors_are_restarted_only_when_the_address_changes(polled: PolledMachine) -> None:
    document = {"asked": True, "ingest": URL, "ingest_changed": True, "break_glass": None}
    assert polled.ask(ingest=URL) == document
    assert environment_of(polled) == f"HERMES_INGEST_URL={URL}\n"
    assert polled.layout.ingest.stat().st_mode & 0o777 == 0o644
    assert polled.ask(ingest=URL)["ingest_changed"] is False
    assert polled.systemd.told == ["--no-block restart hermes-monitoring.target"]
    assert polled.ask(ingest="https://10.0.0.2:8443")["ingest_changed"]
    assert polled.systemd.told == ["--no-block restart hermes-monitoring.target"] * 2


def test_collectors_stop_where_nothing_takes_what_they_send(polled: PolledMachine) -> None:
    assert polled.ask()["ingest_changed"] is False
    polled.ask(ingest=URL)
    assert polled.ask(ingest="")["ingest_changed"]
    assert environment_of(polled) is None
    assert polled.systemd.told[1:] == ["--no-block stop hermes-monitoring.target"]


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"[]",
        b'{"ingest": "", "break_glass": null',
        {"ingest": ""},
        {"ingest": "", "break_glass": None, "run": "reboot"},
        {"ingest": None, "break_glass": None},
        {"ingest": "http://10.0.0.1:8443", "break_glass": None},
        {"ingest": f"{URL}\nLD_PRELOAD=/tmp/x", "break_glass": None},
        {"ingest": f"{URL}/path", "break_glass": None},
        {"ingest": f"https://{'a' * 300}", "break_glass": None},
        {"ingest": URL, "break_glass": []},
        {"ingest": URL, "break_glass": {"text": "{}"}},
        {"ingest": URL, "break_glass": {"text": "{}", "signature": 3}},
        {"ingest": URL, "break_glass": {"text": "{}", "signature": "x" * (17 << 10)}},
        {"ingest": URL, "break_glass": {"text": "x" * (33 << 10), "signature": "x"}},
        b"[" * 20_000,
    ],
    ids=lambda answer: str(answer)[:48],
)
def test_a_malformed_answer_changes_nothing(polled: PolledMachine, answer: object) -> None:
    polled.ask(ingest="https://10.0.0.9:8443")
    polled.platform.answer = answer
    with pytest.raises(BadRequestError, match="orders"):
        poll.ask(polled.machine)
    assert environment_of(polled) == "HERMES_INGEST_URL=https://10.0.0.9:8443\n"
    assert len(polled.systemd.told) == 1


def test_a_machine_without_a_certificate_asks_nobody(polled: PolledMachine) -> None:
    polled.layout.machine_certificate.unlink()
    assert polled.ask() == {"asked": False, "why": "this machine has no certificate yet"}
    assert polled.platform.asked == []


def test_everything_stays_while_the_platform_does_not_answer(polled: PolledMachine) -> None:
    polled.ask(ingest=URL)

    def silent(*_: object) -> PlatformAnswer:
        raise NotReadyError("no answer")

    with pytest.raises(NotReadyError, match="no answer"):
        poll.ask(replace(polled.machine, ask_orders=silent))
    assert environment_of(polled) == f"HERMES_INGEST_URL={URL}\n"


def test_the_difference_of_clocks_is_recorded(polled: PolledMachine) -> None:
    polled.platform.date = formatdate(BORN + 90, usegmt=True)
    polled.ask()
    assert json.loads(polled.layout.clock.read_bytes()) == {"at": BORN, "offset_s": 90.5}


@pytest.mark.parametrize("date", ["", "soon", "Thu, 32 Nov 2026 00:00:00 GMT", "\0", "9" * 5000, "Thu", "1 2 3 4 5 6"])
def test_a_date_that_says_no_time_is_ignored(polled: PolledMachine, date: str) -> None:
    polled.platform.date = date
    assert polled.ask(ingest=URL)["asked"]
    assert not polled.layout.clock.exists()


@pytest.mark.parametrize(
    ("date", "judged"),
    [
        ("Fri, 31 Dec 9999 23:59:59 GMT", lambda offset: offset == MAX_OFFSET_S),
        ("Mon, 01 Jan 1900 00:00:00 GMT", lambda offset: offset == -MAX_OFFSET_S),
        (formatdate(BORN, usegmt=True), lambda offset: offset == -1.5),
    ],
)
def test_an_offset_is_bounded(date: str, judged: Callable[[float], bool]) -> None:
    offset = clock_offset(date, BORN + 2)
    assert offset is not None
    assert judged(offset)

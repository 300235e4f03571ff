"""The machine asks the platform what to do: where metrics go, and by how much the clocks differ."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from hermesops.node.errors import BadRequestError, NotReadyError
from hermesops.node.layout import Layout
from hermesops.node.machine import Machine
from hermesops.node.orders import poll
from hermesops.node.orders.documents import MAX_OFFSET_S, clock_offset
from hermesops.node.protocol import Credential
from hermesops.node.release.slots.disk import DiskSlots
from hermesops.node.system.https import PlatformAnswer
from tests.support.fakes.credentials import authority_in, credential_of
from tests.support.fakes.node_home import FakeSystem

URL = "https://10.0.0.1:8443"
BORN = 1_800_000_000


@dataclass
class Systemd(FakeSystem):
    """Records what systemd is told."""

    told: list[str] = field(default_factory=list)

    def systemctl(self, *words: str, check: bool = True) -> str:
        self.told.append(" ".join(words))
        return super().systemctl(*words, check=check)


@dataclass
class Platform:
    """Answers one thing."""

    answer: Any = field(default_factory=lambda: {"ingest": "", "break_glass": None})
    date: str = formatdate(BORN, usegmt=True)
    asked: list[tuple[str, str, bytes]] = field(default_factory=list)

    def __call__(self, _credential: Credential, _key: bytes, method: str, path: str, body: bytes) -> PlatformAnswer:
        self.asked.append((method, path, body))
        return PlatformAnswer(
            self.answer if isinstance(self.answer, bytes) else json.dumps(self.answer).encode(), self.date
        )


@dataclass
class Polled:
    machine: Machine
    platform: Platform
    systemd: Systemd

    def ask(self, **changes: object) -> dict[str, Any]:
        if changes:
            self.platform.answer = {"ingest": "", "break_glass": None, **changes}
        return poll.ask(self.machine)

    @property
    def environment(self) -> str | None:
        file = self.machine.layout.ingest
        return file.read_text() if file.exists() else None


@pytest.fixture
def polled(tmp_path: Path) -> Polled:
    layout, platform, systemd = Layout(tmp_path / "machine"), Platform(), Systemd()
    for folder in ("etc/hermes-node", "etc/hermes-monitoring", "run/hermes-node"):
        (layout.root / folder).mkdir(parents=True)
    machine = Machine(layout, system=systemd, ask_orders=platform, slots=DiskSlots(layout))
    machine.layout.machine_key.write_bytes(key := machine.keys.make())
    held = credential_of(
        authority_in(tmp_path), machine.keys.request(key).decode(), now=datetime.fromtimestamp(BORN, UTC)
    )
    machine.layout.machine_certificate.write_bytes(held.to_pem())
    machine.layout.authority.write_text(held.authority)
    return Polled(machine, platform, systemd)


def test_collectors_are_restarted_only_when_the_address_changes(polled: Polled) -> None:
    assert polled.ask(ingest=URL) == {"asked": True, "ingest": URL, "ingest_changed": True}
    assert polled.environment == f"HERMES_INGEST_URL={URL}\n"
    assert polled.machine.layout.ingest.stat().st_mode & 0o777 == 0o644
    assert polled.ask(ingest=URL)["ingest_changed"] is False
    assert polled.systemd.told == ["--no-block restart hermes-monitoring.target"]
    assert polled.ask(ingest="https://10.0.0.2:8443")["ingest_changed"]
    assert polled.systemd.told == ["--no-block restart hermes-monitoring.target"] * 2


def test_collectors_stop_where_nothing_takes_what_they_send(polled: Polled) -> None:
    assert polled.ask()["ingest_changed"] is False
    polled.ask(ingest=URL)
    assert polled.ask(ingest="")["ingest_changed"]
    assert polled.environment is None
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
def test_a_malformed_answer_changes_nothing(polled: Polled, answer: object) -> None:
    polled.ask(ingest="https://10.0.0.9:8443")
    polled.platform.answer = answer
    with pytest.raises(BadRequestError, match="orders"):
        poll.ask(polled.machine)
    assert polled.environment == "HERMES_INGEST_URL=https://10.0.0.9:8443\n"
    assert len(polled.systemd.told) == 1


def test_a_machine_without_a_certificate_asks_nobody(polled: Polled) -> None:
    polled.machine.layout.machine_certificate.unlink()
    assert polled.ask() == {"asked": False, "why": "this machine has no certificate yet"}
    assert polled.platform.asked == []


def test_everything_stays_while_the_platform_does_not_answer(polled: Polled) -> None:
    polled.ask(ingest=URL)

    def silent(*_: object) -> PlatformAnswer:
        raise NotReadyError("no answer")

    with pytest.raises(NotReadyError, match="no answer"):
        poll.ask(replace(polled.machine, ask_orders=silent))
    assert polled.environment == f"HERMES_INGEST_URL={URL}\n"


def test_the_difference_of_clocks_is_recorded(polled: Polled) -> None:
    polled.platform.date = formatdate(BORN + 90, usegmt=True)
    polled.ask()
    assert json.loads(polled.machine.layout.clock.read_bytes()) == {"at": BORN, "offset_s": 90.5}


@pytest.mark.parametrize("date", ["", "soon", "Thu, 32 Nov 2026 00:00:00 GMT", "\0", "9" * 5000, "Thu", "1 2 3 4 5 6"])
def test_a_date_that_says_no_time_is_ignored(polled: Polled, date: str) -> None:
    polled.platform.date = date
    assert polled.ask(ingest=URL)["asked"]
    assert not polled.machine.layout.clock.exists()


@pytest.mark.parametrize(
    ("date", "judged"),
    [
        ("Fri, 31 Dec 9999 23:59:59 GMT", lambda offset: offset == MAX_OFFSET_S),
        ("Mon, 01 Jan 1900 00:00:00 GMT", lambda offset: offset == -MAX_OFFSET_S),
        (formatdate(BORN, usegmt=True), lambda offset: offset == -0.5),
    ],
)
def test_an_offset_is_bounded(date: str, judged: Callable[[float], bool]) -> None:
    offset = clock_offset(date, BORN, BORN + 2)
    assert offset is not None
    assert judged(offset)

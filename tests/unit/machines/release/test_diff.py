"""What differs between two releases, as golden text."""

from dataclasses import replace

from hermesops.cli.views.release import difference_lines
from hermesops.machines.release.diff import compare
from hermesops.wire.documents.lock import Blob, Managed, Wheels
from tests.unit.wire.documents.test_lock import AGENT, LISTED, LOCK, OWN, WHEEL


def test_a_release_does_not_differ_from_itself() -> None:
    assert difference_lines(compare(LOCK, LOCK)) == ["they are the same"]


def test_what_differs_is_said_in_order() -> None:
    newer = replace(
        LOCK,
        agent_version="0.20.0",
        config_schema=37,
        pythons={
            "3.11": Wheels(
                LISTED,
                (
                    replace(WHEEL, name=WHEEL.name.replace("3.14.1", "3.15.0"), sha256="7" * 64),
                    Blob("httpx-1.0-py3-none-any.whl", "8" * 64, 1),
                ),
            )
        },
        managed=Managed({"gateway": {"systemd_watchdog_seconds": 60}, "agent": {}}, {"TZ": "UTC"}),
        unit=replace(LOCK.unit, sha256="9" * 64),
        site=(),
    )
    assert AGENT.name in {wheel.name for wheel in LOCK.pythons["3.11"].wheels}
    assert difference_lines(compare(LOCK, newer)) == [
        "  agent: 0.19.0 -> 0.20.0",
        "  configuration schema: 33 -> 37",
        "  python 3.11: aiohttp: 3.14.1 aaaaaaaaaaaa -> 3.15.0 777777777777",
        "  python 3.11: hermes-agent: 0.19.0 bbbbbbbbbbbb -> (absent)",
        "  python 3.11: httpx: (absent) -> 1.0 888888888888",
        "  python 3.12: made for -> (absent)",
        "  managed configuration: agent: (absent) -> {}",
        "  managed configuration: gateway.systemd_watchdog_seconds: 30 -> 60",
        "  gateway's unit: 222222222222 -> 999999999999",
        "  file beside the packages: hermes-sandbox.pth: 111111111111 -> (absent)",
    ]


def test_a_python_of_its_own_and_folders_are_said() -> None:
    lines = difference_lines(compare(LOCK, OWN))
    assert "  own Python: (absent) -> 3.14.0 444444444444" in lines
    assert "  folders beside the wheel: (absent) -> 555555555555" in lines
    assert "  python 3.14: (absent) -> made for" in lines

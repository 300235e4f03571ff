"""What a machine prints over SSH is bounded where it is kept."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hermesops.access.identity.signatures import fresh_key
from hermesops.cli.commands.instance import break_glass
from hermesops.errors import UnavailableError

ORDER: Any = SimpleNamespace(id="o", host_key="ssh-ed25519 AAAA")


class _Endless:
    def run(self, _command: str, write: Callable[[bytes, bool], None]) -> int:
        for _ in range(1_000):
            write(b"x" * 100, False)
        return 0


def test_a_command_that_prints_without_end_is_given_up_where_its_output_is_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    @contextmanager
    def connected(*_: object) -> Iterator[_Endless]:
        yield _Endless()

    key = tmp_path / "key"
    key.write_text(fresh_key())
    key.chmod(0o600)
    monkeypatch.setattr("hermesops.vendor.channel.ssh.connected", connected)
    monkeypatch.setattr(break_glass, "is_json", lambda: True)
    monkeypatch.setattr(break_glass, "_LARGEST", 1_000)
    with pytest.raises(UnavailableError, match="more than 1000 bytes"):
        break_glass._session(ORDER, key, "192.0.2.1", "yes")

"""No operator reaches a user's agent or machine without a reason in the audit."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from hermesops.agents.instances.remote import operator_access
from hermesops.agents.instances.remote.operator_access import OperatorAccess
from hermesops.errors import UsageError
from tests.support.fakes.instances import ADA
from tests.support.fakes.parts import part


class Sent:
    """A machine that writes down what reaches it, and what the audit had by then."""

    def __init__(self) -> None:
        self.audited: list[tuple[str, str, str]] = []
        self.sent: list[tuple[str, int]] = []

    def append(self, action: str, subject: str, *, why: str) -> None:
        self.audited.append((action, subject, why))

    async def chat(self, _: object, text: str, *, session_id: str) -> AsyncIterator[str]:
        self.sent.append((text + session_id, len(self.audited)))
        yield "hello"

    async def channel_to(self, _: object) -> Any:  # noqa: ANN401 - stands for a channel
        self.sent.append(("a channel", len(self.audited)))
        return part(run=self.run)

    async def run(self, command: str, **_: object) -> str:
        self.sent.append((command, len(self.audited)))
        return "done"


Access = Callable[[OperatorAccess, str], Awaitable[object]]


async def chat(access: OperatorAccess, reason: str) -> object:
    return [piece async for piece in access.chat(ADA, "hi", session_id="s", reason=reason)]


async def run(access: OperatorAccess, reason: str) -> object:
    return await access.run(ADA, "uptime", user="root", timeout_s=1, reason=reason)


async def shell(access: OperatorAccess, reason: str) -> object:
    return await access.shell(ADA, reason=reason)


async def export(access: OperatorAccess, reason: str) -> object:
    return await access.export(ADA, lambda _: None, reason=reason)


async def test_every_access_is_audited_before_anything_is_sent_and_refused_without_a_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def exported(channel: Any, _: object) -> Any:  # noqa: ANN401 - stands for a channel
        return await channel.run("export")

    monkeypatch.setattr(operator_access, "export_data", exported)
    ways: dict[str, Access] = {"chat": chat, "exec": run, "shell": shell, "export": export}
    assert {name for name in vars(OperatorAccess) if not name.startswith("_")} - {"registry", "machines"} == {
        "chat",
        "run",
        "shell",
        "export",
    }, "another way is missing in this test"
    for how, way in ways.items():
        machine = Sent()
        access = OperatorAccess(part(audit=machine), machine)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match=f"{how} touches what belongs to ada; say why"):
            await way(access, " ")
        assert (machine.sent, machine.audited) == ([], []), how
        await way(access, " it is broken ")
        assert machine.audited == [(f"{how}_opened", f"instance/{ADA.id}", "it is broken")], how
        assert machine.sent, how
        assert {before for _, before in machine.sent} == {1}, how

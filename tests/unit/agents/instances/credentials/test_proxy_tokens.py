"""Tokens that open machines: told with whose machine they open, renewed and revoked with a line in the audit."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hermesops.agents.instances.credentials.token_directory import TokenDirectory
from hermesops.agents.instances.credentials.tokens import ProxyTokens
from hermesops.errors import UnavailableError, UsageError
from hermesops.model.access.token import PLATFORM, KeptToken
from hermesops.model.ids import MachineId
from tests.support.fakes.instances import ADA, MACHINE
from tests.support.fakes.parts import part
from tests.support.fleets.in_memory import ordered, pooled

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOMELESS = ordered(1, machine_id=None).instance
POOLED = pooled(3)


def kept(number: int, machine: MachineId = MACHINE, purpose: str = PLATFORM) -> KeptToken:
    return KeptToken(f"t{number}", machine, purpose, NOW + timedelta(hours=5))


class World:
    """A registry and a vendor that note what is done."""

    def __init__(self, *tokens: KeptToken) -> None:
        self.tokens = list(tokens)
        self.noted: list[str] = []
        self.revoked: list[str] = []

    def service(self) -> ProxyTokens:
        def note(action: str, _subject: str, *, why: str, after: Any) -> None:  # noqa: ANN401 - as the registry's
            self.noted.append(f"{action} {why} {after['purposes']}")

        async def revoke(token_id: str) -> None:
            self.revoked.append(token_id)

        registry = part(
            instances=part(list=lambda: [ADA, HOMELESS]),
            unassigned=part(list=lambda: [POOLED, pooled(4, machine_id=None)]),
            proxy_tokens=part(kept=lambda: self.tokens, forget=lambda *_, **__: None),
            audit=part(append=note),
            now=lambda: NOW,
        )
        return ProxyTokens(registry, part(revoke_proxy_token=revoke), part())


def test_tokens_are_told_with_whose_machine_they_open() -> None:
    directory = TokenDirectory(World(kept(1), kept(2, MachineId("m-gone"))).service().registry)
    tokens = [(owner and owner.title, token.id) for owner, token in directory.proxy_tokens()]
    assert tokens == [("ada", "t1"), (None, "t2")]
    assert [token.id for _, token in directory.proxy_tokens(ADA)] == ["t1"]


def test_machines_of_agents_and_unassigned_ones_have_names() -> None:
    assert TokenDirectory(World().service().registry).machine_names() == {
        ADA.machine_id: ADA.machine_name,
        POOLED.machine_id: POOLED.name,
    }


async def test_tokens_that_nobody_uses_are_dropped() -> None:
    world = World(kept(1), kept(2, MachineId("m-gone"), "health"))
    assert [token.id for token in world.service().due().drop] == ["t2"]
    assert world.service().due().renew == ()
    assert await world.service().renew_due() == {}
    assert world.revoked == ["t2"]


async def test_one_purpose_or_all_are_revoked_and_written_down() -> None:
    world = World(kept(1), kept(2, purpose="chat"), kept(3, MachineId("m-other")))
    assert [token.id for token in await world.service().revoke(ADA, "chat", reason="leak")] == ["t2"]
    assert [token.id for token in await world.service().revoke(ADA, "", reason="leak")] == ["t1", "t2"]
    assert world.noted == ["tokens_revoked leak ['chat']", "tokens_revoked leak ['platform', 'chat']"]


async def test_a_purpose_that_is_none_is_refused_and_so_is_an_agent_on_no_machine() -> None:
    with pytest.raises(UsageError, match="chad"):
        await World().service().revoke(ADA, "chad", reason="leak")
    with pytest.raises(UnavailableError, match="on no machine"):
        await World().service().renew(HOMELESS, PLATFORM, reason="by hand")

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from hermesops.access.proxy_tokens.issue import ProxyTokens
from hermesops.errors import HermesError, RefusedError, UnavailableError
from hermesops.model.access.token import ProxyToken
from hermesops.model.ids import MachineId
from hermesops.vendor.justavps.client import Client
from hermesops.vendor.justavps.wire import ProxyToken as IssuedToken
from tests.support.fakes.registry import FakeRegistry

MACHINE = MachineId("m-1")
START = datetime(2026, 1, 1, tzinfo=UTC)


class Vendor(Client):
    """Issues numbered tokens that live as long as it likes."""

    def __init__(self) -> None:
        self.now = START
        self.life: timedelta | None = timedelta(hours=6)
        self.asked: list[tuple[str, str, int]] = []
        self.revoked: list[str] = []
        self.failing: HermesError | None = None

    async def issue_proxy_token(self, machine_id: str, *, label: str, lifetime_s: int) -> IssuedToken:
        await asyncio.sleep(0)  # noqa: TID251 - lets other tasks in between, as a network would
        if self.failing:
            raise self.failing
        self.asked.append((machine_id, label, lifetime_s))
        number = len(self.asked)
        expires_at = self.now + self.life if self.life else None
        return IssuedToken(id=f"id{number}", token=f"token{number}", expires_at=expires_at)

    async def revoke_proxy_token(self, token_id: str) -> None:
        if self.failing:
            raise self.failing
        self.revoked.append(token_id)


class Kept(FakeRegistry):
    def __init__(self) -> None:
        self.tokens: dict[tuple[str, str], ProxyToken] = {}

    def proxy_tokens_get(self, machine_id: MachineId, purpose: str) -> ProxyToken | None:
        return self.tokens.get((machine_id, purpose))

    def proxy_tokens_keep(self, token: ProxyToken) -> None:
        self.tokens[token.machine_id, token.purpose] = token

    def proxy_tokens_forget(self, machine_id: MachineId, purpose: str) -> None:
        self.tokens.pop((machine_id, purpose), None)


@pytest.fixture
def vendor() -> Vendor:
    return Vendor()


@pytest.fixture
def kept() -> Kept:
    return Kept()


@pytest.fixture
def tokens(vendor: Vendor, kept: Kept) -> ProxyTokens:
    return ProxyTokens(vendor, kept, now=lambda: vendor.now)


async def test_a_token_is_asked_for_once_per_purpose_and_for_six_hours(tokens: ProxyTokens, vendor: Vendor) -> None:
    assert [await tokens.token(MACHINE, purpose="chat") for _ in range(3)] == ["token1"] * 3
    assert await tokens.token(MACHINE, purpose="health") == "token2"
    assert vendor.asked == [(MACHINE, "hermesops-chat", 21600), (MACHINE, "hermesops-health", 21600)]


async def test_tasks_that_ask_at_once_share_one(tokens: ProxyTokens, vendor: Vendor) -> None:
    got = await asyncio.gather(*(tokens.token(MACHINE, purpose="chat") for _ in range(10)))
    assert set(got) == {"token1"}
    assert len(vendor.asked) == 1


async def test_a_token_is_renewed_before_it_expires_and_the_old_one_revoked(
    tokens: ProxyTokens, vendor: Vendor
) -> None:
    await tokens.token(MACHINE, purpose="chat")
    vendor.now += timedelta(hours=5, minutes=29)
    assert await tokens.token(MACHINE, purpose="chat") == "token1"
    vendor.now += timedelta(minutes=1)
    assert await tokens.token(MACHINE, purpose="chat") == "token2"
    assert vendor.revoked == ["id1"]


@pytest.mark.parametrize("life", [timedelta(days=7), None])
async def test_a_token_is_never_used_longer_than_six_hours(
    tokens: ProxyTokens, vendor: Vendor, kept: Kept, life: timedelta | None
) -> None:
    vendor.life = life
    await tokens.token(MACHINE, purpose="chat")
    assert kept.tokens[MACHINE, "chat"].expires_at == START + timedelta(hours=6)


async def test_a_refused_token_is_replaced_once_and_no_more(tokens: ProxyTokens, vendor: Vendor) -> None:
    tried: list[str] = []

    async def call(token: str) -> int:
        tried.append(token)
        return 401

    answer = await tokens.use(MACHINE, purpose="chat", call=call, refused=lambda status: status in {401, 403})
    assert (answer, tried) == (401, ["token1", "token2"])
    assert vendor.revoked == ["id1"]


async def test_an_accepted_token_is_used_once(tokens: ProxyTokens) -> None:
    tried: list[str] = []

    async def call(token: str) -> int:
        tried.append(token)
        return 200

    assert await tokens.use(MACHINE, purpose="chat", call=call, refused=lambda status: status == 401) == 200
    assert tried == ["token1"]


async def test_many_calls_refused_at_once_replace_the_token_once(tokens: ProxyTokens, vendor: Vendor) -> None:
    async def call(token: str) -> int:
        await asyncio.sleep(0)  # noqa: TID251 - lets other tasks in between, as a network would
        return 401 if token == "token1" else 200  # noqa: S105 - the vendor's first token

    calls = (tokens.use(MACHINE, purpose="chat", call=call, refused=lambda status: status == 401) for _ in range(5))
    assert set(await asyncio.gather(*calls)) == {200}
    assert len(vendor.asked) == 2


async def test_a_failure_to_revoke_the_old_token_does_not_matter(
    tokens: ProxyTokens, vendor: Vendor, monkeypatch: pytest.MonkeyPatch
) -> None:
    await tokens.token(MACHINE, purpose="chat")
    vendor.now += timedelta(hours=6)

    async def fail(_token_id: str) -> None:
        raise UnavailableError("away")

    monkeypatch.setattr(vendor, "revoke_proxy_token", fail)
    assert await tokens.token(MACHINE, purpose="chat") == "token2"


async def test_a_token_that_cannot_be_made_leaves_nothing_behind(
    tokens: ProxyTokens, vendor: Vendor, kept: Kept
) -> None:
    vendor.failing = RefusedError("no")
    with pytest.raises(RefusedError, match=r"^no$"):
        await tokens.token(MACHINE, purpose="chat")
    assert kept.tokens == {}
    vendor.failing = None
    assert await tokens.token(MACHINE, purpose="chat") == "token1"


async def test_a_revoked_token_is_forgotten_only_when_the_vendor_agrees(
    tokens: ProxyTokens, vendor: Vendor, kept: Kept
) -> None:
    await tokens.token(MACHINE, purpose="chat")
    vendor.failing = UnavailableError("away")
    with pytest.raises(UnavailableError, match="away"):
        await tokens.revoke(MACHINE, purpose="chat")
    assert kept.tokens
    vendor.failing = None
    for _ in range(2):
        await tokens.revoke(MACHINE, purpose="chat")
    assert (vendor.revoked, kept.tokens) == (["id1"], {})


async def test_a_token_shows_itself_in_no_repr(tokens: ProxyTokens, kept: Kept) -> None:
    token = await tokens.token(MACHINE, purpose="chat")
    assert token not in repr(kept.tokens)

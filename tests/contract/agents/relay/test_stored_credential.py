"""A caller's certificate in a file: used until half of its life is over, then renewed at the relay by the caller."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from hermesops.agents.relay.client import AgentBusyError, AgentEndedError, RelayClient
from hermesops.agents.relay.credential import CallerCredential, CallerPem
from hermesops.agents.relay.stored_credential import StoredCredential
from hermesops.base.files.private_file import replace_secret
from hermesops.errors import RefusedError
from hermesops.programs.node.system import openssl
from tests.support.real.relay import HOST, LIFE, RelayWorld, relaying

NAME = "api"
HALF_S = LIFE.total_seconds() / 2


class Killed(Exception):  # noqa: N818 - no error of the code
    """The process ends here."""


@dataclass
class Caller:
    """A caller with its files, and the relay that it calls."""

    relay: RelayWorld
    stored: StoredCredential

    def admit(self) -> None:
        """Give it a new certificate, as an operator does."""
        key = openssl.make()
        admitted = self.relay.callers.admit(NAME, openssl.request(key).decode(), why="test")
        pem = CallerPem(key.decode(), admitted.certificate, admitted.authorities)
        replace_secret(self.stored.given, pem.text)

    def started(self) -> CallerCredential:
        """The certificate as a new process has it."""
        return self.stored.credential(lambda: self.relay.clock().timestamp())

    async def ask(self, credential: CallerCredential) -> None:
        """Have the relay let it in, which then says that there is no such agent."""
        with pytest.raises(AgentEndedError, match="unknown agent"):
            await RelayClient(lambda: self.stored.url, credential.context).get("ada", "/v1/capabilities")

    @property
    def serials(self) -> list[str]:
        """Certificates that were issued to it, the newest first."""
        return [row.serial for row in self.relay.registry.relay_callers.list() if row.name == NAME]


@pytest.fixture
async def caller(tmp_path: Path) -> AsyncIterator[Caller]:
    async with relaying(tmp_path) as relay:
        relay.clock.timestamp = datetime.now(UTC)
        files = StoredCredential(tmp_path / "given.pem", tmp_path / "state/renewed.pem", f"https://{HOST}:{relay.port}")
        caller = Caller(relay, files)
        caller.admit()
        yield caller


async def test_it_is_renewed_at_half_of_its_life_and_the_next_process_goes_on_with_it(caller: Caller) -> None:
    first = caller.started()
    await caller.ask(first)
    caller.relay.clock.turn(HALF_S - 600)
    await caller.ask(first)
    assert (len(caller.serials), caller.stored.renewed.exists()) == (1, False)

    caller.relay.clock.turn(601)
    await caller.ask(first)
    await caller.ask(first)
    assert len(caller.serials) == 2
    assert caller.stored.renewed.stat().st_mode & 0o777 == 0o600

    caller.relay.clock.turn(HALF_S)  # the first one has expired
    await caller.ask(caller.started())
    assert len(caller.serials) >= 2


async def test_a_renewal_that_was_not_kept_leaves_the_present_one_valid(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> None:
        raise Killed

    caller.relay.clock.turn(HALF_S + 1)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", die)
        with pytest.raises(Killed):
            await caller.started().context()
    assert len(caller.serials) == 2
    assert not caller.stored.renewed.exists()
    await caller.ask(caller.started())
    assert caller.stored.renewed.exists()


async def test_a_revoked_one_renews_nothing_and_a_new_one_of_the_operator_counts(caller: Caller) -> None:
    caller.relay.clock.turn(HALF_S + 1)
    credential = caller.started()
    await caller.ask(credential)
    assert caller.relay.registry.relay_callers.revoke(NAME, why="leaked")
    caller.relay.clock.turn(HALF_S + 1)
    with pytest.raises(AgentBusyError, match="no longer valid"):
        await caller.ask(credential)
    with pytest.raises(AgentBusyError, match="no longer valid"):
        await caller.ask(caller.started())

    caller.relay.clock.turn(1)
    caller.admit()
    await caller.ask(caller.started())


async def test_a_relay_that_is_away_costs_nothing_while_the_present_one_is_valid(caller: Caller) -> None:
    gone = StoredCredential(caller.stored.given, caller.stored.renewed, f"https://{HOST}:9")
    clock = caller.relay.clock
    clock.turn(HALF_S + 1)
    context = await gone.credential(lambda: clock().timestamp()).context()
    assert context.get_ca_certs()
    assert len(caller.serials) == 1


@pytest.mark.parametrize("answer", ["", "[]", "{}", '{"certificate": "x", "authorities": "y"}', "{" * 70_000])
async def test_an_answer_that_is_none_of_the_relays_is_not_kept(
    caller: Caller, answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextlib.asynccontextmanager
    async def answering(*_: object, **__: object) -> AsyncIterator[httpx.Response]:
        yield httpx.Response(200, content=answer.encode())

    caller.relay.clock.turn(HALF_S + 1)
    credential = caller.started()
    with monkeypatch.context() as patch:
        patch.setattr(httpx.AsyncClient, "stream", answering)
        await credential.context()
    assert not caller.stored.renewed.exists()


def test_a_file_that_lacks_a_part_or_that_others_read_is_refused(tmp_path: Path) -> None:
    given = tmp_path / "given.pem"
    files = StoredCredential(given, given, f"https://{HOST}:9")
    with pytest.raises(RefusedError, match="is missing"):
        files.load()
    replace_secret(given, openssl.make().decode())
    with pytest.raises(RefusedError, match="does not hold a key, its certificate"):
        files.load()
    given.chmod(0o640)
    with pytest.raises(RefusedError, match="may be read by others"):
        files.load()

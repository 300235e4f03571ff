"""The key of a calling agent is revoked by its page as by its command."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hermesops.app import Container
from hermesops.store.calling_rows.callers import AgentCallers
from tests.support.fleets.filled_registry import fill
from tests.support.pages.comparison import Compared, Comparison
from tests.support.pages.console import console_client, empty_container
from tests.support.real.commands.here import commands_over
from tests.support.real.stores.registries import KEYS

pytestmark = pytest.mark.xdist_group("caller actions")
"""Its last test looks at what the others compared."""


@pytest.fixture(scope="module")
def compared() -> Compared:
    return Compared()


@pytest.fixture
def container(tmp_path: Path) -> Container:
    container = empty_container(tmp_path)
    fill(container.registry, 1)
    return container


@pytest.fixture
async def pages(container: Container, compared: Compared, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Comparison]:
    run = commands_over(container, monkeypatch)
    async with console_client(container) as client:
        yield Comparison(container, client, run, compared)


async def test_a_page_revokes_as_its_command(container: Container, pages: Comparison) -> None:
    [instance], rows = container.registry.instances.list(), AgentCallers(container.registry._database, KEYS)
    added = [
        rows.add(instance.user_id, instance.id, name, f"key-{name}", name=name, push_hosts=[], may_approve=False)[0]
        for name in ("one", "two")
    ]
    paths = [f"/console/callers/{caller.id}/change/revoke" for caller in added if caller is not None]
    assert not await pages.preview(paths[0])
    await pages.begin(paths[0])
    assert (await pages.command(paths[1])).exit_code == 0
    records = container.calling_agents.list()
    assert [record.revoked_at is not None for record in records] == [True, True]
    by_page, by_command = pages.noted("caller_revoked", 2)
    assert by_page[:2] == by_command[:2]
    assert all([await pages.preview(path) for path in paths]), "they are revoked already"


def test_each_row_of_these_pages_was_compared_with_its_command(
    compared: Compared, request: pytest.FixtureRequest
) -> None:
    compared.refuse_gaps(request)

"""While a world's base is built, something else is fetched; whatever becomes of that, the world is up."""

import threading
from typing import Any

import pytest

from hermesops.errors import RefusedError, UnavailableError
from hermesops.platform.local.world import first_start
from tests.support.fakes.parts import part

UP: Any = part(is_up=True)


class Start:
    """A start that lasts until something was fetched, and what it says."""

    def __init__(self, *, lacks_base: bool, refused: bool = False) -> None:
        self.said: list[str] = []
        self.fetched = threading.Event()
        self.world: Any = part(lacks_base=lacks_base, refuse_unfit=self._refuse if refused else lambda: None)

    def _refuse(self) -> None:
        raise RefusedError("local machines need root")

    def fetch(self) -> None:
        self.fetched.set()

    async def run(self, fetch: Any = None) -> Any:  # noqa: ANN401 - stands for a world's status
        async def up() -> Any:  # noqa: ANN401 - as above
            return UP

        return await first_start(self.world, up, fetch or self.fetch, self.said.append)


@pytest.mark.parametrize("lacks_base", [True, False])
async def test_it_is_fetched_only_beside_the_build_of_a_base(lacks_base: bool) -> None:  # noqa: FBT001 - a case
    start = Start(lacks_base=lacks_base)
    assert await start.run() is UP
    assert start.fetched.is_set() == lacks_base


async def test_nothing_is_begun_that_a_refusal_would_have_to_wait_for() -> None:
    start = Start(lacks_base=True, refused=True)
    with pytest.raises(RefusedError, match="need root"):
        await start.run()
    assert not start.fetched.is_set()


async def test_what_cannot_be_fetched_is_told_and_the_world_is_up() -> None:
    def fails() -> None:
        raise UnavailableError("the registry does not answer")

    start = Start(lacks_base=True)
    assert await start.run(fails) is UP
    assert start.said == ["not fetched ahead: the registry does not answer"]

"""A stack begun by one engine is continued by the other: the next preview is empty."""

from itertools import permutations
from pathlib import Path

import pytest

from hermesops.engine import make_engine
from hermesops.engine.interface import Engine
from hermesops.errors import RefusedError
from hermesops.settings import Environment
from tests.support.fake_stack import STACK, FakeStack, machines

pytestmark = pytest.mark.pulumi_cli


@pytest.fixture
def stack(tmp_path: Path) -> FakeStack:
    return FakeStack(tmp_path).install()


def engine(kind: str, stack: FakeStack) -> Engine:
    passphrase = stack.folder / "passphrase"
    passphrase.write_text("a passphrase of this test")
    return make_engine(
        kind,
        production=False,
        backend=stack.backend,
        passphrase_file=passphrase,
        plugin_environment=dict(Environment.load().inherited),
        plugin_folders=[stack.plugins],
    )


@pytest.mark.parametrize(("first", "second"), list(permutations(["cli", "embedded"])))
@pytest.mark.parametrize("properties", [{}, {"password": "yes"}], ids=["plain", "secret"])
async def test_the_other_engine_finds_nothing_to_do(
    stack: FakeStack, first: str, second: str, properties: dict[str, str]
) -> None:
    one, other = engine(first, stack), engine(second, stack)
    wanted = machines(["a", "b"], **properties)
    done = await one.up(STACK, wanted)
    assert (await other.preview(STACK, wanted)).changes == ()
    assert (await other.up(STACK, wanted)).changes == ()
    assert (await one.preview(STACK, wanted)).changes == ()
    assert await other.outputs(STACK) == done.outputs

    await other.up(STACK, machines(["a"], size="pro", **properties), may_destroy=lambda urn: urn.endswith("::b"))
    assert stack.machines() == ["a"]
    with pytest.raises(RefusedError, match="a "):
        await one.destroy(STACK, may_destroy=lambda _urn: False)
    await one.destroy(STACK, may_destroy=lambda _urn: True)
    assert stack.machines() == []

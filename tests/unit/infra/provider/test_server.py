"""How the plugin understands its command line."""

import pytest

from hermesops.infra.provider.server import engine_address


@pytest.mark.parametrize(
    ("arguments", "address"),
    [
        (["127.0.0.1:4242"], "127.0.0.1:4242"),
        (["--logtostderr", "-v=9", "--tracing", "http://example.test:9411/api", "127.0.0.1:4242"], "127.0.0.1:4242"),
        ([], ""),
        (["--logtostderr"], ""),
    ],
)
def test_the_engine_is_the_last_argument(arguments: list[str], address: str) -> None:
    assert engine_address(arguments) == address

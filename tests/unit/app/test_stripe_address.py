"""Where Stripe is asked: at its own address, at the local world's stand-in, or where the settings say."""

from pathlib import Path

import pytest

from hermesops.app import parts
from hermesops.settings.environment import Environment
from tests.support.fakes.parts import part

STAND_IN = "http://127.0.0.1:7001/stripe"


@pytest.mark.parametrize(("name", "expected"), [("local", STAND_IN), ("staging", "")])
def test_a_local_world_asks_its_own(tmp_path: Path, name: str, expected: str) -> None:
    assert _address(tmp_path, name) == expected


def test_a_platforms_worker_asks_the_stripe_that_its_settings_name(tmp_path: Path) -> None:
    """Its host is no local world: it knows the stand-in by its settings alone."""
    assert _address(tmp_path, "staging", HERMESOPS_BILLING_BASE_URL=STAND_IN) == STAND_IN


def _address(home: Path, name: str, **variables: str) -> str:
    env = Environment.load(name, {"HOME": str(home), "HERMESOPS_HOME": str(home), **variables})
    container = part(env=env, secrets=part(find=lambda _: "sk_test_1"), endpoint=part(stripe_url=STAND_IN))
    api = parts.users.stripe(container)
    assert api
    return api.base_url

"""What role hermes_gateway says in YAML and the code says in Python is the same."""

from typing import Any

import yaml

from hermesops.base import assets
from hermesops.model.billing.route import ROUTES
from hermesops.wire.settings import ADAPTER_OF


def of_role(path: str) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((assets.folder("roles") / "hermes_gateway" / path).read_text())
    return document


def test_the_routes_are_the_platforms() -> None:
    routes = of_role("defaults/main.yml")["hermes_gateway_routes"]
    assert routes == [{"name": route.name, "context_tokens": route.context_tokens} for route in ROUTES]


def test_every_adapter_can_be_switched_on_by_a_messenger() -> None:
    adapters = of_role("vars/main.yml")["__hermes_gateway_adapters"]
    assert set(adapters) == {adapter for adapter in ADAPTER_OF.values() if adapter}

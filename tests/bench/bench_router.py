"""What the platform's model router adds to a turn: LiteLLM behind our gate beside a direct call, in turns.

The provider is scripted and answers at once, so the difference is the router's alone. Its usage goes to a PostgreSQL.
"""

import statistics
import time
from functools import partial
from pathlib import Path

import httpx

from hermesops.model.billing.route import issue_token
from tests.bench.figures import Board, seconds_of
from tests.support.real.python_environments import LITELLM
from tests.support.real.router import litellm_router
from tests.support.real.stores import postgresql
from tests.support.real.stores.registries import placed

RUNS = 200
_WARM = 20
_MOST_MS = 20


def measure(board: Board, folder: Path) -> None:
    """Add the figures."""
    interpreter = LITELLM.python()
    assert interpreter, "LiteLLM needs uv to be installed"
    with (
        postgresql.running() as server,
        litellm_router.registry_for_routers(server) as (registry, url),
        litellm_router.scripted_providers() as providers,
        litellm_router.running(folder / "router", interpreter, litellm_router.as_router(url), providers) as router,
    ):
        token = issue_token(router.secret, placed(registry).id, 1, int(time.time()) + 3600)
        request: dict[str, object] = {"model": "gpt-4o", "messages": [{"role": "user", "content": "hello " * 200}]}
        direct = httpx.Client(base_url=f"{providers.url}/openai", headers={"Authorization": "Bearer x"}, timeout=30)
        routed = httpx.Client(base_url=router.url, headers={"Authorization": f"Bearer {token}"}, timeout=30)
        took: dict[str, list[float]] = {"direct": [], "routed": []}
        with direct, routed:
            # In turns, so that a busy moment hits both alike.
            for attempt in range(RUNS + _WARM):
                for name, client in (("direct", direct), ("routed", routed)):
                    seconds = seconds_of(partial(_ask, client, request))
                    if attempt >= _WARM:
                        took[name].append(seconds)
    middle = {name: statistics.median(times) * 1000 for name, times in took.items()}
    late = {name: statistics.quantiles(times, n=20)[-1] * 1000 for name, times in took.items()}
    added = statistics.median(ours - plain for ours, plain in zip(took["routed"], took["direct"], strict=True)) * 1000
    board.add(
        "the model router adds to a turn",
        f"p50 {added:.1f} ms",
        target=f"<= {_MOST_MS} ms",
        against=f"routed p50 {middle['routed']:.1f}, p95 {late['routed']:.1f} ms; "
        f"direct p50 {middle['direct']:.1f}, p95 {late['direct']:.1f} ms",
    )


def _ask(client: httpx.Client, request: dict[str, object]) -> None:
    client.post("/chat/completions", json=request).raise_for_status()

"""Assembles the router: settings, LiteLLM behind the gate, readings of accounts and deliveries of usage."""

import asyncio
import contextlib
import json
import logging
import os
import secrets
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import structlog
import uvicorn

from hermesops.base import process_log
from hermesops.errors import UsageError
from hermesops.model.billing.route import ModelRoute
from hermesops.programs.model_router.accounts.books import Books, open_books
from hermesops.programs.model_router.accounts.ledger import PostgresLedger
from hermesops.programs.model_router.configuration import Configuration, variable
from hermesops.programs.model_router.metrics import Metrics
from hermesops.programs.model_router.requests.admission import Admission
from hermesops.programs.model_router.requests.gate import App, Gate, Receive, Scope, Send

_SHORTEST_KEY = 32
_END_S = 20
_KEY_FILE = "router.key"
_FIRST_PASSED = 3

log = structlog.get_logger()


class Terse(logging.Formatter):
    """A log format without the record's message: LiteLLM's messages may repeat contents or a part of a key."""

    def format(self, record: logging.LogRecord) -> str:
        """The location of the log call, and the type of its exception."""
        kind = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else ""
        return f"{record.levelname.lower()} {record.name}:{Path(record.pathname).name}:{record.lineno} {kind}".rstrip()


@dataclass(frozen=True)
class Parts:
    """The parts of one router, without LiteLLM."""

    books: Books
    metrics: Metrics
    admission: Admission
    ledger: PostgresLedger


def parts_of(settings: Configuration) -> Parts:
    """Make all parts but LiteLLM.

    Raises:
        UsageError: The key that signs tokens is missing or short, or no provider has a key.
    """
    keys = _token_keys(settings.secrets / _KEY_FILE)
    if not settings.routes:
        raise UsageError(f"{settings.secrets} holds no provider's key: there is no model to route to")
    ledger = PostgresLedger(settings.database)
    books = open_books(ledger, settings.spool, longest_s=settings.limits.answer_s)
    admission = Admission(keys, books.accounts, check_address=settings.check_address)
    return Parts(books, metrics_of(books, settings.routes), admission, ledger)


def metrics_of(books: Books, routes: Sequence[ModelRoute]) -> Metrics:
    """The figures of a router with these books."""
    accounts, spool = books.accounts, books.spool
    gauges: dict[str, Callable[[], float]] = {
        "hermes_router_accounts_age_seconds": lambda: accounts.age_s,
        "hermes_router_usage_pending_bytes": lambda: spool.pending_bytes,
        "hermes_router_usage_lost_total": lambda: spool.lost,
    }
    metrics = Metrics(gauges)
    for route in routes:
        # From the beginning: Prometheus sees no increase of a counter that appears with its first answer.
        for status in ("200", "401"):
            labels = {"provider": route.provider, "model": route.name, "status": status}
            metrics.count("hermes_router_provider_answers_total", 0, **labels)
    return metrics


def gate_of(settings: Configuration, parts: Parts, litellm: App) -> Gate:
    """The gate in front of LiteLLM."""
    return Gate(
        litellm,
        parts.admission,
        parts.metrics,
        routes=settings.routes,
        limits=settings.limits,
        keys=[settings.key_of(route.provider) for route in settings.routes],
        use=parts.books.use,
        ready=lambda: parts.books.accounts.are_known,
    )


async def serve(settings: Configuration, folder: Path) -> None:
    """Serve until SIGTERM.

    Args:
        folder: For LiteLLM's configuration, which holds no secret.
    """
    parts = parts_of(settings)
    gate = gate_of(settings, parts, _litellm(settings, parts, folder))
    _quieten()
    server = uvicorn.Server(
        uvicorn.Config(
            gate,
            host="127.0.0.1",
            port=settings.port,
            access_log=False,
            log_config=None,
            lifespan="on",
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=_END_S,
        )
    )
    figures = uvicorn.Server(
        uvicorn.Config(
            partial(_figures, parts.metrics),
            host="127.0.0.1",
            port=settings.metrics_port,
            access_log=False,
            log_config=None,
            lifespan="off",
            interface="asgi3",
        )
    )
    for uvicorn_server in (server, figures):
        uvicorn_server.capture_signals = contextlib.nullcontext  # type: ignore[assignment,method-assign]
    loop = asyncio.get_running_loop()

    def end() -> None:
        server.should_exit = figures.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    async with parts.books.accounts.kept(), asyncio.TaskGroup() as group:
        group.create_task(server.serve(_passed_sockets(settings)))
        if settings.metrics_port:
            group.create_task(figures.serve())
        log.info("router_serves", routes=[route.name for route in settings.routes])
    await parts.books.accounts.read()  # delivers what is left, where the registry answers
    parts.ledger.close()


def _passed_sockets(settings: Configuration) -> list[socket.socket] | None:
    """Sockets that systemd holds for the router, so that requests wait during a restart. Source: sd_listen_fds(3)."""
    if settings.port:
        return None
    if os.environ.get("LISTEN_FDS") != "1":  # noqa: TID251 - systemd's, not a setting
        raise UsageError("no socket from systemd and no port in the settings: start hermes-platform-router.socket")
    return [socket.socket(fileno=_FIRST_PASSED)]


def _litellm(settings: Configuration, parts: Parts, folder: Path) -> App:
    """LiteLLM's application, which reads its configuration and our hooks as it starts."""
    path = folder / "litellm.yaml"
    path.write_text(json.dumps(settings.for_litellm()))  # YAML as well
    os.environ.update(  # noqa: TID251 - LiteLLM's settings, not ours
        {
            "CONFIG_FILE_PATH": str(path),
            # Nobody knows it: what would accept it is behind the gate, and asks our hook instead.
            "LITELLM_MASTER_KEY": f"sk-{secrets.token_hex(32)}",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "LITELLM_MODE": "PRODUCTION",
            "LITELLM_LOG": "ERROR",
            "DISABLE_ADMIN_UI": "True",
            "NO_DOCS": "True",
            **{variable(route.provider): settings.key_of(route.provider) for route in settings.routes},
        }
    )
    import litellm  # noqa: PLC0415 - it reads these variables as it is imported
    from litellm.proxy.proxy_server import app  # noqa: PLC0415 - as above

    from hermesops.programs.model_router.litellm_hooks import UsageLogger  # noqa: PLC0415 - as above

    routes = {route.name: route for route in settings.routes}
    litellm.telemetry = False
    litellm.callbacks.append(UsageLogger(routes, parts.metrics, parts.books.use))
    return app  # type: ignore[no-any-return]


def _quieten() -> None:
    """Make LiteLLM and its libraries log the location of errors, and no contents of requests or answers."""
    process_log.open_log(logging.INFO, process_log.for_terminal(coloured=False))
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Terse())
    logging.basicConfig(handlers=[handler], level=logging.ERROR, force=True)
    for name in list(logging.root.manager.loggerDict):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [], True
    # LiteLLM also prints.
    sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115 - for the rest of the process


async def _figures(metrics: Metrics, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001 - ASGI
    if scope["type"] != "http":
        return
    status, body = (200, metrics.exposition().encode()) if scope["path"] == "/metrics" else (404, b"")
    headers = [(b"content-type", b"text/plain; version=0.0.4"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _token_keys(path: Path) -> Sequence[bytes]:
    """Keys of tokens, one a line, the newest first."""
    try:
        keys = [line.strip().encode() for line in path.read_text().splitlines() if line.strip()]
    except OSError as error:
        raise UsageError(f"the key of agents' tokens is missing: {error}") from error
    if not keys or min(len(key) for key in keys) < _SHORTEST_KEY:
        raise UsageError(f"{path} holds no key of at least {_SHORTEST_KEY} bytes")
    return keys

"""``hermes-ingest``: ``serve`` is the gate until a signal ends it, ``revocations`` asks once what was revoked."""

import argparse
import http.client
import sys
import threading
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from hermesops.programs.ingest.nginx import Nginx
from hermesops.programs.ingest.remote_write import load_snappy
from hermesops.programs.ingest.revocations import fetch, update
from hermesops.programs.ingest.senders import Limits, Senders
from hermesops.programs.ingest.server import SWITCH_S, Gate, GateServer, HostFigures, MetricsServer, Prometheus


def main(words: Sequence[str] | None = None) -> int:
    """Do what the words say; the exit code."""
    given = _parser().parse_args(words)
    return _serve(given) if given.command == "serve" else _revocations(given)


def _serve(given: argparse.Namespace) -> int:
    sys.setswitchinterval(SWITCH_S)
    limits = Limits(**{one.name: getattr(given, one.name) for one in fields(Limits)})
    write = Prometheus("127.0.0.1", given.prometheus_port).write
    figures = HostFigures(Nginx(given.nginx_port, given.authorities), given.revocations)
    gate = Gate(Senders(limits), write, load_snappy(), figures)
    metrics = MetricsServer(given.metrics_port, gate)
    threading.Thread(target=metrics.serve_forever, daemon=True).start()
    GateServer(given.socket, gate).serve_forever()
    return 0


def _revocations(given: argparse.Namespace) -> int:
    try:
        serials = fetch(given.url, certificate=given.certificate, key=given.key, authorities=given.authorities)
    except (OSError, http.client.HTTPException, ValueError) as error:
        sys.stderr.write(f"{given.url} does not tell what was revoked: {error}\n")
        return 1
    if update(given.file, serials, given.nginx):
        sys.stderr.write(f"{len(serials)} certificates are revoked now\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hermes-ingest")
    commands = parser.add_subparsers(dest="command", required=True)
    serve = commands.add_parser("serve")
    serve.add_argument("--socket", type=Path, required=True)
    serve.add_argument("--metrics-port", type=int, required=True)
    serve.add_argument("--prometheus-port", type=int, required=True)
    serve.add_argument("--revocations", type=Path, help="its age is a metric")
    serve.add_argument("--nginx-port", type=int, required=True)
    serve.add_argument("--authorities", type=Path, required=True, help="of the certificate that nginx shows")
    for one in fields(Limits):
        default = getattr(Limits, one.name)
        serve.add_argument(f"--{one.name.replace('_', '-')}", type=type(default), default=default)
    revocations = commands.add_parser("revocations")
    revocations.add_argument("--url", required=True)
    for name in ("certificate", "key", "authorities", "file", "nginx"):
        revocations.add_argument(f"--{name}", type=Path, required=True)
    return parser


if __name__ == "__main__":
    sys.exit(main())

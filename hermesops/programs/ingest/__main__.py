"""``hermes-ingest``: ``serve`` runs the gate until a signal ends it; ``revocations`` fetches a list once."""

import argparse
import http.client
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from hermesops.programs.ingest.log_share import LogShares
from hermesops.programs.ingest.nginx import Nginx
from hermesops.programs.ingest.remote_write import load_snappy
from hermesops.programs.ingest.revocations import fetch, update
from hermesops.programs.ingest.senders import Limits, Senders
from hermesops.programs.ingest.server import SWITCH_S, Gate, GateServer, HostFigures, MetricsServer, Prometheus


def main(words: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code."""
    options = _parser().parse_args(words)
    return _serve(options) if options.command == "serve" else _revocations(options)


def _serve(options: argparse.Namespace) -> int:
    sys.setswitchinterval(SWITCH_S)
    limits = Limits(**{field.name: getattr(options, field.name) for field in fields(Limits)})
    write = Prometheus("127.0.0.1", options.prometheus_port).write
    figures = HostFigures(Nginx(options.nginx_port, options.authorities), options.revocations)
    logs = LogShares(options.log_bytes_per_s, options.log_bytes, time.monotonic)
    gate = Gate(Senders(limits), write, load_snappy(), figures, logs)
    metrics = MetricsServer(options.metrics_port, gate)
    threading.Thread(target=metrics.serve_forever, daemon=True).start()
    GateServer(options.socket, gate).serve_forever()
    return 0


def _revocations(options: argparse.Namespace) -> int:
    try:
        serials = fetch(options.url, certificate=options.certificate, key=options.key, authorities=options.authorities)
    except (OSError, http.client.HTTPException, ValueError) as error:
        sys.stderr.write(f"{options.url} did not return the revoked certificates: {error}\n")
        return 1
    if update(options.file, serials, options.nginx):
        sys.stderr.write(f"{len(serials)} certificates are revoked now\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hermes-ingest")
    commands = parser.add_subparsers(dest="command", required=True)
    serve = commands.add_parser("serve")
    serve.add_argument("--socket", type=Path, required=True)
    serve.add_argument("--metrics-port", type=int, required=True)
    serve.add_argument("--prometheus-port", type=int, required=True)
    serve.add_argument("--revocations", type=Path, help="file of revoked certificates; its age is a metric")
    serve.add_argument("--nginx-port", type=int, required=True)
    serve.add_argument("--authorities", type=Path, required=True, help="PEM of the authorities of nginx's certificate")
    serve.add_argument("--log-bytes-per-s", type=float, required=True, help="of bodies, in the long run")
    serve.add_argument("--log-bytes", type=float, required=True, help="of bodies, at once")
    for field in fields(Limits):
        default = getattr(Limits, field.name)
        serve.add_argument(f"--{field.name.replace('_', '-')}", type=type(default), default=default)
    revocations = commands.add_parser("revocations")
    revocations.add_argument("--url", required=True)
    for name in ("certificate", "key", "authorities", "file", "nginx"):
        revocations.add_argument(f"--{name}", type=Path, required=True)
    return parser


if __name__ == "__main__":
    sys.exit(main())

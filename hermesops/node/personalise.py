"""Turn a machine without a user into a user's agent, or bring an agent's managed files up to date.

Every step looks before it changes, so the whole may be killed anywhere and run again. The identity is written last:
until then the gateway's unit does not start.
"""

import hashlib
import json
import pwd
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hermesops.node import base as base_configuration
from hermesops.node import files, gateway, render
from hermesops.node.base import Base
from hermesops.node.errors import BadRequestError, NotReadyError, RefusedError, UnhealthyError
from hermesops.node.files import Access
from hermesops.node.layout import Layout
from hermesops.node.protocol import MAX_PAYLOAD_BYTES, Payload, identity_from_json

_PRIVATE = Access(0o600)
_DRAIN_MARKER = ".drain_request.json"


@dataclass
class Outcome:
    """What was done.

    Attributes:
        changed: Files that differ from before, and ``gateway`` when it was started or restarted.
        healthy: Whether the gateway answered that all is well within the time allowed.
    """

    changed: list[str] = field(default_factory=list)
    gateway: str = "left alone"
    healthy: bool = False
    cron_jobs_made: int = 0
    seconds: float = 0.0


def personalise(layout: Layout, path: Path, *, wait_s: float, replace_instance: str = "") -> Outcome:
    """Apply an uploaded payload and start the gateway, or restart it when what it has read has changed.

    Args:
        layout: The machine.
        path: The payload; the file is gone afterwards, whatever happens.
        wait_s: Seconds the gateway may take to become healthy; 0 does not start it.
        replace_instance: Id of the instance this machine may stop being.

    Raises:
        BadRequestError: The payload is not one.
        RefusedError: It is older than what is here, or another instance's.
        NotReadyError: The machine is not prepared, or the gateway did not become healthy.
    """
    started = time.monotonic()
    payload = Payload.from_json(files.take(path, limit=MAX_PAYLOAD_BYTES))
    with files.locked(layout.lock):
        base = base_configuration.load(layout.base)
        _guard(layout, payload, replace_instance)
        return _apply(layout, base, payload, wait_s=wait_s, started=started)


def configure(layout: Layout, *, wait_s: float) -> Outcome:
    """Render the managed files again from the stored payload and today's base configuration.

    Raises:
        NotReadyError: This machine belongs to nobody yet.
    """
    started = time.monotonic()
    with files.locked(layout.lock):
        payload = stored_payload(layout)
        return _apply(layout, base_configuration.load(layout.base), payload, wait_s=wait_s, started=started)


def stored_payload(layout: Layout) -> Payload:
    """The payload this machine was last given."""
    data = files.read(layout.payload)
    if data is None or files.read(layout.identity) is None:
        raise NotReadyError("this machine belongs to nobody yet: personalise it first")
    return Payload.from_json(data)


def _guard(layout: Layout, payload: Payload, replace_instance: str) -> None:
    held = files.read(layout.identity)
    if held is None:
        return
    here, wanted = identity_from_json(held), payload.identity
    if here.instance not in {wanted.instance, replace_instance}:
        raise RefusedError(f"this machine is instance {here.instance}'s, not {wanted.instance}'s")
    if here.instance == wanted.instance and wanted.epoch < here.epoch:
        raise RefusedError(f"epoch {wanted.epoch} is older than this machine's {here.epoch}")


def _apply(layout: Layout, base: Base, payload: Payload, *, wait_s: float, started: float) -> Outcome:
    outcome = Outcome()
    account = _account(base)
    # Rendered before anything is written: a bad setting must not leave half of a new configuration.
    config, environment = render.managed_config(base, payload), render.managed_environment(base, payload)
    _write_managed(layout, config, environment, account.gid, outcome)
    applied = _applied(layout, payload)
    _furnish_home(layout, base, payload, Access(0o600, account.uid, account.gid), applied, outcome)
    _record(layout, payload, applied, outcome)
    if wait_s > 0:
        _bring_up(layout, base, payload, outcome, wait_s=wait_s)
        _make_cron_jobs(layout, base, payload, applied, outcome)
    outcome.seconds = round(time.monotonic() - started, 3)
    return outcome


def _account(base: Base) -> Access:
    try:
        entry = pwd.getpwnam(base.user)
    except KeyError:
        raise NotReadyError(f"no user {base.user}: role hermes_base has not been applied to this machine") from None
    return Access(0o600, entry.pw_uid, entry.pw_gid)


def _write_managed(layout: Layout, config: bytes, environment: bytes, gid: int, outcome: Outcome) -> None:
    shared = Access(0o640, 0, gid)
    wanted = {layout.managed / "config.yaml": config, layout.managed / ".env": environment}
    outdated = {path: data for path, data in wanted.items() if files.differs(path, data, shared)}
    if outdated:
        # Before the first write: killed between here and the restart, the next run must still restart.
        files.write_if_changed(layout.stale, b"", _PRIVATE)
    for path, data in outdated.items():
        files.write_if_changed(path, data, shared)
        outcome.changed.append(str(path))


def _applied(layout: Layout, payload: Payload) -> dict[str, Any]:
    data = files.read(layout.applied)
    held = json.loads(data) if data else {}
    return held if held.get("instance") == payload.identity.instance else {"instance": payload.identity.instance}


def _furnish_home(
    layout: Layout, base: Base, payload: Payload, access: Access, applied: dict[str, Any], outcome: Outcome
) -> None:
    home = layout.home(base.home)
    personality = payload.settings.personality
    digest = hashlib.sha256(personality.encode()).hexdigest()
    with files.opened_folder(home) as folder:
        if not files.exists(folder, "config.yaml"):
            files.write(folder, "config.yaml", render.user_config(base), access)
            outcome.changed.append(str(home / "config.yaml"))
        # Given once: what the agent or its user makes of it later is theirs, until another text is chosen.
        if personality and applied.get("personality") != digest:
            files.write(folder, "SOUL.md", personality.encode(), access)
            outcome.changed.append(str(home / "SOUL.md"))
            applied["personality"] = digest


def _record(layout: Layout, payload: Payload, applied: dict[str, Any], outcome: Outcome) -> None:
    for path, data in (
        (layout.applied, json.dumps(applied, sort_keys=True).encode()),
        (layout.payload, payload.to_json()),
        (layout.identity, json.dumps(asdict(payload.identity), sort_keys=True).encode()),
    ):
        if files.write_if_changed(path, data, _PRIVATE):
            outcome.changed.append(str(path))


def _bring_up(layout: Layout, base: Base, payload: Payload, outcome: Outcome, *, wait_s: float) -> None:
    unit = gateway.look(base.unit)
    if not unit.is_running or layout.stale.exists():
        # A marker that outlived its gateway would make the next one refuse every turn after a moment.
        with files.opened_folder(layout.home(base.home)) as folder:
            files.remove(folder, _DRAIN_MARKER)
        outcome.gateway = "restarted" if unit.is_running else "started"
        outcome.changed.append("gateway")
        (gateway.restart if unit.is_running else gateway.start)(base.unit)
        layout.stale.unlink(missing_ok=True)
    answer = gateway.wait_until_healthy(base.port, payload.secrets.api_server_key, timeout_s=wait_s)
    outcome.healthy = gateway.is_ok(answer)
    if not outcome.healthy:
        _explain(base, answer, wait_s)


def _explain(base: Base, answer: gateway.Answer, wait_s: float) -> None:
    if answer.status == 0:
        unit = gateway.look(base.unit)
        state = f"{unit.state}, {unit.properties.get('Result', '')}"
        raise NotReadyError(f"the gateway did not answer within {wait_s:g} s ({state}): {answer.body}")
    raise UnhealthyError(f"the gateway answers {answer.status} and is not well after {wait_s:g} s: {answer.body}")


def _make_cron_jobs(layout: Layout, base: Base, payload: Payload, applied: dict[str, Any], outcome: Outcome) -> None:
    made = set(applied.get("cron", ()))
    for digest, job in _jobs_beyond(made, payload):
        _make_cron_job(base, payload.secrets.api_server_key, job, digest)
        made.add(digest)
        applied["cron"] = sorted(made)
        # After each job: killed here, the next run must not make it twice.
        files.write_if_changed(layout.applied, json.dumps(applied, sort_keys=True).encode(), _PRIVATE)
        outcome.cron_jobs_made += 1


def missing_jobs(layout: Layout, payload: Payload) -> list[Mapping[str, Any]]:
    """The payload's cron jobs that its instance's agent has not been given yet."""
    return [job for _, job in _jobs_beyond(set(_applied(layout, payload).get("cron", ())), payload)]


def _jobs_beyond(made: set[str], payload: Payload) -> list[tuple[str, Mapping[str, Any]]]:
    jobs = [
        (hashlib.sha256(json.dumps(job, sort_keys=True).encode()).hexdigest(), job) for job in payload.settings.cron
    ]
    return [(digest, job) for digest, job in jobs if digest not in made]


def _make_cron_job(base: Base, key: str, job: Any, digest: str) -> None:  # noqa: ANN401 - JSON as the protocol checked it
    name = f"helium-{digest[:12]}"
    listed = gateway.ask(base.port, "/api/jobs?include_disabled=true", key=key)
    if listed.status == 200 and any(held.get("name") == name for held in listed.body.get("jobs", ())):  # noqa: PLR2004 - OK
        return
    body = {"name": name, "schedule": job["cron"], "prompt": job["prompt"]}
    answer = gateway.ask(base.port, "/api/jobs", key=key, body=body)
    if answer.status != 200:  # noqa: PLR2004 - OK
        raise BadRequestError(f"the agent refused a cron job ({answer.status}): {answer.body}")
    if not job["enabled"]:
        gateway.ask(base.port, f"/api/jobs/{answer.body['job']['id']}/pause", key=key, body={})

"""``personalise``, ``configure`` and ``warm``: write an instance's files, and start its gateway.

Every step checks before it changes, so all of it may be killed anywhere and run again. The identity is written last:
until then the gateway's unit does not start.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from hermesops.programs.node.instance import certificate, fencing, render, volume, warm
from hermesops.programs.node.instance.agent import gateway
from hermesops.programs.node.instance.agent.installation import Agent, Base, account
from hermesops.programs.node.machine import Machine
from hermesops.programs.node.release.slots.slot import base_of
from hermesops.programs.node.state.backup import settle
from hermesops.programs.node.system.as_user import AgentHome
from hermesops.programs.node.system.files import PRIVATE, Access
from hermesops.wire import sha256
from hermesops.wire.errors import BadRequestError, NotReadyError, RefusedError, UnhealthyError
from hermesops.wire.layout import DRAIN_MARKER
from hermesops.wire.protocol import MAX_PAYLOAD_BYTES, FencingToken, Payload, identity_from_json
from hermesops.wire.state.contents import OURS


@dataclass
class Outcome:
    """The outcome of a change to an instance's files.

    Attributes:
        changed: Files that were changed, and ``gateway`` when it was started or restarted.
        healthy: Whether the gateway was healthy within the time allowed.
    """

    changed: list[str] = field(default_factory=list)
    gateway: str = "left alone"
    healthy: bool = False
    cron_jobs_made: int = 0
    seconds: float = 0.0


def personalise(
    machine: Machine, path: Path, *, wait_s: float, replace_instance: str = "", lease: FencingToken | None = None
) -> Outcome:
    """Apply an uploaded payload; start the gateway, or restart it if its files have changed.

    The uploaded file is always removed. ``wait_s`` is the time in which the gateway must become healthy; with 0 it is
    not started. ``replace_instance`` is the instance that this machine may replace.

    Raises:
        BadRequestError: The payload is malformed.
        RefusedError: It is older than the present one, or another instance's.
        OutrankedError: The lease was taken over.
        NotReadyError: The machine is not prepared, or the gateway did not become healthy.
    """
    started = machine.system.monotonic()
    payload = Payload.from_json(machine.files.take(path, limit=MAX_PAYLOAD_BYTES))
    with machine.files.locked(machine.layout.lock):
        base = base_of(machine)
        _guard(machine, payload, replace_instance)
        fencing.refuse_fenced(machine, payload.identity)
        fencing.admit(machine, lease, replaces=bool(replace_instance))
        if payload.credential:
            certificate.put(machine, payload.credential)
        # Not stored with the rest: it is renewed, and the payload's digest must not change with it.
        return _apply(machine, base, replace(payload, credential=None), wait_s=wait_s, started=started)


def configure(machine: Machine, *, wait_s: float, lease: FencingToken | None = None) -> Outcome:
    """Render the managed files again from the stored payload and the present base configuration.

    A fenced machine's gateway stays down.

    Raises:
        NotReadyError: This machine has no instance yet.
        OutrankedError: The lease was taken over.
    """
    started = machine.system.monotonic()
    with machine.files.locked(machine.layout.lock):
        payload = stored_payload(machine)
        fencing.admit(machine, lease)
        base = base_of(machine)
        fenced = fencing.is_fenced(machine)
        outcome = _apply(machine, base, payload, wait_s=0.0 if fenced else wait_s, started=started)
        outcome.gateway = "fenced" if fenced else outcome.gateway
        return outcome


def stored_payload(machine: Machine) -> Payload:
    """The latest payload of this machine.

    Raises:
        NotReadyError: It has no instance yet.
    """
    data = machine.files.read(machine.layout.payload)
    if data is None or machine.files.read(machine.layout.identity) is None:
        raise NotReadyError("this machine has no instance yet: personalise it first")
    return Payload.from_json(data)


def _guard(machine: Machine, payload: Payload, replace_instance: str) -> None:
    data = machine.files.read(machine.layout.identity)
    if data is None:
        return
    here, identity = identity_from_json(data), payload.identity
    if here.instance not in {identity.instance, replace_instance}:
        raise RefusedError(f"this machine is instance {here.instance}'s, not {identity.instance}'s")
    if here.instance == identity.instance and identity.epoch < here.epoch:
        raise RefusedError(f"epoch {identity.epoch} is older than this machine's {here.epoch}")


def _apply(machine: Machine, base: Base, payload: Payload, *, wait_s: float, started: float) -> Outcome:
    outcome = Outcome()
    volume.await_open(machine)
    owner = account(machine, base.user)
    home = AgentHome(machine.layout.home(base.home), owner, machine.layout.program)
    settle(machine, Agent(base, home))
    # Rendered before anything is written: a bad setting must not leave half of a new configuration.
    certificate.trust_router(machine)
    config = render.managed_config(base, payload)
    environment = render.managed_environment(base, payload, authorities=certificate.all_authorities(machine))
    write_managed(machine, config, environment, owner.gid, outcome)
    applied = _applied(machine, payload)
    furnish_home(machine, base, payload, Access(0o600, owner.uid, owner.gid), applied, outcome)
    _record(machine, payload, applied, outcome)
    fencing.lift_fence(machine, payload.identity)
    if wait_s > 0:
        start_gateway(machine, base, payload, outcome, wait_s=wait_s)
        was_restarted = outcome.gateway != "left alone"
        for marker in (machine.layout.warm, machine.layout.unread):
            if machine.files.read(marker) is None:
                continue
            if not was_restarted:  # the agent reads its user's files in a turn, as it would at its start
                warm.take_turn(machine, base, payload.secrets.api_server_key)
            machine.remove(marker)
        _make_cron_jobs(machine, base, payload, applied, outcome)
        with machine.files.opened_folder(home.path) as folder:
            has_kept_state = machine.files.exists(folder, OURS.decode())
        if has_kept_state:  # by a restore, of the state before it: the agent is healthy with the new one
            machine.state.forget(home)
    outcome.seconds = round(machine.system.monotonic() - started, 3)
    return outcome


def write_managed(machine: Machine, config: bytes, environment: bytes, gid: int, outcome: Outcome) -> None:
    """Write the managed files, and note whether the gateway needs a restart, or a turn, to read them."""
    shared = Access(0o640, 0, gid)
    files = {machine.layout.managed / "config.yaml": config, machine.layout.managed / ".env": environment}
    outdated = {path: data for path, data in files.items() if machine.files.differs(path, data, shared)}
    before = {path: machine.files.read(path) for path in outdated}
    # Of a file that others could read, or that had another owner, the agent has nothing new to learn.
    unread = {path: data for path, data in outdated.items() if before[path] != data}
    # Before the first write: killed between here and the restart, or the turn, the next run must still do it.
    if warm.is_warm(machine):
        if not all(warm.is_hot(before[path], data) for path, data in unread.items()):
            machine.files.write_if_changed(machine.layout.stale, b"", PRIVATE)
    elif unread:
        is_token = all(warm.is_only_token(before[path], data) for path, data in unread.items())
        machine.files.write_if_changed(machine.layout.unread if is_token else machine.layout.stale, b"", PRIVATE)
    for path, data in outdated.items():
        machine.files.write_if_changed(path, data, shared)
        outcome.changed.append(str(path))


def is_written(machine: Machine, base: Base, payload: bytes) -> bool:
    """Whether the managed files exist, contain the keys of a stored payload, and are private to the agent.

    Their other content comes with a release, which writes them anew.
    """
    try:
        shared = Access(0o640, 0, account(machine, base.user).gid)
        secrets = set(render.payload_environment(Payload.from_json(payload)))
    except (BadRequestError, NotReadyError):
        return False
    files = {name: machine.files.read(machine.layout.managed / name) for name in ("config.yaml", ".env")}
    are_private = all(
        data is not None and not machine.files.differs(machine.layout.managed / name, data, shared)
        for name, data in files.items()
    )
    return are_private and secrets.issubset((files[".env"] or b"").splitlines(keepends=True))


def _applied(machine: Machine, payload: Payload) -> dict[str, Any]:
    data = machine.files.read(machine.layout.applied)
    applied = json.loads(data) if data else {}
    return applied if applied.get("instance") == payload.identity.instance else {"instance": payload.identity.instance}


def furnish_home(
    machine: Machine, base: Base, payload: Payload, access: Access, applied: dict[str, Any], outcome: Outcome
) -> None:
    """Write the first files of the agent's home: the user's configuration and persona."""
    home = machine.layout.home(base.home)
    personality = payload.settings.personality
    digest = sha256.hexdigest(personality.encode())
    with machine.files.opened_folder(home) as folder:
        if not machine.files.exists(folder, "config.yaml"):
            machine.files.write(folder, "config.yaml", render.user_config(base), access)
            outcome.changed.append(str(home / "config.yaml"))
        # Written once: afterwards it is the agent's and its user's to change, until another text is chosen.
        if personality and applied.get("personality") != digest:
            machine.files.write(folder, "SOUL.md", personality.encode(), access)
            outcome.changed.append(str(home / "SOUL.md"))
            applied["personality"] = digest


def _record(machine: Machine, payload: Payload, applied: dict[str, Any], outcome: Outcome) -> None:
    for path, data in (
        (machine.layout.applied, json.dumps(applied, sort_keys=True).encode()),
        (machine.layout.payload, payload.to_json()),
        (machine.layout.identity, json.dumps(asdict(payload.identity), sort_keys=True).encode()),
    ):
        if machine.files.write_if_changed(path, data, PRIVATE):
            outcome.changed.append(str(path))


def start_gateway(machine: Machine, base: Base, payload: Payload, outcome: Outcome, *, wait_s: float) -> None:
    """Start the gateway, or restart one that runs with older files, and wait until it is healthy.

    Raises:
        NotReadyError: It does not answer in time.
        UnhealthyError: It answers, and is not healthy.
    """
    unit = gateway.observe(machine.system, base.unit)
    if not unit.is_running or machine.files.read(machine.layout.stale) is not None:
        # A marker that outlived its gateway would make the next one refuse every turn after a moment.
        machine.remove(machine.layout.home(base.home) / DRAIN_MARKER)
        outcome.gateway = "restarted" if unit.is_running else "started"
        outcome.changed.append("gateway")
        (gateway.restart if unit.is_running else gateway.start)(machine.system, base.unit)
        machine.remove(machine.layout.stale)
    answer = gateway.wait_until_healthy(machine.system, base.port, payload.secrets.api_server_key, timeout_s=wait_s)
    outcome.healthy = gateway.is_ok(answer)
    if outcome.healthy:
        return
    if answer.status == 0:
        unit = gateway.observe(machine.system, base.unit)
        state = f"{unit.state}, {unit.properties.get('Result', '')}"
        raise NotReadyError(f"the gateway did not answer within {wait_s:g} s ({state}): {answer}")
    raise UnhealthyError(f"the gateway answers and is not healthy after {wait_s:g} s: {answer}")


def _make_cron_jobs(machine: Machine, base: Base, payload: Payload, applied: dict[str, Any], outcome: Outcome) -> None:
    digests = set(applied.get("cron", ()))
    for digest, job in _jobs_beyond(digests, payload):
        _make_cron_job(machine, base, payload.secrets.api_server_key, job, digest)
        digests.add(digest)
        applied["cron"] = sorted(digests)
        # After each job: killed here, the next run must not make it twice.
        machine.files.write_if_changed(machine.layout.applied, json.dumps(applied, sort_keys=True).encode(), PRIVATE)
        outcome.cron_jobs_made += 1


def missing_jobs(machine: Machine, payload: Payload) -> list[Mapping[str, Any]]:
    """The payload's cron jobs that the agent does not have yet."""
    return [job for _, job in _jobs_beyond(set(_applied(machine, payload).get("cron", ())), payload)]


def _jobs_beyond(digests: set[str], payload: Payload) -> list[tuple[str, Mapping[str, Any]]]:
    jobs = [(sha256.hexdigest(json.dumps(job, sort_keys=True).encode()), job) for job in payload.settings.cron]
    return [(digest, job) for digest, job in jobs if digest not in digests]


def _make_cron_job(machine: Machine, base: Base, key: str, job: Any, digest: str) -> None:  # noqa: ANN401 - JSON as the protocol checked it
    name = f"helium-{digest[:12]}"
    listed = machine.system.ask(base.port, "/api/jobs?include_disabled=true", key=key)
    if listed.status == 200 and any(existing.get("name") == name for existing in listed.objects("jobs") or ()):  # noqa: PLR2004 - OK
        return
    body = {"name": name, "schedule": job["cron"], "prompt": job["prompt"]}
    answer = machine.system.ask(base.port, "/api/jobs", key=key, body=body)
    if answer.status != 200:  # noqa: PLR2004 - OK
        raise BadRequestError(f"the agent refused a cron job: {answer}")
    if not job["enabled"]:
        machine.system.ask(
            base.port, f"/api/jobs/{quote(str(answer.part('job').get('id')), safe='')}/pause", key=key, body={}
        )


def warm_up(machine: Machine, *, model_base_url: str, wait_s: float, lease: FencingToken | None = None) -> Outcome:
    """Run the gateway with a placeholder and let it take a turn of which nothing stays; may be repeated.

    Raises:
        BadRequestError: The URL is malformed.
        RefusedError: The machine has an instance, or is fenced.
        OutrankedError: The lease was taken over.
        NotReadyError: The machine is not prepared, or the gateway did not become healthy.
    """
    started = machine.system.monotonic()
    with machine.files.locked(machine.layout.lock):
        base = base_of(machine)
        if machine.files.read(machine.layout.identity) is not None:
            raise RefusedError("this machine belongs to an instance: only an unassigned one is warmed up")
        volume.await_open(machine)
        fencing.refuse_fenced(machine, warm.NOBODY)
        fencing.admit(machine, lease)
        owner = account(machine, base.user)
        payload = warm.placeholder(machine, model_base_url)
        outcome = Outcome()
        config, environment = render.managed_config(base, payload), render.managed_environment(base, payload)
        write_managed(machine, config, environment, owner.gid, outcome)
        furnish_home(machine, base, payload, Access(0o600, owner.uid, owner.gid), {}, outcome)
        start_gateway(machine, base, payload, outcome, wait_s=wait_s)
        warm.take_turn(machine, base, payload.secrets.api_server_key)
    outcome.seconds = round(machine.system.monotonic() - started, 3)
    return outcome

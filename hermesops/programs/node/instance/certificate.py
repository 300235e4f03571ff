"""``certificate``: the machine's own key, made at its first boot, and the certificate that the authority issues for it.

The key never leaves the machine. A certificate is replaced in one step, and the old one is valid until then; the
authority alone decides on the names in it.
"""

from pathlib import Path
from typing import Any

from hermesops.programs.node.instance import fencing
from hermesops.programs.node.machine import Machine
from hermesops.programs.node.system.files import PRIVATE, Access
from hermesops.wire.errors import BadRequestError, NodeError, NotReadyError, RefusedError
from hermesops.wire.layout import Layout
from hermesops.wire.protocol import MAX_CREDENTIAL_BYTES, Credential, FencingToken


def request(machine: Machine, *, anew: bool = False, lease: FencingToken | None = None) -> dict[str, Any]:
    """Make the machine's key if it has none; return the certificate signing request for it.

    ``anew`` makes another key where the present one came with a copied disk; its certificate is removed first.
    """
    layout = machine.layout
    with machine.files.locked(layout.lock):
        fencing.admit(machine, lease)
        if anew:
            _remove(machine, layout.machine_certificate, layout.machine_request, layout.machine_key)
            _remove(machine, layout.ssh_host_key, layout.ssh_host_public)
        key = machine.files.read(layout.machine_key)
        if key is None:
            _remove(machine, layout.machine_request)  # for a key that is gone
            key = machine.keys.make()
            machine.files.write_if_changed(layout.machine_key, key, PRIVATE)
        if machine.files.read(layout.machine_request) is None:
            machine.files.write_if_changed(layout.machine_request, machine.keys.request(key), PRIVATE)
    return show(machine)


def install(machine: Machine, path: Path, *, lease: FencingToken | None = None) -> dict[str, Any]:
    """Install an uploaded certificate; the uploaded file is always removed.

    Raises:
        BadRequestError: It is malformed.
        RefusedError: It is of another key.
        OutrankedError: The lease was taken over.
    """
    credential = Credential.from_json(machine.files.take(path, limit=MAX_CREDENTIAL_BYTES))
    with machine.files.locked(machine.layout.lock):
        fencing.admit(machine, lease)
        put(machine, credential)
    return show(machine)


def put(machine: Machine, credential: Credential) -> None:
    """Replace the machine's certificate; the caller holds the machine's lock.

    Raises:
        RefusedError: It is of another key than this machine's.
    """
    key = machine.files.read(machine.layout.machine_key)
    if key is None or not machine.keys.fits(key, credential.certificate.encode()):
        raise RefusedError(f"certificate {credential.serial} does not fit this machine's key")
    # The authority first: the one that signed this certificate may be new, and the bundle has the one before, too.
    machine.files.write_if_changed(machine.layout.authority, credential.authority.encode(), PRIVATE)
    trust_router(machine)
    machine.files.write_if_changed(machine.layout.machine_certificate, credential.to_pem(), PRIVATE)


def trust_router(machine: Machine) -> None:
    """Write the authorities by which the agent trusts the model router, once those of the platform are known.

    A router of the platform has a certificate of ours, another router one of a public authority. The file applies only
    to connections to the router: the agent's other connections are not the platform's concern.
    """
    layout = machine.layout
    ours = machine.files.read(layout.authority)
    if ours is not None:
        public = machine.files.read(layout.public_authorities) or b""
        machine.files.write_if_changed(layout.router_authorities, ours.rstrip(b"\n") + b"\n" + public, Access(0o644))


def all_authorities(machine: Machine) -> str:
    """The file with the platform's authorities and the public ones; empty while it lacks either."""
    layout = machine.layout
    has_both = machine.files.read(layout.router_authorities) and machine.files.read(layout.public_authorities)
    return str(Layout().router_authorities) if has_both else ""


def renew(machine: Machine) -> dict[str, Any]:
    """Replace the certificate by a fresh one of the same names once two thirds of its life are over.

    The fresh one is tried before it is put in place. One that hermesops installs meanwhile stays.

    Raises:
        NotReadyError: The platform does not answer; the timer tries again.
        RefusedError: The platform refuses this machine, or gives it other names.
    """
    if machine.files.read(machine.layout.machine_certificate) is None:
        return {"renewed": False, "why": "there is none yet"}
    credential, key = installed(machine)
    if machine.system.now() < credential.renewal_at:
        return {"renewed": False, "why": "renewal is not due"}
    csr = machine.files.read(machine.layout.machine_request) or machine.keys.request(key)
    fresh = Credential.from_json(machine.ask_platform(credential, key, "POST", "/v1/certificate", csr))
    if set(fresh.names) != set(credential.names):
        raise RefusedError(f"the platform's certificate has other names: {', '.join(fresh.names)}")
    if not machine.keys.fits(key, fresh.certificate.encode()):
        raise RefusedError(f"certificate {fresh.serial} does not fit this machine's key")
    machine.ask_platform(fresh, key, "GET", "/v1/standing", b"")
    with machine.files.locked(machine.layout.lock):
        if (now := _installed(machine)) is None or now.serial != credential.serial:
            return {"renewed": False, "why": "the certificate was replaced meanwhile"}
        put(machine, fresh)
    return {"renewed": True, **show(machine)}


def show(machine: Machine) -> dict[str, Any]:
    """The certificate signing request and the certificate; neither is secret."""
    csr = machine.files.read(machine.layout.machine_request)
    credential = _installed(machine)
    fields: dict[str, Any] = {"serial": None, "names": []}
    if credential is not None:
        fields = {
            "serial": credential.serial,
            "names": list(credential.names),
            "not_before": credential.not_before,
            "not_after": credential.not_after,
            "expired": machine.system.now() >= credential.not_after,
            "url": credential.url,
        }
    return {"request": csr.decode() if csr else "", **fields}


def installed(machine: Machine) -> tuple[Credential, bytes]:
    """The machine's certificate and its key.

    Raises:
        NotReadyError: It has none yet.
    """
    layout = machine.layout
    certificate, authority = machine.files.read(layout.machine_certificate), machine.files.read(layout.authority)
    key = machine.files.read(layout.machine_key)
    if certificate is None or authority is None or key is None:
        raise NotReadyError("this machine has no certificate yet: hermesops identity renew gives it one")
    return Credential.from_pem(certificate, authority), key


def _installed(machine: Machine) -> Credential | None:
    certificate, authority = (
        machine.files.read(path) for path in (machine.layout.machine_certificate, machine.layout.authority)
    )
    if certificate is None or authority is None:
        return None
    try:
        return Credential.from_pem(certificate, authority)
    except BadRequestError:
        return None  # a damaged one counts as none, and is replaced


def _remove(machine: Machine, *paths: Path) -> None:
    with machine.files.opened_folder(machine.layout.machine_key.parent) as folder:
        for path in paths:
            machine.files.remove(folder, path.name)


def of_status(machine: Machine) -> dict[str, Any] | None:
    """``show`` for ``status``; answers even with damaged files."""
    try:
        return show(machine)
    except NodeError:
        return None

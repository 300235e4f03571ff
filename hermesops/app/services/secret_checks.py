"""Whether the secrets of an environment are there, and open what they should."""

from typing import TYPE_CHECKING

from hermesops.doctor.environment import Look, check_all
from hermesops.errors import HermesError, RefusedError
from hermesops.model.check import Check
from hermesops.secrets.catalog import (
    API_KEY,
    AUTHORITY_KEY,
    BACKUP_KEY,
    CATALOG,
    PULUMI_PASSPHRASE,
    REGISTRY_KEY,
    RELEASE_KEY,
    ROUTER_KEY,
    SecretSpec,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from hermesops.app.container import Container
    from hermesops.secrets.store import SecretState

LOCAL_WORLD = "the local world"


def held_secrets(app: "Container") -> "tuple[SecretState, ...]":
    """What there is of each secret that this environment needs, in the table's order.

    Raises:
        RefusedError: The home does not let us in.
        UnavailableError: The home does not answer.
    """
    from hermesops.secrets.store import SecretState

    worlds_own = {API_KEY, ROUTER_KEY, BACKUP_KEY} if app.env.is_local else set()
    found = (app.secrets.held(one) for one in CATALOG)
    return tuple(
        SecretState(one.needed, LOCAL_WORLD, app.env.world.exists(), None)
        if one.needed in worlds_own and not one.is_there
        else one
        for one in found
    )


def unneeded(app: "Container") -> list[str]:
    """What the home holds that is none of the table: something mistyped, perhaps."""
    try:
        return sorted(app.secrets.home.names() - {one.name for one in CATALOG})
    except HermesError:  # the checks say what is wrong with the home
        return []


async def check_secrets(app: "Container", names: tuple[str, ...] = ()) -> list[Check]:
    """Use each secret for something harmless, one after the other, since two of them open the registry.

    Args:
        app: The environment.
        names: Only these; empty for all.
    """
    opens: dict[SecretSpec, Look] = {
        API_KEY: app.vendor_answers,
        REGISTRY_KEY: _sync(app, _registry_opens),
        PULUMI_PASSPHRASE: _sync(app, _passphrase),
        ROUTER_KEY: _sync(app, _router_key),
        BACKUP_KEY: _bucket(app),
        AUTHORITY_KEY: _sync(app, _authority),
        RELEASE_KEY: _sync(app, _release_key),
    }
    wanted = [one for one in CATALOG if not names or one.name in names]
    return [check for one in wanted for check in await check_all({one.name: opens[one]})]


def _sync(app: "Container", look: "Callable[[Container], str]") -> Look:
    async def opens() -> str:
        return look(app)

    return opens


def _registry_opens(app: "Container") -> str:
    from hermesops.keyring.key_ring import parse_ring

    registry = app.registry
    left = registry.sealing.count_otherwise()
    if left:
        raise RefusedError(
            f"{left} values are sealed with an older key than {registry.sealing.key()}: a rotation was cut short",
            hint=f"{app.program} secrets rotate {REGISTRY_KEY.name} --reason WHY",
        )
    ring = parse_ring(app.secrets.read(REGISTRY_KEY), app.secrets.where(REGISTRY_KEY))
    kept = f", {len(ring.retired)} kept for older copies" if ring.retired else ""
    return f"the registry opens; key {registry.sealing.key()} seals{kept}"


def _passphrase(app: "Container") -> str:
    if app.secrets.find(PULUMI_PASSPHRASE) is None:
        return "made when the first cell is"
    return "readable; stack preview --all tries it on every state"


def _router_key(app: "Container") -> str:
    return f"{8 * len(app.router_key)} bits"


def _authority(app: "Container") -> str:
    from hermesops.app.services.machine_certificates import authority_of

    known = len(app.registry.certificates.list_authorities())
    if not known:
        return "made with the first machine's certificate"
    authority_of(app)
    return f"signs; machines trust {known}"


def _release_key(app: "Container") -> str:
    from hermesops.app.services.release_signing import can_sign, signer_of

    if not can_sign(app):
        return "nobody signs releases here; they can be brought all the same"
    signer = signer_of(app)
    return f"{signer.public()} signs releases" if signer else "made with the first release"


def _bucket(app: "Container") -> Look:
    async def opens() -> str:
        if app.env.is_local and not app.env.settings.backup_bucket:
            return "the local world's own, made with the first backup"
        async with app.session() as session:
            bucket = await session.backups.keys.reach()
        return f"bucket {bucket.name} answers, and keeps versions"

    return opens

"""Composes releases: where they are kept, whose signatures count, and what a build takes from roles and images."""

from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hermesops import assets
from hermesops.app.operators import who_acts
from hermesops.errors import RefusedError
from hermesops.node.release_lock import NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermesops.access.signature import Signers
    from hermesops.app.app import App
    from hermesops.image.definition import Definition
    from hermesops.image.download import Pip
    from hermesops.node.release_lock import Lock
    from hermesops.node.revocations import Revocations
    from hermesops.release import Releases
    from hermesops.release.build import Builder, Built, Order
    from hermesops.release.parts import Parts

_SUBJECT = "releases"
_ROLE = "hermes_gateway"


def releases_of(app: "App") -> "Releases":
    """The releases of an environment; nothing is read."""
    from hermesops.access.signature import check
    from hermesops.engine.embedded.place import open_place
    from hermesops.release import Releases
    from hermesops.release.trust import Trust

    env = app.env
    store = open_place(env.settings.releases or env.folder / "releases", setting="releases")
    vouchers = env.settings.allowed_signers
    trust = Trust(
        store,
        partial(check, revoked=env.settings.revoked_signers),
        known=partial(_known, _memory(env.keys)),
        remember=partial(_remember, _memory(env.keys)),
        vouchers=_text(vouchers) if vouchers else "",
    )
    return Releases(store, trust, _Signs(app))


def can_sign(app: "App") -> bool:
    """Whether releases can be signed here, be it with a key that the first one makes."""
    from hermesops.access.needed import RELEASE_KEY

    settings = app.env.settings
    given = settings.release_key_file or settings.operator_key
    return bool(given or app.env.is_local) or app.secrets.find(RELEASE_KEY) is not None


def signer_of(app: "App") -> "Signers | None":
    """Who signs releases here, with a key that is there already; ``None`` where the first release makes one.

    Raises:
        RefusedError: There is nobody.
    """
    from hermesops.access.needed import RELEASE_KEY
    from hermesops.access.release_key import as_file
    from hermesops.access.signature import Signers

    settings, secrets = app.env.settings, app.secrets
    if key := settings.release_key_file or settings.operator_key:
        return Signers(key)
    text = secrets.find(RELEASE_KEY)
    if text is not None:
        return Signers(secrets.lend(RELEASE_KEY, as_file(text)))
    if app.env.is_local:
        return None
    raise RefusedError(
        f"nobody signs releases in environment {app.env.name}",
        hint="set operator_key or release_key_file, or hermesops secrets set release.key --from FILE",
    )


class Releasing:
    """Changes what releases there are, one at a time, and writes down who did.

    Args:
        app: The environment.
    """

    def __init__(self, app: "App") -> None:
        self._app = app
        self._releases = app.releases

    async def build(self, order: "Order", *, note: str) -> "Built":
        """Have a release of an agent; see ``release.build.Builder``."""
        import asyncio

        build = partial(self._builder().build, order, who=who_acts(self._app.env), note=note, at=datetime.now(UTC))
        async with self._app.alone(_SUBJECT):
            self._begin()
            built = await asyncio.to_thread(build)
        self._know(built.lock)
        return built

    async def rebuild(self, lock: "Lock", given: "Sequence[Path]", *, note: str) -> "Built":
        """Have this very release, whole; see ``release.rebuild.Rebuilder``."""
        import asyncio

        from hermesops.release.rebuild import Rebuilder

        rebuilder, who = Rebuilder(self._builder(), given), who_acts(self._app.env)
        async with self._app.alone(_SUBJECT):
            self._begin()
            build = partial(rebuilder.build, lock, who=who, note=note, at=datetime.now(UTC))
            built = await asyncio.to_thread(build)
        self._know(built.lock)
        return built

    async def revoke(self, release: str, *, reason: str) -> "Revocations":
        """Let no machine take in a release any more."""
        from hermesops.model.release import ReleaseId

        async with self._app.alone(_SUBJECT):
            revocations = self._releases.revoke(release, reason)
        if self._releases.is_there(release):
            self._know(self._releases.read(release))
            self._app.registry.revoke_release(ReleaseId(release), why=reason)
        else:
            self._note("release_revoked", f"release/{release}", reason)
        return revocations

    async def set_floor(self, version: str, *, reason: str) -> "Revocations":
        """Let no machine take in an agent older than a version."""
        async with self._app.alone(_SUBJECT):
            before = self._releases.revocations()
            revocations = self._releases.set_floor(version)
        self._note("release_floor_set", _SUBJECT, reason, {"floor": before.floor}, {"floor": version})
        return revocations

    async def set_signers(self, signers: str, *, sign_again: bool, reason: str) -> tuple[str, ...]:
        """Let others sign from now on; see ``release.Releases.replace_signers``."""
        async with self._app.alone(_SUBJECT):
            before = self._releases.trust.current()
            left = self._releases.replace_signers(signers, sign_again=sign_again)
        self._note("release_signers_set", _SUBJECT, reason, {"signers": before}, {"signers": signers})
        return left

    def _begin(self) -> None:
        """Where nothing was ever signed, let those sign whom the environment allows, or else the key at hand."""
        releases, allowed = self._releases, self._app.env.settings.allowed_signers
        if releases.trust.chain():
            return
        signers = _text(allowed) if allowed else _line_of(self._app)
        releases.replace_signers(signers, sign_again=False)

    def _know(self, lock: "Lock") -> None:
        from hermesops.model.release import ReleaseId

        self._app.registry.add_release(ReleaseId(lock.id), digest=lock.digest, agent_version=lock.agent_version)

    def _note(
        self,
        action: str,
        subject: str,
        why: str,
        before: dict[str, object] | None = None,
        after: dict[str, object] | None = None,
    ) -> None:
        self._app.registry.append_audit(action, subject, why=why, before=before, after=after)

    def _builder(self) -> "Builder":
        from hermesops.image.download import Pip
        from hermesops.localcloud.kind import is_simulated
        from hermesops.release.build import Builder
        from hermesops.release.resolver import Resolver
        from hermesops.release.simulated import SimulatedBuilder

        env = self._app.env
        simulated = env.is_local and (env.settings.local_driver == "sim" or is_simulated(env.world))
        builder = SimulatedBuilder if simulated else Builder
        downloads = Pip(env.inherited)
        return builder(
            self._releases,
            Resolver(env.inherited),
            downloads,
            parts_of(_image_of(self._app), downloads),
            env.cache / "releases",
            self._app.tell,
        )


def parts_of(image: "Definition", downloads: "Pip") -> "Parts":
    """What every release is made of beside the agent: the image's pins, the roles' files, hermes-node as it is here."""
    import yaml
    from packaging.requirements import Requirement

    from hermesops.image import wheels
    from hermesops.node.build import zipapp
    from hermesops.release.parts import Parts, Unit

    gateway, site = assets.folder("roles") / _ROLE, assets.folder("roles") / "hermes_agent" / "files"
    unit = Unit(
        (gateway / "templates" / "hermes-gateway.service.j2").read_text(),
        yaml.safe_load((gateway / "defaults" / "main.yml").read_text()),
    )
    return Parts(
        extras=f"[{','.join(sorted(Requirement(image.agent).extras))}]",
        site={file.name: file.read_bytes() for file in site.glob("*.pth")},
        unit=unit,
        program=zipapp,
        uv=partial(wheels.uv_of, image, downloads=downloads),
        skills=wheels.skills_of,
        source=image.sdist,
    )


def usual_order(app: "App") -> "Order":
    """The agent and the Pythons that this environment's image is made for."""
    from packaging.requirements import Requirement

    from hermesops.release.build import Order

    image = _image_of(app)
    version = next(iter(Requirement(image.agent).specifier)).version
    return Order(agent=version, pythons=tuple(sorted(image.locks)))


def _image_of(app: "App") -> "Definition":
    from hermesops.image import definition

    return definition.load(assets.folder("images") / app.env.settings.image)


class _Signs:
    """Signs with a key that is made or looked for when something is signed."""

    def __init__(self, app: "App") -> None:
        self._app = app

    def sign(self, data: bytes, *, namespace: str) -> str:
        """Sign some bytes; the signature, armored."""
        return _made_signer(self._app).sign(data, namespace=namespace)


def _made_signer(app: "App") -> "Signers":
    from hermesops.access.needed import RELEASE_KEY
    from hermesops.access.release_key import as_file, fresh_key
    from hermesops.access.signature import Signers

    return signer_of(app) or Signers(app.secrets.lend(RELEASE_KEY, as_file(app.secrets.made(RELEASE_KEY, fresh_key()))))


def _line_of(app: "App") -> str:
    return f'releases@{app.env.name} namespaces="{NAMESPACE}" {_made_signer(app).public()}\n'


def _memory(keys: Path) -> Path:
    return keys / "release-signers"


def _known(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def _remember(file: Path, signers: str) -> None:
    from hermesops.access.secret_file import replace_secret

    replace_secret(file, signers)


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise RefusedError(f"the allowed signers cannot be read from {file}", hint="hermesops settings show") from error

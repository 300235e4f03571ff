"""Builds of releases and images, revocations of releases, and the rotation of the registry's key."""

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from hermesops.console.actions.action import About, Action, ActionRequest, ActionValue, Begun, Preview
from hermesops.console.actions.runbooks import Run, begun_run
from hermesops.errors import HermesError, Hint
from hermesops.machines.release.service import usual_request
from hermesops.store.operations.db_thread import in_db_thread
from hermesops.views.access import secrets as secret_shapes
from hermesops.views.machines import images as image_shapes
from hermesops.views.machines import releases as release_shapes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hermesops.app.connected import Connected
    from hermesops.app.container import Container
    from hermesops.machines.release.builder.build import BuildRequest

_AGENTS_IMAGE = "hermes-base"
"""The image that the command builds by default."""


@dataclass(frozen=True)
class RevokeWork:
    """The revocation of a release: no machine installs it any more."""

    async def preview(self, container: "Container", request: ActionRequest) -> Preview:
        """The agents that run it, which keep it; refused for a release that was never known here."""
        return Preview("revocation", await in_db_thread(_revocation, container, request.subject.id))

    async def begin(self, connected: "Connected", request: ActionRequest) -> Begun:
        """Sign the list of revoked releases with the operator's key."""
        changes = connected.container.release_changes
        await in_db_thread(changes.require_known, request.subject.id)
        await changes.revoke(request.subject.id, reason=request.reason)
        return Begun("releases")


@dataclass(frozen=True)
class BuildReleaseWork:
    """The build of a release of an agent of the package index."""

    async def preview(self, container: "Container", request: ActionRequest) -> Preview:
        """The order, and the releases that have the agent's version."""
        preview = await in_db_thread(container.release_changes.preview_build, _order(container, request))
        return Preview("release_build", release_shapes.build_preview(preview))

    async def begin(self, connected: "Connected", request: ActionRequest) -> Begun:
        """Begin it; what was built before is not built again."""
        run = Run(f"Build of a release of agent {_order(connected.container, request).agent}")
        return begun_run(run, partial(_carry_out, run, partial(_build_release, connected, request)))


@dataclass(frozen=True)
class BuildImageWork:
    """The build of an image that machines boot from."""

    async def preview(self, container: "Container", request: ActionRequest) -> Preview:
        """The digest of its inputs, and the image that has the same."""
        async with container.connect() as connected:
            preview = await connected.image_builds.preview(_image(request), release=request.value("release"))
        return Preview("image_build", image_shapes.preview(preview))

    async def begin(self, connected: "Connected", request: ActionRequest) -> Begun:
        """Begin it; a build that was cut short is continued by the same action."""
        run = Run(f"Build of image {_image(request)}")
        return begun_run(run, partial(_carry_out, run, partial(_build_image, connected, request)))


@dataclass(frozen=True)
class RotateKeyWork:
    """The rotation of the registry's key, or only its preparation."""

    async def preview(self, container: "Container", request: ActionRequest) -> Preview:
        """The key that seals now, and the values that another key sealed; refused where the key is not at hand."""
        preview = await in_db_thread(container.secret_changes.preview_registry_key)
        shape = secret_shapes.rotation_preview(preview, prepare=request.is_on("prepare"))
        return Preview("rotation", shape)

    async def begin(self, connected: "Connected", request: ActionRequest) -> Begun:
        """Begin it; a rotation that was cut short is continued by the same action."""
        run = Run("Rotation of the registry's key")
        return begun_run(run, partial(_carry_out, run, partial(_rotate, connected, request)))


def _revocation(container: "Container", release: str) -> dict[str, object]:
    revoked = container.release_changes.preview_revocation(release)
    users = container.instance_list.agents_by_release().get(release, ())
    return release_shapes.revocation_preview(release, users, revoked)


def _order(container: "Container", request: ActionRequest) -> "BuildRequest":
    usual = usual_request(container.agent_pins)
    return replace(usual, agent=request.value("agent") or usual.agent)


def _image(request: ActionRequest) -> str:
    return request.value("name") or _AGENTS_IMAGE


async def _build_release(connected: "Connected", request: ActionRequest) -> str:
    container = connected.container
    built = await container.release_changes.build(_order(container, request), note=request.value("note"))
    return f"{built.lock.id} {'built' if built.made else 'is there'}"


async def _build_image(connected: "Connected", request: ActionRequest) -> str:
    built = await connected.image_builds.build(_image(request), release=request.value("release"))
    return f"{built.manifest.name} {built.manifest.image_id} {'built' if built.made else 'is up to date'}"


async def _rotate(connected: "Connected", request: ActionRequest) -> str:
    changes = connected.container.secret_changes
    if request.is_on("prepare"):
        return f"key {await changes.prepare_registry_key()} is ready and seals nothing yet"
    return f"everything is sealed with key {await changes.rotate_registry_key(why=request.reason)}"


async def _carry_out(run: Run, work: "Callable[[], Awaitable[str]]") -> None:
    """Bring work to its end; its page shows the outcome, or the problem with the next command."""
    nothing: dict[str, object] = {"problem": None, "hint": Hint(), "steps": [], "diagnosis": []}
    try:
        run.result = {**nothing, "outcome": await work()}
    except HermesError as error:
        run.result = {**nothing, "problem": error.message, "hint": error.hint}


ACTIONS = (
    Action(
        About.RELEASE,
        "revoke",
        "Revoke",
        ("release", "revoke", "--yes"),
        RevokeWork(),
        destroys=True,
        left_because="an operator's own key signs the list of revoked releases",
    ),
    Action(
        About.FLEET,
        "build-release",
        "Build a release",
        ("release", "build"),
        BuildReleaseWork(),
        (
            ActionValue("agent", "Agent's version; else that of the image", "--agent"),
            ActionValue("note", "Note, for the list", "--note"),
        ),
        takes_reason=False,
        left_because="an operator's own key signs a release, and its build takes minutes of one process",
    ),
    Action(
        About.FLEET,
        "build-image",
        "Build an image",
        ("image", "build"),
        BuildImageWork(),
        (
            ActionValue("name", "Image; else hermes-base"),
            ActionValue("release", "Release that its machines run at first", "--release"),
        ),
        takes_reason=False,
        left_because="its build takes minutes of one process, from which no other one could go on",
    ),
    Action(
        About.FLEET,
        "rotate-registry-key",
        "Rotate the registry's key",
        ("secrets", "rotate", "registry.key"),
        RotateKeyWork(),
        (ActionValue("prepare", "Only add the key, to hand it to other computers first", "--prepare", is_flag=True),),
        left_because="workers would have to write the key that opens their own registry",
    ),
)

"""Composes what builds releases: of the image's pins, the roles' files, and hermes-node as it is here."""

from functools import partial
from typing import TYPE_CHECKING

from hermesops import assets, child_environment

if TYPE_CHECKING:
    from hermesops.app.container import Container
    from hermesops.image.definition import Definition
    from hermesops.image.download import Pip
    from hermesops.release.builder.build import Builder, BuildRequest
    from hermesops.release.builder.parts import Parts

_ROLE = "hermes_gateway"


def builder_of(app: "Container") -> "Builder":
    """What builds the releases of an environment."""
    from hermesops.image.download import NEWEST_GLIBC, Pip
    from hermesops.localcloud.world.files import is_simulated
    from hermesops.release.builder.build import Builder, SimulatedBuilder
    from hermesops.release.builder.resolver import Resolver

    env = app.env
    simulated = env.is_local and (env.settings.local_driver == "sim" or is_simulated(env.world))
    builder = SimulatedBuilder if simulated else Builder
    downloads = Pip(env.for_child(child_environment.PACKAGES))
    return builder(
        app.releases,
        Resolver(env.for_child(child_environment.PACKAGES), glibc=NEWEST_GLIBC),
        downloads,
        parts_of(_image_of(app), downloads),
        env.cache / "releases",
        app.tell,
    )


def parts_of(image: "Definition", downloads: "Pip") -> "Parts":
    """What every release is made of beside the agent: the image's pins, the roles' files, hermes-node as it is here."""
    import yaml
    from packaging.requirements import Requirement

    from hermesops.image import agent_bundle
    from hermesops.node.build import zipapp
    from hermesops.release.builder.parts import Parts, Unit

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
        uv=partial(agent_bundle.uv_of, image, downloads=downloads),
        skills=agent_bundle.skills_of,
        source=image.sdist,
    )


def usual_order(app: "Container") -> "BuildRequest":
    """The agent and the Pythons that this environment's image is made for."""
    from packaging.requirements import Requirement

    from hermesops.release.builder.build import BuildRequest

    image = _image_of(app)
    version = next(iter(Requirement(image.agent).specifier)).version
    return BuildRequest(agent=version, pythons=tuple(sorted(image.locks)))


def _image_of(app: "Container") -> "Definition":
    from hermesops.image import definition

    return definition.load(assets.folder("images") / app.env.settings.image)

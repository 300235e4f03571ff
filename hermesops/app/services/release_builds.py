"""What releases are built of: the image's pins, the roles' files, and hermes-node as it is here."""

from functools import partial

import yaml
from packaging.requirements import Requirement

from hermesops import assets
from hermesops.image import agent_bundle
from hermesops.image.definition import Definition
from hermesops.image.download import Pip
from hermesops.node.build import zipapp
from hermesops.release.builder.build import BuildRequest
from hermesops.release.builder.parts import Parts, Unit

_ROLE = "hermes_gateway"


def parts_of(image: Definition, downloads: Pip) -> Parts:
    """What every release is made of beside the agent: the image's pins, the roles' files, hermes-node as it is here."""
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


def usual_request(image: Definition) -> BuildRequest:
    """The agent and the Pythons that an image is made for."""
    version = next(iter(Requirement(image.agent).specifier)).version
    return BuildRequest(agent=version, pythons=tuple(sorted(image.locks)))

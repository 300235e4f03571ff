"""What a platform's host installs hermesops from."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from hermesops.settings import Environment

if TYPE_CHECKING:
    from hermesops.image.control_bundle import ControlBundle


def control_bundle_of(env: Environment, report: Callable[[str], None]) -> "ControlBundle":
    """What hermesops is installed from on a platform's host; blocks, for a minute where wheels have to be fetched.

    Raises:
        RefusedError: A wheel does not have the hash it is locked to.
        UnavailableError: The package index does not answer.
    """
    from typing import get_args

    import hermesops
    from hermesops import assets, child_environment
    from hermesops.image import control_bundle
    from hermesops.image.download import Pip

    return control_bundle.make(
        assets.folder("images") / "hermes-platform" / "locks" / "hermesops.txt",
        Path(hermesops.__file__).parent,
        {name: assets.folder(name) for name in get_args(assets.Folder)},
        Pip(env.for_child(child_environment.PACKAGES), env.cache / "packages"),
        env.cache / "platform",
        report,
    )


def router_wheels(env: Environment, report: Callable[[str], None]) -> Path:
    """What a platform's host installs LiteLLM from; blocks, raises as ``hermesops.image.router_bundle.make``."""
    from hermesops import assets, child_environment
    from hermesops.image import router_bundle
    from hermesops.image.download import Pip

    return router_bundle.make(
        assets.folder("roles") / "hermes_platform_llm_router" / "files" / "requirements.txt",
        Pip(env.for_child(child_environment.PACKAGES), env.cache / "packages"),
        env.cache / "platform",
        report,
    )

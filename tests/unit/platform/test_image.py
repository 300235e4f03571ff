"""What the platform's machine boots from, and what its image is made of."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from hermesops.agents.cells.stack.state import MACHINE_TYPE
from hermesops.app import Container
from hermesops.base import assets
from hermesops.errors import RefusedError, UnavailableError
from hermesops.localcloud.drivers.interface import PlatformService
from hermesops.machines.image.bundles.control import ControlBundle
from hermesops.machines.image.definition import load
from hermesops.model.image import PLATFORM_IMAGE
from hermesops.model.stack import Change, ChangeKind, StackRef, UpResult
from hermesops.platform.image.programs import PlatformPrograms
from hermesops.platform.stack import LocalPrograms, PlatformUp
from hermesops.platform.without_registry import newest_image
from hermesops.settings.environment import Environment
from hermesops.vendor.justavps.errors import NotFoundError
from tests.support.fakes.parts import part

MACHINE = "hermes-local-platform"
SERVICES = dict.fromkeys(PlatformService, "10.0.0.1:1")


def programs(reports: list[str], *, listed: tuple[Any, ...] = (), newest: str = "image-2") -> LocalPrograms:
    async def list_machines() -> tuple[Any, ...]:
        return listed

    async def newest_image() -> str:
        return newest

    client: Any = part(list_machines=list_machines)
    return LocalPrograms("local", SERVICES, client, "hel1", "basic", newest_image, reports.append)


def state_with(image: str | None) -> dict[str, Any]:
    inputs = {"region": "hel1", "server_type": "basic"} | ({"image_id": image} if image else {})
    resource = {"urn": f"urn:pulumi:local::platform::a::{MACHINE}", "type": MACHINE_TYPE, "inputs": inputs}
    return {"deployment": {"resources": [resource]}}


@pytest.mark.parametrize(
    ("newest", "boots", "expected"), [("image-2", "image-2", "image-2"), ("", None, "from the base")]
)
async def test_a_new_machine_boots_the_newest_image_or_the_base_and_it_is_said(
    newest: str, boots: str | None, expected: str
) -> None:
    reports: list[str] = []
    program = await programs(reports, newest=newest).make({})
    assert program.args.image_id == boots
    assert [expected in line for line in reports] == [True]


@pytest.mark.parametrize("image", ["image-1", None])
async def test_a_machine_that_is_there_keeps_what_it_boots_from(image: str | None) -> None:
    """Another image would replace it, and its data with it."""
    reports: list[str] = []
    assert (await programs(reports).make(state_with(image))).args.image_id == image
    listed = (part(name=MACHINE, image_id=image, server_type="pro"),)
    local_platform_args = (await programs(reports, listed=listed).make({})).args
    assert (local_platform_args.image_id, local_platform_args.server_type, reports) == (image, "pro", [])


@pytest.fixture
def app(tmp_path: Path) -> Container:
    return container(tmp_path, "local")


def container(home: Path, name: str, **variables: str) -> Container:
    given = {f"HERMESOPS_{key}": value for key, value in variables.items()}
    return Container(Environment.load(name, {"HOME": str(home), "HERMESOPS_HOME": str(home), **given}), lambda _: None)


async def newest_of(app: Container, *there: str) -> str:
    """The image that a new machine of a world boots, where the vendor has these."""

    async def get_image(image_id: str) -> Any:  # noqa: ANN401 - stands for an image
        if image_id not in there:
            raise NotFoundError("GET /images", "no such image", status=404)
        return part(bootable=True)

    client: Any = part(get_image=get_image)
    return await newest_image(lambda: app.registry, client, lambda _: None)


async def test_the_newest_image_is_the_one_that_was_recorded_last_and_is_still_there(app: Container) -> None:
    vars(app)["registry"] = part(images=part(latest={PLATFORM_IMAGE: part(id="image-2")}.get))
    assert await newest_of(app, "image-1", "image-2") == "image-2"
    assert await newest_of(app, "image-1") == "", "the vendor lost it"
    vars(app)["registry"] = part(images=part(latest=lambda _: None))
    assert await newest_of(app, "image-1") == "", "none was built"


async def test_a_platform_whose_registry_is_down_with_it_boots_from_the_base(app: Container) -> None:
    def latest(_: str) -> None:
        raise UnavailableError("the registry does not answer")

    vars(app)["registry"] = part(images=part(latest=latest))
    assert await newest_of(app, "image-2") == ""


@pytest.mark.parametrize(("kind", "is_new"), [(ChangeKind.CREATE, True), (ChangeKind.UPDATE, False)])
def test_a_machine_is_new_when_the_stack_made_it(kind: ChangeKind, *, is_new: bool) -> None:
    changes = (Change(kind, "urn", MACHINE_TYPE, MACHINE),)
    done = UpResult(StackRef("platform", "local"), changes)
    assert PlatformUp(done, MACHINE, (), 1.0).is_machine_new is is_new


@pytest.mark.parametrize(
    ("name", "variables", "says"),
    [("staging", {}, "on AWS"), ("local", {"LOCAL_DRIVER": "sim"}, "simulated")],
)
async def test_an_image_that_no_machine_would_boot_is_refused_before_anything_is_fetched(
    tmp_path: Path, name: str, variables: dict[str, str], says: str
) -> None:
    app = container(tmp_path, name, **variables)
    with pytest.raises(RefusedError, match=says):
        await app.image_recipes.to_build(PLATFORM_IMAGE)


def test_what_the_image_is_made_of_names_no_place_on_this_computer(tmp_path: Path) -> None:
    platform_programs = programs_in(tmp_path, loki=True)
    assert str(tmp_path) not in str(platform_programs.inputs)
    assert set(platform_programs.files) == {"versitygw", "hermes-ingest", "hermes-router", "loki"}
    assert "loki" not in programs_in(tmp_path, loki=False).files
    assert programs_in(tmp_path, loki=False).variables["hermes_platform_monitoring_loki"] == ""


def test_the_image_is_told_what_the_roles_that_install_need(tmp_path: Path) -> None:
    """Every variable that an install half names and that has no default."""
    variables = programs_in(tmp_path, loki=True).variables
    for role in load(assets.folder("images") / PLATFORM_IMAGE).roles[1:]:
        folder = assets.folder("roles") / role
        specs = yaml.safe_load((folder / "meta/argument_specs.yml").read_text())["argument_specs"]["main"]["options"]
        text = "".join((folder / "tasks" / name).read_text() for name in ("preflight.yml", "install.yml"))
        required = {name for name, option in specs.items() if option.get("required") and name in text}
        assert required <= set(variables), role
        assert {name for name in variables if name.startswith(role)} <= set(specs), role


def programs_in(folder: Path, *, loki: bool) -> PlatformPrograms:
    return PlatformPrograms(
        object_store=folder / "versitygw",
        loki=folder / "loki" if loki else None,
        ingest=folder / "hermes-ingest",
        router=folder / "hermes-router",
        router_wheels=folder / "wheels.tar",
        control=ControlBundle(folder / "control.tar", "0123"),
    )

"""The README's pictures: that of the packages is in step with the arrows, and none of them loads anything."""

import re
from pathlib import Path

import pytest

from tests.support.documents import platform_picture
from tests.support.documents.architecture_picture import ROOT, architecture, wings
from tests.support.documents.pictures import PICTURES, drawn
from tests.support.documents.pipelines_picture import pipelines
from tests.support.platform.environments import run_of
from tests.support.suite.cases import each_case

SHOWN = re.findall(r"\]\((runbooks/pictures/[\w-]+\.svg)\)", (ROOT / "README.md").read_text())


def test_the_packages_picture_is_in_step_with_the_arrows() -> None:
    assert (PICTURES / "architecture.svg").read_text() == architecture(), "make pictures draws it anew"


def test_the_pipelines_picture_is_in_step_with_the_workflows() -> None:
    assert (PICTURES / "pipelines.svg").read_text() == pipelines(), "make pictures draws it anew"


@pytest.mark.parametrize(
    ("name", "picture"), platform_picture.pictures().items(), ids=list(platform_picture.pictures())
)
def test_the_pictures_of_platforms_are_as_they_are_drawn(name: str, picture: str) -> None:
    assert (PICTURES / f"{name}.svg").read_text() == picture, "make pictures draws it anew"
    assert "http" not in picture.replace("http://www.w3.org/2000/svg", "")


def test_every_component_of_the_platform_on_aws_is_in_its_picture() -> None:
    shown = {component for box in platform_picture.AWS.boxes for component in box.shows}
    of_program = {one.type for one in run_of("production").resources if one.type.startswith("hermesops:")}
    assert {type_.rpartition(":")[2] for type_ in of_program} == shown


def test_every_package_is_in_it() -> None:
    drawn = wings()
    assert {path.parent.name for path in (ROOT / "hermesops").glob("*/__init__.py")} <= drawn.keys()
    assert {"rollout", "instances", "backup"} <= set(drawn["agents"])


@each_case("picture", SHOWN)
def test_a_picture_that_the_readme_shows_loads_nothing(picture: str) -> None:
    told = Path(ROOT / picture).read_text()
    assert "http" not in told.replace("http://www.w3.org/2000/svg", "")


def test_the_readme_shows_the_fleet_a_rollout_a_dashboard_and_the_packages() -> None:
    dashboards = {f"dashboard-{name}" for name in ("fleet", "instance", "rollout", "cost")}
    shown = {
        "fleet-status",
        "halted-rollout",
        "architecture",
        "pipelines",
        "platform-aws",
        "platform-local",
        *dashboards,
    }
    assert {Path(picture).stem for picture in SHOWN} == shown


def test_there_is_a_picture_of_every_dashboard() -> None:
    folder = ROOT / "roles/hermes_platform_monitoring/files/dashboards"
    drawn_dashboards = {path.stem.removeprefix("dashboard-") for path in PICTURES.glob("dashboard-*.svg")}
    assert drawn_dashboards == {path.stem for path in folder.glob("*.json")}


def test_a_terminal_is_drawn_with_its_colours_and_without_its_codes() -> None:
    told = drawn("\x1b[31mbroken\x1b[0m <b>", "hermesops fleet status")
    assert ">broken<" in told.replace("&#160;", " ")
    assert "\x1b" not in told
    assert "&lt;b&gt;" in told

"""Pictures and generated parts of documents are in step with the code, and no picture loads anything."""

import re
import struct
from pathlib import Path

from tests.support.documents import page_pictures
from tests.support.documents.diagrams import GENERATED, ROOT, mermaid, renewed, wings
from tests.support.documents.pictures import PICTURES, drawn
from tests.support.platform.environments import run_of
from tests.support.suite.cases import each_case

SHOWN = re.findall(r"\]\((runbooks/pictures/[\w-]+\.svg)\)", (ROOT / "README.md").read_text())


@each_case("name", GENERATED)
def test_a_generated_part_is_in_step(name: str) -> None:
    assert (ROOT / GENERATED[name][0]).read_text() == renewed(name), "make reference writes it anew"


def test_every_component_of_the_platform_on_aws_is_in_its_picture() -> None:
    aws = mermaid("pulumi/platform/README.md")[0]
    of_program = [
        resource.type for resource in run_of("production").resources if resource.type.startswith("hermesops:")
    ]
    assert {type_.rpartition(":")[2] for type_ in of_program} <= set(re.findall(r"\w+", aws))


def test_every_package_is_in_the_table_of_wings() -> None:
    drawn = wings()
    assert {path.parent.name for path in (ROOT / "hermesops").glob("*/__init__.py")} <= drawn.keys()
    assert {"rollout", "instances", "backup"} <= set(drawn["agents"])


@each_case("picture", SHOWN)
def test_a_picture_that_the_readme_shows_loads_nothing(picture: str) -> None:
    text = Path(ROOT / picture).read_text()
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")


def test_the_readme_shows_the_fleet_a_rollout_and_the_dashboards() -> None:
    dashboards = {f"dashboard-{name}" for name in ("fleet", "instance", "rollout", "cost")}
    shown = {
        "fleet-status",
        "halted-rollout",
        *dashboards,
    }
    assert {Path(picture).stem for picture in SHOWN} == shown


def test_there_is_a_picture_of_every_dashboard() -> None:
    folder = ROOT / "roles/hermes_platform_monitoring/files/dashboards"
    drawn_dashboards = {path.stem.removeprefix("dashboard-") for path in PICTURES.glob("dashboard-*.svg")}
    assert drawn_dashboards == {path.stem for path in folder.glob("*.json")}


@each_case("name", page_pictures.NAMES)
def test_there_is_a_picture_of_the_page_in_its_size(name: str) -> None:
    head = (PICTURES / f"{name}.png").read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", head[16:24]) == page_pictures.NAMES[name][0]


def test_a_terminal_is_drawn_with_its_colours_and_without_its_codes() -> None:
    drawing = drawn("\x1b[31mbroken\x1b[0m <b>", "hermesops fleet status")
    assert ">broken<" in drawing.replace("&#160;", " ")
    assert "\x1b" not in drawing
    assert "&lt;b&gt;" in drawing

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from hermesops.base import assets
from hermesops.errors import UsageError
from hermesops.machines.image.definition import digest_of, inputs_of, load
from hermesops.model.image import PLATFORM_IMAGE
from tests.support.images.build_world import image_folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    image_folder(tmp_path / "images")
    (tmp_path / "roles/first/tasks").mkdir(parents=True)
    (tmp_path / "roles/first/tasks/main.yml").write_text("[]")
    (tmp_path / "roles/first/README.md").write_text("words")
    (tmp_path / "playbooks").mkdir()
    (tmp_path / "playbooks/test.yml").write_text("[]")
    (tmp_path / "node").write_text("program")
    return tmp_path


def _inputs(project: Path, variables: dict[str, object]) -> dict[str, str]:
    return inputs_of(
        load(project / "images"),
        roles=project / "roles",
        playbooks=project / "playbooks",
        variables=variables,
        extra={"node": project / "node"},
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda p: (p / "roles/first/tasks/main.yml").write_text("- x"),
        lambda p: (p / "roles/first/tasks/more.yml").write_text(""),
        lambda p: (p / "playbooks/test.yml").write_text("- y"),
        lambda p: (p / "images/clean.sh").write_text("more"),
        lambda p: (p / "images/locks/agent.txt").write_text("more"),
        lambda p: (p / "node").write_text("other program"),
    ],
)
def test_every_input_counts(project: Path, change: Callable[[Path], object]) -> None:
    before = digest_of(_inputs(project, {"port": 1}))
    change(project)
    assert digest_of(_inputs(project, {"port": 1})) != before


def test_variables_count_and_their_order_does_not(project: Path) -> None:
    before = digest_of(_inputs(project, {"port": 1, "broker": ["a"]}))
    assert digest_of(_inputs(project, {"broker": ["a"], "port": 1})) == before
    assert digest_of(_inputs(project, {"broker": ["b"], "port": 1})) != before


def test_documentation_does_not_count(project: Path) -> None:
    before = digest_of(_inputs(project, {}))
    (project / "roles/first/README.md").write_text("other words")
    (project / "images/README.md").write_text("words")
    assert digest_of(_inputs(project, {})) == before


def test_names_of_inputs_are_the_same_everywhere(project: Path) -> None:
    assert all(not name.startswith("/") and str(project) not in name for name in _inputs(project, {}))


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda p: (p / "definition.toml").unlink(), "no image 'images'"),
        (lambda p: (p / "definition.toml").write_text("name = "), "definition.toml"),
        (lambda p: (p / "definition.toml").write_text('name = "x"'), "lacks 'playbook'"),
        (lambda p: (p / "definition.toml").write_bytes(b"\xff\xfe"), "definition.toml"),
        (lambda p: (p / "clean.sh").unlink(), "clean.sh is not there"),
        (lambda p: _said(p, 'clean = "clean.sh"'), "scripts are lists of files"),
        (lambda p: _said(p, "clean = []"), "scripts are lists of files"),
    ],
)
def test_a_damaged_folder_is_named(project: Path, damage: Callable[[Path], object], says: str) -> None:
    damage(project / "images")
    with pytest.raises(UsageError, match=says):
        load(project / "images")


def _said(folder: Path, clean: str) -> None:
    file = folder / "definition.toml"
    file.write_text(file.read_text().replace('clean = ["clean.sh"]', clean))


def test_a_file_that_images_share_counts_for_each(project: Path) -> None:
    shared = project / "clean.sh"
    shared.write_text("true")
    _said(project / "images", 'clean = ["clean.sh", "../clean.sh"]')
    before = digest_of(_inputs(project, {}))
    shared.write_text("false")
    assert digest_of(_inputs(project, {})) != before


def test_a_folder_that_is_reached_by_a_link_has_the_same_inputs(project: Path) -> None:
    link = project / "link"
    link.symlink_to(project, target_is_directory=True)
    assert _inputs(link, {}) == _inputs(project, {})


def test_a_missing_role_is_named(project: Path) -> None:
    (project / "roles/first/tasks/main.yml").unlink()
    (project / "roles/first/README.md").unlink()
    (project / "roles/first/tasks").rmdir()
    (project / "roles/first").rmdir()
    with pytest.raises(UsageError, match="roles/first is not there"):
        _inputs(project, {})


AGENT = """[agent]
wanted = "locks/agent.in"
sdist = "locks/sdist.txt"
locks = {}
"""
UV = """[uv]
version = "1"
sha256 = "2"
"""
SQLITE = """[sqlite]
url = "https://sqlite.test/a.zip"
sha256 = "3"
"""


def test_an_image_has_an_agent_or_none(project: Path) -> None:
    file = project / "images/definition.toml"
    alone = file.read_text().partition("[agent]")[0]
    whole = load(project / "images").agent
    assert whole
    assert (whole.image, whole.wanted, whole.uv_version) == ("test-image", "hermes-agent[mcp]==0.19.0", "1")
    assert (whole.sqlite_url, whole.sqlite_sha256) == ("https://sqlite.test/a.zip", "3")
    file.write_text(alone)
    assert load(project / "images").agent is None


@pytest.mark.parametrize(
    ("half", "says"),
    [(AGENT, "lacks 'uv'"), (UV, "lacks 'agent'"), (AGENT + UV, "lacks 'sqlite'"), (SQLITE, "lacks 'agent'")],
)
def test_an_agent_that_could_not_be_installed_is_refused(project: Path, half: str, says: str) -> None:
    file = project / "images/definition.toml"
    file.write_text(file.read_text().partition("[agent]")[0] + half)
    with pytest.raises(UsageError, match=says):
        load(project / "images")


@pytest.mark.parametrize(("name", "playbook"), [("hermes-base", "instance"), (PLATFORM_IMAGE, "platform_image")])
def test_the_images_we_ship_name_roles_playbooks_and_locks_that_exist(name: str, playbook: str) -> None:
    definition = load(assets.folder("images") / name)
    inputs = inputs_of(
        definition,
        roles=assets.folder("roles"),
        playbooks=assets.folder("ansible") / "playbooks",
        variables={},
        extra={},
    )
    assert definition.name == name
    files = {"roles/hermes_base/tasks/main.yml", "image/clean.sh", "images/clean.sh", "images/prove.sh"}
    assert files | {f"playbooks/{playbook}.yml"} <= set(inputs)
    for python, lock in definition.agent.locks.items() if definition.agent else ():
        assert f"# python {python}" in lock.read_text().splitlines()[0]


def _roles_in(playbook: str) -> list[str]:
    """Roles of a playbook, whole or in part, each once and in its order."""
    [play] = yaml.safe_load((assets.folder("ansible") / "playbooks" / playbook).read_text())
    ways = ("ansible.builtin.import_role", "ansible.builtin.include_role")
    in_tasks = (task[way]["name"] for task in play.get("tasks", ()) for way in ways if way in task)
    return list(dict.fromkeys([*(role["role"] for role in play.get("roles", ())), *in_tasks]))


@pytest.mark.parametrize("name", ["hermes-base", PLATFORM_IMAGE])
def test_an_image_names_the_roles_of_its_playbook(name: str) -> None:
    definition = load(assets.folder("images") / name)
    assert list(definition.roles) == _roles_in(definition.playbook)


def test_the_platforms_image_has_every_role_of_the_platform_that_installs_something() -> None:
    definition = load(assets.folder("images") / PLATFORM_IMAGE)
    installing = [
        role for role in _roles_in("platform.yml") if (assets.folder("roles") / role / "tasks/install.yml").exists()
    ]
    assert list(definition.roles) == installing

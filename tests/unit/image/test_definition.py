from collections.abc import Callable
from pathlib import Path

import pytest

from hermesops import assets
from hermesops.errors import UsageError
from hermesops.image.definition import digest_of, inputs_of, load
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
    ],
)
def test_a_damaged_folder_is_named(project: Path, damage: Callable[[Path], object], says: str) -> None:
    damage(project / "images")
    with pytest.raises(UsageError, match=says):
        load(project / "images")


def test_a_missing_role_is_named(project: Path) -> None:
    (project / "roles/first/tasks/main.yml").unlink()
    (project / "roles/first/README.md").unlink()
    (project / "roles/first/tasks").rmdir()
    (project / "roles/first").rmdir()
    with pytest.raises(UsageError, match="roles/first is not there"):
        _inputs(project, {})


def test_the_images_we_ship_name_roles_playbooks_and_locks_that_exist() -> None:
    definition = load(assets.folder("images") / "hermes-base")
    inputs = inputs_of(
        definition,
        roles=assets.folder("roles"),
        playbooks=assets.folder("ansible") / "playbooks",
        variables={},
        extra={},
    )
    assert {"roles/hermes_base/tasks/main.yml", "image/clean.sh", "playbooks/instance.yml"} <= set(inputs)
    for python, lock in definition.locks.items():
        assert f"# python {python}" in lock.read_text().splitlines()[0]

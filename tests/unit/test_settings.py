"""Settings come from one place and say where each value came from."""

from pathlib import Path

import pytest

from hermesops.errors import UsageError
from hermesops.model.plan import Plan
from hermesops.settings import Environment


def load(tmp_path: Path, name: str = "", **variables: str) -> Environment:
    return Environment.load(name, {"HOME": str(tmp_path), **variables})


def write(tmp_path: Path, text: str) -> None:
    folder = tmp_path / ".hermesops" / "local"
    folder.mkdir(parents=True)
    (folder / "settings.toml").write_text(text)


def test_without_anything_it_is_the_local_environment_with_defaults(tmp_path: Path) -> None:
    env = load(tmp_path)
    assert env.name == "local"
    assert env.folder == tmp_path / ".hermesops" / "local"
    assert env.settings.server_types == {Plan.LIGHT: "starter", Plan.HEAVY: "basic"}
    assert set(env.sources.values()) == {"default"}


def test_an_environment_with_a_vendor_of_its_own_is_not_this_computers(tmp_path: Path) -> None:
    assert load(tmp_path).is_local
    assert not load(tmp_path, HERMESOPS_API_URL="https://vendor.invalid/api/v1").is_local
    assert not load(tmp_path, "staging").is_local


def test_a_variable_beats_the_file_and_the_file_beats_the_default(tmp_path: Path) -> None:
    write(tmp_path, 'region = "nbg1"\ncell_size = 7\n')
    env = load(tmp_path, HERMESOPS_REGION="hil")
    assert (env.settings.region, env.sources["region"]) == ("hil", "environment")
    assert (env.settings.cell_size, env.sources["cell_size"]) == (
        7,
        str(tmp_path / ".hermesops" / "local" / "settings.toml"),
    )


def test_the_command_line_beats_the_variable_that_selects(tmp_path: Path) -> None:
    assert load(tmp_path, HERMESOPS_ENV="staging").name == "staging"
    assert load(tmp_path, "production", HERMESOPS_ENV="staging").name == "production"


def test_regions_of_plans_may_be_some_or_none(tmp_path: Path) -> None:
    for text, regions in (("heavy=nbg1", {Plan.HEAVY: "nbg1"}), ("", {})):
        assert load(tmp_path, HERMESOPS_PLAN_REGIONS=text).settings.plan_regions == regions


def test_server_types_can_be_given_in_one_variable(tmp_path: Path) -> None:
    env = load(tmp_path, HERMESOPS_SERVER_TYPES="light=basic, heavy=pro")
    assert env.settings.server_types == {Plan.LIGHT: "basic", Plan.HEAVY: "pro"}


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"HERMESOPS_REGOIN": "x"}, "no setting 'regoin' .*HERMESOPS_REGOIN.*; nearest: region"),
        ({"HERMESOPS_CELL_SIZE": "many"}, "settings key 'cell_size' \\(from environment\\)"),
        ({"HERMESOPS_CELL_SIZE": "0"}, "cell_size"),
        ({"HERMESOPS_PULUMI_ENGINE": "terraform"}, "pulumi_engine"),
        ({"HERMESOPS_SERVER_TYPES": "tiny=basic"}, "server_types"),
        ({"HERMESOPS_APPROVALS": "required"}, "'approvals' .*needs operators who prove who they are"),
        ({"HERMESOPS_ENV": "../prod"}, "environment '../prod' is not a name"),
    ],
)
def test_nonsense_is_named_in_one_line(tmp_path: Path, variables: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        load(tmp_path, **variables)
    assert "\n" not in caught.value.message


@pytest.mark.parametrize("text", ["region =", 'regoin = "x"\n', "\udcff"])
def test_a_bad_file_is_named(tmp_path: Path, text: str) -> None:
    folder = tmp_path / ".hermesops" / "local"
    folder.mkdir(parents=True)
    (folder / "settings.toml").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(UsageError, match=r"settings\.toml"):
        load(tmp_path)


def test_a_secret_is_never_in_an_error_or_a_repr(tmp_path: Path) -> None:
    env = load(tmp_path, HERMESOPS_API_KEY="sk_live_canary")
    assert "canary" not in repr(env.settings)
    with pytest.raises(UsageError, match="'cell_size'") as caught:
        load(tmp_path, HERMESOPS_API_KEY="sk_live_canary", HERMESOPS_CELL_SIZE="sk_live_canary")
    assert "canary" not in caught.value.message


def test_a_user_without_a_home_is_told_to_name_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(UsageError, match="no home"):
        Environment.load("", {})

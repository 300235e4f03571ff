"""Settings come from one place and say where each value came from."""

import json
from pathlib import Path

import pytest

from hermesops.errors import RefusedError, UsageError
from hermesops.model.plan import Plan
from hermesops.settings.environment import Environment
from hermesops.settings.fields import FIELDS, variable_of
from hermesops.settings.schema import schema


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
        ({"HERMESOPS_PULUMI_ENGINE": "terraform"}, r"pulumi\.engine"),
        ({"HERMESOPS_SERVER_TYPES": "tiny=basic"}, "server_types"),
        ({"HERMESOPS_APPROVALS": "required"}, "'approvals' .*approvals need verified operators"),
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


AWAY = {"HERMESOPS_ENV": "staging"}


@pytest.mark.parametrize(
    "key",
    [
        "api_url",
        "router.url",
        "backup.endpoint",
        "backup.iam_endpoint",
        "prometheus_url",
        "rollout.webhook",
        "oidc.issuer",
    ],
)
def test_an_address_outside_the_local_world_is_encrypted_or_refused_by_its_key_and_place(
    tmp_path: Path, key: str
) -> None:
    variable = variable_of(key)
    with pytest.raises(UsageError, match=rf"{key} \(from variable {variable}\): it is not encrypted") as refused:
        load(tmp_path, **AWAY, **{variable: "http://canary.example/v1"})
    assert "https://" in str(refused.value.hint)
    assert "canary" not in refused.value.message
    for fine in ("https://a.example/v1", "http://127.0.0.1:9/v1", ""):
        load(tmp_path, **AWAY, **{variable: fine})


def test_an_address_in_a_file_is_named_with_the_file_and_a_bucket_by_its_endpoint(tmp_path: Path) -> None:
    folder = tmp_path / ".hermesops" / "local"
    write(tmp_path, 'api_url = "http://a.example/api/v1"\n')
    with pytest.raises(UsageError, match=rf"api_url \(from {folder}/settings\.toml\)"):
        load(tmp_path)
    for key in ("releases", "pulumi.backend"):
        with pytest.raises(UsageError, match=rf"{key} .*not encrypted"):
            load(tmp_path, **AWAY, **{variable_of(key): "s3://b?endpoint=http://a.example"})


def test_a_python_of_releases_is_named_by_its_hash_and_by_addresses_or_absolute_paths(tmp_path: Path) -> None:
    pin = f"#sha256={'0' * 64}"
    for text in ("", f"https://m.example/a+b.tar.gz{pin}", f"/srv/a.tar.gz{pin}, https://m.example/a.tar.gz{pin}"):
        assert load(tmp_path, HERMESOPS_RELEASE_INTERPRETER=text).settings.release.interpreter == text
    for text in ("/srv/a.tar.gz", f"http://m.example/a.tar.gz{pin}", f"a.tar.gz{pin}", "none"):
        with pytest.raises(UsageError, match="interpreter"):
            load(tmp_path, HERMESOPS_RELEASE_INTERPRETER=text)


def test_the_local_world_may_ask_what_is_on_its_own_network(tmp_path: Path) -> None:
    assert load(tmp_path, HERMESOPS_PROMETHEUS_URL="http://10.0.0.1:9090").is_local


@pytest.mark.parametrize(
    ("text", "is_refused"),
    [
        ('api_key = "sk_canary"\n', True),
        ('registry.url = "postgresql://me:canary@localhost/db"\n', True),
        ('rollout.webhook = "https://canary.example"\n', True),
        ('registry.url = "sqlite:////srv/registry.db"\n', False),
        ('region = "hel1"\n', False),
    ],
)
def test_a_file_that_others_may_read_holds_no_secret(tmp_path: Path, text: str, *, is_refused: bool) -> None:
    write(tmp_path, text)
    file = tmp_path / ".hermesops" / "local" / "settings.toml"
    file.chmod(0o640)
    if is_refused:
        with pytest.raises(RefusedError, match="may be read by others") as refused:
            load(tmp_path)
        assert str(refused.value.hint) == f"chmod 600 {file}"
        assert "canary" not in refused.value.message
    else:
        load(tmp_path)
    file.chmod(0o600)
    load(tmp_path)


def test_the_committed_schema_is_the_one_of_the_settings() -> None:
    """Renew it by ``hermesops settings show --schema > runbooks/settings.schema.json``."""
    file = Path(__file__).parents[3] / "runbooks" / "settings.schema.json"
    assert json.loads(file.read_text()) == schema()


def test_the_schema_describes_every_key_and_nothing_else() -> None:
    properties = schema()
    tables = {name: schema_of for name, schema_of in properties["properties"].items() if "$ref" in schema_of}
    keys = {name: schema_of for name, schema_of in properties["properties"].items() if name not in tables}
    for name, schema_of in tables.items():
        table = properties["$defs"][schema_of["$ref"].rpartition("/")[2]]
        assert not table["additionalProperties"]
        keys |= {f"{name}.{key}": inner for key, inner in table["properties"].items()}
    assert set(keys) == set(FIELDS)
    assert [key for key, schema_of in keys.items() if not schema_of.get("description")] == []
    assert not properties["additionalProperties"]
    assert "null" not in json.dumps(properties)
    assert keys["cell_size"].items() >= {"minimum": 1, "maximum": 500, "default": 40}.items()


def test_a_table_of_the_file_and_its_variables_are_the_same_settings(tmp_path: Path) -> None:
    write(tmp_path, '[backup]\nbucket = "in-file"\nkeep_daily = 3\n')
    env = load(tmp_path, HERMESOPS_BACKUP_BUCKET="in-variable")
    assert (env.settings.backup.bucket, env.settings.backup.keep_daily) == ("in-variable", 3)
    file = str(tmp_path / ".hermesops" / "local" / "settings.toml")
    assert (env.sources["backup.bucket"], env.sources["backup.keep_daily"]) == ("environment", file)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[backup]\nbuckt = "x"\n', r"no setting 'backup\.buckt' .*nearest: backup\.bucket"),
        ('backup_bucket = "x"\n', r"no setting 'backup_bucket' .*nearest: backup\.bucket"),
        ("backup = 7\n", r"no setting 'backup'.*settings\.toml:1"),
        ('region = "a"\n\n[backup]\nregion = "b"\nbuckt = "x"\n', r"no setting 'backup\.buckt' .*settings\.toml:5;"),
        ('[bakup]\nbucket = "x"\n', r"no setting 'bakup' .*settings\.toml:1"),
        ('pulumi.engin = "cli"\n', r"no setting 'pulumi\.engin' .*settings\.toml:1;"),
        ("[backup]\nkeep_daily = 0\n", r"settings key 'backup\.keep_daily'"),
        ("[region]\nx = 1\n", r"settings key 'region'"),
    ],
)
def test_a_wrong_table_is_named_with_the_nearest_key(tmp_path: Path, text: str, message: str) -> None:
    write(tmp_path, text)
    with pytest.raises(UsageError, match=message):
        load(tmp_path)


def test_the_home_of_environments_is_one_folder_wherever_a_command_is_started(tmp_path: Path) -> None:
    a_file = tmp_path / "file"
    a_file.touch()
    for given, word in ((str(a_file), "a file"), ("here", "export HERMESOPS_HOME=/"), ("./here", "another folder")):
        with pytest.raises(UsageError) as refused:
            Environment.load("local", {"HOME": str(tmp_path), "HERMESOPS_HOME": given})
        assert word in refused.value.message + str(refused.value.hint), given
    for given in ("~/ops", str(tmp_path / "ops"), "~", ""):
        folder = Environment.load("local", {"HOME": str(tmp_path), "HERMESOPS_HOME": given}).folder
        assert folder.is_relative_to(tmp_path), given

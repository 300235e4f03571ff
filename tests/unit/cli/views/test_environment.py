from pathlib import Path

import pytest

from hermesops.automation.doctor.environments import EnvironmentState, list_environments
from hermesops.cli.views import environment as environment_view
from hermesops.errors import Hint, RefusedError
from hermesops.model.check import Check, Verdict
from hermesops.settings.environment import Environment
from hermesops.views.automation import environments as environment_shapes


def environment(home: Path, name: str, **variables: str) -> Environment:
    return Environment.load(name, {"HOME": str(home), "HERMESOPS_HOME": str(home), **variables})


def test_an_environment_shows_what_its_settings_change_and_no_secret(tmp_path: Path) -> None:
    env = environment(tmp_path, "staging", HERMESOPS_API_KEY="canary", HERMESOPS_CELL_SIZE="3")
    shown = environment_shapes.chosen(env, because="--env")
    assert {key: value for key, value in shown.items() if key != "settings"} == {
        "name": "staging",
        "because": "--env",
        "production": False,
        "folder": str(tmp_path / "staging"),
        "secrets_home": str(tmp_path / "staging/keys"),
    }
    rows = shown["settings"]
    assert isinstance(rows, list)
    assert [(row["key"], row["value"], row["source"]) for row in rows] == [
        ("api_key", "(set, hidden)", "environment"),
        ("cell_size", "3", "environment"),
    ]


def test_a_hint_of_a_check_is_below_it_and_makes_no_row_wider(capsys: pytest.CaptureFixture[str]) -> None:
    long = "the registry of staging does not answer: database is locked"
    checks = [
        Check("python", Verdict.OK, "3.11.2"),
        Check("registry", Verdict.FAILED, long, Hint(("registry", "restore", "--latest"), "puts a copy back")),
    ]
    assert environment_view.report_checks("doctor", checks) == RefusedError.exit_code
    assert capsys.readouterr().out.splitlines() == [
        "CHECK     VERDICT  SEEN",
        "python    ok       3.11.2",
        f"registry  failed   {long}",
        "    hermesops registry restore --latest puts a copy back",
    ]
    assert environment_view.report_checks("doctor", [], empty="no checks") == 0
    assert capsys.readouterr().out.splitlines() == ["no checks"]
    room = "22 more machines: " + ", ".join(f"{number} of something free" for number in range(12))
    assert environment_view.report_checks("doctor", [Check("room", Verdict.OK, room)]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert max(map(len, rows)) <= 100
    assert " ".join(row[head.index("SEEN") :] for row in rows) == room


def test_environments_are_folders_of_the_home_and_the_chosen_one(tmp_path: Path) -> None:
    for name in ("staging", "broken", "Not a name", ".hidden"):
        (tmp_path / name).mkdir()
    (tmp_path / "staging/settings.toml").write_text('api_url = "https://a/api/v1"\nregistry.url = "postgresql:///x"\n')
    (tmp_path / "staging/settings.toml").chmod(0o600)
    (tmp_path / "broken/settings.toml").write_text("nonsense = 1\n")
    states_by_name = {
        environment_state.name: environment_state
        for environment_state in list_environments(environment(tmp_path, "production"))
    }
    assert list(states_by_name) == ["broken", "production", "staging"]
    assert states_by_name["staging"] == EnvironmentState(
        "staging", tmp_path / "staging", False, "https://a/api/v1", "postgresql", ""
    )
    assert "nonsense" in states_by_name["broken"].problem
    assert states_by_name["production"].is_chosen
    assert states_by_name["production"].problem == "no api_url is set"
    assert environment_shapes.environment(states_by_name["broken"])["vendor"] is None

"""The router's settings file, what LiteLLM gets of it, and the program that goes to the host."""

import ast
import io
import json
import zipfile
from pathlib import Path

import pytest

from hermesops.base import assets
from hermesops.errors import UsageError
from hermesops.model.billing.route import ROUTES
from hermesops.programs.model_router import build, configuration
from hermesops.programs.model_router.configuration import Configuration

KEY = "sk-canary-of-a-provider"


def settings(folder: Path, *providers: str, **given: object) -> Configuration:
    for name in providers:
        (folder / name).write_text(KEY)
    path = folder / "router.json"
    path.write_text(json.dumps({"database": "postgresql://x", "spool": "/s", "secrets": str(folder), **given}))
    return configuration.read(path)


def test_the_models_are_those_of_the_platform_in_its_order(tmp_path: Path) -> None:
    config = settings(tmp_path, "anthropic", "openai", "gemini").for_litellm()
    assert [model["model_name"] for model in config["model_list"]] == [route.name for route in ROUTES]
    assert config["model_list"][0]["litellm_params"]["model"] == "anthropic/claude-haiku-4-5"
    assert config["router_settings"]["fallbacks"][0] == {"claude-haiku": ["gpt-4o", "gemini-flash"]}
    assert KEY not in json.dumps(config)


def test_routes_of_a_provider_without_a_key_are_answered_by_the_first_that_has_one(tmp_path: Path) -> None:
    configuration = settings(tmp_path, "openai")
    assert [model_route.name for model_route in configuration.routes] == [route.name for route in ROUTES]
    assert {model_route.provider for model_route in configuration.routes} == {"openai"}
    litellm = configuration.for_litellm()
    assert {model["litellm_params"]["model"] for model in litellm["model_list"]} == {"openai/gpt-4o"}
    assert litellm["router_settings"]["fallbacks"] == [], "it would fail for the same reason"


def test_without_any_key_there_is_no_route(tmp_path: Path) -> None:
    assert settings(tmp_path).routes == ()


def test_those_that_stand_in_are_of_other_providers(tmp_path: Path) -> None:
    config = settings(tmp_path, "openai", "gemini").for_litellm()
    assert {"claude-haiku": ["gemini-flash"]} in config["router_settings"]["fallbacks"]
    assert {"gemini-flash": ["claude-haiku", "gpt-4o"]} in config["router_settings"]["fallbacks"]


def test_the_order_of_those_that_stand_in_can_be_chosen(tmp_path: Path) -> None:
    chosen = {"claude-haiku": ["gemini-flash", "gpt-4o"]}
    config = settings(tmp_path, "anthropic", "openai", "gemini", fallbacks=chosen).for_litellm()
    assert config["router_settings"]["fallbacks"] == [chosen]


@pytest.mark.parametrize(
    "wrong",
    [
        {"strange": 1},
        {"limits": {"strange": 1}},
        {"fallbacks": {"gpt-5": []}},
        {"fallbacks": {"gpt-4o": ["gpt-5"]}},
        {"bases": {"azure": "x"}},
        {"models": {"gpt-5": "x"}},
    ],
)
def test_what_is_not_known_is_named(tmp_path: Path, wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError, match=r"strange|gpt-5|azure"):
        settings(tmp_path, "openai", **wrong)


def test_no_file_and_no_json_are_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"router\.json"):
        configuration.read(tmp_path / "router.json")
    (tmp_path / "router.json").write_text("{")
    with pytest.raises(UsageError, match=r"router\.json"):
        configuration.read(tmp_path / "router.json")


def test_the_program_holds_all_that_it_imports_of_hermesops() -> None:
    with zipfile.ZipFile(io.BytesIO(build.zipapp())) as archive:
        names = set(archive.namelist())
        for name in names:
            for module in _imports(archive.read(name).decode()):
                path = module.replace(".", "/")
                assert {f"{path}.py", f"{path}/__init__.py"} & names, f"{name} imports {module}"
    assert build.zipapp() == build.zipapp()


def _imports(source: str) -> list[str]:
    nodes = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom))
    return [str(node.module) for node in nodes if str(node.module).startswith("hermesops")]


def test_the_role_has_a_lock_of_what_the_program_needs() -> None:
    lock = (assets.folder("roles") / "hermes_platform_llm_router/files/requirements.txt").read_text()
    pins = {line.partition("==")[0] for line in lock.splitlines() if "==" in line}
    assert pins >= {"litellm", "psycopg", "psycopg-binary", "structlog", "uvicorn", "uv"}
    assert not pins & {"prisma", "polars"}
    assert "--hash=sha256:" in lock

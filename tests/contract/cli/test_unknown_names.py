"""What is said of a user or a cell that is not there, on both databases; and of an environment."""

from pathlib import Path

import pytest

from hermesops.agents.rollout.records.store import refuse_unknown
from hermesops.automation.doctor.environments import require_known
from hermesops.errors import UsageError
from hermesops.model.fleet.selector import Selector
from hermesops.settings.environment import Environment
from hermesops.store.registry import Registry
from tests.support.real.stores.registries import CELL, placed

FIELDS = frozenset({"user", "cell", "plan"})


@pytest.mark.parametrize("typed", ["adda", "ada ", "Ada", "a\udcffda", "ada\0"])
def test_an_unknown_user_is_told_with_the_nearest_who_has_an_instance(registry: Registry, typed: str) -> None:
    registry.users.resolve("adam", create=True)
    placed(registry, "ada")
    with pytest.raises(UsageError, match=r"no user '.*; nearest: ada$") as unknown:
        registry.instances.find(typed)
    assert str(unknown.value.hint) == "hermesops instance list"


def test_a_user_whose_agent_ended_is_known(registry: Registry) -> None:
    registry.terminations.terminate(placed(registry, "ada").id)
    assert registry.instances.find("ada").user_alias == "ada"
    with pytest.raises(UsageError, match="nearest: ada"):
        registry.instances.find("adda")


@pytest.mark.parametrize(
    ("where", "says"), [("user=adda", "no user 'adda'; nearest: ada"), ("cell=cel1", "no cell 'cel1'; nearest: cell1")]
)
def test_nothing_is_found_about_nobody_in_silence(registry: Registry, where: str, says: str) -> None:
    instance = placed(registry, "ada")
    known = f"plan=light,user=ada,user={instance.user_id},cell={CELL}"
    refuse_unknown(registry, Selector.parse(known, fields=FIELDS))
    with pytest.raises(UsageError, match=says):
        refuse_unknown(registry, Selector.parse(f"{known},{where}", fields=FIELDS))


@pytest.mark.parametrize(
    ("message", "what"),
    [
        ("HERMESOPS_API_URL", "https://api.test/v1"),
        ("HERMESOPS_REGISTRY_URL", "x"),
        ("HERMESOPS_SECRETS_HOME", "x"),
        ("", ""),
    ],
)
def test_an_environment_is_known_by_its_folder_or_by_what_variables_say_of_it(
    tmp_path: Path, message: str, what: str
) -> None:
    variables = {"HERMESOPS_HOME": str(tmp_path), "HOME": str(tmp_path)}
    require_known(Environment.load("local", variables))
    (tmp_path / "production").mkdir()
    require_known(Environment.load("production", variables))
    with pytest.raises(UsageError, match=r"no environment 'prodution'.*; nearest: production$") as unknown:
        require_known(Environment.load("prodution", variables))
    assert str(unknown.value.hint) == "hermesops env list"
    if message:
        require_known(Environment.load("prodution", {**variables, message: what}))

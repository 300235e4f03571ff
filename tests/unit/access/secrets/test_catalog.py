from pathlib import Path

import pytest

from hermesops.access.secrets.catalog import AUTHORITY_KEY, CATALOG, SecretSpec, needed
from hermesops.errors import Hint, UsageError
from hermesops.settings.fields import FIELDS
from tests.support.suite.cases import each_case


@each_case("secret", CATALOG, ids=lambda secret: secret.name)
def test_each_secret_has_a_setting_and_a_name_that_a_variable_can_spell(secret: SecretSpec) -> None:
    assert secret.setting in FIELDS
    assert secret.name.replace(".", "").isalpha()
    assert secret.name.islower()


@each_case("secret", CATALOG, ids=lambda secret: secret.name)
def test_each_secret_is_rotated_by_us_or_says_how(secret: SecretSpec) -> None:
    assert bool(secret.rotation) == (secret.name != "registry.key")
    for step in secret.rotation:
        assert str(Hint(step))


def test_what_is_not_needed_is_named_with_what_is() -> None:
    assert needed("api.key").setting == "api_key_file"
    with pytest.raises(UsageError, match=r"nearest: api\.key"):
        needed("apikey")


def test_the_platform_trusts_a_new_authority_before_its_key_signs() -> None:
    commands = [command for step in AUTHORITY_KEY.rotation for command in Hint(step).commands()]
    signs = commands.index("hermesops secrets set authority.key --from FILE")
    assert "hermesops stack up platform" in commands[:signs]
    runbook = (Path(__file__).parents[4] / "runbooks" / "machine-certificate.md").read_text()
    steps = [line.removeprefix("$ ") for line in runbook.splitlines() if line.startswith("$ ")]
    assert "hermesops stack up platform" in steps[: steps.index("hermesops secrets set authority.key --from next.key")]

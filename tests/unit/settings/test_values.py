"""Each number of the settings has bounds, and no setting that is shown holds a password."""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from hermesops.errors import RefusedError, UsageError
from hermesops.settings.environment import Environment
from hermesops.settings.fields import FIELDS, is_secret, variable_of
from hermesops.settings.schema import schema
from hermesops.views.automation.environments import setting

CANARY = "hunter2"
URL = f"https://ops:{CANARY}@127.0.0.1:1/v1"
FOR_EVER = ("1e300", "1000000000000000000", "inf", "nan", "-1e300")


def load(tmp_path: Path, **variables: str) -> Environment:
    return Environment.load("", {"HOME": str(tmp_path), **variables})


def write(tmp_path: Path, text: str, *, mode: int = 0o600) -> Path:
    folder = tmp_path / ".hermesops" / "local"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "settings.toml"
    file.write_bytes(text.encode())
    file.chmod(mode)
    return file


def refusal(tmp_path: Path, key: str, text: str) -> str:
    """What is said of a value that a variable gives; empty where it is taken."""
    try:
        load(tmp_path, **{variable_of(key): text})
    except UsageError as error:
        return f"{error.message} {error.hint}"
    return ""


def properties() -> Iterator[tuple[str, dict[str, Any]]]:
    """Each setting with its part of the schema."""
    properties = schema()
    for name, bound in properties["properties"].items():
        table = properties["$defs"][bound["$ref"].rpartition("/")[2]] if "$ref" in bound else None
        inner = {f"{name}.{key}": each for key, each in table["properties"].items()} if table else {name: bound}
        yield from inner.items()


def numbers(part: object) -> Iterator[dict[str, Any]]:
    """The parts of a schema that a number may be, those of tables and of alternatives too."""
    if isinstance(part, dict):
        if part.get("type") in {"number", "integer"}:
            yield part
        for inner in part.values():
            yield from numbers(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from numbers(inner)


def bound(part: dict[str, Any], *names: str) -> bool:
    return any(name in part for name in names)


def test_each_number_has_a_lower_and_an_upper_bound() -> None:
    bounds = [(key, value) for key, part in properties() for value in numbers(part)]
    unbounded = [
        key
        for key, limit in bounds
        if not (bound(limit, "minimum", "exclusiveMinimum") and bound(limit, "maximum", "exclusiveMaximum"))
    ]
    assert unbounded == []
    assert {"grace_days", "pool_size", "monthly_budget", "backup.keep_monthly", "model.tokens_per_month"} <= {
        key for key, _ in bounds
    }


def test_a_number_that_means_for_ever_is_refused_by_its_key(tmp_path: Path) -> None:
    parts = dict(properties())
    for key in (key for key, part in parts.items() if list(numbers(part))):
        for text in FOR_EVER:
            given = f"light={text},heavy={text}" if "additionalProperties" in parts[key] else text
            assert f"'{key}'" in refusal(tmp_path, key, given), f"{key} = {text} is taken"


def test_a_hundred_years_are_taken_and_said_to_be_for_ever(tmp_path: Path) -> None:
    kept = load(tmp_path, HERMESOPS_ENDED_BACKUPS_DAYS="36500").settings
    assert kept.ended_backups_days == 36_500
    with pytest.raises(UsageError, match="less than or equal to 36500") as refused:
        load(tmp_path, HERMESOPS_ENDED_BACKUPS_DAYS="1e12")
    assert "36500: for ever" in str(refused.value.hint)
    assert load(tmp_path, HERMESOPS_MONTHLY_BUDGET="30.5").settings.monthly_budget == Decimal("30.5")


def test_a_setting_is_shown_as_an_operator_types_it(tmp_path: Path) -> None:
    for text in ("true", "false"):
        assert setting(load(tmp_path, HERMESOPS_PLANS_APART=text), "plans_apart")["value"] == text


def test_no_setting_that_is_shown_takes_a_password_in_a_url(tmp_path: Path) -> None:
    for key, part in properties():
        given = f"light={URL},heavy={URL}" if "additionalProperties" in part else URL
        message = refusal(tmp_path, key, given)
        assert CANARY not in message, key
        assert bool(message) is not is_secret(variable_of(key)), f"{key}: {message}"


def test_the_redis_of_the_api_may_be_named_with_its_user_and_not_with_a_password(tmp_path: Path) -> None:
    assert refusal(tmp_path, "web.redis_url", "rediss://hermesops@127.0.0.1:6380") == ""
    message = refusal(tmp_path, "web.redis_url", f"rediss://hermesops:{CANARY}@127.0.0.1:6380")
    assert "web.redis_url" in message
    assert CANARY not in message


def test_what_proves_users_or_carries_their_words_is_asked_in_clear_on_this_computer_alone(tmp_path: Path) -> None:
    keys = ("web.issuer", "web.keys_url", "web.authorize_url", "web.token_url", "connections.base_url")
    for key in keys:
        assert refusal(tmp_path, key, "http://127.0.0.1:7001/issuer") == "", key
        assert "it is not encrypted" in refusal(tmp_path, key, "http://issuer.test/keys"), key
        assert key in refusal(tmp_path, key, "ftp://127.0.0.1/keys"), key
    for url in ("redis://localhost", "redis://127.0.0.1:6379", "rediss://cache.test"):
        assert refusal(tmp_path, "web.redis_url", url) == "", url
    for url in ("redis://10.0.0.7", "redis://cache.test:6379", "redis://hermesops@127.0.0.1.evil.test"):
        assert "web.redis_url" in refusal(tmp_path, "web.redis_url", url), url


def test_a_model_that_gets_a_key_is_asked_in_clear_on_this_computer_alone(tmp_path: Path) -> None:
    url = "http://models.test/v1"
    assert load(tmp_path, HERMESOPS_MODEL_BASE_URL=url).settings.model.base_url == url
    with pytest.raises(UsageError, match=r"model\.base_url.*not encrypted"):
        load(tmp_path, HERMESOPS_MODEL_BASE_URL=url, HERMESOPS_MODEL_API_KEY="key")
    load(tmp_path, HERMESOPS_MODEL_BASE_URL="http://127.0.0.1:1/v1", HERMESOPS_MODEL_API_KEY="key")


def test_a_password_in_a_url_of_the_file_is_refused_by_its_key_and_place(tmp_path: Path) -> None:
    for line in (
        f'prometheus_url = "{URL}"',
        f'pulumi.backend = "s3://b?endpoint={URL}"',
        f'monitoring.loki = "https://{CANARY}@a.example/loki.zip#sha256={"0" * 64}"',
        f'rollout.hooks = {{ deploy = "curl {URL}" }}',
    ):
        file = write(tmp_path, f"{line}\n")
        with pytest.raises(UsageError, match=f"from {file}.*a user or a password") as refused:
            load(tmp_path)
        assert CANARY not in f"{refused.value.message} {refused.value.hint}"


def test_a_setting_that_may_hold_a_password_is_hidden_and_its_file_closed(tmp_path: Path) -> None:
    secret = sorted(key for key in FIELDS if is_secret(variable_of(key)))
    assert {"registry.url", "rollout.webhook"} <= set(secret)
    for key in secret:
        write(tmp_path, f'{key} = "{URL}"\n')
        assert CANARY not in str(setting(load(tmp_path), key))
        write(tmp_path, f'{key} = "{URL}"\n', mode=0o644)
        with pytest.raises(RefusedError, match="may be read by others"):
            load(tmp_path)


def test_white_space_around_a_text_does_not_count(tmp_path: Path) -> None:
    write(tmp_path, 'region = "nbg1 "\nserver_types = { light = " a", heavy = "b\\n" }\n')
    settings = load(tmp_path, HERMESOPS_API_URL=" https://vendor.invalid/api/v1\t", HERMESOPS_API_KEY="k\n").settings
    assert (settings.region, settings.api_url) == ("nbg1", "https://vendor.invalid/api/v1")
    assert list(settings.server_types.values()) == ["a", "b"]
    assert settings.api_key is not None
    assert settings.api_key.get_secret_value() == "k"


def test_a_value_that_would_fail_later_is_refused_when_it_is_read(tmp_path: Path) -> None:
    for variables, words in (
        ({"HERMESOPS_SERVER_TYPES": "light=basic"}, "'server_types' .*nothing for heavy"),
        ({"HERMESOPS_DATA_GB": "heavy=80"}, "'data_gb' .*nothing for light"),
        ({"HERMESOPS_REGION": " "}, "'region'"),
        ({"HERMESOPS_REGION": "nbg 1"}, "'region'"),
        ({"HERMESOPS_PLAN_REGIONS": "heavy="}, "'plan_regions'"),
    ):
        with pytest.raises(UsageError, match=words):
            load(tmp_path, **variables)


def test_a_file_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    write(tmp_path, '\ufeffregion = "nbg1"\r\n')
    assert load(tmp_path).settings.region == "nbg1"


def test_a_line_that_cannot_be_read_is_told_by_its_beginning(tmp_path: Path) -> None:
    for text, words in (
        ("region = \u201cnbg1\u201d\n", "line 1, .*begins with region = \u201c….*straight quotes"),
        ("cell_size = 4\nregion = nbg1\n", "line 2, .*begins with region = n….*straight quotes"),
        ('\u2018region\u2019 = "a"\n', 'begins with \u2018region\u2019 = "…$'),
        ("grace_days = 07\n", "line 1, .*begins with grace_days = 0…$"),
    ):
        write(tmp_path, text)
        with pytest.raises(UsageError, match=words):
            load(tmp_path)


def test_a_line_that_cannot_be_read_shows_no_secret(tmp_path: Path) -> None:
    for text in (
        f"api_key = \u201c{CANARY}\u201d\n",
        f"[registry]\nurl = {CANARY}\n",
        f'api_key = """\n{CANARY} = "\n',
        f'region = "a" {CANARY}\n',
        f"{CANARY}\n",
    ):
        write(tmp_path, text)
        with pytest.raises(UsageError, match="cannot read") as refused:
            load(tmp_path)
        assert CANARY not in f"{refused.value.message} {refused.value.hint}", text

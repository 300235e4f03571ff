"""Shapes of secrets have no value."""

from datetime import UTC, datetime, timedelta

from hermesops.access.secrets.catalog import API_KEY
from hermesops.access.secrets.store import SecretState
from hermesops.views.access import secrets as secret_shapes

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_a_secret_is_shown_without_its_text() -> None:
    shown = secret_shapes.held_secret(
        SecretState(API_KEY, "age:secrets.age", is_there=True, changed_at=AT), AT + timedelta(days=3)
    )
    assert shown == {
        "name": "api.key",
        "home": "age:secrets.age",
        "is_there": True,
        "changed_at": "2026-01-02T03:04:05+00:00",
        "age": "3 d",
        "setting": "api_key_file",
        "purpose": "opens JustAVPS's API",
    }
    assert secret_shapes.held_secret(SecretState(API_KEY, "x", is_there=False, changed_at=None), AT)["age"] is None

from datetime import UTC, datetime, timedelta

from hermesops.access.secrets.instance_keys import InstanceKeys
from hermesops.model.billing.route import ModelToken, PresentToken, read_token
from hermesops.model.ids import InstanceId
from tests.support.fakes.registry import FakeRegistry

ROUTER_KEY = b"r" * 32
ADA = InstanceId("0c4f4ab6-4ff9-4bb4-bd2c-9c9b2ac1a001")
EXPIRES_AT = datetime(2027, 1, 1, tzinfo=UTC)
WEEK = timedelta(days=7)


class Rows(FakeRegistry):
    generation = 1
    expires_at: datetime | None = None
    asked: timedelta | None = None
    handed: PresentToken | None = None

    def instance_secrets_api_server_key(self, instance_id: InstanceId) -> str:
        return f"key of {instance_id}"

    def model_tokens_get(self, _instance_id: InstanceId) -> PresentToken:
        return PresentToken(self.generation, self.expires_at, None)

    def model_tokens_renew(self, instance_id: InstanceId, *, life: timedelta) -> PresentToken:
        self.asked, self.expires_at = life, EXPIRES_AT
        return self.model_tokens_get(instance_id)

    def model_tokens_record_handed(self, _instance_id: InstanceId, token: PresentToken) -> None:
        self.handed = token


def test_the_model_token_is_that_of_the_rows_and_stays_the_same() -> None:
    rows = Rows()
    keys = InstanceKeys(rows, lambda: ROUTER_KEY, life=WEEK)
    token = keys.renew(ADA)
    keys.note_handed(ADA, token)
    assert (rows.asked, rows.handed) == (WEEK, token)
    instance_secrets = keys.secrets_of(ADA)
    assert instance_secrets.api_server_key == f"key of {ADA}"
    assert read_token(ROUTER_KEY, instance_secrets.model_token) == ModelToken(ADA, 1, int(EXPIRES_AT.timestamp()))
    assert keys.secrets_of(ADA) == instance_secrets


def test_a_token_that_was_revoked_and_not_renewed_is_one_that_has_run_out() -> None:
    instance_secrets = InstanceKeys(Rows(), lambda: ROUTER_KEY, life=WEEK).secrets_of(ADA)
    assert read_token(ROUTER_KEY, instance_secrets.model_token) == ModelToken(ADA, 1, 0)


def test_secrets_show_themselves_in_no_repr() -> None:
    instance_secrets = InstanceKeys(Rows(), lambda: ROUTER_KEY, life=WEEK).secrets_of(ADA)
    assert instance_secrets.model_token not in repr(instance_secrets)
    assert instance_secrets.api_server_key not in repr(instance_secrets)

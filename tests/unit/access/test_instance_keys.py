from hermesops.access.instance_keys import InstanceKeys
from hermesops.model.ids import InstanceId
from hermesops.model.route import instance_of_token

ROUTER_KEY = b"r" * 32
ADA = InstanceId("0c4f4ab6-4ff9-4bb4-bd2c-9c9b2ac1a001")


class Rows:
    generation = 1

    def api_server_key(self, instance_id: InstanceId) -> str:
        return f"key of {instance_id}"

    def model_token_generation(self, _instance_id: InstanceId) -> int:
        return self.generation


def test_the_model_token_names_instance_and_generation_and_stays_the_same() -> None:
    rows = Rows()
    keys = InstanceKeys(rows, ROUTER_KEY)
    made = keys.secrets_of(ADA)
    assert made.api_server_key == f"key of {ADA}"
    assert instance_of_token(ROUTER_KEY, made.model_token) == (ADA, 1)
    assert keys.secrets_of(ADA) == made
    rows.generation = 2
    assert instance_of_token(ROUTER_KEY, keys.secrets_of(ADA).model_token) == (ADA, 2)


def test_secrets_show_themselves_in_no_repr() -> None:
    made = InstanceKeys(Rows(), ROUTER_KEY).secrets_of(ADA)
    assert made.model_token not in repr(made)
    assert made.api_server_key not in repr(made)

"""Shapes of tokens have no value; the rules of ``test_instances`` hold here too."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hermesops.model.access.token import KeptToken
from hermesops.model.ids import MachineId, MachineName
from hermesops.views.access import tokens
from tests.support.fakes.instances import ADA

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def test_a_token_as_everybody_may_see_it() -> None:
    kept = KeptToken("t-1", MachineId("m-1"), "platform", AT + 125 * MINUTE)
    names = {MachineId("m-1"): MachineName("hermes-local-cell1-1")}
    assert tokens.proxy_token(ADA, kept, names, AT) == {
        "user": "ada",
        "instance_id": ADA.id,
        "machine_name": "hermes-local-cell1-1",
        "machine_id": "m-1",
        "purpose": "platform",
        "holder": "relay",
        "generation": None,
        "token_id": "t-1",
        "expires_at": "2026-01-02T05:09:05+00:00",
        "left_s": 7500,
        "left": "2 h 5 min",
    }
    assert tokens.proxy_token(None, kept, {}, AT + 126 * MINUTE)["left"] == "run out"
    assert tokens.proxy_token(None, kept, {}, AT)["machine_name"] == "m-1"
    for purpose, holder in (("platform former", "relay"), ("chat", "commands and workers")):
        assert tokens.proxy_token(ADA, replace(kept, purpose=purpose), names, AT)["holder"] == holder


def test_tokens_are_listed_by_user_and_those_of_unassigned_machines_last() -> None:
    rows: list[dict[str, object]] = [
        {"user": user, "machine_name": machine, "purpose": purpose}
        for user, machine, purpose in ((None, "pool", "health"), ("ben", "m2", "chat"), ("ada", "m1", "platform"))
    ]
    rows.append({"user": "ada", "machine_name": "m1", "purpose": "models"})
    shown = [(row["user"], row["purpose"]) for row in sorted(rows, key=tokens.by_user)]
    assert shown == [("ada", "models"), ("ada", "platform"), ("ben", "chat"), (None, "health")]

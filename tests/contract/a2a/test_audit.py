"""Keys in the audit log: made and revoked, as the user, once each, and no key."""

from tests.support.users.api import Client, UsersApi
from tests.support.users.calling import make_caller


async def test_the_audit_log_has_each_key_once_as_its_users(api: UsersApi, ada: Client) -> None:
    registry = api.relay.registry
    first, second = await make_caller(ada), await make_caller(ada, may_approve=True)
    assert registry.callers.unrecorded() == 2
    assert registry.callers.record() == 2
    await ada.ask("DELETE", f"/callers/{first['caller']['id']}")
    third = await make_caller(ada)
    await ada.ask("DELETE", f"/callers/{third['caller']['id']}")
    assert (registry.callers.record(), registry.callers.record(), registry.callers.unrecorded()) == (2, 0, 0)
    entries = [entry for entry in registry.audit.list() if entry.action.startswith("caller_")]
    changes = [(entry.action, entry.after["caller"]) for entry in sorted(entries, key=lambda entry: entry.id)]
    ids = [each["caller"]["id"] for each in (first, second, third)]
    assert sorted(changes[:2]) == sorted([("caller_made", ids[0]), ("caller_made", ids[1])])
    assert sorted(changes[2:]) == sorted(
        [("caller_revoked", ids[0]), ("caller_made", ids[2]), ("caller_revoked", ids[2])]
    )
    assert {entry.who for entry in entries} == {f"user:{api.ada.user_id}"}
    assert all(each["key"] not in str(entries) for each in (first, second, third))

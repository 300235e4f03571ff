"""What two programs register differently: told by property, walked through documents, keyed as an engine keys it."""

import json

from hermesops.infra.stacks.registered import Effect, PropertyChange, Registered, differences


def one(name: str, *, kind: str = "aws:s3/bucket:Bucket", protect: bool = False, **inputs: object) -> Registered:
    return Registered(kind, name, "", inputs, protect, retain=False)


def always(_: Registered, __: Registered) -> Effect:
    return Effect.UPDATE


def test_what_is_made_changed_and_deleted() -> None:
    before = [one("kept", size=1), one("changed", size=1, tags={"a": "b"}), one("gone")]
    after = [one("kept", size=1), one("changed", size=2, tags={"a": "b", "c": None}), one("new")]
    assert [(x.effect, x.resource.name, x.properties) for x in differences(before, after, always)] == [
        (
            Effect.UPDATE,
            "changed",
            (PropertyChange("size", "1", "2"), PropertyChange("tags.c", "", "null")),
        ),
        (Effect.DELETE, "gone", ()),
        (Effect.CREATE, "new", ()),
    ]


def test_lost_protection_is_a_change() -> None:
    (difference,) = differences([one("a", protect=True)], [one("a")], always)
    assert difference.properties == (PropertyChange("(protected)", "true", "false"),)


def test_a_resource_of_another_parent_is_another_one() -> None:
    moved = Registered("aws:s3/bucket:Bucket", "a", "hermesops:x::y", {}, protect=False, retain=False)
    assert [x.effect for x in differences([one("a")], [moved], always)] == [Effect.DELETE, Effect.CREATE]


def test_a_statement_more_in_a_policy_does_not_move_the_others() -> None:
    def policy(*names: str) -> str:
        return json.dumps({"Statement": [{"Sid": name, "Action": [f"s3:{name}"]} for name in names]})

    (difference,) = differences([one("a", policy=policy("B", "C"))], [one("a", policy=policy("A", "B", "C"))], always)
    assert [change.path for change in difference.properties] == [
        "policy.Statement[A].Action[0]",
        "policy.Statement[A].Sid",
    ]


def test_text_that_only_looks_like_a_document_is_text() -> None:
    (difference,) = differences([one("a", text="{x")], [one("a", text="[y")], always)
    assert difference.properties == (PropertyChange("text", '"{x"', '"[y"'),)

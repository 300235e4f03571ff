from hypothesis import given
from hypothesis import strategies as st

from hermesops.infra.engine.embedded.run.removal import must_go_first
from hermesops.infra.engine.embedded.state.deployment import Resource


def resource(name: str, *needs: str, parent: str = "", provider: str = "") -> Resource:
    return Resource(urn=name, type="t", custom=True, dependencies=needs, parent=parent, provider=provider)


def test_dependents_children_and_what_a_provider_made_go_first() -> None:
    victims = [
        resource("provider"),
        resource("parent"),
        resource("a", provider="provider::id"),
        resource("b", "a", parent="parent"),
    ]
    assert must_go_first(victims) == {0: [2], 1: [3], 2: [3], 3: []}


def test_two_halves_of_a_replacement_do_not_wait_for_each_other() -> None:
    assert must_go_first([resource("a"), resource("a", "a")]) == {0: [], 1: []}


@given(st.data())
def test_there_is_always_an_order(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 12))
    victims = [
        resource(str(n), *map(str, data.draw(st.lists(st.integers(0, n - 1), unique=True)) if n else ()))
        for n in range(count)
    ]
    first = must_go_first(victims)
    gone: set[int] = set()
    while len(gone) < count:
        ready = [n for n in range(count) if n not in gone and gone.issuperset(first[n])]
        assert ready
        gone.update(ready)

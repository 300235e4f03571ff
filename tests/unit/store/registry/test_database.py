"""A registry's URL is shown in errors and to doctors; its password is not, wherever it stands in it."""

from hermesops.access.registry_place import _anchor_name
from hermesops.store.registry.database import Database
from tests.support.suite.cases import each_case

AT = "db.example/registry"


@each_case(
    "url",
    [
        f"postgresql://ops:geheim@{AT}",
        f"postgresql://ops@{AT}?password=geheim",
        f"postgresql://{AT}?user=ops&password=geheim&sslmode=verify-full",
        f"postgresql://{AT}?sslpassword=geheim&host=/run/pg",
        f"postgresql://{AT}?options=-cmine%3Dgeheim",
    ],
)
def test_a_password_is_not_shown(url: str) -> None:
    title = Database(url).title
    assert "geheim" not in title
    assert AT in title


def test_where_the_server_is_stays_shown() -> None:
    assert "host=%2Frun%2Fpg" in Database(f"postgresql:///{AT.partition('/')[2]}?host=/run/pg&password=x").title


def test_another_password_is_no_other_registry() -> None:
    names = {_anchor_name(f"postgresql://{AT}?{who}") for who in ("password=a", "password=b", "user=u&password=c")}
    assert len(names) == 1
    assert names == {_anchor_name(f"postgresql://{AT}")}

"""What must be encrypted is told from what need not be, however the address is spelled."""

import pytest

from hermesops.base.network.web_address import bucket_exposure, exposure, is_loopback, with_verified_tls
from tests.support.suite.cases import each_case


@each_case("host", ["localhost", "a.localhost", "127.0.0.1", "127.9.9.9", "::1"])
def test_this_computer_is_known_by_name_and_address(host: str) -> None:
    assert is_loopback(host)


@each_case("host", ["", "localhost.example", "notlocalhost", "127.0.0.1.example", "10.0.0.1"])
def test_what_looks_like_this_computer_is_not(host: str) -> None:
    assert not is_loopback(host)


@each_case(
    ("url", "why"),
    [
        ("https://a.example/v1", ""),
        ("HTTPS://a.example", ""),
        ("http://127.0.0.1:9/v1", ""),
        ("http://[::1]:9", ""),
        ("http://localhost.example/", "not encrypted"),
        ("http://127.0.0.1@a.example/", "not encrypted"),
        ("http://10.1.2.3/v1", "not encrypted"),
        ("ftp://a.example", "not encrypted"),
        ("a.example/v1", "names no host"),
        ("https://", "names no host"),
        ("https://[a", "no URL"),
        ("https://a:99999999", "no URL"),
    ],
)
def test_an_address_is_encrypted_or_on_this_computer(url: str, why: str) -> None:
    assert why in exposure(url)
    assert bool(exposure(url)) == bool(why)


@each_case(
    ("url", "exposed"),
    [
        ("", False),
        ("/srv/releases", False),
        ("s3://b/f?region=r", False),
        ("s3://b?endpoint=https://s3.example", False),
        ("s3://b?endpoint=s3.example", False),
        ("s3://b?endpoint=http://127.0.0.1:9&s3ForcePathStyle=true", False),
        ("s3://b?endpoint=http://s3.example", True),
        ("s3://b?endpoint=s3.example&disableSSL=true", True),
        ("s3://b?endpoint=s3.example&disable_https=1", True),
        ("s3://b?disableSSL=true", True),
    ],
)
def test_a_bucket_is_asked_encrypted(url: str, *, exposed: bool) -> None:
    assert bool(bucket_exposure(url)) == exposed


@each_case(
    "url",
    [
        "sqlite:////srv/registry.db",
        "postgresql://me@localhost/db",
        "postgresql://me@[::1]:5433/db",
        "postgresql://me@/db?host=/run/postgresql",
        "postgresql://me@/db?host=127.0.0.1:1&host=[::1]:2",
        "postgresql://me@db.example/db?sslmode=require",
        "postgresql://me@db.example/db?sslmode=disable&x=1",
        "postgresql://[bad",
    ],
)
def test_a_database_is_asked_as_it_is_where_its_server_is_here_or_its_url_says_how(url: str) -> None:
    assert with_verified_tls(url) == url


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("postgresql://me:pw@db.example/db", "postgresql://me:pw@db.example/db?sslmode=verify-full"),
        ("postgresql+psycopg://db.example/db?x=1", "postgresql+psycopg://db.example/db?x=1&sslmode=verify-full"),
        ("postgresql:///db", "postgresql:///db?sslmode=verify-full"),  # libpq passes over it on a Unix socket
        (
            "postgresql:///db?host=/run/p&host=db.example",
            "postgresql:///db?host=/run/p&host=db.example&sslmode=verify-full",
        ),
    ],
)
def test_any_other_database_has_to_prove_who_it_is(url: str, wanted: str) -> None:
    assert with_verified_tls(url) == wanted

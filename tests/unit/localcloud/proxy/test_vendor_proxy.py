"""Which machine and port a Host header means."""

from hermesops.localcloud.proxy.vendor_proxy import Target, target_of
from tests.support.suite.cases import each_case


@each_case(
    ("host", "target"),
    [
        ("8642--m-1a2b.localhost:4000", Target("m-1a2b", 8642)),
        ("8642--M-1A2B.LOCALHOST", Target("m-1a2b", 8642)),
        ("m-1a2b.localhost", Target("m-1a2b", None)),
        ("127.0.0.1:4000", None),
        ("localhost:4000", None),
        ("8642--m-1a2b.localhost.evil.example", None),
        ("8642--m-1a2b.example", None),
        ("123456--m-1a2b.localhost", Target("123456--m-1a2b", None)),
        ("", None),
    ],
)
def test_only_names_of_the_proxy_are_its_own(host: str, target: Target | None) -> None:
    assert target_of(host) == target

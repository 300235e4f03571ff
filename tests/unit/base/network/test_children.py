"""Programs that we start do not ask a proxy for this computer."""

from hermesops.base.child_environment import NETWORK, PACKAGES, made


def test_a_program_with_a_proxy_is_given_this_computers_addresses_to_pass_it_by() -> None:
    own = "localhost,127.0.0.1,127.0.0.0/8,::1"
    for given, wanted in (
        ({"https_proxy": "http://p"}, own),
        ({"ALL_PROXY": "http://p", "NO_PROXY": "corp, fd00::/8"}, f"corp,fd00::/8,{own}"),
        ({"http_proxy": "http://p", "no_proxy": "a", "NO_PROXY": "b"}, f"a,{own}"),
        ({"http_proxy": "http://p", "no_proxy": f"a,{own}"}, f"a,{own}"),
        ({"http_proxy": "http://p", "NO_PROXY": "*"}, "*"),
    ):
        environment = made(PACKAGES, variables=given)
        assert (environment["no_proxy"], environment["NO_PROXY"]) == (wanted, wanted), given


def test_a_program_without_a_proxy_is_given_nothing_more() -> None:
    assert made(NETWORK, variables={"http_proxy": ""}) == {"http_proxy": ""}
    assert made(variables={"http_proxy": "http://p"}) == {}, "it reaches no other host"

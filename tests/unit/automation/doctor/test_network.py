"""What the doctor says of the variables that say how other hosts are reached."""

import socket

import pytest

from hermesops.automation.doctor.network import check_network
from hermesops.base.network.variables import NetworkVariables
from hermesops.errors import HermesError, UnavailableError, UsageError

VENDOR = "https://api.vendor.invalid"


async def said(variables: dict[str, str], url: str = VENDOR) -> str:
    return await check_network(NetworkVariables(variables), url)


async def test_what_acts_is_said_without_passwords_and_what_does_not_is_said_too() -> None:
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        port = proxy.getsockname()[1]
        named = {"HTTPS_PROXY": f"http://ops:hunter2@127.0.0.1:{port}", "no_proxy": "corp,fd00::/8,fd00::/999"}
        text = await said({**named, "grpc_proxy": "x", "AWS_PROFILE": "ops"})
        assert await said(named, "http://127.0.0.1:1") == text.replace(
            f"JustAVPS is asked through http://127.0.0.1:{port} (HTTPS_PROXY)", "JustAVPS is asked directly"
        ).replace("; AWS_PROFILE: AWS is asked as ops; grpc_proxy: without effect", "")
    assert text == (
        f"JustAVPS is asked through http://127.0.0.1:{port} (HTTPS_PROXY); HTTPS_PROXY: http://127.0.0.1:{port}; "
        "no_proxy: 2 exceptions, without effect: fd00::/999; AWS_PROFILE: AWS is asked as ops; "
        "grpc_proxy: without effect"
    )
    assert await said({}) == "no variable names a proxy or authorities"


async def test_a_proxy_that_does_not_answer_fails_the_check_where_the_vendor_is_behind_it() -> None:
    dead = {"https_proxy": "http://127.0.0.1:9"}
    for url, kind in ((VENDOR, UsageError), ("http://127.0.0.1:1", UnavailableError)):
        with pytest.raises(
            HermesError, match=r"^the proxy http://127.0.0.1:9, which https_proxy names, does"
        ) as caught:
            await said(dead, url)
        assert type(caught.value) is kind, url


async def test_every_unusable_variable_is_named_at_once() -> None:
    with pytest.raises(UsageError) as caught:
        await said(
            {"http_proxy": "ftp://x", "ALL_PROXY": "http://", "SSL_CERT_FILE": "/gone", "AWS_CA_BUNDLE": "/gone"}
        )
    assert str(caught.value.hint) == "mend or unset http_proxy, ALL_PROXY, AWS_CA_BUNDLE, SSL_CERT_FILE"

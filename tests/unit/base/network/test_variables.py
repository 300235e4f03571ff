"""What the operator's variables mean, whoever reads them otherwise in another way."""

import ssl
from pathlib import Path

import pytest

from hermesops.base.network.http import blocking_client
from hermesops.base.network.variables import NetworkVariables, is_readable
from hermesops.errors import UsageError

PROXY = "http://proxy.corp:3128"


def shown(variables: dict[str, str], url: str = "https://api.justavps.com/v1") -> str:
    proxy = NetworkVariables(variables).proxy_for(url)
    return f"{proxy.variable} {proxy.url}" if proxy else ""


def test_a_proxy_is_the_one_of_the_scheme_then_the_one_of_all_and_lower_case_wins() -> None:
    named = {"https_proxy": PROXY, "HTTPS_PROXY": "http://other", "all_proxy": "socks5h://all:1080"}
    assert shown(named) == f"https_proxy {PROXY}"
    assert shown(named, "http://api.justavps.com") == "all_proxy socks5h://all:1080"
    assert shown({"HTTPS_PROXY": "proxy.corp:3128"}) == "HTTPS_PROXY http://proxy.corp:3128"
    assert not shown({"https_proxy": "", "HTTPS_PROXY": PROXY}), "an empty one in lower case turns it off"
    assert not shown({"http_proxy": PROXY, "grpc_proxy": PROXY})


def test_this_computer_is_never_asked_through_a_proxy() -> None:
    everything = dict.fromkeys(("https_proxy", "http_proxy", "all_proxy", "HTTPS_PROXY"), "no proxy at all://")
    for host in ("127.0.0.1:8000", "127.9.9.9", "localhost", "LOCALHOST:1", "x.localhost", "localhost.", "[::1]:1"):
        for scheme in ("http", "https"):
            assert not shown(everything, f"{scheme}://{host}/path"), host


def test_exceptions_are_names_addresses_and_networks_of_both_kinds() -> None:
    cases = {
        ("*", "https://any.where"): True,
        ("corp", "https://vault.corp"): True,
        (".corp", "https://vault.corp"): True,
        ("*.corp", "https://vault.corp"): True,
        ("corp", "https://acorp"): False,
        ("10.0.0.0/8", "https://10.1.2.3"): True,
        ("10.0.0.0/8", "https://11.1.2.3"): False,
        ("10.1.2.3", "https://10.1.2.3"): True,
        ("fd00::/8", "https://[fd00::7]:8443"): True,
        ("fd00::/8", "https://[fe80::7]"): False,
        ("[fd00::]/8", "https://[fd00::7]"): True,
        ("fd00::7", "https://[fd00::7]"): True,
        ("[fd00::7]", "https://[fd00::7]"): True,
        ("[fd00::7]:443", "https://[fd00::7]"): True,
        ("[fd00::7]:444", "https://[fd00::7]"): False,
        ("vault.corp:8200", "https://vault.corp:8200"): True,
        ("vault.corp:8200", "https://vault.corp"): False,
        ("fd00::/8", "https://vault.corp"): False,
        ("fd00::/999", "https://[fd00::7]"): False,
        ("localhost,[::1]", "https://vault.corp"): False,
        ("", "https://vault.corp"): False,
        (" a , b.corp c.corp", "https://c.corp"): True,
    }
    for (value, url), is_direct in cases.items():
        for name in ("no_proxy", "NO_PROXY"):
            assert NetworkVariables({name: value}).is_direct(url) is is_direct, (name, value, url)


def test_entries_that_can_mean_no_host() -> None:
    for entry in ("*", "corp", "10.0.0.0/8", "fd00::/8", "[::1]:80", "a.corp:80"):
        assert is_readable(entry), entry
    for entry in ("fd00::/999", "10.0.0/8", "a:b:c"):
        assert not is_readable(entry), entry


def test_a_value_that_is_no_proxy_is_refused_with_its_variable_and_without_its_password() -> None:
    for value in ("http://[::1", "ftp://x:1", "http://", "http://user:hunter2@[::1", "socks4://x:1", "http://x:port"):
        with pytest.raises(UsageError) as refused:
            NetworkVariables({"HTTPS_PROXY": value}).proxy_for("https://api.justavps.com")
        assert refused.value.message.startswith("HTTPS_PROXY is "), value
        assert "hunter2" not in refused.value.message
        assert ("doctor",) in refused.value.hint.parts


def test_what_is_shown_of_a_proxy_has_no_password() -> None:
    for value in ("http://user:hunter2@proxy:1", "user:hunter2@proxy:1", "http://user:hunter2@b@proxy:1"):
        proxy = NetworkVariables({"https_proxy": value}).proxy("https_proxy")
        assert proxy is not None
        assert proxy.shown == "http://proxy:1"
        assert "hunter2" not in repr(proxy)


def test_authorities_that_cannot_be_used_are_refused_with_their_variable(tmp_path: Path) -> None:
    empty, gone = tmp_path / "empty.pem", tmp_path / "gone"
    empty.write_text("no certificate\n")
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        for value, why in ((gone, "No such file"), (empty, "no certificates")):
            with pytest.raises(UsageError, match=f"^{name} is {str(value)!r}, .*{why}"):
                NetworkVariables({name: str(value)}).tls_context()
    with pytest.raises(UsageError, match=r"^CURL_CA_BUNDLE is "):
        NetworkVariables({"CURL_CA_BUNDLE": str(gone)}).authorities("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
    assert NetworkVariables({"SSL_CERT_FILE": ""}).tls_context().get_ca_certs()
    assert isinstance(NetworkVariables({"SSL_CERT_DIR": f"{tmp_path}:{tmp_path}"}).tls_context(), ssl.SSLContext)


def test_a_library_that_speaks_no_socks_is_not_asked_through_it() -> None:
    with pytest.raises(UsageError, match=r"^all_proxy is 'socks5h://x:1', and Stripe cannot be reached"):
        NetworkVariables({"all_proxy": "socks5h://x:1"}).http_proxy_for("https://api.stripe.com", whom="Stripe")


def test_a_client_speaks_socks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("all_proxy", "socks5h://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    with (
        blocking_client(timeout=5) as http,
        pytest.raises(Exception, match=r"the proxy socks5h://127.0.0.1:9, which"),
    ):
        http.get("http://vendor.invalid")

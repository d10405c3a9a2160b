"""Which proxy the environment means, by the rules that Go programs go by."""

from __future__ import annotations

import pytest

from trellis.base.errors import InvalidInput
from trellis.kube.transport.proxies import find_proxy

_PROXY = {"HTTPS_PROXY": "http://proxy:3128"}


@pytest.mark.parametrize(
    ("server", "exempt", "through"),
    [
        ("https://api.example.org:6443", "", True),
        ("https://api.example.org:6443", "*", False),
        ("https://api.example.org:6443", "example.org", False),
        ("https://api.example.org:6443", ".example.org", False),
        ("https://example.org", ".example.org", True),
        ("https://api.example.org:6443", "*.example.org", False),
        ("https://api.example.org:6443", "ample.org", True),
        ("https://api.example.org:6443", "api.example.org:6443", False),
        ("https://api.example.org:6443", "api.example.org:443", True),
        ("https://api.example.org", "api.example.org:443", False),
        ("https://API.example.org", "api.EXAMPLE.org", False),
        ("https://10.96.0.1", "10.96.0.0/12", False),
        ("https://10.112.0.1", "10.96.0.0/12", True),
        ("https://10.96.0.1:443", " 192.168.0.1 , 10.96.0.1 ", False),
        ("https://[fd00::1]:443", "fd00::/8", False),
        ("https://127.0.0.1:6443", "", False),
        ("https://localhost:6443", "", False),
        ("https://[::1]:6443", "", False),
        ("http://api.example.org", "", False),
    ],
)
def test_a_server_goes_through_the_proxy_unless_it_is_exempt(server: str, exempt: str, through: bool) -> None:
    assert bool(find_proxy({**_PROXY, "NO_PROXY": exempt}, server)) is through


def test_lower_case_variables_count_and_the_scheme_is_optional() -> None:
    environment = {"https_proxy": "proxy:3128", "no_proxy": "b.example.org"}
    assert find_proxy(environment, "https://a.example.org") == "http://proxy:3128"
    assert find_proxy(environment, "https://b.example.org") == ""


def test_a_kind_of_proxy_that_we_cannot_speak_to_is_refused_by_name() -> None:
    with pytest.raises(InvalidInput, match=r"socks5://proxy.*HTTPS_PROXY must be"):
        find_proxy({"HTTPS_PROXY": "socks5://proxy:1"}, "https://a.example.org")

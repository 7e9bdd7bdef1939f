"""An address to visit is taken apart so that nobody mistakes its host, and hostile ones are no links (B164)."""

import pytest

from console import weblinks


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "//evil.example",
        "https:evil.example",
        "https://good.example@evil.example/",
        "https://good.example\\@evil.example/",
        "https://user:pw@shop.example/",
        "https://shop.example/\u202e",
        "https://shop.example/ x",
        "https://shop.exa\nmple/",
        "https://\u0430pple.example/",
        "https://shop.example:99999/",
        "https:///x",
        "https://[::1",
        " https://shop.example",
        "",
        "vbscript:x",
        "https://shop.example%2eevil.example/",
    ],
)
def test_blocked(url):
    link = weblinks.inspect(url)

    assert link.blocked
    assert link.before + link.host + link.after == url


@pytest.mark.parametrize(
    "url, host, warnings",
    [
        ("https://shop.example/x?y#z", "shop.example", 0),
        ("HTTPS://Shop.Example:8443/x", "Shop.Example", 0),
        ("http://shop.example", "shop.example", 1),
        ("https://xn--pple-43d.example/", "xn--pple-43d.example", 1),
        ("https://192.0.2.7/", "192.0.2.7", 1),
        ("https://[2001:db8::1]/", "[2001:db8::1]", 1),
        ("https://2130706433/", "2130706433", 1),
        ("http://0x7f.1/", "0x7f.1", 2),
    ],
)
def test_shown_in_full_with_its_host_apart(url, host, warnings):
    link = weblinks.inspect(url)

    assert not link.blocked
    assert link.host == host
    assert link.before + link.host + link.after == url
    assert len(link.warnings) == warnings

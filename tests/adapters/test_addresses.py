import asyncio
import contextlib
import posixpath
from urllib.parse import unquote

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters import addresses
from adapters.addresses import ForbiddenAddress
from tests.adapters.scripted import serve

INSIDE = ["127.0.0.1", "127.255.0.9", "10.0.0.1", "172.16.0.1", "192.168.1.1", "::1", "fd12::1", "100.64.0.1"]
MAPPED_INSIDE = ["::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "::127.0.0.1"]
NEVER = [
    "169.254.169.254",
    "::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "fe80::1",
    "fe80::1%eth0",
    "fd00:ec2::254",
    "fd20:ce::254",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    "0.0.0.0",
    "0.1.2.3",
    "::",
    "224.0.0.1",
    "ff02::1",
    "255.255.255.255",
    "240.0.0.1",
    "64:ff9b:1::1",
    "nonsense",
    "",
]
PUBLIC = ["93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946", "::ffff:93.184.216.34", "64:ff9b::5db8:d822"]


@pytest.mark.parametrize("address", INSIDE + MAPPED_INSIDE)
def test_b255_an_inner_address_needs_an_admins_word(address):
    assert addresses.address_problem(address, allow_private=False)
    assert addresses.address_problem(address, allow_private=True) is None


@pytest.mark.parametrize("address", NEVER)
def test_b255_some_addresses_no_admin_can_allow(address):
    assert addresses.address_problem(address, allow_private=False)
    assert addresses.address_problem(address, allow_private=True)


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_needs_nobodys_word(address):
    assert addresses.address_problem(address, allow_private=False) is None


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "gopher://x/",
        "unix:///run/x",
        "//good.example/",
        "http://",
        "http://user:pw@good.example/",
        "http://good.example\\@127.0.0.1/",
        "http://[fe80::1%25eth0]/",
        "http://good.example%2e/",
        "http://good example/",
        "http://good.example/\r\nX: y",
        "http://good.example:99999/",
        "http://[::1/",
        "http://good.example/#part",
        "",
    ],
)
def test_b255_a_url_with_a_trick_in_it_is_refused_without_being_quoted(url):
    problem = addresses.url_problem(url)

    assert problem
    assert "good" not in problem


@pytest.mark.parametrize("url", ["https://good.example/mcp?key=1", "http://127.0.0.1:8000/", "http://[::1]:80/mcp"])
def test_an_honest_url_has_no_problem(url):
    assert addresses.url_problem(url) is None


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "2130706433", "0x7f000001", "127.1", "0", "localhost", "::1", "::ffff:127.0.0.1"]
)
@pytest.mark.asyncio
async def test_b255_every_spelling_of_this_machine_is_resolved_before_it_is_judged(host):
    # What the system's resolver makes of these spellings, without asking it: the suite stays offline.
    spelled = {"2130706433": "127.0.0.1", "0x7f000001": "127.0.0.1", "127.1": "127.0.0.1", "0": "0.0.0.0"}

    async def resolve(name, port):
        return await addresses.system_resolve(spelled.get(name, name), port)

    with pytest.raises(ForbiddenAddress):
        await addresses.checked_addresses(host, 80, allow_private=False, resolve=resolve)


@pytest.mark.asyncio
async def test_b255_one_forbidden_address_among_public_ones_is_enough():
    with pytest.raises(ForbiddenAddress):
        await addresses.checked_addresses(
            "mixed.test", 80, allow_private=False, resolve=answering("93.184.216.34", "::1")
        )


async def connected(host, port, *, allow_private=True, resolve):
    """Connect as a pool does, and hang up."""
    await addresses.connect(HangsUp, host, port, tls=None, allow_private=allow_private, resolve=resolve)


class HangsUp(asyncio.Protocol):
    def connection_made(self, transport):
        transport.close()


@pytest.mark.asyncio
async def test_b256_the_checked_address_is_the_one_that_is_used():
    """The name is asked for once; a second answer, which would differ, is never fetched."""
    async with listening() as (port, seen):
        answers = [["127.0.0.1"], ["127.0.0.2"]]

        await connected("rebind.test", port, resolve=lambda host, port: ready(answers.pop(0)))

        assert len(answers) == 1
        assert seen == ["127.0.0.1"]


@pytest.mark.asyncio
async def test_b256_a_name_that_now_points_inside_is_not_connected_to():
    async with listening() as (port, seen):
        with pytest.raises(ForbiddenAddress):
            await connected("rebind.test", port, allow_private=False, resolve=answering("127.0.0.1"))

        assert seen == []


@pytest.mark.asyncio
async def test_the_next_address_is_tried_when_the_first_does_not_answer():
    async with listening() as (port, seen):
        await connected("localhost", port, resolve=answering("::1", "127.0.0.1"))

        assert seen == ["127.0.0.1"]


@pytest.mark.parametrize("error", [OSError("no such name"), UnicodeError("label too long")])
@pytest.mark.asyncio
async def test_a_name_without_an_address_cannot_be_connected_to(error):
    async def resolve(host, port):
        raise error

    with pytest.raises(httpx.ConnectError):
        await addresses.checked_addresses("nowhere.test", 80, allow_private=False, resolve=resolve)


PIECES = ["..", ".", "/", "//", "\\", "%2e", "%2E%2e", "%2f", "%5c", "%00", "%", "a", "operations", "@", ":"]
PIECES += ["?", "#", "é", " "]


@given(path=st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=6).map("".join), query=st.text(max_size=5))
def test_b138_no_path_leads_out_of_the_registered_url(path, query):
    """However httpx or a server behind it reads the URL."""
    with contextlib.suppress(ValueError):
        url = httpx.URL(addresses.below("https://api.test:8443/v1/here", path=path, query=(("q", query),)))
        seen = unquote(url.raw_path.decode()).partition("?")[0]

        assert (url.scheme, url.host, url.port) == ("https", "api.test", 8443)
        assert f"{posixpath.normpath(seen)}/".startswith("/v1/here/")
        assert url.params["q"] == query


@pytest.mark.parametrize(
    "path", ["operations/1", "operations/rollouts.api.goog:8f1c", "projects/p/jobs:run", "operations/%2525", "a/~b/c_d"]
)
def test_an_ordinary_path_is_put_below_as_it_is(path):
    for url in ("https://api.test/v1", "https://api.test/v1/"):
        assert addresses.below(url, path=path) == f"https://api.test/v1/{path}"


def test_without_a_path_the_url_stays_as_it_was_registered():
    assert addresses.below("https://api.test/mcp/", path="") == "https://api.test/mcp/"
    assert addresses.below("https://api.test/mcp?a=1", path="", query=(("b", "2"),)) == "https://api.test/mcp?a=1&b=2"


def test_nothing_lies_below_a_url_with_a_query():
    with pytest.raises(ValueError, match="leave"):
        addresses.below("https://api.test/mcp?a=1", path="operations/1")


@contextlib.asynccontextmanager
async def listening():
    """Serve on every address of this machine; yield the port, and at which address each call came."""
    seen = []

    async def script(talk, served):
        seen.append(talk.called_at)
        await talk.gone()

    async with serve(script, host="0.0.0.0") as served:
        yield served.port, seen


def answering(*found):
    return lambda host, port: ready(found)


async def ready(value):
    return value

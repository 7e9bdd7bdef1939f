"""Waiting for the first page: an error is told at once, silence is waited out."""

import http.server
import socket
import threading

import pytest

from console.ground import readiness


@pytest.fixture
def site():
    """A site that answers with the codes in `site.codes`, one after the other, the last for ever."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            codes = self.server.codes
            self.send_response(codes.pop(0) if len(codes) > 1 else codes[0])
            self.end_headers()

        def log_message(self, *args):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    server.codes = [200]
    server.url = f"http://127.0.0.1:{server.server_port}/"
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_a_site_that_answers_is_ready(site):
    assert readiness.wait(site.url, patience=60, go_on=lambda: True) is True


def test_an_error_is_told_at_once_with_its_code(site):
    site.codes = [500, 200]

    with pytest.raises(readiness.BrokenSiteError, match="answers 500"):
        readiness.wait(site.url, patience=60, go_on=lambda: True)


def test_silence_is_waited_out():
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))  # never listens, and nobody else can

        assert readiness.wait(f"http://127.0.0.1:{deaf.getsockname()[1]}/", patience=0.3, go_on=lambda: True) is False


def test_waiting_ends_when_it_is_no_longer_wanted(site):
    assert readiness.wait(site.url, patience=60, go_on=lambda: False) is False


def test_a_proxy_of_the_environment_is_not_asked(site, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")

    assert readiness.wait(site.url, patience=60, go_on=lambda: True) is True

"""How each third-party server is installed and started.

Names are the peers of the promises suite. A command is a function of the port and of a folder that outlives a restart;
it installs what it needs.
"""

import contextlib
import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.verified.peers import installation
from tests.verified.peers.running import free_port, running


def _python(name, requirements, script):
    return [str(installation.python_peer(name, requirements)), installation.script(script)]


def _mcp_130(port, _home):
    return [*_python("mcp-1.30.0", "mcp_130.txt", "mcp_130.py"), str(port)]


def _fastmcp_3(port, _home):
    return [*_python("fastmcp-3", "fastmcp_3.txt", "fastmcp_3.py"), str(port)]


def _fastmcp_4(port, _home):
    return [*_python("fastmcp-4", "fastmcp_4.txt", "fastmcp_4.py"), str(port)]


def _everything(port, _home):
    home = installation.node_peer("server-everything", "@modelcontextprotocol/server-everything@2026.8.31")
    program = home / "node_modules/@modelcontextprotocol/server-everything/dist/index.js"
    return ["env", f"PORT={port}", "node", str(program), "streamableHttp"]


def _ts_132(port, _home):
    packages = ("@modelcontextprotocol/sdk@1.32.2", "express@5.3.0", "zod@4.6.7")
    # Node looks for packages from where the script is.
    home = installation.node_peer("ts-sdk-1.32.2", *packages)
    return ["node", str(shutil.copy(installation.script("ts_sdk_132.mjs"), home)), str(port)]


def _ts_2026(port, _home):
    packages = ("@modelcontextprotocol/server@2.4.0", "@modelcontextprotocol/node@2.1.2", "zod@4.6.7")
    home = installation.node_peer("ts-server-2026", *packages)
    return ["node", str(shutil.copy(installation.script("ts_server_2026.mjs"), home)), str(port)]


FUNCTIONS = 60


def _emulator(port, home):
    package = installation.node_peer("functions-emulator", "@google-cloud/functions-emulator@1.0.0-beta.6")
    program = package / "node_modules/@google-cloud/functions-emulator/bin/emulator"
    if not (home / "source").exists():
        _furnish(home)
    told = [f"HOME={home}", f"XDG_CONFIG_HOME={home / 'config'}"]
    options = ["--bindHost", "127.0.0.1", "--host", "127.0.0.1", "--logFile", str(home / "emulator.log")]
    ports = ["--restPort", str(port), "--supervisorPort", str(free_port())]
    return ["env", *told, "node", str(program), *options, *ports]


def _furnish(home):
    """Give the emulator functions to deploy: `report0` and on."""
    (home / "source").mkdir()
    exports = (f"exports.report{n} = (request, response) => response.send('done');\n" for n in range(FUNCTIONS))
    (home / "source" / "index.js").write_text("".join(exports))
    config = home / "config" / "configstore" / "@google-cloud" / "functions-emulator"
    config.mkdir(parents=True)
    (config / "config.json").write_text(json.dumps({"projectId": "p"}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One server. `path` is where it answers."""

    command: Callable[[int, Path], list[str]]
    path: str = "/mcp"
    needs_npm: bool = False


LAUNCHES = {
    # Not /mcp: the mount of this peer redirects, and a redirect is an answer for an admin, not for us.
    "mcp 1.30.0": Launch(command=_mcp_130, path="/mcp/"),
    "ts-sdk 1.32.2": Launch(command=_ts_132, needs_npm=True),
    "server-everything": Launch(command=_everything, needs_npm=True),
    "fastmcp 3.4.11": Launch(command=_fastmcp_3),
    "fastmcp 4.1.4": Launch(command=_fastmcp_4),
    "ts-server 2.4.0": Launch(command=_ts_2026, needs_npm=True),
    "functions-emulator": Launch(command=_emulator, path="/v1", needs_npm=True),
}


class Peers:
    """The servers of this session, each started when it is first asked for."""

    def __init__(self, *, need_npm):
        self._need_npm = need_npm
        self._stack = contextlib.ExitStack()
        self._urls = {}

    def __enter__(self):
        self.home = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="longcall-peers-")))
        return self

    def __exit__(self, *exc_info):
        self._stack.close()

    def url(self, name):
        """The address of the shared one."""
        if name not in self._urls:
            self._urls[name] = self._stack.enter_context(self.running(name, port=free_port()))
        return self._urls[name]

    @contextlib.contextmanager
    def running(self, name, *, port):
        """Run one of its own on this port; yield its address."""
        launch = LAUNCHES[name]
        if launch.needs_npm:
            self._need_npm()
        with running(name.replace(" ", "-"), launch.command(port, self.home), port=port) as url:
            yield url.removesuffix("/mcp") + launch.path

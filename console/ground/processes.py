"""The table of our own processes: what `up` keeps running."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Process:
    """One Python process: `python -m` these words.

    `is_demo`: `up --without-demo` leaves it out. `once`: it ends by itself, and is over when it ends well.
    """

    name: str
    module: str
    arguments: tuple[str, ...]
    is_demo: bool = False
    once: bool = False


def table(*, port: int, demo_port: int | None) -> list[Process]:
    """Return the processes, the site first; no `demo_port` means no demo."""
    everything = [
        Process("web", "uvicorn", ("console.asgi:application", "--host", "127.0.0.1", "--port", str(port), *UVICORN)),
        Process("worker", "django", ("worker",)),
        Process("demo-servers", BARE, ("demo_servers", "--port", str(demo_port)), is_demo=True),
        Process("demo-seed", "django", ("demo_seed", "--negotiate", "60"), is_demo=True, once=True),
        Process(
            "demo-workflow",
            BARE,
            ("demo_workflow", "--follow", "--base-url", f"http://127.0.0.1:{port}"),
            is_demo=True,
        ),
    ]
    return [process for process in everything if demo_port or not process.is_demo]


BARE = "console.management.bare"  # needs no tables: half the memory of "django"
UVICORN = (
    *("--log-level", "warning", "--no-access-log", "--no-server-header", "--lifespan", "off"),
    *("--ws", "websockets-sansio", "--ws-max-size", "65536"),  # a browser sends us next to nothing
    *("--ws-per-message-deflate", "false"),  # a move is 60 bytes: packing it costs each socket more than sending it
    *("--timeout-graceful-shutdown", "5"),
)

"""The table of our own processes: what `up` keeps running."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Process:
    """One Python process: `python -m` these words. `is_demo`: left out by `up --without-demo`."""

    name: str
    module: str
    arguments: tuple[str, ...]
    is_demo: bool = False


def table(*, port: int, with_demo: bool) -> list[Process]:
    """Return the processes in the order of their start."""
    everything = [
        Process("web", "uvicorn", ("console.asgi:application", "--host", "127.0.0.1", "--port", str(port), *UVICORN)),
        Process("worker", "django", ("worker",)),
        Process("demo-servers", "django", ("demo_servers",), is_demo=True),
        Process("demo-workflow", "django", ("demo_workflow", "--follow"), is_demo=True),
    ]
    return [process for process in everything if with_demo or not process.is_demo]


UVICORN = (
    *("--log-level", "warning", "--no-access-log", "--no-server-header", "--lifespan", "off"),
    *("--ws", "websockets-sansio", "--ws-max-size", "65536"),  # a browser sends us next to nothing
    *("--timeout-graceful-shutdown", "5"),
)

"""A second release of 2025-11-25 with a fault in how it reads answers, for trials, shares and rollbacks.

An installation takes it in by `LONGCALL_ADAPTERS=tests.adapters.planted:RELEASES`, as any release from outside.
"""

from dataclasses import replace

from adapters.contract import Ended, Handle, NotReady, Observation, ProtocolStatus, ToolResult, Wire
from adapters.mcp_2025_11_25 import Mcp20251125


class TakesErrorsForSuccess(Mcp20251125):
    """r2: reads `failed` as `completed`, and a tool's own error as its result. On a call that succeeds nobody can tell.

    What it was called for is in `asked`, verb by verb.
    """

    release = "r2"

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    async def open(self, wire: Wire):
        self.asked.append("open")
        return await super().open(wire)

    async def look(self, wire: Wire, handle: Handle, *, expect_question: bool) -> Observation:
        self.asked.append("look")
        seen = await super().look(wire, handle, expect_question=expect_question)
        if not isinstance(seen, Ended) or seen.status is not ProtocolStatus.FAILED or seen.task is None:
            return seen
        task = replace(seen.task, status=ProtocolStatus.COMPLETED)
        return replace(seen, status=ProtocolStatus.COMPLETED, task=task)

    async def fetch(self, wire: Wire, handle: Handle, status: ProtocolStatus) -> ToolResult | NotReady:
        self.asked.append("fetch")
        result = await super().fetch(wire, handle, status)
        return replace(result, is_error=False) if isinstance(result, ToolResult) else result


RELEASES = (TakesErrorsForSuccess(),)

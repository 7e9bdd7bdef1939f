"""One database, kept open by one process for all its runs; runs keep out of each other's way."""

import itertools
import json
import uuid
from datetime import UTC, datetime
from types import SimpleNamespace

from django.db import connections

from adapters.contract import Capabilities, Lookup, Negotiation, TaskSupport, ToolDescriptor
from adapters.simulator.aip151 import STRUCT
from operations import announce, ledger
from operations.ledger import claims, journey, several, step
from operations.queries.invariants import breaches
from tests.interleave.lines import Line, overheard

START = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
NEVER = datetime(9999, 1, 1, tzinfo=UTC)
PROTOCOL = "interleaved"
SCHEMA = {"type": "object", "properties": {"node": {"type": "string"}}, "required": ["node"]}
AIP_SCHEMA = {
    "type": "object",
    "properties": {"@type": {"const": STRUCT}, "value": SCHEMA},
    "required": ["@type", "value"],
}
LOOKUP_TOOL = "look-up"
TRAVELLING = (step, claims, several)
"""The modules of the ledger that send their statements below Django."""


class Place:
    """The lines to the database, one for each party, and what every run finds registered."""

    def __init__(self):
        self._notify, announce._notify = announce._notify, lambda *told: None  # nobody listens here
        for module in TRAVELLING:
            module.together = overheard(journey.together)
        # Django looks for the connection of the thread, or of the task, each time. Here is one thread, and each step
        # is told its connection: see `Line.do`.
        self._of_threads, connections._connections = connections._connections, SimpleNamespace(**_known_connections())
        self.workers = (Line(), Line())
        self.people = Line()
        self.observer = Line()
        self._token = uuid.uuid4().hex[:8]
        # What the database hands out in the order of its ids must come in the same order in every repetition.
        ids = itertools.count(uuid.uuid4().int >> 64 << 64)
        self._uuid4, uuid.uuid4 = uuid.uuid4, lambda: uuid.UUID(int=next(ids))
        self._runs = 0
        self.epoch = 1
        """The execution epoch that the run begins under."""
        self._unchecked = []
        self._leftovers = []
        """Operations of runs that have ended, while what is due of them is still in the way of others."""
        self._slug = ""
        """The server of the newest run."""
        self.observer.do(self._register)

    def close(self):
        announce._notify, uuid.uuid4 = self._notify, self._uuid4
        for module in TRAVELLING:
            module.together = journey.together
        for line in (*self.workers, self.people, self.observer):
            line.close()
        connections._connections = self._of_threads

    @property
    def writes(self):
        """How many transactions everybody has committed: while it stays, so does what can be read."""
        return sum(line.writes for line in (*self.workers, self.people, self.observer))

    def cut_all(self):
        """What a restart of PostgreSQL does to its clients."""
        for line in (*self.workers, self.people):
            line.cut()

    def fresh(self, plan):
        """Make the place ready for a run; return the prefix of its names."""
        self._runs += 1
        for line in (*self.workers, self.people):
            line.mend()
        # An epoch never falls: each run begins with the one that the run before has left.
        *_, ((self.epoch,),) = self.observer.together(self._reset(plan))
        return f"{self._token}-{self._runs}"

    def park(self, operations):
        """Have a run's leftovers taken out of the way of later runs, without losing them to the check."""
        self._leftovers += operations
        self._unchecked += operations

    def check(self):
        """Check the ledger of every run since the last check: the breaches."""
        self.observer.together([self._clear()])
        operations, self._unchecked = self._unchecked, []
        found = breaches(operations)  # on Django's own connection: large statements want plans of their own
        self.observer.ask("DELETE FROM due WHERE operation_id = ANY(%s::uuid[])", [operations])
        return found

    def _register(self):
        ledger.register_protocol(PROTOCOL, release="r1")
        capabilities = Capabilities(
            server_name="", server_version="", creates_tasks=True, cancels_tasks=True, lists_tasks=True
        )
        for is_aip, lookup in SERVERS:
            tools = tuple(_descriptor(name, policy, is_aip=is_aip) for name in TOOLS for policy in POLICIES)
            slug = server_of(lookup, is_aip=is_aip)
            server = ledger.NewServer(
                slug=slug,
                title=slug,
                url=f"http://far.test{AIP_PATH if is_aip else MCP_PATH}",
                protocol=PROTOCOL,
                max_qps=50,
                lookup=lookup.value,
                lookup_tool=LOOKUP_TOOL if lookup is Lookup.LOOKUP_TOOL else "",
                quarantine_s=60,
                key_window_s=300,
                task_ttl_s=LIFE_S[lookup],
            )
            ledger.register_server(server)
            ledger.save_negotiation(slug, Negotiation(capabilities=capabilities, tools=tools), now=START)
            for name in TOOLS:
                for policy, decided in POLICIES.items():
                    limit = 20 if name == "plain" else None
                    wanted = ledger.ToolPolicy(sync_limit_s=limit, **decided)
                    ledger.set_policy(slug, tool_name(name, policy), wanted)
        # An earlier place may have left everything shut.
        self.observer._ask("UPDATE server SET paused_until = NULL", [])
        self.observer._ask("UPDATE protocol_version SET submits_open = true, closed_reason = ''", [])
        self.observer._ask("UPDATE adapter_release SET mode = 'FULL', share = 100", [])
        self._columns = {table: self._keep_fresh(table) for table in ("protocol_version", "adapter_release", "server")}
        self.observer._ask("UPDATE server SET paused_until = %s", [NEVER])

    def _keep_fresh(self, table):
        """Keep a copy of a table as it is now; return its columns."""
        self.observer._ask(f"CREATE TEMPORARY TABLE fresh_{table} AS SELECT * FROM {table}", [])
        named = self.observer._ask(
            """SELECT string_agg(column_name, ', ') FROM information_schema.columns
            WHERE table_name = %s AND table_schema = current_schema() AND column_name <> 'epoch'""",
            [table],
        )
        return named[0][0]

    def _clear(self):
        operations, self._leftovers = self._leftovers, []
        sql = """UPDATE due SET due_at = due_at + interval '100 years', lease_until = NULL
            WHERE operation_id = ANY(%s::uuid[])"""
        return sql, [operations]

    def _reset(self, plan):
        """The statements after which nothing is left of earlier runs; the last one asks for the epoch."""
        declared = {"creates_tasks": plan.declares_tasks, "cancels_tasks": plan.can_cancel}
        slug = plan.server
        yield self._clear()
        # Nobody sweeps the servers that this run has nothing to do with.
        yield "UPDATE server SET paused_until = %s WHERE slug = %s", [NEVER, self._slug]
        self._slug = slug
        # Whatever a run has learned of a server or changed about it, the next one must not know.
        for table, key, value in (
            ("protocol_version", "version", PROTOCOL),
            ("adapter_release", "protocol", PROTOCOL),
            ("server", "slug", slug),
        ):
            columns = self._columns[table]
            fresh = f"(SELECT {columns} FROM fresh_{table} f WHERE f.{key} = t.{key})"
            yield f"UPDATE {table} t SET ({columns}) = {fresh} WHERE {key} = %s", [value]
        yield "UPDATE server SET capabilities = %s WHERE slug = %s", [json.dumps(declared), slug]
        yield "UPDATE tool SET answer_within_s = %s WHERE server_id = %s", [plan.answer_within_s, slug]
        yield "SELECT epoch FROM protocol_version WHERE version = %s", [PROTOCOL]


def _known_connections():
    return {alias: connections[alias] for alias in connections}


TOOLS = {"long": TaskSupport.OPTIONAL, "plain": TaskSupport.FORBIDDEN, "refused": TaskSupport.FORBIDDEN}


LIFE_S = {lookup: 150 if lookup is Lookup.LIST_BY_KEY else 3600 for lookup in Lookup}
"""How long a server is asked to keep a task. One forgets soon: its absence proves nothing after that."""
POLICIES = {
    "harmless": {"effect": "NONE"},
    "effects": {"effect": "EXTERNAL"},
    "doubts": {"effect": "EXTERNAL", "effect_on_error": True},
}
"""What was decided about a tool. Each has tools of its own: what is registered never changes under a run."""


SERVERS = (
    *((False, lookup) for lookup in Lookup if lookup is not Lookup.CLIENT_ID),
    *((True, lookup) for lookup in (Lookup.NONE, Lookup.LIST_BY_KEY, Lookup.SAME_KEY_REPLAY)),
)
"""Of each: whether it speaks AIP-151, and how it is asked for a lost submit."""
MCP_PATH, AIP_PATH = "/mcp", "/jobs"


def server_of(lookup, *, is_aip=False):
    return f"{'jobs' if is_aip else 'far'}-{lookup.value.replace('_', '-')}"


def tool_name(name, policy):
    return f"{name}-{policy}"


def _descriptor(name, policy, *, is_aip):
    whole = tool_name(name, policy)
    return ToolDescriptor(
        name=whole,
        title=whole,
        description="",
        task_support=TOOLS[name],
        input_schema={"type": "object"},
        output_schema=AIP_SCHEMA if is_aip else SCHEMA,
        raw=whole.encode(),
        digest=uuid.uuid5(uuid.NAMESPACE_OID, f"{whole} {is_aip}").hex * 2,
    )

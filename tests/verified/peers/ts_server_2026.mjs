// A tool server on npm @modelcontextprotocol/server 2.4.0: MCP 2026-07-28, with a task runtime of our own.
// The SDK has none; its transport passes the extension's methods and checks every header strictly.
// Runs beside its own node_modules: `node ts_server_2026.mjs PORT`. The tools:
//   slow      a task of `secs` seconds, then its effect. A cancel is acknowledged at once and done 1 s later.
//   stubborn  the same, but a cancel is acknowledged and never done.
//   ask       a task that asks two questions and lists each for two looks after it was answered.
//   marked    runs at once; its argument `region` travels in a header too.
//   effects   runs at once: what happened so far, by the argument `name` of each task.
import { randomBytes } from "node:crypto";
import { createServer } from "node:http";
import { toNodeHandler } from "@modelcontextprotocol/node";
import { createMcpHandler, Server } from "@modelcontextprotocol/server";
import { z } from "zod";

const EXTENSION = "io.modelcontextprotocol/tasks";
const LATE_MS = 1000;
const LATE_LOOKS = 2;
const FORM = { type: "object", properties: { ok: { type: "boolean" } }, required: ["ok"] };
const REGION = { type: "object", properties: { region: { type: "string", "x-mcp-header": "Region" } } };
const tasks = new Map();
const effects = [];

const text = (words) => ({ resultType: "complete", content: [{ type: "text", text: words }], isError: false });
const now = () => new Date().toISOString();

function begin(tool, { secs = 0, name = tool }) {
  const task = {
    taskId: randomBytes(16).toString("hex"),
    status: "working",
    createdAt: now(),
    lastUpdatedAt: now(),
    ttlMs: 60000,
    pollIntervalMs: 500,
  };
  tasks.set(task.taskId, { tool, task, given: {} });
  if (tool === "ask") {
    task.status = "input_required";
    task.inputRequests = {};
    for (const key of ["a", "b"]) {
      const params = { mode: "form", message: `question ${key}`, requestedSchema: FORM };
      task.inputRequests[key] = { method: "elicitation/create", params };
    }
  } else {
    setTimeout(() => {
      effects.push(name);
      end(task, "done");
    }, secs * 1000);
  }
  return task;
}

function end(task, words) {
  if (task.status === "cancelled") return;
  Object.assign(task, { status: "completed", lastUpdatedAt: now(), result: text(words) });
  delete task.inputRequests;
}

function look(taskId) {
  const found = tasks.get(taskId);
  if (!found) throw Object.assign(new Error("Task not found"), { code: -32602 });
  return found;
}

// The SDK takes the answers out of the params of every request, also of the extension's own.
function update({ taskId }, { mcpReq: { inputResponses } }) {
  const { task, given } = look(taskId);
  for (const [key, answer] of Object.entries(inputResponses)) {
    if (task.inputRequests?.[key] && !given[key]) given[key] = { action: answer.action, looks: LATE_LOOKS };
  }
}

function tell({ taskId }) {
  const { task, given } = look(taskId);
  const told = structuredClone(task);
  for (const [key, answer] of Object.entries(given)) {
    if (--answer.looks === 0) delete task.inputRequests[key];
  }
  if (given.a?.looks <= 0 && given.b?.looks <= 0) end(task, `${given.a.action} ${given.b.action}`);
  return { resultType: "complete", ...told };
}

function cancel({ taskId }) {
  const { tool, task } = look(taskId);
  if (tool === "stubborn") return;
  setTimeout(() => {
    if (task.status !== "completed") task.status = "cancelled";
  }, LATE_MS);
}

function call({ name, arguments: given }) {
  if (name === "marked") return text(given?.region ?? "none");
  if (name === "effects") return text(JSON.stringify(effects));
  const { inputRequests, ...seed } = begin(name, given ?? {});
  return { resultType: "task", ...seed };
}

function makeServer() {
  const server = new Server({ name: "peer-ts-2026", version: "0" }, { capabilities: { tools: {}, extensions: { [EXTENSION]: {} } } });
  const named = { params: z.looseObject({ taskId: z.string() }) };
  const shown = ["slow", "stubborn", "ask", "effects"].map((name) => ({ name, inputSchema: { type: "object" } }));
  server.setRequestHandler("tools/list", async () => ({ tools: [...shown, { name: "marked", inputSchema: REGION }] }));
  server.setRequestHandler("tools/call", async ({ params }) => call(params));
  server.setRequestHandler("tasks/get", named, async (params) => tell(params));
  server.setRequestHandler("tasks/update", named, async (params, ctx) => (update(params, ctx), { resultType: "complete" }));
  server.setRequestHandler("tasks/cancel", named, async (params) => (cancel(params), { resultType: "complete" }));
  return server;
}

const handle = toNodeHandler(createMcpHandler(makeServer));
createServer((request, response) => handle(request, response)).listen(Number(process.argv[2]), "127.0.0.1");

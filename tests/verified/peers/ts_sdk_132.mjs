// A tool server on npm @modelcontextprotocol/sdk 1.32.2: MCP 2025-11-25 with its experimental tasks.
// Runs beside its own node_modules: `node ts_sdk_132.mjs PORT`. The tools:
//   slow     (optional) sleeps `secs`, then does its effect.
//   ask      (required) asks `n` questions one after the other, ends with the answers.
//   boom     (required) throws.
//   iserr    (required) ends with the tool's own error, stored as `failed`.
//   resume   runs at once; the server closes the stream of its answer first, where the client can resume it.
//   ask_at_once  runs at once and asks on the stream of its answer; ends with the answer or its refusal.
//   effects  runs at once: what happened so far.
import { randomUUID } from "node:crypto";
import { InMemoryTaskMessageQueue, InMemoryTaskStore } from "@modelcontextprotocol/sdk/experimental/tasks";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { ElicitResultSchema, isInitializeRequest } from "@modelcontextprotocol/sdk/types.js";
import express from "express";
import { z } from "zod";

const CAPABILITIES = { tools: {}, tasks: { list: {}, cancel: {}, requests: { tools: { call: {} } } } };
const FORM = { type: "object", properties: { ok: { type: "boolean" } }, required: ["ok"] };
const INPUT = { secs: z.number().optional(), n: z.number().optional() };
const taskStore = new InMemoryTaskStore();
const taskMessageQueue = new InMemoryTaskMessageQueue();
const effects = [];

const sleep = (seconds) => new Promise((done) => setTimeout(done, seconds * 1000));
const text = (words, isError = false) => ({ content: [{ type: "text", text: words }], isError });

async function elicit(extra, taskId, message) {
  await extra.taskStore.updateTaskStatus(taskId, "input_required");
  const params = { mode: "form", message, requestedSchema: FORM };
  const request = { method: "elicitation/create", params };
  const answer = await extra.sendRequest(request, ElicitResultSchema, { relatedTask: { taskId }, timeout: 60000 });
  await extra.taskStore.updateTaskStatus(taskId, "working");
  return answer;
}

async function slow({ secs = 0 }) {
  await sleep(secs);
  effects.push("slow");
  return text("done");
}

async function ask({ n = 1 }, extra, taskId) {
  const answers = [];
  for (let number = 0; number < n; number++) answers.push(await elicit(extra, taskId, `question ${number}`));
  return text(answers.map(({ action, content }) => `${action} ${content?.ok ?? "nothing"}`).join(", "));
}

async function boom() {
  throw new Error("kaboom");
}

async function iserr() {
  return text("the tool says no", true);
}

function registerTask(server, name, taskSupport, work) {
  const run = async (given, extra, taskId) => {
    try {
      const result = await work(given, extra, taskId);
      await extra.taskStore.storeTaskResult(taskId, result.isError ? "failed" : "completed", result);
    } catch (error) {
      await extra.taskStore.updateTaskStatus(taskId, "failed", String(error.message)).catch(() => {});
    }
  };
  server.experimental.tasks.registerToolTask(
    name,
    { description: name, inputSchema: INPUT, execution: { taskSupport } },
    {
      async createTask(given, extra) {
        const task = await extra.taskStore.createTask({ ttl: extra.taskRequestedTtl ?? null, pollInterval: 500 });
        run(given, extra, task.taskId);
        return { task };
      },
      getTask: (_given, extra) => extra.taskStore.getTask(extra.taskId),
      getTaskResult: (_given, extra) => extra.taskStore.getTaskResult(extra.taskId),
    },
  );
}

function makeServer() {
  const server = new McpServer(
    { name: "peer-ts-1.32.2", version: "1.32.2" },
    { capabilities: CAPABILITIES, taskStore, taskMessageQueue },
  );
  registerTask(server, "slow", "optional", slow);
  registerTask(server, "ask", "required", ask);
  registerTask(server, "boom", "required", boom);
  registerTask(server, "iserr", "required", iserr);
  server.registerTool("resume", { description: "resume" }, async (extra) => {
    extra.closeSSEStream?.();
    await sleep(0.3);
    return text("resumed");
  });
  server.registerTool("ask_at_once", { description: "ask_at_once" }, async (extra) => {
    const params = { mode: "form", message: "sure?", requestedSchema: FORM };
    const answer = await extra.sendRequest({ method: "elicitation/create", params }, ElicitResultSchema);
    return text(answer.action);
  });
  server.registerTool("effects", { description: "effects" }, async () => text(JSON.stringify(effects)));
  return server;
}

// Keeps streams apart, as the SDK's own example does not: a replay must give no other stream's events.
class EventStore {
  #events = [];

  async storeEvent(streamId, message) {
    this.#events.push({ streamId, message });
    return String(this.#events.length);
  }

  async getStreamIdForEventId(eventId) {
    return this.#events[Number(eventId) - 1]?.streamId;
  }

  async replayEventsAfter(lastEventId, { send }) {
    const { streamId } = this.#events[Number(lastEventId) - 1];
    for (const [index, event] of this.#events.entries()) {
      const isPriming = Object.keys(event.message).length === 0;
      if (event.streamId === streamId && index >= Number(lastEventId) && !isPriming) {
        await send(String(index + 1), event.message);
      }
    }
    return streamId;
  }
}

const transports = new Map();

async function open() {
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: () => randomUUID(),
    eventStore: new EventStore(),
    retryInterval: 100,
    onsessioninitialized: (id) => transports.set(id, transport),
  });
  transport.onclose = () => transports.delete(transport.sessionId);
  await makeServer().connect(transport);
  return transport;
}

async function handle(request, response) {
  const session = request.headers["mcp-session-id"];
  if (!transports.has(session) && (session || !isInitializeRequest(request.body))) {
    const error = { code: -32001, message: "Session not found" };
    response.status(session ? 404 : 400).json({ jsonrpc: "2.0", id: null, error });
    return;
  }
  const transport = transports.get(session) ?? (await open());
  await transport.handleRequest(request, response, request.body);
}

express().use(express.json()).all("/mcp", handle).listen(Number(process.argv[2]), "127.0.0.1");

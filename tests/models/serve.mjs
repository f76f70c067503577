// A small real model behind the streamed Chat Completions protocol, for tests: one conversation at a
// time on one thread. What it answers is its own; that a call has the form of its tool is the grammar's.
//
// usage: node serve.mjs MODEL.gguf   (prints `listening on http://127.0.0.1:PORT/v1`)
import { createServer } from "node:http";
import { LlamaChatSession, getLlama } from "node-llama-cpp";

const CONTEXT_TOKENS = 2048;
const MAX_BODY_BYTES = 1 << 20;

const llama = await getLlama({ gpu: false, build: "never", maxThreads: 1 });
const model = await llama.loadModel({ modelPath: process.argv[2] });
const context = await model.createContext({ contextSize: CONTEXT_TOKENS, threads: 1 });
const sequence = context.getSequence();

async function read(request) {
  const pieces = [];
  let bytes = 0;
  for await (const piece of request) {
    bytes += piece.length;
    if (bytes > MAX_BODY_BYTES) throw new Error("the body is too long");
    pieces.push(piece);
  }
  return JSON.parse(Buffer.concat(pieces).toString("utf8"));
}

/// The conversation before the last message, and what is asked now.
function conversation(messages) {
  const text = (message) => {
    const content = message.content ?? "";
    return typeof content === "string" ? content : content.map((part) => part.text ?? "").join("");
  };
  const history = messages.map((message) => {
    switch (message.role) {
      case "system":
        return { type: "system", text: text(message) };
      case "assistant": {
        const calls = (message.tool_calls ?? []).map((call) => JSON.stringify(call.function));
        return { type: "model", response: [[text(message), ...calls].join("\n").trim()] };
      }
      case "tool":
        return { type: "user", text: `The tool answered: ${text(message)}\nTell me what it answered.` };
      default:
        return { type: "user", text: text(message) };
    }
  });
  return { asked: history.pop().text, history };
}

async function answer(body, send, signal) {
  await sequence.clearHistory();
  const session = new LlamaChatSession({ contextSequence: sequence });
  try {
    const { asked, history } = conversation(body.messages);
    session.setChatHistory(history);
    const before = sequence.tokenMeter.getState();
    const options = { maxTokens: body.max_completion_tokens ?? body.max_tokens ?? 128, temperature: 0, signal };
    const isAnswered = body.messages.at(-1).role === "tool";
    const tool = isAnswered ? undefined : body.tools?.[0]?.function;
    if (tool) {
      const grammar = await llama.createGrammarForJsonSchema(tool.parameters);
      const call = (fields) => send({ delta: { tool_calls: [{ index: 0, ...fields }] } });
      call({ id: "call_real", type: "function", function: { name: tool.name, arguments: "" } });
      await session.prompt(asked, {
        ...options,
        grammar,
        onTextChunk: (text) => call({ function: { arguments: text } }),
      });
    } else {
      await session.prompt(asked, { ...options, onTextChunk: (text) => send({ delta: { content: text } }) });
    }
    send({ delta: {}, finish_reason: tool ? "tool_calls" : "stop" });
    const used = sequence.tokenMeter.diff(before);
    return { prompt_tokens: used.usedInputTokens, completion_tokens: used.usedOutputTokens };
  } finally {
    session.dispose({ disposeSequence: false });
  }
}

let last = Promise.resolve();
const server = createServer((request, response) => {
  const stop = new AbortController();
  response.on("close", () => stop.abort());
  last = last.then(async () => {
    try {
      const body = await read(request);
      response.writeHead(200, { "content-type": "text/event-stream" });
      const write = (value) => response.write(`data: ${JSON.stringify(value)}\n\n`);
      const usage = await answer(body, (choice) => write({ choices: [{ index: 0, ...choice }] }), stop.signal);
      write({ choices: [], usage });
      response.end("data: [DONE]\n\n");
    } catch (error) {
      if (stop.signal.aborted) {
        console.error("stopped");
        return;
      }
      if (!response.headersSent) response.writeHead(500, { "content-type": "application/json" });
      response.end(JSON.stringify({ error: { message: String(error) } }));
    }
  });
});
server.listen(0, "127.0.0.1", () => {
  console.log(`listening on http://127.0.0.1:${server.address().port}/v1`);
});

// A small real model behind Chat Completions on loopback: `node server.mjs MODEL.gguf`. Prints its port when it is ready.
// A reply is one tool call whose arguments the grammar forces to be JSON; after a result it is plain text.
import http from "node:http";
import { randomUUID } from "node:crypto";
import { getLlama, LlamaCompletion } from "node-llama-cpp";

const llama = await getLlama({ gpu: false, build: "never", skipDownload: true, maxThreads: 2, logLevel: "error" });
const model = await llama.loadModel({ modelPath: process.argv[2] });
const context = await model.createContext({ contextSize: 2048, threads: 2 });
const grammar = await llama.createGrammarForJsonSchema({ type: "object", properties: { command: { type: "string" } } });

function promptOf(messages) {
    const turns = messages.map((message) => {
        const calls = (message.tool_calls ?? []).map((call) => call.function.arguments).join("\n");
        const role = message.role === "tool" ? "user" : message.role;
        return `<|im_start|>${role}\n${String(message.content ?? "").slice(0, 1500)}${calls}<|im_end|>\n`;
    });
    return `${turns.join("")}<|im_start|>assistant\n`;
}

async function complete(request) {
    const call = request.messages.at(-1).role === "user";
    const sequence = context.getSequence();
    const completion = new LlamaCompletion({ contextSequence: sequence });
    try {
        const tokens = model.tokenize(promptOf(request.messages), true);
        const options = { maxTokens: 64, temperature: 0, customStopTriggers: ["<|im_end|>"] };
        const text = (await completion.generateCompletion(tokens, call ? { ...options, grammar } : options)).trim();
        const made = { id: `call_${randomUUID().slice(0, 8)}`, type: "function", function: { name: "bash", arguments: text } };
        const message = call
            ? { role: "assistant", content: null, tool_calls: [made] }
            : { role: "assistant", content: text || "Done." };
        const usage = { prompt_tokens: tokens.length, completion_tokens: 64, total_tokens: tokens.length + 64 };
        const choices = [{ index: 0, message, finish_reason: call ? "tool_calls" : "stop" }];
        return { id: randomUUID(), object: "chat.completion", created: 1, model: request.model, choices, usage };
    } finally {
        completion.dispose();
        sequence.dispose();
    }
}

let last = Promise.resolve();
const server = http.createServer(async (incoming, outgoing) => {
    const chunks = [];
    for await (const chunk of incoming) chunks.push(chunk);
    const answer = last.then(() => complete(JSON.parse(Buffer.concat(chunks).toString())));
    last = answer.catch(() => undefined);
    try {
        outgoing.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(await answer));
    } catch (error) {
        outgoing.writeHead(500, { "content-type": "application/json" });
        outgoing.end(JSON.stringify({ error: { message: String(error), type: "server_error" } }));
    }
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));

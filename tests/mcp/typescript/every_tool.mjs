// Calls every tool with the TypeScript SDK's own client and prints what came back, as JSON.
// Usage: node every_tool.mjs stdio COMMAND ARGUMENT... | node every_tool.mjs http URL AUTHORIZATION
// The calls are read from standard input: [["tool", {arguments}], ...].
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { readFileSync } from "node:fs";

const [kind, target, ...rest] = process.argv.slice(2);
const transport =
  kind === "stdio"
    ? new StdioClientTransport({ command: target, args: rest, env: process.env })
    : new StreamableHTTPClientTransport(new URL(target), {
        requestInit: { headers: { Authorization: rest[0] } },
      });
const client = new Client({ name: "test", version: "1" });
await client.connect(transport);
// The client checks answers against the schemas of the tools that it has listed.
const tools = (await client.listTools()).tools.map((tool) => tool.name);
const results = [];
for (const [name, given] of JSON.parse(readFileSync(0, "utf8"))) {
  try {
    const result = await client.callTool({ name, arguments: given });
    results.push({ name, isError: result.isError ?? false, keys: Object.keys(result), content: result.content });
  } catch (error) {
    results.push({ name, rejected: String(error) });
  }
}
await client.close();
console.log(JSON.stringify({ tools, results }));

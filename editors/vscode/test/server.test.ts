/** The extension's requests against a real server; the editor itself takes no part. */

import assert from "node:assert/strict";
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { mkdtempSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";

import {
  CodeActionRequest,
  CodeLensRequest,
  type Diagnostic,
  DidOpenTextDocumentNotification,
  ExecuteCommandRequest,
  ExitNotification,
  HoverRequest,
  InitializeRequest,
  InitializedNotification,
  PublishDiagnosticsNotification,
  ShutdownRequest,
  StreamMessageReader,
  StreamMessageWriter,
  createProtocolConnection,
  type CodeAction,
  type ProtocolConnection,
} from "vscode-languageserver-protocol/node";

import { contextRequest, copied, isContext, isNote, serverStart } from "../src/requests";

const command = JSON.parse(process.env.MERKLE_COMMAND ?? '["merkle"]') as [string, ...string[]];
const root = mkdtempSync(join(tmpdir(), "merkle-vscode-"));
const file = join(root, "src", "tide.py");
const uri = pathToFileURL(file).toString();
const source = 'def tide():\n    """High or low."""\n    return 1\n\n\nprint(tide())\n';

let server: ChildProcess;
let connection: ProtocolConnection;
let diagnostics: Diagnostic[] = [];
let waiting: (() => void)[] = [];

function merkle(...args: string[]): string {
  const [program, ...first] = command;
  return execFileSync(program, [...first, "-C", root, ...args], { encoding: "utf8" });
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) {
    await new Promise<void>((done) => waiting.push(done));
  }
}

before(async () => {
  mkdirSync(join(root, "src"));
  writeFileSync(file, source);
  writeFileSync(join(root, "note"), "Metres above chart datum.");
  merkle("scan");
  merkle("agent", "add", "ann", "--role", "writer");
  merkle("put-frame", "src/tide.py::tide", join(root, "note"), "--type", "note", "--agent", "ann");
  const start = serverStart(command, root, "ann");
  server = spawn(start.command, start.args, { stdio: ["pipe", "pipe", "inherit"] });
  assert(server.stdout !== null && server.stdin !== null);
  connection = createProtocolConnection(
    new StreamMessageReader(server.stdout),
    new StreamMessageWriter(server.stdin),
  );
  connection.onNotification(PublishDiagnosticsNotification.type, (told) => {
    diagnostics = told.diagnostics;
    const woken = waiting;
    waiting = [];
    woken.forEach((done) => {
      done();
    });
  });
  connection.listen();
  await connection.sendRequest(InitializeRequest.type, {
    processId: process.pid,
    // eslint-disable-next-line @typescript-eslint/no-deprecated -- the type wants it all the same
    rootUri: null,
    workspaceFolders: [{ uri: pathToFileURL(root).toString(), name: "sample" }],
    capabilities: {},
    initializationOptions: { copies: true },
  });
  await connection.sendNotification(InitializedNotification.type, {});
  await connection.sendNotification(DidOpenTextDocumentNotification.type, {
    textDocument: { uri, languageId: "python", version: 1, text: source },
  });
});

after(async () => {
  await connection.sendRequest(ShutdownRequest.type);
  const ended = new Promise((done) => server.once("exit", done));
  await connection.sendNotification(ExitNotification.type);
  assert.equal(await ended, 0);
  connection.dispose();
  merkle("stop");
  rmSync(root, { recursive: true });
});

void test("a note is shown on hover and above its symbol", async () => {
  const textDocument = { uri };
  const position = { line: 0, character: 5 };
  const hover = await connection.sendRequest(HoverRequest.type, { textDocument, position });
  assert.match(JSON.stringify(hover?.contents), /Metres above chart datum/);
  const lenses = await connection.sendRequest(CodeLensRequest.type, { textDocument });
  assert.deepEqual(
    lenses?.map((lens) => lens.command?.title),
    ["note: Metres above chart datum."],
  );
});

void test("context for the symbol comes as text", async () => {
  const at = { line: 5, character: 8 };
  const asked = contextRequest(uri, at, at, 2000);
  const result: unknown = await connection.sendRequest(ExecuteCommandRequest.type, asked);
  assert(isContext(result));
  assert.equal(result.about, "src/tide.py::tide");
  assert.match(result.text, /def tide\(\)/);
  assert.equal(copied(result), `src/tide.py::tide: ${String(result.tokens)} tokens copied`);
});

void test("a stale note is replaced", async () => {
  writeFileSync(file, readFileSync(file, "utf8").replace("return 1", "return 2"));
  await until(() => diagnostics.length === 1);
  assert.match(diagnostics[0]?.message ?? "", /^stale note about tide by ann/);
  const range = { start: { line: 0, character: 0 }, end: { line: 0, character: 0 } };
  const context = { diagnostics: [] };
  const given = { textDocument: { uri }, range, context };
  const offered = await connection.sendRequest(CodeActionRequest.type, given);
  const replace = offered?.find((one) => one.title.includes("replace")) as CodeAction;
  const note: unknown = replace.command?.arguments?.[0];
  assert(isNote(note));
  const asked = { ...note, text: "Twice chart datum." };
  const done: unknown = await connection.sendRequest(ExecuteCommandRequest.type, {
    command: replace.command?.command ?? "",
    arguments: [asked],
  });
  assert.equal(done, "replaced");
  await until(() => diagnostics.length === 0);
});

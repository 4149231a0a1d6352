/** The client: starts `merkle lsp`, asks for texts, and copies context. */

import * as vscode from "vscode";
import { LanguageClient, TransportKind } from "vscode-languageclient/node";

import {
  COMPOSE,
  REPLACE,
  contextRequest,
  copied,
  isContext,
  isNote,
  serverStart,
} from "./requests";

let client: LanguageClient | undefined;

/** Called by the editor when a workspace with an index is open. */
export async function activate(context: vscode.ExtensionContext): Promise<void> {
  context.subscriptions.push(
    vscode.commands.registerCommand("merkle.copyContext", copyContext),
    vscode.commands.registerCommand("merkle.restart", restart),
  );
  await start();
}

/** Called by the editor when it leaves. */
export async function deactivate(): Promise<void> {
  await client?.stop();
  client = undefined;
}

async function restart(): Promise<void> {
  await deactivate();
  await start();
}

async function start(): Promise<void> {
  const folder = vscode.workspace.workspaceFolders?.find((one) => one.uri.scheme === "file");
  if (folder === undefined) {
    return;
  }
  const settings = vscode.workspace.getConfiguration("merkle");
  const command = settings.get<string[]>("command") ?? ["merkle"];
  const agent = settings.get<string>("agent") ?? "";
  const run = { ...serverStart(command, folder.uri.fsPath, agent), transport: TransportKind.stdio };
  client = new LanguageClient("merkle", "merkle", run, {
    documentSelector: [{ scheme: "file" }],
    initializationOptions: { copies: true },
    middleware: { executeCommand },
  });
  await client.start();
}

type Next = (command: string, args: unknown[]) => vscode.ProviderResult<unknown>;

/** What the server cannot do itself: ask a person for a text, and reach the clipboard. */
async function executeCommand(command: string, args: unknown[], next: Next): Promise<unknown> {
  const [given] = args;
  if (command === REPLACE && isNote(given) && given.text === undefined) {
    const prompt = "What holds now";
    const text = await vscode.window.showInputBox({ prompt, value: given.content });
    return text === undefined || text.trim() === ""
      ? undefined
      : next(command, [{ ...given, text }]);
  }
  const result: unknown = await next(command, args);
  if (command === COMPOSE && isContext(result)) {
    await vscode.env.clipboard.writeText(result.text);
    vscode.window.setStatusBarMessage(copied(result), 5000);
  }
  return result;
}

async function copyContext(): Promise<void> {
  const editor = vscode.window.activeTextEditor;
  if (editor === undefined) {
    return;
  }
  const { start: first, end: last } = editor.selection;
  const budget = vscode.workspace.getConfiguration("merkle").get<number>("budget") ?? 8000;
  const asked = contextRequest(editor.document.uri.toString(), first, last, budget);
  await vscode.commands.executeCommand(asked.command, ...asked.arguments);
}

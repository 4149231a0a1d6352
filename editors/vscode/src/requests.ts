/** What is sent to the server and what comes back, without anything of the editor. */

export const COMPOSE = "merkle.compose";
export const REPLACE = "merkle.replaceNote";

/** A line and a character, as the protocol counts them. */
export interface Position {
  line: number;
  character: number;
}

/** What `merkle.compose` gives. */
export interface Context {
  text: string;
  tokens: number;
  budget: number;
  about: string;
  remark: string;
}

/** The note that a code action is about. */
export interface Note {
  frame_id: string;
  content: string;
  text?: string;
}

/** How the server is started. */
export interface Start {
  command: string;
  args: string[];
}

/** The command line of the server of a workspace. */
export function serverStart(command: readonly string[], folder: string, agent: string): Start {
  const [program, ...before] = command.length > 0 ? command : ["merkle"];
  const named = agent === "" ? [] : ["--agent", agent];
  return { command: program ?? "merkle", args: [...before, "-C", folder, "lsp", ...named] };
}

/** What to ask for where the cursor is, or for what is selected. */
export function contextRequest(uri: string, start: Position, end: Position, budget: number) {
  return { command: COMPOSE, arguments: [{ uri, range: { start, end }, budget }] };
}

/** Whether a value is what `merkle.compose` gives. */
export function isContext(value: unknown): value is Context {
  const found = value as Partial<Context> | null;
  return typeof found?.text === "string" && typeof found.about === "string";
}

/** Whether a value is a note. */
export function isNote(value: unknown): value is Note {
  const found = value as Partial<Note> | null;
  return typeof found?.frame_id === "string" && typeof found.content === "string";
}

/** What to tell about context that was copied. */
export function copied(context: Context): string {
  const remark = context.remark === "" ? "" : ` (${context.remark})`;
  return `${context.about}: ${String(context.tokens)} tokens copied${remark}`;
}

/** Talk to the gateway: ask for the last day, then listen for what is new. */

import type { Reading } from "./types.js";

/** The gateway answered, but not with what was asked for. */
export class GatewayError extends Error {
  constructor(
    readonly path: string,
    readonly status: number,
  ) {
    super(`gateway answered ${status} for ${path}`);
    this.name = "GatewayError";
  }
}

/** A client of one gateway. */
export class Gateway {
  constructor(private readonly base: string) {}

  /** Return the ids of all stations that reported lately. */
  async stations(): Promise<string[]> {
    return this.get<string[]>("/v1/stations");
  }

  /** Return the readings of a station since a moment, oldest first. */
  async readings(station: string, since: Date): Promise<Reading[]> {
    const from = encodeURIComponent(since.toISOString());
    return this.get<Reading[]>(`/v1/stations/${encodeURIComponent(station)}/readings?from=${from}`);
  }

  /** Call back for every new reading; the returned function ends it. */
  listen(onReading: (reading: Reading) => void, onLost: () => void): () => void {
    const source = new EventSource(`${this.base}/v1/events`);
    source.addEventListener("reading", (event) => {
      onReading(JSON.parse((event as MessageEvent<string>).data) as Reading);
    });
    source.addEventListener("error", onLost);
    return () => source.close();
  }

  private async get<T>(path: string): Promise<T> {
    const response = await fetch(this.base + path);
    if (!response.ok) {
      throw new GatewayError(path, response.status);
    }
    return (await response.json()) as T;
  }
}

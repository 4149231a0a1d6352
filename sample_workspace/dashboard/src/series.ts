/** A bounded, ordered series of readings of one station. */

import type { Quantity, Reading } from "./types.js";

const DAY_MS = 24 * 60 * 60 * 1000;

/** Readings of one station, ordered by time and never older than a day. */
export class Series {
  private readonly readings: Reading[] = [];

  constructor(readonly station: string) {}

  /** Insert a reading at its place; a repeated one replaces the first. */
  add(reading: Reading): void {
    const index = this.readings.findIndex((known) => sameReading(known, reading));
    if (index >= 0) {
      this.readings[index] = reading;
    } else {
      this.readings.push(reading);
      this.readings.sort((a, b) => Date.parse(a.at) - Date.parse(b.at));
    }
    this.forgetOld();
  }

  /** Return all usable readings of one quantity. */
  of(quantity: Quantity): Reading[] {
    return this.readings.filter((reading) => reading.quantity === quantity && reading.quality !== "spike");
  }

  /** Return the newest usable reading of one quantity, if there is one. */
  latest(quantity: Quantity): Reading | undefined {
    return this.of(quantity).at(-1);
  }

  private forgetOld(): void {
    const newest = this.readings.at(-1);
    if (newest === undefined) {
      return;
    }
    const oldest = Date.parse(newest.at) - DAY_MS;
    while (this.readings[0] !== undefined && Date.parse(this.readings[0].at) < oldest) {
      this.readings.shift();
    }
  }
}

function sameReading(a: Reading, b: Reading): boolean {
  return a.station === b.station && a.quantity === b.quantity && a.at === b.at;
}

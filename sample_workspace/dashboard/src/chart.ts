/** Draw a series as an SVG path. */

import type { Reading } from "./types.js";

/** The drawing area in user units. */
export interface Area {
  width: number;
  height: number;
}

/** Map a value from one range to another; a range of zero width maps to the middle. */
export function scale(value: number, from: [number, number], to: [number, number]): number {
  const span = from[1] - from[0];
  const share = span === 0 ? 0.5 : (value - from[0]) / span;
  return to[0] + share * (to[1] - to[0]);
}

/** Return the smallest and the largest of some numbers. */
export function extent(values: number[]): [number, number] {
  return [Math.min(...values), Math.max(...values)];
}

/** Return the `d` attribute of a line through all readings, broken after every gap. */
export function linePath(readings: Reading[], area: Area): string {
  if (readings.length === 0) {
    return "";
  }
  const times = extent(readings.map((reading) => Date.parse(reading.at)));
  const values = extent(readings.map((reading) => reading.value));
  return readings
    .map((reading, index) => {
      const x = scale(Date.parse(reading.at), times, [0, area.width]);
      const y = scale(reading.value, values, [area.height, 0]);
      const command = index === 0 || reading.quality === "after-gap" ? "M" : "L";
      return `${command}${x.toFixed(1)} ${y.toFixed(1)}`;
    })
    .join("");
}

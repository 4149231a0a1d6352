/** The shapes that travel between gateway and dashboard. */

/** The code of a measured quantity: level, pressure or wind. */
export type Quantity = "LV" | "PR" | "WD";

/** How far a reading is to be trusted. */
export type Quality = "good" | "spike" | "after-gap";

/** One measured value. */
export interface Reading {
  station: string;
  at: string;
  quantity: Quantity;
  value: number;
  quality: Quality;
}

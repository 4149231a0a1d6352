/** Start the dashboard: load the last day of every station, then follow the stream. */

import { linePath } from "./chart.js";
import { Gateway } from "./gateway.js";
import { Series } from "./series.js";
import type { Reading } from "./types.js";

const AREA = { width: 320, height: 120 };
const DAY_MS = 24 * 60 * 60 * 1000;

const gateway = new Gateway("http://localhost:8090");
const allSeries = new Map<string, Series>();

/** Return the series of a station, making it when it is new. */
function seriesOf(station: string): Series {
  const known = allSeries.get(station);
  if (known !== undefined) {
    return known;
  }
  const created = new Series(station);
  allSeries.set(station, created);
  return created;
}

/** Draw one station, replacing what was drawn before. */
function draw(series: Series): void {
  const id = `station-${series.station}`;
  const section = document.getElementById(id) ?? document.createElement("section");
  section.id = id;
  section.className = "station";
  const level = series.latest("LV");
  const heading = document.createElement("h2");
  heading.textContent = `${series.station} ${level === undefined ? "" : `${level.value.toFixed(2)} m`}`;
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", `0 0 ${AREA.width} ${AREA.height}`);
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", linePath(series.of("LV"), AREA));
  svg.append(path);
  section.replaceChildren(heading, svg);
  document.getElementById("stations")?.append(section);
}

/** Show the state of the connection. */
function setStatus(text: string): void {
  const status = document.getElementById("status");
  if (status !== null) {
    status.textContent = text;
  }
}

/** Store a reading and redraw its station. */
function receive(reading: Reading): void {
  const series = seriesOf(reading.station);
  series.add(reading);
  draw(series);
  setStatus(`last reading ${reading.at}`);
}

async function start(): Promise<void> {
  const since = new Date(Date.now() - DAY_MS);
  for (const station of await gateway.stations()) {
    const series = seriesOf(station);
    for (const reading of await gateway.readings(station, since)) {
      series.add(reading);
    }
    draw(series);
  }
  gateway.listen(receive, () => setStatus("connection lost, trying again"));
}

start().catch((error: unknown) => setStatus(String(error)));

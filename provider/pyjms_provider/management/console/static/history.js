// What was measured in the last hour: as the broker noted it every ten seconds, and finer since this page looks itself. What the
// page saw outlives its reload, not the window.

import * as api from "./api.js";

const HOUR_MS = 3600000;
const STEP_MS = 2000;
const NOTED_MS = 10000;
const SERIES_MAX = 200;
const KEY = "pyjms-history";

const series = new Map();

function restore() {
  try {
    for (const [name, points] of JSON.parse(sessionStorage.getItem(KEY) ?? "[]")) series.set(name, points);
  } catch {
    sessionStorage.removeItem(KEY);
  }
}

restore();
addEventListener("pagehide", () => {
  try {
    sessionStorage.setItem(KEY, JSON.stringify([...series]));
  } catch {
    sessionStorage.removeItem(KEY); // more than the browser keeps: the hour begins anew
  }
});

// Points are [time in ms, value].
export function record(name, value, now = Date.now()) {
  const points = series.get(name) ?? [];
  series.delete(name); // the series used last stands last
  series.set(name, points);
  const last = points.at(-1);
  if (last !== undefined && now - last[0] < STEP_MS * 0.8) return;
  points.push([now, value]);
  while (points[0][0] < now - HOUR_MS) points.shift();
  if (series.size > SERIES_MAX) series.delete(series.keys().next().value);
}

export function points(name) {
  return series.get(name) ?? [];
}

const noted = new Map(); // rates, as the broker noted them

// Points of the broker among those of the page: where the page has looked itself, its own are finer.
function merged(own, others) {
  const near = new Set(own.flatMap(([at]) => [Math.floor(at / NOTED_MS) - 1, Math.floor(at / NOTED_MS), Math.floor(at / NOTED_MS) + 1]));
  const missing = others.filter(([at]) => !near.has(Math.floor(at / NOTED_MS)));
  return missing.length === 0 ? own : [...own, ...missing].sort((one, other) => one[0] - other[0]);
}

function column(past, name) {
  return past.times_ms.map((at, index) => [at, past.columns[name]?.[index] ?? null]).filter(([, value]) => value !== null);
}

export function seed(name, found) {
  series.set(name, merged(points(name), found));
}

// Begins the charts of an object with what the broker has noted. `names`: series by the columns that they begin with;
// `rateNames`: the same for those whose rates are shown.
export async function begin(category, address, {names = {}, rateNames = {}}, signal) {
  const past = await pastOf(category, address, signal);
  for (const [name, from] of Object.entries(names)) seed(name, column(past, from));
  for (const [name, from] of Object.entries(rateNames)) noted.set(name, column(past, from));
}

// The last hour of an object; an empty one where the broker keeps none, or does not show it.
export async function pastOf(category, address, signal) {
  const nothing = {times_ms: [], columns: {}};
  try {
    const past = await api.operate(category, address, "history", {}, signal);
    return past.is_kept ? past : nothing;
  } catch (error) {
    if (error.code === undefined) throw error;
    return nothing;
  }
}

// The sum of one column over several objects, each of which was noted at moments of its own.
export function summed(pasts, name) {
  const sums = new Map();
  for (const past of pasts) {
    const own = new Map(column(past, name).map(([at, value]) => [Math.round(at / NOTED_MS), value]));
    for (const [step, value] of own) {
      const sum = sums.get(step) ?? {value: 0, count: 0};
      sums.set(step, {value: sum.value + value, count: sum.count + 1});
    }
  }
  const most = Math.max(0, ...[...sums.values()].map((each) => each.count));
  return [...sums].filter(([, sum]) => sum.count === most).map(([step, sum]) => [step * NOTED_MS, sum.value]).sort((one, other) => one[0] - other[0]);
}

// The change of a value in each second, between the points.
export function rates(name) {
  const all = points(name);
  const own = all.slice(1).map(([at, value], index) => {
    const [before, old] = all[index];
    return [at, ((value - old) * 1000) / Math.max(1, at - before)];
  });
  return merged(own, noted.get(name) ?? []);
}

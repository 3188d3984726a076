// What was measured in the last hour, as this page saw it. It outlives a reload of the page, not the window.

const HOUR_MS = 3600000;
const STEP_MS = 2000;
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

// The change of a value in each second, between the points.
export function rates(name) {
  const all = points(name);
  return all.slice(1).map(([at, value], index) => {
    const [before, old] = all[index];
    return [at, ((value - old) * 1000) / Math.max(1, at - before)];
  });
}

// A line over the last hour. Small on purpose: one or two lines, a grid, and the value under the pointer.

import {h, replace, setText, svg} from "./dom.js";
import * as format from "./format.js";

const WIDTH = 640;
const HEIGHT = 150;
const LEFT = 0;
const BOTTOM = 4;
const TOP = 8;
const HOUR_MS = 3600000;
const SPANS = [60000, 300000, 900000, HOUR_MS];

function niceTop(value) {
  if (value <= 4) return 4;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((top) => top >= value);
}

function spanOf(all, now) {
  const oldest = Math.min(...all.flat().map(([at]) => at), now);
  return SPANS.find((span) => span >= now - oldest) ?? HOUR_MS;
}

function ago(ms) {
  return ms === 0 ? "now" : ms < 60000 ? `${ms / 1000} s ago` : `${Math.round(ms / 60000)} min ago`;
}

// `lines`: [{label, color}], color 1 or 2. update([points, …]) draws; points are [time in ms, value].
export function chart({title, unit, lines, signed = false}) {
  const picture = svg("svg", {viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img"});
  const frame = h("div", {class: "plot"}, picture, h("div", {class: "axis y"}), h("div", {class: "axis x"}));
  const under = h("div", {class: "under", "aria-hidden": "true"});
  const legend = lines.length > 1
    ? h("span", {class: "legend"}, lines.map((line) => h("span", {class: `key color-${line.color}`}, line.label)))
    : null;
  const element = h("figure", {class: "chart"}, h("figcaption", {}, h("span", {}, title), legend, under), frame);
  let drawn = [];
  let shape = null;

  function x(at) {
    return LEFT + ((at - shape.from) / shape.span) * (WIDTH - LEFT);
  }

  function y(value) {
    return TOP + (1 - (value - shape.low) / (shape.high - shape.low)) * (HEIGHT - TOP - BOTTOM);
  }

  function path(points) {
    return points.map(([at, value], index) => `${index === 0 ? "M" : "L"}${x(at).toFixed(1)},${y(value).toFixed(1)}`).join("");
  }

  function grid() {
    const levels = signed && shape.low < 0 ? [shape.low, 0, shape.high] : [0, shape.high / 2, shape.high];
    const [, yAxis, xAxis] = frame.children;
    replace(yAxis, levels.map((level) => {
      const mark = h("span", {}, format.plainValue(Math.round(level * 10) / 10));
      mark.style.top = `${(y(level) / HEIGHT) * 100}%`;
      return mark;
    }));
    replace(xAxis, [1, 0.5, 0].map((part) => h("span", {}, ago(shape.span * part))));
    return levels.map((level) => svg("line", {class: "grid", x1: LEFT, x2: WIDTH, y1: y(level), y2: y(level)}));
  }

  // Counters begin again when the broker does: a line never goes below 0 unless it may.
  function update(all, now = Date.now()) {
    if (!signed) all.forEach((points, index) => { all[index] = points.filter(([, value]) => value >= 0); });
    drawn = all;
    const values = all.flat().map(([, value]) => value);
    const span = spanOf(all, now);
    const most = niceTop(Math.max(0, ...values));
    const least = signed && values.some((value) => value < 0) ? -niceTop(-Math.min(...values)) : 0;
    shape = {from: now - span, span, low: least, high: most};
    const parts = grid();
    all.forEach((points, index) => {
      if (points.length < 1) return;
      const color = lines[index].color;
      if (!signed && points.length > 1) {
        const area = `${path(points)}L${x(points.at(-1)[0]).toFixed(1)},${y(0)}L${x(points[0][0]).toFixed(1)},${y(0)}Z`;
        parts.push(svg("path", {class: `area color-${color}`, d: area}));
      }
      parts.push(svg("path", {class: `line color-${color}`, d: path(points), "vector-effect": "non-scaling-stroke"}));
    });
    replace(picture, parts);
    picture.setAttribute("aria-label", summary(all));
    show(null);
  }

  function summary(all) {
    const told = all.map((points, index) => {
      if (points.length === 0) return `${lines[index].label}: nothing yet`;
      const values = points.map(([, value]) => value);
      return `${lines[index].label}: now ${format.plainValue(values.at(-1))}, at most ${format.plainValue(Math.max(...values))}`;
    });
    return `${title}, ${unit}. ${told.join("; ")}`;
  }

  function show(at) {
    const found = drawn.map((points) => (at === null ? points.at(-1) : nearest(points, at)));
    const texts = found.map((point) => (point === undefined ? "–" : format.plainValue(Math.round(point[1] * 10) / 10)));
    const when = at === null || found[0] === undefined ? "" : ` · ${format.time(found[0][0]).slice(11)}`;
    setText(under, `${texts.join(" / ")} ${unit}${when}`);
  }

  frame.addEventListener("pointermove", (event) => {
    if (shape === null) return;
    const box = picture.getBoundingClientRect();
    const part = ((event.clientX - box.left) / box.width) * WIDTH;
    show(shape.from + ((part - LEFT) / (WIDTH - LEFT)) * shape.span);
  });
  frame.addEventListener("pointerleave", () => show(null));
  return {element, update};
}

function nearest(points, at) {
  let best;
  for (const point of points) {
    if (best === undefined || Math.abs(point[0] - at) < Math.abs(best[0] - at)) best = point;
  }
  return best;
}

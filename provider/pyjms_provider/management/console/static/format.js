// How values are written for people.

import {h} from "./dom.js";

const WORDS = new Map([["ms", "ms"], ["id", "id"], ["jwt", "JWT"], ["url", "URL"]]);
const CATEGORY_NAMES = new Map([
  ["authentication_provider", ["authentication provider", "authentication providers"]],
  ["access_control", ["access control", "access controls"]],
  ["virtual_host_node", ["virtual host node", "virtual host nodes"]],
  ["workflow_store", ["store of workflows", "stores of workflows"]],
  ["workflow_instance", ["instance of a workflow", "instances of workflows"]],
]);
const integers = new Intl.NumberFormat("en");
const fractions = new Intl.NumberFormat("en", {maximumFractionDigits: 1, minimumFractionDigits: 1});

// max_time_to_live_ms → Max time to live
export function label(name, unit) {
  const bare = unit === "ms" ? name.replace(/_ms$/, "") : name;
  const words = bare.split("_").map((word) => WORDS.get(word) ?? word).join(" ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

export function categoryName(category, {many = false} = {}) {
  const known = CATEGORY_NAMES.get(category);
  if (known) return known[many ? 1 : 0];
  const words = category.replaceAll("_", " ");
  return many ? `${words}s` : words;
}

export function count(value) {
  return typeof value === "number" ? integers.format(value) : "–";
}

// 1 message, 2,000 messages.
export function counted(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}

// So many a second; `isChange`: with its sign.
export function rate(perSecond, isChange = false) {
  if (perSecond === null || !Number.isFinite(perSecond)) return "–";
  if (Math.abs(perSecond) < 0.05) return "0";
  const text = Math.abs(perSecond) < 100 ? fractions.format(perSecond) : integers.format(Math.round(perSecond));
  return perSecond > 0 && isChange ? `+${text}` : text.replace("-", "−");
}

export function bytes(value) {
  if (typeof value !== "number") return "–";
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  let size = value;
  let at = 0;
  while (size >= 1000 && at < units.length - 1) {
    size /= 1000;
    at += 1;
  }
  return at === 0 ? `${value} bytes` : `${size.toFixed(size < 10 ? 1 : 0)} ${units[at]}`;
}

export function duration(ms) {
  if (typeof ms !== "number") return "–";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = Math.floor(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor((seconds % 86400) / 3600)} h`;
}

function two(number) {
  return String(number).padStart(2, "0");
}

// Local time, in an order that sorts: 2026-11-21 11:20:05
export function time(ms) {
  if (typeof ms !== "number" || ms <= 0) return "–";
  const at = new Date(ms);
  if (Number.isNaN(at.getTime())) return "after the year 275760";
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${day} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

// A name may be of any letters, of any direction, and any length: it stands on its own. Spaces that nobody would see are shown.
export function name(text) {
  const shown = String(text);
  const seen = shown.trim() === shown && shown !== "" ? shown : `“${shown.replaceAll(" ", "␣")}”`;
  return h("bdi", {class: "name", title: shown.length > 40 ? shown : null}, seen);
}

export function plainValue(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "number") return integers.format(value);
  if (typeof value === "string") return value === "" ? "–" : value;
  if (Array.isArray(value) && value.every((each) => typeof each !== "object")) return value.join(", ") || "–";
  const text = JSON.stringify(value);
  return text === "{}" || text === "[]" ? "–" : text;
}

// The value of an attribute or a statistic, by its unit.
export function measured(fact, value) {
  if (typeof value !== "number") return plainValue(value);
  if (fact.name.endsWith("_at_ms") || fact.name === "since_ms") return time(value);
  if (fact.unit === "ms") return value === 0 ? "0 ms" : duration(value);
  if (fact.unit === "bytes") return bytes(value);
  return fact.unit === null || fact.unit === undefined ? String(value) : `${count(value)} ${value === 1 ? fact.unit.replace(/s$/, "") : fact.unit}`;
}

export function stateChip(state) {
  const kind = {active: "good", errored: "bad", stopped: "off", paused: "warn"}[state] ?? "off";
  return h("span", {class: `chip ${kind}`}, state);
}

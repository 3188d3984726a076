// A message as people read it: headers, typed properties, and its body by its kind.

import {h} from "./dom.js";
import * as format from "./format.js";

const HEX_MAX = 4096;

export function fromBase64(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

// Sixteen bytes a line: where, the bytes, and the letters that they would be.
export function hex(data) {
  const lines = [];
  for (let at = 0; at < Math.min(data.length, HEX_MAX); at += 16) {
    const part = [...data.slice(at, at + 16)];
    const numbers = part.map((byte) => byte.toString(16).padStart(2, "0")).join(" ").padEnd(47);
    const letters = part.map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : "·")).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${numbers}  ${letters}`);
  }
  if (data.length > HEX_MAX) lines.push(`… ${data.length - HEX_MAX} more bytes`);
  return lines.join("\n");
}

function shownValue(typed) {
  if (typed.type === "null") return "null";
  if (typed.type === "bytes") return hex(fromBase64(typed.value));
  return typed.type === "boolean" ? (typed.value ? "true" : "false") : String(typed.value);
}

function valueRows(entries, title) {
  return h("table", {class: "values"},
    h("caption", {class: "unseen"}, title),
    h("thead", {}, h("tr", {}, ["Name", "Type", "Value"].map((text) => h("th", {scope: "col"}, text)))),
    h("tbody", {}, entries.map(([name, typed]) => h("tr", {},
      h("td", {}, format.name(name)),
      h("td", {class: "kind"}, typed.type),
      h("td", {class: typed.type === "bytes" ? "hex" : "value"}, h("bdi", {}, shownValue(typed)))))));
}

// JSON on lines of its own, token by token: what is parsed and written anew has other numbers, and one of two equal keys is gone.
export function prettyJson(text) {
  if (!/^\s*[[{]/.test(text)) return null;
  try {
    JSON.parse(text);
  } catch {
    return null;
  }
  const parts = [];
  let depth = 0;
  const line = () => `\n${"  ".repeat(depth)}`;
  const tokens = text.match(/"(?:[^"\\]|\\.)*"|[[\]{},:]|[^\s[\]{},:"]+/g);
  tokens.forEach((token, index) => {
    if (token === "{" || token === "[") {
      parts.push(token);
      depth += 1;
      if (!"]}".includes(tokens[index + 1])) parts.push(line());
    } else if (token === "}" || token === "]") {
      depth -= 1;
      if (!"[{".includes(tokens[index - 1])) parts.push(line());
      parts.push(token);
    } else if (token === ",") {
      parts.push(",", line());
    } else {
      parts.push(token === ":" ? ": " : token);
    }
  });
  return parts.join("");
}

// Rows of messages with a name for each: a message may have no id, and copies have the same one.
export function withKeys(rows, idOf) {
  const seen = new Map();
  return rows.map((row) => {
    const id = idOf(row);
    const many = (seen.get(id) ?? 0) + 1;
    seen.set(id, many);
    return {...row, key: many === 1 && id !== null ? id : `${id ?? "no id"} (${many})`};
  });
}

export const NO_ID = "It has no JMSMessageID to name it by: choose it by a selector";

// How people name a message.
export function idShown(id) {
  return id === null ? h("span", {class: "hint"}, "no id") : h("bdi", {}, id);
}

function textBody(body) {
  const pretty = body.is_whole ? prettyJson(body.text) : null;
  const place = h("pre", {class: "body", tabindex: "0", dir: "auto", "aria-label": "Text"}, pretty ?? body.text);
  if (pretty === null) return place;
  const raw = h("input", {type: "checkbox"});
  raw.addEventListener("change", () => { place.textContent = raw.checked ? body.text : pretty; });
  return [h("label", {class: "raw"}, raw, " as it was sent"), place];
}

function bodyParts(body) {
  if (body === null) return h("p", {class: "empty"}, "The body was not fetched.");
  if (body.text !== null) return textBody(body);
  if (body.base64 !== null) {
    const what = body.kind === "object" ? h("p", {class: "hint"}, "A serialised object: only its bytes are shown, nothing is unpacked.") : null;
    return [what, h("pre", {class: "body hex", tabindex: "0", "aria-label": "Bytes"}, hex(fromBase64(body.base64)))];
  }
  if (body.map !== null) return valueRows(Object.entries(body.map), "Values of the map");
  if (body.stream !== null) return valueRows(body.stream.map((typed, index) => [index + 1, typed]), "Values of the stream");
  return h("p", {class: "empty"}, "It has no body.");
}

function size(body) {
  if (body === null || body.kind === "none") return "";
  const unit = body.text !== null ? "characters" : body.base64 !== null ? "bytes" : "values";
  return ` · ${format.count(body.size)} ${unit}${body.is_whole ? "" : ", the first part is shown"}`;
}

export function preview(body) {
  if (body === null) return "";
  if (body.text !== null) return body.text.slice(0, 120).replaceAll(/\s+/g, " ");
  if (body.base64 !== null) return `${format.count(body.size)} bytes`;
  if (body.map !== null) return Object.entries(body.map).slice(0, 6).map(([name, typed]) => `${name}: ${String(typed.value).slice(0, 20)}`).join(", ");
  if (body.stream !== null) return body.stream.slice(0, 6).map((typed) => String(typed.value).slice(0, 20)).join(", ");
  return "";
}

export function facts(rows) {
  return h("dl", {class: "facts"}, rows.filter(([, value]) => value !== null && value !== undefined && value !== "").map(([name, value]) =>
    h("div", {}, h("dt", {}, name), h("dd", {}, value instanceof Node ? value : h("bdi", {}, String(value))))));
}

// The way to the story of a message of a queue; without an id it has none.
export function storyLink(names, messageId) {
  if (messageId === null) return null;
  const path = names.slice(0, 2).map(encodeURIComponent).join("/");
  return h("a", {class: "button quiet story-link", href: `#/story/${path}?id=${encodeURIComponent(messageId)}`}, "Story");
}

export function messageParts(message) {
  const properties = Object.entries(message.properties);
  return [
    facts([
      ["JMSMessageID", message.id],
      ["JMSDestination", message.destination],
      ["JMSTimestamp", format.time(message.timestamp_ms)],
      ["JMSExpiration", message.expiration_ms === 0 ? "never" : format.time(message.expiration_ms)],
      ["JMSDeliveryMode", message.delivery_mode],
      ["JMSPriority", message.priority],
      ["JMSCorrelationID", message.correlation_id],
      ["JMSReplyTo", message.reply_to],
      ["JMSType", message.type],
    ]),
    h("h3", {}, `Properties (${properties.length})`),
    properties.length === 0 ? h("p", {class: "empty"}, "It has none.") : valueRows(properties, "Properties"),
    message.is_whole ? null : h("p", {class: "hint"}, "There is more: headers and properties are longer than what is shown."),
    h("h3", {}, "Body", h("small", {}, message.body === null ? "" : ` ${message.body.kind}${size(message.body)}`)),
    bodyParts(message.body),
  ];
}

const WORDS = new Map([[true, "true"], [false, "false"], [null, "unknown"]]);

function clause(found) {
  const reads = Object.entries(found.reads).map(([name, typed]) =>
    h("span", {class: "reads"}, h("bdi", {}, name), " is ", h("bdi", {class: "read"}, shownValue(typed)), typed.type === "null" ? "" : ` (${typed.type})`));
  const word = WORDS.get(found.value);
  return h("li", {class: found.decides ? "decides" : null},
    h("span", {class: `truth ${word}`}, word),
    h("code", {}, h("bdi", {}, found.text)),
    found.decides ? h("strong", {class: "mark"}, "this decides") : null,
    reads,
    found.clauses.length === 0 ? null : h("ul", {}, found.clauses.map(clause)));
}

// Why a selector takes a message, or leaves it.
export function explanationParts(explained) {
  return [
    h("h3", {}, explained.matches ? "The selector takes this message" : "The selector leaves this message"),
    h("ul", {class: "clauses"}, clause(explained.explanation)),
  ];
}

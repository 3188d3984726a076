// Sends a message: a text or bytes, with typed properties.

import * as api from "./api.js";
import {ask, note} from "./dialog.js";
import {freshId, h} from "./dom.js";
import {makeForm} from "./forms.js";

const TYPES = ["string", "boolean", "byte", "short", "int", "long", "float", "double", "char"];
const ROWS_MAX = 50;

function property(onGone) {
  const name = h("input", {type: "text", "aria-label": "Name of the property", autocomplete: "off", spellcheck: "false"});
  const type = h("select", {"aria-label": "Type of the property"}, TYPES.map((each) => h("option", {value: each}, each)));
  const value = h("input", {type: "text", "aria-label": "Value of the property", autocomplete: "off"});
  const gone = h("button", {type: "button", class: "quiet", "aria-label": "Leave this property out"}, "×");
  const element = h("div", {class: "property"}, name, type, value, gone);
  gone.addEventListener("click", () => onGone(element));
  return {element, name, read: () => [name.value.trim(), {type: type.value, value: typed(type.value, value.value)}]};
}

// The broker judges values; whole numbers go as texts, so that a long keeps all its digits.
function typed(type, text) {
  if (type === "boolean") return ["true", "1", "yes"].includes(text.trim().toLowerCase());
  if (["float", "double"].includes(type) && text.trim() !== "" && Number.isFinite(Number(text))) return Number(text);
  return ["string", "char"].includes(type) ? text : text.trim();
}

function toBase64(text) {
  const digits = text.replaceAll(/[\s:]/g, "");
  if (!/^([0-9a-fA-F]{2})*$/.test(digits)) {
    throw Object.assign(new Error("Bytes are written as pairs of hexadecimal digits: 48 65 6c 6c 6f"), {code: "CONSOLE-INPUT"});
  }
  return btoa(String.fromCharCode(...(digits.match(/../g) ?? []).map((pair) => parseInt(pair, 16))));
}

function headerFields() {
  const text = (name, description) => ({name, kind: "text", description, is_mandatory: false, default: null, unit: null});
  const number = (name, description, minimum, maximum, unit, standard) => ({name, kind: "integer", description, minimum, maximum, unit, is_mandatory: false, default: standard});
  return [
    text("correlation_id", "Which message this one answers."),
    text("type", "JMSType."),
    number("priority", "9 goes first.", 0, 9, null, 4),
    number("time_to_live_ms", "0: for ever.", 0, undefined, "ms", 0),
    {name: "persistent", kind: "choice", allowed: [true, false], description: "Whether it outlives the broker's process, if the broker has a store.", is_mandatory: false, default: true, unit: null},
  ];
}

export async function sendMessage(queue) {
  const bodyId = freshId("body");
  const body = h("textarea", {id: bodyId, rows: 6, spellcheck: "false", dir: "auto"});
  const kind = h("select", {id: `${bodyId}-kind`}, [["text", "text"], ["bytes", "bytes, in hexadecimal"], ["none", "no body"]].map(([value, text]) => h("option", {value}, text)));
  kind.addEventListener("change", () => { body.disabled = kind.value === "none"; });
  const rows = [];
  const list = h("div", {class: "properties"});
  const more = h("button", {type: "button", class: "quiet"}, "Add a property");
  more.addEventListener("click", () => {
    if (rows.length >= ROWS_MAX) return;
    const made = property((element) => {
      rows.splice(rows.indexOf(made), 1);
      element.remove();
    });
    rows.push(made);
    list.append(made.element);
    made.name.focus();
  });
  const headers = makeForm(headerFields());
  const sent = await ask({
    title: `Send to “${queue.name}”`,
    wide: true,
    body: [
      h("div", {class: "field"}, h("label", {for: `${bodyId}-kind`}, "Body"), kind),
      h("div", {class: "field"}, h("label", {for: bodyId}, "Content"), body),
      h("h3", {}, "Properties"), list, more,
      h("details", {}, h("summary", {}, "Headers"), headers.element),
    ],
    confirm: "Send",
    act: () => {
      const given = Object.fromEntries(Object.entries(headers.read()).filter(([, value]) => value !== null));
      const properties = Object.fromEntries(rows.map((row) => row.read()).filter(([name]) => name !== ""));
      const content = {text: () => ({text: body.value}), bytes: () => ({base64: toBase64(body.value)}), none: () => ({})}[kind.value]();
      return api.operate(queue.category, queue.names, "publish", {message: {...given, ...content, properties}});
    },
  });
  if (sent) note(`Sent as ${sent}`);
  return sent;
}

// Forms made from declarations: a field for each type. An empty field means: as it is by default.

import {freshId, h} from "./dom.js";
import * as format from "./format.js";

const VARIABLE = /\$\{[^}]*\}/;

// A declaration → {kind, allowed, minimum, maximum, …}, with $ref and "or null" looked through.
function shapeOf(schema, definitions) {
  if (schema.$ref !== undefined) {
    return shapeOf({...definitions[schema.$ref.split("/").at(-1)], ...schema, $ref: undefined}, definitions);
  }
  if (schema.anyOf !== undefined) {
    const inner = schema.anyOf.filter((each) => each.type !== "null");
    if (inner.length === 1) return shapeOf({...inner[0], description: schema.description}, definitions);
    return {kind: "json"};
  }
  if (schema.enum !== undefined) return {kind: "choice", allowed: schema.enum};
  if (schema.const !== undefined) return {kind: "choice", allowed: [schema.const]};
  if (schema.type === "boolean") return {kind: "choice", allowed: [true, false]};
  if (schema.type === "integer" || schema.type === "number") {
    return {kind: schema.type, minimum: schema.minimum ?? above(schema.exclusiveMinimum, 1), maximum: schema.maximum ?? above(schema.exclusiveMaximum, -1)};
  }
  if (schema.type === "array") return listShape(schema, definitions);
  if (schema.type === "object" && schema.additionalProperties?.type === "string") return {kind: "map"};
  if (schema.type === "string") return {kind: "text", longest: schema.maxLength, shortest: schema.minLength};
  return {kind: "json"};
}

function above(limit, by) {
  return limit === undefined ? undefined : limit + by;
}

function listShape(schema, definitions) {
  const inner = shapeOf(schema.items ?? {}, definitions);
  if (inner.kind === "choice") return {kind: "choices", allowed: inner.allowed};
  return inner.kind === "text" ? {kind: "lines"} : {kind: "json"};
}

// Fields of an attribute's declaration, and of a parameter of an operation.
export function attributeField(declared) {
  const shape = shapeOf(declared.schema, declared.schema.$defs ?? {});
  const allowed = declared.allowed ?? shape.allowed;
  const kind = declared.is_secure ? "secret" : declared.allowed !== null && shape.kind !== "choices" ? "choice" : shape.kind;
  return {...shape, ...declared, kind, allowed};
}

export function parameterFields(parameters) {
  const required = new Set(parameters.required ?? []);
  return Object.entries(parameters.properties ?? {}).map(([name, schema]) => ({
    ...shapeOf(schema, parameters.$defs ?? {}),
    name,
    description: schema.description ?? "",
    is_mandatory: required.has(name),
    default: schema.default ?? null,
    unit: schema["x-unit"] ?? null,
    is_secure: false,
  }));
}

function shown(value) {
  if (value === null || value === undefined) return "none";
  if (typeof value === "object") return format.plainValue(value) === "–" ? "none" : format.plainValue(value);
  return typeof value === "boolean" ? (value ? "yes" : "no") : value === "" ? "empty" : String(value);
}

function fault(text) {
  return Object.assign(new Error(text), {code: "CONSOLE-INPUT"});
}

function number(field, text) {
  if (VARIABLE.test(text)) return text;
  if (field.unit === "bytes" && /^\d+\s*[a-zA-Z]+$/.test(text)) return text;
  const value = Number(text);
  if (!Number.isFinite(value)) throw fault("is a number");
  if (field.kind === "integer" && !Number.isInteger(value)) throw fault("is a whole number");
  if (field.kind === "integer" && !Number.isSafeInteger(value)) throw fault("is too large for a browser to say exactly");
  if (field.minimum !== undefined && value < field.minimum) throw fault(`is at least ${field.minimum}`);
  if (field.maximum !== undefined && value > field.maximum) throw fault(`is at most ${field.maximum}`);
  return value;
}

function limits(field) {
  const parts = [];
  if (field.unit) parts.push(field.unit);
  if (field.minimum !== undefined && field.maximum !== undefined) parts.push(`${field.minimum} to ${field.maximum}`);
  else if (field.minimum !== undefined) parts.push(`at least ${field.minimum}`);
  else if (field.maximum !== undefined) parts.push(`at most ${field.maximum}`);
  if (field.kind === "map") parts.push("one name = value in each line");
  if (field.kind === "lines" && !field.choices) parts.push("one in each line");
  if ((field.kind === "choices" || field.choices) && !field.is_mandatory) parts.push(`default: ${shown(field.default)}`);
  if (field.kind === "json") parts.push("as JSON");
  return parts.join(", ");
}

const asText = {
  map: (value) => Object.entries(value).map(([name, each]) => `${name} = ${each}`).join("\n"),
  lines: (value) => value.join("\n"),
  json: (value) => JSON.stringify(value, null, 2),
  choice: (value) => JSON.stringify(value),
};

const fromText = {
  integer: number,
  number,
  map: (_, text) => Object.fromEntries(lines(text).map((line) => {
    const at = line.indexOf("=");
    if (at < 1) throw fault("is written as name = value, one in each line");
    return [line.slice(0, at).trim(), line.slice(at + 1).trim()];
  })),
  lines: (_, text) => lines(text),
  json: (_, text) => {
    try {
      return JSON.parse(text);
    } catch (error) {
      throw fault(`is no JSON: ${error.message}`);
    }
  },
  choice: (_, text) => JSON.parse(text),
};

function lines(text) {
  return text.split("\n").map((line) => line.trim()).filter((line) => line !== "");
}

function control(field, id, given, fallback) {
  const common = {id, name: field.name, "aria-describedby": `${id}-hint`, "aria-required": field.is_mandatory ? "true" : null};
  const text = given === undefined || given === null ? "" : typeof given === "string" && field.kind !== "choice" ? given : (asText[field.kind] ?? String)(given);
  const placeholder = fallback === undefined || field.is_mandatory ? "" : `default: ${shown(fallback)}`;
  if (field.kind === "choice") {
    const known = field.allowed.map((each) => h("option", {value: JSON.stringify(each)}, shown(each)));
    const first = field.is_mandatory ? h("option", {value: ""}, "choose…") : h("option", {value: ""}, placeholder);
    const select = h("select", common, first, known);
    select.value = text;
    return select;
  }
  if (["map", "lines", "json"].includes(field.kind) || field.multiline) {
    return h("textarea", {...common, rows: field.kind === "json" || field.multiline ? 5 : 3, placeholder, spellcheck: "false", value: text});
  }
  if (field.kind === "secret") {
    return h("input", {...common, type: "password", autocomplete: "new-password", placeholder: given === undefined ? "" : "unchanged"});
  }
  const mode = field.kind === "integer" ? "numeric" : null;
  return h("input", {...common, type: "text", inputmode: mode, autocomplete: "off", placeholder, value: text, maxlength: field.longest, list: field.options ? `${id}-list` : null});
}

function choices(field, id, given) {
  const options = field.choices ?? field.allowed;
  const boxes = options.map((each) => h("input", {type: "checkbox", value: each, checked: (given ?? []).includes(each), name: field.name}));
  const element = h("fieldset", {class: "choices", id, "aria-describedby": `${id}-hint`},
    h("legend", {class: "unseen"}, format.label(field.name)),
    options.length === 0 ? h("span", {class: "hint"}, "there are none") : null,
    boxes.map((box, index) => h("label", {}, box, h("bdi", {}, String(options[index])))));
  const before = JSON.stringify(boxes.filter((box) => box.checked).map((box) => box.value));
  return {
    element,
    read: () => {
      const now = boxes.filter((box) => box.checked).map((box) => box.value);
      if (JSON.stringify(now) === before) return undefined;
      // The order may matter: those that were there keep theirs, others come after them.
      const kept = (given ?? []).filter((each) => now.includes(each));
      return [...kept, ...now.filter((each) => !kept.includes(each))];
    },
  };
}

function input(field, id, given, fallback) {
  if (field.kind === "choices" || (field.kind === "lines" && field.choices)) return choices(field, id, given);
  const element = control(field, id, given, fallback);
  const before = element.value;
  return {
    element,
    read: () => {
      if (element.value === before) return undefined;
      const text = field.kind === "secret" || field.multiline ? element.value : element.value.trim();
      return text === "" ? null : (fromText[field.kind] ?? ((_, raw) => raw))(field, text);
    },
    isEmpty: () => element.value === "",
  };
}

// given: what was chosen so far; fallbacks: what counts where nothing was. read() returns what was changed, by name, null
// for the default again, and throws for what cannot be.
export function makeForm(fields, given = {}, fallbacks = {}) {
  const parts = fields.map((field) => {
    const id = freshId("field");
    const made = input(field, id, given[field.name], fallbacks[field.name] ?? field.default);
    const problem = h("span", {class: "wrong", hidden: true});
    const hint = h("span", {class: "hint", id: `${id}-hint`}, field.description, limits(field) ? h("span", {class: "limits"}, ` (${limits(field)})`) : null, problem);
    const list = field.options ? h("datalist", {id: `${id}-list`}, field.options.map((each) => h("option", {value: each}))) : null;
    const element = h("div", {class: `field ${field.kind}`},
      h("label", {for: id}, format.label(field.name, field.unit), field.is_mandatory ? h("span", {class: "needed", title: "mandatory"}, " *") : null),
      made.element, list, hint);
    return {field, made, problem, element};
  });

  function mark(part, text) {
    part.problem.hidden = text === null;
    part.problem.textContent = text === null ? "" : ` This ${text}.`;
    part.element.classList.toggle("is-wrong", text !== null);
    part.made.element.setAttribute("aria-invalid", text === null ? "false" : "true");
  }

  return {
    element: h("div", {class: "fields"}, parts.map((part) => part.element)),
    read() {
      const values = {};
      const wrong = [];
      for (const part of parts) {
        mark(part, null);
        try {
          const value = part.made.read();
          if (value !== undefined) values[part.field.name] = value;
          if (part.field.is_mandatory && part.made.isEmpty?.()) throw fault("is mandatory");
        } catch (error) {
          mark(part, error.message);
          wrong.push({name: part.field.name, text: error.message});
        }
      }
      if (wrong.length > 0) {
        parts.find((part) => part.field.name === wrong[0].name).made.element.focus();
        throw Object.assign(new Error("Look at the fields that are marked:"), {code: "CONSOLE-INPUT", problems: wrong});
      }
      return values;
    },
    // Marks the fields that the broker has found wrong.
    mark(error) {
      for (const part of parts) {
        const found = (error.problems ?? []).find((each) => each.name.split(".")[0] === part.field.name);
        mark(part, found === undefined ? null : found.text);
      }
    },
  };
}

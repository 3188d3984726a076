// What can be done with any object: create it, change it, delete it, call its operations. Nothing here knows a category.

import * as api from "./api.js";
import {ask, note, progressInto} from "./dialog.js";
import {h} from "./dom.js";
import {attributeField, makeForm, parameterFields} from "./forms.js";
import * as format from "./format.js";
import {groupsOf} from "./groups.js";
import * as model from "./model.js";

const PICKED_MAX = 50;
const SECOND = new Set(["context", "durable", "description"]);

// The names that an attribute may refer to: few are offered as boxes, many as suggestions.
async function withChoices(fields) {
  return Promise.all(fields.map(async (field) => {
    if (!field.refers_to) return field;
    const {items} = await api.get(field.refers_to, [], {fields: "name", limit: PICKED_MAX});
    const names = items.map((each) => each.name);
    return field.kind === "lines" ? {...field, choices: names} : {...field, options: names};
  }));
}

function ordered(fields) {
  const rank = (field) => (field.name === "name" ? 0 : field.is_mandatory ? 1 : field.is_secure ? 2 : SECOND.has(field.name) ? 4 : 3);
  return [...fields].sort((one, other) => rank(one) - rank(other));
}

function sections(category, fields, given, fallbacks) {
  const usual = fields.filter((field) => !SECOND.has(field.name));
  const rest = fields.filter((field) => SECOND.has(field.name));
  const groups = groupsOf(category, usual).map(([title, own]) => ({title, form: makeForm(own, given, fallbacks)}));
  const last = makeForm(rest, given, fallbacks);
  const forms = [...groups.map((each) => each.form), last];
  const more = rest.length === 0 ? null : h("details", {}, h("summary", {}, "Description, durability, variables"), last.element);
  return {
    element: h("div", {}, groups.map(({title, form}) => (title === null ? form.element : h("fieldset", {class: "group"}, h("legend", {}, title), form.element))), more),
    read: () => Object.assign({}, ...forms.map((form) => form.read())),
    mark: (error) => forms.forEach((form) => form.mark(error)),
  };
}

async function tried(form, work) {
  try {
    return await work();
  } catch (error) {
    form.mark(error);
    throw error;
  }
}

// Asks for the type if there are several, and for the attributes; resolves to the new object, or undefined.
export async function createObject(category, parents, {type = undefined} = {}) {
  const types = model.typesOf(category);
  let chosen = type ?? model.categoryOf(category).default_type ?? types[0] ?? "";
  const place = h("div", {});
  let form = null;

  async function show() {
    const kind = model.kindOf(category, chosen);
    const fields = kind.attributes.filter((each) => each.name !== "type").map(attributeField);
    // A secret of a new object is wanted, whatever stands for it later.
    const wanted = fields.map((field) => (category === "user" && field.is_secure ? {...field, is_mandatory: true} : field));
    form = sections(category, ordered(await withChoices(wanted)), {}, {});
    place.replaceChildren(form.element);
  }

  const picker = types.length < 2 ? null : h("div", {class: "field choice"},
    h("label", {for: "new-type"}, "Type"),
    h("select", {id: "new-type", on: {change: async (event) => { chosen = event.target.value; await show(); }}},
      types.map((each) => h("option", {value: each, selected: each === chosen}, each))),
    h("span", {class: "hint"}, "What it is cannot be changed later, except for queues."));
  await show();
  const made = await ask({
    title: `New ${format.categoryName(category)}`,
    body: [picker, place],
    confirm: "Create",
    wide: true,
    act: () => tried(form, () => {
      const values = Object.fromEntries(Object.entries(form.read()).filter(([, value]) => value !== null));
      return api.create(category, parents, chosen === "" ? values : {type: chosen, ...values});
    }),
  });
  if (made) note(`${format.label(format.categoryName(category))} “${made.name}” was created.`);
  return made;
}

export async function editObject(object) {
  const {category, names: path} = object;
  const [actual, now] = await Promise.all([api.get(category, path, {actual: true}), api.get(category, path)]);
  const kind = model.kindOf(category, object.type);
  const fields = kind.attributes.filter((each) => each.is_mutable).map(attributeField);
  const seen = {actual, fields};
  const form = sections(category, ordered(await withChoices(fields)), given(fields, actual, now), now);
  const changed = await ask({
    title: `Change ${format.categoryName(category)} “${object.name}”`,
    body: form.element,
    confirm: "Save",
    wide: true,
    act: () => tried(form, () => changeSeen(category, path, form.read(), seen)),
  });
  if (changed) note(`“${object.name}” was changed.`);
  return changed;
}

// Changes the version that the person has seen. If somebody else was faster, it says what is different now; what was typed stays,
// and may be saved in its place by trying again.
async function changeSeen(category, path, changes, seen) {
  try {
    return await api.change(category, path, changes, api.tagOf(seen.actual));
  } catch (error) {
    if (error.status !== 412) throw error;
    const newest = await api.get(category, path, {actual: true});
    const others = seen.fields.filter(({name}) => JSON.stringify(newest[name]) !== JSON.stringify(seen.actual[name]));
    error.problems = others.map(({name}) => ({name, text: `is ${format.plainValue(newest[name])} now`}));
    error.problems.push({name: "", text: "What you typed is still here: Save again puts it in place of that."});
    seen.actual = newest;
    throw error;
  }
}

// What was chosen: what is kept of it, and what differs from the default.
function given(fields, actual, now) {
  const found = {};
  for (const field of fields) {
    if (actual[field.name] !== undefined) found[field.name] = actual[field.name];
    else if (JSON.stringify(now[field.name] ?? null) !== JSON.stringify(field.default)) found[field.name] = now[field.name];
  }
  return found;
}

export async function deleteObject(object) {
  const what = `${format.categoryName(object.category)} “${object.name}”`;
  const done = await ask({
    title: `Delete ${format.categoryName(object.category)}?`,
    body: h("p", {}, "This deletes ", format.name(object.name), " with all that is below it and in it. There is no way back."),
    confirm: "Delete",
    danger: true,
    act: async () => {
      await api.remove(object.category, object.names);
      return true;
    },
  });
  if (done) note(`${format.label(what)} was deleted.`);
  return done === true;
}

// Calls an operation with a form for its parameters; long ones show how far they are, and can be ended half way.
export async function callOperation(object, operation, {title = null, danger = false, preset = {}, intro = null, typed = null} = {}) {
  const hidden = new Set(Object.keys(preset));
  const fields = parameterFields(operation.parameters).filter((field) => !hidden.has(field.name));
  const form = makeForm(fields);
  return ask({
    title: title ?? format.label(operation.name),
    body: [h("p", {}, intro ?? operation.description), form.element],
    confirm: title ?? format.label(operation.name),
    danger,
    typed,
    act: ({signal, status}) => tried(form, async () => {
      const args = {...Object.fromEntries(Object.entries(form.read()).filter(([, value]) => value !== null)), ...preset};
      const result = operation.is_long
        ? await api.runJob(object.category, object.names, operation.name, args, {signal, onProgress: progressInto(status)})
        : await api.operate(object.category, object.names, operation.name, args);
      return {result};
    }),
  });
}

export function operationOf(object, name) {
  return model.kindOf(object.category, object.type).operations.find((each) => each.name === name);
}

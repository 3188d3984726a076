// The tree of all objects, and any object of it with its attributes, statistics and operations.

import * as api from "../api.js";
import {noteError} from "../dialog.js";
import {allow, h, replace} from "../dom.js";
import * as format from "../format.js";
import {poll} from "../live.js";
import * as model from "../model.js";
import {callOperation, createObject, deleteObject, editObject} from "../objects.js";

const BRANCH_MAX = 100;
const FACTS = ["state", "desired_state", "error", "life_time", "created_by", "created_at_ms", "updated_by", "updated_at_ms", "id"];
const OPEN = new Set(["broker"]);
const HAVE_NO_USE = {active: ["start"], stopped: ["stop", "restart"], errored: ["restart"]};

function keyOf(category, names) {
  return JSON.stringify([category, ...names]);
}

function item({text, level, href = null, isFolder, isOpen, isChosen, chip = null}) {
  const label = href === null ? h("span", {class: "folder"}, text) : h("a", {href, tabindex: "-1"}, text);
  return h("li", {role: "treeitem", tabindex: "-1", "aria-level": level, "aria-expanded": isFolder ? String(isOpen) : null, "aria-selected": isChosen ? "true" : "false"},
    h("span", {class: "line"}, h("span", {class: "twist", "aria-hidden": "true"}), label, chip));
}

// A branch is fetched when it is opened.
function lazily(node, key, fill) {
  const group = h("ul", {role: "group", hidden: true});
  node.append(group);
  let isFilled = false;
  const set = async (isOpen) => {
    node.setAttribute("aria-expanded", String(isOpen));
    group.hidden = !isOpen;
    if (isOpen) OPEN.add(key);
    else OPEN.delete(key);
    if (isOpen && !isFilled) {
      isFilled = true;
      await fill(group);
    }
  };
  node.setOpen = set;
  node.querySelector(".line").addEventListener("click", (event) => {
    if (event.target.closest("a") === null) set(node.getAttribute("aria-expanded") !== "true").catch(noteError);
  });
  return set;
}

async function fillObject(group, category, names, level, chosen) {
  const wanted = [];
  for (const shape of model.childrenOf(category)) {
    const key = `${keyOf(category, names)}>${shape.category}`;
    const node = item({text: format.categoryName(shape.category, {many: !shape.is_only_child}), level, isFolder: true, isOpen: false});
    const set = lazily(node, key, (inner) => fillCategory(inner, shape.category, names, level + 1, chosen));
    group.append(node);
    if (OPEN.has(key)) wanted.push(set(true));
  }
  await Promise.all(wanted);
}

async function fillCategory(group, category, parents, level, chosen) {
  const page = await api.get(category, parents, {fields: "name,names,state", limit: BRANCH_MAX});
  const wanted = [];
  const hasMore = model.childrenOf(category).length > 0;
  for (const each of page.items) {
    const key = keyOf(category, each.names);
    const chip = each.state === "active" || each.state === undefined ? null : format.stateChip(each.state);
    const node = item({text: format.name(each.name), level, href: model.linkTo(category, each.names), isFolder: hasMore, isOpen: false, isChosen: key === chosen, chip});
    group.append(node);
    if (!hasMore) continue;
    const set = lazily(node, key, (inner) => fillObject(inner, category, each.names, level + 1, chosen));
    if (OPEN.has(key)) wanted.push(set(true));
  }
  if (page.items.length === 0) group.append(h("li", {role: "none", class: "empty"}, "none"));
  if (page.total > page.items.length) {
    const rest = page.total - page.items.length;
    group.append(h("li", {role: "none", class: "empty"}, category === "queue" ? h("a", {href: "#/queues"}, `${format.count(rest)} more: see Queues`) : `${format.count(rest)} more`));
  }
  await Promise.all(wanted);
}

// Arrow keys as in any tree: one stop for the Tab key.
function treeKeys(tree) {
  const visible = () => [...tree.querySelectorAll("[role=treeitem]")].filter((node) => node.closest("[hidden]") === null);
  const go = (node) => {
    if (!node) return;
    for (const other of tree.querySelectorAll("[tabindex='0']")) other.tabIndex = -1;
    node.tabIndex = 0;
    node.focus();
  };
  tree.addEventListener("keydown", (event) => {
    const node = event.target.closest("[role=treeitem]");
    if (node === null || event.ctrlKey || event.altKey || event.metaKey) return;
    const all = visible();
    const at = all.indexOf(node);
    const isOpen = node.getAttribute("aria-expanded");
    const acts = {
      ArrowDown: () => go(all[at + 1]),
      ArrowUp: () => go(all[at - 1]),
      Home: () => go(all[0]),
      End: () => go(all.at(-1)),
      ArrowRight: () => (isOpen === "false" ? node.setOpen(true).catch(noteError) : isOpen === "true" ? go(all[at + 1]) : null),
      ArrowLeft: () => (isOpen === "true" ? node.setOpen(false) : go(node.parentElement.closest("[role=treeitem]"))),
      Enter: () => {
        const link = node.querySelector(":scope > .line > a");
        if (link !== null) link.click();
        else node.setOpen(isOpen !== "true").catch(noteError);
      },
    };
    if (acts[event.key] === undefined) return;
    event.preventDefault();
    acts[event.key]();
  });
  return go;
}

function rows(facts, now) {
  return h("table", {class: "attributes"}, h("tbody", {}, facts.map((each) => h("tr", {class: JSON.stringify(now[each.name] ?? null) === JSON.stringify(each.default ?? null) ? "is-default" : null},
    h("th", {scope: "row"}, format.label(each.name, each.unit)),
    h("td", {}, h("bdi", {}, each.is_secure && now[each.name] ? "set, not shown" : format.measured(each, now[each.name]))),
    h("td", {class: "hint narrow"}, each.description ?? "")))));
}

// What an operation answers, as it is.
async function tell(title, result) {
  const {ask} = await import("../dialog.js");
  await ask({title, wide: true, body: h("pre", {class: "body", tabindex: "0"}, typeof result === "string" ? result : JSON.stringify(result, null, 2)), confirm: "Close", act: async () => null});
}

function actions(object, kind, shape, again) {
  const button = (text, act, look = "quiet", id = null, needs = "administer") => allow(h("button", {type: "button", class: look, id, on: {click: () => act().catch(noteError)}}, text), api.may(object, needs), needs);
  const found = kind.operations.filter((operation) => !(HAVE_NO_USE[object.state] ?? []).includes(operation.name)).map((operation) => button(`${format.label(operation.name)}…`, async () => {
    const answer = await callOperation(object, operation, {danger: ["stop", "restart", "purge", "disconnect"].includes(operation.name)});
    if (!answer) return;
    if (answer.result !== null && answer.result !== undefined) await tell(format.label(operation.name), answer.result);
    await again();
  }, "quiet", `operation-${operation.name}`, operation.needs));
  if (!shape.is_observed) found.push(button("Change…", async () => { if (await editObject(object)) await again(); }, "quiet", "change"));
  if (!shape.is_observed && object.category !== "broker") {
    found.push(button("Delete…", async () => {
      if (!(await deleteObject(object))) return;
      const parent = model.parentOf(object.category, object.names);
      location.hash = model.linkTo(parent.category, parent.names);
    }, "danger", "delete"));
  }
  return found;
}

function creators(object, kindOfObject, again) {
  const shapes = model.childrenOf(object.category).filter((shape) => !shape.is_observed);
  // Only files of users have users.
  const possible = shapes.filter((shape) => shape.category !== "user" || object.type === "user-file");
  return possible.map((shape, index) => h("button", {
    type: "button", class: "quiet", "data-create": shape.category, "data-key": index === 0 ? "new" : null,
    on: {click: async () => {
      try {
        const made = await createObject(shape.category, object.names);
        if (!made) return;
        OPEN.add(keyOf(object.category, object.names));
        OPEN.add(`${keyOf(object.category, object.names)}>${shape.category}`);
        location.hash = model.linkTo(made.category, made.names);
      } catch (error) {
        noteError(error);
      }
    }},
  }, `New ${format.categoryName(shape.category)}`));
}

function crumbs(category, names) {
  const parts = [];
  let at = model.parentOf(category, names);
  while (at !== null) {
    parts.unshift(h("a", {href: model.linkTo(at.category, at.names)}, at.names.length === 0 ? "broker" : format.name(at.names.at(-1))), " / ");
    at = model.parentOf(at.category, at.names);
  }
  return h("p", {class: "crumbs"}, parts);
}

async function objectPanel(panel, category, names, signal, again) {
  const object = await api.get(category, names, {}, signal);
  object.names ??= names;
  const shape = model.categoryOf(category);
  const kind = model.kindOf(category, object.type);
  const chip = h("span", {});
  const statistics = h("div", {});
  const attributes = h("div", {});
  const facts = h("div", {});
  const why = h("div", {});
  const costly = kind.statistics.filter((each) => each.is_costly).map((each) => each.name);

  function fill(now) {
    const shown = JSON.stringify(now);
    if (panel.dataset.shown === shown) return;
    panel.dataset.shown = shown;
    replace(chip, format.stateChip(now.state));
    replace(why, now.error ? h("div", {class: "problem"}, now.error) : null);
    replace(statistics, rows(kind.statistics.filter((each) => each.name in now), now));
    const own = kind.attributes.filter((each) => each.name in now && each.name !== "name");
    replace(attributes, rows(shape.is_observed ? [] : own, now));
    replace(facts, rows(FACTS.map((name) => ({name, unit: null})), now));
  }

  const views = {queue: ["queue", "Messages"], dead_letter: ["letters", "Messages"], workflow: ["workflow", "Instances"], workflow_instance: ["instance", "Picture and history"]};
  replace(panel,
    crumbs(category, names),
    h("div", {class: "title"}, h("h1", {}, format.name(object.name)), chip,
      h("div", {class: "actions"},
        views[category] ? h("a", {class: "button main", href: model.linkTo(category, names, views[category][0])}, views[category][1]) : null,
        actions(object, kind, shape, again))),
    h("p", {class: "lead"}, `${format.label(format.categoryName(category))}${object.type ? ` of the type ${object.type}` : ""}: ${shape.summary}.`),
    why,
    h("div", {class: "actions new"}, creators(object, kind, again)),
    kind.statistics.length === 0 ? null : h("section", {class: "card"}, h("h2", {}, "Statistics"), statistics),
    shape.is_observed ? null : h("section", {class: "card"}, h("h2", {}, "Attributes"), attributes),
    h("section", {class: "card"}, h("h2", {}, "About"), facts));

  async function look() {
    const now = await api.get(category, names, {}, signal);
    if (signal.aborted) return;
    if (costly.length > 0) Object.assign(now, await api.get(category, names, {fields: costly.join(",")}, signal));
    if (!signal.aborted) fill(now);
  }

  await look();
  poll(signal, 3000, look);
}

export async function treeView({main, names: parts, signal, again}) {
  const [category, ...names] = parts.length === 0 ? ["broker"] : parts;
  const chosen = keyOf(category, names);
  for (let at = model.parentOf(category, names), below = category; at !== null; below = at.category, at = model.parentOf(at.category, at.names)) {
    OPEN.add(keyOf(at.category, at.names));
    OPEN.add(`${keyOf(at.category, at.names)}>${below}`);
  }
  const root = item({text: "broker", level: 1, href: model.linkTo("broker", []), isFolder: true, isOpen: false, isChosen: category === "broker"});
  const tree = h("ul", {role: "tree", "aria-label": "All objects", class: "tree"}, root);
  const panel = h("div", {class: "panel"});
  replace(main, h("div", {class: "split"}, h("div", {class: "card tree-card"}, tree), panel));
  const go = treeKeys(tree);
  const set = lazily(root, keyOf("broker", []), (group) => fillObject(group, "broker", [], 2, chosen));
  await Promise.all([set(true), objectPanel(panel, category, names, signal, again)]);
  const current = tree.querySelector("[aria-selected=true]") ?? root;
  current.tabIndex = 0;
  tree.addEventListener("focusin", (event) => {
    const node = event.target.closest("[role=treeitem]");
    if (node !== null && node.tabIndex !== 0) go(node);
  });
  current.scrollIntoView({block: "nearest"});
}

// One queue: how full it is, its messages, and what can be done with them.

import {alertList} from "../alerts.js";
import * as api from "../api.js";
import {chart} from "../chart.js";
import {noteError, note, problemBox} from "../dialog.js";
import {allow, freshId, h, replace} from "../dom.js";
import * as format from "../format.js";
import * as history from "../history.js";
import {poll} from "../live.js";
import {NO_ID, explanationParts, idShown, messageParts, preview, storyLink, withKeys} from "../message.js";
import * as model from "../model.js";
import {callOperation, deleteObject, editObject, operationOf} from "../objects.js";
import {sendMessage} from "../send.js";
import {pageStarts, pager, table} from "../table.js";
import {tile} from "./overview.js";
import {counters, recordQueue} from "./queues.js";

const PAGE = 50;
const NOTED_RATES = {arrived: "arrival_rate", departed: "departure_rate"};
const NUMBERS = ["depth", "waiting", "held", "delayed", "uncommitted", "consumers"];

function button(text, act, {kind = "quiet", key = null, id = null, of = null, needs = "administer"} = {}) {
  const node = h("button", {type: "button", class: kind, "data-key": key, id}, text);
  node.addEventListener("click", () => Promise.resolve(act()).catch(noteError));
  return of === null ? node : allow(node, api.may(of, needs), needs);
}

// The list of messages, with the selector to try.
function browser(queue, signal, onCount) {
  const id = freshId("selector");
  const selector = h("input", {type: "text", id, "data-key": "filter", spellcheck: "false", autocomplete: "off", placeholder: "a JMS selector: amount > 100 AND region = 'north'"});
  const only = h("input", {type: "checkbox", id: `${id}-only`});
  const verdict = h("span", {class: "verdict", role: "status"});
  const problems = h("div", {});
  const detail = h("section", {class: "card detail", "aria-label": "Message", hidden: true, tabindex: "-1"});
  const forPicked = h("div", {class: "actions picked", hidden: true});
  const state = {tried: "", explained: new Map(), open: null, messages: []};
  const starts = pageStarts();

  const list = table({
    caption: "Messages",
    key: (row) => row.key,
    empty: "No message waits here.",
    select: (keys) => { forPicked.hidden = keys.length === 0; },
    unpickable: (row) => (row.id === null ? NO_ID : null),
    columns: [
      {name: "id", label: "Message", cell: (row) => {
        const open = h("button", {type: "button", class: "link", on: {click: () => openMessage(row.key)}}, idShown(row.id));
        return open;
      }},
      {name: "takes", label: "Selector", cell: (row) => mark(row)},
      {name: "time", label: "Sent", narrow: true, cell: (row) => h("span", {class: "time"}, format.time(row.timestamp_ms))},
      {name: "priority", label: "Priority", number: true, narrow: true, cell: (row) => String(row.priority)},
      {name: "deliveries", label: "Delivery count", number: true, cell: (row) => format.count(row.delivery_count)},
      {name: "type", label: "Body", narrow: true, cell: (row) => row.body?.kind ?? ""},
      {name: "preview", label: "Begins", cell: (row) => h("bdi", {class: "preview"}, preview(row.body))},
    ],
  });

  function mark(row) {
    const found = state.explained.get(row.id);
    if (found === undefined) return "";
    const [kind, text] = found.matches ? ["good", "✓ takes"] : found.explanation.value === null ? ["warn", "? unknown"] : ["off", "✗ leaves"];
    return h("span", {class: `chip ${kind}`}, text);
  }

  const pages = pager((step) => {
    starts.go(step, state.messages.length);
    look().catch(noteError);
  });

  async function look() {
    state.tried = selector.value.trim();
    const chosen = only.checked && state.tried !== "" ? state.tried : null;
    replace(problems);
    state.explained = new Map();
    try {
      const page = await api.operate("queue", queue.names, "browse", {selector: chosen, offset: starts.now(), limit: PAGE}, signal);
      state.messages = withKeys(page.messages, (each) => each.id);
      const ids = [...new Set(page.messages.map((each) => each.id))].filter((each) => each !== null);
      if (state.tried !== "" && ids.length > 0) {
        const told = await api.operate("queue", queue.names, "explain", {selector: state.tried, message_ids: ids, limit: PAGE}, signal);
        state.explained = new Map(told.map((each) => [each.message_id, each]));
      }
      if (signal.aborted) return;
      element.classList.toggle("is-tried", state.tried !== "");
      list.update(state.messages);
      pages.update({offset: starts.now(), shown: page.messages.length, hasMore: page.has_more});
      verdict.textContent = state.tried === "" ? "" : `takes ${state.messages.filter((each) => state.explained.get(each.id)?.matches).length} of the ${page.messages.length} shown`;
      if (state.open !== null) showMessage(state.open);
      onCount();
    } catch (error) {
      if (error.code === undefined) throw error;
      replace(problems, problemBox(error), pointer(error));
    }
  }

  // Where in the selector the broker stopped reading.
  function pointer(error) {
    if (error.position === undefined || error.position === null) return null;
    return h("pre", {class: "pointer", "aria-hidden": "true"}, `${state.tried}\n${" ".repeat(error.position)}▲`);
  }

  function showMessage(key) {
    const message = state.messages.find((each) => each.key === key);
    detail.hidden = message === undefined;
    element.classList.toggle("is-open", message !== undefined);
    state.open = message === undefined ? null : key;
    for (const each of state.messages) list.rowOf(each.key)?.classList.toggle("is-chosen", each.key === state.open);
    if (message === undefined) return;
    const told = state.explained.get(message.id);
    replace(detail,
      h("div", {class: "title"}, h("h2", {}, "Message"), storyLink(queue.names, message.id), button("Close", () => {
        const line = list.rowOf(key);
        showMessage(null);
        line?.querySelector("button")?.focus();
      })),
      told === undefined ? null : explanationParts(told),
      messageParts(message));
  }

  function openMessage(key) {
    showMessage(key);
    detail.focus({preventScroll: false});
  }

  function withPicked(name, title, danger) {
    return async () => {
      const keys = new Set(list.picked());
      const ids = [...new Set(state.messages.filter((each) => keys.has(each.key)).map((each) => each.id))];
      const done = await callOperation(queue, operationOf(queue, name), {
        title, danger, preset: {message_ids: ids, selector: null},
        intro: `${title} ${format.counted(ids.length, "message")} of “${queue.name}”.`,
      });
      if (!done) return;
      note(`${format.counted(done.result.messages, "message")}: done.`);
      list.clearPicks();
      await look();
    };
  }

  replace(forPicked,
    button("Move…", withPicked("move_messages", "Move", false), {of: queue, needs: operationOf(queue, "move_messages").needs}),
    button("Copy…", withPicked("copy_messages", "Copy", false), {of: queue, needs: operationOf(queue, "copy_messages").needs}),
    button("Delete…", withPicked("delete_messages", "Delete", true), {kind: "danger", of: queue}));
  const form = h("form", {class: "bar"},
    h("label", {for: id, class: "unseen"}, "Selector"), selector,
    h("button", {type: "submit", class: "quiet"}, "Try"),
    h("label", {}, only, " only what it takes"), verdict);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    starts.reset();
    look().catch(noteError);
  });
  only.addEventListener("change", () => {
    starts.reset();
    look().catch(noteError);
  });
  const element = h("div", {class: "browser"},
    h("section", {class: "card"},
      h("div", {class: "title"}, h("h2", {}, "Messages"), h("div", {class: "actions"}, forPicked, button("Refresh", look, {key: "refresh"}))),
      form, problems, list.element, pages.element),
    detail);
  return {element, look};
}

function attributeRows(queue, now) {
  const kind = model.kindOf("queue", now.type);
  const rows = kind.attributes.filter((each) => !["name", "context"].includes(each.name)).map((each) => {
    const isDefault = JSON.stringify(now[each.name]) === JSON.stringify(each.default);
    return h("tr", {class: isDefault ? "is-default" : null},
      h("th", {scope: "row"}, format.label(each.name, each.unit)),
      h("td", {}, h("bdi", {}, format.measured(each, now[each.name]))),
      h("td", {class: "hint narrow"}, each.description));
  });
  return h("table", {class: "attributes"}, h("caption", {class: "unseen"}, "Attributes"), h("tbody", {}, rows));
}

function receiverRows(counts) {
  const rows = Object.entries(counts).map(([name, count]) => h("tr", {},
    h("th", {scope: "row"}, h("bdi", {}, name)),
    h("td", {}, format.counted(count, "unacknowledged message"))));
  return h("table", {class: "attributes"}, h("caption", {class: "unseen"}, "Receivers"), h("tbody", {}, rows));
}

export async function queueView({main, names, signal, again}) {
  const queue = await api.get("queue", names, {}, signal);
  const key = `queue/${queue.names.join("/")}`;
  const tiles = Object.fromEntries(NUMBERS.map((name) => [name, tile(name)]));
  const depth = chart({title: "Depth", unit: "messages", lines: [{label: "depth", color: 1}]});
  const moving = counters();
  const speed = chart({title: "Flow", unit: "a second", lines: moving.map((each, index) => ({label: each.name.replaceAll("_", " "), color: 1 + (index % 2)}))});
  const chip = h("span", {});
  const operate = (name, options, done) => async () => {
    const answer = await callOperation(queue, operationOf(queue, name), options);
    if (answer) await done(answer.result);
  };
  const found = browser(queue, signal, () => look().catch((error) => signal.aborted || noteError(error)));
  const pause = button(queue.paused ? "Resume" : "Pause", async () => {
    await api.operate("queue", queue.names, pause.dataset.act);
    await again();
  }, {id: "pause", of: queue});
  const attributes = h("div", {});
  const alerts = h("div", {});
  const receivers = h("div", {});
  const receiverCard = h("section", {class: "card", id: "receivers", hidden: true}, h("h2", {}, "Receivers"), receivers);
  const kind = model.kindOf("queue", queue.type);

  async function look() {
    const now = await api.get("queue", queue.names, {}, signal);
    if (signal.aborted) return;
    recordQueue(now);
    for (const name of NUMBERS) tiles[name].set(format.count(now[name]));
    depth.update([history.points(key)]);
    speed.update(moving.map((each) => history.rates(`${key}#${each.name}`)));
    const shown = now.paused ? "paused" : now.state;
    if (chip.dataset.shown !== shown) replace(chip, format.stateChip(shown)).dataset.shown = shown;
    const alerted = JSON.stringify(now.alerts);
    if (alerts.dataset.shown !== alerted) replace(alerts, now.alerts.length > 0 ? alertList(now.alerts) : null).dataset.shown = alerted;
    const unacknowledged = JSON.stringify(now.unacknowledged_by_receiver);
    if (receivers.dataset.shown !== unacknowledged) replace(receivers, receiverRows(now.unacknowledged_by_receiver)).dataset.shown = unacknowledged;
    receiverCard.hidden = Object.keys(now.unacknowledged_by_receiver).length === 0;
    pause.dataset.act = now.paused ? "resume" : "pause";
    pause.textContent = now.paused ? "Resume" : "Pause";
    const text = JSON.stringify(kind.attributes.map((each) => now[each.name]));
    if (attributes.dataset.shown !== text) replace(attributes, attributeRows(queue, now)).dataset.shown = text;
  }

  replace(main,
    h("p", {class: "crumbs"}, h("a", {href: "#/queues"}, "Queues"), " / ", format.name(queue.names[0]), " / ", format.name(queue.names[1])),
    h("div", {class: "title"},
      h("h1", {}, format.name(queue.name)), chip,
      h("div", {class: "actions"},
        button("Send a message", async () => { if (await sendMessage(queue)) await found.look(); }, {kind: "main", key: "new", id: "send", of: queue, needs: "write"}),
        pause,
        button("Change…", async () => { if (await editObject(queue)) await again(); }, {of: queue}),
        button("Purge…", operate("purge", {title: "Purge", danger: true, typed: queue.name, intro: `This deletes all messages of “${queue.name}” that nobody holds. There is no way back.`}, async (result) => {
          note(`${format.counted(result.messages, "message")} deleted.`);
          await found.look();
        }), {kind: "danger", id: "purge", of: queue}),
        button("Delete…", async () => { if (await deleteObject(queue)) location.hash = "#/queues"; }, {kind: "danger", id: "delete", of: queue}))),
    alerts,
    h("div", {class: "tiles"}, Object.values(tiles).map((each) => each.element)),
    h("div", {class: "charts"}, depth.element, moving.length > 0 ? speed.element : null),
    receiverCard,
    found.element,
    h("details", {class: "card"}, h("summary", {}, h("h2", {}, "Attributes")), attributes));
  const rateNames = Object.fromEntries(moving.map((each) => [`${key}#${each.name}`, NOTED_RATES[each.name]]));
  await history.begin("queue", queue.names, {names: {[key]: "depth"}, rateNames}, signal);
  await look();
  await found.look();
  poll(signal, 2000, look);
}

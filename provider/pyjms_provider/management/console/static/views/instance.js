// One instance of a workflow: where it stands, what has happened, what it knows, where its messages are, and what a person decides.

import * as api from "../api.js";
import {note, noteError} from "../dialog.js";
import {h, replace} from "../dom.js";
import * as format from "../format.js";
import {poll} from "../live.js";
import {facts} from "../message.js";
import * as model from "../model.js";
import {callOperation, operationOf} from "../objects.js";
import {picture} from "../picture.js";
import {stateTable, statusChip} from "./workflows.js";

const DECISIONS = {
  retry: {title: "Try again", look: "main", on: (row) => row.status === "parked", intro: (row) => `${work(row)} is asked for again, from its first attempt on.`},
  skip: {title: "Done by hand", look: "quiet", on: (row) => row.status === "parked", intro: (row) => `You have done ${work(row)} yourself: the instance goes on as if it had been answered. Nothing is asked for.`},
  park: {title: "Park", look: "quiet", on: (row) => ["running", "compensating"].includes(row.status), intro: () => "The instance stops until somebody tries again. What its step may be doing now goes on."},
  cancel: {title: "Go back", look: "danger", on: (row) => row.step !== "" && !row.is_backward, intro: () => "What was done is compensated, the last step first."},
};

function work(row) {
  return `${row.is_backward ? "the compensation of " : ""}“${row.step}”`;
}

// What not everybody may see: null if it is refused.
async function allowed(promise) {
  try {
    return await promise;
  } catch (error) {
    if (error.status !== 403) throw error;
    return null;
  }
}

function plainTable(caption, heads, rows) {
  return h("div", {class: "table-frame"}, h("table", {},
    h("caption", {class: "unseen"}, caption),
    h("thead", {}, h("tr", {}, heads.map((text) => h("th", {scope: "col"}, text)))),
    h("tbody", {}, rows)));
}

function historyTable(notes) {
  return plainTable("History", ["When", "What", "Step", "Why"], notes.map((each) => h("tr", {},
    h("td", {class: "time"}, format.time(each.at_ms)),
    h("td", {}, each.what),
    h("td", {}, h("bdi", {}, each.step)),
    h("td", {}, h("bdi", {}, each.reason)))));
}

function place(message, host) {
  return h("span", {class: `chip ${message.is_dead ? "bad" : "off"}`}, message.is_dead ? "given up, in " : "waits in ",
    h("a", {href: model.linkTo("queue", [...host, message.queue], "queue")}, format.name(message.queue)));
}

function requestTable(requests, messages, host) {
  const story = (key) => h("a", {href: `${model.linkTo("virtual_host", host, "story")}?${new URLSearchParams({correlation_id: key})}`}, format.name(key));
  const where = (each) => (messages === null ? "you may not see messages" : messages.filter((message) => message.correlation_id === each.correlation_id).map((message) => place(message, host)));
  return plainTable("Messages", ["Asked for", "At the queue", "Correlation id, and its story", "Found now"], requests.map((each) => h("tr", {},
    h("td", {}, h("bdi", {}, each.is_compensation ? `undo ${each.step}` : each.step), each.is_waited_for ? h("span", {class: "chip warn"}, "is waited for") : null),
    h("td", {}, h("a", {href: model.linkTo("queue", [...host, each.queue], "queue")}, format.name(each.queue))),
    h("td", {}, story(each.correlation_id)),
    h("td", {}, where(each)))));
}

function numbers(row) {
  return facts([
    ["Workflow", `${row.workflow}, version ${row.version}`],
    ["Step", row.step === "" ? null : row.is_backward ? `undo ${row.step}` : row.step],
    ["Attempt", row.step === "" ? null : `${row.attempt} of ${row.attempts_max}`],
    ["Visible state", row.visible_state || null],
    ["Holds", row.holds.length === 0 ? null : row.holds.join(", ")],
    ["Takes or releases", row.changing.length === 0 ? null : row.changing.join(", ")],
    ["Waits for", row.waits_for],
    ["Overdue at", row.due_at_ms === null ? null : format.time(row.due_at_ms)],
    ["Begun", format.time(row.created_at_ms)],
    ["Changed", format.time(row.changed_at_ms)],
    ["Revision", row.revision],
  ]);
}

export async function instanceView({main, names, signal}) {
  const host = names.slice(0, 2);
  const parts = Object.fromEntries(["chip", "why", "actions", "picture", "facts", "states", "history", "messages", "data"].map((each) => [each, h("div", {})]));
  parts.picture.className = "picture";
  parts.picture.tabIndex = 0;
  parts.actions.className = "actions";
  let seen = null;

  async function decide(row, name) {
    const {title, look: kind, intro} = DECISIONS[name];
    try {
      const done = await callOperation(row, operationOf(row, name), {title, danger: kind === "danger", preset: {revision: row.revision}, intro: intro(row)});
      if (!done) return;
      note(`${title}: done.`);
    } catch (error) {
      noteError(error);
    }
    await look();
  }

  function buttons(row) {
    return Object.entries(DECISIONS).filter(([, each]) => each.on(row)).map(([name, each]) =>
      h("button", {type: "button", class: each.look, id: `decide-${name}`, on: {click: () => decide(row, name).catch(noteError)}}, `${each.title}…`));
  }

  async function messages() {
    const [requests, found] = await Promise.all([
      api.operate("workflow_instance", names, "requests", {}, signal),
      allowed(api.operate("workflow_instance", names, "find_messages", {}, signal)),
    ]);
    const others = (found ?? []).filter((each) => requests.every((request) => request.correlation_id !== each.correlation_id));
    replace(parts.messages, requestTable(requests, found, host), others.length === 0 ? null : h("p", {}, "Others of it: ", others.map((each) => place(each, host))));
  }

  async function look() {
    const row = await api.get("workflow_instance", names, {}, signal);
    if (signal.aborted || seen === row.revision) return;
    const [drawn, history, data] = await Promise.all([
      api.operate("workflow_instance", names, "picture", {}, signal),
      api.operate("workflow_instance", names, "history", {}, signal),
      allowed(api.operate("workflow_instance", names, "data", {}, signal)),
      messages(),
    ]);
    if (signal.aborted) return;
    seen = row.revision;
    replace(parts.chip, statusChip(row.status));
    replace(parts.why, row.reason === "" ? null : h("div", {class: "problem"}, h("strong", {}, row.status === "parked" ? "Parked: " : "Goes back: "), h("bdi", {}, row.reason)));
    replace(parts.actions, buttons(row));
    replace(parts.picture, picture(drawn));
    replace(parts.facts, numbers(row));
    replace(parts.states, stateTable(states, row));
    replace(parts.history, historyTable(history));
    replace(parts.data, data === null ? h("p", {class: "empty"}, "You may not see it.") : h("pre", {class: "body", tabindex: "0", dir: "auto"}, JSON.stringify(data, null, 2)));
  }

  const refresh = h("button", {type: "button", class: "quiet", "data-key": "refresh", on: {click: () => messages().catch(noteError)}}, "Look again");
  const first = await api.get("workflow_instance", names, {fields: "workflow,version"}, signal);
  const flow = [...names.slice(0, -1), first.workflow];
  const states = await api.operate("workflow", flow, "states", {version: first.version}, signal);
  replace(main,
    h("p", {class: "crumbs"}, h("a", {href: "#/workflows"}, "Workflows"), " / ", h("a", {href: model.linkTo("workflow", flow, "workflow")}, format.name(first.workflow))),
    h("div", {class: "title"}, h("h1", {}, format.name(names.at(-1))), parts.chip, parts.actions),
    parts.why,
    h("section", {class: "card"}, h("h2", {}, "Where it stands"), parts.picture, parts.facts),
    h("section", {class: "card"}, h("h2", {}, "Its states"), parts.states),
    h("section", {class: "card"}, h("h2", {}, "What happened"), parts.history),
    h("section", {class: "card"}, h("div", {class: "title"}, h("h2", {}, "Its messages"), h("div", {class: "actions"}, refresh)), parts.messages),
    h("section", {class: "card"}, h("h2", {}, "What its steps know"), parts.data));
  await look();
  poll(signal, 2000, look);
}

// Workflows: what is deployed, and how its instances stand; and one of them, with its picture and its instances.

import * as api from "../api.js";
import {noteError, problemBox} from "../dialog.js";
import {h, replace, setText} from "../dom.js";
import * as format from "../format.js";
import {poll} from "../live.js";
import * as model from "../model.js";
import {createObject} from "../objects.js";
import {picture} from "../picture.js";
import {pager, table} from "../table.js";
import {chooseHost} from "./queues.js";

const PAGE = 50;
export const STATUSES = {running: "off", compensating: "warn", parked: "bad", completed: "good", compensated: "off"};

export function statusChip(status) {
  return h("span", {class: `chip ${STATUSES[status] ?? "off"}`}, status);
}

function counted(name, label) {
  const cell = (row) => (name === "parked" && row.parked > 0
    ? h("a", {class: "chip bad", href: `${model.linkTo("workflow", row.names, "workflow")}?status=parked`}, format.count(row.parked))
    : format.count(row[name]));
  return {name, label, number: true, narrow: name !== "parked" && name !== "running", cell};
}

// One store that cannot be reached hides no other.
async function allWorkflows(stores, signal) {
  const found = await Promise.all(stores.filter((each) => each.is_reachable).map(async (each) => {
    const page = await api.get("workflow", each.names, {limit: 1000}, signal);
    return page.items;
  }));
  return found.flat();
}

export async function workflowsView({main, signal}) {
  const list = table({
    caption: "Workflows",
    key: (row) => row.names.join("/"),
    href: (row) => model.linkTo("workflow", row.names, "workflow"),
    empty: "No workflow is deployed in a store that the broker knows.",
    columns: [
      {name: "name", label: "Workflow", cell: (row) => format.name(row.name)},
      {name: "title", label: "Title", narrow: true, cell: (row) => h("bdi", {}, row.title)},
      {name: "store", label: "Store", narrow: true, cell: (row) => format.name(row.names.slice(1, 3).join(" / "))},
      {name: "version", label: "Version", number: true, narrow: true, cell: (row) => format.count(row.version)},
      ...Object.keys(STATUSES).map((each) => counted(each, format.label(each))),
    ],
  });
  const away = h("div", {});
  const fresh = h("button", {type: "button", class: "quiet", "data-key": "new"}, "New store of workflows");
  fresh.addEventListener("click", async () => {
    try {
      const host = await chooseHost();
      if (host !== null && (await createObject("workflow_store", host))) await look();
    } catch (error) {
      noteError(error);
    }
  });
  replace(main,
    h("div", {class: "title"}, h("h1", {}, "Workflows"), h("div", {class: "actions"}, fresh)),
    h("p", {class: "lead"}, "What engines run over the queues of this broker. An instance that is parked waits for a person."),
    away,
    h("section", {class: "card"}, list.element));
  const look = async () => {
    const stores = await api.get("workflow_store", [], {limit: 1000}, signal);
    const rows = await allWorkflows(stores.items.filter((each) => each.state === "active"), signal);
    if (signal.aborted) return;
    list.update(rows);
    const lost = stores.items.filter((each) => each.error !== null || each.last_error !== null);
    replace(away, lost.map((each) => h("div", {class: "problem"},
      h("a", {href: model.linkTo("workflow_store", each.names)}, "store ", format.name(each.name)), ` cannot be reached: ${each.error ?? each.last_error}`)));
  };
  await look();
  poll(signal, 2000, look);
}

function stepTable(steps, host) {
  const queue = (name) => (name === null ? "–" : h("a", {href: model.linkTo("queue", [...host, name], "queue")}, format.name(name)));
  const rows = steps.map((each) => h("tr", {},
    h("th", {scope: "row"}, format.name(each.name)),
    h("td", {}, queue(each.queue)),
    h("td", {}, queue(each.compensation)),
    h("td", {class: "narrow"}, h("bdi", {}, each.state)),
    h("td", {class: "narrow"}, `${format.duration(each.timeout_ms)}, asked for ${each.retries === 0 ? "once" : `${each.retries + 1} times`}, then ${each.on_timeout}`)));
  const heads = [["Step"], ["Queue"], ["Undone by"], ["State after it"], ["Time for an answer"]];
  return h("div", {class: "table-frame"}, h("table", {},
    h("caption", {class: "unseen"}, "Steps"),
    h("thead", {}, h("tr", {}, heads.map(([text], index) => h("th", {scope: "col", class: index > 2 ? "narrow" : null}, text)))),
    h("tbody", {}, rows)));
}

// All states of a workflow's instances, with the resources that are held in each; `now` is an instance, whose state is marked, or null.
export function stateTable(states, now) {
  const isNow = (each) => now !== null && each.step === now.step && each.is_backward === now.is_backward && (each.step !== "" || each.status === now.status);
  const names = (list) => h("bdi", {}, list.length === 0 ? "–" : list.join(", "));
  const rows = states.map((each) => h("tr", {"aria-current": isNow(each) ? "step" : null},
    h("th", {scope: "row"}, isNow(each) ? statusChip(now.status) : each.status),
    h("td", {}, h("bdi", {}, each.step === "" ? "–" : each.is_backward ? `undo ${each.step}` : each.step)),
    h("td", {}, h("bdi", {}, each.visible_state || "–")),
    h("td", {}, names(each.holds)),
    h("td", {}, names(each.changing))));
  return h("div", {class: "table-frame"}, h("table", {id: "states"},
    h("caption", {class: "unseen"}, "States"),
    h("thead", {}, h("tr", {}, ["Status", "Step", "Visible state", "Holds", "Takes or releases"].map((text) => h("th", {scope: "col"}, text)))),
    h("tbody", {}, rows)));
}

function instanceTable() {
  return table({
    caption: "Instances",
    key: (row) => row.name,
    href: (row) => model.linkTo("workflow_instance", row.names, "instance"),
    empty: "There is no such instance.",
    columns: [
      {name: "name", label: "Instance", cell: (row) => format.name(row.name)},
      {name: "status", label: "Status", cell: (row) => statusChip(row.status)},
      {name: "step", label: "Step", cell: (row) => h("bdi", {}, row.step === "" ? "–" : row.is_backward ? `undo ${row.step}` : row.step)},
      {name: "attempt", label: "Attempt", narrow: true, cell: (row) => (row.step === "" ? "–" : `${row.attempt} of ${row.attempts_max}`)},
      {name: "state", label: "Visible state", narrow: true, cell: (row) => h("bdi", {}, row.visible_state || "–")},
      {name: "why", label: "Why", cell: (row) => h("bdi", {class: "preview"}, row.reason)},
      {name: "changed", label: "Changed", narrow: true, cell: (row) => h("span", {class: "time"}, format.time(row.changed_at_ms))},
    ],
  });
}

export async function workflowView({main, names, query, signal}) {
  const flow = await api.get("workflow", names, {}, signal);
  const [drawn, steps, states] = await Promise.all([
    api.operate("workflow", names, "picture", {}, signal),
    api.operate("workflow", names, "definition", {}, signal),
    api.operate("workflow", names, "states", {}, signal),
  ]);
  const store = names.slice(0, -1);
  const wanted = {status: query.get("status") ?? "", offset: 0};
  const list = instanceTable();
  const problems = h("div", {});
  const pages = pager((step) => {
    wanted.offset = Math.max(0, wanted.offset + step * PAGE);
    wake();
  });
  const options = new Map(["", ...Object.keys(STATUSES)].map((each) => [each, h("option", {value: each, selected: each === wanted.status}, each || "all")]));
  const choice = h("select", {id: "status", "data-key": "filter", on: {change: () => {
    Object.assign(wanted, {status: choice.value, offset: 0});
    wake();
  }}}, [...options.values()]);
  let wake = () => {};

  async function look() {
    const asked = {...wanted};
    const condition = `workflow = '${flow.name.replaceAll("'", "''")}'${asked.status === "" ? "" : ` AND status = '${asked.status}'`}`;
    try {
      const [page, now] = await Promise.all([
        api.get("workflow_instance", store, {filter: condition, sort: "-changed_at_ms", offset: asked.offset, limit: PAGE}, signal),
        api.get("workflow", names, {fields: Object.keys(STATUSES).join(",")}, signal),
      ]);
      if (signal.aborted || asked.status !== wanted.status) return;
      for (const each of Object.keys(STATUSES)) setText(options.get(each), `${each} (${format.count(now[each])})`);
      list.update(page.items);
      pages.update({offset: page.offset, shown: page.items.length, total: page.total});
      replace(problems);
    } catch (error) {
      if (error.status !== 503) throw error;
      replace(problems, problemBox(error));
    }
  }

  replace(main,
    h("p", {class: "crumbs"}, h("a", {href: "#/workflows"}, "Workflows"), " / ", h("a", {href: model.linkTo("workflow_store", store)}, format.name(store.at(-1)))),
    h("div", {class: "title"}, h("h1", {}, format.name(flow.name))),
    h("p", {class: "lead"}, h("bdi", {}, flow.title), flow.title === "" ? "" : ". ", `Version ${flow.version}${flow.versions.length > 1 ? `; there are ${flow.versions.join(", ")}` : ""}.`),
    h("section", {class: "card"}, h("h2", {}, "Picture"), h("div", {class: "picture", tabindex: "0"}, picture(drawn))),
    h("section", {class: "card"}, h("h2", {}, "Steps"), stepTable(steps, names.slice(0, 2))),
    h("section", {class: "card"}, h("h2", {}, "States of its instances"), stateTable(states, null)),
    h("section", {class: "card"}, h("h2", {}, "Instances"),
      h("div", {class: "bar"}, h("label", {for: "status"}, "Status"), choice, pages.element), problems, list.element));
  await look();
  wake = poll(signal, 2000, look);
}

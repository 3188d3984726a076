// The table of queues: live, sorted and filtered by the broker, a page at a time.

import {alertMark} from "../alerts.js";
import * as api from "../api.js";
import {h, replace} from "../dom.js";
import {ask, problemBox} from "../dialog.js";
import * as format from "../format.js";
import * as history from "../history.js";
import {poll} from "../live.js";
import * as model from "../model.js";
import {createObject} from "../objects.js";
import {pager, table} from "../table.js";

const PAGE = 50;
const FIELDS = "name,names,type,state,paused,waiting,delayed,held,uncommitted,depth,consumers,alerts,alert_count";

// A text is looked for in names; after “=” stands a condition on fields.
function condition(text) {
  if (text === "") return null;
  if (text.startsWith("=")) return text.slice(1).trim() || null;
  const escaped = text.replaceAll(/[\\%_]/g, "\\$&").replaceAll("'", "''");
  return `name LIKE '%${escaped}%' ESCAPE '\\'`;
}

// The statistics of queues that only grow: how fast they do is what people want to see.
export function counters() {
  return model.kindOf("queue", "standard").statistics.filter((each) => each.kind === "counter" && !each.is_costly && each.unit === "messages");
}

export function recordQueue(queue) {
  const key = `queue/${queue.names.join("/")}`;
  history.record(key, queue.depth);
  for (const each of counters()) history.record(`${key}#${each.name}`, queue[each.name]);
}

// How the numbers of rows move between two looks.
function speeds(names) {
  let before = new Map();
  let lookedAt = 0;
  return (rows) => {
    const now = performance.now();
    const seconds = (now - lookedAt) / 1000;
    const found = new Map();
    for (const row of rows) {
      const key = row.names.join("/");
      const old = before.get(key);
      row.speeds = Object.fromEntries(names.map((name) => [name, old === undefined ? null : (row[name] - old[name]) / seconds]));
      found.set(key, row);
      recordQueue(row);
    }
    before = found;
    lookedAt = now;
  };
}

// Numbers are wanted from the largest, names from the first; then the other way round; then as they come.
function nextOrder(column, now) {
  const orders = column.number ? [`-${column.sort}`, column.sort] : [column.sort, `-${column.sort}`];
  return orders[orders.indexOf(now) + 1] ?? "";
}

export async function chooseHost() {
  const {items} = await api.get("virtual_host", [], {fields: "name,names,state", limit: 1000});
  if (items.length === 1) return items[0].names;
  if (items.length === 0) {
    await ask({title: "No virtual host", body: h("p", {}, "Create a virtual host first, below a virtual host node: see All objects."), confirm: "Close", act: async () => null});
    return null;
  }
  const select = h("select", {id: "host"}, items.map((each, index) => h("option", {value: index}, each.names.join(" / "))));
  const chosen = await ask({
    title: "In which virtual host?",
    body: h("div", {class: "field"}, h("label", {for: "host"}, "Virtual host"), select),
    confirm: "Go on",
    act: async () => items[Number(select.value)].names,
  });
  return chosen ?? null;
}

function columns(moving, hasHosts) {
  const number = (name, label, narrow = false) => ({name, label, number: true, sort: name, narrow, cell: (row) => format.count(row[name])});
  return [
    {name: "name", label: "Queue", sort: "name", cell: (row) => format.name(row.name)},
    ...(hasHosts ? [{name: "host", label: "Host", narrow: true, cell: (row) => format.name(row.names[1])}] : []),
    {name: "type", label: "Type", sort: "type", narrow: true, cell: (row) => row.type},
    {name: "state", label: "State", narrow: true, cell: (row) => format.stateChip(row.paused ? "paused" : row.state)},
    {name: "alerts", label: "Alerts", sort: "alert_count", cell: (row) => alertMark(row.alerts)},
    number("depth", "Depth"),
    ...(moving.length > 0 ? [] : [{name: "speed", label: "Change /s", number: true, cell: (row) => format.rate(row.speeds.depth, true)}]),
    ...moving.map((each) => ({name: each.name, label: `${format.label(each.name)} /s`, number: true, cell: (row) => format.rate(row.speeds[each.name])})),
    number("waiting", "Waiting", true),
    number("held", "Held", true),
    number("delayed", "Delayed", true),
    number("uncommitted", "Uncommitted", true),
    number("consumers", "Consumers"),
  ];
}

export async function queuesView({main, query, signal}) {
  const wanted = {offset: 0, sort: query.get("sort") ?? "", text: query.get("filter") ?? ""};
  const moving = counters();
  const hosts = await api.get("virtual_host", [], {fields: "name", limit: 1}, signal);
  const measure = speeds(["depth", ...moving.map((each) => each.name)]);
  const problems = h("div", {});
  const filter = h("input", {type: "search", id: "filter", "data-key": "filter", value: wanted.text, placeholder: "part of a name, or =depth > 100", spellcheck: "false", autocomplete: "off"});
  const fresh = h("button", {type: "button", class: "main", "data-key": "new"}, "New queue");
  let typing = null;
  let wake = () => {};

  const list = table({
    caption: "Queues",
    key: (row) => row.names.join("/"),
    href: (row) => model.linkTo("queue", row.names, "queue"),
    empty: () => (filter.value.trim() === "" ? "There is no queue yet. Make one, or let a client send to one." : "There is no such queue."),
    columns: columns(moving, hosts.total > 1),
    onSort: (column) => {
      wanted.sort = nextOrder(column, wanted.sort);
      wanted.offset = 0;
      wake();
    },
  });
  const pages = pager((step) => {
    wanted.offset = Math.max(0, wanted.offset + step * PAGE);
    wake();
  });

  async function look() {
    const asked = {...wanted};
    let page;
    try {
      page = await api.get("queue", [], {fields: [FIELDS, ...moving.map((each) => each.name)].join(","), limit: PAGE, offset: asked.offset, sort: asked.sort, filter: condition(asked.text)}, signal);
    } catch (error) {
      if (error.status !== 400) throw error;
      replace(problems, problemBox(error));
      return;
    }
    if (signal.aborted || asked.text !== wanted.text) return;
    replace(problems);
    measure(page.items);
    list.update(page.items, asked.sort === "" ? "name" : asked.sort);
    pages.update({offset: page.offset, shown: page.items.length, total: page.total});
  }

  filter.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => {
      wanted.text = filter.value.trim();
      wanted.offset = 0;
      wake();
    }, 200);
  });
  fresh.addEventListener("click", async () => {
    const host = await chooseHost();
    if (host === null) return;
    const made = await createObject("queue", host);
    if (made) location.hash = model.linkTo("queue", made.names, "queue");
  });
  replace(main,
    h("div", {class: "title"}, h("h1", {}, "Queues"), h("div", {class: "actions"}, fresh)),
    h("div", {class: "bar"}, h("label", {for: "filter", class: "unseen"}, "Filter"), filter, pages.element),
    problems,
    h("section", {class: "card"}, list.element));
  await look();
  wake = poll(signal, 2000, look);
}

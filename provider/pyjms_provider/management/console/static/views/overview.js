// The broker at a glance: what needs attention, what there is, and the last hour.

import {alertText} from "../alerts.js";
import * as api from "../api.js";
import {chart} from "../chart.js";
import {h, replace, setText} from "../dom.js";
import * as format from "../format.js";
import * as history from "../history.js";
import {poll} from "../live.js";
import * as model from "../model.js";
import {table} from "../table.js";

const LOOKED_AT = ["key_store", "trust_store", "authentication_provider", "access_control", "virtual_host_node", "virtual_host", "port", "route", "workflow_store"];
const FLOW_EVERY = 5; // looks: the broker notes its flow every ten seconds
const AGAIN = 3; // deliveries
const NEARLY = 0.8;

export function tile(text, {href = null} = {}) {
  const value = h("strong", {}, "–");
  const element = h(href === null ? "div" : "a", {class: "tile", href}, value, h("span", {}, text));
  return {element, set: (shown, kind = "") => {
    setText(value, shown);
    element.className = `tile ${kind}`;
  }};
}

function hostTable() {
  return table({
    caption: "Virtual hosts",
    key: (row) => row.names.join("/"),
    href: (row) => model.linkTo("virtual_host", row.names),
    columns: [
      {name: "name", label: "Virtual host", cell: (row) => format.name(row.name)},
      {name: "state", label: "State", cell: (row) => format.stateChip(row.state)},
      {name: "queue_count", label: "Queues", number: true, cell: (row) => format.count(row.queue_count)},
      {name: "message_count", label: "Messages", number: true, cell: (row) => format.count(row.message_count)},
      {name: "connection_count", label: "Connections", number: true, cell: (row) => format.count(row.connection_count)},
    ],
  });
}

function portTable() {
  return table({
    caption: "Ports",
    key: (row) => row.name,
    href: (row) => model.linkTo("port", row.names),
    columns: [
      {name: "name", label: "Port", cell: (row) => format.name(row.name)},
      {name: "state", label: "State", cell: (row) => format.stateChip(row.state)},
      {name: "addresses", label: "Listens at", cell: (row) => format.plainValue(row.addresses)},
      {name: "connection_count", label: "Connections", number: true, cell: (row) => format.count(row.connection_count)},
    ],
  });
}

async function inError() {
  const pages = await Promise.all(LOOKED_AT.map((category) =>
    api.get(category, [], {filter: "state = 'errored'", fields: "name,names,category,error", limit: 20})));
  return pages.flatMap((page) => page.items);
}

// Asked only where a virtual host says that there are any: the broker has to look over all queues for it.
async function withAlerts(count, signal) {
  if (count === 0) return [];
  const page = await api.get("queue", [], {filter: "alert_count > 0", sort: "-alert_count", fields: "name,names,alerts", limit: 20}, signal);
  return page.items;
}

// Queues with a message that comes again and again, which a listener that fails does.
async function comingAgain(signal) {
  const page = await api.get("queue", [], {filter: `most_deliveries >= ${AGAIN}`, sort: "-most_deliveries", fields: "name,names,most_deliveries", limit: 20}, signal);
  return page.items;
}

// The sum of what virtual hosts have noted last.
function newest(pasts, name) {
  return pasts.reduce((sum, each) => sum + (each.columns[name]?.at(-1) ?? 0), 0);
}

function alertItems(queues) {
  return queues.flatMap((queue) => queue.alerts.map((each) => h("li", {class: "alert"},
    h("a", {href: model.linkTo("queue", queue.names, "queue")}, "queue ", format.name(queue.name)),
    h("span", {}, ` ${alertText(each)}`))));
}

function parkedItems(stores) {
  return stores.filter((each) => each.parked > 0).map((each) => h("li", {class: "parked"},
    h("a", {href: "#/workflows"}, `${format.count(each.parked)} parked`),
    h("span", {}, " of the workflows in ", format.name(each.name), each.parked === 1 ? " waits for a person" : " wait for a person")));
}

function refusingItems(hosts) {
  return hosts.map((each) => h("li", {class: "refusing"},
    h("a", {href: model.linkTo("virtual_host", each.names)}, "virtual host ", format.name(each.name)),
    h("span", {}, ` keeps no messages now: ${each.store_trouble}`)));
}

function deadItems(letters) {
  return letters.map((each) => h("li", {class: "dead"},
    h("a", {href: model.linkTo("dead_letter", each.names, "letters")}, format.counted(each.letters, "dead letter")),
    h("span", {}, " in ", format.name(each.name), ": see why each was given up, and send back what can be delivered now")));
}

function poisonItems(queues) {
  return queues.map((each) => h("li", {class: "poison"},
    h("a", {href: model.linkTo("queue", each.names, "queue")}, "queue ", format.name(each.name)),
    h("span", {}, ` has a message that was delivered ${format.count(each.most_deliveries)} times and comes again: look at its consumer`)));
}

function attention({items, hosts, queues, stores, letters, poison}) {
  const isCalm = items.length + hosts.length + queues.length + letters.length + poison.length === 0 && stores.every((each) => !each.parked);
  if (isCalm) return h("p", {class: "calm"}, "Everything is open and running.");
  return h("ul", {class: "attention"}, items.map((each) => h("li", {},
    h("a", {href: model.linkTo(each.category, each.names)}, `${format.categoryName(each.category)} `, format.name(each.name)),
    h("span", {}, ` ${each.error ?? "is in error"}`))), refusingItems(hosts), parkedItems(stores), poisonItems(poison), deadItems(letters), alertItems(queues));
}

export async function overviewView({main, signal}) {
  const tiles = {
    messages: tile("messages", {href: "#/queues"}),
    queues: tile("queues", {href: "#/queues"}),
    connections: tile("connections", {href: "#/connections"}),
    letters: tile("dead letters", {href: "#/dead"}),
    doubts: tile("transactions in doubt", {href: "#/transactions"}),
    alerts: tile("queues with alerts", {href: `#/queues?filter=${encodeURIComponent("=alert_count > 0")}`}),
    published: tile("published a second"),
    delivered: tile("delivered a second"),
    acknowledged: tile("acknowledged or gone a second"),
    memory: tile("memory"),
    disk: tile("free on the disk"),
    files: tile("open files and connections"),
    uptime: tile("uptime"),
  };
  const messages = chart({title: "Messages", unit: "messages", lines: [{label: "messages", color: 1}]});
  const change = chart({title: "Change", unit: "messages a second", lines: [{label: "change", color: 2}], signed: true});
  const connections = chart({title: "Connections", unit: "connections", lines: [{label: "connections", color: 1}]});
  const hosts = hostTable();
  const ports = portTable();
  const needs = h("div", {});
  let poison = [];
  let looks = 0;
  const about = h("p", {class: "about"});
  replace(main,
    h("h1", {}, "Overview"),
    h("div", {class: "tiles"}, Object.values(tiles).map((each) => each.element)),
    h("section", {class: "card"}, h("h2", {}, "Needs attention"), needs),
    h("div", {class: "charts"}, messages.element, change.element, connections.element),
    h("section", {class: "card"}, h("h2", {}, "Virtual hosts"), hosts.element),
    h("section", {class: "card"}, h("h2", {}, "Ports"), ports.element),
    about);

  async function begin() {
    const {items} = await api.get("virtual_host", [], {limit: 100, fields: "names", filter: "state = 'active'"}, signal);
    const pasts = (await Promise.all(items.map((each) => history.pastOf("virtual_host", each.names, signal)))).filter((each) => each.times_ms.length > 0);
    history.seed("broker/messages", history.summed(pasts, "messages"));
    history.seed("broker/connections", history.summed(pasts, "connections"));
  }

  async function look() {
    const [broker, found, open, letters, doubts, stores, errors] = await Promise.all([
      api.get("broker", [], {fields: "uptime_ms,version,platform,process_id,memory_bytes,disk_free_bytes,open_files,open_files_max"}, signal),
      api.get("virtual_host", [], {limit: 100, fields: "name,names,state,queue_count,message_count,connection_count,alert_count,store_trouble"}, signal),
      api.get("port", [], {limit: 100, fields: "name,names,state,addresses,connection_count"}, signal),
      api.get("dead_letter", [], {limit: 1000, fields: "name,names,letters"}, signal),
      api.get("transaction", [], {limit: 1, filter: "branch_state = 'prepared'", fields: "name"}, signal),
      api.get("workflow_store", [], {limit: 100, fields: "name,parked"}, signal),
      inError(),
    ]);
    const sum = (name) => found.items.reduce((total, each) => total + (each[name] ?? 0), 0);
    const queues = await withAlerts(sum("alert_count"), signal);
    if (looks % FLOW_EVERY === 0) {
      const [again, ...flows] = await Promise.all([
        comingAgain(signal),
        ...found.items.filter((each) => each.state === "active").map((each) => history.pastOf("virtual_host", each.names, signal)),
      ]);
      if (signal.aborted) return;
      poison = again;
      tiles.published.set(format.rate(newest(flows, "arrival_rate")));
      tiles.delivered.set(format.rate(newest(flows, "delivery_rate")));
      tiles.acknowledged.set(format.rate(newest(flows, "departure_rate")));
    }
    looks += 1;
    if (signal.aborted) return;
    const dead = letters.items.reduce((total, each) => total + each.letters, 0);
    history.record("broker/messages", sum("message_count"));
    history.record("broker/connections", sum("connection_count"));
    tiles.messages.set(format.count(sum("message_count")));
    tiles.queues.set(format.count(sum("queue_count")));
    tiles.connections.set(format.count(sum("connection_count")));
    tiles.letters.set(format.count(dead), dead > 0 ? "warn" : "");
    tiles.doubts.set(format.count(doubts.total), doubts.total > 0 ? "warn" : "");
    tiles.alerts.set(format.count(sum("alert_count")), sum("alert_count") > 0 ? "warn" : "");
    tiles.uptime.set(format.duration(broker.uptime_ms));
    tiles.memory.set(format.bytes(broker.memory_bytes));
    tiles.disk.set(format.bytes(broker.disk_free_bytes));
    tiles.files.set(format.count(broker.open_files), broker.open_files_max !== null && broker.open_files > NEARLY * broker.open_files_max ? "warn" : "");
    const refusing = found.items.filter((each) => each.store_trouble);
    const told = {items: errors, hosts: refusing, queues, stores: stores.items, letters: letters.items.filter((each) => each.letters > 0), poison};
    const text = JSON.stringify(told);
    if (needs.dataset.shown !== text) replace(needs, attention(told)).dataset.shown = text;
    messages.update([history.points("broker/messages")]);
    change.update([history.rates("broker/messages")]);
    connections.update([history.points("broker/connections")]);
    hosts.update(found.items);
    ports.update(open.items);
    setText(about, `pyjms ${broker.version} on ${broker.platform}, process ${broker.process_id}. Charts show the last hour, as the broker noted it.`);
  }

  await begin();
  await look();
  poll(signal, 2000, look);
}

// Topics, subscriptions, consumers and users: each a table of all that there are, which leads to the object itself.

import * as api from "../api.js";
import {noteError} from "../dialog.js";
import {h, replace} from "../dom.js";
import * as format from "../format.js";
import {poll} from "../live.js";
import * as model from "../model.js";
import {pager, table} from "../table.js";

const PAGE = 50;

// A page with one table of a category; `fields` are asked for besides names.
function listView({title, category, lead, fields, columns, empty, sort = "name"}) {
  return async ({main, signal}) => {
    let offset = 0;
    const list = table({
      caption: title,
      key: (row) => row.names.join("/"),
      href: (row) => model.linkTo(category, row.names),
      empty,
      columns,
    });
    const pages = pager((step) => {
      offset = Math.max(0, offset + step * PAGE);
      look().catch(noteError);
    });
    async function look() {
      const page = await api.get(category, [], {fields: ["name,names", ...fields].join(","), limit: PAGE, offset, sort}, signal);
      if (signal.aborted) return;
      list.update(page.items);
      pages.update({offset: page.offset, shown: page.items.length, total: page.total});
    }
    replace(main,
      h("h1", {}, title),
      h("p", {class: "lead"}, lead),
      h("section", {class: "card"}, list.element, pages.element));
    await look();
    poll(signal, 2000, look);
  };
}

const named = (label) => ({name: "name", label, cell: (row) => format.name(row.name)});
const counted = (name, label, narrow = false) => ({name, label, number: true, narrow, cell: (row) => format.count(row[name])});
const host = {name: "host", label: "Host", narrow: true, cell: (row) => format.name(row.names[1])};

function chosenBy(row) {
  return row.selector === null ? "–" : h("code", {}, h("bdi", {}, row.selector));
}

function presence(row) {
  const many = row.consumers > 1 ? `${format.count(row.consumers)} ` : "";
  return h("span", {class: `chip ${row.consumers ? "good" : "off"}`}, row.consumers ? `${many}connected` : "away");
}

export const topicsView = listView({
  title: "Topics",
  category: "topic",
  lead: "Destinations of which each subscription gets every message.",
  fields: ["subscriptions", "durable_subscriptions", "shared_subscriptions", "waiting"],
  empty: "There is no topic yet: the first publisher or subscriber makes one.",
  columns: [named("Topic"), host, counted("subscriptions", "Subscriptions"), counted("durable_subscriptions", "Durable"), counted("shared_subscriptions", "Shared", true), counted("waiting", "Waiting")],
});

export const subscriptionsView = listView({
  title: "Subscriptions",
  category: "durable_subscription",
  lead: "Durable subscriptions, which gather messages while their subscriber is away.",
  fields: ["topic", "client_id", "selector", "is_shared", "consumers", "waiting", "held"],
  empty: "There is no durable subscription.",
  columns: [
    named("Subscription"),
    {name: "topic", label: "Topic", cell: (row) => format.name(row.topic)},
    {name: "client_id", label: "Client id", narrow: true, cell: (row) => format.name(row.client_id)},
    {name: "selector", label: "Selector", narrow: true, cell: chosenBy},
    {name: "is_shared", label: "Kind", narrow: true, cell: (row) => row.is_shared ? "shared" : "unshared"},
    {name: "consumers", label: "Consumers", cell: presence},
    counted("waiting", "Waiting"),
    counted("held", "Held", true),
  ],
});

export const consumersView = listView({
  title: "Consumers",
  category: "consumer",
  lead: "All that receives or browses messages now, of all connections.",
  fields: ["source", "selector", "priority", "is_browser"],
  empty: "There is no consumer.",
  columns: [
    {name: "source", label: "Consumer of", cell: (row) => format.name(row.source)},
    {name: "connection", label: "Connection", cell: (row) => format.name(row.names[2])},
    {name: "session", label: "Session", narrow: true, cell: (row) => format.name(row.names[3])},
    {name: "selector", label: "Selector", narrow: true, cell: chosenBy},
    counted("priority", "Priority", true),
    {name: "is_browser", label: "Kind", narrow: true, cell: (row) => (row.is_browser ? "browser" : "consumer")},
    host,
  ],
});

export const usersView = listView({
  title: "Users",
  category: "user",
  lead: "Users that authentication providers of this broker keep. Those of a directory or an issuer of tokens are kept there.",
  fields: ["groups"],
  empty: "No authentication provider of this broker keeps users.",
  columns: [
    named("User"),
    {name: "provider", label: "Authentication provider", cell: (row) => format.name(row.names[0])},
    {name: "groups", label: "Groups", cell: (row) => format.plainValue(row.groups)},
  ],
});

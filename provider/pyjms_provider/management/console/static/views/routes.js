// Routes: where messages of a queue go, how fast, what waits, what went wrong, and how one is paused and stopped.

import * as api from "../api.js";
import {noteError} from "../dialog.js";
import {h, replace} from "../dom.js";
import * as format from "../format.js";
import {poll} from "../live.js";
import * as model from "../model.js";
import {createObject} from "../objects.js";
import {table} from "../table.js";
import {chooseHost} from "./queues.js";

const KINDS = {running: "good", paused: "warn", away: "bad", failed: "bad", stopped: "off"};

function targetText(each, source) {
  const name = each.topic === null || each.topic === undefined ? each.queue ?? source : `topic ${each.topic}`;
  return `${name}${each.url === null || each.url === undefined ? "" : ` at ${each.url}`}`;
}

function targets(row) {
  const list = row.targets === undefined ? ["as its rules say"] : row.targets.map((each) => targetText(each, row.source));
  return h("span", {class: "lines"}, list.map((text) => h("bdi", {}, text)));
}

export async function routesView({main, signal}) {
  let look = async () => {};

  function steer(row, operation, text, kind = "quiet") {
    const node = h("button", {type: "button", class: kind}, text);
    node.addEventListener("click", async () => {
      try {
        await api.operate("route", row.names, operation);
        await look();
      } catch (error) {
        noteError(error);
      }
    });
    return node;
  }

  function actions(row) {
    if (row.state !== "active") return h("span", {class: "actions"}, steer(row, "start", "Start", "main"));
    return h("span", {class: "actions together"},
      row.activity === "paused" ? steer(row, "resume", "Resume", "main") : steer(row, "pause", "Pause"),
      steer(row, "stop", "Stop", "danger"));
  }

  const list = table({
    caption: "Routes",
    key: (row) => row.names.join("/"),
    href: (row) => model.linkTo("route", row.names),
    empty: "No route takes messages elsewhere.",
    columns: [
      {name: "name", label: "Route", cell: (row) => format.name(row.name)},
      {name: "activity", label: "Does", cell: (row) => h("span", {class: `chip ${KINDS[row.activity] ?? "off"}`}, row.state === "errored" ? "failed" : row.activity)},
      {name: "act", label: "Steer", cell: actions},
      {name: "source", label: "From", cell: (row) => h("a", {href: model.linkTo("queue", [...row.names.slice(0, 2), row.source], "queue")}, format.name(row.source))},
      {name: "targets", label: "To", cell: targets},
      {name: "backlog", label: "Backlog", number: true, cell: (row) => format.count(row.backlog)},
      {name: "rate", label: "Forwarded /s", number: true, cell: (row) => format.rate(row.forward_rate)},
      {name: "failed", label: "Set aside", number: true, narrow: true, cell: (row) => format.count(row.failed)},
      {name: "error", label: "Last error", cell: (row) => {
        const text = row.error ?? row.last_error ?? "";
        return h("bdi", {class: "preview", title: text}, text);
      }},
    ],
  });
  const fresh = h("button", {type: "button", class: "main", "data-key": "new"}, "New route");
  fresh.addEventListener("click", async () => {
    try {
      const host = await chooseHost();
      if (host !== null && (await createObject("route", host))) await look();
    } catch (error) {
      noteError(error);
    }
  });
  replace(main,
    h("div", {class: "title"}, h("h1", {}, "Routes"), h("div", {class: "actions"}, fresh)),
    h("p", {class: "lead"}, "Each takes messages from a queue and sends them elsewhere, once only where the other site can tell. One that is away waits for a site, and loses nothing."),
    h("section", {class: "card"}, list.element));
  look = async () => {
    const page = await api.get("route", [], {limit: 500}, signal);
    if (!signal.aborted) list.update(page.items);
  };
  await look();
  poll(signal, 2000, look);
}

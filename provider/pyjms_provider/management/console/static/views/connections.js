// Who is connected, with sessions and consumers.

import * as api from "../api.js";
import {noteError} from "../dialog.js";
import {h, replace} from "../dom.js";
import * as format from "../format.js";
import {poll} from "../live.js";
import {facts} from "../message.js";
import {callOperation, operationOf} from "../objects.js";
import {pager, table} from "../table.js";

const PAGE = 50;
const FIELDS = "name,names,type,category,user,unchecked_login,address,protocol,since_ms,client_id,is_started,session_count";

function sessionBox(session, consumers) {
  const own = consumers.filter((each) => each.names[3] === session.name);
  const kind = session.is_transacted ? "transacted" : "not transacted";
  return h("li", {},
    h("strong", {}, `Session ${session.name}`),
    ` ${kind}${session.has_open_transaction ? ", with an open transaction" : ""}, holds ${format.counted(session.held, "message")}`,
    own.length === 0 ? h("p", {class: "hint"}, "No consumers.") : h("table", {class: "values"},
      h("caption", {class: "unseen"}, `Consumers of session ${session.name}`),
      h("thead", {}, h("tr", {}, ["Consumer of", "Selector", "Priority", ""].map((text) => h("th", {scope: "col"}, text)))),
      h("tbody", {}, own.map((each) => h("tr", {},
        h("td", {}, format.name(each.source)),
        h("td", {}, each.selector === null ? "–" : h("code", {}, h("bdi", {}, each.selector))),
        h("td", {class: "number"}, String(each.priority)),
        h("td", {}, each.is_browser ? "only looks" : ""))))));
}

function userOf(row) {
  return row.unchecked_login === null ? row.user : `${row.user}, logged in as “${row.unchecked_login}”, which was not checked`;
}

export async function connectionsView({main, signal}) {
  const detail = h("section", {class: "card detail", "aria-label": "Connection", hidden: true, tabindex: "-1"});
  const state = {offset: 0, open: null};
  const list = table({
    caption: "Connections",
    key: (row) => row.names.join("/"),
    empty: "Nobody is connected.",
    columns: [
      {name: "name", label: "Connection", cell: (row) => h("button", {type: "button", class: "link", on: {click: () => open(row, {focus: true}).catch(noteError)}}, h("bdi", {}, row.name))},
      {name: "user", label: "User", cell: (row) => format.name(row.user || "–")},
      {name: "client", label: "Client id", cell: (row) => format.name(row.client_id ?? "–")},
      {name: "address", label: "From", cell: (row) => row.address || "this process"},
      {name: "protocol", label: "Protocol", narrow: true, cell: (row) => row.protocol},
      {name: "host", label: "Host", narrow: true, cell: (row) => format.name(row.names[1])},
      {name: "since", label: "Since", narrow: true, cell: (row) => h("span", {class: "time"}, format.time(row.since_ms))},
      {name: "sessions", label: "Sessions", number: true, cell: (row) => format.count(row.session_count)},
    ],
  });
  const pages = pager((step) => {
    state.offset = Math.max(0, state.offset + step * PAGE);
    look().catch(noteError);
  });

  function shut() {
    state.open = null;
    detail.hidden = true;
    element.classList.remove("is-open");
  }

  async function open(row, {focus = false} = {}) {
    const [sessions, consumers] = await Promise.all([
      api.get("session", row.names, {limit: 500}, signal),
      api.get("consumer", row.names, {limit: 500}, signal),
    ]);
    if (signal.aborted) return;
    const end = h("button", {type: "button", class: "danger", id: "disconnect"}, "Disconnect…");
    end.addEventListener("click", async () => {
      try {
        if (await callOperation(row, operationOf(row, "disconnect"), {title: "Disconnect", danger: true, intro: `This ends the connection of “${row.user || row.client_id || row.name}”; its client is told why.`})) {
          shut();
          await look();
        }
      } catch (error) {
        noteError(error);
      }
    });
    replace(detail,
      h("div", {class: "title"}, h("h2", {}, "Connection"), h("div", {class: "actions"}, end, h("button", {type: "button", class: "quiet", on: {click: shut}}, "Close"))),
      facts([["Name", row.name], ["User", userOf(row)], ["Client id", row.client_id], ["From", row.address || "this process"], ["Protocol", row.protocol], ["Since", format.time(row.since_ms)], ["Messages come", row.is_started ? "yes" : "no: it is not started"]]),
      h("h3", {}, `Sessions (${sessions.total})`),
      sessions.total === 0 ? h("p", {class: "empty"}, "It has none.") : h("ul", {class: "sessions"}, sessions.items.map((each) => sessionBox(each, consumers.items))));
    detail.hidden = false;
    state.open = row.names.join("/");
    element.classList.add("is-open");
    if (focus) detail.focus();
  }

  async function look() {
    const page = await api.get("connection", [], {fields: FIELDS, limit: PAGE, offset: state.offset}, signal);
    if (signal.aborted) return;
    list.update(page.items);
    pages.update({offset: page.offset, shown: page.items.length, total: page.total});
    if (state.open !== null && !page.items.some((row) => row.names.join("/") === state.open)) shut();
  }

  const element = h("div", {class: "browser"}, h("section", {class: "card"}, list.element, pages.element), detail);
  replace(main, h("h1", {}, "Connections"), element);
  await look();
  poll(signal, 2000, look);
}

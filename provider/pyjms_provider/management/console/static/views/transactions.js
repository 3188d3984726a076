// Branches of distributed transactions; those in doubt can be settled in place of their coordinator.

import * as api from "../api.js";
import {note, noteError} from "../dialog.js";
import {h, replace} from "../dom.js";
import * as format from "../format.js";
import {poll} from "../live.js";
import {callOperation, operationOf} from "../objects.js";
import {table} from "../table.js";

const SETTLED = new Set(["heuristically_committed", "heuristically_rolled_back"]);

export async function transactionsView({main, signal}) {
  let look = async () => {};

  function settle(row, name, title) {
    const node = h("button", {type: "button", class: name === "forget" ? "quiet" : "danger"}, title);
    node.addEventListener("click", async () => {
      try {
        const done = await callOperation(row, operationOf(row, name), {title, danger: name !== "forget"});
        if (!done) return;
        note(`${row.name}: done.`);
        await look();
      } catch (error) {
        noteError(error);
      }
    });
    return node;
  }

  function actions(row) {
    if (row.branch_state === "prepared") return h("span", {class: "actions"}, settle(row, "commit", "Commit"), settle(row, "rollback", "Roll back"));
    return h("span", {class: "actions"}, SETTLED.has(row.branch_state) ? settle(row, "forget", "Forget") : null);
  }

  const list = table({
    caption: "Transactions",
    key: (row) => row.names.join("/"),
    empty: "There are no branches of distributed transactions.",
    columns: [
      {name: "name", label: "Branch", cell: (row) => format.name(row.name)},
      {name: "host", label: "Host", narrow: true, cell: (row) => format.name(row.names[1])},
      {name: "state", label: "State", cell: (row) => h("span", {class: `chip ${row.branch_state === "prepared" ? "warn" : "off"}`}, row.branch_state === "prepared" ? "in doubt" : row.branch_state.replaceAll("_", " "))},
      {name: "since", label: "Prepared", cell: (row) => format.time(row.prepared_at_ms)},
      {name: "sent", label: "Adds", number: true, cell: (row) => format.count(row.sent)},
      {name: "received", label: "Takes away", number: true, cell: (row) => format.count(row.received)},
      {name: "act", label: "Settle", cell: actions},
    ],
  });
  replace(main,
    h("h1", {}, "Transactions"),
    h("p", {class: "lead"}, "A branch that is prepared is in doubt until its coordinator decides. Ask the coordinator’s log before you settle one in its place."),
    h("section", {class: "card"}, list.element));
  look = async () => {
    const page = await api.get("transaction", [], {limit: 500}, signal);
    if (!signal.aborted) list.update(page.items);
  };
  await look();
  poll(signal, 2000, look);
}

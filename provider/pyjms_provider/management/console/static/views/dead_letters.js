// Messages that were given up: where, why, and the way back.

import * as api from "../api.js";
import {ask, note, noteError, problemBox, progressInto} from "../dialog.js";
import {freshId, h, replace} from "../dom.js";
import * as format from "../format.js";
import {poll} from "../live.js";
import {NO_ID, facts, idShown, messageParts, preview, storyLink, withKeys} from "../message.js";
import * as model from "../model.js";
import {callOperation, operationOf} from "../objects.js";
import {pageStarts, pager, table} from "../table.js";

const PAGE = 50;
const KINDS = {
  rejected: "rejected by its receiver",
  deliveries: "delivered too often",
  expired: "out of time",
};

function action(text, act, kind = "quiet") {
  const node = h("button", {type: "button", class: kind});
  node.textContent = text;
  node.addEventListener("click", () => Promise.resolve(act()).catch(noteError));
  return node;
}

export async function deadLettersView({main, signal}) {
  const list = table({
    caption: "Queues of dead letters",
    key: (row) => row.names.join("/"),
    href: (row) => model.linkTo("dead_letter", row.names, "letters"),
    empty: "No queue has dead letters yet: nothing was given up.",
    columns: [
      {name: "name", label: "Queue", cell: (row) => format.name(row.name)},
      {name: "host", label: "Host", cell: (row) => format.name(row.names[1])},
      {name: "letters", label: "Letters", number: true, cell: (row) => format.count(row.letters)},
    ],
  });
  replace(main,
    h("h1", {}, "Dead letters"),
    h("p", {class: "lead"}, "Messages that were rejected, delivered too often, or that expired. They can go back to where they came from."),
    h("section", {class: "card"}, list.element));
  const look = async () => {
    const page = await api.get("dead_letter", [], {fields: "name,names,letters", limit: 500}, signal);
    if (!signal.aborted) list.update(page.items);
  };
  await look();
  poll(signal, 2000, look);
}

function letterColumns(open) {
  return [
    {name: "id", label: "Message", cell: (row) => h("button", {type: "button", class: "link", on: {click: () => open(row)}}, idShown(row.message.id))},
    {name: "kind", label: "Why", cell: (row) => h("span", {class: `chip ${row.kind === null ? "off" : "warn"}`}, KINDS[row.kind] ?? "no dead letter")},
    {name: "reason", label: "Reason", cell: (row) => h("bdi", {class: "preview"}, row.reason ?? "")},
    {name: "from", label: "Came from", cell: (row) => format.name(row.subscription ?? row.came_from ?? "–")},
    {name: "deliveries", label: "Deliveries", number: true, narrow: true, cell: (row) => format.count(row.deliveries)},
    {name: "at", label: "When", narrow: true, cell: (row) => h("span", {class: "time"}, format.time(row.at_ms))},
    {name: "begins", label: "Begins", narrow: true, cell: (row) => h("bdi", {class: "preview"}, preview(row.message.body))},
  ];
}

function letterFacts(letter) {
  return facts([
    ["Why", KINDS[letter.kind] ?? "this message is no dead letter"],
    ["Reason", letter.reason],
    ["Came from", letter.came_from],
    ["Subscription", letter.subscription],
    ["Deliveries", letter.deliveries],
    ["Last receiver", letter.consumer],
    ["When", letter.at_ms === null ? null : format.time(letter.at_ms)],
  ]);
}

// Says first what would become of the letters, and sends them back when that is wanted.
async function replay(office, args) {
  const would = await api.operate("dead_letter", office.names, "replay", {...args, dry_run: true});
  const left = would.left === 0 ? "" : ` ${format.count(would.left)} stay here: where they came from is gone, or they are no dead letters.`;
  const done = await ask({
    title: "Replay dead letters?",
    body: h("p", {}, `${format.count(would.returned)} go back to where they came from.${left}`),
    confirm: "Replay",
    act: ({signal, status}) => api.runJob("dead_letter", office.names, "replay", args, {signal, onProgress: progressInto(status)}),
  });
  if (done) note(`${format.count(done.returned)} went back, ${format.count(done.left)} stayed.`);
  return done;
}

export async function deadLetterView({main, names, signal}) {
  const office = await api.get("dead_letter", names, {}, signal);
  const queue = await api.get("queue", names, {}, signal);
  const id = freshId("selector");
  const selector = h("input", {type: "text", id, "data-key": "filter", spellcheck: "false", autocomplete: "off", placeholder: "a JMS selector"});
  const problems = h("div", {});
  const detail = h("section", {class: "card detail", "aria-label": "Dead letter", hidden: true, tabindex: "-1"});
  const forPicked = h("div", {class: "actions picked", hidden: true});
  const reasons = h("div", {class: "reasons"});
  const starts = pageStarts();
  let letters = [];

  function open(letter) {
    replace(detail,
      h("div", {class: "title"}, h("h2", {}, "Dead letter"), storyLink(office.names, letter.message.id), action("Close", () => { detail.hidden = true; element.classList.remove("is-open"); })),
      letterFacts(letter), h("h3", {}, "The message"), messageParts(letter.message));
    detail.hidden = false;
    element.classList.add("is-open");
    detail.focus();
  }

  const list = table({caption: "Dead letters", key: (row) => row.key, columns: letterColumns(open), empty: "There are no letters.", select: (keys) => { forPicked.hidden = keys.length === 0; }, unpickable: (row) => (row.message.id === null ? NO_ID : null)});
  const pickedIds = () => {
    const keys = new Set(list.picked());
    return [...new Set(letters.filter((each) => keys.has(each.key)).map((each) => each.message.id))];
  };
  const pages = pager((step) => {
    starts.go(step, letters.length);
    look().catch(noteError);
  });

  async function look() {
    replace(problems);
    try {
      const args = {selector: selector.value.trim() || null, offset: starts.now(), limit: PAGE};
      const [page, counted] = await Promise.all([
        api.operate("dead_letter", office.names, "list_letters", args, signal),
        api.get("dead_letter", office.names, {fields: "reasons"}, signal),
      ]);
      if (signal.aborted) return;
      letters = withKeys(page.letters, (each) => each.message.id);
      list.update(letters);
      pages.update({offset: starts.now(), shown: page.letters.length, hasMore: page.has_more});
      replace(reasons, Object.entries(counted.reasons).map(([kind, many]) => h("span", {class: "chip warn"}, `${format.count(many)} ${KINDS[kind] ?? "no dead letters"}`)));
    } catch (error) {
      if (error.code === undefined) throw error;
      replace(problems, problemBox(error));
    }
  }

  const again = async (done) => {
    if (!done) return;
    list.clearPicks();
    detail.hidden = true;
    element.classList.remove("is-open");
    await look();
  };
  const remove = async () => {
    const ids = pickedIds();
    await again(await callOperation(queue, operationOf(queue, "delete_messages"), {title: "Delete", danger: true, preset: {message_ids: ids, selector: null}, intro: `This deletes ${format.counted(ids.length, "dead letter")}. There is no way back.`}));
  };
  replace(forPicked,
    action("Replay these…", async () => again(await replay(office, {message_ids: pickedIds()})), "main"),
    action("Delete these…", remove, "danger"));
  const form = h("form", {class: "bar"}, h("label", {for: id, class: "unseen"}, "Selector"), selector, h("button", {type: "submit", class: "quiet"}, "Filter"), reasons);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    starts.reset();
    look().catch(noteError);
  });
  const all = action("Replay all…", async () => again(await replay(office, {selector: selector.value.trim() || null})), "main");
  all.id = "replay-all";
  const refresh = action("Look again", look);
  refresh.dataset.key = "refresh";
  const element = h("div", {class: "browser"},
    h("section", {class: "card"}, h("div", {class: "title"}, h("h2", {}, "Letters"), h("div", {class: "actions"}, forPicked, refresh)), form, problems, list.element, pages.element),
    detail);
  replace(main,
    h("p", {class: "crumbs"}, h("a", {href: "#/dead"}, "Dead letters")),
    h("div", {class: "title"}, h("h1", {}, format.name(office.name)),
      h("div", {class: "actions"}, all, h("a", {class: "button quiet", href: model.linkTo("queue", office.names, "queue")}, "As a queue"))),
    element);
  await look();
}

// The frame around the views: who is there, where one can go, what is shown.

import * as api from "./api.js";
import {h, replace, setText} from "./dom.js";
import {noteError, problemBox} from "./dialog.js";
import {installKeys, showKeys} from "./keys.js";
import {onConnection} from "./live.js";
import {askWho, logInPage} from "./login.js";
import * as model from "./model.js";
import {applyTheme, nextTheme, themeNow} from "./theme.js";
import {clusterView} from "./views/cluster.js";
import {connectionsView} from "./views/connections.js";
import {consumersView, subscriptionsView, topicsView, usersView} from "./views/lists.js";
import {deadLetterView, deadLettersView} from "./views/dead_letters.js";
import {instanceView} from "./views/instance.js";
import {overviewView} from "./views/overview.js";
import {queueView} from "./views/queue.js";
import {queuesView} from "./views/queues.js";
import {routesView} from "./views/routes.js";
import {storyView} from "./views/story.js";
import {transactionsView} from "./views/transactions.js";
import {treeView} from "./views/tree.js";
import {workflowView, workflowsView} from "./views/workflows.js";

const VIEWS = {
  overview: {title: "Overview", key: "o", show: overviewView},
  queues: {title: "Queues", key: "q", show: queuesView},
  dead: {title: "Dead letters", key: "d", show: deadLettersView},
  topics: {title: "Topics", key: "p", show: topicsView},
  subscriptions: {title: "Subscriptions", key: "s", show: subscriptionsView},
  connections: {title: "Connections", key: "c", show: connectionsView},
  consumers: {title: "Consumers", key: "m", show: consumersView},
  transactions: {title: "Transactions", key: "t", show: transactionsView},
  cluster: {title: "Cluster", key: "l", show: clusterView},
  routes: {title: "Routes", key: "r", show: routesView},
  workflows: {title: "Workflows", key: "w", show: workflowsView},
  users: {title: "Users", key: "u", show: usersView},
  tree: {title: "All objects", key: "a", show: treeView},
};
const INNER = {
  queue: {under: "queues", show: queueView},
  letters: {under: "dead", show: deadLetterView},
  story: {under: "queues", show: storyView},
  workflow: {under: "workflows", show: workflowView},
  instance: {under: "workflows", show: instanceView},
};

const app = document.getElementById("app");
let shown = null;

function place() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter((part) => part !== "");
  try {
    return {view: parts[0] ?? "overview", names: parts.slice(1).map(decodeURIComponent), query: new URLSearchParams(query)};
  } catch {
    return {view: "overview", names: [], query: new URLSearchParams()};
  }
}

function navigation() {
  const links = Object.entries(VIEWS).map(([name, view]) =>
    h("a", {href: `#/${name}`, "data-view": name, "aria-keyshortcuts": `g ${view.key}`}, view.title));
  return h("nav", {class: "sections", "aria-label": "Sections"}, links);
}

function themeButton() {
  const button = h("button", {type: "button", class: "quiet", id: "theme"});
  const show = () => setText(button, `Theme: ${themeNow()}`);
  button.addEventListener("click", () => {
    nextTheme();
    show();
  });
  show();
  return button;
}

function person() {
  const {userName, token} = api.who();
  const name = h("span", {class: "person"}, h("bdi", {}, userName));
  if (token === null) return [name, h("button", {type: "button", class: "quiet", on: {click: () => askWho(begin)}}, "Log in")];
  const leave = async () => {
    try {
      await api.logOut();
    } catch (error) {
      noteError(error);
    }
    stop();
    logInPage(app, begin);
  };
  return [name, h("button", {type: "button", class: "quiet", id: "log-out", on: {click: leave}}, "Log out")];
}

function stop() {
  shown?.control.abort();
  shown = null;
}

function frame(brokerName) {
  const live = h("span", {class: "live", role: "status"}, "live");
  onConnection((error) => {
    live.className = error === null ? "live" : "live lost";
    setText(live, error === null ? "live" : error.message);
  });
  const main = h("main", {id: "main", tabindex: "-1"});
  const keys = h("button", {type: "button", class: "quiet", "aria-keyshortcuts": "?", on: {click: () => showKeys(VIEWS)}}, "Keys");
  replace(app,
    h("header", {class: "top"},
      h("a", {class: "brand", href: "#/overview"}, h("img", {src: "/console/icon.svg", alt: "", width: 26, height: 26}), h("bdi", {}, brokerName)),
      live,
      h("div", {class: "tools"}, keys, themeButton(), person())),
    h("div", {class: "columns"}, navigation(), main));
  return main;
}

async function show(main, {keepFocus = false} = {}) {
  stop();
  const {view, names, query} = place();
  const inner = INNER[view];
  const found = inner ?? VIEWS[view] ?? VIEWS.overview;
  const under = inner?.under ?? (VIEWS[view] ? view : "overview");
  for (const link of document.querySelectorAll(".sections a")) {
    if (link.dataset.view === under) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const control = new AbortController();
  const own = {control};
  shown = own;
  const part = h("div", {class: `view view-${view}`});
  replace(main, part);
  const again = () => show(main, {keepFocus: true});
  try {
    await found.show({main: part, names, query, signal: control.signal, again});
  } catch (error) {
    if (shown !== own) return;
    if (error.code === undefined) throw error;
    replace(part, h("h1", {}, "This cannot be shown"), problemBox(error), h("p", {}, h("a", {href: `#/${under}`}, "Back")));
  }
  if (shown !== own) return;
  const heading = part.querySelector("h1");
  document.title = `${heading?.textContent ?? "pyjms"} · ${main.dataset.broker}`;
  if (!keepFocus && heading !== null && document.activeElement === document.body) {
    heading.tabIndex = -1;
    heading.focus({preventScroll: true});
  }
}

async function start() {
  await api.identify();
  await model.load();
  const broker = await api.get("broker", [], {fields: "name"});
  const main = frame(broker.name);
  main.dataset.broker = broker.name;
  window.onhashchange = () => {
    document.activeElement?.blur();
    scrollTo(0, 0);
    show(main);
  };
  installKeys(VIEWS);
  await show(main);
}

async function begin() {
  try {
    await start();
  } catch (error) {
    if (error.status !== 403) throw error;
    refuse(error);
  }
}

// What is shown where nothing can be: also to who may log in, and not look at the broker. They can become somebody else.
function refuse(error) {
  const isRefused = error.status === 403;
  replace(app, h("main", {class: "login", id: "main"},
    h("h1", {}, isRefused ? "The console is for those who may look at the broker" : "The broker cannot be reached"),
    isRefused ? h("p", {}, "It needs the right to observe the broker. What else you may do, you can do by the API, or ask your administrator for that right.") : null,
    problemBox(error),
    h("div", {class: "actions"},
      h("button", {type: "button", class: "main", on: {click: () => location.reload()}}, "Try again"),
      api.who().userName === null ? null : person())));
}

// The broker says that nobody is logged in any more: whoever it was stays where they are, and logs in again.
let isAsking = false;
api.who().onEnded = () => {
  if (isAsking || app.childElementCount === 0 || app.querySelector(".login") !== null) return;
  isAsking = true;
  stop();
  askWho(begin, "Your session has ended. Log in again to go on.").catch(noteError).finally(() => { isAsking = false; });
};

applyTheme();
try {
  await begin();
} catch (error) {
  if (error.status === 401) logInPage(app, begin);
  else if (error.code !== undefined) refuse(error);
  else throw error;
}

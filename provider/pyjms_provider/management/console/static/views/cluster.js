// The clusters whose virtual hosts are here: members, shards, and which member leads which shard.

import * as api from "../api.js";
import {h, replace} from "../dom.js";
import * as format from "../format.js";
import {poll} from "../live.js";
import * as model from "../model.js";
import {table} from "../table.js";

function stateOf(member) {
  if (!member.is_alive) return h("span", {class: "chip bad"}, "dead");
  if (member.is_leaving) return h("span", {class: "chip warn"}, "leaving");
  return h("span", {class: "chip good"}, "alive");
}

function leaderOf(shard) {
  if (shard.leader === null) return h("span", {class: "chip bad"}, "none");
  if (shard.restoring) return h("span", {}, format.name(shard.leader), " ", h("span", {class: "chip warn"}, "reads its store"));
  return format.name(shard.leader);
}

// One cluster: a card with its tables, which `look` brings up to date.
function clusterCard(host) {
  const members = table({
    caption: "Members",
    key: (row) => row.incarnation,
    empty: "No member is known.",
    columns: [
      {name: "name", label: "Member", cell: (row) => format.name(row.name)},
      {name: "state", label: "State", cell: stateOf},
      {name: "address", label: "Address", narrow: true, cell: (row) => row.address},
      {name: "version", label: "Version", narrow: true, cell: (row) => row.version},
      {name: "joined", label: "Joined", narrow: true, cell: (row) => format.time(row.joined_ms)},
      {name: "heartbeat", label: "Heartbeat", cell: (row) => `${(row.heartbeat_age_ms / 1000).toFixed(1)} s ago`},
      {name: "shards", label: "Leads", cell: (row) => row.shards.join(", ") || "–"},
    ],
  });
  const totals = table({
    caption: "What the members have",
    key: (row) => row.member ?? "",
    empty: "Not known: a shard has no leader that answers.",
    columns: [
      {name: "member", label: "Member", cell: (row) => (row.member === null ? h("strong", {}, "All together") : format.name(row.member))},
      ...["connections", "queues", "consumers", "waiting", "held", "arrived", "departed"].map((name) => (
        {name, label: name[0].toUpperCase() + name.slice(1), number: true, cell: (row) => format.count(row[name])})),
    ],
  });
  const shards = table({
    caption: "Shards",
    key: (row) => String(row.number),
    empty: "There are no shards.",
    columns: [
      {name: "number", label: "Shard", number: true, cell: (row) => String(row.number)},
      {name: "leader", label: "Leader", cell: leaderOf},
      {name: "since", label: "Since", cell: (row) => (row.since_ms === null ? "–" : format.time(row.since_ms))},
      {name: "terms", label: "Leaders so far", number: true, cell: (row) => format.count(row.terms)},
    ],
  });
  const undecided = h("p", {});
  const element = h("section", {class: "card"},
    h("h2", {}, "Cluster ", format.name(host.cluster), " of ", h("a", {href: model.linkTo("virtual_host", host.names)}, format.name(host.name))),
    h("h3", {}, "Members"), members.element,
    h("h3", {}, "Messages"), totals.element,
    h("h3", {}, "Shards"), shards.element,
    undecided);
  return {
    element,
    async look(signal) {
      const status = await api.operate("virtual_host", host.names, "cluster_status", {}, signal);
      if (signal.aborted) return;
      members.update(status.members);
      shards.update(status.shards);
      // After the members and leaders: the numbers wait for a shard that has no leader just now.
      const numbers = api.operate("virtual_host", host.names, "cluster_totals", {}, signal)
        .then((found) => [...found.members, found.total], () => []);
      const known = await Promise.race([numbers, new Promise((done) => { setTimeout(() => done(null), 1500); })]);
      if (signal.aborted) return;
      if (known !== null) totals.update(known);
      replace(undecided, `${format.counted(status.undecided, "transaction")} over several shards not yet applied by all of them.`);
    },
  };
}

export async function clusterView({main, signal}) {
  const {items} = await api.get("virtual_host", [], {fields: "name,names,cluster,state", limit: 1000}, signal);
  const hosts = items.filter((each) => each.cluster && each.state === "active");
  const cards = hosts.map(clusterCard);
  const look = async () => { await Promise.all(cards.map((each) => each.look(signal))); };
  replace(main,
    h("h1", {}, "Cluster"),
    h("p", {class: "lead"}, "The brokers that serve a virtual host together, its shards, and which member leads which. The queues of all shards are below the virtual host, at each of its members."),
    cards.length === 0
      ? h("section", {class: "card"}, h("p", {class: "empty"}, "No virtual host that runs here is served by a cluster."))
      : cards.map((each) => each.element));
  await look();
  if (cards.length > 0) poll(signal, 2000, look);
}

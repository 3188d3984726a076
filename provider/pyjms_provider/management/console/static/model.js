// What the broker says of its own tree: categories, attributes, statistics and operations.

import * as api from "./api.js";

let categories = new Map();

export async function load() {
  const {categories: found} = await api.description();
  categories = new Map(found.map((each) => [each.category, each]));
}

export function categoryOf(category) {
  return categories.get(category);
}

export function childrenOf(category) {
  return [...categories.values()].filter((each) => each.parent === category);
}

export function kindOf(category, type) {
  const shape = categories.get(category);
  return shape.kinds.find((kind) => kind.types.includes(type)) ?? shape.kinds[0];
}

export function typesOf(category) {
  return categories.get(category).kinds.flatMap((kind) => kind.types).filter((type) => type !== "");
}

// The address of an object's parent: its category and names; null for the broker.
export function parentOf(category, names) {
  const parent = categories.get(category)?.parent ?? null;
  return parent === null ? null : {category: parent, names: names.slice(0, -1)};
}

export function linkTo(category, names, view = "tree") {
  return `#/${[view, ...(view === "tree" ? [category] : []), ...names].map(encodeURIComponent).join("/")}`;
}

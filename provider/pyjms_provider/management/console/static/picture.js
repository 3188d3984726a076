// Pictures that the broker draws. They are made anew of the few shapes that they consist of: whatever else a picture may hold is left out.

import {svg} from "./dom.js";

const SHAPES = new Set(["svg", "title", "defs", "marker", "g", "rect", "path", "text"]);
const MEASURES = new Set(["viewBox", "width", "height", "x", "y", "rx", "d", "class", "id", "refX", "refY", "markerWidth", "markerHeight", "orient", "role"]);
const TIP = "url(#tip)";

function copy(node, isInMarker) {
  const properties = Object.fromEntries([...node.attributes].filter((each) => MEASURES.has(each.name)).map((each) => [each.name, each.value]));
  if (node.localName === "path" && !isInMarker) properties["marker-end"] = TIP;
  const below = [...node.children].filter((each) => SHAPES.has(each.localName));
  const text = node.children.length === 0 ? [node.textContent] : [];
  return svg(node.localName, properties, below.map((each) => copy(each, isInMarker || node.localName === "marker")), text);
}

// The picture as an element in the console's own colours; null for what is none. A style would be blocked, so it is taken out first.
export function picture(text) {
  const bare = text.replace(/<style>[^<]*<\/style>/g, "");
  const root = new DOMParser().parseFromString(bare, "image/svg+xml").documentElement;
  return root.localName === "svg" ? copy(root, false) : null;
}

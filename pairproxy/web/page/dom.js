// The page is described as a tree and the document made like it, changing as little as possible: focus, scrolling
// and what a screen reader reads stay where they are. Text only ever becomes text, whoever wrote it.

const SVG = "http://www.w3.org/2000/svg";

/** An element to be: attributes (key: kept by it; on*: a handler; draw: called with the node), then its content. */
export function h(tag, attributes, ...kids) {
  const { key, draw, ...rest } = attributes ?? {};
  return { tag, key, draw, attributes: rest, kids: flat(kids) };
}

const flat = (kids) =>
  kids.flat(Infinity).filter((kid) => kid !== null && kid !== undefined && kid !== false && kid !== "");

/** Make the children of `parent` those described. */
export function render(parent, ...described) {
  const kids = flat(described);
  const wanted = new Set(kids.map((kid) => kid.key).filter((key) => key !== undefined));
  const keyed = new Map();
  for (const node of [...parent.childNodes]) {
    if (node.pageKey === undefined) continue;
    if (wanted.has(node.pageKey)) keyed.set(node.pageKey, node);
    else node.remove();
  }
  let at = parent.firstChild;
  for (const kid of kids) {
    let node = kid.key === undefined ? at : keyed.get(kid.key);
    if (!node || !isAlike(node, kid)) node = create(kid, parent);
    while (at && at !== node && node.parentNode === parent && at.pageKey === undefined) at = removed(at);
    if (node === at) at = at.nextSibling;
    else place(node, parent, at);
    update(node, kid);
  }
  while (at) at = removed(at);
}

/** Take a node away; returns what stood behind it. */
function removed(node) {
  const next = node.nextSibling;
  node.remove();
  return next;
}

/** Put a node before `at`; one that is moved would lose the focus within it. */
function place(node, parent, at) {
  const focused = node.contains(document.activeElement) ? document.activeElement : null;
  parent.insertBefore(node, at);
  focused?.focus({ preventScroll: true });
}

function isAlike(node, kid) {
  if (kid.tag === undefined) return node.nodeType === Node.TEXT_NODE;
  return node.nodeType === Node.ELEMENT_NODE && node.localName === kid.tag && node.pageKey === kid.key;
}

function create(kid, parent) {
  if (kid.tag === undefined) return document.createTextNode("");
  const isDrawing = kid.tag === "svg" || (parent.namespaceURI === SVG && parent.localName !== "foreignObject");
  const node = isDrawing ? document.createElementNS(SVG, kid.tag) : document.createElement(kid.tag);
  node.pageKey = kid.key;
  return node;
}

function update(node, kid) {
  if (kid.tag === undefined) {
    const text = String(kid);
    if (node.data !== text) node.data = text;
    return;
  }
  const before = node.pageMade ?? {};
  for (const name in before) if (!(name in kid.attributes)) set(node, name, null);
  for (const name in kid.attributes) if (kid.attributes[name] !== before[name]) set(node, name, kid.attributes[name]);
  node.pageMade = kid.attributes;
  if (kid.draw) kid.draw(node);
  else render(node, kid.kids);
}

function set(node, name, value) {
  if (name.startsWith("on")) node[name] = value;
  else if (name === "width%") node.style.width = value === null ? "" : `${value}%`;
  else if (value === null || value === undefined || value === false) node.removeAttribute(name);
  else node.setAttribute(name, value === true ? "" : value);
}

/** A table with named columns; the first cell of each row is its heading. Rows: {key, cells, attributes}. */
export function table(caption, columns, rows, attributes = {}) {
  const head = columns.map((column) => h("th", { scope: "col", class: column.kind ?? "" }, column.title ?? column));
  const body = rows.map((row) =>
    h("tr", { key: row.key, ...row.attributes }, row.cells.map((cell, index) => cellOf(cell, index, columns[index]))),
  );
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption, ...attributes },
    h("table", {}, h("caption", {}, caption), h("thead", {}, h("tr", {}, head)), h("tbody", {}, body)),
  );
}

function cellOf(cell, index, column) {
  const kind = column.kind ?? "";
  return index === 0 ? h("th", { scope: "row", class: kind }, cell) : h("td", { class: kind }, cell);
}

/** A short note: kind is "hint", "bad" or "good". */
export const note = (kind, ...kids) => h("p", { class: `note ${kind}` }, ...kids);

export const code = (text) => h("code", {}, text);

/** A list of terms and what they are; pairs without a value are left out. */
export const facts = (pairs) =>
  h(
    "dl",
    { class: "facts" },
    pairs.filter(([, value]) => value !== null && value !== undefined && value !== "").map(([term, value]) =>
      h("div", { key: term }, h("dt", {}, term), h("dd", {}, value)),
    ),
  );

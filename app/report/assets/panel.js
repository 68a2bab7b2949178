// The text of the side panel on a node.
const MARKS = { gone: "replaced", made: "made by a rewrite" };
const MOST_LINKS = 12;

const listed = (what, items) =>
  items.length ? element("div", {}, element("dt", {}, what), ...items.map((item) => element("dd", {}, item))) : "";

const few = (items, link) => [
  ...items.slice(0, MOST_LINKS).map(link),
  ...(items.length > MOST_LINKS ? [`and ${plural(items.length - MOST_LINKS, "more").replace(/s$/, "")}`] : []),
];

// `actions`: `go` to an original node by name, `enter` a body, `close`; `titleOf` a sheet.
const panelOf = (node, actions) => {
  const link = (text, press) => element("button", { type: "button", class: "link name", onclick: press }, visible(text));
  const openRewrite = (ordinal) => document.dispatchEvent(new CustomEvent("open-rewrite", { detail: ordinal }));
  const details = (node.details ?? []).filter((line) => line !== node.name).map((line) => element("span", { class: "detail name" }, visible(line)));
  return [
    element("button", { type: "button", class: "quiet close", "aria-label": "Close", onclick: actions.close }, "×"),
    element("h3", { class: "name" }, node.lines[0]),
    element("p", { class: "kind" }, node.kind, node.mark ? " " : "",
      node.mark ? element("span", { class: `badge ${node.mark}` }, MARKS[node.mark] ?? node.mark) : ""),
    element("dl", {},
      listed("name", node.name ? [element("span", { class: "detail name" }, visible(node.name))] : []),
      listed("attributes, inputs and outputs", details),
      listed("made by", node.rule ? [element("span", { class: "detail name" }, visible(node.rule))] : []),
      listed("original nodes", few(node.origin ?? [], (name) => link(name, () => actions.go(name)))),
      listed("touched by", few(node.rewrites ?? [], (ordinal) => link(`change #${ordinal}`, () => openRewrite(ordinal)))),
      listed("bodies", few(node.bodies ?? [], (sheet) => link(actions.titleOf(sheet), () => actions.enter(sheet))))),
  ];
};

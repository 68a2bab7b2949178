// The list of rewrites: rows when a rule is opened, pictures when a rewrite is.
const ROWS_AT_ONCE = 100;

const counted = (names) => {
  const counts = new Map();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts].map(([name, count]) => (count > 1 ? `${count} × ${name}` : name)).join(", ");
};

const savings = (rewrite) =>
  [
    rewrite.nodes ? `${rewrite.nodes > 0 ? "−" : "+"}${plural(Math.abs(rewrite.nodes), "node")}` : "",
    rewrite.bytes ? `${rewrite.bytes > 0 ? "−" : "+"}${bytes(Math.abs(rewrite.bytes))}` : "",
  ].filter(Boolean).join(", ");

const wordsOf = (rewrite) =>
  [rewrite.by, rewrite.pass, rewrite.equation, rewrite.place, ...rewrite.replaced, ...rewrite.made, `#${rewrite.ordinal}`]
    .join("\n").toLowerCase();

const picture = async ([sheaf, place], caption) => {
  const figure = element("figure", {}, element("figcaption", {}, caption));
  const drawing = document.createElement("template");
  drawing.innerHTML = (await blob(`pictures-${sheaf}`))[place];  // made by this program, its texts escaped
  figure.append(drawing.content);
  return figure;
};

const factsOf = (rewrite) => {
  const facts = [
    ["rule", rewrite.pass === rewrite.by ? rewrite.by : `${rewrite.pass}/${rewrite.by}`],
    ["equation", rewrite.equation],
    ["contract", rewrite.contract],
    ["place", rewrite.place],
    ["replaced", rewrite.replaced.join(", ")],
    ["made", rewrite.made.join(", ") || "nothing"],
    ["saved", savings(rewrite) || "nothing"],
  ].filter(([, said]) => said);
  return element("dl", { class: "reasons" }, ...facts.map(([what, said]) =>
    element("div", {}, element("dt", {}, what), element("dd", { class: "name" }, visible(said)))));
};

const fill = async (row, rewrite) => {
  const inside = element("div", { class: "open" }, factsOf(rewrite));
  row.append(inside);
  const sides = [["before", rewrite.before], ["after", rewrite.after]].filter(([, place]) => place !== null);
  if (sides.length) {
    const figures = await Promise.all(sides.map(([caption, place]) => picture(place, caption)));
    inside.append(element("div", { class: "pictures" }, ...figures));
  } else {
    inside.append(element("p", { class: "muted" }, "No picture: there were too many changes to draw them all."));
  }
  if (!hasBlob("graph")) return;
  const show = () => document.dispatchEvent(new CustomEvent("show-change", { detail: rewrite }));
  inside.append(element("p", { class: "actions" }, element("button", { type: "button", class: "button", onclick: show }, "Show in the graph")));
};

const rowOf = (rewrite) => {
  const became = `${counted(rewrite.replaced) || "nothing"} → ${counted(rewrite.made) || "nothing"}`;
  const row = element("details", { class: "rewrite", id: `rewrite-${rewrite.ordinal}` }, element("summary", {},
    element("span", { class: "ordinal" }, `#${rewrite.ordinal}`),
    element("span", { class: "name" }, rewrite.place ? `at ${visible(rewrite.place)}` : visible(became)),
    element("span", { class: "saves" }, savings(rewrite))));
  row.addEventListener("toggle", () => row.open && !row.querySelector(".open") && fill(row, rewrite));
  return row;
};

class RuleList {
  constructor(details, rewrites) {
    this.details = details;
    this.rewrites = details.dataset.rewrites.split(" ").map((place) => rewrites[Number(place)]);
    this.words = this.rewrites.map(wordsOf);
    this.list = details.querySelector(".list");
    this.chosen = this.rewrites;
    const fillOnce = () => details.open && !this.list.childElementCount && this.show(0);
    details.addEventListener("toggle", fillOnce);
    fillOnce();  // it may have been opened while the data was unpacked
  }

  filter(text) {
    this.chosen = text ? this.rewrites.filter((_, place) => this.words[place].includes(text)) : this.rewrites;
    this.details.hidden = this.chosen.length === 0;
    this.details.querySelector(".tally b").textContent = this.chosen.length.toLocaleString("en");
    this.list.replaceChildren();
    if (this.details.open) this.show(0);
    return this.chosen.length;
  }

  show(from) {
    this.list.querySelector(".more")?.remove();
    const upTo = from + ROWS_AT_ONCE;
    this.list.append(...this.chosen.slice(from, upTo).map(rowOf));
    if (upTo >= this.chosen.length) return;
    const left = `Show more (${plural(this.chosen.length - upTo, "rewrite")} left)`;
    this.list.append(element("button", { type: "button", class: "button more", onclick: () => this.show(upTo) }, left));
  }

  open(rewrite) {
    this.details.open = true;
    const place = this.chosen.indexOf(rewrite);
    for (let from = this.list.querySelectorAll(".rewrite").length; from <= place; from += ROWS_AT_ONCE) this.show(from);
    const row = byId(`rewrite-${rewrite.ordinal}`);
    row.open = true;
    row.querySelector("summary").focus({ preventScroll: true });
    row.scrollIntoView({ block: "start" });
  }
}

const startRewrites = async () => {
  if (!hasBlob("rewrites")) return;
  const rewrites = await blob("rewrites");
  const lists = [...document.querySelectorAll("#rules .rule")].map((details) => new RuleList(details, rewrites));
  const filter = (text) => {
    const found = lists.reduce((sum, list) => sum + list.filter(text.trim().toLowerCase()), 0);
    byId("filtered").textContent = text.trim() ? `${found.toLocaleString("en")} of ${plural(rewrites.length, "rewrite")}` : "";
  };
  byId("filter").addEventListener("input", () => filter(byId("filter").value));
  if (byId("filter").value) filter(byId("filter").value);
  document.addEventListener("open-rewrite", ({ detail: ordinal }) => {
    const rewrite = rewrites.find((one) => one.ordinal === ordinal);
    if (!rewrite) return;
    byId("filter").value = "";
    filter("");
    lists.find((list) => list.rewrites.includes(rewrite)).open(rewrite);
  });
};

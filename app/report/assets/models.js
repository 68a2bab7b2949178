// The table of all models of a batch: filtered by text and outcome, sorted by a column, shown some hundred at a time.
const MODELS_AT_ONCE = 200;
const FORMATS = { bytes_before: bytes, bytes_after: bytes, seconds: duration };

const cellText = (column, value) => {
  if (value === null || value === undefined) return "";
  if (typeof value === "string") return visible(value);
  return FORMATS[column]?.(value) ?? (Number.isInteger(value) ? value.toLocaleString("en") : String(Number(value.toPrecision(3))));
};

class ModelTable {
  constructor({ columns, rows, rules }) {
    Object.assign(this, { columns, rows, sorted: null, isDown: false });
    const wordsOf = (row, place) => [...row.filter((cell) => typeof cell === "string"), rules[place]].join("\n").toLowerCase();
    this.words = new Map(rows.map((row, place) => [row, wordsOf(row, place)]));
    this.outcome = columns.indexOf("outcome");
    this.isNumber = columns.map((_, place) => rows.some((row) => typeof row[place] === "number"));
    this.body = byId("models-body");
    byId("models-head").replaceChildren(...columns.map((name, place) => this.heading(name, place)));
    byId("models-filter").addEventListener("input", () => this.choose());
    byId("models-outcome").addEventListener("change", () => this.choose());
    this.choose();
  }

  heading(name, place) {
    const sort = element("button", { type: "button", class: "sort", onclick: () => this.sort(place) }, name.replaceAll("_", " "));
    return element("th", { scope: "col", class: this.isNumber[place] ? "number" : undefined }, sort);
  }

  // Numbers begin with the largest, texts with A; the same column again turns the order round.
  sort(place) {
    this.isDown = this.sorted === place ? !this.isDown : this.isNumber[place];
    this.sorted = place;
    const headings = [...byId("models-head").children];
    headings.forEach((heading) => heading.removeAttribute("aria-sort"));
    headings[place].setAttribute("aria-sort", this.isDown ? "descending" : "ascending");
    this.choose();
  }

  choose() {
    const text = byId("models-filter").value.trim().toLowerCase();
    const outcome = byId("models-outcome").value;
    const fits = (row) => (!outcome || row[this.outcome] === outcome) && this.words.get(row).includes(text);
    this.chosen = this.rows.filter(fits);
    if (this.sorted !== null) this.chosen.sort((a, b) => this.compare(a[this.sorted], b[this.sorted]));
    const isPart = this.chosen.length < this.rows.length;
    byId("models-count").textContent = isPart ? `${this.chosen.length.toLocaleString("en")} of ${plural(this.rows.length, "model")}` : "";
    this.body.replaceChildren();
    this.show(0);
  }

  // Empty cells come last in either order.
  compare(a, b) {
    if (a === null || b === null) return (a === null) - (b === null);
    const order = typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true });
    return this.isDown ? -order : order;
  }

  show(from) {
    const upTo = from + MODELS_AT_ONCE;
    this.body.append(...this.chosen.slice(from, upTo).map((row) => this.row(row)));
    const left = this.chosen.length - upTo;
    const more = element("button", { type: "button", class: "button more", onclick: () => this.show(upTo) },
      `Show more (${plural(left, "model")} left)`);
    byId("models-more").replaceChildren(...(left > 0 ? [more] : []));
  }

  row(cells) {
    const [name, ...others] = cells.map((cell, place) => cellText(this.columns[place], cell));
    const isFailure = cells[this.columns.indexOf("error")] ?? null;
    return element("tr", { class: isFailure ? "wrong" : "plain" }, element("th", { scope: "row", class: "name" }, name),
      ...others.map((text, place) => element("td", { class: this.isNumber[place + 1] ? "number" : "said" }, text)));
  }
}

const startModels = async () => {
  if (hasBlob("models")) new ModelTable(await blob("models"));
};

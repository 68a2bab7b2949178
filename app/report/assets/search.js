// Finding nodes of one side of the graph, in all of its sheets.
const searched = (node) => [node.name, node.title, node.rule ?? ""].join("\n").toLowerCase();

const hitsOf = (sheets, fits) =>
  sheets.flatMap((sheet, number) =>
    sheet.nodes.flatMap((node, place) => (fits(node) ? [{ sheet: number, place }] : [])));

class Search {
  constructor(go) {
    Object.assign(this, { go, hits: [], current: -1, what: "", text: "" });
    this.input = byId("search");
    this.input.addEventListener("input", () => this.find());
    this.input.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      this.step(event.shiftKey ? -1 : 1);
    });
    this.input.form.addEventListener("submit", (event) => event.preventDefault());
    byId("previous").addEventListener("click", () => this.step(-1));
    this.input.form.querySelector("[type=submit]").addEventListener("click", () => this.step(1));
  }

  // Sets the texts to search; a text already entered is searched again, and the view does not move.
  look(sheets) {
    this.sheets = sheets;
    if (this.text) this.set(hitsOf(sheets, (node) => searched(node).includes(this.text)));
    else this.set([]);
  }

  find() {
    this.text = this.input.value.trim().toLowerCase();
    this.look(this.sheets);
    if (this.hits.length) this.step(1);
    else this.go(null);
  }

  // Hits that were not typed, such as the nodes of one change.
  choose(hits, what) {
    this.text = this.input.value = "";
    this.set(hits, what);
    this.step(1);
  }

  set(hits, what = "") {
    Object.assign(this, { hits, what, current: -1 });
    this.tell();
  }

  step(by) {
    if (!this.hits.length) return;
    const from = this.current < 0 && by < 0 ? 0 : this.current;
    this.current = (from + by + this.hits.length) % this.hits.length;
    this.tell();
    this.go(this.hits[this.current]);
  }

  tell() {
    const count = this.hits.length;
    const place = this.current >= 0 ? `${this.current + 1} of ${count}` : plural(count, "hit");
    const said = count ? place : this.text ? "nothing" : "";
    byId("hits").textContent = this.what && said ? `${this.what}: ${said}` : said;
  }

  placesOn(sheet) {
    return this.hits.filter((hit) => hit.sheet === sheet).map((hit) => hit.place);
  }
}

// The graph view: the visible side and sheet, the selection, and how they change.
const MARGIN = 28;
const REST = 160;  // milliseconds after which a view that moved is painted in full

class GraphView {
  constructor(data) {
    Object.assign(this, { data, side: data.after.length ? "after" : "before", number: 0, selected: -1, scenes: new Map(), moving: false });
    for (const node of [...data.before, ...data.after].flatMap((sheet) => sheet.nodes)) {
      node.lines = node.title.split("\n").map(visible);
    }
    this.view = new Viewport(0.0005, 4);
    this.colours = coloursNow();
    this.stage = new Stage(byId("canvas"), this.view, (context) => this.paint(context));
    this.overview = new Overview(byId("overview"), this.view, () => this.move());
    this.search = new Search((hit) => this.visit(hit));
    this.steer();
    this.choices();
    this.show(this.side, 0);
    this.begin();
    byId("waiting").remove();
  }

  get sheets() { return this.data[this.side]; }

  get scene() {
    const sheet = this.sheets[this.number];
    if (!this.scenes.has(sheet)) this.scenes.set(sheet, new Scene(sheet));
    return this.scenes.get(sheet);
  }

  paint(context) {
    if (!this.search?.sheets) return;
    const look = { selected: this.selected, hits: this.search.placesOn(this.number), moving: this.moving };
    paintScene(context, this.scene, this.view, look, this.colours);
    this.overview.draw();
  }

  move() {
    this.moving = true;
    clearTimeout(this.resting);
    this.resting = setTimeout(() => { this.moving = false; this.stage.redraw(); }, REST);
    this.stage.redraw();
  }

  steer() {
    const moved = () => this.move();
    const canvas = byId("canvas");
    steer(canvas, this.view, {
      moved,
      fit: () => this.fit(),
      close: () => this.select(-1),
      clicked: (x, y) => this.select(this.scene.nodeAt(...this.view.toWorld(x, y))),
      hovered: (x, y) => canvas.classList.toggle("over", this.scene.nodeAt(...this.view.toWorld(x, y)) >= 0),
    });
    const press = (id, act) => byId(id).addEventListener("click", () => { act(); moved(); });
    press("zoom-in", () => this.zoom(1.4));
    press("zoom-out", () => this.zoom(1 / 1.4));
    press("fit", () => this.fit());
    press("full", () => (document.fullscreenElement ? document.exitFullscreen() : byId("viewer").requestFullscreen()));
    this.stage.resized = () => this.search && this.overview.show(this.scene, this.colours);
    document.addEventListener("scheme", () => this.repaint());
    document.addEventListener("show-change", ({ detail }) => this.showChange(detail));
  }

  // Zooms about the selected node, or the one nearest to the middle: of a long thin graph it is not to lose sight.
  zoom(factor) {
    const about = this.selected >= 0 ? this.selected : this.scene.nearest(...this.view.middle());
    const node = this.scene.nodes[about];
    const [x, y] = node ? this.view.toScreen(node.x, node.y) : [-1, -1];
    const isSeen = x >= 0 && x <= this.view.width && y >= 0 && y <= this.view.height;
    if (isSeen) this.view.zoom(factor, x, y);
    else this.view.zoom(factor);
  }

  choices() {
    for (const input of document.querySelectorAll("input[name=side]")) {
      input.disabled = !this.data[input.value].length;
      input.addEventListener("change", () => this.turn(input.value));
    }
    byId("sheet").addEventListener("change", () => { this.show(this.side, Number(byId("sheet").value)); this.begin(); });
  }

  repaint() {
    this.colours = coloursNow();
    this.overview.show(this.scene, this.colours);
    this.stage.redraw();
  }

  show(side, number) {
    const isOther = side !== this.side || !this.search.sheets;
    Object.assign(this, { side, number });
    if (isOther) this.search.look(this.sheets);
    document.querySelector(`input[name=side][value=${side}]`).checked = true;
    const options = this.sheets.map((sheet, place) => element("option", { value: place }, visible(sheet.title)));
    byId("sheet").replaceChildren(...options);
    byId("sheet").value = number;
    document.querySelector(".sheets").hidden = this.sheets.length < 2;
    this.legend();
    this.select(-1);
    this.overview.show(this.scene, this.colours);
  }

  legend() {
    const marks = this.side === "before" ? [["gone", "replaced by a rewrite"]] : [["made", "made by a rewrite"]];
    const shown = marks.filter(([mark]) => this.scene.looks.has(mark));
    const { nodes, sheet: { undrawn } } = this.scene;
    const rest = undrawn ? `the first of it: ${plural(undrawn, "op")} of this graph ${undrawn === 1 ? "is" : "are"} not drawn` : "";
    const facts = [plural(nodes.length, "node"), shown.length ? "" : "nothing changed here", rest].filter(Boolean);
    byId("marks").replaceChildren(
      ...shown.map(([mark, said]) => element("li", {}, element("span", { class: `swatch ${mark}` }), said)),
      element("li", {}, facts.join(", ")));
  }

  // The other side, at the same place: that of the selected node or of the nearest one with a name that is there too.
  turn(side) {
    const from = this.scene;
    const [x, y] = this.view.middle();
    const chosen = this.selected >= 0 ? this.selected : from.nearest(x, y);
    const name = from.nodes[chosen]?.name;
    const kept = this.selected >= 0;
    const [acrossShare, downShare] = [(x - from.box.left) / (from.box.width || 1), (y - from.box.top) / (from.box.height || 1)];
    const number = this.data[side].findIndex((sheet) => sheet.title === from.sheet.title);
    this.show(side, Math.max(number, 0));
    const place = this.scene.nodes.findIndex((node) => node.name === name);
    const { box } = this.scene;
    if (place >= 0) this.view.centre(this.scene.nodes[place].x, this.scene.nodes[place].y);
    else this.view.centre(box.left + acrossShare * box.width, box.top + downShare * box.height);
    if (kept && place >= 0) this.select(place);
    this.stage.redraw();
  }

  select(place) {
    this.selected = place;
    const side = byId("side");
    side.hidden = place < 0;
    if (place >= 0) {
      side.replaceChildren(...panelOf(this.scene.nodes[place], {
        close: () => { this.select(-1); byId("canvas").focus(); },
        go: (name) => this.showOrigin(name),
        enter: (sheet) => { this.show(this.side, sheet); this.begin(); },
        titleOf: (sheet) => this.sheets[sheet]?.title ?? "body",
      }));
      side.scrollTop = 0;
    }
    this.stage.redraw();
  }

  visit(hit) {
    if (hit === null) return this.select(-1);
    if (hit.sheet !== this.number) this.show(this.side, hit.sheet);
    const node = this.scene.nodes[hit.place];
    this.view.scale = Math.max(this.view.scale, 0.8);
    this.select(hit.place);
    this.view.centre(node.x, node.y);
    this.uncover();
  }

  // Moves the center of the view to the center of the area that the side panel leaves free.
  uncover() {
    const side = byId("side");
    const below = side.offsetTop > this.view.height / 3;
    if (below) this.view.pan(0, -side.offsetHeight / 2);
    else this.view.pan((side.offsetLeft + side.offsetWidth - byId("overview").clientWidth) / 2, 0);
  }

  showOrigin(name) {
    this.show("before", this.number < this.data.before.length ? this.number : 0);
    this.search.choose(hitsOf(this.sheets, (node) => node.name === name), "");
  }

  // The nodes that a change made; where it made none, those that it replaced.
  showChange({ ordinal }) {
    const touched = (node) => node.rewrites?.includes(ordinal) ?? false;
    const side = ["after", "before"].find((one) => hitsOf(this.data[one], touched).length);
    byId("graph").scrollIntoView();
    if (!side) return this.search.choose([], "");
    if (side !== this.side) this.show(side, 0);
    this.search.choose(hitsOf(this.sheets, touched), `#${ordinal}`);
  }

  fit() {
    const { box } = this.scene;
    const room = [this.view.width - byId("overview").clientWidth - 2 * MARGIN, this.view.height - 2 * MARGIN];
    this.view.scale = Math.min(room[0] / box.width, room[1] / box.height, 1.2);
    this.view.centre(box.left + box.width / 2 + byId("overview").clientWidth / 2 / this.view.scale, box.top + box.height / 2);
    this.stage.redraw();
  }

  // All of it where that can be read, else its beginning.
  begin() {
    this.fit();
    if (this.view.scale >= READABLE) return;
    const { box, nodes } = this.scene;
    const highest = Math.min(...nodes.map((node) => node.y));
    const row = nodes.filter((node) => node.y === highest).sort((a, b) => a.x - b.x);
    const first = row[row.length >> 1] ?? { x: 0, y: 0 };
    this.view.scale = Math.min(0.85, Math.max(READABLE, (this.view.width - 100) / box.width));
    this.view.centre(first.x, 0);
    this.view.y = box.top - MARGIN / this.view.scale;
    this.stage.redraw();
  }
}

const startGraph = async () => {
  if (hasBlob("graph")) new GraphView(await blob("graph"));
};

// The timeline of a profile: a lane for each model, a box for each node.
const LANE = 46, LANE_GAP = 44, LANES_TOP = 40, SIDE_ROOM = 14;
const TYPES_WITH_COLOUR = 8;
const HUES = ["#5b6ee1", "#12937f", "#d2762d", "#b0529c", "#3d91c9", "#8d8a24", "#c6505a", "#7d6bc4"];

class Timeline {
  constructor(lanes) {
    Object.assign(this, { lanes, selected: null, longest: Math.max(...lanes.map((lane) => this.endOf(lane)), 1e-9) });
    this.hues = this.huesOf(lanes);
    this.colours = coloursNow();
    this.view = new Viewport(1, 1e12);
    byId("lanes").parentElement.style.height = `${LANES_TOP + lanes.length * (LANE + LANE_GAP)}px`;
    this.stage = new Stage(byId("lanes"), this.view, (context) => this.paint(context));
    this.stage.resized = () => this.fit();
    this.steer();
    this.legend();
    this.fit();
  }

  endOf(lane) {
    return lane.nodes.reduce((end, node) => Math.max(end, node.start + node.seconds), 0);
  }

  huesOf(lanes) {
    const sums = new Map();
    for (const node of lanes.flatMap((lane) => lane.nodes)) sums.set(node.op, (sums.get(node.op) ?? 0) + node.seconds);
    const ordered = [...sums].sort((a, b) => b[1] - a[1]).slice(0, TYPES_WITH_COLOUR);
    return new Map(ordered.map(([op], place) => [op, HUES[place]]));
  }

  legend() {
    const items = [...this.hues].map(([op, hue]) =>
      element("li", { class: "name" }, element("span", { class: "swatch", style: `background: ${hue}` }), visible(op)));
    byId("lane-legend").replaceChildren(...items, element("li", {}, element("span", { class: "swatch" }), "others"));
  }

  steer() {
    const canvas = byId("lanes");
    steer(canvas, this.view, {
      moved: () => { this.keep(); byId("tip").hidden = true; this.stage.redraw(); },
      fit: () => this.fit(),
      close: () => this.select(null),
      clicked: (x, y) => this.select(this.nodeAt(x, y)),
      hovered: (x, y) => this.hover(x, y),
    });
    document.addEventListener("scheme", () => { this.colours = coloursNow(); this.stage.redraw(); });
  }

  fit() {
    this.view.smallest = ((this.view.width - 2 * SIDE_ROOM) / this.longest) * 0.9;
    this.view.scale = (this.view.width - 2 * SIDE_ROOM) / this.longest;
    this.view.x = -SIDE_ROOM / this.view.scale;
    this.stage.redraw();
  }

  // Keeps the run in sight. Lanes do not move up and down.
  keep() {
    const { view } = this;
    const seen = view.width / view.scale;
    view.x = Math.min(Math.max(view.x, -0.1 * seen), Math.max(this.longest - 0.9 * seen, -0.1 * seen));
    view.y = 0;
  }

  topOf(lane) {
    return LANES_TOP + lane * (LANE + LANE_GAP);
  }

  nodeAt(x, y) {
    const number = this.lanes.findIndex((_, lane) => y >= this.topOf(lane) && y <= this.topOf(lane) + LANE);
    if (number < 0) return null;
    const time = this.view.x + x / this.view.scale;
    const isAt = (slack) => (n) => time >= n.start - slack && time <= n.start + n.seconds + slack;
    const { nodes } = this.lanes[number];
    const node = nodes.findLast(isAt(0)) ?? nodes.find(isAt(1.5 / this.view.scale));
    return node ? { lane: this.lanes[number], node } : null;
  }

  hover(x, y) {
    const found = this.nodeAt(x, y);
    const tip = byId("tip");
    byId("lanes").classList.toggle("over", found !== null);
    tip.hidden = found === null;
    if (!found) return;
    tip.textContent = `${visible(found.node.op)}  ${duration(found.node.seconds)}\n${visible(found.node.name)}`;
    tip.style.left = `${Math.min(x + 12, Math.max(this.view.width - tip.offsetWidth - 8, 0))}px`;
    tip.style.top = `${Math.min(y + 14, Math.max(this.view.height - tip.offsetHeight - 8, 0))}px`;
  }

  select(found) {
    this.selected = found?.node ?? null;
    const side = byId("lane-side");
    side.hidden = found === null;
    if (found) {
      const { node, lane } = found;
      const inLane = lane.nodes.reduce((sum, one) => sum + one.seconds, 0);
      const names = (list) => list.map((name) => element("span", { class: "detail name" }, visible(name)));
      side.replaceChildren(
        element("button", { type: "button", class: "quiet close", "aria-label": "Close", onclick: () => this.select(null) }, "×"),
        element("h3", { class: "name" }, visible(node.op)),
        element("p", { class: "kind name" }, visible(`${lane.label}, ${node.provider}`)),
        element("dl", {},
          listed("name", names([node.name])),
          listed("time", [`${duration(node.seconds)}, ${((100 * node.seconds) / (inLane || 1)).toFixed(1)} % of all nodes`]),
          listed("does the work of", names(node.file_nodes)),
          listed("in the original", names(node.origin)),
          listed("made by", names(node.rule ? [node.rule] : []))));
    }
    this.stage.redraw();
  }

  paint(context) {
    if (!this.hues) return;
    this.paintAxis(context);
    this.lanes.forEach((lane, number) => this.paintLane(context, lane, this.topOf(number)));
  }

  paintAxis(context) {
    const { view, colours } = this;
    const rough = (view.width / view.scale) / Math.max(view.width / 110, 2);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
    context.font = `12px ${getComputedStyle(document.body).fontFamily}`;
    context.textAlign = "left";
    context.textBaseline = "middle";
    for (let time = Math.max(Math.ceil(view.x / step), 0) * step; time <= view.x + view.width / view.scale; time += step) {
      const x = Math.round((time - view.x) * view.scale) + 0.5;
      context.fillStyle = colours.line;
      context.fillRect(x, 0, 1, view.height);
      context.fillStyle = colours.muted;
      const said = duration(Number(time.toPrecision(9)));
      if (x + 5 + context.measureText(said).width <= view.width) context.fillText(said, x + 5, 11);
    }
  }

  paintLane(context, lane, top) {
    const { view, colours } = this;
    context.font = `600 13px ${getComputedStyle(document.body).fontFamily}`;
    context.textAlign = "left";
    context.textBaseline = "alphabetic";
    context.fillStyle = colours.text;
    context.fillText(`${visible(lane.label)}  ${duration(lane.seconds)}`, SIDE_ROOM, top + LANE + 19);
    let painted = -Infinity;
    for (const node of lane.nodes) {
      const x = (node.start - view.x) * view.scale;
      const width = node.seconds * view.scale;
      if (x + width < 0 || x > view.width || (width < 1 && x + width < painted + 0.3)) continue;
      const left = Math.max(x, -2);
      const shown = Math.max(Math.min(x + width, view.width + 2) - left, 1);
      context.fillStyle = this.hues.get(node.op) ?? colours.before;
      context.fillRect(left, top, shown > 3 ? shown - 1 : shown, LANE);
      painted = Math.max(painted, x + width);
      if (node === this.selected) {
        context.strokeStyle = colours.text;
        context.lineWidth = 2.5;
        context.strokeRect(left - 1, top - 2, shown + 2, LANE + 4);
      }
      const letters = Math.floor((shown - 10) / 7);
      if (letters < 3) continue;
      context.fillStyle = "#ffffff";
      context.font = `600 12px ${MONO}`;
      context.fillText(cutEnd(visible(node.op), letters), left + 6, top + LANE / 2 + 4);
    }
  }
}

const startTimeline = async () => {
  if (hasBlob("lanes")) new Timeline(await blob("lanes"));
};

// Painting a scene: only its visible part, in as much detail as can be recognized.
const READABLE = 0.5, ROUNDED = 0.3, CURVED = 0.3;
const MOST_EDGES = 1200;  // while the view moves; all of them when it rests
const FONT = 12, LETTER = 7.3, LINE = 16, HEAD = 3.5;
const MONO = 'ui-monospace, "SF Mono", Menlo, Consolas, "Liberation Mono", monospace';

const STYLES = {
  op: { fill: "surface", stroke: "strong-line", far: "before" },
  constant: { fill: "sunken", stroke: "constant", far: "constant", dashes: [4, 3] },
  input: { fill: "accent-soft", stroke: "accent", far: "accent" },
  output: { fill: "accent-soft", stroke: "accent", far: "accent" },
  gone: { fill: "gone-soft", stroke: "gone", far: "gone", dashes: [6, 3], width: 1.6 },
  made: { fill: "made-soft", stroke: "made", far: "made", width: 2.2 },
};

const cutStart = (text, most) => (text.length <= most ? text : most > 1 ? `…${text.slice(1 - most)}` : "");
const cutEnd = (text, most) => (text.length <= most ? text : most > 1 ? `${text.slice(0, most - 1)}…` : "");

const trace = (context, points, curved) => {
  context.moveTo(points[0], points[1]);
  for (let i = 2; i < points.length; i += 2) {
    const [x0, y0, x1, y1] = [points[i - 2], points[i - 1], points[i], points[i + 1]];
    if (curved && x0 !== x1) context.bezierCurveTo(x0, (y0 + y1) / 2, x1, (y0 + y1) / 2, x1, y1);
    else context.lineTo(x1, y1);
  }
};

// Arrows where edges end, which come from above.
const paintHeads = (context, edges, colour) => {
  context.fillStyle = colour;
  context.beginPath();
  for (const { points } of edges) {
    const [x, y] = points.slice(-2);
    context.moveTo(x - HEAD, y - 2 * HEAD);
    context.lineTo(x + HEAD, y - 2 * HEAD);
    context.lineTo(x, y);
  }
  context.fill();
};

const edgesInSight = (scene, sight, pixel) =>
  scene.edges.filter((e) =>
    e.right >= sight.left && e.left <= sight.right && e.bottom >= sight.top && e.top <= sight.bottom &&
    (e.bottom - e.top >= pixel || e.right - e.left >= pixel));

const paintEdges = (context, scene, view, sight, look, colours) => {
  const pixel = 1 / view.scale;
  const edges = edgesInSight(scene, sight, pixel);
  const stride = look.moving ? Math.ceil(edges.length / MOST_EDGES) : 1;
  const curved = view.scale > CURVED;
  const near = [];
  context.strokeStyle = colours["strong-line"];
  context.lineWidth = Math.max(1.1, 0.75 * pixel);
  context.beginPath();
  for (const edge of edges) {
    if (edge.source === look.selected || edge.target === look.selected) near.push(edge);
    else if (stride === 1 || edge.number % stride === 0) trace(context, edge.points, curved);
  }
  context.stroke();
  if (view.scale >= READABLE) paintHeads(context, edges, colours["strong-line"]);
  if (!near.length) return;
  context.strokeStyle = colours.accent;
  context.lineWidth = Math.max(2, 1.6 * pixel);
  context.beginPath();
  for (const edge of near) trace(context, edge.points, curved);
  context.stroke();
  if (view.scale >= READABLE) paintHeads(context, near, colours.accent);
};

const paintBoxes = (context, nodes, view, style, colours) => {
  const pixel = 1 / view.scale;
  if (view.scale < ROUNDED) {
    const least = 1.3 * pixel;
    context.fillStyle = colours[style.far];
    for (const { x, y, width, height } of nodes) {
      const [w, h] = [Math.max(width, least), Math.max(height, least)];
      context.fillRect(x - w / 2, y - h / 2, w, h);
    }
    return;
  }
  context.beginPath();
  for (const { x, y, width, height } of nodes) context.roundRect(x - width / 2, y - height / 2, width, height, 6);
  context.fillStyle = colours[style.fill];
  context.fill();
  context.setLineDash(style.dashes ?? []);
  context.lineWidth = Math.max(style.width ?? 1.1, pixel);
  context.strokeStyle = colours[style.stroke];
  context.stroke();
  context.setLineDash([]);
};

// The lines of a node's title; an op that has but one is distinguished by its name, where the box has room for it.
const linesOf = (node) => {
  const isNamed = node.kind === "op" && node.lines.length === 1 && node.height >= 34 && node.name && node.name !== node.title;
  return isNamed ? [node.lines[0], cutStart(visible(node.name), Math.floor((node.width - 8) / LETTER))] : node.lines;
};

const paintLabels = (context, nodes, colours) => {
  const paintLine = (node, lines, n) => {
    const said = cutEnd(lines[n], Math.floor((node.width - 8) / LETTER));
    context.fillText(said, node.x, node.y + (n - (lines.length - 1) / 2) * LINE);
  };
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.fillStyle = colours.text;
  context.font = `600 ${FONT}px ${MONO}`;
  for (const node of nodes) paintLine(node, linesOf(node), 0);
  context.fillStyle = colours.muted;
  context.font = `${FONT}px ${MONO}`;
  for (const node of nodes) {
    const lines = linesOf(node);
    for (let n = 1; n < lines.length; n++) paintLine(node, lines, n);
  }
};

const paintRings = (context, nodes, view, colour, width) => {
  const gap = 3 + 2 / view.scale;
  context.strokeStyle = colour;
  context.lineWidth = Math.max(width, width / view.scale);
  context.beginPath();
  for (const { x, y, width: w, height: h } of nodes) {
    context.roundRect(x - w / 2 - gap, y - h / 2 - gap, w + 2 * gap, h + 2 * gap, 8);
  }
  context.stroke();
};

// `look`: the place of the selected node, the places of hits, and whether the view is moving.
const paintScene = (context, scene, view, look, colours) => {
  const [left, top] = view.toWorld(0, 0);
  const [right, bottom] = view.toWorld(view.width, view.height);
  const sight = { left, top, right, bottom };
  const isSeen = (n) =>
    n.x + n.width / 2 >= left && n.x - n.width / 2 <= right && n.y + n.height / 2 >= top && n.y - n.height / 2 <= bottom;
  const inSight = (places) => places.map((place) => scene.nodes[place]).filter(isSeen);
  context.save();
  context.scale(view.scale, view.scale);
  context.translate(-view.x, -view.y);
  paintEdges(context, scene, view, sight, look, colours);
  for (const [name, style] of Object.entries(STYLES)) {
    const nodes = inSight(scene.looks.get(name) ?? []);
    if (!nodes.length) continue;
    paintBoxes(context, nodes, view, style, colours);
    if (view.scale >= READABLE) paintLabels(context, nodes, colours);
  }
  paintRings(context, inSight(look.hits), view, colours.hit, 2.5);
  if (look.selected >= 0) paintRings(context, inSight([look.selected]), view, colours.accent, 2.5);
  context.restore();
};

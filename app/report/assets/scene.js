// A sheet made ready for painting: where nodes and edges begin and end, so that those out of sight cost a comparison.
const looksOf = (node) => node.mark || (["input", "output", "constant"].includes(node.kind) ? node.kind : "op");

class Scene {
  constructor(sheet) {
    this.sheet = sheet;
    this.nodes = sheet.nodes;
    this.looks = Scene.grouped(sheet.nodes);
    this.box = Scene.extent(sheet);
    this.edges = sheet.edges.map(([source, target, , ...points], number) => Scene.edge(number, source, target, points));
  }

  static grouped(nodes) {
    const groups = new Map();
    nodes.forEach((node, place) => {
      if (!groups.has(looksOf(node))) groups.set(looksOf(node), []);
      groups.get(looksOf(node)).push(place);
    });
    return groups;
  }

  static extent(sheet) {
    let [left, top, right, bottom] = [0, 0, sheet.width, sheet.height];
    for (const { x, y, width, height } of sheet.nodes) {
      left = Math.min(left, x - width / 2);
      right = Math.max(right, x + width / 2);
      top = Math.min(top, y - height / 2);
      bottom = Math.max(bottom, y + height / 2);
    }
    return { left, top, right, bottom, width: right - left, height: bottom - top };
  }

  static edge(number, source, target, points) {
    let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
    for (let i = 0; i < points.length; i += 2) {
      left = Math.min(left, points[i]);
      right = Math.max(right, points[i]);
      top = Math.min(top, points[i + 1]);
      bottom = Math.max(bottom, points[i + 1]);
    }
    return { number, source, target, points, left, top, right, bottom };
  }

  // The place of the node at a point of the world, -1 for none.
  nodeAt(x, y) {
    return this.nodes.findLastIndex((n) => Math.abs(x - n.x) * 2 <= n.width && Math.abs(y - n.y) * 2 <= n.height);
  }

  // The place of the node nearest to a point.
  nearest(x, y) {
    let [best, least] = [-1, Infinity];
    this.nodes.forEach((node, place) => {
      const distance = Math.hypot(node.x - x, node.y - y);
      if (distance < least) [best, least] = [place, distance];
    });
    return best;
  }
}

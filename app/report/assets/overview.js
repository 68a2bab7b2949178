// The strip at the right: the whole sheet, stretched to fit, with the changes and the visible part.
const FEW_CHANGES = 150;  // as many stand out; more would run into each other

class Overview {
  constructor(canvas, view, moved) {
    Object.assign(this, { canvas, view, moved, context: canvas.getContext("2d"), drawing: document.createElement("canvas") });
    const jump = (event) => {
      if (!(event.buttons & 1)) return;
      canvas.setPointerCapture(event.pointerId);
      const [x, y] = at(canvas, event);
      const { box } = this.scene;
      this.view.centre(box.left + (x / canvas.clientWidth) * box.width, box.top + (y / canvas.clientHeight) * box.height);
      this.moved();
    };
    canvas.addEventListener("pointerdown", jump);
    canvas.addEventListener("pointermove", jump);
  }

  show(scene, colours) {
    this.scene = scene;
    this.colours = colours;
    const { canvas, drawing } = this;
    const sharpness = Math.min(devicePixelRatio || 1, 2);
    for (const each of [canvas, drawing]) {
      each.width = Math.round(canvas.clientWidth * sharpness);
      each.height = Math.round(canvas.clientHeight * sharpness);
    }
    if (!drawing.width || !drawing.height) return;
    const context = drawing.getContext("2d");
    const [across, down] = this.stretch();
    for (const [name, style] of Object.entries(STYLES)) {
      context.fillStyle = colours[style.far];
      const places = scene.looks.get(name) ?? [];
      const isRare = style.width !== undefined && places.length < FEW_CHANGES;
      const least = isRare ? 3 * sharpness : 1;
      for (const place of places) {
        const node = scene.nodes[place];
        const [width, height] = [Math.max(node.width * across, least), Math.max(node.height * down, least)];
        const [x, y] = [(node.x - scene.box.left) * across, (node.y - scene.box.top) * down];
        context.fillRect(x - width / 2, y - height / 2, width, height);
      }
    }
  }

  stretch() {
    const { box } = this.scene;
    return [this.drawing.width / (box.width || 1), this.drawing.height / (box.height || 1)];
  }

  draw() {
    if (!this.scene || !this.drawing.width || !this.drawing.height) return;
    const { context, view, scene } = this;
    const [across, down] = this.stretch();
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    context.drawImage(this.drawing, 0, 0);
    const corner = [(view.x - scene.box.left) * across, (view.y - scene.box.top) * down];
    const size = [(view.width / view.scale) * across, Math.max((view.height / view.scale) * down, 4)];
    context.strokeStyle = this.colours.text;
    context.lineWidth = 2;
    context.strokeRect(...corner, ...size);
    context.globalAlpha = 0.09;
    context.fillStyle = this.colours.text;
    context.fillRect(...corner, ...size);
    context.globalAlpha = 1;
  }
}

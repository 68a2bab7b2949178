// The visible part of a drawing: the world's point in the upper left corner of the screen, and pixels per unit.
class Viewport {
  constructor(smallest, largest) {
    Object.assign(this, { x: 0, y: 0, scale: 1, width: 1, height: 1, smallest, largest });
  }

  toWorld(x, y) {
    return [this.x + x / this.scale, this.y + y / this.scale];
  }

  toScreen(x, y) {
    return [(x - this.x) * this.scale, (y - this.y) * this.scale];
  }

  pan(right, down) {
    this.x -= right / this.scale;
    this.y -= down / this.scale;
  }

  // Zooms by a factor; the content at a point of the screen does not move.
  zoom(factor, x = this.width / 2, y = this.height / 2) {
    const [worldX, worldY] = this.toWorld(x, y);
    this.scale = Math.min(Math.max(this.scale * factor, this.smallest), this.largest);
    this.x = worldX - x / this.scale;
    this.y = worldY - y / this.scale;
  }

  centre(x, y) {
    this.x = x - this.width / 2 / this.scale;
    this.y = y - this.height / 2 / this.scale;
  }

  middle() {
    return this.toWorld(this.width / 2, this.height / 2);
  }
}

// A canvas with a viewport, painted anew at most once a frame, in the pixels of the screen it is on.
class Stage {
  constructor(canvas, view, paint) {
    Object.assign(this, { canvas, view, paint, context: canvas.getContext("2d"), waiting: false, resized: () => {} });
    new ResizeObserver(() => this.fitScreen()).observe(canvas);
    this.fitScreen();
  }

  fitScreen() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (!width || !height) return;
    const sharpness = Math.min(devicePixelRatio || 1, 2);
    const pixels = [Math.round(width * sharpness), Math.round(height * sharpness)];
    if (this.canvas.width === pixels[0] && this.canvas.height === pixels[1]) return;
    [this.canvas.width, this.canvas.height] = pixels;
    Object.assign(this.view, { width, height });
    this.sharpness = sharpness;
    this.resized();
    this.draw();
  }

  redraw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => this.draw());
  }

  draw() {
    this.waiting = false;
    this.context.setTransform(this.sharpness, 0, 0, this.sharpness, 0, 0);
    this.context.clearRect(0, 0, this.view.width, this.view.height);
    this.paint(this.context);
  }
}

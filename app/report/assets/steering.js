// Moving a viewport by pointer, touch, wheel and keys.
const STEP = 60;
const CLICK = 4;

// A page that is being scrolled is not to stop where the pointer comes upon a canvas.
let scrolledAt = -Infinity;
const isScrolling = (event) => event.timeStamp - scrolledAt < 350 && !event.ctrlKey;

const startScrolling = () =>
  addEventListener("wheel", (event) => {
    if (isScrolling(event) || event.target.tagName !== "CANVAS") scrolledAt = event.timeStamp;
  }, { passive: true, capture: true });

const at = (canvas, event) => {
  const box = canvas.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
};

const steerByWheel = (canvas, view, moved) =>
  canvas.addEventListener("wheel", (event) => {
    if (isScrolling(event)) return;
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 16 : 1;
    if (event.shiftKey) view.pan(-(event.deltaY || event.deltaX) * lines, 0);
    else view.zoom(Math.exp(-event.deltaY * lines * (event.ctrlKey ? 0.008 : 0.0018)), ...at(canvas, event));
    moved();
  }, { passive: false });

const steerByKeys = (canvas, view, { moved, fit, close }) => {
  const keys = {
    ArrowLeft: () => view.pan(STEP, 0), ArrowRight: () => view.pan(-STEP, 0),
    ArrowUp: () => view.pan(0, STEP), ArrowDown: () => view.pan(0, -STEP),
    PageUp: () => view.pan(0, view.height * 0.8), PageDown: () => view.pan(0, -view.height * 0.8),
    "+": () => view.zoom(1.25), "=": () => view.zoom(1.25), "-": () => view.zoom(0.8), 0: fit, Escape: close,
  };
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !Object.hasOwn(keys, event.key)) return;
    event.preventDefault();
    keys[event.key]();
    moved();
  });
};

// One pointer drags, two pinch; one that hardly moved has clicked.
const steerByPointers = (canvas, view, { moved, clicked, hovered }) => {
  const pointers = new Map();
  let travelled = 0;
  const spread = () => {
    const [[x0, y0], [x1, y1]] = [...pointers.values()];
    return { distance: Math.hypot(x1 - x0, y1 - y0), x: (x0 + x1) / 2, y: (y0 + y1) / 2 };
  };
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, at(canvas, event));
    if (pointers.size === 1) travelled = 0;
  });
  canvas.addEventListener("pointermove", (event) => {
    const point = at(canvas, event);
    const last = pointers.get(event.pointerId);
    if (!last) return hovered(...point);
    const before = pointers.size === 2 ? spread() : null;
    pointers.set(event.pointerId, point);
    travelled += Math.hypot(point[0] - last[0], point[1] - last[1]);
    canvas.classList.toggle("moving", travelled > CLICK);
    if (before) {
      const now = spread();
      view.pan(now.x - before.x, now.y - before.y);
      view.zoom(now.distance / (before.distance || 1), now.x, now.y);
    } else if (travelled > CLICK) view.pan(point[0] - last[0], point[1] - last[1]);
    moved();
  });
  const ended = (event) => {
    if (!pointers.delete(event.pointerId)) return;
    canvas.classList.remove("moving");
    if (event.type === "pointerup" && travelled <= CLICK) clicked(...at(canvas, event));
  };
  canvas.addEventListener("pointerup", ended);
  canvas.addEventListener("pointercancel", ended);
  canvas.addEventListener("pointerleave", () => hovered(-1, -1));
};

const steer = (canvas, view, actions) => {
  steerByWheel(canvas, view, actions.moved);
  steerByKeys(canvas, view, actions);
  steerByPointers(canvas, view, actions);
};

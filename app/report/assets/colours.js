// The colours of the page for those who paint on a canvas, where a style's variables are not resolved.
const COLOURS = [
  "ground", "surface", "sunken", "text", "muted", "line", "strong-line", "accent", "accent-soft", "gone", "gone-soft",
  "made", "made-soft", "hit", "constant", "before", "after",
];

const coloursNow = () => {
  const probe = document.body.appendChild(element("span", { hidden: "" }));
  const colours = Object.fromEntries(COLOURS.map((name) => {
    probe.style.color = `var(--${name})`;
    return [name, getComputedStyle(probe).color];
  }));
  probe.remove();
  return colours;
};

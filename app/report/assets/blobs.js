// Data that the page holds compressed; each is unpacked once, when it is first needed.
const unpacking = new Map();

const unpack = async (letters) => {
  const packed = Uint8Array.from(atob(letters), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
};

const blob = (name) => {
  if (!unpacking.has(name)) unpacking.set(name, unpack(byId(`data-${name}`).textContent));
  return unpacking.get(name);
};

const hasBlob = (name) => byId(`data-${name}`) !== null;

// The page's data, the selection, and values derived from them.
const data = await readData();
const { units, edges, devices, placements } = data;
const { operators } = units;
const nUnits = units.name.length;
const lastLayer = d3.max(units.layer) ?? 0;
for (const { runs, transfers } of placements) {
  for (const bars of [runs, transfers]) bars.finish = bars.start.map((start, i) => start + bars.ms[i]);
}
const neighbours = { in: listEdges(edges.target), out: listEdges(edges.source) };

const state = {
  shown: 0, // placement
  against: -1, // placement that it is compared with, or -1
  unit: -1,
  group: null, // units of a selected group
  found: [], // units that the search has found
  layers: [0, lastLayer],
};
const listeners = [];

function change(values) {
  Object.assign(state, values);
  for (const listener of listeners) listener(values);
}

function listEdges(ends) {
  const lists = Array.from({ length: nUnits }, () => []);
  ends.forEach((unit, edge) => lists[unit].push(edge));
  return lists;
}

// The operators of a unit; none for a single operator, whose name and type are those of the unit.
function operatorsOf(unit) {
  return d3.range(operators.unit.length).filter((operator) => operators.unit[operator] === unit);
}

function typeOf(unit) {
  return units.type.texts[units.type.index[unit]];
}

function shapeOf(unit) {
  return units.shape.texts[units.shape.index[unit]];
}

function current() {
  return placements[state.shown];
}

function compared() {
  return state.against < 0 ? null : placements[state.against];
}

function deviceOf(unit, placement = current()) {
  return placement.device[unit];
}

function hasMoved(unit) {
  const other = compared();
  return other !== null && other.device[unit] !== deviceOf(unit);
}

function unitMs(unit, placement = current()) {
  return units.ms[placement.device[unit]][unit];
}

function transferMs(edge, from, to) {
  const { link_ms, link_ms_per_size } = devices[from];
  return from === to ? 0 : edges.tensors[edge] * link_ms[to] + edges.size[edge] * link_ms_per_size[to];
}

function crosses(edge, placement = current()) {
  const { device } = placement;
  return edges.tensors[edge] > 0 && device[edges.source[edge]] !== device[edges.target[edge]];
}

// Run at most once a frame, however often it is requested.
function oncePerFrame(action) {
  let waiting = false;
  return () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      action();
    });
  };
}

function colourOf(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function showsAllLayers() {
  return state.layers[0] === 0 && state.layers[1] === lastLayer;
}

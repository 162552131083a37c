// The contents of the graph: units, or groups of units if there are too many, and links.
const MOST_UNITS = 3000;
const MOST_COLUMNS = 40; // of groups
const COLUMNS_OF_PHONE = 12; // so few that groups have room for their labels
const PHONE = 600; // pixels; wider windows are no phones
const COLUMN = 150;
const LANE = 46;
const BOX = { width: 116, height: 30 };
const ROW_GAP = 2.2;
const MANY_LINKS = 400; // more links are thinner
const MOST_STRETCH = 1.7; // of the gaps, if the window has room

function makeScene(width, height) {
  const [from, to] = state.layers;
  const inside = d3.range(nUnits).filter((u) => units.layer[u] >= from && units.layer[u] <= to);
  const grouped = inside.length > MOST_UNITS && to > from;
  return grouped ? sceneOfGroups(inside, width, height) : sceneOfUnits(inside, width, height);
}

function sceneOfUnits(inside, width, height) {
  const first = state.layers[0];
  const nodeOf = new Int32Array(nUnits).fill(-1);
  const points = [];
  inside.forEach((unit, node) => {
    nodeOf[unit] = node;
    points.push([units.layer[unit] - first, units.position[unit]]);
  });
  const links = [];
  for (let edge = 0; edge < edges.source.length; edge++) {
    const source = nodeOf[edges.source[edge]];
    const target = nodeOf[edges.target[edge]];
    if (source < 0 || target < 0) continue;
    const begin = points[source][0] + 1;
    const bends = edges.bends[edge].map((position, step) => [begin + step, position]);
    links.push({ source, target, bends, edge, bytes: edges.bytes[edge], count: 1 });
  }
  const bends = links.flatMap((link) => link.bends);
  const place = wrap(points, bends, width, height);
  const most = d3.max(inside, (u) => unitMs(u)) || 1;
  const nodes = inside.map((unit, node) => ({
    ...place(...points[node]),
    unit,
    members: [unit],
    device: deviceOf(unit),
    label: units.name[unit],
    load: unitMs(unit) / most,
    column: points[node][0],
  }));
  return finish(nodes, links, place, nodeOf, false);
}

function sceneOfGroups(inside, width, height) {
  const [first, last] = state.layers;
  const nLayers = last - first + 1;
  const nColumns = Math.min(width < PHONE ? COLUMNS_OF_PHONE : MOST_COLUMNS, nLayers);
  const nodeOf = new Int32Array(nUnits).fill(-1);
  const groups = new Map();
  for (const unit of inside) {
    const column = Math.floor(((units.layer[unit] - first) * nColumns) / nLayers);
    const key = column * devices.length + deviceOf(unit);
    if (!groups.has(key)) groups.set(key, { column, device: deviceOf(unit), members: [] });
    groups.get(key).members.push(unit);
  }
  const list = [...groups.values()].sort((a, b) => a.column - b.column || a.device - b.device);
  list.forEach((group, node) => group.members.forEach((unit) => (nodeOf[unit] = node)));
  const merged = new Map();
  for (let edge = 0; edge < edges.source.length; edge++) {
    const source = nodeOf[edges.source[edge]];
    const target = nodeOf[edges.target[edge]];
    if (source < 0 || target < 0 || source === target) continue;
    const key = source * list.length + target;
    const link = merged.get(key) ?? { source, target, bends: [], edge: -1, bytes: 0, count: 0 };
    link.bytes += edges.bytes[edge];
    link.count += 1;
    merged.set(key, link);
  }
  const points = list.map(({ column, device }) => [column, 1.6 * device]);
  const place = wrap(points, [], width, height);
  const work = list.map(({ members }) => d3.sum(members, (u) => unitMs(u)));
  const most = d3.max(work) || 1;
  const nodes = list.map((group, node) => ({
    ...place(...points[node]),
    ...group,
    unit: -1,
    label: formatCount(group.members.length, "unit"),
    load: work[node] / most,
    ms: work[node],
  }));
  return finish(nodes, [...merged.values()], place, nodeOf, true);
}

// Layers run from left to right, then back from right to left in the next row; a few tall layers
// are folded. The numbers of rows and folds fill the window best.
function wrap(points, bends, width, height) {
  const nLayers = (d3.max(points, ([layer]) => layer) ?? 0) + 1;
  const low = new Array(nLayers).fill(Infinity);
  const high = new Array(nLayers).fill(-Infinity);
  for (const [layer, position] of d3.merge([points, bends])) {
    low[layer] = Math.min(low[layer], position);
    high[layer] = Math.max(high[layer], position);
  }
  let best = null;
  const consider = (perRow, folds) => {
    const rows = d3.range(0, nLayers, perRow).map((start) => ({
      low: d3.min(low.slice(start, start + perRow)),
      high: d3.max(high.slice(start, start + perRow)),
    }));
    const tall = d3.sum(rows, (row) => (row.high - row.low) / folds + ROW_GAP) * LANE;
    const wide = (perRow * folds + (rows.length > 1 ? 0.9 : 0)) * COLUMN;
    const scale = Math.min(width / wide, height / tall);
    if (best === null || scale > 1.05 * best.scale) best = { perRow, folds, rows, scale, wide, tall };
  };
  for (let rows = 1; rows <= Math.min(nLayers, 80); rows++) consider(Math.ceil(nLayers / rows), 1);
  for (let folds = 2; folds <= 40 && nLayers < 12; folds++) consider(nLayers, folds);
  const { perRow, folds, rows } = best;
  const stretch = (room) => Math.max(1, Math.min(MOST_STRETCH, room));
  const across = COLUMN * stretch((best.tall / best.wide) * (width / height));
  const downwards = LANE * stretch((best.wide / best.tall) * (height / width));
  const step = Math.floor((rows[0].high - rows[0].low) / folds) + 1;
  let top = 0;
  const tops = rows.map((row) => {
    const here = top;
    top += (row.high - row.low) / folds + ROW_GAP;
    return here;
  });
  const place = (layer, position) => {
    const row = Math.floor(layer / perRow);
    const back = row % 2 === 1;
    const inRow = layer % perRow;
    const column = back ? perRow - 1 - inRow : inRow;
    let down = position - rows[row].low;
    const fold = folds > 1 ? Math.floor(down / step) : 0;
    down -= fold * step;
    return { x: (column * folds + fold) * across, y: (tops[row] + down) * downwards, row, back };
  };
  place.across = across;
  return place;
}

function finish(nodes, links, place, nodeOf, grouped) {
  const most = d3.max(links, (link) => link.bytes) || 1;
  const widest = 7 * Math.min(1, Math.sqrt(MANY_LINKS / links.length));
  for (const link of links) {
    const { source, target } = link;
    const stops = [nodes[source], ...link.bends.map((bend) => place(...bend)), nodes[target]];
    link.path = drawLink(stops);
    link.head = drawHead(stops.at(-2), stops.at(-1));
    link.box = [...d3.extent(stops, (s) => s.x), ...d3.extent(stops, (s) => s.y)];
    link.crossing = nodes[source].device !== nodes[target].device && link.bytes > 0;
    link.thickness = 1 + widest * Math.sqrt(link.bytes / most);
    const beside = Math.abs(nodes[target].x - nodes[source].x) < 1.01 * place.across;
    link.near = beside && nodes[target].column - nodes[source].column === 1;
  }
  const tree = d3.quadtree(nodes, (n) => n.x, (n) => n.y);
  const boxes = [...nodes.map((n) => [n.x, n.x, n.y, n.y]), ...links.map((link) => link.box)];
  const bounds = [0, 1, 2, 3].map((side) => (side % 2 ? d3.max : d3.min)(boxes, (box) => box[side]));
  const margin = nodes.some((n) => n.back) ? 1.8 * COLUMN : COLUMN;
  return { nodes, links, tree, nodeOf, grouped, bounds, margin };
}

function drawLink(stops) {
  const path = new Path2D();
  for (let i = 0; i + 1 < stops.length; i++) {
    const a = stops[i];
    const b = stops[i + 1];
    if (isUpright(a, b)) {
      const side = b.y > a.y ? 1 : -1;
      path.moveTo(a.x, a.y + (side * BOX.height) / 2);
      path.lineTo(b.x, b.y - (side * BOX.height) / 2);
      continue;
    }
    const leave = (i === 0 ? BOX.width / 2 : 0) * (a.back ? -1 : 1);
    const enter = (i + 2 === stops.length ? BOX.width / 2 : 0) * (b.back ? -1 : 1);
    const [x1, x2] = [a.x + leave, b.x - enter];
    path.moveTo(x1, a.y);
    if (a.row === b.row) {
      const middle = (x1 + x2) / 2;
      path.bezierCurveTo(middle, a.y, middle, b.y, x2, b.y);
    } else {
      const out = 0.6 * COLUMN;
      path.bezierCurveTo(
        x1 + (a.back ? -out : out), a.y, x2 - (b.back ? -out : out), b.y, x2, b.y,
      );
    }
  }
  return path;
}

// Within one column, as between groups on different devices.
function isUpright(a, b) {
  return a.row === b.row && a.x === b.x;
}

function drawHead(from, to) {
  const path = new Path2D();
  const upright = isUpright(from, to);
  const side = upright ? (to.y > from.y ? -1 : 1) : to.back ? 1 : -1;
  const [x, y] = upright ? [to.x, to.y + (side * BOX.height) / 2] : [to.x + (side * BOX.width) / 2, to.y];
  const [dx, dy] = upright ? [5, 8 * side] : [8 * side, 5];
  path.moveTo(x, y);
  path.lineTo(x + dx, y + dy);
  path.lineTo(upright ? x - dx : x + dx, upright ? y + dy : y - dy);
  path.closePath();
  return path;
}

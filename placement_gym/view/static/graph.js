// The graph: drawn on a canvas, zoomed and panned by d3, hovered and selected.
const graph = (() => {
  const canvas = document.querySelector("#graph canvas");
  const context = canvas.getContext("2d");
  const EDGE = 6; // pixels of the window that stay free
  let view = d3.zoomIdentity;
  let scene = null;
  let hovered = null;
  let outlines = [];
  let fitted = null; // size of the window that the graph was fitted to
  const backdrop = document.createElement("canvas"); // outlines and links, which change seldom
  let painted = null; // what the backdrop shows

  const draw = oncePerFrame(drawNow);
  const zoom = d3.zoom().scaleExtent([0.005, 6]).clickDistance(4).on("zoom", (event) => {
    view = event.transform;
    fitted = null;
    if (event.sourceEvent) showHint(null, null);
    draw();
  });
  d3.select(canvas).call(zoom).on("dblclick.zoom", null);

  function size() {
    return [canvas.clientWidth || 1, canvas.clientHeight || 1];
  }

  function rebuild(refit) {
    scene = makeScene(...size());
    outlines = scene.grouped ? [] : makeOutlines();
    hovered = null;
    showHint(null, null);
    countMoved();
    if (refit) fit();
    else draw();
  }

  function countMoved() {
    for (const node of scene.nodes) {
      node.moved = compared() === null ? 0 : node.members.filter(hasMoved).length;
    }
  }

  function fit() {
    const [width, height] = size();
    const [left, right, top, bottom] = scene.bounds;
    const [wide, tall] = [right - left + scene.margin, bottom - top + 3 * LANE];
    const scale = Math.min(1.2, (width - 2 * EDGE) / wide, (height - 2 * EDGE) / tall);
    const x = width / 2 - (scale * (left + right)) / 2;
    const y = height / 2 - (scale * (top + bottom)) / 2;
    d3.select(canvas).call(zoom.transform, d3.zoomIdentity.translate(x, y).scale(scale));
    fitted = String(size());
  }

  function makeOutlines() {
    const { submodel } = current();
    if (current().submodels < 2) return [];
    const parts = new Map();
    const part = (unit) => {
      const key = submodel[unit];
      if (!parts.has(key)) {
        parts.set(key, { boxes: new Path2D(), links: new Path2D(), device: deviceOf(unit) });
      }
      return parts.get(key);
    };
    for (const node of scene.nodes) {
      const { width, height } = BOX;
      part(node.unit).boxes.roundRect(node.x - width / 2, node.y - height / 2, width, height, 8);
    }
    for (const link of scene.links) {
      const [a, b] = [scene.nodes[link.source], scene.nodes[link.target]];
      if (link.near && submodel[a.unit] === submodel[b.unit]) part(a.unit).links.addPath(link.path);
    }
    return [...parts.values()];
  }

  function drawNow() {
    if (scene === null) return;
    const [width, height] = size();
    const ratio = window.devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, canvas.width, canvas.height);
    paintBackdrop(ratio);
    context.drawImage(backdrop, 0, 0);
    turnTo(context, ratio);
    const seen = (node) => {
      const [x, y] = view.apply([node.x, node.y]);
      return x > -80 * view.k && x < width + 80 * view.k && y > -30 * view.k && y < height + 30 * view.k;
    };
    const selected = nodesOf(state.unit < 0 ? state.group ?? [] : [state.unit]);
    const found = nodesOf(state.found);
    for (const node of scene.nodes) {
      if (!seen(node)) continue;
      const ring = selected.has(node) ? "accent" : node === hovered ? "text" : found.has(node) ? "found" : null;
      paintBox(context, node, view.k, scene.grouped, ring);
    }
  }

  function turnTo(target, ratio) {
    target.setTransform(ratio, 0, 0, ratio, 0, 0);
    target.translate(view.x, view.y);
    target.scale(view.k, view.k);
  }

  function paintBackdrop(ratio) {
    const { theme } = document.documentElement.dataset;
    const shows = [scene, hovered, state.unit, state.against, theme, canvas.width, canvas.height, String(view)];
    if (painted !== null && shows.every((value, i) => value === painted[i])) return;
    painted = shows;
    backdrop.width = canvas.width;
    backdrop.height = canvas.height;
    const paint = backdrop.getContext("2d");
    turnTo(paint, ratio);
    drawOutlines(paint);
    drawLinks(paint);
  }

  function drawOutlines(context) {
    const ground = colourOf("ground");
    context.lineJoin = "round";
    for (const { boxes, links, device } of outlines) {
      const line = Math.max(1.5, 1.2 / view.k);
      const tint = d3.interpolateRgb(ground, devices[device].colour);
      for (const [colour, extra] of [[tint(0.65), 2 * line], [tint(0.14), 0]]) {
        context.strokeStyle = colour;
        context.lineWidth = 12 + extra;
        context.stroke(links);
        context.stroke(boxes);
      }
      context.fillStyle = tint(0.14);
      context.fill(boxes);
    }
  }

  function drawLinks(context) {
    const chosen = (link) =>
      [link.source, link.target].some((n) => {
        const node = scene.nodes[n];
        return node === hovered || (state.unit >= 0 && node.unit === state.unit);
      });
    const [within, crossing, accent] = ["within", "crossing", "accent"].map(colourOf);
    const bundles = new Map();
    for (const link of scene.links) {
      const colour = link === hovered || chosen(link) ? accent : link.crossing ? crossing : within;
      const thickness = Math.max(0.6 / view.k, Math.round(link.thickness * 2) / 2);
      const key = `${colour === accent ? 2 : link.crossing ? 1 : 0} ${thickness}`;
      if (!bundles.has(key)) {
        bundles.set(key, { key, colour, thickness, path: new Path2D(), heads: new Path2D() });
      }
      bundles.get(key).path.addPath(link.path);
      if (view.k > 0.3) bundles.get(key).heads.addPath(link.head);
    }
    context.globalAlpha = state.against < 0 ? 0.85 : 0.4;
    for (const { colour, thickness, path, heads } of d3.sort(bundles.values(), (b) => b.key)) {
      context.strokeStyle = colour;
      context.lineWidth = thickness;
      context.stroke(path);
      context.fillStyle = colour;
      context.fill(heads);
    }
    context.globalAlpha = 1;
  }

  function nodeAt(x, y) {
    const [wx, wy] = view.invert([x, y]);
    const node = scene.tree.find(wx, wy, BOX.width);
    const slack = Math.max(0, 5 / view.k - 5);
    const hit = (n) =>
      Math.abs(n.x - wx) <= BOX.width / 2 + slack && Math.abs(n.y - wy) <= BOX.height / 2 + slack;
    if (node && hit(node)) return node;
    return scene.nodes.find(hit) ?? null;
  }

  function linkAt(x, y) {
    const [wx, wy] = view.invert([x, y]);
    const slack = 0.6 * COLUMN;
    const { a, b, c, d, e, f } = context.getTransform();
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.lineWidth = 8 / view.k;
    const found = scene.links.find(
      ({ path, box: [left, right, top, bottom] }) =>
        wx > left - slack && wx < right + slack && wy > top - 10 && wy < bottom + 10 &&
        context.isPointInStroke(path, wx, wy),
    );
    context.setTransform(a, b, c, d, e, f);
    return found ?? null;
  }

  function describe(thing) {
    return thing.members ? describeNode(thing) : describeLink(thing);
  }

  function describeNode(node) {
    if (node.unit >= 0) return describeUnit(node.unit);
    const lines = [`${node.label} on ${devices[node.device].name}: ${formatMs(node.ms)}`];
    const kinds = d3.rollups(node.members, (m) => m.length, typeOf);
    kinds.sort((p, q) => q[1] - p[1]);
    for (const [kind, count] of kinds.slice(0, 4)) lines.push(`${count} ${kind}`);
    return lines.join("\n");
  }

  function describeLink(link) {
    const [a, b] = [scene.nodes[link.source], scene.nodes[link.target]];
    if (link.edge < 0) return `${formatCount(link.count, "edge")}, ${formatBytes(link.bytes)}`;
    const path = `${units.name[a.unit]} → ${units.name[b.unit]}`;
    const how = link.crossing
      ? `${devices[a.device].name} → ${devices[b.device].name}: ${formatMs(transferMs(link.edge, a.device, b.device))}`
      : `stays on ${devices[a.device].name}`;
    return `${path}\n${formatBytes(link.bytes)}, ${how}`;
  }

  d3.select(canvas)
    .on("pointermove", (event) => {
      if (event.buttons || event.pointerType === "touch") return;
      const [x, y] = d3.pointer(event, canvas);
      const thing = nodeAt(x, y) ?? linkAt(x, y);
      if (thing !== hovered) {
        hovered = thing;
        draw();
      }
      showHint(event, thing && describe(thing));
    })
    .on("pointerleave", () => {
      hovered = null;
      showHint(null, null);
      draw();
    })
    .on("click", (event) => {
      const at = d3.pointer(event, canvas);
      const node = nodeAt(...at);
      const touched = event.pointerType === "touch" ? node ?? linkAt(...at) : null;
      selectNode(node);
      if (event.pointerType === "touch") showHint(event, touched && describe(touched));
    })
    .on("dblclick", (event) => {
      const node = nodeAt(...d3.pointer(event, canvas));
      if (node !== null && node.unit < 0) showLayers(node.members);
    });
  const zoomBy = (factor) => d3.select(canvas).call(zoom.scaleBy, factor);
  document.getElementById("fit").onclick = fit;
  document.getElementById("closer").onclick = () => zoomBy(1.5);
  document.getElementById("farther").onclick = () => zoomBy(1 / 1.5);
  document.getElementById("whole").onclick = () => change({ layers: [0, lastLayer], group: null });

  function selectNode(node) {
    if (node === null) change({ unit: -1, group: null });
    else if (node.unit >= 0) change({ unit: node.unit, group: null });
    else change({ unit: -1, group: node.members });
  }

  function selectedNode() {
    return nodeOf(state.unit >= 0 ? state.unit : (state.group ?? [-1])[0]);
  }

  function nodeOf(unit) {
    return scene.nodes[scene.nodeOf[unit] ?? -1] ?? null;
  }

  function nodesOf(members) {
    const numbers = new Set();
    for (const unit of members) numbers.add(scene.nodeOf[unit]);
    return new Set(Array.from(numbers, (number) => scene.nodes[number]));
  }

  // Bring the selection into the window, if requested so near that its label is legible.
  function reveal(readably) {
    const node = selectedNode();
    if (node === null) return;
    const [width, height] = size();
    const [x, y] = view.apply([node.x, node.y]);
    const readable = !readably || view.k >= 0.6;
    if (readable && x > 60 && x < width - 60 && y > 30 && y < height - 30) return;
    const scale = readable ? view.k : 0.8;
    const moved = d3.zoomIdentity.translate(width / 2, height / 2).scale(scale);
    d3.select(canvas).call(zoom.transform, moved.translate(-node.x, -node.y));
  }

  new ResizeObserver(() => {
    if (fitted === null) draw();
    else if (fitted !== String(size())) rebuild(true);
  }).observe(canvas);
  listeners.push((values) => {
    document.getElementById("whole").hidden = showsAllLayers();
    if ("layers" in values) rebuild(true);
    else if ("shown" in values) rebuild(false);
    else if ("against" in values) countMoved();
    draw();
  });
  return {
    draw,
    fit,
    zoomBy,
    selectNode,
    selectedNode,
    reveal,
    nodes: () => scene.nodes,
    isGrouped: () => scene.grouped,
    hasOutlines: () => outlines.length > 0,
    groupOf: (unit) => nodeOf(unit).members,
  };
})();

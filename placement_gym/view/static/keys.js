// Keys: of the graph and the timeline while they have the focus, and of the page.
const DIRECTIONS = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] };
const CLOSER = { "+": 1.5, "=": 1.5, w: 1.5, "-": 1 / 1.5, s: 1 / 1.5 };
const ALONG = { ArrowLeft: 0.2, a: 0.2, ArrowRight: -0.2, d: -0.2 };

// The next node in a direction: near, and not far to the side.
function nodeBeside(from, [across, down]) {
  const cost = (node) => {
    const [x, y] = [(node.x - from.x) / COLUMN, (node.y - from.y) / LANE];
    const ahead = x * across + y * down;
    return ahead > 0.01 ? ahead + 2 * Math.abs(x * down + y * across) : Infinity;
  };
  const next = d3.least(graph.nodes(), cost);
  return next && cost(next) < Infinity ? next : from;
}

function moveInGraph(event) {
  const [direction, scale] = [DIRECTIONS[event.key], CLOSER[event.key]];
  const node = graph.selectedNode();
  if (direction) {
    graph.selectNode(node ? nodeBeside(node, direction) : graph.nodes()[0]);
    graph.reveal(false);
  } else if (scale) graph.zoomBy(scale);
  else if (event.key === "Enter" && node && node.unit < 0) showLayers(node.members);
  else return false;
  return true;
}

function moveInTimeline(event) {
  const [share, scale] = [ALONG[event.key], CLOSER[event.key]];
  if (share) timeline.panBy(share);
  else if (scale) timeline.zoomBy(scale);
  else return false;
  return true;
}

function moveInPage(event) {
  if (event.key === "/") search.focus();
  else if (event.key === "f") graph.fit();
  else if (event.key === "Escape") leave();
  else return false;
  return true;
}

// Leave the selection first, then the opened layers.
function leave() {
  if (state.unit >= 0 || state.group !== null) change({ unit: -1, group: null });
  else if (!showsAllLayers()) change({ layers: [0, lastLayer] });
}

document.addEventListener("keydown", (event) => {
  const { target } = event;
  const typing = target instanceof HTMLInputElement || target instanceof HTMLSelectElement;
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const inGraph = target.closest("#graph canvas") && moveInGraph(event);
  const inTimeline = target.closest("#timeline canvas") && moveInTimeline(event);
  if (inGraph || inTimeline || moveInPage(event)) event.preventDefault();
});

// One box of the graph: a unit or a group of units.
function paintBox(context, node, scale, grouped, ring) {
  const { width, height } = BOX;
  const [left, top] = [node.x - width / 2, node.y - height / 2];
  const pale = state.against >= 0 && node.moved === 0;
  const fill = devices[node.device].colour;
  context.globalAlpha = pale ? 0.3 : 1;
  context.fillStyle = fill;
  context.beginPath();
  context.roundRect(left, top, width, height, 6);
  context.fill();
  const ink = d3.lab(fill).l > 60 ? "#000000" : "#ffffff";
  context.fillStyle = ink;
  if (scale * height > 5) {
    context.globalAlpha *= 0.55;
    context.fillRect(left + 6, top + height - 5, (width - 12) * node.load, 2.5);
  }
  context.globalAlpha = 1;
  paintLabels(context, node, scale, grouped, pale ? colourOf("text") : ink);
  if (node.moved > 0 && !grouped) paintCorner(context, left + width, top, compared().device[node.unit]);
  if (ring !== null) paintRing(context, left, top, Math.max(3, 2.5 / scale), ring);
}

// Type and name, or number of units and time; from afar only the first, while it is legible.
function paintLabels(context, node, scale, grouped, ink) {
  const near = scale * 11 > 6.5;
  if (!near && scale * BOX.height < 9) return;
  const [first, second] = grouped ? [node.label, formatMs(node.ms)] : [typeOf(node.unit), node.label];
  const width = BOX.width - 8;
  context.fillStyle = ink;
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.font = `${near ? 11 : 8 / scale}px ${FONT}`;
  context.fillText(fitStart(context, first, width), node.x, node.y - (near ? 6.5 : 1));
  if (!near) return;
  context.font = `9px ${FONT}`;
  context.fillText(fitText(context, second, width), node.x, node.y + 4.5);
}

// Where the unit is in the other placement.
function paintCorner(context, right, top, device) {
  context.fillStyle = devices[device].colour;
  context.beginPath();
  context.moveTo(right - 20, top);
  context.lineTo(right, top);
  context.lineTo(right, top + 20);
  context.fill();
}

function paintRing(context, left, top, thickness, colour) {
  const out = thickness / 2 + 1;
  context.strokeStyle = colourOf(colour);
  context.lineWidth = thickness;
  context.beginPath();
  context.roundRect(left - out, top - out, BOX.width + 2 * out, BOX.height + 2 * out, 7);
  context.stroke();
}

"use strict";
// Read the compressed data of the page.
const NEEDED = "Chrome 89, Edge 89, Firefox 113, Safari 16.4 or later";

async function readData() {
  if (typeof DecompressionStream === "undefined") {
    tell(`This browser cannot unpack the page's data. Please open it in ${NEEDED}.`);
    throw new Error("no DecompressionStream");
  }
  const packed = atob(document.getElementById("data").textContent);
  const bytes = new Uint8Array(packed.length);
  for (let i = 0; i < packed.length; i++) bytes[i] = packed.charCodeAt(i);
  const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(unpacked).json();
}

function tell(text) {
  const message = document.getElementById("message");
  message.textContent = text;
  message.hidden = text === "";
}

// The script of a report's page: draws the JSON in it. Kept free of what browsers of 2021 do not know; text from the
// run goes into the page as text, never as markup.
#pragma once

#include <string_view>

namespace ebb::cli {

inline constexpr std::string_view kReportScript = R"js(
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const run = data.run, line = data.timeline, waits = run.waits;
const page = document.getElementById("page"), tip = document.getElementById("tip");
const last = line.at.length ? line.at[line.at.length - 1] : 0;
let view = [0, last];
const drawings = [];

function make(tag, parent, text, attributes) {
  const svg = ["svg", "path", "rect", "line", "text", "g"].includes(tag);
  const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const name in attributes || {}) node.setAttribute(name, attributes[name]);
  if (text !== undefined && text !== null) node.textContent = text;
  if (parent) parent.appendChild(node);
  return node;
}
function three(value) { return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2); }
function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  while (value >= 1024 && i < units.length - 1) { value /= 1024; ++i; }
  return (i ? three(value) : Math.round(value)) + " " + units[i];
}
function seconds(value) {
  if (value === 0) return "0 s";
  return value < 1e-3 ? three(value * 1e6) + " µs" : value < 1 ? three(value * 1e3) + " ms" : three(value) + " s";
}
function rate(value) { return value < 1e9 ? three(value / 1e6) + " MB/s" : three(value / 1e9) + " GB/s"; }
function colour(name) { return "var(--" + name + ")"; }
function section(title, note) {
  make("h2", page, title);
  if (note) make("div", page, note, {class: "faint"});
}
function legend(items) {
  const box = make("div", page, null, {class: "legend"});
  for (const [name, tone] of items) {
    const item = make("span", box);
    make("i", item, null, {style: "background:" + colour(tone)});
    item.appendChild(document.createTextNode(name));
  }
}

// Time, over which every chart of it agrees.
const left = 64, right = 8;
function chart(height, draw, describe) {
  const box = make("div", page);
  drawings.push(() => {
    box.textContent = "";
    const width = Math.max(box.clientWidth, 200);
    const svg = make("svg", box, null, {viewBox: `0 0 ${width} ${height + 22}`, height: height + 22, role: "img"});
    const x = (t) => left + (width - left - right) * (t - view[0]) / Math.max(view[1] - view[0], 1e-9);
    const time = (px) => view[0] + (px - left) / (width - left - right) * (view[1] - view[0]);
    draw(svg, x, width, height);
    for (let i = 0; i <= 4; ++i) {
      const t = view[0] + (view[1] - view[0]) * i / 4;
      make("text", svg, seconds(t), {x: x(t), y: height + 16,
        "text-anchor": i === 0 ? "start" : i === 4 ? "end" : "middle"});
    }
    interact(svg, time, describe, height);
  });
}
function interact(svg, time, describe, height) {
  let from = null, mark = null;
  const at = (event) => event.clientX - svg.getBoundingClientRect().left;
  const show = (event) => {
    const t = time(at(event));
    if (from !== null) {
      const a = Math.min(from, at(event)), b = Math.max(from, at(event));
      mark.setAttribute("x", a);
      mark.setAttribute("width", b - a);
    }
    let i = line.at.findIndex((sample) => sample >= t);
    if (i < 0) i = line.at.length - 1;
    if (i < 0) return;
    tip.textContent = seconds(line.at[i]) + "\n" + describe(i, event.clientY - svg.getBoundingClientRect().top);
    tip.style.display = "block";
    tip.style.left = Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 4) + "px";
    tip.style.top = Math.min(event.clientY + 12, innerHeight - tip.offsetHeight - 4) + "px";
  };
  svg.addEventListener("pointermove", show);
  svg.addEventListener("pointerleave", () => { tip.style.display = "none"; });
  svg.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "touch") return show(event);
    from = at(event);
    mark = make("rect", svg, null, {x: from, y: 0, width: 0, height: height, fill: "var(--text)", opacity: 0.12});
    svg.setPointerCapture(event.pointerId);
  });
  svg.addEventListener("pointerup", (event) => {
    if (from === null) return;
    const span = [time(from), time(at(event))].sort((a, b) => a - b);
    from = null;
    if (span[1] - span[0] > (view[1] - view[0]) / 100) zoom(span[0], span[1]);
    else mark.remove();
  });
}
function zoom(a, b) {
  view = [Math.max(a, 0), Math.min(b, last)];
  for (const draw of drawings) draw();
}
function axis(svg, width, height, top, name) {
  for (let i = 0; i <= 2; ++i) {
    const y = height - (height - 8) * i / 2;
    make("line", svg, null, {x1: left, x2: width - right, y1: y, y2: y, stroke: "var(--line)"});
    make("text", svg, name(top * i / 2), {x: left - 6, y: y + 4, "text-anchor": "end"});
  }
}
function clip(svg, width, height) {
  return make("svg", svg, null, {x: left, y: 0, width: width - left - right, height: height,
    viewBox: `${left} 0 ${width - left - right} ${height}`, preserveAspectRatio: "none"});
}

function memory() {
  section("Memory over time", "What lay in memory, by kind, and the budget. Drag to zoom.");
  const parts = line.parts;
  legend(parts.map((part) => [part.name, part.tone]).concat([["budget", "text"]]));
  const top = Math.max(1, ...line.budget, ...line.resident) * 1.05;
  chart(210, (svg, x, width, height) => {
    axis(svg, width, height, top, bytes);
    const y = (value) => height - (height - 8) * value / top;
    const inner = clip(svg, width, height);
    const base = line.at.map(() => 0);
    for (const part of parts) {
      let path = "", back = "";
      line.at.forEach((t, i) => {
        back = `L${x(t)} ${y(base[i])}` + back;
        base[i] += part.bytes[i];
        path += `${i ? "L" : "M"}${x(t)} ${y(base[i])}`;
      });
      make("path", inner, null, {d: path + back + "Z", fill: colour(part.tone)});
    }
    let budget = "";
    line.at.forEach((t, i) => { budget += `${i ? "L" : "M"}${x(t)} ${y(line.budget[i])}`; });
    make("path", inner, null, {d: budget, fill: "none", stroke: "var(--text)", "stroke-dasharray": "6 4"});
  }, (i) => parts.map((part) => part.name + "  " + bytes(part.bytes[i])).join("\n") + "\nbudget  " +
    bytes(line.budget[i]));
}
function tensors() {
  if (!line.tensors.length) return;
  section("Where the largest tensors were", "A row each: coloured in memory, pale on flash, empty before it was.");
  legend([["parameter", "parameter"], ["gradient", "gradient"], ["optimizer state", "optimizer"], ["on flash",
    "below"]]);
  const rows = line.tensors, step = Math.max(9, Math.min(15, Math.floor(480 / rows.length)));
  const row = (y) => rows[Math.min(rows.length - 1, Math.max(0, Math.floor(y / step)))];
  chart(rows.length * step, (svg, x, width, height) => {
    const inner = clip(svg, width, height);
    rows.forEach((tensor, r) => {
      for (let i = 0; i < line.at.length;) {
        const part = tensor.percent[i];
        let j = i + 1;
        while (j < line.at.length && tensor.percent[j] === part) ++j;
        if (part !== null) {
          const a = x(i ? line.at[i - 1] : 0), place = {x: a, y: r * step, width: x(line.at[j - 1]) - a + 0.3,
            height: step - 1};
          make("rect", inner, null, Object.assign({fill: "var(--below)"}, place));
          if (part > 0) make("rect", inner, null, Object.assign({fill: colour(tensor.kind), opacity: part / 100},
            place));
        }
        i = j;
      }
    });
    const room = Math.floor(left / 6.5);
    if (step >= 12) rows.forEach((tensor, r) => make("text", svg, tensor.name.length > room ? "…" +
      tensor.name.slice(-room + 1)
      : tensor.name, {x: left - 4, y: r * step + step - 3, "text-anchor": "end", style: "font-size:10px"}));
  }, (i, y) => row(y).name + "\n" + bytes(row(y).bytes) + (row(y).percent[i] === null ? "" : ", " + row(y).percent[i] +
    " % in memory"));
}
function rates(cumulative) {
  return line.at.map((t, i) => i ? (cumulative[i] - cumulative[i - 1]) / Math.max(t - line.at[i - 1], 1e-9) : 0);
}
function lanes() {
  section("Traffic with flash", "Bytes a second read and written, and the share of time that was waited.");
  legend([["read", "read"], ["written", "written"], ["waited", "stall"]]);
  const read = rates(line.fetched), written = rates(line.evicted), stalled = rates(line.stall);
  const top = Math.max(1e6, ...read, ...written) * 1.05;
  const polyline = (inner, values, x, y, tone, width) => make("path", inner, null, {fill: "none", stroke: colour(tone),
    "stroke-width": width, d: values.map((v, i) => `${i ? "L" : "M"}${x(line.at[i])} ${y(v)}`).join("")});
  chart(150, (svg, x, width, height) => {
    axis(svg, width, height, top, rate);
    const inner = clip(svg, width, height), y = (v) => height - (height - 8) * v / top;
    polyline(inner, read, x, y, "read", 1.6);
    polyline(inner, written, x, y, "written", 1.6);
  }, (i) => `read  ${rate(read[i])}\nwritten  ${rate(written[i])}\nsteps  ${line.steps[i]}`);
  chart(60, (svg, x, width, height) => {
    axis(svg, width, height, 1, (v) => Math.round(v * 100) + " %");
    polyline(clip(svg, width, height), stalled.map((v) => Math.min(v, 1)), x, (v) => height - (height - 8) * v,
      "stall", 1.6);
  }, (i) => `waited  ${three(Math.min(stalled[i], 1) * 100)} %`);
}
const causes = {late: "on its way, but late", unplanned: "not fetched ahead", fault: "touched unannounced",
  no_frame: "no memory free", flash_full: "flash full"};
function bars(title, note, entries) {
  if (!entries.length) return;
  section(title, note);
  const most = Math.max(...entries.map((entry) => entry.seconds));
  for (const entry of entries) {
    const row = make("div", page, null, {class: "bar"});
    make("bdi", make("div", row, null, {title: entry.name}), entry.name);
    const track = make("div", make("div", row), null, {class: "track"});
    for (const [tone, value] of entry.parts) {
      if (value > 0) make("div", track, null, {style: `width:${100 * value / most}%;background:${colour(tone)}`,
        title: tone});
    }
    make("div", row, seconds(entry.seconds));
  }
}
function stalls() {
  if (!waits || !waits.stall_seconds) return;
  const some = (object) => Object.entries(object).filter(([, value]) => value > 0).sort((a, b) => b[1] - a[1]);
  bars("Why it waited", seconds(waits.stall_seconds) + " in all.", some(waits.causes).map(([name, value]) => (
    {name: causes[name], seconds: value, parts: [[name, value]]})));
  bars("What it waited for", null, some(waits.kinds).map(([name, value]) => (
    {name: name === "optimizer" ? "optimizer state" : name, seconds: value, parts: [[name, value]]})));
  const rows = (entries) => entries.filter((entry) => entry.stall_seconds > 0).slice(0, 12).map((entry) => (
    {name: entry.name, seconds: entry.stall_seconds, parts: Object.entries(entry.causes)}));
  bars("Modules that waited", "Coloured by cause.", rows(waits.modules));
  bars("Operators that waited", null, rows(waits.operators));
}
function table(head, rows) {
  const node = make("table", make("div", page, null, {class: "scroll"}));
  const add = (cells, tag) => {
    const row = make("tr", node);
    cells.forEach((cell, i) => make(tag, row, cell, i ? {class: "n"} : {}));
  };
  add(head, "th");
  for (const row of rows) add(row, "td");
}
function largest() {
  if (!line.tensors.length) return;
  section("Largest tensors");
  const there = (tensor) => tensor.percent.filter((part) => part !== null);
  table(["tensor", "kind", "bytes", "in memory, on average"], line.tensors.slice(0, 16).map((tensor) => {
    const parts = there(tensor);
    return [tensor.name, tensor.kind, bytes(tensor.bytes), parts.length ?
      Math.round(parts.reduce((a, b) => a + b, 0) / parts.length) + " %" : "–"];
  }));
}
function predicted() {
  const rows = data.predictions;
  if (!rows.length) return;
  section("Predicted and actual", data.prediction_note);
  table(["", "memory", "a step takes", "read", "written"], [["measured, median", bytes(run.budget_bytes),
    seconds(run.median_step_seconds), "", ""]].concat(rows.map((row) => [row.label, bytes(row.memory_bytes),
    seconds(row.step_seconds), bytes(row.read_bytes), bytes(row.write_bytes)])));
}

make("h1", page, "ebb report");
make("div", page, run.command.join(" "), {class: "command"});
const tiles = make("div", page, null, {class: "tiles"});
for (const [name, value] of data.tiles) make("b", make("div", tiles, name, {class: "tile"}), value);
section("In words");
const list = make("ul", page, null, {class: "advice"});
for (const text of data.advice) make("li", list, text);
if (line.at.length > 1) {
  memory();
  const reset = make("button", page, "whole run");
  reset.addEventListener("click", () => zoom(0, last));
  tensors();
  lanes();
}
stalls();
largest();
predicted();
section("What flash was written", data.wear);
section("The run", run.policy + "; " + run.description);
for (const draw of drawings) draw();
let pending = 0;
addEventListener("resize", () => {
  clearTimeout(pending); pending = setTimeout(() => drawings.forEach((draw) => draw()), 100); });
)js";

}  // namespace ebb::cli

/** Bars over days as SVG, with a text for every bar. */
import { svg } from "./dom.js";

const HEIGHT = 160;
const BOTTOM = 20;
const LEFT = 56;
const RIGHT = 8;

/** Returns a chart of `{label, value, text}`; `tick(value)` is the text of the scale. */
export function barChart(bars, width, tick) {
  const most = Math.max(...bars.map((bar) => bar.value), 0);
  const top = niceTop(most);
  const chart = svg("svg", { viewBox: `0 0 ${width} ${HEIGHT + BOTTOM}`, class: "bar-chart", role: "img", width, height: HEIGHT + BOTTOM });
  const wide = (width - LEFT - RIGHT) / Math.max(1, bars.length);
  for (const part of [0, 0.5, 1]) {
    const y = HEIGHT - part * (HEIGHT - 12);
    chart.append(svg("line", { x1: LEFT, x2: width - RIGHT, y1: y, y2: y, class: "grid-line" }));
    chart.append(text(LEFT - 6, y + 4, tick(top * part), "end"));
  }
  const every = Math.ceil(60 / wide);
  bars.forEach((bar, at) => {
    const high = top > 0 ? (bar.value / top) * (HEIGHT - 12) : 0;
    const x = LEFT + at * wide;
    const shown = bar.value > 0 ? Math.max(2, high) : 0;
    const rect = svg("rect", { x: x + Math.min(3, wide * 0.15), y: HEIGHT - shown, width: Math.max(1, wide - Math.min(6, wide * 0.3)), height: shown, rx: 2, class: "bar-rect" });
    rect.append(svg("title", {}, `${bar.label}: ${bar.text}`));
    chart.append(rect);
    if ((bars.length - 1 - at) % every === 0) chart.append(text(Math.min(x + wide / 2, width - RIGHT - 16), HEIGHT + 15, bar.label.slice(5), "middle"));
  });
  return chart;
}

function text(x, y, content, anchor) {
  return svg("text", { x, y, "text-anchor": anchor, class: "chart-text" }, content);
}

/** Returns the smallest of 1, 2, 5 × 10ⁿ that is not below `value`. */
function niceTop(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((factor) => factor * power).find((top) => top >= value);
}

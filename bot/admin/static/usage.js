// Draws canvases as bars and turns as a line; the colours are those of the page, light or dark.
"use strict";

(() => {
  const place = document.getElementById("usage-chart");
  const data = JSON.parse(place.dataset.chart);
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const places = data.labels.map((_, index) => index);
  const day = (index) => (Number.isInteger(index) ? data.labels[index] ?? "" : "");
  let chart = null;

  const draw = () => {
    const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line") }, ticks: { stroke: colour("--line") } };
    const settings = {
      width: place.clientWidth,
      height: 240,
      cursor: { points: { fill: (_, index) => colour(index === 1 ? "--canvas" : "--person") } },
      scales: { x: { time: false, range: [-0.6, places.length - 0.4] }, y: { range: (_, low, high) => [0, high || 1] }, turns: { range: (_, low, high) => [0, high || 1] } },
      axes: [
        { ...axis, space: 90, incrs: [1, 2, 3, 6, 7, 12, 14, 28, 56, 112, 364], values: (_, at) => at.map((index) => day(index).slice(5)) },
        { ...axis, size: 64 },
        { ...axis, scale: "turns", side: 1, size: 56, grid: { show: false } },
      ],
      series: [
        { label: data.unit, value: (_, index) => (index === null ? "" : day(index)) },
        { label: "Canvases", stroke: colour("--canvas"), fill: colour("--canvas"), paths: uPlot.paths.bars({ size: [0.7, 60] }), points: { show: false } },
        { label: "Turns", scale: "turns", stroke: colour("--person"), width: 2, points: { show: places.length < 60, fill: colour("--paper") } },
      ],
    };
    chart?.destroy();
    chart = new uPlot(settings, [places, data.canvases, data.turns], place);
  };

  draw();
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  new ResizeObserver(() => {
    if (chart.width !== place.clientWidth) chart.setSize({ width: place.clientWidth, height: 240 });
  }).observe(place);
})();

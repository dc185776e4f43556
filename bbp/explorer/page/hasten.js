// What Bokeh does on every redraw, more than half of its time, and what stands still on this page. Each entry replaces one
// method of Bokeh's own by a shorter way to the same picture, and only where that method is; `undo` puts all back.
//   colours   asks the style sheets for the colour of every stroke: this page has none there
//   places    writes the place of every element anew, after which the browser looks at all styles again: only new ones are written
//   font      asks the browser for the figure's font size at every label: it never changes
//   sizes     measures all numbers of an axis to learn its width: here the axis' label stands at a fixed distance, so width is too
//   heights   looks at every letter of a number anew to tell how high it stands: a text keeps its height
//   widths    and measures it at each use
//   squares   strokes each square of a sweep file by itself: here they are one path, as they all look alike
//   bars      likewise its error bars
//   extents   measures them once more to place that label
"use strict";
window.bbpHasten = function (figures) {
  const undo = [], done = [];
  const owner = (thing, name) => { while (thing && !Object.hasOwn(thing, name)) thing = Object.getPrototypeOf(thing); return thing; };
  function replace(what, thing, name, make) {
    const holder = owner(thing, name), old = holder && Object.getOwnPropertyDescriptor(holder, name);
    if (!old || !(old.get || typeof old.value === "function") || (old.set && name !== "base_font_size")) return;
    const made = make(old.get || old.value);
    Object.defineProperty(holder, name, old.get ? { configurable: true, get: made, set: old.set } : { configurable: true, writable: true, value: made });
    undo.push(() => Object.defineProperty(holder, name, old));
    done.push(what);
  }
  const plot = Bokeh.index.find_one(figures[0]), axis = Bokeh.index.find_one(figures[0].below[0]);
  const still = (view) => view.model.axis_label_standoff_mode === "axis" && view.model.axis_label != null;
  replace("colours", axis && axis.visuals && axis.visuals.axis_line, "_get_css_value", () => () => "");
  replace("places", axis && axis.position, "_update", (update) => function (css) { if (css !== this.written) { this.written = css; update.call(this, css); } });
  replace("font", plot, "base_font_size", (find) => function () { return (this.font_found ??= find.call(this)); });
  replace("sizes", axis, "get_size", (measure) => function () {
    if (this.size_found) return this.size_found;
    const size = measure.call(this);
    if (still(this) && size.height > 0) this.size_found = size;
    return size;
  });
  const label = axis && axis.compute_labels && axis.compute_labels(axis.tick_coords.major[axis.dimension]).items[0];
  const heights = new Map(), widths = new Map();
  const kept = (map, key, make) => {
    if (!map.has(key)) { if (map.size > 5000) map.clear(); map.set(key, make()); }
    return map.get(key);
  };
  replace("heights", label, "infer_text_height", (infer) => function () { return kept(heights, this.text, () => infer.call(this)); });
  replace("widths", label, "_size", (measure) => function () {
    if (this.width || this.height || this.text_height_metric) return measure.call(this);
    return kept(widths, [this.font, this.line_height, this.text].join("|"), () => measure.call(this));
  });
  const glyphs = figures.flatMap((figure) => figure.renderers).filter((renderer) => renderer.data_source && renderer.data_source.name === "sweep")
    .map((renderer) => Bokeh.index.find_one(renderer)).filter((view) => view && view.glyph).map((view) => view.glyph);
  const alike = (view) => view.model.tags.includes("alike");
  replace("squares", glyphs.find((view) => view.model.type === "Scatter"), "_paint", (paint) => function (ctx, indices, data) {
    if (!alike(this)) { paint.call(this, ctx, indices, data); return; }
    const { sx, sy, size } = { ...this, ...data };
    ctx.beginPath();
    for (const i of indices) {
      const half = size.get(i) / 2;
      if (Number.isFinite(sx[i] + sy[i])) ctx.rect(sx[i] - half, sy[i] - half, 2 * half, 2 * half);
    }
    if (indices.length) this.visuals.line.apply(ctx, indices[0]);
  });
  replace("bars", glyphs.find((view) => view.model.type === "Segment"), "_paint", (paint) => function (ctx, indices, data) {
    if (!alike(this)) { paint.call(this, ctx, indices, data); return; }
    const { sx0, sy0, sx1, sy1 } = { ...this, ...data };
    ctx.beginPath();
    for (const i of indices) {
      if (Number.isFinite(sx0[i] + sy0[i] + sx1[i] + sy1[i])) { ctx.moveTo(sx0[i], sy0[i]); ctx.lineTo(sx1[i], sy1[i]); }
    }
    if (indices.length) this.visuals.line.apply(ctx, indices[0]);
  });
  replace("extents", axis, "extents", (measure) => function () {
    return still(this) && this.size_found ? { tick: this._tick_extent(), tick_labels: [], tick_label: 0, axis_label: 0 } : measure.call(this);
  });
  return { done, undo: () => { while (undo.length) undo.pop()(); } };
};

// The backend of an exported page: what the server would answer, interpolated between the points that the file holds.
"use strict";
window.bbpGrid = (function () {
  let held = null, tables = {}, board = null, blank = null;
  const DIGITS = 3, asked = location.search; // before the page writes its own
  const shown = (v) => (v === null || Number.isNaN(v) ? "none" : String(Number(v.toPrecision(DIGITS))).replace("-", "\u2212"));

  function decode() {
    for (const [name, text] of Object.entries(held.arrays)) {
      const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
      tables[name] = name.endsWith("_steps") ? new Uint16Array(bytes.buffer) : new Float32Array(bytes.buffer);
    }
    for (const name of ["log_distance", "log_density"]) {
      const steps = tables[name + "_steps"], ends = tables[name + "_ends"], rows = ends.length / 2;
      tables[name] = Float32Array.from(steps, (step, k) => {
        const row = Math.floor(k / held.nodes);
        return ends[row] + ((ends[rows + row] - ends[row]) * step) / 65535;
      });
    }
  }
  // Place of x among rising `points`: index on the left, and weight of the right neighbour.
  function place(points, x) {
    let i = 0;
    while (i < points.length - 2 && points[i + 1] <= x) i += 1;
    return [i, Math.min(1, Math.max(0, (x - points[i]) / (points[i + 1] - points[i] || 1)))];
  }
  // The four of the rising `points` about x: index of the first, and the weights of the cubic through them.
  function cubic(points, x) {
    const first = Math.max(0, Math.min(points.length - 4, points.findLastIndex((point) => point <= x) - 1)), near = points.slice(first, first + 4);
    return [first, near.map((at) => near.reduce((so, other) => (other === at ? so : (so * (x - other)) / (at - other)), 1))];
  }
  const mix = (u, v, w) => u * (1 - w) + v * w;

  function thresholds(pair, a) {
    const [i, w] = place(held.logFine, Math.log(a)), at = pair * held.a_fine.length + i;
    const line = (name) => mix(tables[name][at], tables[name][at + 1], w);
    const alpha = Math.exp(mix(Math.log(tables.alpha_bbp[at]), Math.log(tables.alpha_bbp[at + 1]), w));
    const a_c = tables.a_c[pair], jumps = a >= a_c;
    return { alpha, a_c, jumps, jump: jumps ? line("jump") : 0, alpha_0: jumps ? line("alpha_0") : alpha };
  }
  function branch(pair, a) {
    const [i, w] = place(held.logCurves, Math.log(a)), size = held.branch.length, at = (pair * held.a_curves.length + i) * size;
    const row = (name) => Float64Array.from(held.branch, (_, k) => mix(tables[name][at + k], tables[name][at + size + k], w));
    return { edge: row("edge"), outlier: row("outlier"), overlap: row("overlap") };
  }
  function along(row, ratio) {
    const middle = held.branch.findIndex((s, k) => k > 0 && held.branch[k - 1] === s);
    const first = ratio <= 1 ? 0 : middle, points = held.branch.slice(first, ratio <= 1 ? middle : undefined);
    const [i, w] = place(points, ratio);
    return mix(row[first + i], row[first + i + 1], w);
  }
  // From the edge on: there the density is 0.
  function spectrum(pair, a, ratio, edge) {
    const [i, w] = cubic(held.logA, Math.log(a)), [j, v] = cubic(held.logRatios, Math.log(ratio)), n = held.nodes;
    const line = (name) => {
      const found = new Float64Array(n), table = tables[name];
      w.forEach((left, column) => v.forEach((right, row) => {
        const at = ((pair * held.a.length + i + column) * held.ratios.length + j + row) * n;
        for (let k = 0; k < n; k++) found[k] += left * right * table[at + k];
      }));
      return found.map(Math.exp);
    };
    return { lam: Float64Array.from([0, ...line("log_distance")], (v) => edge + v), rho: Float64Array.from([0, ...line("log_density")]) };
  }
  function phases(p_star, alpha) {
    const rows = held.widths.length, columns = held.a_fine.length, codes = new blank.constructor(rows * columns, [rows, columns]);
    const line = { a: [], row: [] }, table = { p: [], a: [], alpha_bbp: [], alpha_0: [], a_c: [] };
    held.widths.forEach((p, row) => {
      const pair = row * held.teachers.length + held.teachers.indexOf(p_star), a_c = tables.a_c[pair];
      if (a_c > 0) { line.a.push(a_c); line.row.push(row); }
      for (let k = 0; k < columns; k++) {
        const at = pair * columns + k, jumps = held.a_fine[k] >= a_c, bbp = tables.alpha_bbp[at], zero = tables.alpha_0[at];
        codes[row * columns + k] = alpha > bbp ? (jumps ? 3 : 2) : jumps && alpha >= zero ? 1 : 0;
        for (const [name, v] of Object.entries({ p, a: held.a_fine[k], alpha_bbp: bbp, alpha_0: zero, a_c })) table[name].push(v);
      }
    });
    return { image: { image: [codes] }, a_c: line, thresholds: table };
  }

  // Values as numbers, or words about what is wrong with them.
  function checked(values) {
    const number = (name) => (String(values[name]).trim().replace("∞", "inf") === "inf" ? Infinity : Number(values[name]));
    const p = number("p"), p_star = number("p_star"), a = number("a"), alpha = number("alpha");
    const row = held.widths.findIndex((width) => (width === "inf" ? Infinity : width) === p);
    if (row < 0) return "This file holds p = " + held.widths.join(", ") + ".";
    if (!held.teachers.includes(p_star)) return "This file holds p* = " + held.teachers.join(", ") + ".";
    const low = held.a[0], high = held.a[held.a.length - 1];
    if (!(a >= low * 0.9999 && a <= high * 1.0001)) return "a must lie between " + low.toPrecision(3) + " and " + high.toPrecision(3) + " in this file.";
    const pair = row * held.teachers.length + held.teachers.indexOf(p_star), start = thresholds(pair, a).alpha;
    const ends = [held.branch[0] * start, held.branch[held.branch.length - 1] * start];
    if (!(alpha >= ends[0] * 0.9999 && alpha <= ends[1] * 1.0001)) return "α must lie between " + ends.map(shown).join(" and ") + " for this model in this file.";
    return { p, p_star, a, alpha, row, pair };
  }
  const filled = (text, values) => Object.entries(values).reduce((so, [name, v]) => so.replaceAll("{" + name + "}", String(v)), text);

  function answer(message) {
    const found = checked(message.values);
    if (typeof found === "string") return { serial: message.serial, error: found, name: message.name, sources: {}, lines: {}, axes: {} };
    const { p, p_star, a, alpha, row, pair } = found;
    const here = thresholds(pair, a), ratio = alpha / here.alpha, curve = branch(pair, a);
    const edge = along(curve.edge, ratio), whole = spectrum(pair, a, ratio, edge);
    const out = ratio > 1 ? along(curve.outlier, ratio) : null, overlap = ratio > 1 ? along(curve.overlap, ratio) : 0;
    const alphas = Float64Array.from(held.branch, (s) => s * here.alpha), atom = Math.max(0, 1 - alpha), end = alphas[alphas.length - 1];
    const outside = curve.outlier.map((v, k) => (held.branch[k] < 1 || held.branch[k + 1] === held.branch[k] ? NaN : v));
    const sorted = [...whole.rho].sort((u, v) => u - v), top = Math.min(sorted[sorted.length - 1], 3 * sorted[Math.floor(0.9 * sorted.length)]);
    const right = whole.lam[whole.lam.length - 1], lowest = out === null ? edge : out, width = Math.max(1.5 * (edge - lowest), 0.25 * Math.abs(edge), 1e-3);
    const inside = [...whole.lam.keys()].filter((k) => whole.lam[k] <= edge + width), near = Math.max(...inside.map((k) => whole.rho[k]), 0) || top;
    const all = [...curve.edge, ...[...outside].filter((v) => !Number.isNaN(v))], low = Math.min(...all), high = Math.max(...all), room = 0.06 * (high - low) || 0.1;
    const seen = phases(p_star, alpha), kind = here.jumps ? "discontinuous" : "continuous", marks = out === null ? [] : [out];
    const phase = alpha > here.alpha ? (here.jumps ? 3 : 2) : here.jumps && alpha >= here.alpha_0 ? 1 : 0;
    const values = { p: p === Infinity ? "inf" : p, p_star, a, alpha }, sort = p === Infinity ? "infinite" : "finite";
    return {
      serial: message.serial, values,
      sources: {
        density: whole, zoom: { lam: inside.map((k) => whole.lam[k]), rho: inside.map((k) => whole.rho[k]) },
        outlier: { lam: marks, height: marks.map(() => 0.035 * top), zoom_height: marks.map(() => 0.04 * near) },
        atom: atom > 0 ? { lam: [0], rho: [0], top: [top], text: [" atom " + atom.toPrecision(3)] } : { lam: [], rho: [], top: [], text: [] },
        branch: { alpha: alphas, edge: curve.edge, outlier: outside, overlap: curve.overlap },
        phases: seen.image, a_c: seen.a_c, thresholds: seen.thresholds, present: { a: [a], row: [row] },
      },
      lines: { edge, zoom_edge: edge, lowest_here: alpha, recovery_here: alpha, lowest_bbp: here.alpha, recovery_bbp: here.alpha,
        recovery_zero: here.jumps && !Number.isNaN(here.alpha_0) ? here.alpha_0 : null },
      axes: {
        spectrum: [lowest - 0.06 * (right - lowest), right, 0, 1.05 * top], zoom: [lowest - 0.35 * width, edge + width, 0, 1.25 * near],
        lowest: [0, end, low - room, high + room], recovery: [0, end, -0.02, Math.max(0.3, Math.min(1.02, 1.25 * Math.max(...curve.overlap)))],
      },
      words: {
        phase: held.phases[phase], alpha_bbp: shown(here.alpha) + " " + kind, jump: shown(here.jump), alpha_0: shown(here.alpha_0),
        alpha_0_continuation: "not in this file", a_c: shown(here.a_c), edge: shown(edge), outlier: shown(out), overlap: shown(overlap), atom: shown(atom),
        "spectrum-words": "Density of eigenvalues at α = " + shown(alpha) + ": left edge at " + shown(edge) + "; " + (out === null ? "no outlier" : "outlier at " + shown(out) + ", squared overlap " + shown(overlap)) + ".",
        "lowest-words": "Edge and outlier for α up to " + shown(end) + ": the outlier leaves the bulk at α_BBP = " + shown(here.alpha) + " (" + kind + ").",
        "recovery-words": "Squared overlap q² against α: 0 up to α_BBP = " + shown(here.alpha) + (here.jumps ? ", then it jumps to " + shown(here.jump) : ", then it grows from 0") + ".",
        "phases-words": "Phase diagram over a and p for p* = " + p_star + " at α = " + shown(alpha) + ": the present point is " + held.phases[phase] + ".",
        command: filled(held.commands[sort], Object.assign({ n: held.n }, values)), python: filled(held.lines[sort], values),
        query: new URLSearchParams(values).toString(),
      },
    };
  }

  function start(figures, sources, lines) {
    held = window.bbpGrid.held;
    held.logA = held.a.map(Math.log); held.logCurves = held.a_curves.map(Math.log); held.logFine = held.a_fine.map(Math.log); held.logRatios = held.ratios.map(Math.log);
    decode();
    const source = sources.find((model) => model.name === "phases"), data = source.data instanceof Map ? source.data.get("image") : source.data.image;
    blank = data[0];
    window.bbp.start(figures, sources, lines, { ask: (message) => { if (message.do === "state") queueMicrotask(() => window.bbp.hear(answer(message))); } });
    const values = {};
    for (const [name, value] of new URLSearchParams(asked)) values[name] = value;
    window.bbp.move(values);
  }
  return { start, answer, held: null };
})();
